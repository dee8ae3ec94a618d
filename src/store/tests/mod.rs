//! Tests of the whole store; codecs and parts are tested next to their code.

mod basic;
mod codes;
mod compaction;
mod corruption;
mod faults;
mod fencing;
mod full;
mod golden;
mod log;
mod model;
mod passages;
mod power;
mod power_repair;
mod processes;
mod repair;

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};

use half::f16;

use super::*;
use crate::{
    document::Document,
    ids::{Generation, LeafId, ModelHash, Row},
    lexical::List,
    passages::{Passages, Span},
};

const DIM: usize = 8;
const LEAVES: u32 = 16;

fn config() -> StoreConfig {
    StoreConfig {
        dim: DIM as u32,
        branching_factor: 4,
        height: 2,
        similarity: 1,
        model_hash: ModelHash([3; 32]),
        terms: 1,
        passages: None,
        expires: None,
    }
}

fn create(dir: &Path) -> Store {
    Store::create(dir, &config(), StoreOptions::default()).unwrap()
}

fn open(dir: &Path) -> Result<Store> {
    Store::open(dir, StoreOptions::default())
}

/// An embedding that differs for every seed below 2048.
fn embedding(seed: u32) -> Vec<f16> {
    (0..DIM).map(|i| f16::from_f32(if i == 0 { seed as f32 } else { i as f32 / 8.0 })).collect()
}

fn put(id: &str, seed: u32, leaf: u32) -> Put {
    let document = Document::new(id, format!("title {seed}"), format!("text of {id}, {seed}"));
    Put::whole(document, embedding(seed), LeafId(leaf))
}

/// The same put with another embedding.
fn with_embedding(mut put: Put, embedding: Vec<f16>) -> Put {
    put.rows[0].embedding = embedding;
    put
}

/// A document with `passages` passages, of a word each, the first in the leaf `seed`.
fn put_passages(id: &str, seed: u32, passages: u32) -> Put {
    let words = (0..passages).map(|place| format!("{id}-{}.", seed + place));
    let words: Vec<String> = words.collect();
    let document = Document::new(id, format!("title {seed}"), words.join(" "));
    let mut start = 0;
    let row = |(place, word): (u32, &String)| {
        let span = Span { start, end: start + word.len() as u32 };
        start = span.end + 1;
        PutRow { embedding: embedding(seed + place), leaf: LeafId((seed + 5 * place) % LEAVES), span }
    };
    let rows = (0..).zip(&words).map(row).collect();
    Put { document, rows, terms: None }
}

fn puts(puts: Vec<Put>) -> WriteBatch {
    WriteBatch { puts, deletes: vec![] }
}

fn deletes(ids: &[impl AsRef<str>]) -> WriteBatch {
    WriteBatch { puts: vec![], deletes: ids.iter().map(|id| id.as_ref().to_owned()).collect() }
}

/// What a store must contain: each live document with its embedding and leaf.
type Model = BTreeMap<String, Put>;

fn apply(model: &mut Model, batch: &WriteBatch) {
    for id in &batch.deletes {
        model.remove(id);
    }
    for put in &batch.puts {
        model.insert(put.document.id.clone(), put.clone());
    }
}

/// Commits a batch to the store and to its model.
#[track_caller]
fn commit(store: &Store, model: &mut Model, batch: WriteBatch) -> Committed {
    apply(model, &batch);
    store.commit(batch).unwrap()
}

