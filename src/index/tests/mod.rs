//! Tests of the whole index that need its internals: failing disks, power failures, forged files.

mod bundle;
mod faults;
mod forged;
mod power;
mod query_encoder;
mod repair;
mod sharing;
mod vectors_alone;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use serde_json::json;

use super::search::SearchRequest;
use super::{Index, IndexBuilder};
use crate::disk::{self, Backend, Unsynced, recorder::in_memory};
use crate::document::Document;
use crate::error::{Error, InputError, Result};
use crate::ids::ModelHash;
use crate::judgment::Judgment;
use crate::model::{Bundle, ModelStore};
use crate::store::Durability;
use bundle::Bundles;

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// What an index must contain, and the model that must be in service.
#[derive(Clone, Debug, PartialEq)]
struct State {
    documents: BTreeMap<String, Document>,
    /// Grades by question and id.
    judgments: BTreeMap<(String, String), i32>,
    model: ModelHash,
    /// File of the query encoder.
    fast: Option<String>,
}

impl State {
    fn new(bundle: &Bundle) -> Self {
        Self { documents: BTreeMap::new(), judgments: BTreeMap::new(), model: bundle.hash(), fast: None }
    }

    fn of(index: &Index) -> Result<Self> {
        let documents = index.iter().map(|read| read.map(|document| (document.id.clone(), document)));
        let judgments = index.judgments()?.into_iter().map(|j| ((j.question, j.id), j.grade));
        Ok(Self {
            documents: documents.collect::<Result<_>>()?,
            judgments: judgments.collect(),
            model: index.bundle().hash(),
            fast: index.bundle().fast().map(|fast| fast.entry().file.clone()),
        })
    }

    fn with(mut self, documents: &[Document]) -> Self {
        self.documents.extend(documents.iter().map(|document| (document.id.clone(), document.clone())));
        self
    }

    fn told(mut self, judgments: &[Judgment]) -> Self {
        let told = judgments.iter().map(|j| ((j.question.clone(), j.id.clone()), j.grade));
        self.judgments.extend(told);
        self
    }

    fn forgot(mut self, judgments: &[Judgment]) -> Self {
        let forgotten =
            |question: &str, id: &str| judgments.iter().any(|j| j.question == question && j.id == id);
        self.judgments.retain(|(question, id), _| !forgotten(question, id));
        self
    }

    fn served_by(self, bundle: &Bundle) -> Self {
        Self { model: bundle.hash(), fast: None, ..self }
    }
}

/// Different documents of words in the bundles' vocabulary.
fn documents(from: usize, to: usize) -> Vec<Document> {
    let word = |n: usize| bundle::WORDS[n % bundle::WORDS.len()];
    let text = |n: usize| format!("{} {} {}", word(n), word(n / 3 + 5), word(n * 7 + 1));
    (from..to).map(|n| Document::new(format!("d{n}"), word(n + 2), text(n))).collect()
}

/// One of four questions, of two words each; `of` 1 gives others that are near.
fn question(n: usize, of: usize) -> String {
    format!("{} {}", bundle::WORDS[1 + n % 4], bundle::WORDS[9 + 4 * of + n % 4])
}

/// Judgments with these numbers; every fourth one has the same question.
fn judgments(from: usize, to: usize) -> Vec<Judgment> {
    let judged = |n: usize| Judgment::new(question(n, 0), format!("d{n}"), n as i32);
    (from..to).map(|n| judged(n).at(1_700_000_000)).collect()
}

/// Has judgments of near questions count.
fn weigh(index: &Index) -> Result<()> {
    let memory = json!({ "weight": 1, "power": 2, "without": 0, "with": 0, "p_value": 0, "by_nearness": [] });
    let fusion = json!({
        "alpha": 0.5, "words_help": true, "questions": 40, "dense": 0, "lexical": 0, "hybrid": 0, "rrf": 0,
        "p_value": 0, "weights": [], "memory": memory,
    });
    index.serving().set_fusion(&*index.root.backend(), serde_json::from_value(fusion).unwrap())
}

/// The difference between searches and those of an index that makes the vectors of its judged questions anew.
fn check_answers(index: &Index) -> std::result::Result<(), String> {
    let request = SearchRequest::dense().exact().ids_only();
    let asked: Vec<String> = (0..4).flat_map(|n| [question(n, 0), question(n, 1)]).collect();
    let answers = || -> Result<Vec<(String, f32)>> {
        let found = index.search_many(asked.iter().map(String::as_str), &request)?;
        Ok(found.into_iter().flatten().map(|hit| (hit.id, hit.score)).collect())
    };
    let answers = || answers().map_err(|error| format!("search: {error}"));
    let (found, serving) = (answers()?, index.serving());
    // Missing if no near questions count.
    let _ = fs::remove_file(serving.store.path().join(disk::names::MEMORY));
    serving.memory.clear();
    let anew = answers()?;
    let is_same = |((id, score), (other, expected)): (&(String, f32), &(String, f32))| {
        id == other && (score - expected).abs() < 1e-3
    };
    match found.len() == anew.len() && found.iter().zip(&anew).all(is_same) {
        true => Ok(()),
        false => Err(format!("answers {found:?}, and with new vectors {anew:?}")),
    }
}

/// Files on a disk without syncs: the tests read them in the same process.
fn unsynced() -> Arc<dyn Backend> {
    Arc::new(Unsynced)
}

fn create(backend: Arc<dyn Backend>, path: &Path, bundle: &Bundle) -> Result<Index> {
    Index::create_on(backend, path, bundle, &IndexBuilder::default())
}

fn open(backend: Arc<dyn Backend>, path: &Path) -> Result<Index> {
    // Fresh rows are sealed by a flush, and not before.
    Index::open_on(backend, path, &IndexBuilder::default().durability(Durability::OnFlush))
}

fn copy_directory(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap().map(std::result::Result::unwrap) {
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy_directory(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).unwrap();
        }
    }
}

/// Names in a directory, sorted; empty if it does not exist.
fn names(dir: &Path) -> Vec<String> {
    let entries = fs::read_dir(dir).into_iter().flatten();
    let mut names: Vec<String> = entries.map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// The difference from what must be there, or a defect.
fn check(index: &Index, allowed: &[State]) -> std::result::Result<State, String> {
    let found = State::of(index).map_err(|error| format!("read: {error}"))?;
    if !allowed.contains(&found) {
        return Err(format!("{found:?}, not one of {allowed:?}"));
    }
    let report = index.verify().map_err(|error| format!("verify: {error}"))?;
    if report.is_sound() { Ok(found) } else { Err(format!("{report:?}")) }
}

#[test]
fn codes_of_narrow_embeddings_are_refused() {
    let bundles = Bundles::new();
    let dir = tempfile::tempdir().unwrap();
    let create = |codes| Index::builder().codes(codes).create(dir.path().join("index"), &bundles.a).map(drop);
    let refused = create(true);
    let expected = InputError::TooNarrowForCodes { dim: bundle::WIDTH, least: 64 };
    assert!(matches!(&refused, Err(Error::Input(error)) if *error == expected), "{refused:?}");
    create(false).unwrap();
}
