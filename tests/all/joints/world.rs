//! Encoders of a few kilobytes, documents and questions: created once per test run, and opened by the
//! processes that are killed.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use ehi::learn::TuneOptions;
use ehi::model::Role;
use ehi::train::DistilOptions;
use ehi::{Analyzer, Bundle, Document, DocumentUpdate, IndexBuilder, Judgment, Language};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use safetensors::tensor::{Dtype, TensorView};
use serde_json::{Value, json};

use super::operations::{FILLED, Origin, PLACES, QUESTIONS, Told, Which};
use crate::support::{self, in_f32};

const WORDS: [&str; 24] = [
    "tree", "leaf", "level", "path", "beam", "index", "search", "near", "cell", "gene", "protein", "virus",
    "cancer", "test", "data", "model", "query", "document", "text", "word", "piece", "learn", "train", "far",
];
const FIXTURES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/fixtures");

/// Embeddings by text, and by whether it is a question.
type Known = HashMap<(String, bool), Arc<Vec<f32>>>;

/// A bundle whose encoder gives the expected embeddings.
pub struct Coder {
    pub bundle: Arc<Bundle>,
    known: Mutex<Known>,
}

impl Coder {
    pub fn new(bundle: Arc<Bundle>) -> Self {
        Self { bundle, known: Mutex::default() }
    }

    /// `[dim]`, of unit norm.
    pub fn embed(&self, text: &str, role: Role) -> Arc<Vec<f32>> {
        let key = (text.to_owned(), role == Role::Query);
        if let Some(known) = self.known.lock().unwrap().get(&key) {
            return Arc::clone(known);
        }
        let row = Arc::new(unit(&self.bundle.model().encoder().unwrap().embed(&[text], role).unwrap()));
        self.known.lock().unwrap().insert(key, Arc::clone(&row));
        row
    }

    pub fn dim(&self) -> usize {
        self.bundle.model().dim()
    }
}

pub fn unit(row: &[f32]) -> Vec<f32> {
    let norm = row.iter().map(|&x| f64::from(x).powi(2)).sum::<f64>().sqrt();
    row.iter().map(|&x| (f64::from(x) / norm) as f32).collect()
}

/// The starting point of sequences.
pub struct World {
    dir: PathBuf,
}

impl World {
    pub fn shared() -> &'static Self {
        static SHARED: OnceLock<World> = OnceLock::new();
        SHARED.get_or_init(|| Self::make(support::scratch().join("joints")))
    }

    pub fn open(dir: impl Into<PathBuf>) -> Self {
        Self { dir: dir.into() }
    }

    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// An index of the plain bundle with the documents of the first places.
    pub fn origin(&self, origin: Origin) -> PathBuf {
        self.dir.join(format!("{origin:?}"))
    }

    pub fn bundle(&self, which: Which) -> Bundle {
        match which {
            Which::Plain => Bundle::from_encoder(self.dir.join("plain")),
            Which::Tree => Bundle::open(self.dir.join("tree")),
            Which::Other => Bundle::from_encoder(self.dir.join("other")),
            Which::Table => Bundle::from_encoder(Path::new(FIXTURES).join("static/model2vec-0.10/unit")),
        }
        .unwrap()
    }

    fn make(dir: PathBuf) -> Self {
        let world = Self { dir };
        write_encoder(&world.dir.join("plain"), 32, 1);
        write_encoder(&world.dir.join("other"), 48, 2);
        let filled = |path: &Path, origin, bundle: &Bundle| {
            let index = builder(origin).create(path, bundle).unwrap();
            index.insert_batch((0..FILLED).map(|place| document(place, 0))).unwrap();
            index.flush().unwrap();
            index
        };
        for origin in [Origin::Stems, Origin::Bare, Origin::Passages] {
            drop(filled(&world.origin(origin), origin, &world.bundle(Which::Plain)));
        }
        let index = filled(&world.origin(Origin::Tokens), Origin::Tokens, &world.bundle(Which::Plain));
        let tree = world.dir.join("without");
        index
            .make_tree(&tree, &TuneOptions { leaves: Some(4), passes: Some(1), ..Default::default() })
            .unwrap();
        drop(index);
        let other = world.dir.join("trained");
        let index = filled(&other, Origin::Tokens, &Bundle::open(&tree).unwrap());
        index.distil(&distil(9)).unwrap();
        drop(index);
        fs::rename(other.join("models/1/model"), world.dir.join("tree")).unwrap();
        world
    }
}

