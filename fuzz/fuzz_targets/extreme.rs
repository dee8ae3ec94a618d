//! Labels, points and targets of extreme classification, plain or gzip.
#![no_main]

use libfuzzer_sys::fuzz_target;

mod layout;

fuzz_target!(|bytes: &[u8]| layout::read(bytes, &["lbl.json", "trn.json"]));
