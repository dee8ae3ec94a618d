//! A log: any bytes, and any bytes after a whole commit.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| ehi::fuzzing::log(bytes));
