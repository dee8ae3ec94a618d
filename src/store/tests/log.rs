//! The log as part of the store: what it recovers, what it refuses, and what it reports.

use proptest::prelude::*;

use super::{super::layout::names, *};

const COMMITS: u32 = 6;

/// A store left with commits in its log, and the states after each of them.
fn left() -> (tempfile::TempDir, Vec<Model>) {
    let (origin, mut model) = sample();
    let image = tempfile::tempdir().unwrap();
    let store = open(origin.path()).unwrap();
    let mut states = vec![model.clone()];
    for n in 0..COMMITS {
        let mut batch = puts((0..n).map(|k| put(&format!("n{n}-{k}"), 10 * n + k, k)).collect());
        batch.deletes = vec![format!("id{n:03}")];
        commit(&store, &mut model, batch);
        states.push(model.clone());
    }
    copy_directory(origin.path(), image.path());
    (image, states)
}

fn log_file(dir: &Path) -> PathBuf {
    let mut logs = fs::read_dir(dir.join(names::LOG)).unwrap();
    let path = logs.next().unwrap().unwrap().path();
    assert!(logs.next().is_none());
    path
}

fn repaired(dir: &Path) -> RepairReport {
    let mut compute = |_: Vec<Document>, _: Vec<Option<Vec<half::f16>>>| -> Result<Vec<Put>> {
        panic!("no embedding is damaged")
    };
    Repair::begin_on(StoreOptions::default().backend(), dir, StoreOptions::default())
        .unwrap()
        .run(
            Undecided::Refuse,
            Anew {
                compute: &mut compute,
                encodes: true,
                elsewhere: &mut |_, _| None,
                lexer: Some(&terms::WordLexer),
            },
            &mut || Ok(()),
        )
        .unwrap()
}

#[test]
fn what_waits_is_told_and_brought_back() {
    let (dir, _) = left();
    let waiting = Notice::Waiting { commits: 6, count: 15, of: Entries::Documents, writer: None };
    // Left by a killed writer whose process id is unused.
    fs::write(dir.path().join(names::LOCK), "process 2147483647\nhost here\nsince 1\n").unwrap();
    let reader = Store::open_read_only(dir.path()).unwrap();
    assert_eq!(reader.notices(), std::slice::from_ref(&waiting));
    assert_eq!(reader.stats().unwrap().memtable_documents, 15);
    let report = reader.verify().unwrap();
    assert!(report.is_sound() && report.warnings == [waiting], "{report:?}");
    // While a writer is active, the message is different.
    let writer = open(dir.path()).unwrap();
    let reader = Store::open_read_only(dir.path()).unwrap();
    match reader.notices() {
        [Notice::Waiting { writer: Some(holder), .. }] => assert_eq!(holder.process, std::process::id()),
        other => panic!("{other:?}"),
    }
    drop(writer);
    let (dir, states) = left();
    let store = open(dir.path()).unwrap();
    assert_eq!(store.notices(), [Notice::TakenOver { commits: 6, count: 15, of: Entries::Documents }]);
    assert_is(&store, &states[6]);
    drop(store);
    let store = open(dir.path()).unwrap();
    assert_eq!(store.notices(), []);
    assert!(store.verify().unwrap().warnings.is_empty());
}

/// A log that belongs to a missing manifest is not dropped: its commits were acknowledged.
#[test]
fn a_log_of_a_later_manifest_is_an_error() {
    let (dir, states) = left();
    let path = log_file(dir.path());
    let later = path.with_file_name("00000900.log");
    fs::rename(&path, &later).unwrap();
    match open(dir.path()) {
        Err(StoreError::Corrupt { file, .. }) => assert_eq!(file, "log/00000900.log"),
        other => panic!("{other:?}"),
    }
    assert!(!Store::open_read_only(dir.path()).unwrap().verify().unwrap().is_sound());
    assert!(later.exists());
    let report = repaired(dir.path());
    assert!(report.log_damaged && report.set_aside.len() == 1 && report.set_aside[0].exists(), "{report:?}");
    let store = open(dir.path()).unwrap();
    assert_is(&store, &states[0]);
    let warnings = store.verify().unwrap().warnings;
    assert!(matches!(&warnings[..], [Notice::SetAside { .. }]), "{warnings:?}");
}

