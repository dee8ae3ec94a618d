//! Power failures at every step of a run: everything promised is there, and nothing is there in part.

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::{passages::config_with_passages, *};
use crate::disk::{
    Backend, Unsynced,
    recorder::{Cut, Forget, Kept, Recorder, Step, Survey, WITHOUT_A_SYNC, asked, in_memory, promised},
};

/// Which of the unsynced operations survive.
pub(super) const CHOICES: &[Kept] = &[
    Kept::None,
    Kept::All,
    Kept::Contents,
    Kept::Names,
    Kept::Prefix(0.25),
    Kept::Prefix(0.5),
    Kept::Prefix(0.75),
    Kept::Some,
    Kept::Torn(512),
    Kept::Torn(4096),
];

/// What a workload does between two batches.
#[derive(Clone, Copy, Debug)]
enum Act {
    Nothing,
    Flush,
    Compact,
    Reopen,
    /// Copies the store into a directory inside the index, where the recorder sees it.
    Copy,
}

struct Workload {
    name: &'static str,
    durability: Durability,
    batches: Vec<(WriteBatch, Act)>,
    /// Whether documents have passages.
    passages: bool,
}

fn config_of(passages: bool) -> StoreConfig {
    if passages { config_with_passages() } else { config() }
}

fn workloads() -> Vec<Workload> {
    let one = |n: u32| put(&format!("d{n}"), n, n % LEAVES);
    let some = |from: u32, to: u32| puts((from..to).map(one).collect());
    let replaced = |n: u32, by: u32| put(&format!("d{n}"), by, by % LEAVES);
    let mut big = one(1);
    big.document.text = "big ".repeat(50_000);
    let big_again = big.clone();
    let flushed = |batches: Vec<WriteBatch>| batches.into_iter().map(|batch| (batch, Act::Flush)).collect();
    let mut random = ChaCha8Rng::seed_from_u64(5);
    let mut mixed = |count: usize| {
        (0..count)
            .map(|_| {
                let puts = (0..random.random_range(0..6u32))
                    .map(|_| replaced(random.random_range(0..20), random.random_range(0..2000)));
                let batch = WriteBatch {
                    puts: puts.collect(),
                    deletes: (0..random.random_range(0..3u32))
                        .map(|_| format!("d{}", random.random_range(0..20)))
                        .collect(),
                };
                let acts = [Act::Nothing, Act::Flush, Act::Flush, Act::Compact, Act::Reopen];
                (batch, acts[random.random_range(0..acts.len())])
            })
            .collect::<Vec<_>>()
    };
    let on_flush = Durability::OnFlush;
    let work = |name, durability, batches| Workload { name, durability, batches, passages: false };
    let apart = |n: u32, count: u32| put_passages(&format!("d{n}"), 20 * n + count, count);
    let with_passages = Workload {
        passages: true,
        ..work(
            "several rows a document",
            on_flush,
            vec![
                (puts((0..8).map(|n| apart(n, 1 + n % 4)).collect()), Act::Flush),
                (puts(vec![apart(3, 6), apart(4, 1)]), Act::Nothing),
                (deletes(&["d2", "d3"]), Act::Flush),
                (puts(vec![apart(9, 5)]), Act::Reopen),
                (puts(vec![apart(0, 3)]), Act::Copy),
                (deletes(&["d9"]), Act::Compact),
            ],
        )
    };
    let with_passages_in_the_log = Workload {
        passages: true,
        ..work(
            "several rows a document, every batch",
            Durability::EveryBatch,
            (0..5).map(|n| (puts(vec![apart(n, 2 + n), apart(n / 2, 3)]), Act::Nothing)).collect(),
        )
    };
    vec![
        work("first creation", on_flush, vec![]),
        work("one document", on_flush, vec![(some(0, 1), Act::Flush)]),
        work("single inserts", on_flush, flushed((0..10).map(|n| some(n, n + 1)).collect())),
        work("one batch", on_flush, vec![(some(0, 60), Act::Flush)]),
        work("batches", on_flush, flushed((0..4).map(|n| some(n * 15, n * 15 + 15)).collect())),
        work(
            "replacing",
            on_flush,
            flushed(vec![
                some(0, 20),
                puts((0..20).map(|n| replaced(n, n + 500)).collect()),
                puts(vec![replaced(3, 9)]),
            ]),
        ),
        work(
            "deleting",
            on_flush,
            flushed(vec![some(0, 40), deletes(&["d3", "d4"]), deletes(&["d5"]), deletes(&["d39", "d0"])]),
        ),
        work(
            "deleting everything",
            on_flush,
            flushed(vec![some(0, 3), deletes(&["d0", "d1"]), deletes(&["d2"]), some(7, 9)]),
        ),
        work(
            "compaction",
            on_flush,
            vec![
                (some(0, 30), Act::Flush),
                (deletes(&["d1", "d2", "d29"]), Act::Flush),
                (some(30, 35), Act::Compact),
                (some(35, 36), Act::Compact),
            ],
        ),
        work(
            "big documents",
            on_flush,
            vec![(puts(vec![big, one(2)]), Act::Flush), (deletes(&["d1"]), Act::Compact)],
        ),
        work(
            "reopening",
            on_flush,
            vec![(some(0, 5), Act::Reopen), (some(5, 6), Act::Reopen), (deletes(&["d2"]), Act::Reopen)],
        ),
        work(
            "every batch",
            Durability::EveryBatch,
            (0..8).map(|n| (some(n * 2, n * 2 + 3), Act::Nothing)).collect(),
        ),
        work("every batch, with all that happens", Durability::EveryBatch, mixed(12).into_iter().collect()),
        work(
            "big documents in the log",
            Durability::EveryBatch,
            vec![
                (puts(vec![big_again, one(2)]), Act::Nothing),
                (some(3, 6), Act::Nothing),
                (deletes(&["d1"]), Act::Reopen),
                (some(6, 8), Act::Nothing),
            ],
        ),
        work(
            "copies",
            on_flush,
            vec![(some(0, 12), Act::Copy), (deletes(&["d3"]), Act::Flush), (some(12, 14), Act::Copy)],
        ),
        with_passages,
        with_passages_in_the_log,
        work("anything", on_flush, mixed(14)),
        work("anything else", on_flush, mixed(14)),
    ]
}

