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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::Row;
    use crate::scan::TopK;

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
