//! Judgments: BEIR's three columns, and trec_eval's four, which are rewritten and read back.
#![no_main]

use std::io::Cursor;

use ehi::data::{DevFraction, Qrels, carve_dev};
use ehi::eval::write_qrels;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(qrels) = Qrels::read(Cursor::new(bytes.to_vec()), "input") {
        let judgments = qrels.judgments();
        let half = DevFraction::new(0.5).expect("0.5 is a fraction");
        let split = carve_dev(qrels, 7, half);
        assert_eq!(split.train.judgments() + split.dev.judgments(), judgments);
    }
    if let Ok(qrels) = Qrels::read_trec(Cursor::new(bytes.to_vec()), "input") {
        let mut written = Vec::new();
        // An id with a NUL or a byte order mark cannot be written.
        if write_qrels(&mut written, &qrels).is_ok() {
            let again =
                Qrels::read_trec(Cursor::new(written), "input").expect("what was written can be read");
            assert_eq!(again, qrels);
        }
    }
});
