//! The values of the database: commit record, document record, posting block, id, checksum.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    // The first byte chooses, so that each kind keeps inputs of its own.
    let Some((kind, value)) = bytes.split_first() else {
        return;
    };
    match kind % 4 {
        0 => ehi::fuzzing::commit_record(value),
        1 => ehi::fuzzing::document_record(value),
        2 => ehi::fuzzing::posting_block(value),
        _ => ehi::fuzzing::small_records(value),
    }
});
