//! A whole store of which bytes were changed, cut or removed.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| ehi::fuzzing::directory(bytes));
