//! Rounds of encoding for `benches/peers/encode.py`, which starts this program and its peers and gives them
//! turns.
//!
//!     cargo bench --bench encode -- MODEL TEXTS ROLE WAY [int8]
//!
//! `TEXTS` has a text per line, `ROLE` is `query` or `document`, `WAY` is `single` (a text at a time) or
//! `batch` (all in one call). For each line of standard input all texts are encoded once, tokenising
//! included; the seconds of each call are printed as a JSON array.

use std::time::Instant;

use ehi::model::{EncoderPrecision, LoadOptions, Role};

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|argument| argument != "--bench").collect();
    let [model, texts, role, way, precision @ ..] = arguments.as_slice() else {
        println!("not run: see the head of benches/encode.rs");
        return;
    };
    let role = match role.as_str() {
        "query" => Role::Query,
        "document" => Role::Document,
        other => panic!("{other} is neither query nor document"),
    };
    let texts = std::fs::read_to_string(texts).expect("the texts are readable");
    let texts: Vec<&str> = texts.lines().collect();
    let calls: Vec<&[&str]> = match way.as_str() {
        "single" => texts.chunks(1).collect(),
        "batch" => vec![&texts],
        other => panic!("{other} is neither single nor batch"),
    };
    let precision = match precision {
        [] => EncoderPrecision::F32,
        [int8] if int8 == "int8" => EncoderPrecision::Int8,
        other => panic!("{other:?} is no precision"),
    };
    let options = LoadOptions::new().encoder_precision(precision);
    let encoder = options.encoder(model).expect("the model is loaded");
    for _ in std::io::stdin().lines() {
        let seconds = calls.iter().map(|texts| {
            let started = Instant::now();
            encoder.embed(texts, role).expect("the texts are encoded");
            started.elapsed().as_secs_f64()
        });
        println!("{}", serde_json::json!(seconds.collect::<Vec<_>>()));
    }
}
