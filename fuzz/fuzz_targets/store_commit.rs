//! A commit in its log encoding.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| ehi::fuzzing::commit(bytes));
