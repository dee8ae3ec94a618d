//! `CURRENT`.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| ehi::fuzz_current(bytes));
