//! Power failures at every step of a run: everything promised is there, and one model is in service.

use std::path::PathBuf;

use super::*;
use crate::disk::{
    OpenMode,
    recorder::{Cut, Forget, Kept, Recorder, Step, Survey, WITHOUT_A_SYNC, asked, promised},
};
use crate::error::Error;
use crate::index::RepairOptions;
use crate::progress::no_progress;
use crate::store::StoreError;

/// Which of the unsynced operations survive.
const CHOICES: &[Kept] = &[Kept::None, Kept::Names, Kept::Some, Kept::Torn(512)];

/// A step of a workload.
#[derive(Clone, Copy, Debug)]
enum Act {
    /// Inserts and flushes documents with these numbers.
    Insert(usize, usize),
    Reencode(Which),
    Rollback,
    DropPrevious,
    /// Into a directory inside the index, where the recorder sees it.
    Snapshot(&'static str),
    Calibrate,
    /// Records and flushes judgments with these numbers.
    Judge(usize, usize),
    /// Takes back and flushes judgments with these numbers.
    Forget(usize, usize),
    /// Has judgments of near questions count.
    Weigh,
    Compact,
    /// Gives the model the query encoder of this number; 0 removes it.
    Distil(u64),
    /// Damages a file, and repairs the index.
    Repair(Damaged),
}

#[derive(Clone, Copy, Debug)]
enum Which {
    A,
    B,
    C,
}

/// What to damage before a repair.
#[derive(Clone, Copy, Debug)]
enum Damaged {
    Current,
    Kept,
    Bundle,
    /// Of which no copy is left, so that the index goes on without it.
    Tree,
    Segment,
    Judgments,
}

fn workloads() -> Vec<(&'static str, Vec<Act>)> {
    use Act::{
        Calibrate, Compact, Distil, DropPrevious, Forget, Insert, Judge, Reencode, Repair, Rollback,
        Snapshot, Weigh,
    };
    use Which::{A, B, C};
    vec![
        ("creation", vec![]),
        ("inserts", vec![Insert(0, 4), Insert(3, 6)]),
        ("there and back", vec![Insert(0, 3), Reencode(B), Insert(3, 4), Rollback, DropPrevious]),
        ("one after another", vec![Insert(0, 2), Reencode(C), Reencode(B), Insert(1, 3), Reencode(A)]),
        ("snapshots", vec![Insert(0, 3), Snapshot("copy-1"), Insert(3, 4), Snapshot("copy-2")]),
        ("calibration", vec![Insert(0, 4), Calibrate, Insert(4, 5), Calibrate, Reencode(B), Calibrate]),
        (
            "judgments",
            vec![Insert(0, 2), Judge(0, 3), Judge(2, 5), Reencode(B), Snapshot("copy-1"), Judge(5, 6)],
        ),
        (
            "vectors of judged questions",
            vec![
                Insert(0, 6),
                Judge(0, 3),
                Weigh,
                Judge(3, 5),
                Forget(1, 3),
                Compact,
                Judge(5, 8),
                Snapshot("copy-1"),
            ],
        ),
        (
            "query encoders",
            vec![Distil(1), Insert(0, 2), Distil(2), Snapshot("copy-1"), Distil(0), Distil(3)],
        ),
        ("repair of judgments", vec![Judge(0, 4), Repair(Damaged::Judgments), Judge(4, 5)]),
        ("repair of CURRENT", vec![Insert(0, 3), Reencode(B), Repair(Damaged::Current), Insert(3, 4)]),
        ("repair of what is kept", vec![Insert(0, 3), Reencode(B), Repair(Damaged::Kept), DropPrevious]),
        ("repair of a model", vec![Insert(0, 3), Repair(Damaged::Bundle), Insert(3, 4)]),
        ("repair without a tree", vec![Insert(0, 3), Repair(Damaged::Tree), Insert(3, 4)]),
        ("repair of a segment", vec![Insert(0, 3), Repair(Damaged::Segment), Insert(3, 4)]),
    ]
}

/// What a workload did: the recorded steps, and the states after each of its acts, starting with the
/// creation.
struct Ran {
    name: &'static str,
    acts: Vec<Act>,
    steps: Vec<Step>,
    history: Vec<State>,
}

/// Runs a workload. Damage from a missing sync shows only in the images.
fn run(bundles: &Bundles, name: &'static str, acts: Vec<Act>, forget: Forget) -> Ran {
    let parent = in_memory().unwrap();
    let dir = parent.path().join("index");
    fs::create_dir(&dir).unwrap();
    let recorder = Recorder::new(&dir, forget);
    let backend = || -> Arc<dyn Backend> { Arc::new(recorder.clone()) };
    let of = |which| match which {
        Which::A => &bundles.a,
        Which::B => &bundles.b,
        Which::C => &bundles.c,
    };
    let models = ModelStore::of_small_files(parent.path().join("models"), 512, DAY);
    let options = IndexBuilder::default().models(models);
    let mut index = Index::create_on(backend(), &dir, &bundles.a, &options).unwrap();
    recorder.note(Step::Acknowledged(0));
    let mut history = vec![State::new(&bundles.a)];
    for (act, number) in acts.iter().zip(1..) {
        let before = history[number - 1].clone();
        recorder.note(Step::Tried(number));
        let state = match *act {
            Act::Insert(from, to) => {
                // Before the call, since images are cut within it.
                let added = documents(from, to);
                index.insert_batch(added.clone()).unwrap();
                index.flush().unwrap();
                before.with(&added)
            }
            Act::Reencode(which) => {
                index.reencode(of(which)).unwrap();
                before.served_by(of(which))
            }
            Act::Rollback => {
                let to = index.rollback().unwrap().to;
                State { model: to, ..before }
            }
            Act::DropPrevious => {
                index.drop_previous_model().unwrap();
                before
            }
            Act::Snapshot(name) => {
                index.copy_to(&dir.join(name)).unwrap();
                recorder.note(Step::Copied(name.into(), number));
                before
            }
            Act::Judge(from, to) => {
                let told = judgments(from, to);
                index.record_all(told.clone()).unwrap();
                index.flush().unwrap();
                before.told(&told)
            }
            Act::Forget(from, to) => {
                let gone = judgments(from, to);
                index.forget(gone.iter().map(|own| (&*own.question, &*own.id))).unwrap();
                index.flush().unwrap();
                before.forgot(&gone)
            }
            Act::Weigh => {
                weigh(&index).unwrap();
                // Makes their vectors.
                index.search("tree leaf", 3, 3).unwrap();
                before
            }
            Act::Compact => {
                index.compact().unwrap();
                before
            }
            Act::Distil(number) => {
                let made = (number > 0).then(|| query_encoder::made(number));
                let given = made.as_ref().map(|(entry, bytes)| (entry.clone(), bytes.as_slice()));
                index.set_query_encoder(&index.serving(), given).unwrap();
                State { fast: made.map(|(entry, _)| entry.file), ..before }
            }
            Act::Calibrate => {
                index.calibrate(&[]).unwrap();
                before
            }
            Act::Repair(what) => {
                let current = index.root.current();
                drop(index);
                damage(&*backend(), &dir, current, what);
                let options = repair_options(bundles, what, &before);
                Index::repair_on(backend(), &dir, &options, &mut no_progress).unwrap();
                index = open(backend(), &dir).unwrap();
                match what {
                    Damaged::Tree => before.served_by(&bundles.without_tree),
                    _ => before,
                }
            }
        };
        history.push(state);
        recorder.note(Step::Acknowledged(number));
    }
    drop(index);
    Ran { name, acts, steps: recorder.recorded(), history }
}

/// Overwrites a file of the index with other content, at once and durably.
fn damage(backend: &dyn Backend, dir: &Path, current: crate::index::root::Current, what: Damaged) {
    let model = |number: u32| dir.join("models").join(number.to_string());
    let segment_of = |store: PathBuf| {
        let segments = store.join("segments");
        let name = names(&segments).into_iter().find(|name| name.ends_with(".vectors")).unwrap();
        segments.join(name)
    };
    let segment = |number| segment_of(model(number));
    let path = match what {
        Damaged::Current => dir.join("CURRENT"),
        Damaged::Kept => segment(current.kept.unwrap()),
        Damaged::Bundle => model(current.serving).join("model/model.safetensors"),
        Damaged::Tree => model(current.serving).join("model/indexer.safetensors"),
        Damaged::Segment => segment(current.serving),
        Damaged::Judgments => segment_of(dir.join("judgments")),
    };
    let mut bytes = fs::read(&path).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    let file = backend.open(&path, OpenMode::Replace).unwrap();
    file.write_at(&bytes, 0).unwrap();
    file.sync_all().unwrap();
    backend.sync_directory(path.parent().unwrap()).unwrap();
}

fn repair_options(bundles: &Bundles, what: Damaged, state: &State) -> RepairOptions {
    let all = [&bundles.a, &bundles.b, &bundles.c];
    let bundle = match what {
        Damaged::Tree => Some(&bundles.without_tree),
        _ => all.into_iter().find(|bundle| bundle.hash() == state.model),
    };
    RepairOptions { bundle: bundle.cloned(), ..RepairOptions::default() }
}

/// Checks that the index left by a cut is in an allowed state, and usable.
fn check_image(bundles: &Bundles, ran: &Ran, cut: Cut) -> std::result::Result<(), String> {
    let parent = in_memory().map_err(|error| error.to_string())?;
    let dir = parent.path().join("index");
    cut.image(&ran.steps).write(&dir).map_err(|error| error.to_string())?;
    let steps = &ran.steps[..cut.after];
    let (acknowledged, tried) = promised(steps);
    let failed = |what: &'static str| move |error: Error| format!("{what}: {error}");

    // Cut off after the damage, so the damage is there.
    let act = ran.acts.get(tried.wrapping_sub(1)).filter(|_| acknowledged < Some(tried));
    if let Some(Act::Repair(what)) = act {
        let options = repair_options(bundles, *what, &ran.history[tried - 1]);
        let repaired = Index::repair_on(unsynced(), &dir, &options, &mut no_progress);
        let report = repaired.map_err(failed("repair"))?;
        if report.lost + report.lost_judgments > 0 {
            return Err(format!("{report:?}"));
        }
    }
    let index = match (open(unsynced(), &dir), acknowledged) {
        (Ok(index), _) => index,
        (Err(Error::Store(StoreError::InterruptedCreate { .. } | StoreError::NotAnIndex { .. })), None) => {
            // Nothing was promised yet, and the create can be repeated.
            create(unsynced(), &dir, &bundles.a).map_err(failed("create again"))?
        }
        (Err(error), _) => return Err(format!("open: {error}")),
    };
    let state = check(&index, &ran.history[acknowledged.unwrap_or(0)..=tried])?;
    index.previous_model().map_err(failed("previous model"))?;
    check_answers(&index)?;
    let done = &ran.acts[..acknowledged.unwrap_or(0)];
    let last = |of: fn(&Act) -> bool| done.iter().rposition(of);
    let calibrated = last(|act| matches!(act, Act::Calibrate));
    let is_next = act.is_some_and(|act| matches!(act, Act::Reencode(_)));
    if calibrated > last(|act| matches!(act, Act::Reencode(_)))
        && !is_next
        && index.serving().measured().recall.is_none()
    {
        return Err("no recall curve".to_owned());
    }
    check_copies(steps, ran, act, &index, &dir)?;

    // The index remains usable.
    let told = judgments(2, 6);
    index.record_all(told.clone()).map_err(failed("judge"))?;
    check_answers(&index)?;
    let state = state.told(&told);
    let added = documents(50, 52);
    index.insert_batch(added.clone()).map_err(failed("insert"))?;
    index.flush().map_err(failed("flush"))?;
    let bundle = bundles.other_than(&index.bundle());
    index.reencode(bundle).map_err(failed("reencode"))?;
    let state = check(&index, &[state.with(&added).served_by(bundle)])?;
    if !index.drop_previous_model().map_err(failed("drop the previous model"))? {
        return Err("no previous model".to_owned());
    }
    drop(index);
    let index = open(unsynced(), &dir).map_err(failed("open again"))?;
    check(&index, &[state])?;
    let left = names(&dir.join("models"));
    if left.len() == 1 { Ok(()) } else { Err(format!("models left: {left:?}")) }
}

/// A promised copy is complete; an interrupted one can be made again.
fn check_copies(
    steps: &[Step],
    ran: &Ran,
    act: Option<&Act>,
    index: &Index,
    dir: &Path,
) -> std::result::Result<(), String> {
    let done = steps.iter().filter_map(|step| match step {
        Step::Copied(path, at) => Some((path.clone(), *at, true)),
        _ => None,
    });
    let mut copies: Vec<(PathBuf, usize, bool)> = done.collect();
    if let Some(Act::Snapshot(name)) = act
        && !copies.iter().any(|(path, ..)| path == Path::new(name))
    {
        let at = ran.acts.iter().position(|act| matches!(act, Act::Snapshot(own) if own == name));
        copies.push((name.into(), at.map_or(0, |at| at + 1), false));
    }
    for (path, at, promised) in copies {
        let path = dir.join(path);
        let copy = match open(unsynced(), &path) {
            Ok(copy) => copy,
            Err(
                error @ Error::Store(
                    StoreError::InterruptedCreate { .. }
                    | StoreError::NotAnIndex { .. }
                    | StoreError::NotFound { .. },
                ),
            ) => {
                if promised {
                    return Err(format!("open a copy: {error}"));
                }
                index.copy_to(&path).map_err(|error| format!("copy again: {error}"))?;
                open(unsynced(), &path).map_err(|error| format!("open a second copy: {error}"))?
            }
            Err(error) => return Err(format!("open a copy: {error}")),
        };
        let before = if promised { at } else { at - 1 };
        check(&copy, &ran.history[before..=before]).map_err(|error| format!("a copy: {error}"))?;
    }
    Ok(())
}

/// An image of an index takes as long as many images of a store: check a third of those that
/// `EHI_POWER_IMAGES` asks for.
fn wanted() -> Option<usize> {
    asked().map(|images| images / 3)
}

fn run_all(bundles: &Bundles, forget: Forget) -> Vec<Ran> {
    workloads().into_iter().map(|(name, acts)| run(bundles, name, acts, forget)).collect()
}

fn survey(bundles: &Bundles, ran: &[Ran], mut survey: Survey) -> Survey {
    for ran in ran {
        survey.run(ran.name, &ran.steps, |cut| check_image(bundles, ran, cut));
    }
    survey
}

/// Every position, or as many images as [`wanted`] says.
#[test]
fn a_power_failure_anywhere_leaves_one_model_with_all_that_was_promised() {
    let bundles = Bundles::new();
    let ran = run_all(&bundles, Forget::Nothing);
    let places: usize = ran.iter().map(|ran| ran.steps.len() + 1).sum();
    let survey = survey(&bundles, &ran, Survey::new(CHOICES).of_size(wanted(), places));
    survey.assert_none();
    let fewest = wanted().map_or(places / 2, |wanted| wanted.min(4 * places));
    assert!(places > 500 && survey.images >= fewest, "only {} images of {places}", survey.images);
}

/// A check that cannot fail proves nothing: with any single sync left out, some images break a promise.
#[test]
fn every_sync_of_an_index_is_needed() {
    let bundles = Bundles::new();
    for forget in
        [Forget::Current, Forget::Bundle, Forget::Model, Forget::Models, Forget::Root, Forget::Vectors]
    {
        let ran = run_all(&bundles, forget);
        let survey = Survey::find_one(WITHOUT_A_SYNC, |one| survey(&bundles, &ran, one));
        assert!(!survey.violations.is_empty(), "{forget:?}: no violation in {} images", survey.images);
    }
}
