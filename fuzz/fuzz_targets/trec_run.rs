//! Run files: accepted ones are in trec_eval's order, and survive being written.
#![no_main]

use std::io::Cursor;

use ehi::eval::TrecRun;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Ok(run) = TrecRun::read(Cursor::new(bytes.to_vec()), "input") else {
        return;
    };
    for (_, results) in run.iter() {
        assert!(results.is_sorted_by(|a, b| a.score > b.score || (a.score == b.score && a.id >= b.id)));
    }
    let mut written = Vec::new();
    run.write(&mut written, "fuzz").expect("what was read can be written");
    let again = TrecRun::read(Cursor::new(written), "input").expect("what was written can be read");
    assert_eq!(again, run);
});
