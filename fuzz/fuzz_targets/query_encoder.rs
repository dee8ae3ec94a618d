//! Any bytes as the file of a query encoder: refused, or it reads questions.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| ehi::fuzz_query_encoder(bytes));