#[test]
fn a_repair_keeps_every_whole_commit() {
    let (dir, states) = left();
    let path = log_file(dir.path());
    let whole = fs::read(&path).unwrap();
    // Inside the third commit.
    let at = 40 + whole[40..].windows(4).enumerate().filter(|(_, w)| *w == b"ehfr").nth(2).unwrap().0 + 50;
    let mut bytes = whole.clone();
    bytes[at] ^= 1;
    fs::write(&path, &bytes).unwrap();
    for _ in 0..2 {
        match open(dir.path()) {
            Err(StoreError::Corrupt { file, detail: Damage::Gap { commits: 3, .. } }) => {
                assert!(file.starts_with("log/"));
            }
            other => panic!("{other:?}"),
        }
        // Nothing is removed before a repair.
        assert!(fs::read(&path).unwrap() == bytes);
    }
    let reader = Store::open_read_only(dir.path()).unwrap();
    assert_eq!(compare(&reader.read(), &states[0]), Ok(()));
    assert!(!reader.verify().unwrap().is_sound());
    let report = repaired(dir.path());
    assert_eq!((report.log_damaged, report.kept_commits, report.lost_commits), (true, 5, 1));
    assert!(fs::read(&report.set_aside[0]).unwrap() == bytes);
    let store = open(dir.path()).unwrap();
    // The last state, without the effects of the third commit.
    let mut expected = states[6].clone();
    for id in ["n2-0", "n2-1"] {
        expected.remove(id);
    }
    expected.insert("id002".into(), states[0]["id002"].clone());
    assert_is(&store, &expected);
    store.flush().unwrap();
    assert!(repaired_is_sound(store));
}

fn repaired_is_sound(store: Store) -> bool {
    let dir = store.path().to_owned();
    drop(store);
    repaired(&dir).was_sound()
}

/// Commits of every durability, in processes that end without closing.
#[test]
fn a_commit_is_there_after_the_end_of_its_process() {
    for durability in [Durability::OnFlush, Durability::EveryBatch] {
        let (origin, mut model) = sample();
        let options = StoreOptions { durability, ..StoreOptions::default() };
        for n in 0..5 {
            let store = Store::open(origin.path(), options).unwrap();
            commit(&store, &mut model, puts(vec![put(&format!("n{n}"), n, n)]));
            let image = tempfile::tempdir().unwrap();
            copy_directory(origin.path(), image.path());
            assert_is(&open(image.path()).unwrap(), &model);
            if n % 2 == 0 {
                // The next one continues the same log.
                drop(store);
                fs::remove_dir_all(origin.path()).unwrap();
                copy_directory(image.path(), origin.path());
            }
        }
    }
}

fn is_of_the_end(notice: &Notice) -> bool {
    matches!(notice, Notice::TornLog { .. } | Notice::DamagedHeader { .. })
}

/// 200, or as many as `PROPTEST_CASES` asks for; the documented long run has 10,000.
fn cases() -> u32 {
    std::env::var("PROPTEST_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(200)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(), ..ProptestConfig::default() })]

    /// A flip or a truncation is never silent and never a panic; earlier commits are there, and after a
    /// repair later ones too.
    #[test]
    fn damage_of_the_log_is_never_silent(at in any::<prop::sample::Index>(), bit in 0u8..8, cut in any::<bool>()) {
        thread_local!(static LEFT: (tempfile::TempDir, Vec<Model>) = left());
        LEFT.with(|(origin, states)| {
            let dir = tempfile::tempdir().unwrap();
            copy_directory(origin.path(), dir.path());
            let path = log_file(dir.path());
            let mut bytes = fs::read(&path).unwrap();
            let written = bytes.iter().rposition(|byte| *byte != 0).unwrap() + 100;
            let at = at.index(written);
            if cut { bytes.truncate(at) } else { bytes[at] ^= 1 << bit }
            fs::write(&path, &bytes).unwrap();
            let report = Store::open_read_only(dir.path()).unwrap().verify().unwrap();
            let said = !report.is_sound()
                || report.warnings.iter().any(is_of_the_end);
            prop_assert!(said, "{:?}", report);
            let store = match open(dir.path()) {
                Ok(store) => {
                    prop_assert!(report.is_sound());
                    prop_assert!(store.notices().iter().any(is_of_the_end));
                    store
                }
                Err(StoreError::Corrupt { file, .. }) => {
                    prop_assert!(file.starts_with("log/") && !report.is_sound(), "{}", file);
                    let report = repaired(dir.path());
                    prop_assert!(report.log_damaged && report.lost_commits <= 1, "{:?}", report);
                    open(dir.path()).unwrap()
                }
                Err(other) => panic!("{other}"),
            };
            let found = states.iter().rposition(|state| compare(&store.read(), state).is_ok());
            // A repaired one may be a state with one commit left out.
            prop_assert!(found.is_some() || !report.is_sound());
            store.commit(puts(vec![put("after", 5, 5)])).unwrap();
            store.flush().unwrap();
            prop_assert!(store.verify().unwrap().is_sound());
            Ok(())
        })?;
    }
}