/// Runs a workload; returns the operations on the disk and the models after each batch.
fn run(workload: &Workload, forget: Forget) -> (Vec<Step>, Vec<Model>) {
    let parent = tempfile::tempdir().unwrap();
    let dir = parent.path().join("index");
    fs::create_dir(&dir).unwrap();
    let recorder = Recorder::new(&dir, forget);
    let options = StoreOptions { durability: workload.durability, ..StoreOptions::default() };
    let mut history = vec![Model::new()];
    let backend = || -> Arc<dyn Backend> { Arc::new(recorder.clone()) };
    let mut store = Store::create_on(backend(), &dir, &config_of(workload.passages), options).unwrap();
    recorder.note(Step::Acknowledged(0));
    for (number, (batch, act)) in workload.batches.iter().enumerate() {
        let mut model = history[number].clone();
        apply(&mut model, batch);
        history.push(model);
        recorder.note(Step::Tried(number + 1));
        store.commit(batch.clone()).unwrap();
        match act {
            Act::Nothing => {}
            Act::Flush => store.flush().unwrap(),
            Act::Compact => store.compact(&mut || Ok(())).unwrap(),
            Act::Reopen => {
                drop(store);
                store = Store::open_on(backend(), &dir, options).unwrap();
            }
            Act::Copy => {
                let name = format!("copy-{number}");
                store.snapshot(&dir.join(&name)).unwrap();
                recorder.note(Step::Copied(name.into(), number + 1));
            }
        }
        if !matches!(act, Act::Nothing) || workload.durability == Durability::EveryBatch {
            recorder.note(Step::Acknowledged(number + 1));
        }
    }
    drop(store);
    (recorder.recorded(), history)
}

