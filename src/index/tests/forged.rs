//! Directories that are not what a handle expects.

use std::os::unix::fs::symlink;

use tempfile::TempDir;

use super::*;
use crate::error::Error;
use crate::index::RepairOptions;
use crate::progress::no_progress;
use crate::store::{Damage, Store, StoreConfig, StoreError, StoreOptions};

fn filled(bundle: &Bundle) -> (TempDir, std::path::PathBuf, Index) {
    let dir = in_memory().unwrap();
    let path = dir.path().join("index");
    let index = create(unsynced(), &path, bundle).unwrap();
    index.insert_batch(documents(0, 5)).unwrap();
    index.flush().unwrap();
    (dir, path, index)
}

fn refused(path: &Path) -> StoreError {
    match (open(unsynced(), path).err(), Index::open_read_only(path).err()) {
        (Some(Error::Store(error)), Some(Error::Store(read_only))) => {
            assert_eq!(error.to_string(), read_only.to_string());
            error
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_store_of_another_shape_than_its_model_is_refused() {
    let bundles = Bundles::new();
    let sound = StoreConfig {
        dim: 8,
        branching_factor: 3,
        height: 1,
        similarity: 0,
        model_hash: bundles.a.hash(),
        terms: 1,
        passages: None,
        expires: None,
    };
    let (dir, path, index) = filled(&bundles.a);
    assert_eq!(
        *index.serving().store.config(),
        StoreConfig { similarity: index.similarity().code(), ..sound.clone() }
    );
    drop(index);
    let sound = StoreConfig { similarity: 1, ..sound.clone() };
    for (config, expected) in [
        (StoreConfig { dim: 16, ..sound.clone() }, 16),
        (StoreConfig { branching_factor: 4, ..sound.clone() }, 4),
        (StoreConfig { height: 2, ..sound.clone() }, 2),
    ] {
        let forged = dir.path().join("forged");
        copy_directory(&path, &forged);
        for name in ["MANIFEST", "MANIFEST.copy", "segments", "log"] {
            let gone = forged.join("models/1").join(name);
            if gone.is_dir() { fs::remove_dir_all(gone).unwrap() } else { fs::remove_file(gone).unwrap() }
        }
        drop(Store::create(forged.join("models/1"), &config, StoreOptions::default()).unwrap());
        match refused(&forged) {
            StoreError::Corrupt { detail: Damage::Disagreement { expected: said, .. }, .. } => {
                assert_eq!(said, expected);
            }
            error => panic!("{error}"),
        }
        fs::remove_dir_all(forged).unwrap();
    }
}

#[test]
fn links_in_the_place_of_directories_are_refused() {
    let bundles = Bundles::new();
    let (dir, path, index) = filled(&bundles.a);
    drop(index);
    for name in ["models", "models/1", "models/1/segments", "models/1/model"] {
        let (own, away) = (path.join(name), dir.path().join("away"));
        fs::rename(&own, &away).unwrap();
        symlink(&away, &own).unwrap();
        let error = refused(&path);
        assert!(matches!(&error, StoreError::Io { path, .. } if *path == own), "{name}: {error}");
        fs::remove_file(&own).unwrap();
        fs::rename(&away, &own).unwrap();
    }
    // The index directory itself may be reached by a link.
    let link = dir.path().join("link");
    symlink(&path, &link).unwrap();
    let index = open(unsynced(), &link).unwrap();
    assert_eq!(index.path(), path.canonicalize().unwrap());
    assert_eq!(index.len(), 5);
}

/// A directory replaced by a copy, or written to by a process without our lock: neither is changed.
#[test]
fn a_directory_that_is_another_one_by_now_is_not_written_to() {
    let bundles = Bundles::new();
    let listed = |path: &Path| [path.to_owned(), path.join("models")].map(|path| names(&path));
    type Replace = fn(&Path, &Path);
    let replaced: [(&str, Replace); 3] = [
        ("the directory", |path, away| {
            fs::rename(path, away).unwrap();
            copy_directory(away, path);
        }),
        ("CURRENT, by its own bytes", |path, _| {
            let bytes = fs::read(path.join("CURRENT")).unwrap();
            fs::write(path.join("other"), bytes).unwrap();
            fs::rename(path.join("other"), path.join("CURRENT")).unwrap();
        }),
        ("CURRENT, removed", |path, _| fs::remove_file(path.join("CURRENT")).unwrap()),
    ];
    for (what, replace) in replaced {
        let (dir, path, index) = filled(&bundles.a);
        index.reencode(&bundles.b).unwrap();
        let away = dir.path().join("away");
        replace(&path, &away);
        let before = listed(&path);
        type Change<'a> = &'a dyn Fn(&Index) -> Result<()>;
        let changes: [Change<'_>; 2] =
            [&|index| index.reencode(&bundles.c).map(drop), &|index| index.drop_previous_model().map(drop)];
        for (change, first) in changes.iter().zip([true, false]) {
            match change(&index) {
                Err(Error::Store(StoreError::Replaced { .. })) if first => {}
                Err(Error::Store(StoreError::Poisoned)) if !first => {}
                other => panic!("{what}: {other:?}"),
            }
        }
        assert_eq!(listed(&path), before, "{what}");
        let written = index.insert_batch(documents(5, 6));
        assert!(matches!(written, Err(Error::Store(StoreError::Poisoned))), "{what}: {written:?}");
    }
}

#[test]
fn a_reader_of_another_index_says_so() {
    let bundles = Bundles::new();
    let (dir, path, index) = filled(&bundles.a);
    let reader = Index::open_read_only(&path).unwrap();
    let other = dir.path().join("other");
    index.snapshot(&other).unwrap();
    drop(index);
    fs::rename(&path, dir.path().join("away")).unwrap();
    fs::rename(&other, &path).unwrap();
    assert!(matches!(reader.refresh(), Err(Error::Store(StoreError::Replaced { .. }))));
    assert_eq!(reader.len(), 5);
}

/// Repair of `CURRENT` and its copy: what can be proven is recreated, and nothing else.
#[test]
fn a_lost_current_is_made_again_where_that_is_certain() {
    let bundles = Bundles::new();
    let repair = |path: &Path| Index::repair(path, &RepairOptions::default(), &mut no_progress);
    let damage = |path: &Path| fs::write(path, "not what it was").unwrap();
    // One model: nothing else can be in service.
    for gone in [&["CURRENT"][..], &["CURRENT", "CURRENT.copy"]] {
        for remove in [false, true] {
            let (_dir, path, index) = filled(&bundles.a);
            drop(index);
            for name in gone {
                if remove { fs::remove_file(path.join(name)).unwrap() } else { damage(&path.join(name)) }
            }
            assert!(open(unsynced(), &path).is_err());
            let report = repair(&path).unwrap();
            assert!(report.current_restored && !report.was_sound(), "{report:?}");
            assert_eq!(report.set_aside.len(), usize::from(!remove), "{report:?}");
            let state = State::new(&bundles.a).with(&documents(0, 5));
            let index = open(unsynced(), &path).unwrap();
            check(&index, std::slice::from_ref(&state)).unwrap();
            index.reencode(&bundles.b).unwrap();
            check(&index, &[state.served_by(&bundles.b)]).unwrap();
        }
    }
    // Two models: the copy decides, and without it nothing does.
    let (_dir, path, index) = filled(&bundles.a);
    index.reencode(&bundles.b).unwrap();
    drop(index);
    damage(&path.join("CURRENT"));
    assert!(repair(&path).unwrap().current_restored);
    let index = open(unsynced(), &path).unwrap();
    assert_eq!(index.bundle().hash(), bundles.b.hash());
    assert_eq!(index.previous_model().unwrap(), Some(bundles.a.hash()));
    drop(index);
    damage(&path.join("CURRENT"));
    damage(&path.join("CURRENT.copy"));
    let before = names(&path);
    let [first, second] = ["models/1", "models/2"].map(|name| path.canonicalize().unwrap().join(name));
    for remove in [false, true] {
        if remove {
            ["CURRENT", "CURRENT.copy"].iter().for_each(|name| fs::remove_file(path.join(name)).unwrap());
        }
        match repair(&path) {
            Err(Error::Store(StoreError::SeveralModels { models })) => {
                assert_eq!(models, [second.clone(), first.clone()]);
            }
            other => panic!("{other:?}"),
        }
        assert!(remove || names(&path) == before);
    }
    // As the error says.
    fs::rename(&first, path.with_file_name("away")).unwrap();
    assert!(repair(&path).unwrap().current_restored);
    assert_eq!(open(unsynced(), &path).unwrap().bundle().hash(), bundles.b.hash());
}
