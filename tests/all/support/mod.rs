//! Small trained bundles and datasets, created locally: nothing is downloaded.

#![allow(dead_code, reason = "a bench uses a part of it too")]

pub mod runs;

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, OnceLock};
use std::time::{Duration, SystemTime};

use ehi::data::Dataset;
use ehi::model::EncoderPrecision;
use ehi::train::{TrainConfig, Trainer, TrainingSet};
use ehi::{Bundle, Document, Index, IndexBuilder};
use safetensors::tensor::{Dtype, SafeTensors, TensorView};
use serde_json::{Value, json};
use tempfile::TempDir;

/// Branching factor of all small bundles.
pub const BRANCHING: u32 = 4;
/// Documents of the small dataset.
pub const DOCUMENTS: usize = 120;

/// Words of the fixture's vocabulary, by subject, so that the documents form clusters.
const SUBJECTS: [[&str; 8]; 6] = [
    ["tree", "leaf", "level", "path", "beam", "index", "search", "near"],
    ["cell", "gene", "protein", "virus", "cancer", "test", "data", "model"],
    ["query", "document", "text", "word", "piece", "learn", "train", "far"],
    ["the", "of", "and", "to", "in", "is", "for", "on"],
    ["what", "how", "why", "where", "long", "short", "space", "over"],
    ["a", "b", "c", "d", "e", "f", "g", "h"],
];

/// The shape of a small bundle's tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Shape {
    pub height: u32,
}

impl Shape {
    pub fn of_height(height: u32) -> Self {
        Self { height }
    }

    pub fn leaves(self) -> usize {
        BRANCHING.pow(self.height) as usize
    }
}

/// A bundle of this shape, trained once per test binary.
pub fn bundle(shape: Shape) -> Bundle {
    static TRAINED: OnceLock<Mutex<HashMap<Shape, Bundle>>> = OnceLock::new();
    let mut trained = TRAINED.get_or_init(Mutex::default).lock().unwrap();
    trained
        .entry(shape)
        .or_insert_with(|| {
            let out = scratch().join(format!("bundle-{}", shape.height));
            let dataset = Dataset::open(dataset()).unwrap();
            let config = config(shape);
            let set = TrainingSet::read(&dataset, config.dev_fraction).unwrap();
            Trainer::builder().base(base_model()).output(&out).config(config).fit(&set).unwrap().bundle
        })
        .clone()
}

/// Settings that only train the tree, in well under a second.
pub fn config(shape: Shape) -> TrainConfig {
    let mut config = TrainConfig::default();
    config.tree.branching_factor = Some(BRANCHING);
    config.tree.height = shape.height;
    config.schedule.epochs = 1;
    config.schedule.batch_size = 8;
    config.encoder.trainable_layers = 0;
    config.encoder.max_document_tokens = 24;
    config.schedule.indexer_epochs = 1;
    config.dev_fraction = 0.2;
    config
}

/// Width of the small encoder: wide enough for codes.
pub const WIDTH: usize = 128;
/// Width of the fixture's encoder.
const FULL_WIDTH: usize = 768;

/// A narrow encoder, cut from the corner of each matrix of the fixture's: it takes an eighth of a second
/// where the whole one takes seconds.
pub fn base_model() -> &'static Path {
    static BASE: OnceLock<PathBuf> = OnceLock::new();
    BASE.get_or_init(|| {
        let base = scratch().join("base");
        copy_base(&base);
        let config: Value = serde_json::from_slice(&fs::read(base.join("config.json")).unwrap()).unwrap();
        let heads = config["n_heads"].as_u64().unwrap() as usize * WIDTH / FULL_WIDTH;
        let mut narrow = config;
        narrow["dim"] = WIDTH.into();
        narrow["n_heads"] = heads.into();
        fs::write(base.join("config.json"), narrow.to_string()).unwrap();
        fs::write(base.join("model.safetensors"), corner(&unpacked_weights())).unwrap();
        base
    })
}

/// The fixture's encoder, with its weights unpacked.
pub fn full_base_model() -> &'static Path {
    static BASE: OnceLock<PathBuf> = OnceLock::new();
    BASE.get_or_init(|| {
        let base = scratch().join("full-base");
        copy_base(&base);
        fs::write(base.join("model.safetensors"), unpacked_weights()).unwrap();
        base
    })
}

/// The repository.
pub fn root() -> &'static Path {
    let mut above = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors();
    above.find(|dir| dir.join("tests/fixtures").is_dir()).unwrap()
}

fn fixture() -> PathBuf {
    root().join("tests/fixtures/distilbert-768")
}

fn copy_base(base: &Path) {
    fs::create_dir_all(base.join("1_Pooling")).unwrap();
    let files = ["config.json", "tokenizer.json", "modules.json", "sentence_bert_config.json"];
    for name in files.into_iter().chain(["1_Pooling/config.json"]) {
        fs::copy(fixture().join(name), base.join(name)).unwrap();
    }
}

fn unpacked_weights() -> Vec<u8> {
    let packed = File::open(fixture().join("model.safetensors.gz")).unwrap();
    let mut weights = Vec::new();
    flate2::read::GzDecoder::new(packed).read_to_end(&mut weights).unwrap();
    weights
}

