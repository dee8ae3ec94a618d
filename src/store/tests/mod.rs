//! Tests of the store as a whole; codecs and parts are tested beside their code.

mod basic;
mod corruption;
mod crash;
mod model;

use std::{collections::BTreeMap, fs, path::Path};

use half::f16;

use super::*;
use crate::{
    document::Document,
    ids::{LeafId, Row},
};

const DIM: usize = 8;

fn config() -> StoreConfig {
    StoreConfig {
        dim: DIM as u32,
        branching_factor: 4,
        height: 2,
        leaves_per_document: 3,
        similarity: 1,
        model_hash: [3; 32],
    }
}

/// An embedding that differs for every seed below 2048.
fn embedding(seed: u32) -> Vec<f16> {
    (0..DIM).map(|i| f16::from_f32(if i == 0 { seed as f32 } else { i as f32 / 8.0 })).collect()
}

fn put(id: &str, seed: u32, leaves: &[u32]) -> Put {
    Put {
        document: Document::new(id, format!("title {seed}"), format!("text of {id}, {seed}")),
        embedding: embedding(seed),
        leaves: leaves.iter().copied().map(LeafId).collect(),
    }
}

fn puts(puts: Vec<Put>) -> WriteBatch {
    WriteBatch { puts, deletes: vec![] }
}

fn deletes(ids: &[&str]) -> WriteBatch {
    WriteBatch { puts: vec![], deletes: ids.iter().map(|id| (*id).to_owned()).collect() }
}

/// What a store must contain: each live document with its embedding and leaves.
type Model = BTreeMap<String, Put>;

fn apply(model: &mut Model, batch: &WriteBatch) {
    for id in &batch.deletes {
        model.remove(id);
    }
    for put in &batch.puts {
        model.insert(put.document.id.clone(), put.clone());
    }
}

/// Everything a reader can see is what the model says, and the full check agrees.
#[track_caller]
fn assert_is(store: &Store, model: &Model) {
    let view = store.read();
    assert_eq!(view.live(), model.len());
    let mut listed = Vec::new();
    loop {
        let after = listed.last().map(|document: &Document| document.id.clone());
        let page = view.documents_from(after.as_deref(), 3).unwrap();
        if page.is_empty() {
            break;
        }
        listed.extend(page);
    }
    assert_eq!(listed, model.values().map(|put| put.document.clone()).collect::<Vec<_>>());
    assert_eq!(view.row_matrix().len(), view.rows() * DIM);
    let mut postings: BTreeMap<LeafId, Vec<Row>> = BTreeMap::new();
    for (id, put) in model {
        let row = view.row_of(id).unwrap().unwrap();
        assert!(view.is_live(row));
        assert_eq!(&view.id(row).unwrap(), id);
        assert_eq!(view.document(row).unwrap(), put.document);
        assert_eq!(view.leaves_of(id).unwrap().unwrap(), put.leaves);
        let elements = row.index() * DIM..(row.index() + 1) * DIM;
        assert_eq!(view.row_matrix()[elements], put.embedding);
        for leaf in &put.leaves {
            postings.entry(*leaf).or_default().push(row);
        }
    }
    for leaf in (0..16).map(LeafId) {
        let mut expected = postings.remove(&leaf).unwrap_or_default();
        expected.sort_unstable();
        assert_eq!(view.postings(leaf), expected);
    }
    drop(view);
    let report = store.verify().unwrap();
    assert!(report.is_sound(), "{report:?}");
    assert_eq!(report.documents, model.len() as u64);
}

fn copy_directory(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy_directory(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).unwrap();
        }
    }
}

/// A directory with 300 documents, one deleted and one replaced: one full block of rows
/// and a tail. Returned closed.
fn sample() -> (tempfile::TempDir, Model) {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::create(dir.path(), &config()).unwrap();
    let mut model = Model::new();
    let all = (0..300).map(|n| put(&format!("id{n:03}"), n, &[n % 16, (n + 5) % 16])).collect();
    for batch in [puts(all), deletes(&["id007"]), puts(vec![put("id008", 900, &[3])])] {
        apply(&mut model, &batch);
        store.commit(batch).unwrap();
    }
    (dir, model)
}
