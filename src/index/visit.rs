//! Scoring what a search comes past: leaf after leaf, by codes first where they spare reading.

use std::time::Duration;

use half::f16;
use rayon::prelude::*;

use super::coded::Coded;
use super::reach::{Course, Limits};
use super::search::impossible;
use super::serving::Serving;
use crate::codes::Rotation;
use crate::error::Result;
use crate::ids::Row;
use crate::model::RoutingSample;
use crate::scan::{Scanner, TopK};
use crate::store::{Run, View};
use crate::tree::ScoredLeaf;

/// Rows that a thread scores at a time.
const ROWS_PER_TASK: usize = 1024;
/// The same where codes say which embeddings to read, which takes less time.
const CODED_ROWS_PER_TASK: usize = 4 * ROWS_PER_TASK;
/// Rows of an exact search that are handed to the threads together: some megabytes of references.
const ROWS_GATHERED: usize = 256 * 1024;

/// What a search runs on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Threads {
    /// The calling thread.
    #[default]
    One,
    /// The current rayon pool.
    Pool,
}

/// How rows are scored.
#[derive(Clone, Copy, Debug)]
pub(crate) struct How {
    pub threads: Threads,
    /// Whether codes may say that an embedding need not be read.
    pub codes: bool,
}

impl Default for How {
    fn default() -> Self {
        Self { threads: Threads::One, codes: true }
    }
}

/// What a search came past.
#[derive(Default)]
pub(super) struct Visit {
    /// Most probable first.
    pub leaves: Vec<ScoredLeaf>,
    /// Documents scored, each once.
    pub documents: usize,
    /// Those of them whose embedding was read.
    pub embeddings: usize,
    pub multiply_adds: u64,
    pub sample: Option<RoutingSample>,
    /// Time of the beam searches.
    pub beam: Duration,
}

impl Serving {
    /// Scores the leaves of a unit query within limits.
    pub(super) fn visit(
        &self,
        view: &View,
        unit: &[f32],
        limits: Limits,
        how: How,
        scanner: &Scanner<'_>,
        top: &mut TopK,
    ) -> Result<Visit> {
        let budget = limits.documents_of(view.live());
        let mut course = Course::new(&self.model().indexer, unit, limits);
        // A document may be in several leaves.
        let mut met = (self.leaves_per_document() > 1).then(|| Met::new(view.rows()));
        // Rules that look at what was found need one leaf after another. Else all wait for the last: the more there are at
        // once, the fewer embeddings need be read.
        let adaptive = limits.is_adaptive();
        let together = how.threads == Threads::Pool && !adaptive;
        // A beam of all leaves is exact search.
        let exact = !adaptive && limits.leaves.get() >= course.all();
        let rotation = (how.codes && !exact && met.is_none()).then(|| self.coded()).flatten();
        let mut codes = rotation.filter(|_| !together).map(Coded::new);
        let mut waiting = Vec::new();
        let mut gathered = Vec::new();
        let (mut documents, mut embeddings) = (0usize, 0);
        while !course.is_over()
            && let Some(scored) = course.advance()
        {
            let first = waiting.len();
            view.leaf_runs(scored.leaf, &mut waiting)?;
            let mut found: usize = waiting[first..].iter().map(Run::live).sum();
            if met.is_none() && documents > 0 && documents.saturating_add(found) > budget {
                waiting.truncate(first);
                break;
            }
            if let Some(met) = &mut met {
                let first = gathered.len();
                waiting.drain(..).try_for_each(|run| run.push_to(&mut gathered))?;
                let mut own = gathered.split_off(first);
                own.retain(|(row, _)| met.insert(*row));
                found = own.len();
                if documents > 0 && documents.saturating_add(found) > budget {
                    break;
                }
                gathered.append(&mut own);
            }
            documents += found;
            let accepted = top.accepted();
            if !together {
                embeddings += gathered.len();
                scanner.scan(gathered.drain(..), top).map_err(impossible)?;
            }
            if adaptive {
                embeddings += score(waiting.drain(..), view, codes.as_mut(), documents, scanner, top)?;
            }
            course.scored(scored, top.accepted() > accepted);
        }
        if let Some(rotation) = rotation.filter(|_| together) {
            embeddings += score_in_pool(&waiting, view, rotation, documents, scanner, top)?;
        } else if together {
            waiting.drain(..).try_for_each(|run| run.push_to(&mut gathered))?;
            embeddings += gathered.len();
            scan_in_pool(scanner, &gathered, top)?;
        } else {
            embeddings += score(waiting.drain(..), view, codes.as_mut(), documents, scanner, top)?;
        }
        let Course { leaves, multiply_adds, sample, beam, .. } = course;
        Ok(Visit { leaves, documents, embeddings, multiply_adds, sample, beam })
    }

