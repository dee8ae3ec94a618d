//! What judged questions add to a search, and the time of a judgment, without the encoder, on one thread.
//!
//!     cargo bench --bench memory [-- DOCUMENTS]
//!
//! Documents (20,000 unless given) and judged questions have vectors near those of SciFact's questions; each
//! question is judged for one random document or for 40. The same search with and without memory alternates:
//! medians over all questions and rounds, and the median of the differences, in microseconds. What the
//! encoder would make, and the weight of near questions, are written to the files of the index beforehand.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

use ehi::model::Role;
use ehi::{Document, Durability, Fusion, Index, Judgment, Question, SearchRequest};
use half::f16;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

mod scifact;

const DOCUMENTS: usize = 20_000;
/// Judged questions, and the documents judged for each.
const CASES: [(usize, usize); 5] = [(0, 1), (1_000, 1), (10_000, 1), (100_000, 1), (1_000, 40)];
const ROUNDS: usize = 10;
const ASKED: usize = 200;
/// Judgments timed, with this many questions judged before.
const RECORDED: usize = 50;
const JUDGED_BEFORE: usize = 10_000;
/// Length of what is added to a unit vector: two vectors near one have a cosine of about 0.7.
const NOISE: f32 = 0.65;

type Any<T> = Result<T, Box<dyn std::error::Error>>;

fn main() -> Any<()> {
    // cargo adds `--bench`.
    let given = std::env::args().skip(1).find(|argument| argument != "--bench");
    let count = given.map_or(Ok(DOCUMENTS), |count| count.parse())?;
    let bundle = scifact::bundle();
    let (encoder, texts) = (bundle.model().encoder().unwrap(), scifact::queries(usize::MAX));
    let mut made = Made { random: ChaCha8Rng::seed_from_u64(0), dim: encoder.dim(), centres: Vec::new() };
    for block in texts.chunks(64) {
        let block: Vec<&str> = block.iter().map(String::as_str).collect();
        made.centres.extend(encoder.embed(&block, Role::Query)?);
    }
    let sentences: Vec<String> = scifact::documents(usize::MAX)
        .iter()
        .flat_map(|document| document.text.split_inclusive(". ").map(str::to_owned).collect::<Vec<_>>())
        .collect();
    println!("{count} documents, {} dimensions; microseconds", made.dim);
    println!("{:<28} {:>8} {:>8} {:>8}", "", "without", "with", "memory");
    for (questions, each) in CASES {
        let directory = tempfile::tempdir()?;
        let path = directory.path().join("index");
        let index = Index::create(&path, &bundle)?;
        let rows = (0..count).map(|number| {
            let text: String = (0..3).map(|n| &*sentences[(number * 3 + n) % sentences.len()]).collect();
            (Document::new(number.to_string(), "", text), made.near(number % texts.len()))
        });
        index.insert_vectors(rows.collect::<Vec<_>>())?;
        index.compact()?;
        drop(index);
        let names: Vec<String> =
            (0..questions + RECORDED).map(|n| format!("{n} {}", texts[n % texts.len()])).collect();
        prepare(&path.join("models/1"), &names[..questions], &mut made)?;
        let index = Index::builder().durability(Durability::EveryBatch).open(&path)?;
        let judged = names[..questions].iter().flat_map(|name| (0..each).map(move |_| name));
        let judged: Vec<Judgment> = judged
            .map(|name| Judgment::new(name, made.random.random_range(0..count).to_string(), 1))
            .collect();
        index.record_all(judged)?;
        let asked: Vec<(&str, Vec<f32>)> =
            (0..ASKED).map(|n| (&*texts[n * 5 % texts.len()], made.near(n * 5 % texts.len()))).collect();
        let kinds =
            [("vector", SearchRequest::dense().beam(8)), ("text", SearchRequest::hybrid(Fusion::Learned))];
        for (kind, request) in kinds {
            let [without, with, memory] = compare(&index, &asked, kind == "text", &request.k(10))?;
            let name = format!("{kind}, {questions} of {each}");
            println!("{name:<28} {without:>8.1} {with:>8.1} {memory:>8.1}");
        }
        if (questions, each) == (JUDGED_BEFORE, 1) {
            record(&index, &names[questions..])?;
        }
    }
    Ok(())
}

/// Vectors near the centres.
struct Made {
    random: ChaCha8Rng,
    dim: usize,
    /// `[n, dim]`
    centres: Vec<f32>,
}

