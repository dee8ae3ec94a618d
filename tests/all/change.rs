//! Change of model: nothing is lost by a change, a rollback, or an interruption.

use std::fs;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::support::{DOCUMENTS, Shape, bundle, config, document, documents, filled, id, in_f32};
use ehi::learn::LearnOptions;
use ehi::model::{ENCODER_FILE, ModelError};
use ehi::store::StoreError;
use ehi::{Document, Error, Index, InputError, Judgment, Progress, RepairOptions, Stage, no_progress};

const OLD: Shape = Shape { height: 1 };
const NEW: Shape = Shape { height: 2 };
const OTHER: Shape = Shape { height: 3 };
/// More than the last pass, which blocks writers, may have.
const STORED: usize = 300;

/// The index holds these documents and nothing else, is sound, and answers like a newly built one.
fn assert_serves(index: &Index, shape: Shape, expected: &[Document]) {
    assert_eq!(index.bundle().hash(), bundle(shape).hash());
    let mut expected = expected.to_vec();
    expected.sort_by(|a, b| a.id.cmp(&b.id));
    assert_eq!(index.iter().map(Result::unwrap).collect::<Vec<_>>(), expected);
    let report = index.verify().unwrap();
    assert!(report.is_sound(), "{:?}", report.problems);
    assert_eq!(report.documents as usize, expected.len());
    assert_answers(index, shape, &expected);
}

/// The answers are those of a newly built index.
fn assert_answers(index: &Index, shape: Shape, expected: &[Document]) {
    let dir = tempfile::tempdir().unwrap();
    let fresh = in_f32().create(dir.path(), &bundle(shape)).unwrap();
    fresh.insert_batch(expected.to_vec()).unwrap();
    for question in ["tree leaf", "gene protein virus", "what 40"] {
        let answer = |index: &Index| {
            let found = index.search(question, 5, 3).unwrap();
            let mut hits: Vec<_> =
                found.iter().map(|hit| (hit.score.to_bits(), hit.id.clone(), hit.leaf)).collect();
            // Equal scores are ordered by row, which differs.
            hits.sort();
            (hits, found.stats.documents_visited)
        };
        assert_eq!(answer(index), answer(&fresh), "{question}");
    }
}

