//! Invalid input and damaged models: a typed error each time, and nothing is lost.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::support::{self, Shape, bundle, copy_directory, document, documents, filled, id};
use ehi::data::{DataErrorKind, read_documents};
use ehi::model::{ENCODER_FILE, Encoder, INDEXER_FILE, ModelError, Role};
use ehi::store::StoreError;
use ehi::train::{TrainConfig, TrainError, Trainer, TrainingSet};
use ehi::{Bundle, Document, Error, Index, InputError, SearchRequest};

/// Path of an index's model before any change.
const MODEL_DIR: &str = "models/1/model";
const FLAT: Shape = Shape { height: 1 };
/// Documents in the index before the failure.
const STORED: usize = 12;

/// All earlier documents are there, and the whole index is sound.
fn assert_intact(index: &Index) {
    assert_eq!(index.iter().map(Result::unwrap).collect::<Vec<_>>(), documents(STORED));
    let report = index.verify().unwrap();
    assert!(report.is_sound(), "{:?}", report.problems);
}

fn names(dir: &Path) -> Vec<String> {
    let mut names: Vec<String> =
        fs::read_dir(dir).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

fn open_error(path: impl AsRef<Path>) -> Error {
    match Index::open(path) {
        Ok(_) => panic!("it opened"),
        Err(error) => error,
    }
}

fn create_error(path: impl AsRef<Path>) -> Error {
    match Index::create(path, &bundle(FLAT)) {
        Ok(_) => panic!("it was created"),
        Err(error) => error,
    }
}

fn bundle_error(path: impl AsRef<Path>) -> ModelError {
    match Bundle::open(path) {
        Ok(_) => panic!("it opened"),
        Err(error) => error,
    }
}

#[test]
fn a_missing_directory_is_not_made_by_open() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("absent");
    let error = open_error(&path);
    assert!(
        matches!(&error, Error::Store(StoreError::NotFound { path: named }) if *named == path),
        "{error}"
    );
    assert!(!path.exists());
    assert!(matches!(bundle_error(&path), ModelError::NotAModel { .. }));
}

#[test]
fn a_foreign_directory_is_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("notes.txt"), "mine").unwrap();
    let error = open_error(dir.path());
    assert!(matches!(error, Error::Store(StoreError::NotAnIndex { .. })), "{error}");
    let error = create_error(dir.path());
    assert!(matches!(error, Error::Store(StoreError::AlreadyExists { .. })), "{error}");
    assert_eq!(names(dir.path()), ["notes.txt"]);
    assert_eq!(fs::read_to_string(dir.path().join("notes.txt")).unwrap(), "mine");

    let file = dir.path().join("notes.txt");
    assert!(matches!(open_error(&file), Error::Store(StoreError::NotAnIndex { .. })));
    create_error(&file);
    assert_eq!(fs::read_to_string(file).unwrap(), "mine");
}

/// Not even one with the temporary name of a bundle being copied.
#[test]
fn a_users_own_folder_is_not_cleared() {
    for name in ["model", "model.new", "models", "models/1", "models/1/model", "segments", "CURRENT.new"] {
        let dir = tempfile::tempdir().unwrap();
        let own = dir.path().join(name);
        fs::create_dir_all(&own).unwrap();
        fs::write(own.join("notes.txt"), "mine").unwrap();
        let error = create_error(dir.path());
        assert!(matches!(error, Error::Store(StoreError::AlreadyExists { .. })), "{error}");
        assert_eq!(names(&own), ["notes.txt"]);
        assert!(!dir.path().join("LOCK").exists());
    }
    // A file that is not the mark of an interrupted create.
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("CURRENT.new"), "mine").unwrap();
    let error = create_error(dir.path());
    assert!(matches!(error, Error::Store(StoreError::AlreadyExists { .. })), "{error}");
    assert_eq!(fs::read_to_string(dir.path().join("CURRENT.new")).unwrap(), "mine");
}

