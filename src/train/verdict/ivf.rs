//! The baseline: inverted lists of k-means.

use std::borrow::Cow;
use std::ops::Range;

use crate::error::Result;
use crate::measure::Partition;

/// Documents per list that k-means learns from; more do not change the centroids noticeably.
const SAMPLE_PER_LIST: usize = 256;

/// The lists of k-means, learned from all documents or, for a large set, from an evenly spaced sample.
///
/// # Shapes
/// `rows` `[n, dim]` unit rows; `lists` from 1 to n.
pub(in crate::train) fn partition(
    rows: &[f32],
    dim: usize,
    lists: usize,
    seed: u64,
) -> Result<Partition<'static>> {
    let (count, most) = (rows.len() / dim, lists * SAMPLE_PER_LIST);
    let sample: Option<Vec<usize>> =
        (count > most).then(|| (0..most).map(|place| place * count / most).collect());
    let rows = |places: Range<usize>| Ok(Cow::Borrowed(&rows[places.start * dim..places.end * dim]));
    Partition::k_means((count, dim), rows, lists, seed, sample.as_deref())
}

/// Numbers of lists to measure: the number of leaves first, then those of the short list that differ from it.
pub(super) fn list_counts(documents: usize, leaves: usize) -> Vec<usize> {
    let own = leaves.min(documents);
    let mut counts = vec![own];
    for count in short_counts(documents, leaves) {
        if !counts.contains(&count) {
            counts.push(count);
        }
    }
    counts
}

/// The square root of the number of documents, twice that, and the number of leaves, each at most a tenth of
/// the documents, so that a list is worth probing, and at least 2.
fn short_counts(documents: usize, leaves: usize) -> [usize; 3] {
    let root = (documents as f64).sqrt().round() as usize;
    [root, 2 * root, leaves].map(|count| count.min(documents / 10).max(2).min(documents))
}

/// Candidate numbers of lists; the number of leaves is included if it is at most a tenth of the documents.
pub(super) fn short_list(documents: usize, leaves: usize) -> Vec<usize> {
    let short = short_counts(documents, leaves);
    list_counts(documents, leaves).into_iter().filter(|lists| short.contains(lists)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::Row;
    use crate::scan::TopK;

    #[test]
    fn numbers_of_lists_are_capped_and_named_once() {
        assert_eq!(list_counts(5_183, 40), [40, 72, 144]);
        assert_eq!(list_counts(5_183, 1_000), [1_000, 72, 144, 518]);
        assert_eq!(list_counts(100, 10), [10]);
        assert_eq!(list_counts(12, 4), [4, 2]);
        assert_eq!(list_counts(3, 8), [3, 2]);
        assert_eq!(list_counts(1, 1), [1]);
        assert_eq!(short_list(5_183, 1_000), [72, 144, 518]);
        assert_eq!(short_list(5_183, 40), [40, 72, 144]);
    }

    /// Both ways of learning the centroids, from all rows and from a sample.
    #[test]
    fn every_document_is_in_one_list_and_the_nearest_list_comes_first() {
        for count in [20, 5 * SAMPLE_PER_LIST] {
            // Two directions, one after the other.
            let rows: Vec<f32> =
                (0..count).flat_map(|place| if place % 2 == 0 { [1.0, 0.0] } else { [0.0, 1.0] }).collect();
            let partition = partition(&rows, 2, 2, 0).unwrap();
            let mut sizes = partition.sizes();
            sizes.sort_unstable();
            assert_eq!(sizes, [count / 2, count - count / 2]);
            let score = |rows: &[Row], top: &mut TopK| {
                rows.iter().for_each(|&row| top.push(1.0, row));
                Ok::<(), crate::Error>(())
            };
            let found = partition.search(&[1.0, 0.0], &[1, 2], TopK::new(count), score).unwrap();
            assert_eq!((found[0].visited, found[1].visited), (count / 2, count));
            assert!(found[0].ranking.iter().all(|(_, row)| row.0 % 2 == 0));
            assert_eq!((found[0].routing, found[1].routing), (2.0, 2.0));
        }
    }
}
