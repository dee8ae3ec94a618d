//! Held-out questions of a collection are never learned from, by any way of learning.

use std::fs;

use ehi::learn::{LearnOptions, TuneOptions};
use ehi::train::{DistilOptions, is_held_out};
use ehi::{Bundle, Index, Judgment};
use proptest::prelude::*;
use tempfile::TempDir;

use crate::support::{DOCUMENTS, Shape, base_model, config, documents, id};

const SHAPE: Shape = Shape { height: 1 };

/// Questions in several spellings, mostly of documents' titles.
fn questions() -> Vec<String> {
    let spelled = |(place, title): (usize, String)| match place % 3 {
        0 => format!("{title}?"),
        1 => title.to_uppercase(),
        _ => title,
    };
    let titles =
        documents(DOCUMENTS).into_iter().map(|document| format!("{} {}", document.title, document.id));
    titles.enumerate().map(spelled).collect()
}

/// An index of all documents.
fn index() -> (TempDir, Index) {
    let dir = tempfile::tempdir().unwrap();
    let index =
        Index::create(dir.path().join("index"), &Bundle::from_encoder(base_model()).unwrap()).unwrap();
    index.insert_batch(documents(DOCUMENTS)).unwrap();
    (dir, index)
}

/// An index with judgments in which the held-out questions have these answers.
fn judged(shift: usize) -> (TempDir, Index) {
    let (dir, index) = index();
    let judgments = questions().into_iter().enumerate().map(|(place, question)| {
        let answer = if is_held_out(&question) { (place + shift) % DOCUMENTS } else { place };
        Judgment::new(question, id(answer), 1)
    });
    index.record_all(judgments).unwrap();
    (dir, index)
}

/// The model after a learning.
fn learned(shift: usize) -> String {
    let (_dir, index) = judged(shift);
    let mut config = config(SHAPE);
    config.encoder.trainable_layers = 1;
    let options = LearnOptions { config, accept: true, ..LearnOptions::default() };
    index.learn(&options).unwrap().change.unwrap().to.to_string()
}

/// The model after a tuning with questions of which `aside` are held out.
fn tuned(aside: &[String]) -> String {
    let (_dir, index) = index();
    let learned = questions().into_iter().filter(|question| !is_held_out(question));
    let options = TuneOptions {
        questions: learned.chain(aside.iter().cloned()).collect(),
        leaves: Some(4),
        always: true,
        ..TuneOptions::default()
    };
    index.tune(&options).unwrap();
    index.bundle().hash().to_string()
}

/// The fast encoder made from judgments in which the held-out questions have these answers.
fn distilled(shift: usize) -> Vec<u8> {
    query_encoder(&judged(shift).1, Vec::new())
}

/// The fast encoder made with questions that were asked, of which these are held out, and none judged.
fn distilled_from_asked(aside: &[String]) -> Vec<u8> {
    let learned = questions().into_iter().filter(|question| !is_held_out(question));
    query_encoder(&index().1, learned.chain(aside.iter().cloned()).collect())
}

fn query_encoder(index: &Index, questions: Vec<String>) -> Vec<u8> {
    index.distil(&DistilOptions { questions, ..DistilOptions::default() }).unwrap();
    let path = index.bundle().path().to_owned();
    let files = fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path());
    let own = files.into_iter().find(|path| path.file_name().unwrap().to_string_lossy().starts_with("query"));
    fs::read(own.unwrap()).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2, ..ProptestConfig::default() })]

    /// If the answers of the held-out questions change, what is learned stays the same.
    #[test]
    fn no_way_to_learn_sees_a_question_set_aside(shift in 1..DOCUMENTS) {
        prop_assert_eq!(learned(0), learned(shift));
        let aside: Vec<String> = questions().into_iter().filter(|question| is_held_out(question)).collect();
        prop_assert!(aside.len() > 5);
        prop_assert_eq!(tuned(&aside), tuned(&aside[shift % aside.len()..]));
        prop_assert_eq!(distilled(0), distilled(shift));
        prop_assert_eq!(distilled_from_asked(&aside), distilled_from_asked(&aside[shift % aside.len()..]));
    }
}
