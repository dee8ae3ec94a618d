//! Files with arbitrary field names, as `ehi insert` reads them, files of pairs, and marked-up text.
#![no_main]

use std::io::Cursor;

use ehi::data::{Format, Input, read_judgments};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Some((how, bytes)) = bytes.split_first() else { return };
    let mut input = Input::new();
    if how & 1 > 0 {
        input = input.id("a").title("b").text(["c", "d"]);
    }
    if how & 2 > 0 {
        input = input.metadata(["e", "metadata"]);
    }
    input = input.cells_as_text(how & 4 > 0);
    if how & 8 > 0 {
        input = input.delimiter('|');
    }
    if let Some(format) = Format::ALL.get(usize::from(how >> 4)) {
        input = input.format(*format);
    }
    let whole = Cursor::new(bytes.to_vec());
    // A compressed stream of a few bytes may unpack to gigabytes; the reader limits a record, not a stream.
    match input.read(whole, "input") {
        Ok(mut documents) => {
            for document in documents.by_ref().take(10_000) {
                match document {
                    Ok(document) => assert!(!document.id.is_empty()),
                    Err(error) => assert!(error.to_string().contains("input")),
                }
            }
            assert!(documents.notes().iter().all(|note| !note.to_string().is_empty()));
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
    if bytes.len() < 10_000 {
        let _ = read_judgments(Cursor::new(bytes.to_vec()), "input", None);
    }
    ehi::data::fuzz_markup(bytes);
});
