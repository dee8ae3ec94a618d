//! Tests of the whole index that need its internals: failing disks, power failures, forged files.

mod bundle;
mod faults;
mod forged;
mod power;
mod query_encoder;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::Arc;

use super::{Index, IndexBuilder};
use crate::disk::{Backend, Unsynced, recorder::in_memory};
use crate::document::Document;
use crate::error::{Error, InputError, Result};
use crate::ids::ModelHash;
use crate::judgment::Judgment;
use crate::model::Bundle;
use crate::store::Durability;
use bundle::Bundles;

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

/// Judgments with these numbers; every third one has the same question.
fn judgments(from: usize, to: usize) -> Vec<Judgment> {
    (from..to).map(|n| Judgment::new(format!("q{}", n % 3), format!("d{n}"), n as i32)).collect()
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
