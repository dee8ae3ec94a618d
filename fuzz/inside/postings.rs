//! For the fuzz target; not part of the public interface.

use super::{Bm25, EncodedList, List, Norms, Posting, QueryTerm, Undecodable, score_rows, search, syntax};
use crate::scan::TopK;

/// Number of rows of the part that the list is read for.
const ROWS: u32 = 5_000;

/// Reads any bytes as a posting list, searches it, and reads them as a question.
#[allow(clippy::expect_used, reason = "a failure is what the fuzzer looks for")]
pub fn fuzz_postings(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    for clause in syntax::parse(&text) {
        assert!(!clause.text.trim().is_empty());
    }
    let Some((count, bytes)) = bytes.split_first_chunk::<2>() else { return };
    let n = usize::from(u16::from_le_bytes(*count));
    let Ok(list) = EncodedList::new(bytes, n) else { return };
    let mut postings: Vec<Posting> = Vec::new();
    if list.decode_all(&mut postings).is_ok() {
        assert_eq!(postings.len(), n);
        assert!(postings.is_sorted_by(|a, b| a.row < b.row));
    }
    let lengths = vec![7; ROWS as usize];
    let norms = Norms::new(Bm25::default(), 7.0);
    for required in [false, true] {
        let terms = [QueryTerm { list: List::Encoded(list), weight: 1.5, required }];
        let mut best = TopK::new(10);
        let mut accept = |row: u32, _: f32| Ok::<bool, Undecodable>(row < ROWS);
        if search(&terms, &lengths, &norms, 0, &mut accept, &mut best).is_ok() {
            assert!(best.into_sorted().len() <= n.min(10));
        }
        let rows: Vec<u32> = (0..ROWS).step_by(7).collect();
        let mut scores = Vec::new();
        if score_rows(&terms, &lengths, &norms, &rows, &mut scores).is_ok() {
            assert_eq!(scores.len(), rows.len());
        }
    }
}