/// The configuration of an index.
pub fn builder(origin: Origin) -> IndexBuilder {
    match origin {
        Origin::Tokens => in_f32(),
        Origin::Stems => in_f32().analyzer(Analyzer::Stems(Language::English)),
        Origin::Bare => in_f32().analyzer(None),
        // Gives most documents two passages.
        Origin::Passages => in_f32().passages(10, 2),
    }
}

/// Options for a query encoder that takes a fifth of a second.
pub fn distil(seed: u64) -> DistilOptions {
    let questions = (0..100).map(|number| sentence(&mut ChaCha8Rng::seed_from_u64(1_000 + number), 5));
    DistilOptions { passes: 1, texts: 120, seed, questions: questions.collect(), ..DistilOptions::default() }
}

pub fn id(place: u8) -> String {
    format!("d{place}")
}

fn sentence(random: &mut ChaCha8Rng, words: usize) -> String {
    let words = (0..words).map(|_| WORDS[random.random_range(0..WORDS.len())]);
    words.collect::<Vec<_>>().join(" ")
}

fn random_of(place: u8, version: u8) -> ChaCha8Rng {
    ChaCha8Rng::seed_from_u64(u64::from(place) << 8 | u64::from(version))
}

/// The document at a place.
pub fn document(place: u8, version: u8) -> Document {
    let mut random = random_of(place, version);
    let title = sentence(&mut random, 2);
    let text = (0..3).map(|_| sentence(&mut random, 5) + ". ").collect::<String>();
    Document::new(id(place), title, text.trim()).with_metadata(json!({ "version": version }))
}

/// The same without text.
pub fn silent(place: u8) -> Document {
    Document::new(id(place), "", "").with_metadata(json!({ "silent": true }))
}

/// An update of the document at a place, of its text only if asked.
pub fn update(place: u8, version: u8, text: bool) -> DocumentUpdate {
    let Document { title, text: own, .. } = document(place, version);
    let (title, own) = if text { (Some(title), Some(own)) } else { (None, None) };
    let metadata = json!({ "version": version, "silent": null, "updated": [version] });
    DocumentUpdate { title, text: own, metadata: metadata.as_object().unwrap().clone() }
}

/// `[dim]` f32, not from an encoder.
pub fn vector(place: u8, seed: u8, dim: usize) -> Vec<f32> {
    let mut random = random_of(place, seed);
    (0..dim).map(|_| random.random_range(-1.0..1.0)).collect()
}

/// A question in the words of the document at a place.
pub fn question(number: u16) -> String {
    let document = document(of_words(number), 0);
    let words: Vec<&str> = document.text.split([' ', '.']).filter(|word| !word.is_empty()).collect();
    let mut random = ChaCha8Rng::seed_from_u64(5_000 + u64::from(number));
    // Questions that the same document answers are near each other.
    let asked = (0..4).map(|at| if at < 2 { words[at] } else { words[random.random_range(0..words.len())] });
    // Makes it different from any other question.
    asked.chain(["what", &number.to_string()]).collect::<Vec<_>>().join(" ")
}

/// The place of the document with the words of a question.
fn of_words(number: u16) -> u8 {
    (number % u16::from(FILLED)) as u8
}

/// The place of the document that answers a question: for half of them another than that with its words, so
/// that judgments of near questions help.
pub fn answer(number: u16) -> u8 {
    let place = of_words(number);
    if place.is_multiple_of(2) { place } else { (place + 20) % FILLED }
}