fn directories(index: &Path) -> Vec<String> {
    let models = fs::read_dir(index.join("models"));
    let mut names: Vec<String> =
        models.into_iter().flatten().map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn there_and_back_again() {
    let (dir, index) = filled(OLD, STORED);
    let path = dir.path().join("index");
    let mut stored = documents(STORED);
    assert_eq!(index.previous_model().unwrap(), None);
    assert!(matches!(index.rollback(), Err(Error::Input(InputError::NoPreviousModel))));
    assert!(matches!(index.reencode(&bundle(OLD)), Err(Error::Input(InputError::SameModel { .. }))));

    let change = index.reencode(&bundle(NEW)).unwrap();
    assert_eq!((change.from, change.to), (bundle(OLD).hash(), bundle(NEW).hash()));
    // The small models share one encoder.
    assert_eq!((change.documents, change.encoded, change.routed), (STORED, 0, STORED));
    assert_serves(&index, NEW, &stored);
    assert_eq!(index.previous_model().unwrap(), Some(bundle(OLD).hash()));
    let reader = Index::open_read_only(dir.path().join("index")).unwrap();
    assert_eq!(reader.previous_model().unwrap(), Some(bundle(OLD).hash()));

    // Written since: new, changed, deleted.
    index.insert(document(STORED)).unwrap();
    stored.push(document(STORED));
    index.insert(Document::new(id(3), "another", "leaf of a tree")).unwrap();
    stored[3] = Document::new(id(3), "another", "leaf of a tree");
    assert!(index.delete(&id(5)).unwrap());
    stored.retain(|d| d.id != id(5));
    drop(index);
    let index = Index::open(&path).unwrap();
    assert_serves(&index, NEW, &stored);

    let change = index.rollback().unwrap();
    assert_eq!(change.routed, 2, "what is unchanged is not routed again");
    assert_serves(&index, OLD, &stored);
    assert_eq!(index.rollback().unwrap().routed, 0);
    assert_serves(&index, NEW, &stored);

    assert!(index.drop_previous_model().unwrap());
    assert!(!index.drop_previous_model().unwrap());
    assert_eq!(index.previous_model().unwrap(), None);
    assert!(matches!(index.rollback(), Err(Error::Input(InputError::NoPreviousModel))));
    assert_eq!(directories(&path), ["2"]);
    assert_serves(&index, NEW, &stored);
    drop(index);
    assert_serves(&Index::open(&path).unwrap(), NEW, &stored);
}

#[test]
fn changes_one_after_another_keep_the_last_two_models() {
    let (dir, index) = filled(OLD, 40);
    let path = dir.path().join("index");
    index.reencode(&bundle(NEW)).unwrap();
    index.reencode(&bundle(OTHER)).unwrap();
    assert_serves(&index, OTHER, &documents(40));
    assert_eq!(directories(&path), ["2", "3"], "the first model has served its time");
    index.reencode(&bundle(OLD)).unwrap();
    assert_eq!(directories(&path), ["3", "4"]);
    // To the kept model: no third store.
    index.reencode(&bundle(OTHER)).unwrap();
    assert_eq!(directories(&path), ["3", "4"]);
    assert_serves(&index, OTHER, &documents(40));
    assert_eq!(index.previous_model().unwrap(), Some(bundle(OLD).hash()));
}

/// A reader with one store open must never mistake another one for it.
#[test]
fn no_store_gets_the_name_of_another() {
    let (dir, index) = filled(OLD, 30);
    let path = dir.path().join("index");
    index.reencode(&bundle(NEW)).unwrap();
    let reader = Index::open_read_only(&path).unwrap();
    index.rollback().unwrap();
    index.drop_previous_model().unwrap();
    index.insert(document(30)).unwrap();
    index.reencode(&bundle(OTHER)).unwrap();
    assert_eq!(directories(&path), ["1", "3"]);
    // Its store has been removed from the disk.
    assert_eq!(reader.iter().map(Result::unwrap).collect::<Vec<_>>(), documents(30));
    assert_eq!(reader.search("tree leaf", 3, 4).unwrap().len(), 3);
    assert!(reader.refresh().unwrap());
    assert_serves(&reader, OTHER, &documents(31));
    // A reader keeps its contents while the first store is removed.
    let (dir, index) = filled(OLD, 10);
    index.flush().unwrap();
    let reader = Index::open_read_only(dir.path().join("index")).unwrap();
    index.reencode(&bundle(NEW)).unwrap();
    index.drop_previous_model().unwrap();
    assert_eq!(reader.iter().map(Result::unwrap).collect::<Vec<_>>(), documents(10));
    assert_eq!(reader.search("tree leaf", 3, 4).unwrap().len(), 3);
    assert!(reader.refresh().unwrap());
    assert_serves(&reader, NEW, &documents(10));
    assert_eq!(reader.verify().unwrap().warnings, []);
}

/// A check reads one model after the other, and a writer may drop any of them before or in the meantime.
#[test]
fn a_check_during_changes_of_the_model_finds_no_damage() {
    let (dir, index) = filled(OLD, 30);
    let path = dir.path().join("index");
    let change = |shape| {
        index.reencode(&bundle(shape)).unwrap();
        index.drop_previous_model().unwrap();
    };
    let reader = Index::open_read_only(&path).unwrap();
    change(NEW);
    assert_eq!(reader.verify().unwrap().problems, []);
    for (checked, [kept, shape]) in [(&reader, [OLD, OTHER]), (&index, [NEW, OLD])] {
        index.reencode(&bundle(kept)).unwrap();
        checked.refresh().unwrap();
        let mut is_changed = false;
        let in_the_meantime = |_| {
            if !std::mem::replace(&mut is_changed, true) {
                change(shape);
            }
            ControlFlow::Continue(())
        };
        let report = checked.with_progress(in_the_meantime).verify().unwrap();
        assert_eq!((report.problems, report.warnings, report.documents), (vec![], vec![], 30));
        assert_eq!(checked.bundle().hash(), bundle(shape).hash());
    }
}

/// The documents of the previous model are not needed, so their damage must not block a change.
#[test]
fn damage_of_what_is_kept_is_repaired() {
    let (dir, index) = filled(OLD, 30);
    let path = dir.path().join("index");
    index.reencode(&bundle(NEW)).unwrap();
    drop(index);
    assert!(Index::repair(&path, &RepairOptions::default(), &mut no_progress).unwrap().was_sound());
    for entry in fs::read_dir(path.join("models/1/segments")).unwrap() {
        fs::write(entry.unwrap().path(), "short").unwrap();
    }
    // It blocks nothing, but a check finds it: a rollback would fail.
    for index in [Index::open(&path).unwrap(), Index::open_read_only(&path).unwrap()] {
        assert_answers(&index, NEW, &documents(30));
        let report = index.verify().unwrap();
        assert!(report.problems.iter().all(|problem| problem.file.starts_with("models/1/")), "{report:?}");
        assert!(!report.is_sound() && report.documents == 30, "{report:?}");
    }
    let report = Index::repair(&path, &RepairOptions::default(), &mut no_progress).unwrap();
    assert!(report.previous_model_repaired && !report.was_sound(), "{report:?}");
    assert_eq!(
        (report.damaged_segments, report.lost, report.lost_previous_embeddings),
        (0, 0, 0),
        "{report:?}"
    );
    assert!(report.set_aside.iter().all(|file| file.starts_with(path.join("models/1/damaged"))));
    assert_eq!(directories(&path), ["1", "2"]);
    let index = Index::open(&path).unwrap();
    let change = index.rollback().unwrap();
    assert_eq!(change.encoded + change.routed, 30);
    assert_serves(&index, OLD, &documents(30));
    index.rollback().unwrap();
    drop(index);
    // A model that cannot be read is set aside.
    fs::write(path.join("models/1/model").join(ENCODER_FILE), "short").unwrap();
    let report = Index::repair(&path, &RepairOptions::default(), &mut no_progress).unwrap();
    assert!(report.previous_model_set_aside && !report.was_sound(), "{report:?}");
    assert_eq!(report.set_aside, [path.join("damaged/1")]);
    assert!(path.join("damaged/1/MANIFEST").exists());
    assert_eq!(directories(&path), ["2"]);
    let index = Index::open(&path).unwrap();
    assert_serves(&index, NEW, &documents(30));
    assert_eq!(index.previous_model().unwrap(), None);
    // An unreadable manifest does not block a change either.
    index.reencode(&bundle(OLD)).unwrap();
    for name in ["MANIFEST", "MANIFEST.copy"] {
        fs::write(path.join("models/2").join(name), "").unwrap();
    }
    index.reencode(&bundle(OTHER)).unwrap();
    assert_serves(&index, OTHER, &documents(30));
    assert_eq!(index.previous_model().unwrap(), Some(bundle(OLD).hash()));
}

/// The new model is checked completely, also by a handle with a lazily loaded encoder.
#[test]
fn a_damaged_model_is_never_put_into_service() {
    let (dir, index) = filled(OLD, 30);
    let path = dir.path().join("index");
    index.reencode(&bundle(NEW)).unwrap();
    drop(index);
    let open = || Index::builder().lazy_encoder(true).open(&path).unwrap();
    let weights = |number: u32| path.join(format!("models/{number}/model")).join(ENCODER_FILE);
    let damage = |number| {
        let mut bytes = fs::read(weights(number)).unwrap();
        *bytes.last_mut().unwrap() ^= 1;
        fs::write(weights(number), bytes).unwrap();
    };
    damage(1);
    let index = open();
    let error = index.rollback().unwrap_err();
    assert!(matches!(&error, Error::Model(ModelError::Checksum { .. })), "{error}");
    assert_answers(&index, NEW, &documents(30));
    // The sound bundle replaces the damaged copy.
    index.reencode(&bundle(OLD)).unwrap();
    assert_serves(&index, OLD, &documents(30));
    drop(index);

    let serving = directories(&path).iter().map(|name| name.parse::<u32>().unwrap()).max().unwrap();
    damage(serving);
    let error = open().drop_previous_model().unwrap_err();
    assert!(matches!(&error, Error::Model(ModelError::Checksum { .. })), "{error}");
    let index = open();
    assert_eq!(index.previous_model().unwrap(), Some(bundle(NEW).hash()));
    index.rollback().unwrap();
    assert_answers(&index, NEW, &documents(30));
}

/// The threads that encode may be the same ones that wait to write.
#[test]
fn writers_that_fill_the_thread_pool_hold_nothing_up() {
    let (_dir, index) = filled(OLD, 280);
    let pool = rayon::ThreadPoolBuilder::new().num_threads(2).build().unwrap();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Acquire) {
                pool.install(|| {
                    use rayon::prelude::*;
                    (0..6).into_par_iter().for_each(|n| drop(index.insert(document(280 + n)).unwrap()));
                });
            }
        });
        pool.install(|| {
            index.reencode(&bundle(NEW)).unwrap();
            index.rebuild_postings().unwrap();
            index.rollback().unwrap();
        });
        done.store(true, Ordering::Release);
    });
    assert_eq!(index.len(), 286);
    assert!(index.verify().unwrap().is_sound());
}