/// Foreign files next to the models of an index are not removed.
#[test]
fn what_is_put_among_the_models_is_left_there() {
    let (dir, index) = filled(FLAT, STORED);
    let path = dir.path().join("index");
    let (old, new) = (bundle(FLAT), bundle(Shape { height: 2 }));
    index.snapshot(dir.path().join("copy")).unwrap();
    fs::rename(dir.path().join("copy"), path.join("models/2")).unwrap();
    copy_directory(&path.join("models/1"), &path.join("models/7"));
    fs::create_dir(path.join("models/mine")).unwrap();
    index.reencode(&new).unwrap();
    fs::write(path.join("models/1/notes.txt"), "mine").unwrap();
    fs::write(path.join("models/1/model/notes.txt"), "mine").unwrap();
    fs::write(path.join("models/1/segments/notes.txt"), "mine").unwrap();
    assert!(index.drop_previous_model().unwrap());
    assert!(!index.drop_previous_model().unwrap());
    assert_eq!(names(&path.join("models")), ["1", "2", "3", "7", "mine"]);
    assert_eq!(names(&path.join("models/1")), ["model", "notes.txt", "segments"]);
    assert_eq!(names(&path.join("models/1/model")), ["notes.txt"]);
    assert_eq!(names(&path.join("models/1/segments")), ["notes.txt"]);
    index.reencode(&old).unwrap();
    index.reencode(&new).unwrap();
    index.rollback().unwrap();
    index.drop_previous_model().unwrap();
    assert_eq!(names(&path.join("models")), ["1", "2", "4", "7", "mine"]);
    assert_intact(&index);
    assert_intact(&Index::open(path.join("models/2")).unwrap());
}

#[test]
fn an_index_is_not_created_over() {
    let (dir, index) = filled(FLAT, STORED);
    let path = dir.path().join("index");
    for _ in 0..2 {
        let error = create_error(&path);
        assert!(matches!(error, Error::Store(StoreError::AlreadyExists { .. })), "{error}");
    }
    assert_intact(&index);
    drop(index);
    create_error(&path);
    assert_intact(&Index::open(&path).unwrap());
}

#[test]
fn what_an_interrupted_create_left_is_cleared() {
    let (sound, index) = filled(FLAT, 0);
    drop(index);
    let whole = sound.path().join("index");
    let current = fs::read(whole.join("CURRENT")).unwrap();
    // Interrupted before the models were there, while the bundle was being copied, after that, and before the
    // last step; with a whole mark or not.
    for (number, mark) in (0..4).zip([&current[..], &current[..10], &[0; 64], &[]]) {
        let dir = tempfile::tempdir().unwrap();
        let model = dir.path().join("models/1");
        fs::write(dir.path().join("CURRENT.new"), mark).unwrap();
        match number {
            0 => {}
            1 => {
                fs::create_dir_all(model.join("model.new")).unwrap();
                fs::write(model.join("model.new/config.json"), "{").unwrap();
            }
            2 => {
                copy_directory(bundle(FLAT).path(), &model.join("model"));
                // For people: an index has no copy of them.
                fs::remove_file(model.join("model/README.md")).unwrap();
            }
            _ => copy_directory(&whole.join("models"), &dir.path().join("models")),
        }
        let error = open_error(dir.path());
        assert!(matches!(error, Error::Store(StoreError::InterruptedCreate { .. })), "{error}");
        // By a create with any bundle, or a snapshot.
        let shape = Shape { height: 2 };
        let index = Index::create(dir.path(), &bundle(shape)).unwrap();
        assert_eq!(index.bundle().hash(), bundle(shape).hash());
        index.insert_batch(documents(STORED)).unwrap();
        assert_intact(&index);
        drop(index);
        let model = |index: &Path| {
            let mut names = names(&index.join("models/1"));
            names.retain(|name| !["MEASURED", "MANIFEST.copy", "RESERVE"].contains(&name.as_str()));
            names
        };
        assert_eq!(model(dir.path()), model(&whole));
    }
}

