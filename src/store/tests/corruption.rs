//! Damaged files: a typed error or a reported problem, never a panic or a wrong answer.

use std::{fs::OpenOptions, os::unix::fs::FileExt};

use super::{super::layout::vectors::HEADER_BYTES, *};

fn flip(path: &Path, at: u64) {
    let file = OpenOptions::new().read(true).write(true).open(path).unwrap();
    let mut byte = [0];
    file.read_exact_at(&mut byte, at).unwrap();
    file.write_all_at(&[byte[0] ^ 0x40], at).unwrap();
}

fn open_error(dir: &Path) -> StoreError {
    Store::open(dir).map(|_| ()).expect_err("a damaged index was opened")
}

fn is_corrupt(error: &StoreError, name: &str) -> bool {
    matches!(error, StoreError::Corrupt { file, .. } if *file == name)
}

#[test]
fn every_byte_of_the_manifest() {
    let (dir, model) = sample();
    let path = dir.path().join("MANIFEST");
    let whole = fs::read(&path).unwrap();
    for at in 0..whole.len() as u64 {
        flip(&path, at);
        assert!(is_corrupt(&open_error(dir.path()), "MANIFEST"), "byte {at}");
        flip(&path, at);
    }
    for len in [0, 1, 127] {
        fs::write(&path, &whole[..len]).unwrap();
        assert!(is_corrupt(&open_error(dir.path()), "MANIFEST"), "{len} bytes");
    }
    fs::write(&path, [&whole[..], b"x"].concat()).unwrap();
    assert!(is_corrupt(&open_error(dir.path()), "MANIFEST"));
    fs::write(&path, whole).unwrap();
    assert_is(&Store::open(dir.path()).unwrap(), &model);
}

#[test]
fn the_header_of_the_vector_file() {
    let (dir, _) = sample();
    let path = dir.path().join("vectors.f16");
    for at in [0, 8, 12, 16, 24, 40, 2000, 4092, 4095] {
        flip(&path, at);
        assert!(is_corrupt(&open_error(dir.path()), "vectors.f16"), "byte {at}");
        flip(&path, at);
    }
    let (other, _) = sample();
    fs::copy(other.path().join("vectors.f16"), &path).unwrap();
    let error = open_error(dir.path());
    assert!(matches!(error, StoreError::Corrupt { detail: Damage::Foreign, .. }), "{error}");
}

#[test]
fn a_short_vector_file() {
    let (dir, _) = sample();
    let path = dir.path().join("vectors.f16");
    let committed = HEADER_BYTES as u64 + 301 * 16;
    for len in [committed - 1, HEADER_BYTES as u64, 100, 0] {
        OpenOptions::new().write(true).open(&path).unwrap().set_len(len).unwrap();
        let error = open_error(dir.path());
        let expected = Damage::TooShort { needed: committed, found: len };
        assert!(matches!(error, StoreError::Corrupt { detail, .. } if detail == expected));
    }
    fs::remove_file(&path).unwrap();
    assert!(is_corrupt(&open_error(dir.path()), "vectors.f16"));
}

#[test]
fn a_row_in_the_last_block_fails_the_open_and_any_other_the_check() {
    let (dir, model) = sample();
    let path = dir.path().join("vectors.f16");
    for row in [256, 300] {
        let at = HEADER_BYTES as u64 + row * 16 + 3;
        flip(&path, at);
        let error = open_error(dir.path());
        let expected = Damage::Checksum { what: "block", number: 1 };
        assert!(matches!(error, StoreError::Corrupt { detail, .. } if detail == expected));
        flip(&path, at);
    }
    flip(&path, HEADER_BYTES as u64 + 255 * 16);
    let store = Store::open(dir.path()).unwrap();
    let report = store.verify().unwrap();
    assert_eq!(report.problem_count, 1);
    assert_eq!(report.problems[0].damage, Damage::Checksum { what: "block", number: 0 });
    flip(&path, HEADER_BYTES as u64 + 255 * 16);
    // What lies behind the committed rows means nothing.
    flip(&path, HEADER_BYTES as u64 + 301 * 16);
    assert_is(&store, &model);
}

/// Changes the database behind the store's back and returns what opening or the full
/// check then say.
fn tampered(dir: &Path, change: impl FnOnce(&sled::Db)) -> Vec<Problem> {
    let copy = tempfile::tempdir().unwrap();
    copy_directory(dir, copy.path());
    let database = open_sled(&copy.path().join("documents"));
    change(&database);
    database.flush().unwrap();
    drop(database);
    match Store::open(copy.path()) {
        Ok(store) => store.verify().unwrap().problems,
        Err(StoreError::Corrupt { file, detail }) => vec![Problem { file, damage: detail }],
        Err(other) => panic!("{other}"),
    }
}