impl Made {
    fn near(&mut self, centre: usize) -> Vec<f32> {
        let noise = NOISE * (3.0 / self.dim as f32).sqrt();
        let centre = &self.centres[centre * self.dim..][..self.dim];
        centre.iter().map(|x| x + self.random.random_range(-noise..noise)).collect()
    }
}

/// Writes the weight of near questions, and the vectors of questions; `docs/format.md` describes the files.
fn prepare(model: &Path, questions: &[String], made: &mut Made) -> Any<()> {
    let path: PathBuf = model.join("MEASURED");
    let content = fs::read_to_string(&path)?;
    let mut content: Value = serde_json::from_str(content.split_once('\n').ok_or("no line")?.1)?;
    let memory = json!({
        "weight": 2.0, "power": 4.0, "without": 0.5, "with": 0.6, "p_value": 0.0, "by_nearness": [],
    });
    let fusion = json!({
        "alpha": 0.7, "words_help": true, "questions": 1, "judgments": 1u64 << 40, "dense": 0.5, "lexical": 0.5,
        "hybrid": 0.6, "rrf": 0.5, "p_value": 0.0, "weights": [0.5], "memory": memory,
    });
    content["measured"]["fusion"] = json!({ "fusion": fusion });
    let (hash, content) = (content["of"][0].as_str().unwrap_or_default().to_owned(), content.to_string());
    fs::write(path, format!("{:08x}\n{content}", crc32fast::hash(content.as_bytes())))?;
    let mut bytes = b"ehi.qvec".to_vec();
    bytes.extend((0..8).map_while(|n| u8::from_str_radix(hash.get(2 * n..2 * n + 2)?, 16).ok()));
    for (number, question) in questions.iter().enumerate() {
        let start = bytes.len();
        bytes.extend(&Sha256::digest(question)[..16]);
        let row = made.near(number % (made.centres.len() / made.dim));
        let norm = row.iter().map(|x| x * x).sum::<f32>().sqrt();
        bytes.extend(row.iter().flat_map(|x| f16::from_f32(x / norm).to_le_bytes()));
        bytes.extend(crc32fast::hash(&bytes[start..]).to_le_bytes());
    }
    Ok(fs::write(model.join("MEMORY"), bytes)?)
}

/// Medians without and with memory, and of the differences.
fn compare(
    index: &Index,
    asked: &[(&str, Vec<f32>)],
    by_text: bool,
    request: &SearchRequest,
) -> Any<[f64; 3]> {
    let (with, mut times) = (request.clone(), [const { Vec::new() }; 3]);
    let without = request.clone().no_memory();
    for round in 0..ROUNDS {
        for (text, vector) in asked {
            let once = |request: &SearchRequest| {
                let question =
                    if by_text { Question::Encoded(text, vector) } else { Question::Vector(vector) };
                let started = Instant::now();
                index.search_with(question, request)?;
                Ok::<_, ehi::Error>(1e6 * started.elapsed().as_secs_f64())
            };
            // So that what both read is in the caches of the processor.
            once(&with)?;
            let (a, b) = match round % 2 {
                0 => (once(&without)?, once(&with)?),
                _ => {
                    let b = once(&with)?;
                    (once(&without)?, b)
                }
            };
            times.iter_mut().zip([a, b, b - a]).for_each(|(all, own)| all.push(own));
        }
    }
    Ok(times.map(median))
}

/// The time of a judgment: of a new question, which is encoded; of the encoder alone; and of another document
/// for a question known by then.
fn record(index: &Index, questions: &[String]) -> Any<()> {
    let (bundle, mut times) = (index.bundle(), [const { Vec::new() }; 3]);
    let micros = |started: Instant| 1e6 * started.elapsed().as_secs_f64();
    for (question, id) in questions.iter().zip(0..) {
        let started = Instant::now();
        index.record(question, &format!("{id}"), 1)?;
        times[0].push(micros(started));
        let started = Instant::now();
        bundle.model().encoder().unwrap().embed(&[question], Role::Query)?;
        times[1].push(micros(started));
        let started = Instant::now();
        index.record(question, &format!("{}", id + 1), 1)?;
        times[2].push(micros(started));
    }
    let [all, encoder, known] = times.map(median);
    println!(
        "judgment of a new question {all:.0}, its encoding alone {encoder:.0}; of a known one {known:.0}"
    );
    Ok(())
}

fn median(mut all: Vec<f64>) -> f64 {
    all.sort_by(f64::total_cmp);
    all[all.len() / 2]
}