#[test]
fn a_base_model_is_not_a_bundle() {
    let error = bundle_error(support::base_model());
    assert!(matches!(error, ModelError::NotABundle { .. }), "{error}");
    assert!(error.to_string().contains("ehi train"), "{error}");
}

#[test]
fn a_second_handle_is_refused() {
    let (dir, index) = filled(FLAT, STORED);
    let error = open_error(dir.path().join("index"));
    assert!(matches!(error, Error::Store(StoreError::Locked { .. })), "{error}");
    assert_intact(&index);
}

#[test]
fn a_second_process_is_refused() {
    let (dir, index) = filled(FLAT, STORED);
    let path = dir.path().join("index");
    let output = Command::new(env!("CARGO_BIN_EXE_ehi"))
        .args(["delete", "--index"])
        .arg(&path)
        .arg(id(0))
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1));
    let message = String::from_utf8(output.stderr).unwrap();
    assert_eq!(message.lines().count(), 1, "{message}");
    assert!(message.starts_with("ehi: ") && message.contains("open for writing elsewhere"), "{message}");
    assert_intact(&index);
    drop(index);
    assert_intact(&Index::open(&path).unwrap());
}

#[test]
fn another_model_is_refused_by_its_hash() {
    let (dir, index) = filled(FLAT, STORED);
    let path = dir.path().join("index");
    let (model, kept) = (path.join(MODEL_DIR), dir.path().join("kept"));
    let own = index.bundle().hash();
    drop(index);
    fs::rename(&model, &kept).unwrap();
    let other = bundle(Shape { height: 2 });
    copy_directory(other.path(), &model);
    match open_error(&path) {
        Error::Input(InputError::ModelMismatch { index, given }) => {
            assert_eq!((index, given), (own, other.hash()));
        }
        error => panic!("{error}"),
    }
    fs::remove_dir_all(&model).unwrap();
    let error = open_error(&path);
    assert!(matches!(error, Error::Model(ModelError::NotAModel { .. })), "{error}");
    fs::rename(&kept, &model).unwrap();
    assert_intact(&Index::open(&path).unwrap());
}

#[test]
fn a_damaged_model_is_refused_and_named() {
    let (dir, index) = filled(FLAT, STORED);
    drop(index);
    let path = dir.path().join("index");
    for name in [ENCODER_FILE, INDEXER_FILE, "config.json", "tokenizer.json", "1_Pooling/config.json"] {
        let file = path.join(MODEL_DIR).join(name);
        let whole = fs::read(&file).unwrap();
        let mut flipped = whole.clone();
        let middle = flipped.len() / 2;
        flipped[middle] ^= 1;
        let edited = [whole.as_slice(), b"\n"].concat();
        for bytes in [&whole[..middle], &flipped, &edited, &[]] {
            fs::write(&file, bytes).unwrap();
            let error = open_error(&path);
            assert!(
                matches!(&error, Error::Model(ModelError::Checksum { path }) if *path == file),
                "{name}: {error}"
            );
        }
        fs::remove_file(&file).unwrap();
        let error = open_error(&path);
        assert!(
            matches!(error, Error::Model(ModelError::Io { .. } | ModelError::NotAModel { .. })),
            "{name}: {error}"
        );
        assert!(error.to_string().contains(name), "{error}");
        fs::write(&file, &whole).unwrap();
    }
    assert_intact(&Index::open(&path).unwrap());
}

