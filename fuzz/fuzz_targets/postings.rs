//! Any bytes as a posting list of terms: refused, or decoded and searched without a panic; and any text as a
//! search query.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| ehi::fuzz_postings(bytes));
