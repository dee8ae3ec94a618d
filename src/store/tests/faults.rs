//! Failing disks: every operation of a small run fails once.

use std::io::ErrorKind;

use super::{super::layout::names, *};
use crate::disk::faulty::Faulty;

#[test]
fn a_create_that_fails_anywhere_can_be_done_again() {
    let mut failures = 0;
    loop {
        let dir = tempfile::tempdir().unwrap();
        let faults = Faulty::new(failures, ErrorKind::StorageFull);
        let options = StoreOptions::default();
        let result = Store::create_on(Arc::new(faults.clone()), dir.path(), &config(), options).map(drop);
        let Some(failed) = faults.failed() else {
            result.unwrap();
            break;
        };
        failures += 1;
        if !dir.path().join(names::MANIFEST).exists() {
            assert!(matches!(result, Err(StoreError::Io { .. })), "{failed}: {result:?}");
            assert!(matches!(
                open(dir.path()),
                Err(StoreError::InterruptedCreate { .. } | StoreError::NotAnIndex { .. })
            ));
            drop(create(dir.path()));
        }
        assert_is(&open(dir.path()).unwrap(), &Model::new());
    }
    assert!(failures > 8, "only {failures} operations");
}

/// Each operation of commits, flushes and a compaction fails once, with a temporary error (a full disk) and
/// with a permanent one (a failing disk).
#[test]
fn a_failure_anywhere_loses_nothing_acknowledged() {
    let (origin, before) = sample();
    let batches: Vec<WriteBatch> = vec![
        puts((0..40).map(|n| put(&format!("new{n}"), n, n % LEAVES)).collect()),
        WriteBatch { puts: vec![put("id001", 1001, 9)], deletes: vec!["id002".into()] },
        puts(vec![put("last", 1002, 1)]),
    ];
    for (kind, durability) in
        [(ErrorKind::StorageFull, Durability::OnFlush), (ErrorKind::Other, Durability::EveryBatch)]
    {
        let mut failures = Vec::new();
        loop {
            let dir = tempfile::tempdir().unwrap();
            copy_directory(origin.path(), dir.path());
            let faults = Faulty::new(failures.len(), kind);
            let options = StoreOptions { durability, ..StoreOptions::default() };
            let store = Store::open_on(Arc::new(faults.clone()), dir.path(), options);
            // What was promised, and everything committed in memory.
            let (mut acknowledged, mut newest) = (before.clone(), before.clone());
            // A commit that may be on disk although it failed.
            let mut uncertain = None;
            if let Ok(store) = store {
                for (number, batch) in batches.iter().enumerate() {
                    let generation = store.read().generation();
                    let committed = store.commit(batch.clone());
                    // A failed commit is not visible, a successful one is.
                    if store.read().generation() != generation {
                        apply(&mut newest, batch);
                    }
                    let flushed = committed.and_then(|_| match number {
                        2 => store.compact(&mut || Ok(())),
                        _ => store.flush(),
                    });
                    // In any case, readers see what was committed.
                    assert_is_readable(&store, &newest);
                    match flushed {
                        Ok(()) => acknowledged = newest.clone(),
                        Err(StoreError::Poisoned) => {
                            assert!(
                                matches!(faults.failed(), Some("sync" | "rename")),
                                "{:?}",
                                faults.failed()
                            );
                        }
                        Err(_) if matches!(faults.failed(), Some("sync" | "rename")) => {
                            let mut tried = newest.clone();
                            apply(&mut tried, batch);
                            uncertain = Some(tried);
                            assert!(matches!(store.flush(), Err(StoreError::Poisoned)));
                            assert!(matches!(store.commit(deletes(&["x"])), Err(StoreError::Poisoned)));
                        }
                        // Nothing is lost: the same call works once there is room.
                        Err(_) => {
                            store.flush().unwrap();
                            if store.read().generation() == generation {
                                store.commit(batch.clone()).unwrap();
                                apply(&mut newest, batch);
                                store.flush().unwrap();
                            }
                            acknowledged = newest.clone();
                        }
                    }
                }
            }
            let failed = faults.failed();
            // What was not acknowledged may or may not be there, batch by batch.
            let store = open(dir.path()).unwrap();
            let possible = [Some(&acknowledged), Some(&newest), uncertain.as_ref()];
            let found = possible.into_iter().flatten().any(|model| compare(&store.read(), model).is_ok());
            assert!(found, "{failed:?}: {:?}", compare(&store.read(), &acknowledged));
            assert!(store.verify().unwrap().is_sound());
            let Some(failed) = failed else { break };
            failures.push(failed);
        }
        for kind in ["open", "read", "len", "write", "sync", "rename", "list", "remove"] {
            assert!(failures.contains(&kind), "no {kind} in {failures:?}");
        }
    }
}