/// The judgments of an operation.
pub fn judgments(told: Told) -> Vec<Judgment> {
    let Told { from, count, grade, off, again, is_click, month } = told;
    let one = |more| {
        let number = (from + more) % QUESTIONS;
        let text = if again { spelt_again(&question(number)) } else { question(number) };
        let weight = if is_click { 0.25 } else { 1.0 };
        Judgment::new(text, id((answer(number) + off) % PLACES), grade).with_weight(weight).at(time(month))
    };
    (0..count).map(one).collect()
}

/// Another spelling of a question.
pub fn spelt_again(question: &str) -> String {
    let (first, rest) = question.split_at(1);
    format!("{}{rest}?", first.to_uppercase())
}

/// A month.
const MONTH: u64 = 30 * 86_400;

/// The start of a month in which judgments are made, in seconds since 1970.
pub fn time(month: u8) -> u64 {
    1_700_000_000 + u64::from(month) * MONTH
}

/// The time after which judgments count half; `None` for 0.
pub fn half_life(months: u8) -> Option<Duration> {
    (months > 0).then(|| Duration::from_secs(u64::from(months) * MONTH))
}

/// A DistilBERT of one layer with random weights, which uses the fixture's tokenizer.
fn write_encoder(dir: &Path, width: usize, seed: u64) {
    let fixture = Path::new(FIXTURES).join("distilbert-768");
    fs::create_dir_all(dir.join("1_Pooling")).unwrap();
    for name in ["tokenizer.json", "modules.json", "sentence_bert_config.json"] {
        fs::copy(fixture.join(name), dir.join(name)).unwrap();
    }
    let pooling = json!({ "word_embedding_dimension": width, "pooling_mode_mean_tokens": true });
    fs::write(dir.join("1_Pooling/config.json"), pooling.to_string()).unwrap();
    let mut config: Value = serde_json::from_slice(&fs::read(fixture.join("config.json")).unwrap()).unwrap();
    let hidden = 2 * width;
    for (name, value) in [("dim", width), ("hidden_dim", hidden), ("n_heads", 2), ("n_layers", 1)] {
        config[name] = value.into();
    }
    let sizes = ["vocab_size", "max_position_embeddings"].map(|name| config[name].as_u64().unwrap() as usize);
    fs::write(dir.join("config.json"), config.to_string()).unwrap();
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let mut tensors: Vec<(String, Vec<usize>, Vec<u8>)> = Vec::new();
    let mut add = |name: &str, shape: &[usize]| {
        let is_scale = name.ends_with("orm.weight");
        let values = (0..shape.iter().product()).map(|_| match is_scale {
            true => 1.0,
            false => random.random_range(-0.3f32..0.3),
        });
        tensors.push((name.to_owned(), shape.to_vec(), values.flat_map(f32::to_le_bytes).collect()));
    };
    add("embeddings.word_embeddings.weight", &[sizes[0], width]);
    add("embeddings.position_embeddings.weight", &[sizes[1], width]);
    let layer = |part: &str| format!("transformer.layer.0.{part}");
    for norm in ["embeddings.LayerNorm".to_owned(), layer("sa_layer_norm"), layer("output_layer_norm")] {
        add(&format!("{norm}.weight"), &[width]);
        add(&format!("{norm}.bias"), &[width]);
    }
    for part in ["q_lin", "k_lin", "v_lin", "out_lin"] {
        add(&layer(&format!("attention.{part}.weight")), &[width, width]);
        add(&layer(&format!("attention.{part}.bias")), &[width]);
    }
    for (part, to, from) in [("lin1", hidden, width), ("lin2", width, hidden)] {
        add(&layer(&format!("ffn.{part}.weight")), &[to, from]);
        add(&layer(&format!("ffn.{part}.bias")), &[to]);
    }
    let views = tensors
        .iter()
        .map(|(name, shape, own)| (name, TensorView::new(Dtype::F32, shape.clone(), own).unwrap()));
    fs::write(dir.join("model.safetensors"), safetensors::serialize(views, None).unwrap()).unwrap();
}
