//! Failing disks: every operation of a call fails once. Nothing acknowledged is lost, unfinished files are
//! removed, and the call succeeds when repeated.

use std::io::ErrorKind;
use std::path::PathBuf;
use std::time::Duration;

use rayon::prelude::*;
use tempfile::TempDir;

use super::*;
use crate::disk::faulty::Faulty;
use crate::error::Error;
use crate::index::RepairOptions;
use crate::index::calibrate::QuestionSource;
use crate::progress::no_progress;
use crate::store::{RepairReport, StoreError};

/// A temporary error and a permanent one.
const KINDS: [ErrorKind; 2] = [ErrorKind::StorageFull, ErrorKind::Other];

/// Calls `attempt` once with a backend without failures, and then once for each operation with that operation
/// failing; returns the names of the failed operations.
fn each_operation(attempt: impl Fn(Faulty) + Sync) -> Vec<&'static str> {
    let none = Faulty::new(usize::MAX, ErrorKind::Other);
    attempt(none.clone());
    let failing = (0..none.count()).into_par_iter().flat_map_iter(|at| {
        KINDS.map(|kind| {
            let faults = Faulty::new(at, kind);
            attempt(faults.clone());
            faults.failed()
        })
    });
    failing.collect::<Vec<_>>().into_iter().flatten().collect()
}

/// A closed index of six documents under model A; with B kept if `changed`.
fn origin(bundles: &Bundles, changed: bool) -> (TempDir, State) {
    let dir = in_memory().unwrap();
    let first = if changed { &bundles.b } else { &bundles.a };
    let index = create(unsynced(), &dir.path().join("index"), first).unwrap();
    index.insert_batch(documents(0, 6)).unwrap();
    index.flush().unwrap();
    if changed {
        index.reencode(&bundles.a).unwrap();
    }
    let state = State::new(&bundles.a).with(&documents(0, 6));
    drop(index);
    (dir, state)
}

fn copied(origin: &TempDir) -> (TempDir, PathBuf) {
    let dir = in_memory().unwrap();
    copy_directory(origin.path(), dir.path());
    let path = dir.path().join("index");
    (dir, path)
}