/// Edits of `ehi.json` itself, which no checksum covers: the hash or its own checks detect them.
#[test]
fn an_edited_manifest_of_a_model_is_refused() {
    let (dir, index) = filled(FLAT, STORED);
    drop(index);
    let path = dir.path().join("index");
    let file = path.join(MODEL_DIR).join("ehi.json");
    let whole = fs::read_to_string(&file).unwrap();
    let mut manifest: serde_json::Value = serde_json::from_str(&whole).unwrap();
    for (field, value) in [
        ("format_version", serde_json::json!(99)),
        ("dim", serde_json::json!(384)),
        ("branching_factor", serde_json::json!(5)),
        ("height", serde_json::json!(0)),
        ("height", serde_json::json!(2)),
        ("logit_scale", serde_json::json!(3.0)),
        ("files", serde_json::json!({})),
        ("files", serde_json::json!({ "../../secret": "00" })),
    ] {
        let before = std::mem::replace(&mut manifest[field], value.clone());
        fs::write(&file, manifest.to_string()).unwrap();
        let error = open_error(&path);
        assert!(
            matches!(error, Error::Model(_) | Error::Input(InputError::ModelMismatch { .. })),
            "{field} = {value}: {error}"
        );
        manifest[field] = before;
    }
    for text in ["", "{", "[]", &whole[..whole.len() / 2]] {
        fs::write(&file, text).unwrap();
        let error = open_error(&path);
        assert!(matches!(error, Error::Model(ModelError::Json { .. })), "{error}");
    }
    fs::write(&file, &whole).unwrap();
    assert_intact(&Index::open(&path).unwrap());
}

/// A base model has no checksums, so its own files must be checked.
#[test]
fn a_damaged_base_model_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let base = dir.path().join("base");
    copy_directory(support::base_model(), &base);
    let weights = base.join("model.safetensors");
    let whole = fs::read(&weights).unwrap();
    for length in [0, 7, 100, whole.len() - 1] {
        fs::write(&weights, &whole[..length]).unwrap();
        let error = Encoder::load(&base).err().unwrap();
        assert!(matches!(error, ModelError::Safetensors { .. }), "{length}: {error}");
    }
    fs::write(&weights, &whole).unwrap();

    let config = base.join("config.json");
    let text = fs::read_to_string(&config).unwrap();
    for (from, to) in
        [("128", "129"), ("128", "256"), ("\"n_layers\":2", "\"n_layers\":3"), ("distilbert", "gpt9")]
    {
        assert!(text.contains(from), "{from}");
        fs::write(&config, text.replace(from, to)).unwrap();
        let error = Encoder::load(&base).err().unwrap();
        assert!(error.to_string().contains(&base.display().to_string()), "{to}: {error}");
    }
    fs::write(&config, &text).unwrap();
    assert!(Encoder::load(&base).is_ok());
}

#[test]
fn bad_queries_are_refused() {
    let (_dir, index) = filled(FLAT, STORED);
    let search = |query: &str, k, beam| match index.search(query, k, beam) {
        Ok(_) => panic!("{query:?} was searched"),
        Err(Error::Input(error)) => error,
        Err(error) => panic!("{error}"),
    };
    for empty in ["", " ", "\n\t \u{3000}"] {
        assert_eq!(search(empty, 10, 8), InputError::EmptyQuery);
    }
    assert!(matches!(search("tree", 0, 8), InputError::OutOfRange { .. }));
    assert!(matches!(search("tree", 10, 0), InputError::OutOfRange { .. }));

    let dim = index.bundle().model().dim();
    let vector = |vector: &[f32]| match index.search_with(vector, &SearchRequest::dense().k(1).beam(1)) {
        Ok(_) => panic!("a vector was searched"),
        Err(Error::Input(error)) => error,
        Err(error) => panic!("{error}"),
    };
    for found in [0, 1, dim - 1, dim + 1] {
        assert_eq!(vector(&vec![1.0; found]), InputError::Dimension { found, expected: dim });
    }
    for bad in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
        let mut values = vec![0.5; dim];
        values[dim / 2] = bad;
        assert_eq!(vector(&values), InputError::BadVector);
    }
    // Too short for a direction.
    for short in [0.0, f32::MIN_POSITIVE, 1e-9] {
        assert_eq!(vector(&vec![short; dim]), InputError::BadVector);
    }
    // Other extremes have a direction like any other.
    for extreme in [1e-4, f32::MAX] {
        assert_eq!(
            index.search_with(&vec![extreme; dim], &SearchRequest::dense().k(3).beam(4)).unwrap().len(),
            3
        );
    }
    // Neither unknown characters nor a very long question is an error.
    for query in ["\u{1F980}\u{0}\u{202E}", &"word ".repeat(100_000)] {
        assert_eq!(index.search(query, usize::MAX, usize::MAX).unwrap().len(), STORED);
    }
    assert_intact(&index);
}

