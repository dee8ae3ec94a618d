//! Queries in blocks, and how many of them are done.

use std::ops::Range;

use rayon::prelude::*;

use crate::progress::{Cancelled, OnProgress, Progress, Stage};

/// Queries whose scores or rankings are in memory at once.
const QUERIES_PER_BLOCK: usize = 64;

/// The places of `queries` queries, in blocks.
pub(crate) fn blocks(queries: usize) -> impl ExactSizeIterator<Item = Range<usize>> {
    let block = move |number: usize| {
        let first = number * QUERIES_PER_BLOCK;
        first..(first + QUERIES_PER_BLOCK).min(queries)
    };
    (0..queries.div_ceil(QUERIES_PER_BLOCK)).map(block)
}

/// Reports the progress of a measurement.
pub(crate) struct ProgressCounter<'a, 'b> {
    pub on_progress: &'a mut OnProgress<'b>,
    pub done: usize,
    pub total: usize,
}

impl ProgressCounter<'_, '_> {
    /// Measures queries in parallel, block by block, and passes the results to `add` in their order.
    ///
    /// # Errors
    /// Those of `search` and `add`, and [`Cancelled`] if the caller cancels after a block.
    pub(crate) fn measure<T: Send, E: From<Cancelled> + Send>(
        &mut self,
        queries: usize,
        search: impl Fn(usize) -> Result<T, E> + Sync,
        mut add: impl FnMut(usize, T) -> Result<(), E>,
    ) -> Result<(), E> {
        for block in blocks(queries) {
            let found = block.clone().into_par_iter().map(&search).collect::<Result<Vec<_>, E>>()?;
            block.clone().zip(found).try_for_each(|(query, found)| add(query, found))?;
            self.add(block.len())?;
        }
        Ok(())
    }

    /// # Errors
    /// [`Cancelled`] if the caller cancels.
    pub(crate) fn add(&mut self, done: usize) -> Result<(), Cancelled> {
        self.done += done;
        Progress::new(Stage::Evaluate, self.done, self.total).tell(self.on_progress, Cancelled)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_query_is_in_one_block() {
        assert_eq!(blocks(130).collect::<Vec<_>>(), [0..64, 64..128, 128..130]);
        assert_eq!((blocks(64).len(), blocks(0).len()), (1, 0));
    }
}
