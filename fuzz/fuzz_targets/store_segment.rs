//! A segment with correct checksums and arbitrary sections.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: (&[u8], [u16; 15], u16)| {
    let (bytes, cuts, rows) = input;
    ehi::fuzzing::segment(bytes, &cuts, rows);
});
