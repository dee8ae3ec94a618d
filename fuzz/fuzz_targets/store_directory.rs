//! A whole store with changed, truncated or removed files.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| ehi::fuzzing::directory(bytes));
