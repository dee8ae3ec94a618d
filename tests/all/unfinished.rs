//! Unfinished files: `verify` names them, `stats` counts them, the next writer removes them.

use std::fs;
use std::ops::ControlFlow;
use std::path::Path;

use crate::program::{ehi, text};
use crate::support::{DOCUMENTS, Shape, base_model, bundle, config, copy_directory, dataset, filled, id};
use ehi::data::Dataset;
use ehi::train::{Trainer, TrainingSet};
use ehi::{Document, Error, Index, InputError, RepairOptions, SearchRequest, Similarity, Stage, no_progress};

const SHAPE: Shape = Shape { height: 1 };

/// Names of everything that can be left unfinished in the folder of an index, with a file in those that are
/// folders.
const BEGUN: [&str; 9] = [
    "CURRENT.new",
    "model.trained",
    "model.trained.partial",
    "model.trained.partial-17",
    "models/1/MEASURED.new",
    "models/1/model.new",
    "models/1/model/ehi.json.new",
    "models/1/model/query.safetensors.new",
    "models/1/model/query-0123456789abcdef.safetensors",
];

fn begin(index: &Path) {
    for name in BEGUN {
        let path = index.join(name);
        match name.contains("model.") {
            true => copy_directory(bundle(SHAPE).path(), &path),
            false => fs::write(path, "begun").unwrap(),
        }
    }
}

/// The names at the start of warnings, sorted.
fn named(index: &Index) -> Vec<String> {
    let report = index.verify().unwrap();
    assert!(report.is_sound(), "{:?}", report.problems);
    let said = report.warnings.iter().map(ToString::to_string);
    let mut names: Vec<String> = said.map(|said| said.split(' ').next().unwrap().to_owned()).collect();
    names.sort();
    names
}

/// qdrant/qdrant#2317: after a kill, folders of interrupted operations were never removed.
#[test]
fn it_is_named_counted_and_removed_by_the_next_writer() {
    let (dir, index) = filled(SHAPE, DOCUMENTS);
    let path = dir.path().join("index");
    drop(index);
    let reader = Index::open_read_only(&path).unwrap();
    let bytes = reader.stats().unwrap().bytes.total();
    begin(&path);
    let mut expected = BEGUN;
    expected.sort_unstable();
    assert_eq!(named(&reader), expected);
    let begun = reader.stats().unwrap().bytes;
    assert!(begun.begun > 3 * begun.model && begun.total() == bytes + begun.begun, "{begun:?}");
    // Foreign files stay, even with similar names.
    fs::write(path.join("model.trained.partial/notes"), "mine").unwrap();
    fs::create_dir(path.join("model.trained.mine")).unwrap();
    drop(Index::open(&path).unwrap());
    assert_eq!(named(&reader), ["model.trained.partial"]);
    assert_eq!(fs::read_dir(path.join("model.trained.partial")).unwrap().count(), 1);
    assert!(path.join("model.trained.mine").exists());
    fs::remove_dir_all(path.join("model.trained.partial")).unwrap();
    assert_eq!(reader.stats().unwrap().bytes.total(), bytes);

    // By a handle that is already open.
    let index = Index::open(&path).unwrap();
    begin(&path);
    assert!(!index.drop_previous_model().unwrap());
    assert_eq!(named(&index), Vec::<String>::new());
    assert_eq!(index.len(), DOCUMENTS);
}

#[test]
fn a_training_that_is_cut_off_leaves_nothing_beside_its_output() {
    let dir = tempfile::tempdir().unwrap();
    let set = TrainingSet::read(&Dataset::open(dataset()).unwrap(), 0.2).unwrap();
    let trainer = Trainer::builder().base(base_model()).output(dir.path().join("out")).config(config(SHAPE));
    // When the bundle is written except for its query encoder.
    let fitted = trainer
        .on_progress(|progress| match progress.stage {
            Stage::Distil => ControlFlow::Break(()),
            _ => ControlFlow::Continue(()),
        })
        .fit(&set);
    assert!(matches!(fitted, Err(Error::Cancelled)), "{:?}", fitted.err());
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
}

/// qdrant/qdrant#5983 and #2497: the remains of a failed snapshot were mistaken for an index, or never
/// removed.
#[test]
fn a_snapshot_that_was_killed_says_what_finishes_it() {
    let (dir, index) = filled(SHAPE, 20);
    let (path, target) = (dir.path().join("index"), dir.path().join("copy"));
    index.flush().unwrap();
    drop(index);
    // As a kill before the last rename leaves it.
    copy_directory(&path, &target);
    fs::rename(target.join("CURRENT"), target.join("CURRENT.new")).unwrap();
    fs::remove_file(target.join("CURRENT.copy")).unwrap();
    let said = ehi(["verify", "--index", text(&target)]).failure();
    assert!(said.contains("`snapshot`") && said.contains("run that command again"), "{said}");
    ehi(["snapshot", "--index", text(&path), text(&target)]).ok();
    assert_eq!(ehi(["verify", "--index", text(&target)]).code, Some(0));
}