/// Compares everything that a reader can see with the model; returns the first difference.
fn compare(view: &View, model: &Model) -> std::result::Result<(), String> {
    fn check<T: PartialEq + std::fmt::Debug>(
        what: impl std::fmt::Display,
        found: T,
        expected: T,
    ) -> std::result::Result<(), String> {
        if found == expected { Ok(()) } else { Err(format!("{what}: {found:?}, expected {expected:?}")) }
    }
    let failed = |error: StoreError| error.to_string();
    check("live documents", view.live(), model.len())?;
    let mut listed: Vec<Document> = Vec::new();
    loop {
        let after = listed.last().map(|document| document.id.clone());
        let page = view.documents_from(after.as_deref(), 3).map_err(failed)?;
        if page.is_empty() {
            break;
        }
        listed.extend(page);
    }
    check("all documents", listed, model.values().map(|put| put.document.clone()).collect::<Vec<_>>())?;
    let mut postings: BTreeMap<LeafId, Vec<Row>> = BTreeMap::new();
    let mut all_rows = 0;
    for (id, put) in model {
        let row = view.row_of(id).map_err(failed)?.ok_or_else(|| format!("{id} is not there"))?;
        check(format!("{id} is live"), view.is_live(row), true)?;
        check("its id", &view.id(row).map_err(failed)?, id)?;
        check("the document", &view.document(row).map_err(failed)?, &put.document)?;
        let rows = view.rows_of(row).map_err(failed)?;
        check("its rows", (rows.len(), rows[0]), (put.rows.len(), row))?;
        all_rows += rows.len();
        for (row, own) in rows.into_iter().zip(&put.rows) {
            check(format!("a row of {id} is live"), view.is_live(row), true)?;
            check("its document", &view.id(row).map_err(failed)?, id)?;
            check("its leaf", view.leaf_of(row).map_err(failed)?, own.leaf)?;
            check("its embedding", view.embedding(row).map_err(failed)?, &own.embedding)?;
            check("its passage", view.span(row).map_err(failed)?.unwrap_or_default(), own.span)?;
            postings.entry(own.leaf).or_default().push(row);
        }
    }
    check("live rows", view.live_rows(), all_rows)?;
    let sizes = postings.iter().map(|(leaf, rows)| (*leaf, rows.len())).collect();
    check("sizes of the leaves", view.leaf_sizes().map_err(failed)?, sizes)?;
    let mut all = Vec::new();
    view.parts().iter().try_for_each(|part| part.push_to(&mut all)).map_err(failed)?;
    check("rows of the exact scan", all.len(), all_rows)?;
    for leaf in (0..LEAVES).map(LeafId) {
        let mut expected = postings.remove(&leaf).unwrap_or_default();
        expected.sort_unstable();
        check(format!("{leaf:?}"), view.postings(leaf).map_err(failed)?, expected.clone())?;
        let mut scanned = view.leaf(leaf).map_err(failed)?;
        scanned.sort_unstable_by_key(|(row, _)| *row);
        check("its rows", scanned.iter().map(|(row, _)| *row).collect::<Vec<_>>(), expected)?;
        for (row, embedding) in scanned {
            check("a row's embedding", embedding, view.embedding(row).map_err(failed)?)?;
        }
    }
    compare_terms(view, model)
}

/// Compares the posting lists of terms with the texts.
fn compare_terms(view: &View, model: &Model) -> std::result::Result<(), String> {
    let failed = |error: StoreError| error.to_string();
    if !view.is_lexical() {
        return Ok(());
    }
    let mut expected: BTreeMap<u32, BTreeMap<Row, u32>> = BTreeMap::new();
    let mut lengths: BTreeMap<Row, u32> = BTreeMap::new();
    for (id, put) in model {
        let row = view.row_of(id).map_err(failed)?.ok_or_else(|| format!("{id} is not there"))?;
        let mut terms = Vec::new();
        for text in [&put.document.title, &put.document.text] {
            terms::WordLexer.terms(text, &mut terms).map_err(|error| error.to_string())?;
        }
        lengths.insert(row, terms.len() as u32);
        for term in terms {
            *expected.entry(term).or_default().entry(row).or_default() += 1;
        }
    }
    let mut found: BTreeMap<u32, BTreeMap<Row, u32>> = BTreeMap::new();
    for part in view.term_parts().map_err(failed)? {
        let total: u64 = part.lengths.iter().map(|&length| u64::from(length)).sum();
        if total != part.total_length {
            return Err(format!("{total} terms, {} said", part.total_length));
        }
        for (row, &length) in (part.base()..).map(Row).zip(part.lengths) {
            if lengths.get(&row).is_some_and(|expected| *expected != length) {
                return Err(format!("{row:?} has {length} terms"));
            }
        }
        for term in 0..997 {
            let mut postings = Vec::new();
            match part.list(term).map_err(failed)? {
                List::Plain(own) => postings.extend_from_slice(own),
                List::Encoded(list) => list.decode_all(&mut postings).map_err(|error| error.to_string())?,
            }
            for posting in postings.into_iter().filter(|posting| part.is_live(posting.row)) {
                found.entry(term).or_default().insert(Row(part.base() + posting.row), posting.count);
            }
        }
    }
    if found == expected { Ok(()) } else { Err("posting lists of terms differ".to_owned()) }
}

/// Readers see the model's contents, and the full check agrees.
#[track_caller]
fn assert_is(store: &Store, model: &Model) {
    if let Err(difference) = compare(&store.read(), model) {
        panic!("{difference}");
    }
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

/// A closed directory with 300 documents, one deleted and one replaced: two segments, one with dead rows.
/// Some documents expire in the year 9000.
fn sample() -> (tempfile::TempDir, Model) {
    let dir = tempfile::tempdir().unwrap();
    let config = StoreConfig { expires: Some("until".to_owned()), ..config() };
    let store = Store::create(dir.path(), &config, StoreOptions::default()).unwrap();
    let mut model = Model::new();
    let all = (0..300).map(|n| {
        let mut put = put(&format!("id{n:03}"), n, n % LEAVES);
        if n.is_multiple_of(3) {
            put.document.metadata = Some(serde_json::json!({ "until": "9000-01-01T00:00:00Z" }));
        }
        put
    });
    let all = all.collect();
    for batch in [puts(all), deletes(&["id007"]), puts(vec![put("id008", 900, 3)])] {
        commit(&store, &mut model, batch);
        store.flush().unwrap();
    }
    drop(store);
    (dir, model)
}
