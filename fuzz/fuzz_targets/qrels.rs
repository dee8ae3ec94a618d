//! Judgments: BEIR's three columns, and trec_eval's four.
#![no_main]

use std::io::Cursor;

use ehi::data::{DevFraction, Qrels, carve_dev};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(qrels) = Qrels::read(Cursor::new(bytes.to_vec()), "input") {
        let queries = qrels.len();
        let half = DevFraction::new(0.5).expect("0.5 is a fraction");
        let (train, dev) = carve_dev(qrels, 7, half);
        assert_eq!(train.len() + dev.len(), queries);
    }
    let _ = Qrels::read_trec(Cursor::new(bytes.to_vec()), "input");
});
