//! Judgments: BEIR's three columns, and trec_eval's four, which are written again and read back.
#![no_main]

use std::io::Cursor;

use ehi::data::{DevFraction, Qrels, carve_dev};
use ehi::eval::{read_qrels, write_qrels};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(qrels) = Qrels::read(Cursor::new(bytes.to_vec()), "input") {
        let judgments = qrels.judgments();
        let half = DevFraction::new(0.5).expect("0.5 is a fraction");
        let split = carve_dev(qrels, 7, half);
        assert_eq!(split.train.judgments() + split.dev.judgments(), judgments);
    }
    if let Ok(qrels) = read_qrels(Cursor::new(bytes.to_vec()), "input") {
        let mut written = Vec::new();
        write_qrels(&mut written, &qrels).expect("what was read can be written");
        let again = read_qrels(Cursor::new(written), "input").expect("what was written can be read");
        assert_eq!(again, qrels);
    }
});
