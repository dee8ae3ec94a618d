//! A growing collection: what health reports, and an index that tunes itself.

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use crate::support::{WIDTH, base_model, id};
use ehi::health::{Advice, RemedyCommand};
use ehi::learn::{AutoTuneOptions, TuneOptions, Tuned};
use ehi::search::MOST_EXACT_DOCUMENTS;
use ehi::{Bundle, Document, Index, Judgment};
use tempfile::TempDir;

/// Long enough for the slowest machine.
const PATIENCE: Duration = Duration::from_secs(120);

fn tune() -> TuneOptions {
    // The smallest sample, so that it takes a second.
    TuneOptions { leaves: Some(40), passes: Some(1), memory_bytes: 1, always: true, ..TuneOptions::default() }
}

fn index() -> (TempDir, Index) {
    let dir = TempDir::new().unwrap();
    let index =
        Index::create(dir.path().join("index"), &Bundle::from_encoder(base_model()).unwrap()).unwrap();
    (dir, index)
}

/// Documents without texts, in clusters that change over time.
fn grow(index: &Index, from: usize, to: usize) {
    let vector = |n: usize| -> Vec<f32> {
        let (centre, mut state) = (n / 400, n as u64);
        (0..WIDTH)
            .map(|place| {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                let noise = (state >> 40) as f32 / (1 << 24) as f32 - 0.5;
                if place % 50 == centre % 50 { 3.0 } else { noise }
            })
            .collect()
    };
    let documents = (from..to).map(|n| (Document::new(id(n), "", ""), vector(n)));
    index.insert_vectors(documents.collect::<Vec<_>>()).unwrap();
}

#[test]
fn health_names_what_mends_it_and_the_cost() {
    let (_dir, index) = index();
    grow(&index, 0, 100);
    let health = index.health().unwrap();
    assert!(health.advice.is_empty() && health.remedies.is_empty(), "so few need no tree: {health:?}");
    assert_eq!(index.tuning_due().unwrap(), None);

    let many = MOST_EXACT_DOCUMENTS + 1;
    grow(&index, 100, many);
    let health = index.health().unwrap();
    assert_eq!(health.advice, [Advice::NoTree { documents: many }]);
    assert_eq!(index.tuning_due().unwrap(), Some(Advice::NoTree { documents: many }));
    let [remedy] = &health.remedies[..] else { panic!("{health:?}") };
    assert_eq!((remedy.command, remedy.documents_to_encode), (RemedyCommand::Tune, 0));
    assert!(remedy.documents_to_route == many && remedy.minutes > 0.0);
    assert!(remedy.to_string().starts_with("`ehi tune` "), "{remedy}");

    // Made from a sample: the size of the collection counts.
    index.tune(&tune()).unwrap();
    assert_eq!(index.tuning_due().unwrap(), None);
    grow(&index, many, 2 * many);
    let grown = Advice::Grown { documents: 2 * many, trained: many };
    assert_eq!(index.tuning_due().unwrap(), Some(grown.clone()));
    let health = index.health().unwrap();
    assert!(health.advice.contains(&grown), "{:?}", health.advice);
    assert!(health.remedies.iter().any(|remedy| remedy.command == RemedyCommand::Tune));
    // Tuning includes calibration.
    assert!(health.remedies.iter().all(|remedy| remedy.command != RemedyCommand::Calibrate));
    index.record_all([Judgment::new("a question", id(0), 1)]).unwrap();
    assert!(index.health().unwrap().remedies.iter().all(|remedy| remedy.minutes.is_finite()));
}

#[track_caller]
fn wait_for(mut done: impl FnMut() -> bool) {
    let started = Instant::now();
    while !done() {
        assert!(started.elapsed() < PATIENCE, "it did not come");
        thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn an_index_tunes_itself_when_it_is_due() {
    let (_dir, index) = index();
    let index = Arc::new(index);
    let interval = Duration::from_millis(10);
    let auto = index.auto_tune(AutoTuneOptions { interval, tune: tune() }).unwrap();
    grow(&index, 0, 200);
    thread::sleep(5 * interval);
    assert_eq!(auto.last().0, 0, "so few need no tree");
    let many = MOST_EXACT_DOCUMENTS + 1;
    grow(&index, 200, many);
    wait_for(|| auto.last().0 == 1);
    wait_for(|| index.bundle().has_tree());
    let first = index.bundle().hash();
    grow(&index, many, 2 * many);
    // Possibly once for the load, and once for the doubling.
    wait_for(|| auto.last().0 >= 2 && index.tuning_due().unwrap().is_none());
    assert_ne!(index.bundle().hash(), first);
    let tunings = auto.last().0;
    thread::sleep(5 * interval);
    assert_eq!(auto.last().0, tunings, "nothing was written meanwhile");
    drop(auto);
    assert_eq!(Arc::strong_count(&index), 1);
    assert!(index.verify().unwrap().is_sound());
}

#[test]
fn a_tuning_that_brings_nothing_is_not_tried_again_and_again() {
    let (_dir, index) = index();
    let index = Arc::new(index);
    grow(&index, 0, MOST_EXACT_DOCUMENTS + 1);
    // Two leaves save less than half of the work.
    let tune = TuneOptions { leaves: Some(2), always: false, ..tune() };
    let auto = index.auto_tune(AutoTuneOptions { interval: Duration::from_millis(10), tune }).unwrap();
    let mut last: Option<Tuned> = None;
    wait_for(|| {
        let (tunings, outcome) = auto.last();
        last = outcome.map(Result::unwrap).or(last.take());
        tunings == 1
    });
    thread::sleep(Duration::from_millis(200));
    assert_eq!(auto.last().0, 1);
    assert!(!index.bundle().has_tree(), "{last:?}");
}

#[test]
fn whoever_tunes_by_itself_ends_with_the_index_or_before() {
    let (dir, index) = index();
    let index = Arc::new(index);
    let auto = index.auto_tune(AutoTuneOptions { interval: PATIENCE, tune: tune() }).unwrap();
    drop(index);
    // No handle is open any more once the first check is over.
    let path = dir.path().join("index");
    wait_for(|| Index::open(&path).is_ok());
    drop(auto);
    let reader = Arc::new(Index::open_read_only(&path).unwrap());
    assert!(reader.auto_tune(AutoTuneOptions::default()).is_err());
    // A tuning in progress is ended.
    let index = Arc::new(Index::open(&path).unwrap());
    grow(&index, 0, MOST_EXACT_DOCUMENTS + 1);
    let tune = TuneOptions { passes: Some(100_000), ..tune() };
    let auto = index.auto_tune(AutoTuneOptions { interval: Duration::from_millis(1), tune }).unwrap();
    wait_for(|| {
        path.join("model.trained").exists() || index.verify().is_err() || Arc::strong_count(&index) > 1
    });
    drop(auto);
    assert!(!index.bundle().has_tree());
    assert!(!path.join("model.trained").exists());
}
