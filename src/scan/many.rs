//! Several queries over the same rows.

use half::f16;

use super::{BLOCK_ROWS, Kernel, ScanError, Similarity, TopK};
use crate::ids::Row;

/// Several queries, to be scored against any number of rows in one pass over each.
#[derive(Clone, Debug)]
pub(crate) struct ManyScanner<'a> {
    kernel: Kernel,
    similarity: Similarity,
    queries: Vec<&'a [f32]>,
    dim: usize,
}

impl<'a> ManyScanner<'a> {
    /// Prepares to score rows.
    ///
    /// # Shapes
    /// `queries` q slices `[dim]` f32; of unit norm for [`Similarity::Cosine`].
    ///
    /// # Errors
    /// [`ScanError::EmptyQuery`] where there is none or the first has no dimensions.
    ///
    /// # Panics
    /// Where they are not equally wide.
    pub fn new(similarity: Similarity, queries: Vec<&'a [f32]>) -> Result<Self, ScanError> {
        let dim = queries.first().map_or(0, |query| query.len());
        if dim == 0 {
            return Err(ScanError::EmptyQuery);
        }
        assert!(queries.iter().all(|query| query.len() == dim), "queries of one width");
        Ok(Self { kernel: Kernel::detect(), similarity, queries, dim })
    }

    /// Pushes the score of each of `rows` with each query into that query's of `tops`.
    ///
    /// Scores differ from those of a [`Scanner`](super::Scanner) in the last bits.
    ///
    /// # Shapes
    /// Each row `[dim]` f16; of unit norm for [`Similarity::Cosine`]. `tops` `[q]`.
    ///
    /// # Errors
    /// [`ScanError::Width`]; `tops` may then hold some of the scores.
    pub fn scan(&self, rows: &[(Row, &[f16])], tops: &mut [TopK]) -> Result<(), ScanError> {
        let count = self.queries.len();
        let mut slices: [&[f16]; BLOCK_ROWS] = [&[]; BLOCK_ROWS];
        let mut scores = vec![0.0; BLOCK_ROWS.min(rows.len()) * count];
        for block in rows.chunks(BLOCK_ROWS) {
            for (slot, &(row, values)) in slices.iter_mut().zip(block) {
                if values.len() != self.dim {
                    return Err(ScanError::Width { row, found: values.len(), dim: self.dim });
                }
                *slot = values;
            }
            let scores = &mut scores[..block.len() * count];
            self.kernel.score_many(self.similarity, &self.queries, &slices[..block.len()], scores);
            for (&(row, _), scores) in block.iter().zip(scores.chunks_exact(count)) {
                for (top, &score) in tops.iter_mut().zip(scores) {
                    top.push(score, row);
                }
            }
        }
        Ok(())
    }
}