/// Checks that the store left by a cut is in an allowed state.
fn check(passages: bool, steps: &[Step], history: &[Model], cut: Cut) -> std::result::Result<(), String> {
    let parent = in_memory().map_err(|error| error.to_string())?;
    let dir = parent.path().join("index");
    cut.image(steps).write(&dir).map_err(|error| error.to_string())?;
    let steps = &steps[..cut.after];
    let (acknowledged, tried) = promised(steps);
    // Without syncs, which would go to the real disk.
    let options = StoreOptions { durability: Durability::None, ..StoreOptions::default() };
    let backend: Arc<dyn Backend> = Arc::new(Unsynced);
    let store = match (Store::open_on(Arc::clone(&backend), &dir, options), acknowledged) {
        (Ok(store), _) => store,
        (Err(StoreError::InterruptedCreate { .. } | StoreError::NotAnIndex { .. }), None) => {
            // Nothing was promised yet, and the create can be repeated.
            let store = Store::create(&dir, &config_of(passages), options);
            store.map_err(|error| format!("create again: {error}"))?
        }
        (Err(error), _) => return Err(format!("open: {error}")),
    };
    let range = acknowledged.unwrap_or(0)..=tried;
    let differences: Vec<String> =
        range.clone().map_while(|at| compare(&store.read(), &history[at]).err()).collect();
    if differences.len() > range.end() - range.start() {
        return Err(format!("none of the states {range:?}: {}", differences.join("; ")));
    }
    let mut model = history[range.start() + differences.len()].clone();
    // The store remains usable.
    let batch = WriteBatch { puts: vec![put("after", 77, 7), put("d1", 78, 8)], deletes: vec!["d2".into()] };
    apply(&mut model, &batch);
    let failed = |what: &'static str| move |error: StoreError| format!("{what}: {error}");
    store.commit(batch).map_err(failed("commit"))?;
    store.flush().map_err(failed("flush"))?;
    compare(&store.read(), &model)?;
    store.compact(&mut || Ok(())).map_err(failed("compact"))?;
    let report = store.verify().map_err(failed("verify"))?;
    if !report.is_sound() {
        return Err(format!("{report:?}"));
    }
    drop(store);
    let store = Store::open_on(backend, &dir, options).map_err(failed("open again"))?;
    compare(&store.read(), &model)?;
    for step in steps {
        if let Step::Copied(path, at) = step {
            let copy = Store::open(dir.join(path), options).map_err(failed("open a copy"))?;
            compare(&copy.read(), &history[*at])?;
            let report = copy.verify().map_err(failed("verify a copy"))?;
            if !report.is_sound() {
                return Err(format!("a copy: {report:?}"));
            }
        }
    }
    Ok(())
}

/// A workload's name, whether it has passages, its steps, and the models after each of its batches.
type Ran = (&'static str, bool, Vec<Step>, Vec<Model>);

fn run_all(forget: Forget) -> Vec<Ran> {
    let run_one = |workload: &Workload| {
        let (steps, history) = run(workload, forget);
        (workload.name, workload.passages, steps, history)
    };
    workloads().iter().map(run_one).collect()
}

fn survey(ran: &[Ran], mut survey: Survey) -> Survey {
    for (name, passages, steps, history) in ran {
        survey.run(name, steps, |cut| check(*passages, steps, history, cut));
    }
    survey
}

/// `EHI_POWER_IMAGES` asks for about that many images, and for every position; the documented long run has a
/// million.
#[test]
fn a_power_failure_anywhere_loses_nothing_promised() {
    let ran = run_all(Forget::Nothing);
    let places: usize = ran.iter().map(|(_, _, steps, _)| steps.len() + 1).sum();
    let survey = survey(&ran, Survey::new(CHOICES).of_size(asked(), places));
    survey.assert_none();
    let fewest = asked().unwrap_or(places / 2);
    assert!(survey.images >= fewest, "only {} images of {places}", survey.images);
}

/// A check that cannot fail proves nothing: with any single sync left out, or the manifest published first,
/// some images break a promise.
#[test]
fn every_sync_is_needed_and_so_is_their_order() {
    for forget in [
        Forget::Vectors,
        Forget::Documents,
        Forget::Dead,
        Forget::Manifest,
        Forget::Segments,
        Forget::Root,
        Forget::Order,
        Forget::Log,
        Forget::LogName,
    ] {
        let ran = run_all(forget);
        let survey = Survey::find_one(WITHOUT_A_SYNC, |one| survey(&ran, one));
        assert!(!survey.violations.is_empty(), "{forget:?}: no violation in {} images", survey.images);
    }
}
