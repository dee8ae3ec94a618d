//! A cache of embeddings saves time, and changes nothing else.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::Stdio;
use std::thread;
use std::time::Duration;

use crate::program::{Flow, Ran, command, ehi, text};
use crate::support::{Shape, bundle, corpus_lines, document, documents, id, in_f32};
use ehi::model::EncoderPrecision;
use ehi::{
    Document, DocumentUpdate, EmbeddingCache, Error, Hit, Index, InputError, LeafId, SearchRequest,
    Similarity,
};
use tempfile::tempdir;

const SHAPE: Shape = Shape { height: 1 };
const COUNT: usize = 40;

/// What is stored for each document: its embedding to the bit, and its leaf.
fn stored(index: &Index) -> Vec<(String, Vec<u32>, LeafId)> {
    let hits = index.search_with("gene", &SearchRequest::dense().k(index.len()).exact()).unwrap();
    let of = |hit: &Hit| {
        let row = index.vectors([&hit.id]).unwrap().concat().concat();
        (hit.id.clone(), row.iter().map(|x| x.to_bits()).collect(), hit.leaf)
    };
    hits.iter().map(of).collect()
}

fn create(path: &Path, cache: Option<&EmbeddingCache>) -> Index {
    let builder = cache.into_iter().fold(in_f32(), |builder, cache| builder.embedding_cache(cache.clone()));
    builder.create(path, &bundle(SHAPE)).unwrap()
}

#[test]
fn an_index_is_the_same_with_and_without() {
    let dir = tempdir().unwrap();
    let cache = EmbeddingCache::new(dir.path().join("cache"));
    let plain = create(&dir.path().join("plain"), None);
    assert_eq!(plain.insert_batch(documents(COUNT)).unwrap().cached, 0);
    for (name, cached) in [("first", 0), ("second", COUNT)] {
        let index = create(&dir.path().join(name), Some(&cache));
        assert_eq!(index.insert_batch(documents(COUNT)).unwrap().cached, cached, "{name}");
        assert_eq!(stored(&index), stored(&plain), "{name}");
        assert!(index.verify().unwrap().is_sound());
    }
    let stats = cache.stats();
    assert_eq!((stats.found, stats.missed, stats.problem), (COUNT as u64, COUNT as u64, None));
}

#[test]
fn only_new_texts_are_encoded() {
    let dir = tempdir().unwrap();
    let cache = EmbeddingCache::new(dir.path().join("cache"));
    let index = create(&dir.path().join("index"), Some(&cache));
    index.insert_batch(documents(COUNT)).unwrap();
    let change = |text: &str| DocumentUpdate { text: Some(text.to_owned()), ..DocumentUpdate::default() };
    let before = index.vectors([id(3)]).unwrap();
    assert_eq!(index.update(&id(3), &change("the virus of a cell")).unwrap().cached, 0);
    assert_ne!(index.vectors([id(3)]).unwrap(), before);
    let back = index.update(&id(3), &change(&document(3).text)).unwrap();
    assert_eq!((back.cached, index.vectors([id(3)]).unwrap()), (1, before));
    // Some of a batch.
    index.delete_batch(documents(COUNT).iter().map(|document| document.id.clone())).unwrap();
    let summary = index.insert_batch(documents(COUNT + 5)).unwrap();
    assert_eq!((summary.inserted, summary.cached), (COUNT + 5, COUNT));
    let plain = create(&dir.path().join("plain"), None);
    plain.insert_batch(documents(COUNT + 5)).unwrap();
    for number in 0..COUNT + 5 {
        let [own, other] =
            [&index, &plain].map(|index| index.vectors([id(number)]).unwrap().concat().concat());
        // Rounded to 16 bits.
        assert!(own.iter().zip(&other).all(|(a, b)| (a - b).abs() < 2e-3), "{number}");
    }
}

#[test]
fn another_encoder_precision_or_similarity_has_its_own() {
    let dir = tempdir().unwrap();
    let cache = EmbeddingCache::new(dir.path().join("cache"));
    let insert = |name: &str, builder: ehi::IndexBuilder| {
        let index = builder.embedding_cache(cache.clone()).create(dir.path().join(name), &bundle(SHAPE));
        let index = index.unwrap();
        index.insert_batch(documents(COUNT)).unwrap().cached
    };
    assert_eq!(insert("f32", in_f32()), 0);
    assert_eq!(insert("int8", Index::builder().encoder_precision(EncoderPrecision::Int8)), 0);
    assert_eq!(insert("dot", in_f32().similarity(Similarity::DotProduct)), 0);
    assert_eq!(insert("f32 again", in_f32()), COUNT);
    // The encoder of a bundle with another tree is the same.
    let index =
        in_f32().embedding_cache(cache).create(dir.path().join("taller"), &bundle(Shape { height: 2 }));
    assert_eq!(index.unwrap().insert_batch(documents(COUNT)).unwrap().cached, COUNT);
}

#[test]
fn refused_texts_are_named_as_without() {
    let dir = tempdir().unwrap();
    let cache = EmbeddingCache::new(dir.path().join("cache"));
    let index = create(&dir.path().join("index"), Some(&cache));
    let mut batch = documents(3);
    batch.insert(1, Document::new("empty", "", " "));
    let summary = index.insert_batch(batch).unwrap();
    assert_eq!((summary.inserted, summary.refused[0].id.as_str()), (3, "empty"));
    assert_eq!((cache.stats().missed, index.insert_batch(documents(3)).unwrap().cached), (3, 3));
}

