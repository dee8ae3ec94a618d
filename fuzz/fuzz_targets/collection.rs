//! Passages, queries and judgments in MS MARCO's layout, plain or gzip.
#![no_main]

use libfuzzer_sys::fuzz_target;

mod layout;

fuzz_target!(|bytes: &[u8]| layout::read(bytes, &["collection.tsv", "queries.x.tsv", "qrels.x.tsv"]));
