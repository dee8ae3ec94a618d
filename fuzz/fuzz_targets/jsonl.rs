//! Corpus and query lines, plain or gzip: what `ehi insert` reads.
#![no_main]

use std::io::Cursor;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    // Gzip of a few bytes may unpack to gigabytes; the reader limits a line, not a stream.
    for document in ehi::data::read_documents(Cursor::new(bytes.to_vec()), "input").take(10_000) {
        match document {
            Ok(document) => assert!(!document.id.is_empty()),
            Err(error) => assert!(error.to_string().contains("input")),
        }
    }
    for query in ehi::data::read_queries(Cursor::new(bytes.to_vec()), "input").take(10_000) {
        match query {
            Ok(query) => assert!(!query.id.is_empty()),
            Err(error) => assert!(error.to_string().contains("input")),
        }
    }
});
