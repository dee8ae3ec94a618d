//! A stored document: title and text, and the metadata after the first 0xff.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let mut parts = bytes.splitn(2, |byte| *byte == 0xff);
    let (payload, metadata) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
    ehi::fuzzing::payload(payload, metadata);
});