#[test]
fn a_snapshot_that_fails_anywhere_takes_nothing_away() {
    let (origin, model) = sample();
    let mut failures = Vec::new();
    loop {
        let dir = tempfile::tempdir().unwrap();
        copy_directory(origin.path(), dir.path());
        let faults = Faulty::new(failures.len(), ErrorKind::StorageFull);
        let target = dir.path().join("copy");
        let taken = Store::open_on(Arc::new(faults.clone()), dir.path(), StoreOptions::default())
            .and_then(|store| store.snapshot(&target));
        match taken {
            Ok(()) => assert_is(&open(&target).unwrap(), &model),
            Err(error) => {
                assert!(matches!(error, StoreError::Io { .. }), "{:?}: {error}", faults.failed());
                // A whole index, or none.
                if let Ok(copy) = open(&target) {
                    assert_is(&copy, &model);
                }
            }
        }
        let store = open(dir.path()).unwrap();
        assert_is(&store, &model);
        store.snapshot(&dir.path().join("again")).unwrap();
        assert_is(&open(&dir.path().join("again")).unwrap(), &model);
        let Some(failed) = faults.failed() else { break };
        failures.push(failed);
    }
    for kind in ["link", "write", "sync", "rename"] {
        assert!(failures.contains(&kind), "no {kind} in {failures:?}");
    }
}

fn assert_is_readable(store: &Store, model: &Model) {
    let view = store.read();
    assert_eq!(view.live(), model.len());
    for (id, put) in model.iter().take(5) {
        let read = || view.document(view.row_of(id)?.unwrap());
        // The injected failure may hit this operation.
        assert_eq!(read().or_else(|_| read()).unwrap(), put.document);
    }
}

/// Running out of file handles is not a failed sync: the handle continues, except in the very last step,
/// after which it is unknown whether the manifest is durable.
#[test]
fn a_lack_of_files_may_pass() {
    let (origin, before) = sample();
    let (mut refused, mut at) = (Vec::new(), 0);
    loop {
        let dir = tempfile::tempdir().unwrap();
        copy_directory(origin.path(), dir.path());
        let faults = Faulty::without_files(at);
        at += 1;
        let store = Store::open_on(Arc::new(faults.clone()), dir.path(), StoreOptions::default());
        let Ok(store) = store else {
            assert_is(&open(dir.path()).unwrap(), &before);
            continue;
        };
        let mut model = before.clone();
        let batch = puts(vec![put("new", 7, 1), put("id001", 8, 2)]);
        if store.commit(batch.clone()).and_then(|_| store.flush()).is_err() {
            let again = store.commit(batch.clone()).and_then(|_| store.flush());
            refused.extend(again.is_err().then(|| faults.failed()));
        }
        apply(&mut model, &batch);
        // The injected failure may hit a read here.
        assert_eq!(compare(&store.read(), &model).or_else(|_| compare(&store.read(), &model)), Ok(()));
        drop(store);
        assert_is(&open(dir.path()).unwrap(), &model);
        if faults.failed().is_none() {
            break;
        }
    }
    assert!(at > 40, "only {at} operations");
    assert!(refused.len() <= 2, "{refused:?}");
}
