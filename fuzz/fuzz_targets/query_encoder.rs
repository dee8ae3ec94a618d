//! Any bytes as the file of a query encoder: refused, or usable for questions.
#![no_main]

use libfuzzer_sys::fuzz_target;

const VOCABULARY: usize = 5;
const DIM: usize = 4;

fuzz_target!(|bytes: &[u8]| {
    let Some(embed) = ehi::fuzz_query_encoder(bytes, VOCABULARY, DIM) else { return };
    for tokens in [&[][..], &[0], &[4, 4, 1, 2, 3]] {
        let norm: f32 = embed(tokens).expect("tokens of the vocabulary").iter().map(|x| x * x).sum();
        assert!(norm == 0.0 || (norm - 1.0).abs() < 1e-3, "{norm}");
    }
    assert!(embed(&[5]).is_none());
});
