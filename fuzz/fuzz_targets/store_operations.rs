//! Sequences of operations on a store, with reopening, copies and readers, compared with a map.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|operations: &[u8]| ehi::fuzzing::operations(operations));