#[track_caller]
fn assert_is(index: &Index, allowed: &[State]) -> State {
    // The injected failure may hit one of these operations.
    match check(index, allowed).or_else(|_| check(index, allowed)) {
        Ok(state) => state,
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn a_create_that_fails_anywhere_leaves_nothing_or_an_index() {
    let bundles = Bundles::new();
    let empty = State::new(&bundles.a);
    let failed = each_operation(|faults| {
        let dir = in_memory().unwrap();
        let path = dir.path().join("above/index");
        let created = create(Arc::new(faults.clone()), &path, &bundles.a).map(drop);
        if path.join("CURRENT").exists() {
            assert_is(&open(unsynced(), &path).unwrap(), std::slice::from_ref(&empty));
            return;
        }
        let failed = faults.failed();
        assert!(created.is_err(), "{failed:?}");
        assert!(!path.exists(), "{failed:?} left {:?}", names(&path));
        assert_is(&create(unsynced(), &path, &bundles.a).unwrap(), std::slice::from_ref(&empty));
    });
    for kind in ["open", "write", "sync", "rename", "create directory", "kind", "list"] {
        assert!(failed.contains(&kind), "no {kind} in {failed:?}");
    }
}

/// Runs `change` on an index with one failing operation, then on the same handle and on others until it
/// succeeds.
fn changes(
    origin: &TempDir,
    before: &State,
    after: &State,
    models: &[usize],
    change: impl Fn(&Index) -> Result<()> + Sync,
) -> Vec<&'static str> {
    each_operation(|faults| {
        let (_dir, path) = copied(origin);
        let were = names(&path.join("models"));
        if let Ok(index) = open(Arc::new(faults.clone()), &path) {
            let mut done = change(&index);
            if let Err(error) = &done {
                let failed = faults.failed();
                // Searches continue with one of the two.
                assert_is(&index, &[before.clone(), after.clone()]);
                assert_eq!(index.search("tree leaf", 3, 3).unwrap().len(), 3);
                let poisoned = index.root.check_writes().is_err();
                assert!(!poisoned || matches!(failed, Some("sync" | "rename")), "{failed:?}: {error}");
                if !poisoned && !matches!(failed, Some("remove" | "remove directory" | "list")) {
                    let are = names(&path.join("models"));
                    assert!(are.len() <= were.len(), "{failed:?} left {are:?}, it were {were:?}");
                }
                match poisoned {
                    true => assert!(matches!(change(&index), Err(Error::Store(StoreError::Poisoned)))),
                    false => done = change(&index),
                }
            }
            if done.is_ok() {
                assert_is(&index, std::slice::from_ref(after));
            }
        }
        // What was not acknowledged may or may not be there.
        let index = open(unsynced(), &path).unwrap();
        let found = assert_is(&index, &[before.clone(), after.clone()]);
        if found != *after {
            change(&index).unwrap();
        }
        assert_is(&index, std::slice::from_ref(after));
        index.insert_batch(documents(9, 10)).unwrap();
        index.flush().unwrap();
        let more = after.clone().with(&documents(9, 10));
        drop(index);
        let index = open(unsynced(), &path).unwrap();
        assert_is(&index, &[more]);
        // Only the serving model and the kept one remain.
        index.discard_unfinished();
        let are = names(&path.join("models")).len();
        assert!(models.contains(&are), "{:?}: {are} models", faults.failed());
    })
}

#[test]
fn a_reencode_that_fails_anywhere_changes_nothing_or_all() {
    let bundles = Bundles::new();
    let (origin, before) = origin(&bundles, true);
    let after = before.clone().served_by(&bundles.c);
    let failed = changes(&origin, &before, &after, &[2], |index| index.reencode(&bundles.c).map(drop));
    for kind in
        ["open", "write", "sync", "rename", "create directory", "remove", "remove directory", "identity"]
    {
        assert!(failed.contains(&kind), "no {kind} in {failed:?}");
    }
}

#[test]
fn a_rollback_that_fails_anywhere_changes_nothing_or_all() {
    let bundles = Bundles::new();
    let (origin, before) = origin(&bundles, true);
    let after = before.clone().served_by(&bundles.b);
    changes(&origin, &before, &after, &[2], |index| index.rollback().map(drop));
}

#[test]
fn a_drop_of_the_previous_model_that_fails_anywhere_can_be_done_again() {
    let bundles = Bundles::new();
    let (origin, state) = origin(&bundles, true);
    let failed = changes(&origin, &state, &state, &[1, 2], |index| index.drop_previous_model().map(drop));
    for kind in ["remove", "remove directory", "rename", "list"] {
        assert!(failed.contains(&kind), "no {kind} in {failed:?}");
    }
    // Again, for what the first call left.
    let (_dir, path) = copied(&origin);
    let index = open(unsynced(), &path).unwrap();
    assert!(index.drop_previous_model().unwrap());
    assert_eq!(names(&path.join("models")), ["2"]);
}

#[test]
fn a_snapshot_that_fails_anywhere_leaves_nothing_or_an_index() {
    let bundles = Bundles::new();
    let (origin, state) = origin(&bundles, true);
    let failed = each_operation(|faults| {
        let (dir, path) = copied(&origin);
        let target = dir.path().join("copy");
        if let Ok(index) = open(Arc::new(faults.clone()), &path) {
            let taken = index.snapshot(&target);
            if !target.join("CURRENT").exists() {
                assert!(taken.is_err(), "{:?}", faults.failed());
                assert!(!target.exists(), "{:?} left {:?}", faults.failed(), names(&target));
                index.snapshot(&target).unwrap();
            }
        } else {
            open(unsynced(), &path).unwrap().snapshot(&target).unwrap();
        }
        for path in [path, target] {
            assert_is(&open(unsynced(), &path).unwrap(), std::slice::from_ref(&state));
        }
    });
    for kind in ["link", "write", "sync", "rename", "create directory"] {
        assert!(failed.contains(&kind), "no {kind} in {failed:?}");
    }
}

#[test]
fn a_calibration_that_fails_anywhere_leaves_the_former_curve_or_the_new_one() {
    let bundles = Bundles::new();
    let (origin, state) = origin(&bundles, false);
    let former = open(unsynced(), &origin.path().join("index")).unwrap().calibrate(&[]).unwrap();
    let failed = each_operation(|faults| {
        let (_dir, path) = copied(&origin);
        if let Ok(index) = open(Arc::new(faults.clone()), &path) {
            let _ = index.calibrate(&["another".to_owned()]);
        }
        let index = open(unsynced(), &path).unwrap();
        let curve = index.serving().measured().recall.clone().unwrap();
        assert!(curve == former || curve.source == QuestionSource::Given, "{:?}", faults.failed());
        index.calibrate(&[]).unwrap();
        assert_is(&index, std::slice::from_ref(&state));
    });
    for kind in ["write", "sync", "rename"] {
        assert!(failed.contains(&kind), "no {kind} in {failed:?}");
    }
}

#[test]
fn judgments_that_fail_anywhere_are_stored_or_not() {
    let bundles = Bundles::new();
    let (first, empty) = origin(&bundles, false);
    let (second, _) = origin(&bundles, false);
    let index = open(unsynced(), &second.path().join("index")).unwrap();
    index.record_all(judgments(0, 4)).unwrap();
    weigh(&index).unwrap();
    check_answers(&index).unwrap();
    index.flush().unwrap();
    drop(index);
    let some = empty.clone().told(&judgments(0, 4));
    let forgotten = judgments(1, 2);
    type Change<'a> = &'a (dyn Fn(&Index) -> Result<()> + Sync);
    let record: Change<'_> = &|index| index.record_all(judgments(0, 6)).map(drop);
    let forget: Change<'_> =
        &|index| index.forget(forgotten.iter().map(|own| (&*own.question, &*own.id))).map(drop);
    let age: Change<'_> = &|index| index.set_half_life(Some(Duration::from_secs(100_000_000)));
    let compact: Change<'_> = &Index::compact;
    let told = empty.clone().told(&judgments(0, 6));
    let mut failed = Vec::new();
    for (origin, before, after, change) in [
        (&first, &empty, &told, record),
        (&second, &some, &told, record),
        (&second, &some, &some.clone().forgot(&forgotten), forget),
        (&second, &some, &some, age),
        (&second, &some, &some, compact),
    ] {
        let change = |index: &Index| change(index).and_then(|()| index.flush());
        failed.extend(each_operation(|faults| {
            let (_dir, path) = copied(origin);
            if let Ok(index) = open(Arc::new(faults.clone()), &path) {
                let done = change(&index).or_else(|_| change(&index));
                if done.is_ok() {
                    assert_is(&index, std::slice::from_ref(after));
                }
                // The judgments are read again, if they could not be.
                if done.is_ok() && faults.failed().is_some() && change(&index).is_ok() {
                    check_answers(&index).unwrap();
                }
            }
            let index = open(unsynced(), &path).unwrap();
            assert_is(&index, &[before.clone(), after.clone()]);
            check_answers(&index).unwrap();
            change(&index).unwrap();
            assert_is(&index, std::slice::from_ref(after));
            check_answers(&index).unwrap();
        }));
    }
    for kind in ["open", "write", "sync", "rename", "create directory", "remove"] {
        assert!(failed.contains(&kind), "no {kind} in {failed:?}");
    }
}

#[test]
fn a_repair_that_fails_anywhere_can_be_done_again() {
    let bundles = Bundles::new();
    let (origin, state) = origin(&bundles, true);
    let damaged = [
        "CURRENT",
        "models/1/segments/00000000.vectors",
        "models/2/segments/00000000.vectors",
        "models/2/model/model.safetensors",
    ];
    check_failing_repair(&origin, &damaged, &bundles.a, &state, &|report| {
        assert!(report.current_restored && report.model_restored && report.previous_model_repaired);
        assert_eq!((report.damaged_segments, report.lost, report.set_aside.len()), (1, 0, 6), "{report:?}");
    });
}

#[test]
fn a_repair_without_a_tree_that_fails_anywhere_can_be_done_again() {
    let bundles = Bundles::new();
    let (origin, state) = origin(&bundles, false);
    let damaged = ["models/1/segments/00000000.vectors", "models/1/model/indexer.safetensors"];
    let state = state.served_by(&bundles.without_tree);
    check_failing_repair(&origin, &damaged, &bundles.without_tree, &state, &|report| {
        assert!(report.tree_lost && report.model_restored && report.lost == 0, "{report:?}");
    });
}

/// Repairs a damaged index with each operation on a file failing once.
fn check_failing_repair(
    origin: &TempDir,
    damaged: &[&str],
    bundle: &Bundle,
    state: &State,
    check: &(dyn Fn(&RepairReport) + Sync),
) {
    let index = origin.path().join("index");
    for name in damaged {
        let mut bytes = fs::read(index.join(name)).unwrap();
        let middle = bytes.len() / 2;
        bytes[middle] ^= 1;
        fs::write(index.join(name), bytes).unwrap();
    }
    let options = RepairOptions { bundle: Some(bundle.clone()), ..RepairOptions::default() };
    let failed = each_operation(|faults| {
        let (_dir, path) = copied(origin);
        let repair = |backend| Index::repair_on(backend, &path, &options, &mut no_progress);
        let first = repair(Arc::new(faults.clone()));
        if faults.failed().is_none() {
            check(&first.unwrap());
        } else if first.is_err() {
            repair(unsynced()).unwrap();
        }
        let index = open(unsynced(), &path).unwrap();
        assert_is(&index, std::slice::from_ref(state));
        // Damaged files are still somewhere.
        let aside = |dir: &str| names(&path.join(dir).join("damaged")).len();
        let found = aside("") + aside("models/1") + aside("models/2");
        assert!(found >= damaged.len(), "{found}");
        drop(index);
        let again = repair(unsynced()).unwrap();
        // A repair does not fail because it cannot look at measurements.
        let again = RepairReport { unmeasured: Vec::new(), ..again };
        assert!(again.was_sound(), "{again:?}");
    });
    for kind in ["open", "read", "write", "sync", "rename", "link", "create directory", "identity"] {
        assert!(failed.contains(&kind), "no {kind} in {failed:?}");
    }
}
