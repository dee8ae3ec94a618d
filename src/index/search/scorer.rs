//! Scores candidates: by their codes first, if that saves reading embeddings.

use half::f16;
use rayon::prelude::*;

use super::candidates::RowCandidates;
use super::codes::CodeFilter;
use super::damage::scan_failed;
use crate::codes::Rotation;
use crate::error::Result;
use crate::ids::Row;
use crate::scan::{Scanner, TopK};
use crate::store::View;

/// Rows that a thread scores at a time.
pub(super) const ROWS_PER_TASK: usize = 1024;
/// The same if codes say which embeddings to read, which is faster.
const CODED_ROWS_PER_TASK: usize = 4 * ROWS_PER_TASK;

/// Scores the rows of one view for one query.
pub(super) struct Scorer<'a> {
    view: &'a View,
    scanner: &'a Scanner<'a>,
    /// The rotation for codes, if they may rule rows out.
    rotation: Option<&'a Rotation>,
    /// Whether the current rayon pool scores instead of the calling thread.
    parallel: bool,
    codes: Option<CodeFilter<'a>>,
    /// Embeddings read so far.
    pub embeddings: usize,
}

impl<'a> Scorer<'a> {
    pub fn new(
        view: &'a View,
        scanner: &'a Scanner<'a>,
        rotation: Option<&'a Rotation>,
        parallel: bool,
    ) -> Self {
        Self { view, scanner, rotation, parallel, codes: rotation.map(CodeFilter::new), embeddings: 0 }
    }

    /// Scores candidates into `top`. `documents` is the number of documents that the search has reached,
    /// including these: if there are few, codes do not pay.
    ///
    /// # Errors
    /// Damage of the data read.
    pub fn score(&mut self, rows: &[RowCandidates<'a>], documents: usize, top: &mut TopK) -> Result<()> {
        self.embeddings += match self.parallel {
            false => self.on_one(rows, documents, top)?,
            true => self.on_pool(rows, documents, top)?,
        };
        Ok(())
    }

    /// On the calling thread; returns the number of embeddings read.
    fn on_one(&mut self, rows: &[RowCandidates<'a>], documents: usize, top: &mut TopK) -> Result<usize> {
        score(rows, self.view, self.codes.as_mut(), documents, self.scanner, top)
    }

    /// On the threads of the current rayon pool; returns the number of embeddings read. Without codes, the
    /// result is the same as with one thread.
    fn on_pool(&mut self, rows: &[RowCandidates<'a>], documents: usize, top: &mut TopK) -> Result<usize> {
        let mut first = 0;
        let task = match self.rotation {
            None => ROWS_PER_TASK,
            Some(_) => {
                // The bounds of the other rows are compared with the best rows of the most probable leaves.
                let mut count = 0;
                let in_first = rows.iter().take_while(|rows| {
                    count += rows.run().len();
                    count <= ROWS_PER_TASK
                });
                first = in_first.count().max(1).min(rows.len());
                CODED_ROWS_PER_TASK
            }
        };
        let (first, rest) = rows.split_at(first);
        let read = self.on_one(first, documents, top)?;

        let mut count = 0;
        let in_one_task = |rows: &RowCandidates<'_>, _: &RowCandidates<'_>| {
            count = if count < task { count + rows.run().len() } else { rows.run().len() };
            count < task
        };
        let tasks: Vec<&[RowCandidates<'_>]> = rest.chunk_by(in_one_task).collect();
        let (view, scanner, rotation) = (self.view, self.scanner, self.rotation);
        let part = |rows: &&[RowCandidates<'_>]| -> Result<(TopK, usize)> {
            let mut own = top.fork();
            let mut codes = rotation.map(|rotation| CodeFilter::new(rotation).above(top));
            let read = score(rows, view, codes.as_mut(), documents, scanner, &mut own)?;
            Ok((own, read))
        };
        let parts = tasks.par_iter().map(part).collect::<Result<Vec<_>>>()?;
        Ok(parts.into_iter().fold(read, |read, (own, more)| {
            top.merge(own);
            read + more
        }))
    }
}

/// Scores candidates, and returns the number of embeddings read.
fn score<'a>(
    rows: &[RowCandidates<'a>],
    view: &View,
    mut codes: Option<&mut CodeFilter<'_>>,
    documents: usize,
    scanner: &Scanner<'_>,
    top: &mut TopK,
) -> Result<usize> {
    let mut read = 0;
    let mut plain: Vec<(Row, &[f16])> = Vec::new();
    // The codes of the next rows are prefetched while those of the previous rows are read.
    let find = |codes: Option<&CodeFilter<'_>>, rows: Option<&RowCandidates<'a>>, k| match (codes, rows) {
        (Some(codes), Some(rows)) => codes.codes_of(rows, documents, k),
        _ => Ok(None),
    };
    let mut next = find(codes.as_deref(), rows.first(), top.k())?;
    for (at, own) in rows.iter().enumerate() {
        let found = std::mem::replace(&mut next, find(codes.as_deref(), rows.get(at + 1), top.k())?);
        if let (Some(codes), Some(found)) = (&mut codes, found) {
            codes.add(own, found, scanner, top);
            if codes.is_full(top.k()) {
                read += codes.rerank(view, scanner, top)?;
            }
            continue;
        }
        own.push_to(&mut plain)?;
        if plain.len() >= ROWS_PER_TASK {
            read += plain.len();
            scanner.scan(plain.drain(..), top).map_err(scan_failed)?;
        }
    }
    read += plain.len();
    scanner.scan(plain, top).map_err(scan_failed)?;
    if let Some(codes) = codes {
        read += codes.rerank(view, scanner, top)?;
    }
    Ok(read)
}
