//! Any bytes as `tokenizer.json`: refused, or texts are tokenised with it within bounds of memory and time.
#![no_main]

use std::sync::Once;

use libfuzzer_sys::fuzz_target;

/// The hook of the fuzzer ends the process at any panic. The crate promises to catch those of the
/// tokenizers library; a panic that it does not catch still ends the run.
fn only_uncaught_panics_count() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| std::panic::set_hook(Box::new(|_| ())));
}

fuzz_target!(|bytes: &[u8]| {
    only_uncaught_panics_count();
    ehi::fuzz_tokenizer(bytes);
});
