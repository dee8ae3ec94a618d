//! Power failures during the repair of a store with unsealed commits in its log.

use super::{super::layout::names, power::CHOICES, repair::compute, *};
use crate::disk::{
    Backend, OpenMode, Unsynced,
    recorder::{Cut, Forget, Recorder, Step, Survey, WITHOUT_A_SYNC, in_memory, promised},
};

/// What to damage before the repair.
#[derive(Clone, Copy, Debug)]
enum Damaged {
    /// A commit in the middle of the log.
    Log,
    Manifest,
    Vectors,
    All,
}

const COMMITS: u32 = 5;
/// The damaged commit.
const LOST: u32 = 2;

/// A document with the leaves and the embedding that `compute` returns for it.
fn document(id: String, seed: u32) -> Put {
    put(&id, seed, seed % LEAVES)
}

/// A killed writer's store with commits in its log, and its expected contents after the repair.
fn left(damaged: Damaged) -> (tempfile::TempDir, Model) {
    let (origin, left) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let mut model = Model::new();
    let options = StoreOptions { durability: Durability::EveryBatch, ..StoreOptions::default() };
    let store = Store::create(origin.path(), &config(), options).unwrap();
    let sealed = (0..6).map(|n| document(format!("d{n}"), n)).collect();
    commit(&store, &mut model, puts(sealed));
    store.flush().unwrap();
    let loses = matches!(damaged, Damaged::Log | Damaged::All);
    for number in 0..COMMITS {
        let added = vec![document(format!("n{number}"), 100 + number), document("d1".into(), 200 + number)];
        let batch = WriteBatch { puts: added, deletes: vec![format!("d{}", number + 2)] };
        if !(loses && number == LOST) {
            apply(&mut model, &batch);
        }
        store.commit(batch).unwrap();
    }
    copy_directory(origin.path(), left.path());
    let middle = |bytes: &mut Vec<u8>| {
        let at = bytes.len() / 2;
        bytes[at] ^= 1;
    };
    if loses {
        change_file(&only_file(left.path(), names::LOG, "log"), |bytes| {
            let frames = bytes.windows(4).enumerate().filter(|(_, four)| *four == b"ehfr");
            let at = frames.map(|(at, _)| at).nth(LOST as usize).unwrap() + 50;
            bytes[at] ^= 1;
        });
    }
    if matches!(damaged, Damaged::Manifest | Damaged::All) {
        change_file(&left.path().join(names::MANIFEST), middle);
    }
    if matches!(damaged, Damaged::Vectors | Damaged::All) {
        change_file(&only_file(left.path(), names::SEGMENTS, "vectors"), middle);
    }
    (left, model)
}

fn only_file(dir: &Path, folder: &str, extension: &str) -> PathBuf {
    let files = fs::read_dir(dir.join(folder)).unwrap().map(|entry| entry.unwrap().path());
    let mut files = files.filter(|path| path.extension().is_some_and(|found| found == extension));
    let file = files.next().unwrap();
    assert!(files.next().is_none());
    file
}

fn change_file(path: &Path, change: impl FnOnce(&mut Vec<u8>)) {
    let mut bytes = fs::read(path).unwrap();
    change(&mut bytes);
    fs::write(path, bytes).unwrap();
}

/// Rewrites a directory through a backend, durably.
fn plant(backend: &dyn Backend, from: &Path, to: &Path) {
    for entry in fs::read_dir(from).unwrap().map(std::result::Result::unwrap) {
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            backend.create_directory(&target).unwrap();
            plant(backend, &entry.path(), &target);
        } else {
            let file = backend.open(&target, OpenMode::Replace).unwrap();
            file.write_at(&fs::read(entry.path()).unwrap(), 0).unwrap();
            file.sync_all().unwrap();
        }
    }
    backend.sync_directory(to).unwrap();
}

fn repair_on(backend: Arc<dyn Backend>, dir: &Path) -> Result<RepairReport> {
    let repair = Repair::begin_on(backend, dir, StoreOptions::default())?;
    repair.run(
        Undecided::Refuse,
        Anew {
            compute: &mut compute,
            encodes: true,
            elsewhere: &mut |_, _| None,
            lexer: Some(&terms::WordLexer),
        },
        &mut || Ok(()),
    )
}

/// The steps of a repair that omits some syncs, and the expected result.
fn run(damaged: Damaged, forget: Forget) -> (Vec<Step>, Model) {
    let (left, model) = left(damaged);
    let parent = in_memory().unwrap();
    let dir = parent.path().join("index");
    fs::create_dir(&dir).unwrap();
    let recorder = Recorder::new(&dir, Forget::Nothing);
    plant(&recorder, left.path(), &dir);
    recorder.note(Step::Acknowledged(0));
    let report = repair_on(Arc::new(recorder.forgetting(forget)), &dir).unwrap();
    assert!(!report.was_sound() && report.lost == 0, "{report:?}");
    recorder.note(Step::Acknowledged(1));
    (recorder.recorded(), model)
}

/// Before its end, a repair can be repeated; after it, the store is whole.
fn check(steps: &[Step], model: &Model, cut: Cut) -> std::result::Result<(), String> {
    let Some(acknowledged) = promised(&steps[..cut.after]).0 else { return Ok(()) };
    let parent = in_memory().map_err(|error| error.to_string())?;
    let dir = parent.path().join("index");
    cut.image(steps).write(&dir).map_err(|error| error.to_string())?;
    let backend: Arc<dyn Backend> = Arc::new(Unsynced);
    let failed = |what: &'static str| move |error: StoreError| format!("{what}: {error}");
    if acknowledged == 0 {
        let report = repair_on(Arc::clone(&backend), &dir).map_err(failed("repair again"))?;
        if report.lost > 0 {
            return Err(format!("{report:?}"));
        }
    }
    let options = StoreOptions { durability: Durability::None, ..StoreOptions::default() };
    let store = Store::open_on(backend, &dir, options).map_err(failed("open"))?;
    compare(&store.read(), model)?;
    let mut model = model.clone();
    let batch = puts(vec![document("after".into(), 77)]);
    apply(&mut model, &batch);
    store.commit(batch).map_err(failed("commit"))?;
    store.compact(&mut || Ok(())).map_err(failed("compact"))?;
    compare(&store.read(), &model)?;
    let report = store.verify().map_err(failed("verify"))?;
    if report.is_sound() { Ok(()) } else { Err(format!("{report:?}")) }
}

fn survey(forget: Forget, mut survey: Survey) -> Survey {
    for damaged in [Damaged::Log, Damaged::Manifest, Damaged::Vectors, Damaged::All] {
        let (steps, model) = run(damaged, forget);
        survey.run(&format!("{damaged:?}"), &steps, |cut| check(&steps, &model, cut));
    }
    survey
}

#[test]
fn a_power_failure_during_a_repair_loses_no_whole_commit() {
    survey(Forget::Nothing, Survey { rounds: 4, ..Survey::new(CHOICES) }).assert_none();
}

#[test]
fn every_sync_of_a_repair_is_needed() {
    for forget in [Forget::Log, Forget::LogName, Forget::Vectors, Forget::Manifest, Forget::Segments] {
        let survey = survey(forget, Survey { enough: 1, ..Survey::new(WITHOUT_A_SYNC) });
        assert!(!survey.violations.is_empty(), "{forget:?}: no violation in {} images", survey.images);
    }
}
