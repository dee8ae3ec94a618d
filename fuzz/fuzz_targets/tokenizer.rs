//! Any bytes as `tokenizer.json`: refused, or used to tokenise texts within limits of memory and time.
#![no_main]

use std::sync::Once;

use libfuzzer_sys::fuzz_target;

const MAX_TOKENS: usize = 16;

/// The fuzzer's hook ends the process on any panic. The crate promises to catch panics of the tokenizers
/// library; a panic that it does not catch still ends the run.
fn only_uncaught_panics_count() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| std::panic::set_hook(Box::new(|_| ())));
}

fuzz_target!(|bytes: &[u8]| {
    only_uncaught_panics_count();
    let Some(encode) = ehi::fuzz_tokenizer(bytes, MAX_TOKENS) else { return };
    let own = String::from_utf8_lossy(bytes);
    let long = ["\u{597d}", "-", "a", " ", "a b", "\u{fdfa}", "[CLS]"].map(|unit| unit.repeat(5000));
    let short = ["", "a word", "  A-\u{e9}\u{301} [CLS]\n", &own];
    for [ids, of_head] in short.into_iter().chain(long.iter().map(AsRef::as_ref)).filter_map(encode) {
        assert!((1..=MAX_TOKENS).contains(&ids.len()));
        assert_eq!(ids, of_head, "the same text, as far as it is read");
    }
});
