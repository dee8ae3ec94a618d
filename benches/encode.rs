//! Rounds of encoding for `benches/peers/encode.py` and `rerank.py`, which run this program and its peers in
//! turns.
//!
//!     cargo bench --bench encode -- MODEL TEXTS ROLE WAY [int8]
//!
//! `TEXTS` has a text per line, `ROLE` is `query` or `document`, `WAY` is `single` (a text at a time) or
//! `batch` (all in one call). If `ROLE` is `pair`, the model is a reranker, and the first line is a question
//! for which the others are scored. For each line of standard input all texts are encoded once, including
//! tokenising; the seconds of each call are printed as a JSON array.

use std::time::Instant;

use ehi::model::{EncoderPrecision, LoadOptions, Role};

/// One call.
type Run<'a> = Box<dyn Fn(&[&str]) + 'a>;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|argument| argument != "--bench").collect();
    let [model, texts, role, way, precision @ ..] = arguments.as_slice() else {
        println!("not run: see the head of benches/encode.rs");
        return;
    };
    let texts = std::fs::read_to_string(texts).expect("the texts are readable");
    let texts: Vec<&str> = texts.lines().collect();
    let (question, texts) = match role.as_str() {
        "pair" => texts.split_first().map(|(first, rest)| (*first, rest)).expect("a question and documents"),
        _ => ("", texts.as_slice()),
    };
    let calls: Vec<&[&str]> = match way.as_str() {
        "single" => texts.chunks(1).collect(),
        "batch" => vec![texts],
        other => panic!("{other} is neither single nor batch"),
    };
    let precision = match precision {
        [] => EncoderPrecision::F32,
        [int8] if int8 == "int8" => EncoderPrecision::Int8,
        other => panic!("{other:?} is no precision"),
    };
    let options = LoadOptions::new().encoder_precision(precision);
    let run: Run<'_> = match role.as_str() {
        "query" | "document" => {
            let encoder = options.encoder(model).expect("the model is loaded");
            let role = if role == "query" { Role::Query } else { Role::Document };
            Box::new(move |texts| {
                encoder.embed(texts, role).expect("the texts are encoded");
            })
        }
        "pair" => {
            let reranker = options.reranker(model).expect("the model is loaded");
            Box::new(move |texts| {
                reranker.score(question, texts).expect("the pairs are scored");
            })
        }
        other => panic!("{other} is neither query nor document nor pair"),
    };
    for _ in std::io::stdin().lines() {
        let seconds = calls.iter().map(|texts| {
            let started = Instant::now();
            run(texts);
            started.elapsed().as_secs_f64()
        });
        println!("{}", serde_json::json!(seconds.collect::<Vec<_>>()));
    }
}