#[test]
fn bad_documents_are_refused_before_anything_is_stored() {
    let (_dir, index) = filled(FLAT, STORED);
    let generation = index.stats().unwrap().generation;
    let insert = |bad: Document| {
        // Between valid ones: the whole batch is refused.
        index.insert_all_or_none([document(100), bad, document(101)]).unwrap_err()
    };
    for (title, text) in [("", ""), (" ", "\n\u{3000}")] {
        match insert(Document::new("empty", title, text)) {
            Error::Input(InputError::EmptyDocument { id }) => assert_eq!(id, "empty"),
            error => panic!("{error}"),
        }
    }
    let error = insert(Document::new("", "", "no id"));
    assert!(matches!(error, Error::Input(InputError::InvalidId { found: 0, .. })), "{error}");
    let most = match insert(Document::new("x".repeat(1 << 20), "", "long id")) {
        Error::Input(InputError::InvalidId { found, most }) => {
            assert_eq!(found, 1 << 20);
            most
        }
        error => panic!("{error}"),
    };
    assert_eq!(index.stats().unwrap().generation, generation);
    assert_intact(&index);

    let longest = Document::new("é".repeat(most / 2), "", "the longest id");
    index.insert(longest.clone()).unwrap();
    assert_eq!(index.get(&longest.id).unwrap(), Some(longest.clone()));
    let error = insert(Document::new(longest.id.clone() + "xx", "", "longer"));
    assert!(matches!(error, Error::Input(InputError::InvalidId { .. })), "{error}");
    index.delete(&longest.id).unwrap();

    let mut deep = serde_json::Value::Null;
    for _ in 0..500 {
        deep = serde_json::Value::Array(vec![deep]);
    }
    let error = insert(Document::new("deep", "", "text").with_metadata(deep));
    assert!(matches!(error, Error::Input(InputError::MetadataTooDeep { .. })), "{error}");
    // Ids that cannot exist are absent, not errors.
    assert_eq!(index.get("").unwrap(), None);
    assert_eq!(index.get(&"x".repeat(1 << 20)).unwrap(), None);
    assert!(!index.delete("").unwrap());
    assert!(!index.delete(&"x".repeat(1 << 20)).unwrap());
    assert_intact(&index);
}

#[test]
fn ten_megabytes_of_text_are_kept_whole() {
    let (dir, index) = filled(FLAT, STORED);
    let text = "virus and cancer, protein 学 ".repeat((10 << 20) / 28 + 1);
    assert!(text.len() >= 10 << 20);
    let huge = Document::new("huge", "a gene", text);
    index.insert(huge.clone()).unwrap();
    // More than the encoder reads.
    let question = format!("a gene {}", "virus and cancer, protein 学 ".repeat(20));
    let question = question.as_str();
    let hit = index.search(question, 1, 4).unwrap().into_iter().next().unwrap();
    assert_eq!(hit.id, "huge");
    assert!(hit.document == huge, "the text is not the one inserted");
    index.flush().unwrap();
    drop(index);
    let index = Index::open(dir.path().join("index")).unwrap();
    assert!(index.get("huge").unwrap() == Some(huge));
    assert!(index.verify().unwrap().is_sound());
    index.delete("huge").unwrap();
    assert_intact(&index);
}

#[test]
fn duplicate_ids_in_a_batch_are_counted_not_stored_twice() {
    let (_dir, index) = filled(FLAT, STORED);
    let summary =
        index.insert_batch((0..50).map(|n| Document::new("same", "", format!("text {n}")))).unwrap();
    assert_eq!((summary.inserted, summary.replaced, summary.superseded), (1, 0, 49));
    assert_eq!(index.get("same").unwrap().unwrap().text, "text 49");
    assert_eq!(index.stats().unwrap().rows, STORED as u64 + 1);
    index.delete("same").unwrap();
    assert_intact(&index);
}

