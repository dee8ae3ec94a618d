//! Labels, points and targets of extreme classification, plain or gzip.
#![no_main]

use std::io::Cursor;

use ehi::data::{read_labels, read_points, read_targets};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    for label in read_labels(Cursor::new(bytes.to_vec()), "input").take(10_000) {
        match label {
            Ok(label) => assert!(!label.id.is_empty()),
            Err(error) => assert!(error.to_string().contains("input")),
        }
    }
    for point in read_points(Cursor::new(bytes.to_vec()), "input").take(10_000) {
        match point {
            Ok(point) => assert!(!point.id.is_empty()),
            Err(error) => assert!(error.to_string().contains("input")),
        }
    }
    let labels = ["a".to_owned(), "b".to_owned(), "c".to_owned()];
    match read_targets(Cursor::new(bytes.to_vec()), "input", &labels) {
        Ok(qrels) => assert!(qrels.iter().all(|(_, judged)| judged.keys().all(|id| labels.contains(id)))),
        Err(error) => assert!(error.to_string().contains("input")),
    }
});