    /// Scores every live row.
    pub(super) fn visit_all(
        view: &View,
        threads: Threads,
        scanner: &Scanner<'_>,
        top: &mut TopK,
    ) -> Result<Visit> {
        let mut documents = 0;
        let mut gathered = Vec::new();
        view.each_block(|rows| -> Result<()> {
            documents += rows.len();
            if threads == Threads::One {
                scanner.scan(rows.iter().copied(), top).map_err(impossible)?;
                return Ok(());
            }
            gathered.extend_from_slice(rows);
            if gathered.len() >= ROWS_GATHERED {
                scan_in_pool(scanner, &gathered, top)?;
                gathered.clear();
            }
            Ok(())
        })?;
        scan_in_pool(scanner, &gathered, top)?;
        Ok(Visit { documents, embeddings: documents, ..Visit::default() })
    }
}

/// Scores runs on this thread, by their codes first where there are codes and so many documents in all that they pay; says
/// how many embeddings were read.
fn score<'a>(
    runs: impl Iterator<Item = Run<'a>>,
    view: &View,
    mut codes: Option<&mut Coded<'_>>,
    documents: usize,
    scanner: &Scanner<'_>,
    top: &mut TopK,
) -> Result<usize> {
    let mut read = 0;
    let mut gathered = Vec::new();
    let mut runs = runs.peekable();
    while let Some(run) = runs.next() {
        if let (Some(codes), Some(next)) = (&codes, runs.peek()) {
            codes.expect(next)?;
        }
        if let Some(codes) = &mut codes
            && codes.add(&run, documents, scanner, top)?
        {
            if codes.is_full(top.k()) {
                read += codes.settle(view, scanner, top)?;
            }
            continue;
        }
        run.push_to(&mut gathered)?;
        if gathered.len() >= ROWS_PER_TASK {
            read += gathered.len();
            scanner.scan(gathered.drain(..), top).map_err(impossible)?;
        }
    }
    read += gathered.len();
    scanner.scan(gathered, top).map_err(impossible)?;
    if let Some(codes) = &mut codes {
        read += codes.settle(view, scanner, top)?;
    }
    Ok(read)
}

/// [`score`] by codes on the threads of the current rayon pool, but for the most probable leaves, whose best rows are what the
/// others' bounds are held against.
fn score_in_pool(
    runs: &[Run<'_>],
    view: &View,
    rotation: &Rotation,
    documents: usize,
    scanner: &Scanner<'_>,
    top: &mut TopK,
) -> Result<usize> {
    let mut rows = 0;
    let first = runs.iter().take_while(|run| {
        rows += run.len();
        rows <= ROWS_PER_TASK
    });
    let (first, rest) = runs.split_at(first.count().max(1).min(runs.len()));
    let read = score(first.iter().cloned(), view, Some(&mut Coded::new(rotation)), documents, scanner, top)?;

    let mut rows = 0;
    let in_one_task = |run: &Run<'_>, _: &Run<'_>| {
        rows = if rows < CODED_ROWS_PER_TASK { rows + run.len() } else { run.len() };
        rows < CODED_ROWS_PER_TASK
    };
    let tasks: Vec<&[Run<'_>]> = rest.chunk_by(in_one_task).collect();
    let part = |runs: &&[Run<'_>]| -> Result<(TopK, usize)> {
        let (mut own, mut codes) = (top.fork(), Coded::new(rotation).beyond(top));
        let read = score(runs.iter().cloned(), view, Some(&mut codes), documents, scanner, &mut own)?;
        Ok((own, read))
    };
    let parts = tasks.par_iter().map(part).collect::<Result<Vec<_>>>()?;
    let add = |read, (own, more): (TopK, usize)| {
        top.merge(own);
        read + more
    };
    Ok(parts.into_iter().fold(read, add))
}

/// Scores rows on the threads of the current rayon pool, with the same result as on one.
fn scan_in_pool(scanner: &Scanner<'_>, rows: &[(Row, &[f16])], top: &mut TopK) -> Result<()> {
    let part = |rows: &[(Row, &[f16])]| -> Result<TopK> {
        let mut own = top.fork();
        scanner.scan(rows.iter().copied(), &mut own).map_err(impossible)?;
        Ok(own)
    };
    let parts = rows.par_chunks(ROWS_PER_TASK).map(part).collect::<Result<Vec<_>>>()?;
    parts.into_iter().for_each(|own| top.merge(own));
    Ok(())
}

/// A set of rows, a bit for each.
struct Met(Vec<u64>);

impl Met {
    fn new(rows: usize) -> Self {
        Self(vec![0; rows.div_ceil(64)])
    }

    /// Whether the row is met for the first time.
    fn insert(&mut self, row: Row) -> bool {
        let (word, bit) = (&mut self.0[row.index() / 64], 1 << (row.index() % 64));
        let new = *word & bit == 0;
        *word |= bit;
        new
    }
}
