//! Whether a handle answers, with judgments, as a fresh one and as a fresh index.

use std::fs;
use std::path::{Path, PathBuf};

use ehi::{Analyzer, Fusion, Index, SearchRequest};
use serde_json::Value;

use super::comparison::{Checked, ensure, said};
use super::model::{Model, Row};
use super::names;
use super::operations::{Origin, QUESTIONS};
use super::world::{builder, question, spelt_again};

/// The other index.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Beside {
    /// Another handle.
    Reader,
    /// A fresh index. Until the other one is compacted, statistics of words count deleted documents.
    Fresh { by_words: bool },
}

/// What a search says of a document.
#[derive(Clone, Debug, PartialEq)]
struct Answer {
    id: String,
    score: f32,
    /// What judgments added to its score, and the one that says most.
    memory: f32,
    judged: Option<(String, i32)>,
}

/// Compares searches with judgments. `number` selects the questions.
pub fn answer_alike(index: &Index, fresh: &Index, model: &Model, number: usize, beside: Beside) -> Checked {
    let (found, expected) = (index.fusion(), fresh.fusion());
    ensure!(found == expected, "{found:?} is learned, and {expected:?}");
    let mut requests = vec![SearchRequest::dense().exact()];
    // Vectors that were encoded again have other scores, and may belong to other leaves.
    let rounding = if beside == Beside::Reader { 1e-5 } else { 5e-3 };
    if beside == Beside::Reader {
        requests.push(SearchRequest::dense().beam(1));
    }
    if model.lexical && beside != (Beside::Fresh { by_words: false }) {
        requests.extend([SearchRequest::default(), SearchRequest::lexical()]);
        requests.extend([Fusion::Learned, Fusion::Rrf { k: 60.0 }].map(SearchRequest::hybrid));
    }
    for asked in asked(model, number) {
        for request in &requests {
            let (found, expected) = (answers(index, &asked, request)?, answers(fresh, &asked, request)?);
            ensure!(
                are_alike(&found, &expected, rounding),
                "{asked:?} by {:?}: {found:?}, and of {beside:?} {expected:?}",
                request.mode
            );
        }
    }
    Ok(())
}

/// A judged question in another spelling, one near to it, one near to the one judged last, and any other.
fn asked(model: &Model, number: usize) -> Vec<String> {
    let mut asked = vec![question((number * 31) as u16 % QUESTIONS)];
    let judged = number * 97 % model.judgments.len().max(1);
    if let Some((judged, _)) = model.judgments.keys().nth(judged) {
        asked.extend([spelt_again(judged), format!("{judged} yet")]);
    }
    asked.extend(model.last.iter().map(|judged| format!("{judged} yet")));
    asked
}

fn answers(index: &Index, asked: &str, request: &SearchRequest) -> Result<Vec<Answer>, String> {
    let found = said(index.search_with(asked, &request.clone().ids_only()))?;
    let answers = found.into_iter().map(|hit| Answer {
        id: hit.id,
        score: hit.score,
        memory: hit.scores.memory.unwrap_or(0.0),
        judged: hit.judged.map(|judged| (judged.question, judged.grade)),
    });
    Ok(answers.collect())
}

/// Whether answers are the same apart from rounding, which may change the order of documents, and which the
/// last ones are.
fn are_alike(found: &[Answer], expected: &[Answer], rounding: f32) -> bool {
    let near = |found: f32, expected: f32| (found - expected).abs() < rounding * (1.0 + expected.abs());
    let in_order = found.iter().zip(expected).all(|(found, expected)| near(found.score, expected.score));
    let is_there = |own: &Answer| match expected.iter().find(|other| other.id == own.id) {
        Some(other) => {
            near(own.score, other.score) && near(own.memory, other.memory) && own.judged == other.judged
        }
        None => expected.last().is_some_and(|last| near(own.score, last.score)),
    };
    found.len() == expected.len() && in_order && found.iter().all(is_there)
}

/// A fresh index in `path` with the documents, the model, the judgments and the learned weights of an index.
pub fn fresh_index(index: &Index, model: &Model, path: &Path) -> Result<Index, String> {
    let mut fresh = builder(model.origin);
    if model.origin == Origin::Bare && model.lexical {
        fresh = fresh.analyzer(Analyzer::Tokens);
    }
    let fresh = said(fresh.create(path, &index.bundle()))?;
    // Before the documents: nothing can be learned from questions without answers. Those of the index, which
    // know the texts that were judged; that they are the model's was compared.
    said(fresh.record_all(said(index.judgments())?))?;
    said(fresh.set_half_life(model.half_life))?;
    ensure!(fresh.finish_fit().is_none_or(|fit| fit.fusion.is_none()), "an empty index learned");
    let rows = model.serving.rows.values();
    let (encoded, given): (Vec<&Row>, Vec<&Row>) =
        rows.partition(|row| model.origin == Origin::Passages && row.given.is_none());
    said(fresh.insert_batch(encoded.into_iter().map(|row| row.document.clone())))?;
    let with_row = |row: &Row| (row.document.clone(), model.serving.embedding(row).to_vec());
    said(fresh.insert_vectors(given.into_iter().map(with_row)))?;
    drop(fresh);
    weigh(&measured(index.path()), &measured(path)).map_err(|error| error.to_string())?;
    said(Index::open(path))
}

/// The file of measurements of the model in service.
fn measured(index: &Path) -> PathBuf {
    let serving = names::Current::read(index).unwrap().serving;
    index.join("models").join(serving.to_string()).join("MEASURED")
}

/// Copies what was measured of one index to another.
fn weigh(from: &Path, to: &Path) -> std::io::Result<()> {
    let read = |path| Ok::<Value, std::io::Error>(serde_json::from_slice(&fs::read(path)?[9..])?);
    let (from, mut content) = (read(from)?, read(to)?);
    for what in ["recall", "fusion"] {
        content["measured"][what] = from["measured"][what].clone();
    }
    let content = content.to_string();
    fs::write(to, format!("{:08x}\n{content}", crc32fast::hash(content.as_bytes())))
}