#[test]
fn a_change_that_was_cut_off_goes_on_where_it_was() {
    let (dir, index) = filled(OLD, STORED);
    let path = dir.path().join("index");
    let cut = |index: &Index, at: u64| {
        let until = |progress: Progress| {
            assert_eq!(progress.stage, Stage::Reencode);
            if progress.done >= at { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        };
        index.with_progress(until).reencode(&bundle(NEW))
    };
    assert!(matches!(cut(&index, 200), Err(Error::Cancelled)));
    assert_serves(&index, OLD, &documents(STORED));
    assert_eq!(directories(&path), ["1", "2"]);
    // Changed in the meantime, before and after the interruption.
    index.insert_batch([document(STORED), Document::new(id(1), "", "changed")]).unwrap();
    index.delete(&id(2)).unwrap();
    drop(index);
    let index = Index::open(&path).unwrap();
    let change = index.reencode(&bundle(NEW)).unwrap();
    assert!(change.routed < STORED - 200 && change.routed > 0, "{change:?}");
    let mut stored = documents(STORED + 1);
    stored[1] = Document::new(id(1), "", "changed");
    stored.remove(2);
    assert_serves(&index, NEW, &stored);

    // Started with one model, then another: the first unfinished model is removed.
    index.drop_previous_model().unwrap();
    assert!(matches!(
        index.with_progress(|_| ControlFlow::Break(())).reencode(&bundle(OLD)),
        Err(Error::Cancelled)
    ));
    index.reencode(&bundle(OTHER)).unwrap();
    assert_serves(&index, OTHER, &stored);
    assert_eq!(directories(&path).len(), 2);
}

#[test]
fn a_callback_may_write_and_is_refused_another_change() {
    let (_dir, index) = filled(OLD, STORED);
    let mut written = 0;
    index
        .with_progress(|progress| {
            assert_eq!(progress.stage, Stage::Reencode);
            if written < 3 {
                index.insert(document(STORED + written)).unwrap();
                written += 1;
            }
            let refused = [
                index.reencode(&bundle(OTHER)).map(drop),
                index.rollback().map(drop),
                index.drop_previous_model().map(drop),
            ];
            let under_way = |refused| matches!(refused, Err(Error::Input(InputError::ChangeUnderWay)));
            assert!(refused.into_iter().all(under_way));
            ControlFlow::Continue(())
        })
        .reencode(&bundle(NEW))
        .unwrap();
    assert_eq!(written, 3);
    assert_serves(&index, NEW, &documents(STORED + 3));
    // Not of another index, and not afterwards.
    let (_other_dir, other) = filled(OLD, 12);
    let change_other = |_| {
        other.reencode(&bundle(NEW)).ok();
        ControlFlow::Continue(())
    };
    index.insert(document(STORED + 3)).unwrap();
    index.with_progress(change_other).rollback().unwrap();
    assert_serves(&other, NEW, &documents(12));
}

#[test]
fn searches_and_writes_go_on_meanwhile() {
    let (dir, index) = filled(OLD, STORED);
    index.flush().unwrap();
    let reader = Index::open_read_only(dir.path().join("index")).unwrap();
    let done = AtomicBool::new(false);
    let written = std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            let mut written = 0;
            while !done.load(Ordering::Acquire) {
                index.insert(document(STORED + written)).unwrap();
                written += 1;
                // Leaves the machine to the encoder.
                std::thread::sleep(std::time::Duration::from_millis(5));
            }
            written
        });
        let searcher = scope.spawn(|| {
            let mut searches = 0;
            while !done.load(Ordering::Acquire) {
                let found = index.search("tree leaf", 3, 4).unwrap();
                assert_eq!(found.len(), 3);
                searches += 1;
            }
            searches
        });
        index.reencode(&bundle(NEW)).unwrap();
        done.store(true, Ordering::Release);
        assert!(searcher.join().unwrap() > 0);
        writer.join().unwrap()
    });
    assert!(written > 0);
    index.flush().unwrap();
    assert_serves(&index, NEW, &documents(STORED + written));

    // Opened earlier: shows the old model until it is refreshed.
    assert_eq!(reader.bundle().hash(), bundle(OLD).hash());
    assert!(reader.search("tree leaf", 3, 4).unwrap().len() == 3);
    assert!(reader.refresh().unwrap());
    assert_serves(&reader, NEW, &documents(STORED + written));
    assert!(!reader.refresh().unwrap());
    index.rollback().unwrap();
    index.drop_previous_model().unwrap();
    assert!(reader.refresh().unwrap());
    assert_serves(&reader, OLD, &documents(STORED + written));
    for refused in [reader.reencode(&bundle(NEW)).err(), reader.rollback().err()] {
        assert!(matches!(refused, Some(Error::Store(StoreError::ReadOnly { .. }))), "{refused:?}");
    }
}

