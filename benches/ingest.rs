//! The share of text insertion outside the encoder: encoding alone compared with whole insertion,
//! alternating.
//!
//!     cargo bench --bench ingest -- DOCUMENTS ROUNDS [int8]
//!
//! Documents are SciFact's, the model is the bundle in `models/scifact-minilm`. Encoding takes them in groups
//! as insertion does, including tokenising; insertion also routes, stores, seals and flushes to disk. Prints
//! one JSON object with the seconds of each round; the outside share is computed from the medians.

use std::time::Instant;

use ehi::model::{EncoderPrecision, Role};
use ehi::{Document, Index};
use serde_json::json;

mod scifact;

/// Documents that insertion encodes and commits together.
const GROUP: usize = 256;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|argument| argument != "--bench").collect();
    let [documents, rounds, precision @ ..] = arguments.as_slice() else {
        println!("not run: see the head of benches/ingest.rs");
        return;
    };
    let rounds: usize = rounds.parse().expect("ROUNDS is a number");
    let precision: EncoderPrecision =
        precision.first().map_or(Ok(EncoderPrecision::F32), |given| given.parse()).expect("f32 or int8");
    let documents = scifact::documents(documents.parse().expect("DOCUMENTS is a number"));
    let bundle = scifact::bundle();
    let directory = tempfile::tempdir().expect("a directory is made");
    let (mut encoding, mut inserting) = (Vec::new(), Vec::new());
    for round in 0..rounds {
        let index = Index::builder()
            .encoder_precision(precision)
            .create(directory.path().join(round.to_string()), &bundle)
            .expect("the index is made");
        let of_index = index.bundle();
        let started = Instant::now();
        for group in documents.chunks(GROUP) {
            let texts: Vec<_> = group.iter().map(Document::embedding_text).collect();
            let texts: Vec<&str> = texts.iter().map(AsRef::as_ref).collect();
            of_index.model().encoder().unwrap().embed(&texts, Role::Document).expect("the texts are encoded");
        }
        encoding.push(started.elapsed().as_secs_f64());
        let given = documents.clone();
        let started = Instant::now();
        index.insert_batch(given).expect("the documents are stored");
        index.flush().expect("they are on disk");
        inserting.push(started.elapsed().as_secs_f64());
    }
    let median = |of: &[f64]| {
        let mut of = of.to_vec();
        of.sort_by(f64::total_cmp);
        of[of.len() / 2]
    };
    let share = 1.0 - median(&encoding) / median(&inserting);
    println!(
        "{}",
        json!({ "documents": documents.len(), "encoding": encoding, "inserting": inserting, "share_outside_the_encoder": share })
    );
}
