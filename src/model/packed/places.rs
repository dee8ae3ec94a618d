//! Biases added to attention scores by the distance of tokens.

use super::super::config::RelativePositions;

/// Biases added to the scores of each head, by the key's distance before or after the query.
pub(super) struct PlaceBias {
    /// `[heads, 2 positions - 1]`, from the farthest before to the farthest after.
    values: Vec<f32>,
    positions: usize,
}

impl PlaceBias {
    /// Shapes: `table` `[buckets, heads]`.
    pub(super) fn new(table: &[f32], relative: RelativePositions, heads: usize, positions: usize) -> Self {
        let farthest = positions as isize - 1;
        let mut values = Vec::with_capacity(heads * (2 * positions - 1));
        for head in 0..heads {
            let distances = -farthest..=farthest;
            values.extend(distances.map(|distance| table[relative.bucket(distance) * heads + head]));
        }
        Self { values, positions }
    }

    /// The biases between a query's position and `count` keys from `key` on.
    #[inline(always)]
    pub(super) fn row(&self, head: usize, query: usize, key: usize, count: usize) -> &[f32] {
        &self.values[head * (2 * self.positions - 1) + self.positions - 1 + key - query..][..count]
    }
}