#[test]
fn a_bad_line_is_named_with_its_file() {
    let (_dir, index) = filled(FLAT, 0);
    let mut bytes = support::corpus_lines(&documents(STORED)).into_bytes();
    bytes.extend(b"\n{\"_id\": \"bad\", \"text\": \"\xff\xfe\"}\n");
    bytes.extend(b"{\"_id\": \"worse\", \"text\": [7]}\n");
    let mut lines = read_documents(std::io::Cursor::new(bytes), "corpus.jsonl");
    let good: Vec<Document> = lines.by_ref().take(STORED).map(Result::unwrap).collect();
    assert_eq!(lines.line(), STORED as u64);
    index.insert_batch(good).unwrap();
    let line = STORED as u64 + 2;
    let error = lines.next().unwrap().unwrap_err();
    assert_eq!((error.kind(), error.line()), (DataErrorKind::Encoding, Some(line)), "{error}");
    assert!(error.to_string().starts_with(&format!("corpus.jsonl:{line}:")), "{error}");
    assert_eq!(lines.line(), line);
    let error = lines.next().unwrap().unwrap_err();
    assert_eq!(error.kind(), DataErrorKind::Field, "{error}");
    assert_intact(&index);
}

#[test]
fn bad_settings_of_a_training_run_are_refused_before_it_starts() {
    let dataset = ehi::data::Dataset::open(support::dataset()).unwrap();
    let set = TrainingSet::read(&dataset, 0.2).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("bundle");
    type Edit = fn(&mut TrainConfig);
    let fit = |config: TrainConfig| {
        let run = Trainer::builder().base(support::base_model()).output(&out).config(config);
        run.fit(&set).err().unwrap()
    };
    let edits: [(&str, Edit); 7] = [
        ("schedule.epochs", |c| (c.schedule.epochs, c.schedule.indexer_epochs) = (0, 0)),
        ("encoder.trainable_layers", |c| c.encoder.train_embeddings = true),
        ("schedule.batch_size", |c| c.schedule.batch_size = 1),
        ("tree.branching_factor", |c| c.tree.branching_factor = Some(0)),
        ("encoder.learning_rate", |c| c.encoder.learning_rate = f64::NAN),
        ("losses.margin", |c| c.losses.margin = -1.0),
        ("encoder.trainable_layers", |c| c.encoder.trainable_layers = 99),
    ];
    for (name, edit) in edits {
        let mut config = support::config(FLAT);
        edit(&mut config);
        match fit(config) {
            Error::Train(TrainError::Config { field, .. }) => assert_eq!(field, name),
            error => panic!("{name}: {error}"),
        }
    }
    let mut config = support::config(FLAT);
    config.tree.branching_factor = Some(1000);
    let error = fit(config);
    assert!(matches!(error, Error::Train(TrainError::TooFewDocuments { .. })), "{error}");
    assert!(names(dir.path()).is_empty());
    let unnamed = Trainer::builder().config(support::config(FLAT)).fit(&set).err().unwrap();
    assert!(matches!(unnamed, Error::Train(TrainError::Missing { what: "base" })), "{unnamed}");

    fs::create_dir(&out).unwrap();
    fs::write(out.join("mine"), "").unwrap();
    let error = fit(support::config(FLAT));
    assert!(matches!(error, Error::Model(ModelError::OutputDirectory { .. })), "{error}");
    assert_eq!(names(&out), ["mine"]);
}

#[test]
fn an_empty_text_has_an_embedding_all_the_same() {
    let bundle = bundle(FLAT);
    let encoder = bundle.model().encoder().unwrap();
    assert!(encoder.embed(&[], Role::Document).unwrap().is_empty());
    assert_eq!(encoder.embed(&[""], Role::Query).unwrap().len(), encoder.dim());
}
