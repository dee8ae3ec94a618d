//! The opponent: inverted lists of k-means.

use super::bench::Measured;

/// Seeds of k-means over which lists are averaged; one alone is noise of a point or two.
pub(super) const SEEDS: u64 = 4;

/// Inverted lists, averaged over seeds.
#[derive(Default)]
pub(super) struct Lists {
    pub lists: usize,
    pub measured: Measured,
}

/// Numbers of lists to measure: that of the leaves first, then those of the short list that differ.
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

/// The square root of the documents, twice that, and the leaves, each at most a tenth of the
/// documents, so that a list is worth probing, and at least 2.
fn short_counts(documents: usize, leaves: usize) -> [usize; 3] {
    let root = (documents as f64).sqrt().round() as usize;
    [root, 2 * root, leaves].map(|count| count.min(documents / 10).max(2).min(documents))
}

/// The lists that the best is chosen from; those with as many lists as leaves are among them
/// where a tenth of the documents allows it.
pub(super) fn short_list<'a>(documents: usize, own: &'a Lists, others: &'a [Lists]) -> Vec<&'a Lists> {
    let counts = short_counts(documents, own.lists);
    [own].into_iter().chain(others).filter(|lists| counts.contains(&lists.lists)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_lists_are_capped_and_named_once() {
        assert_eq!(list_counts(5_183, 40), [40, 72, 144]);
        assert_eq!(list_counts(5_183, 1_000), [1_000, 72, 144, 518]);
        assert_eq!(list_counts(100, 10), [10]);
        assert_eq!(list_counts(12, 4), [4, 2]);
        assert_eq!(list_counts(3, 8), [3, 2]);
        assert_eq!(list_counts(1, 1), [1]);
    }
}