/// Weights of width [`FULL_WIDTH`] cut to [`WIDTH`]; those that read that many fewer values are scaled up
/// accordingly.
fn corner(weights: &[u8]) -> Vec<u8> {
    let all = SafeTensors::deserialize(weights).unwrap();
    let cut = |size: usize| if size == FULL_WIDTH { WIDTH } else { size };
    let tensors = all.iter().map(|(name, tensor)| {
        let shape: Vec<usize> = tensor.shape().iter().map(|&size| cut(size)).collect();
        let values: &[f32] = bytemuck::cast_slice(tensor.data());
        let reads =
            tensor.shape().len() == 2 && tensor.shape()[1] == FULL_WIDTH && name.ends_with("_lin.weight");
        let scale = if reads { (FULL_WIDTH as f32 / WIDTH as f32).sqrt() } else { 1.0 };
        let width = *shape.last().unwrap();
        let rows = values.chunks_exact(*tensor.shape().last().unwrap());
        let rows = rows.take(shape.iter().product::<usize>() / width);
        let own: Vec<u8> =
            rows.flat_map(|row| &row[..width]).flat_map(|value| (scale * value).to_le_bytes()).collect();
        (name, shape, own)
    });
    let tensors: Vec<(&str, Vec<usize>, Vec<u8>)> = tensors.collect();
    let views = tensors
        .iter()
        .map(|(name, shape, own)| (*name, TensorView::new(Dtype::F32, shape.clone(), own).unwrap()));
    safetensors::serialize(views, None).unwrap()
}

/// A BEIR folder with the small documents and a query for each third of them.
pub fn dataset() -> &'static Path {
    static DATASET: OnceLock<PathBuf> = OnceLock::new();
    DATASET.get_or_init(|| {
        let dir = scratch().join("beir");
        fs::create_dir_all(dir.join("qrels")).unwrap();
        fs::write(dir.join("corpus.jsonl"), corpus_lines(&documents(DOCUMENTS))).unwrap();
        let mut queries = String::new();
        let mut splits = [String::new(), String::new()];
        for (number, place) in (0..DOCUMENTS).step_by(3).enumerate() {
            let text = words(place, 4);
            queries += &format!("{}\n", json!({ "_id": format!("q{number}"), "text": text }));
            let split = &mut splits[usize::from(number % 4 == 3)];
            *split += &format!("q{number}\t{}\t1\n", id(place));
            if number % 2 == 0 {
                // Another document of the subject.
                *split += &format!("q{number}\t{}\t1\n", id((place + SUBJECTS.len()) % DOCUMENTS));
            }
        }
        fs::write(dir.join("queries.jsonl"), queries).unwrap();
        for (name, rows) in ["train", "test"].iter().zip(&splits) {
            let path = dir.join("qrels").join(format!("{name}.tsv"));
            fs::write(path, format!("query-id\tcorpus-id\tscore\n{rows}")).unwrap();
        }
        dir
    })
}

/// BEIR corpus lines.
pub fn corpus_lines(documents: &[Document]) -> String {
    documents
        .iter()
        .map(|d| {
            json!({ "_id": d.id, "title": d.title, "text": d.text, "metadata": d.metadata }).to_string()
                + "\n"
        })
        .collect()
}

/// The first `count` documents of an endless series of different ones.
pub fn documents(count: usize) -> Vec<Document> {
    (0..count).map(document).collect()
}

pub fn document(place: usize) -> Document {
    Document::new(id(place), format!("title {}", place % 7), words(place, 12))
        .with_metadata(json!({ "place": place, "tags": ["x", null] }))
}

pub fn id(place: usize) -> String {
    format!("doc-{place:04}")
}

/// Words of the document's subject, including its number; the start is the same for any count.
fn words(place: usize, count: usize) -> String {
    let subject = &SUBJECTS[place % SUBJECTS.len()];
    let mut state = place as u64;
    let mut words = Vec::with_capacity(count);
    for number in 0..count {
        // Knuth's MMIX generator; its high bits are the best.
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        words.push(match number {
            2 => place.to_string(),
            _ => subject[(state >> 60) as usize % subject.len()].to_owned(),
        });
    }
    words.join(" ")
}

/// Options of an index whose embeddings are those of an encoder that a test loads: the default precision
/// depends on the processor.
pub fn in_f32() -> IndexBuilder {
    Index::builder().encoder_precision(EncoderPrecision::F32)
}

/// A fresh index with the first `count` documents.
pub fn filled(shape: Shape, count: usize) -> (TempDir, Index) {
    let dir = tempfile::tempdir().unwrap();
    let index = in_f32().create(dir.path().join("index"), &bundle(shape)).unwrap();
    index.insert_batch(documents(count)).unwrap();
    (dir, index)
}

/// Copies a folder with its contents.
pub fn copy_directory(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap().map(Result::unwrap) {
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy_directory(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).unwrap();
        }
    }
}

/// The folder of this run of this test binary. Statics are never dropped, so a later run removes it.
pub fn scratch() -> &'static Path {
    static SCRATCH: OnceLock<PathBuf> = OnceLock::new();
    const KEPT: Duration = Duration::from_secs(3600);
    SCRATCH.get_or_init(|| {
        let parent = Path::new(env!("CARGO_TARGET_TMPDIR"));
        let prefix = concat!("small-", env!("CARGO_CRATE_NAME"), "-");
        for entry in fs::read_dir(parent).unwrap().flatten() {
            let old = |modified: SystemTime| modified.elapsed().is_ok_and(|age| age > KEPT);
            if entry.file_name().to_string_lossy().starts_with(prefix)
                && entry.metadata().and_then(|m| m.modified()).is_ok_and(old)
            {
                // Another run may be removing it too.
                let _ = fs::remove_dir_all(entry.path());
            }
        }
        let scratch = parent.join(format!("{prefix}{}", std::process::id()));
        fs::create_dir_all(&scratch).unwrap();
        scratch
    })
}