#[test]
fn judgments_that_wait_are_called_judgments() {
    let (dir, index) = filled(SHAPE, 20);
    index.flush().unwrap();
    index.record("what is a tree?", &id(1), 1).unwrap();
    index.record("what is a leaf?", &id(2), 1).unwrap();
    // The remains after a kill.
    let killed = dir.path().join("killed");
    copy_directory(index.path(), &killed);
    let report = Index::open_read_only(&killed).unwrap().verify().unwrap();
    let said: Vec<String> = report.warnings.iter().map(ToString::to_string).collect();
    assert!(said.len() == 1 && said[0].starts_with("2 judgments in 2 commits "), "{said:?}");
}

#[test]
fn damage_stands_out_and_what_a_repair_set_aside_can_be_forgotten() {
    let (dir, index) = filled(SHAPE, DOCUMENTS);
    drop(index);
    let path = dir.path().join("index");
    let run = |command: &str, more: &[&str]| ehi([&[command, "--index", text(&path)][..], more].concat());
    assert!(run("health", &[]).ok().ends_with("nothing stands out\n"));
    let vectors = path.join("models/1/segments/00000000.vectors");
    let mut bytes = fs::read(&vectors).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(&vectors, bytes).unwrap();
    let said = run("health", &[]);
    assert_eq!(said.code, Some(1), "{}", said.out);
    assert!(said.out.contains("damaged: ") && !said.out.contains("nothing stands out"), "{}", said.out);
    let json: serde_json::Value = serde_json::from_str(&run("health", &["--json"]).out).unwrap();
    assert_eq!((&json["sound"], json["problem_count"].as_u64() > Some(0)), (&false.into(), true));

    let said = run("repair", &["--forget"]);
    assert!(said.out.contains("nothing that was set aside is removed"), "{}", said.out);
    let said = run("verify", &[]);
    assert_eq!(said.code, Some(3), "{}", said.out);
    let line =
        "models/1/damaged/00000000.vectors was set aside by a repair; `ehi repair --forget` removes it";
    assert!(said.out.contains(line), "{}", said.out);
    assert!(run("health", &[]).ok().contains("sound, with 2 warnings"));
    let said = run("repair", &["--forget"]).ok();
    assert!(said.contains("removed: ") && said.contains("models/1/damaged/00000000.vectors"), "{said}");
    assert_eq!(run("verify", &[]).code, Some(0));
    assert!(!path.join("models/1/damaged").exists());
    assert!(run("repair", &["--forget"]).ok().contains("nothing was set aside"));
    assert_eq!(Index::open(&path).unwrap().len(), DOCUMENTS);

    // Also for judgments and for a model that was set aside completely.
    let index = Index::open(&path).unwrap();
    index.reencode(&bundle(Shape::of_height(2))).unwrap();
    drop(index);
    fs::write(path.join("models/1/MANIFEST"), "").unwrap();
    fs::write(path.join("models/1/MANIFEST.copy"), "").unwrap();
    Index::repair(&path, &RepairOptions::default(), &mut no_progress).unwrap();
    assert!(path.join("damaged/1/segments").exists());
    let report =
        Index::repair(&path, &RepairOptions { forget: true, ..RepairOptions::default() }, &mut no_progress)
            .unwrap();
    assert_eq!(report.forgotten, [path.join("damaged/1")]);
    assert!(!path.join("damaged").exists());
}

/// qdrant/qdrant#1195 and vlasky/sqlite-vec#8: vectors of norm 0 were stored, and NaN spoiled the order of
/// hits. For dot product and distances, a vector of norm 0 is like any other.
#[test]
fn a_vector_needs_a_direction_for_cosine() {
    for similarity in [Similarity::Cosine, Similarity::DotProduct, Similarity::Manhattan] {
        let dir = tempfile::tempdir().unwrap();
        let index = Index::builder().similarity(similarity).create(dir.path(), &bundle(SHAPE)).unwrap();
        let of_norm = |norm: f32| {
            let mut vector = vec![0.0; 128];
            (vector[3], vector[70]) = (0.6 * norm, -0.8 * norm);
            vector
        };
        let given = [0.0, 1e-30, 1e-9, 1e-5, 1e-3, 1.0].map(of_norm);
        let named =
            given.iter().enumerate().map(|(n, vector)| (Document::new(id(n), "", ""), vector.clone()));
        let summary = index.insert_vectors(named).unwrap();
        let refused = if similarity == Similarity::Cosine { 4 } else { 0 };
        assert_eq!((summary.inserted, summary.refused.len()), (6 - refused, refused), "{similarity}");
        assert!(summary.refused.iter().all(|refused| refused.error == InputError::BadVector));
        for (n, vector) in given.iter().enumerate() {
            let is_bad = |result: ehi::Result<()>| match result {
                Ok(()) => false,
                Err(Error::Input(InputError::BadVector)) => true,
                other => panic!("{other:?}"),
            };
            let found = index.search_with(vector, &SearchRequest::dense());
            let hits = found.as_ref().map_or(0, |found| found.len());
            assert_eq!(hits, if n < refused { 0 } else { 6 - refused }, "{similarity}");
            assert_eq!(is_bad(found.map(drop)), n < refused, "{similarity}");
            // The tree goes by directions.
            assert_eq!(is_bad(index.bundle().route(vector, 1).map(drop)), n < 4);
        }
        assert!(index.verify().unwrap().is_sound());
    }
}
