//! A replaced directory: the handle that opened the original writes and removes nothing there.

use std::time::Duration;

use super::{super::layout::names, *};

/// All files below a directory except lock files, with their contents.
fn contents(dir: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut all = BTreeMap::new();
    for entry in fs::read_dir(dir).unwrap().map(|entry| entry.unwrap()) {
        let path = entry.path();
        if entry.file_type().unwrap().is_dir() {
            all.extend(contents(&path));
        } else if !path.ends_with(names::LOCK) {
            all.insert(path.clone(), fs::read(path).unwrap());
        }
    }
    all
}

/// Every write of the handle is refused, repeatedly with the same error, and dropping it changes nothing.
#[track_caller]
fn assert_fenced(store: Store, dir: &Path) {
    let before = contents(dir);
    for _ in 0..2 {
        let refused = [
            store.commit(puts(vec![put("late", 1, 1)])).map(drop),
            store.commit(deletes(&["id001"])).map(drop),
            store.compact(&mut || Ok(())),
            store.snapshot(&dir.join("copy")),
        ];
        for refused in refused {
            assert!(matches!(refused, Err(StoreError::Replaced { .. })), "{refused:?}");
        }
    }
    // Its contents are still shown.
    assert!(store.read().live() > 0);
    drop(store);
    assert!(contents(dir) == before, "files were changed or removed");
}

#[test]
fn a_removed_lock_and_a_second_writer() {
    let (dir, mut model) = sample();
    let first = open(dir.path()).unwrap();
    commit(&first, &mut model, puts(vec![put("in the log", 7, 1)]));
    fs::remove_file(dir.path().join(names::LOCK)).unwrap();
    let second = open(dir.path()).unwrap();
    assert_is(&second, &model);
    commit(&second, &mut model, puts((0..50).map(|n| put(&format!("b{n}"), n, n % LEAVES)).collect()));
    second.flush().unwrap();
    assert_fenced(first, dir.path());
    assert_is(&second, &model);
    drop(second);
    assert_is(&open(dir.path()).unwrap(), &model);
}

#[test]
fn a_directory_that_was_replaced_by_a_backup() {
    let (dir, before) = sample();
    let parent = tempfile::tempdir().unwrap();
    let (place, away) = (parent.path().join("index"), parent.path().join("away"));
    copy_directory(dir.path(), &place);
    let mut lost = before.clone();
    let first = open(&place).unwrap();
    commit(&first, &mut lost, puts(vec![put("in the log", 7, 1)]));
    fs::rename(&place, &away).unwrap();
    copy_directory(dir.path(), &place);
    let second = open(&place).unwrap();
    let mut model = before;
    commit(&second, &mut model, puts((0..50).map(|n| put(&format!("b{n}"), n, n % LEAVES)).collect()));
    second.flush().unwrap();
    drop(second);
    assert_fenced(first, &place);
    assert_is(&open(&place).unwrap(), &model);
    // What the first one had acknowledged is in the moved directory.
    assert_is(&open(&away).unwrap(), &lost);
}

/// A tool that restores files one by one and leaves the lock file alone.
#[test]
fn a_manifest_that_was_put_back() {
    let (dir, _) = sample();
    let manifest = fs::read(dir.path().join(names::MANIFEST)).unwrap();
    let store = open(dir.path()).unwrap();
    let mut model = Model::new();
    commit(&store, &mut model, puts(vec![put("new", 7, 1)]));
    let path = dir.path().join(names::MANIFEST);
    // The same bytes in another file, then other bytes in the same one. Written under another name first: the
    // inode number of a removed file may be reused.
    fs::write(dir.path().join("restored"), &manifest).unwrap();
    fs::rename(dir.path().join("restored"), &path).unwrap();
    let before = contents(dir.path());
    assert!(
        matches!(store.flush(), Err(StoreError::Replaced { path: found }) if found.ends_with("MANIFEST"))
    );
    assert!(matches!(store.commit(deletes(&["id001"])), Err(StoreError::Replaced { .. })));
    drop(store);
    assert!(contents(dir.path()) == before, "files were changed or removed");
    let store = open(dir.path()).unwrap();
    assert_eq!(store.read().live(), 300);
    let mut other = manifest;
    let last = other.len() - 1;
    other[last] ^= 1;
    fs::write(&path, other).unwrap();
    store.commit(puts(vec![put("newer", 7, 1)])).unwrap();
    assert!(matches!(store.flush(), Err(StoreError::Replaced { .. })));
}

#[test]
fn a_lock_says_who_holds_it_and_can_be_waited_for() {
    let (dir, model) = sample();
    let store = open(dir.path()).unwrap();
    let refused = open(dir.path()).unwrap_err();
    assert!(
        refused.to_string().contains(&format!("by process {} (this one)", std::process::id())),
        "{refused}"
    );
    let path = dir.path();
    std::thread::scope(|scope| {
        let options = StoreOptions { lock_wait: Duration::from_secs(60), ..StoreOptions::default() };
        let waiting = scope.spawn(move || Store::open(path, options).unwrap());
        drop(store);
        assert_is(&waiting.join().unwrap(), &model);
    });
}

/// No file of an index may be a link to another index's, so nothing of another index is removed through it.
#[test]
fn links_and_fifos_in_place_of_ours_are_refused() {
    let (other, model) = sample();
    for name in [names::SEGMENTS, names::LOG] {
        let (dir, _) = sample();
        fs::remove_dir_all(dir.path().join(name)).unwrap();
        std::os::unix::fs::symlink(other.path().join(name), dir.path().join(name)).unwrap();
        for refused in [open(dir.path()), Store::open_read_only(dir.path())] {
            let expected = Damage::NotADirectory;
            assert!(matches!(refused, Err(StoreError::Corrupt { detail, .. }) if detail == expected));
        }
    }
    for name in [names::MANIFEST, names::LOCK, "segments/00000000.documents"] {
        let (dir, _) = sample();
        let path = dir.path().join(name);
        fs::remove_file(&path).unwrap();
        let mode = rustix::fs::Mode::from_raw_mode(0o600);
        rustix::fs::mknodat(rustix::fs::CWD, &path, rustix::fs::FileType::Fifo, mode, 0).unwrap();
        // A FIFO without a writer: opening it as a file would never return.
        assert!(open(dir.path()).is_err(), "{name}");
        fs::remove_file(&path).unwrap();
        std::os::unix::fs::symlink(other.path().join(name), &path).unwrap();
        assert!(open(dir.path()).is_err(), "{name}");
    }
    assert_is(&open(other.path()).unwrap(), &model);
}