/// sled gives its lock back a little after a handle is dropped.
fn open_sled(path: &Path) -> sled::Db {
    for _ in 0..1000 {
        match sled::open(path) {
            Ok(database) => return database,
            Err(_) => std::thread::sleep(std::time::Duration::from_millis(5)),
        }
    }
    panic!("sled stayed locked");
}

#[test]
fn every_kind_of_entry_missing_flipped_or_stray() {
    let (dir, _) = sample();
    assert_eq!(tampered(dir.path(), |_| ()), []);
    let entries: Vec<(sled::IVec, sled::IVec)> = {
        let database = open_sled(&dir.path().join("documents"));
        database.iter().collect::<Result<_, _>>().unwrap()
    };
    for prefix in *b"Cdprtv" {
        let of_kind: Vec<_> = entries.iter().filter(|(key, _)| key[0] == prefix).collect();
        let (key, value) = of_kind[of_kind.len() / 2];
        let kind = char::from(prefix);
        let gone = tampered(dir.path(), |db| drop(db.remove(key).unwrap()));
        assert_ne!(gone, [], "{kind} missing");
        for at in [0, value.len() / 2, value.len() - 1] {
            let mut flipped = value.to_vec();
            flipped[at] ^= 2;
            let found = tampered(dir.path(), |db| drop(db.insert(key, flipped).unwrap()));
            assert_ne!(found, [], "{kind} flipped at {at}");
        }
        let found = tampered(dir.path(), |db| drop(db.insert(key, b"").unwrap()));
        assert_ne!(found, [], "{kind} emptied");
        let mut longer = key.to_vec();
        longer.extend_from_slice(b"\xff\xff");
        let found = tampered(dir.path(), |db| drop(db.insert(longer, value).unwrap()));
        assert_ne!(found, [], "{kind} stray");
        if let [(one, _), (_, other), ..] = of_kind[..] {
            let found = tampered(dir.path(), |db| drop(db.insert(one, other).unwrap()));
            assert_ne!(found, [], "{kind} exchanged");
        }
    }
    for stray in [&b""[..], b"A", b"z", b"r\0\0\0\x07", b"t\0\0\0\x07\0\0\0\0", b"v\0\0\0\x01"] {
        let found = tampered(dir.path(), |db| drop(db.insert(stray, b"x").unwrap()));
        assert!(matches!(found[..], [Problem { damage: Damage::Stray { .. }, .. }]), "{found:?}");
    }
}

/// sled opens at the last intact place of its log; what a flush promised must not be
/// gone without a word.
#[test]
fn a_database_that_went_back_in_time() {
    let (dir, model) = sample();
    let old = tempfile::tempdir().unwrap();
    copy_directory(&dir.path().join("documents"), old.path());
    let store = Store::open(dir.path()).unwrap();
    store.commit(puts(vec![put("late", 1, &[1])])).unwrap();
    drop(store);
    fs::remove_dir_all(dir.path().join("documents")).unwrap();
    copy_directory(old.path(), &dir.path().join("documents"));
    let error = open_error(dir.path());
    let expected = Damage::Disagreement { what: "the newest generation left", expected: 4, found: 3 };
    assert!(matches!(error, StoreError::Corrupt { detail, .. } if detail == expected));
    fs::remove_file(dir.path().join("FLUSHED")).unwrap();
    assert!(is_corrupt(&open_error(dir.path()), "FLUSHED"));
    assert_eq!(model.len(), 299);
}

/// Any byte of the log: never a panic, and never another answer than before.
#[test]
fn flipped_bytes_of_the_database_log() {
    let (dir, model) = sample();
    let whole = fs::read(dir.path().join("documents/db")).unwrap();
    let mut refused = 0;
    for n in 0..40 {
        let copy = tempfile::tempdir().unwrap();
        copy_directory(dir.path(), copy.path());
        let mut bytes = whole.clone();
        let at = n * bytes.len() / 40 + n * 37 % 1000;
        bytes[at] ^= 0x21;
        fs::write(copy.path().join("documents/db"), bytes).unwrap();
        match Store::open(copy.path()) {
            // What no page uses any more may be damaged without harm.
            Ok(store) if store.verify().unwrap().is_sound() => assert_is(&store, &model),
            Ok(_) => refused += 1,
            Err(StoreError::Corrupt { .. } | StoreError::Io { .. } | StoreError::Database { .. }) => {
                refused += 1;
            }
            Err(other) => panic!("byte {at}: {other}"),
        }
    }
    assert!(refused > 0);
}

#[test]
fn a_database_that_is_gone() {
    for name in ["db", "conf"] {
        let (dir, _) = sample();
        fs::remove_file(dir.path().join("documents").join(name)).unwrap();
        assert!(is_corrupt(&open_error(dir.path()), "documents"), "{name}");
    }
    let (dir, _) = sample();
    fs::remove_dir_all(dir.path().join("documents")).unwrap();
    assert!(is_corrupt(&open_error(dir.path()), "documents"));
    assert!(!dir.path().join("documents").exists());
}
