//! Indexes that share the large files of their models.

use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::path::PathBuf;
use std::thread;
use std::time::Duration;

use super::*;
use crate::index::RepairOptions;
use crate::model::ENCODER_FILE;
use crate::progress::no_progress;

struct Shared {
    dir: tempfile::TempDir,
    bundles: Bundles,
}

impl Shared {
    fn new() -> Self {
        Self { dir: in_memory().unwrap(), bundles: Bundles::new() }
    }

    fn models(&self) -> PathBuf {
        self.dir.path().join("models")
    }

    fn options(&self) -> IndexBuilder {
        IndexBuilder::default().models(ModelStore::of_small_files(self.models(), 512, DAY))
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn create(&self, name: &str) -> Index {
        let index = self.options().create(self.path(name), &self.bundles.a).unwrap();
        index.insert_batch(documents(0, 5)).unwrap();
        index.flush().unwrap();
        index
    }

    fn kept(&self) -> Vec<PathBuf> {
        fs::read_dir(self.models()).unwrap().map(|entry| entry.unwrap().path()).collect()
    }
}

fn weights(index: &Index) -> PathBuf {
    index.serving().store.path().join(disk::names::BUNDLE).join(ENCODER_FILE)
}

fn inode(path: &Path) -> u64 {
    fs::metadata(path).unwrap().ino()
}

/// Changes a byte in place, as a medium does.
fn damage(path: &Path) {
    fs::set_permissions(path, fs::Permissions::from_mode(0o644)).unwrap();
    let file = OpenOptions::new().read(true).write(true).open(path).unwrap();
    let mut byte = [0];
    let last = file.metadata().unwrap().len() - 1;
    file.read_exact_at(&mut byte, last).unwrap();
    file.write_all_at(&[byte[0] ^ 1], last).unwrap();
}

#[test]
fn indexes_of_a_model_share_its_file_and_its_weights_in_memory() {
    let shared = Shared::new();
    let indexes = ["a", "b", "c"].map(|name| shared.create(name));
    let [a, b, c] = &indexes;
    let bytes = a.stats().unwrap().bytes;
    assert!(bytes.shared_model > 512 && bytes.shared_model < bytes.model, "{bytes:?}");
    assert!(shared.kept().iter().all(|path| fs::metadata(path).unwrap().nlink() == 4));
    assert!(shared.kept().iter().all(|path| fs::metadata(path).unwrap().mode() & 0o222 == 0));
    for other in [b, c] {
        assert_eq!(inode(&weights(a)), inode(&weights(other)));
        assert!(
            a.bundle().model().encoder().unwrap().has_weights_of(other.bundle().model().encoder().unwrap())
        );
    }
    // A copy, and an index that asks for its own file, have weights of their own.
    let own = shared.options().own_model(true).create(shared.path("own"), &shared.bundles.a).unwrap();
    assert_ne!(inode(&weights(a)), inode(&weights(&own)));
    assert!(!a.bundle().model().encoder().unwrap().has_weights_of(own.bundle().model().encoder().unwrap()));
    assert_eq!(own.stats().unwrap().bytes.shared_model, 0);
    // A snapshot shares them too.
    a.snapshot(shared.path("snapshot")).unwrap();
    let snapshot = Index::open(shared.path("snapshot")).unwrap();
    assert_eq!(inode(&weights(a)), inode(&weights(&snapshot)));
    assert_eq!(State::of(a).unwrap(), State::of(&snapshot).unwrap());
    for index in indexes.iter().chain([&own, &snapshot]) {
        assert!(index.verify().unwrap().is_sound());
    }
}

#[test]
fn an_index_outlives_the_folder_of_models_and_other_indexes() {
    let shared = Shared::new();
    let (a, b) = (shared.create("a"), shared.create("b"));
    let before = State::of(&a).unwrap();
    fs::remove_dir_all(shared.models()).unwrap();
    drop(b);
    fs::remove_dir_all(shared.path("b")).unwrap();
    drop(a);
    // Moved, and copied as by `cp -r`.
    fs::rename(shared.path("a"), shared.path("moved")).unwrap();
    copy_directory(&shared.path("moved"), &shared.path("copied"));
    for name in ["moved", "copied"] {
        let index = Index::open(shared.path(name)).unwrap();
        assert_eq!(State::of(&index).unwrap(), before);
        assert!(index.verify().unwrap().is_sound());
        assert_eq!(index.stats().unwrap().bytes.shared_model, 0);
    }
    // The folder is made again.
    let again = shared.create("again");
    assert_eq!(inode(&weights(&again)), inode(&shared.kept()[0]));
}

#[test]
fn damage_of_a_shared_file_is_found_and_mended_in_each_index() {
    let shared = Shared::new();
    let names = ["a", "b"];
    let before = names.map(|name| State::of(&shared.create(name)).unwrap());
    damage(&shared.kept()[0]);
    for name in names {
        let error = Index::open(shared.path(name)).err().unwrap();
        assert!(matches!(error, Error::Model(_)), "{error}");
        let lazy = Index::builder().lazy_encoder(true).open(shared.path(name)).unwrap();
        let report = lazy.verify().unwrap();
        assert!(format!("{:?}", report.problems).contains("share this file"), "{report:?}");
    }
    // The folder of models heals, and repair gives each index the sound file.
    let new = shared.create("new");
    assert!(new.verify().unwrap().is_sound());
    for (name, before) in names.iter().zip(before) {
        let options = RepairOptions { bundle: Some(shared.bundles.a.clone()), ..RepairOptions::default() };
        assert!(Index::repair(shared.path(name), &options, &mut no_progress).unwrap().model_restored);
        let index = Index::open(shared.path(name)).unwrap();
        assert!(index.verify().unwrap().is_sound());
        assert_eq!(State::of(&index).unwrap(), before);
    }
}

#[test]
fn verify_reads_a_file_whose_weights_are_in_memory() {
    let shared = Shared::new();
    let (a, b) = (shared.create("a"), shared.create("b"));
    damage(&weights(&a));
    for index in [&a, &b] {
        assert!(!index.verify().unwrap().is_sound());
        assert_eq!(index.search("tree leaf", 3, 3).unwrap().len(), 3);
    }
}

#[test]
fn a_folder_of_models_that_cannot_be_used_costs_only_room() {
    let shared = Shared::new();
    File::create(shared.models()).unwrap();
    let index = shared.create("a");
    assert!(index.verify().unwrap().is_sound());
    assert_eq!(index.stats().unwrap().bytes.shared_model, 0);
}

#[test]
fn files_without_an_index_are_removed() {
    let shared = Shared::new();
    let (a, b) = (shared.create("a"), shared.create("b"));
    let foreign = shared.models().join("0".repeat(64));
    fs::write(&foreign, "of somebody").unwrap();
    // The remains of an interrupted call.
    let partial = shared.models().join(format!("ehi-{}.{}", "0".repeat(64), "1".repeat(16)));
    fs::write(&partial, "a part").unwrap();
    let create = |name, bundle| {
        let models = ModelStore::of_small_files(shared.models(), 512, Duration::from_secs(1));
        drop(IndexBuilder::default().models(models).create(shared.path(name), bundle).unwrap());
    };
    let used = shared.kept();
    drop((a, b));
    fs::remove_dir_all(shared.path("a")).unwrap();
    thread::sleep(Duration::from_millis(2_100));
    create("c", &shared.bundles.b);
    assert!(!partial.exists() && foreign.exists());
    assert!(used.iter().filter(|path| **path != partial).all(|path| path.exists()));
    fs::remove_dir_all(shared.path("b")).unwrap();
    fs::remove_dir_all(shared.path("c")).unwrap();
    thread::sleep(Duration::from_millis(2_100));
    create("d", &shared.bundles.c);
    let unused = shared.kept().into_iter().filter(|path| fs::metadata(path).unwrap().nlink() == 1);
    assert_eq!(unused.collect::<Vec<_>>(), [foreign]);
}

#[test]
fn a_model_below_the_index_is_not_taken_for_its_own() {
    let shared = Shared::new();
    let index = shared.create("a");
    // By its path it seems to be in the index.
    let given = shared.path("a").join("../given");
    copy_directory(shared.bundles.b.path(), &given);
    index.reencode(&Bundle::open(&given).unwrap()).unwrap();
    assert_ne!(inode(&weights(&index)), inode(&given.join(ENCODER_FILE)));
    damage(&given.join(ENCODER_FILE));
    assert!(index.verify().unwrap().is_sound());
}

#[test]
fn indexes_made_at_once_share_one_file() {
    let shared = Shared::new();
    let shared = &shared;
    let inodes = thread::scope(|scope| {
        let create = |number: usize| inode(&weights(&shared.create(&number.to_string())));
        let made: Vec<_> = (0..6).map(|number| scope.spawn(move || create(number))).collect();
        made.into_iter().map(|made| made.join().unwrap()).collect::<Vec<_>>()
    });
    assert!(inodes.iter().all(|inode| *inode == inodes[0]), "{inodes:?}");
}
