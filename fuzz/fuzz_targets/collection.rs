//! Passages, queries and judgments in MS MARCO's form, plain or gzip.
#![no_main]

use std::io::Cursor;

use ehi::data::{Qrels, read_collection, read_query_table};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    for document in read_collection(Cursor::new(bytes.to_vec()), "input").take(10_000) {
        match document {
            Ok(document) => assert!(!document.id.is_empty() && document.title.is_empty()),
            Err(error) => assert!(error.to_string().contains("input")),
        }
    }
    for query in read_query_table(Cursor::new(bytes.to_vec()), "input").take(10_000) {
        match query {
            Ok(query) => assert!(!query.id.is_empty()),
            Err(error) => assert!(error.to_string().contains("input")),
        }
    }
    match Qrels::read_four_columns(Cursor::new(bytes.to_vec()), "input") {
        Ok(qrels) => assert!(qrels.iter().all(|(query, judged)| !query.is_empty() && !judged.is_empty())),
        Err(error) => assert!(error.to_string().contains("input")),
    }
});