#[test]
fn training_on_the_stored_documents_ends_in_service() {
    let (dir, index) = filled(OLD, DOCUMENTS);
    let pairs = (0..40).map(|n| Judgment::new(format!("tree leaf {n}"), id(n * 3), 1)).collect();
    let options = LearnOptions { pairs, config: config(NEW), accept: true };
    let mut stages = Vec::new();
    let told = index.with_progress(|progress| {
        stages.push(progress.stage);
        ControlFlow::Continue(())
    });
    let change = told.learn(&options).unwrap().change.unwrap();
    assert!(stages.contains(&Stage::Train) && stages.contains(&Stage::Reencode), "{stages:?}");
    assert_eq!((change.from, change.to), (bundle(OLD).hash(), index.bundle().hash()));
    assert_eq!(index.len(), DOCUMENTS);
    assert!(!dir.path().join("index").join("model.trained").exists());
    assert!(index.verify().unwrap().is_sound());
    index.rollback().unwrap();
    assert_serves(&index, OLD, &documents(DOCUMENTS));
}

#[test]
fn embeddings_given_beside_a_new_tree_are_routed_by_it() {
    let (_dir, index) = filled(OLD, DOCUMENTS);
    assert!(bundle(NEW).has_encoder_of(&bundle(OLD)));
    // The tree changes while they are in progress, as a concurrent tuning may do.
    let given = (0..5).map(|n| {
        if n == 3 {
            index.reencode(&bundle(NEW)).unwrap();
        }
        (Document::new(format!("given-{n}"), "", "a text"), vec![n as f32 + 1.0; 128])
    });
    assert_eq!(index.insert_vectors(given).unwrap().inserted, 5);
    assert_eq!(index.len(), DOCUMENTS + 5);
    assert_eq!(index.bundle().hash(), bundle(NEW).hash());
    assert!(index.verify().unwrap().is_sound());
}

#[test]
fn another_model_than_the_expected_one_is_refused() {
    let (dir, index) = filled(OLD, 12);
    let path = dir.path().join("index");
    drop(index);
    drop(Index::builder().expect_model(&bundle(OLD)).open(&path).unwrap());
    let refused = Index::builder().expect_model(&bundle(NEW)).open(&path).err();
    assert!(matches!(refused, Some(Error::Input(InputError::ModelMismatch { .. }))), "{refused:?}");
    Index::open(&path).unwrap().reencode(&bundle(NEW)).unwrap();
    drop(Index::builder().expect_model(&bundle(NEW)).open(&path).unwrap());
}

#[test]
fn a_lock_is_waited_for_as_long_as_told() {
    let (dir, index) = filled(OLD, 3);
    let path = dir.path().join("index");
    let wait = std::time::Duration::from_millis(50);
    let refused = Index::builder().lock_wait(wait).open(&path).err();
    assert!(matches!(refused, Some(Error::Store(StoreError::Locked { .. }))), "{refused:?}");
    let long = std::time::Duration::from_secs(60);
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| Index::builder().lock_wait(long).open(&path).map(|index| index.len()));
        drop(index);
        assert_eq!(waiting.join().unwrap().unwrap(), 3);
    });
}