#[test]
fn a_reader_has_no_use_for_one() {
    let dir = tempdir().unwrap();
    create(&dir.path().join("index"), None);
    let cache = EmbeddingCache::new(dir.path().join("cache"));
    let opened = Index::builder().embedding_cache(cache).open_read_only(dir.path().join("index"));
    match opened {
        Err(Error::Input(InputError::InapplicableOption { option: "embedding_cache", .. })) => {}
        other => panic!("{other:?}"),
    }
    assert!(!dir.path().join("cache").exists());
}

#[test]
fn a_cache_that_cannot_be_used_stops_nothing() {
    let dir = tempdir().unwrap();
    fs::write(dir.path().join("cache"), "notes").unwrap();
    let cache = EmbeddingCache::new(dir.path().join("cache"));
    let index = create(&dir.path().join("index"), Some(&cache));
    assert_eq!(index.insert_batch(documents(COUNT)).unwrap().inserted, COUNT);
    assert!(cache.stats().problem.is_some());
}

/// Inserts a file of documents by the program, with a cache.
fn insert(flow: &Flow, index: &str, file: &Path) -> Ran {
    let cache = flow.path("cache");
    ehi(["insert", "--index", index, "--cache", text(&cache), text(file)])
}

#[test]
fn the_program_takes_it_over_to_other_indexes() {
    let flow = Flow::new();
    let file = flow.path("documents.jsonl");
    fs::write(&file, corpus_lines(&documents(COUNT))).unwrap();
    assert!(!insert(&flow, &flow.index(), &file).ok().contains("from the cache"));
    let other = flow.path("other");
    let model = bundle(SHAPE);
    ehi(["create", "--index", text(&other), "--model", text(model.path())]).ok();
    // By the variable, too.
    let output = command()
        .env("EHI_CACHE", flow.path("cache"))
        .args(["insert", "--json", "--index", text(&other), text(&file)])
        .output()
        .unwrap();
    let said: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&said["inserted"], &said["cached"]), (&COUNT.into(), &COUNT.into()), "{said}");
    // A text by the way of a change of model.
    let cache = flow.path("cache");
    let change = ["reencode", "--index", text(&other), "--cache", text(&cache)];
    let said = ehi(change.iter().copied().chain(["--model", text(bundle(Shape { height: 2 }).path())])).ok();
    assert!(said.contains("routed again"), "{said}");
    let none = ["insert", "--index", text(&other), "--cache", "", text(&file)];
    let said = ehi(none).ok();
    assert!(said.contains(&format!("{COUNT} replaced")) && !said.contains("cache"), "{said}");
}

#[test]
fn a_killed_program_costs_the_cache_at_most() {
    let flow = Flow::new();
    let file = flow.path("documents.jsonl");
    fs::write(&file, corpus_lines(&documents(2000))).unwrap();
    let cache = flow.path("cache");
    for wait in [50, 150, 300, 500, 900] {
        let arguments = ["insert", "--index", &flow.index(), "--cache", text(&cache), text(&file)];
        let mut child =
            command().args(arguments).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        thread::sleep(Duration::from_millis(wait));
        child.kill().unwrap();
        child.wait().unwrap();
    }
    let said = insert(&flow, &flow.index(), &file).ok();
    assert!(said.contains("the index has 2000 documents"), "{said}");
    let plain = flow.path("plain");
    let model = bundle(Shape { height: 2 });
    let index = Index::builder().create(&plain, &model).unwrap();
    index.insert_batch(documents(2000)).unwrap();
    let cached = Index::open_read_only(flow.index()).unwrap();
    for number in [0, 1, 999, 1999] {
        let [own, other] =
            [&index, &cached].map(|index| index.vectors([id(number)]).unwrap().concat().concat());
        assert!(own.iter().zip(&other).all(|(a, b)| (a - b).abs() < 2e-3), "{number}");
    }
}

#[test]
fn two_programs_at_once() {
    let flow = Flow::new();
    let file = flow.path("documents.jsonl");
    fs::write(&file, corpus_lines(&documents(COUNT))).unwrap();
    insert(&flow, &flow.index(), &file).ok();
    let (other, model) = (flow.path("other"), bundle(SHAPE));
    ehi(["create", "--index", text(&other), "--model", text(model.path())]).ok();
    // It has the cache open until its input ends.
    let cache = flow.path("cache");
    let arguments = ["insert", "--index", &flow.index(), "--cache", text(&cache), "-"];
    let mut child = command().args(arguments).stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    input.write_all(corpus_lines(&documents(1000)).as_bytes()).unwrap();
    thread::sleep(Duration::from_secs(3));
    let ran = insert(&flow, text(&other), &file);
    drop(input);
    assert!(child.wait().unwrap().success());
    let warnings = ran.err.matches("another process uses this folder").count();
    assert_eq!(warnings, 1, "{}", ran.err);
    assert!(ran.out.contains(&format!("{COUNT} inserted")), "{}", ran.out);
}
