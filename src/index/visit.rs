//! Scoring what a search comes past: leaf after leaf, by codes first where they spare reading.

use std::time::Duration;

use half::f16;
use rayon::prelude::*;

use super::reach::{Course, Limits};
use super::search::impossible;
use super::serving::Serving;
use crate::codes::{BLOCK_ROWS, CodedQuery, FACTORS, Rotation};
use crate::error::Result;
use crate::ids::Row;
use crate::model::RoutingSample;
use crate::scan::{Scanner, TopK};
use crate::store::{Run, View};
use crate::tree::ScoredLeaf;

/// Shortest run of rows whose codes are looked at: a few embeddings are sooner read.
const FEWEST_CODED: usize = 16;
/// Documents for each hit asked for, before which most of them are among the best and codes rule out few.
const PLAIN_PER_HIT: usize = 8;
/// How many standard deviations, about, a score may lie above its estimate before a hit can be missed.
const CODE_WIDTH: f32 = 2.5;
/// Rows that a thread scores at a time.
const ROWS_PER_TASK: usize = 1024;
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
        // Rules that look at what was found need one leaf after another.
        let together = how.threads == Threads::Pool && !limits.is_adaptive();
        // A beam of all leaves is exact search.
        let exact = !limits.is_adaptive() && limits.leaves.get() >= course.all();
        let mut codes = (how.codes && !exact && !together && met.is_none())
            .then(|| self.coded())
            .flatten()
            .map(|rotation| Coded { rotation, query: None });
        let mut gathered = Vec::new();
        let (mut documents, mut embeddings) = (0usize, 0);
        while !course.is_over()
            && let Some(scored) = course.advance()
        {
            let runs = view.leaf_runs(scored.leaf)?;
            let live: usize = runs.iter().map(Run::live).sum();
            if met.is_none() && documents > 0 && documents.saturating_add(live) > budget {
                break;
            }
            let accepted = top.accepted();
            let first = gathered.len();
            for run in &runs {
                let skipped = match &mut codes {
                    Some(codes) => codes.scan(run, documents, scanner, top)?,
                    None => None,
                };
                match skipped {
                    Some(read) => embeddings += read,
                    None => run.push_to(&mut gathered)?,
                }
            }
            let mut found = live;
            if let Some(met) = &mut met {
                let mut own = gathered.split_off(first);
                own.retain(|(row, _)| met.insert(*row));
                found = own.len();
                if documents > 0 && documents.saturating_add(found) > budget {
                    break;
                }
                gathered.append(&mut own);
            }
            documents += found;
            embeddings += gathered.len() - first;
            if !together {
                scanner.scan(gathered.drain(..), top).map_err(impossible)?;
            }
            course.scored(scored, top.accepted() > accepted);
        }
        scan_in_pool(scanner, &gathered, top)?;
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

/// The codes of rows at work for one query.
struct Coded<'a> {
    rotation: &'a Rotation,
    /// Made when it is first needed.
    query: Option<CodedQuery>,
}

impl Coded<'_> {
    /// Scores the rows of a run whose codes do not rule them out, and says how many those are; `None` where codes would
    /// be of no use, as when few documents were scored so far.
    fn scan(
        &mut self,
        run: &Run<'_>,
        scored: usize,
        scanner: &Scanner<'_>,
        top: &mut TopK,
    ) -> Result<Option<usize>> {
        if run.len() < FEWEST_CODED || scored + run.len() < PLAIN_PER_HIT.saturating_mul(top.k()) {
            return Ok(None);
        }
        let Some((codes, factors)) = run.codes()? else { return Ok(None) };
        let query =
            self.query.get_or_insert_with(|| CodedQuery::new(self.rotation, scanner.query(), CODE_WIDTH));
        let block_bytes = query.tables.len();
        let mut left = Vec::with_capacity(BLOCK_ROWS);
        let (mut row, mut read) = (0, 0);
        let mut place = run.first_place();
        for block in codes.chunks_exact(block_bytes) {
            let rows = row..run.len().min(row + BLOCK_ROWS - place);
            // It only rises. No score is a number that cannot be compared, but for a sum beyond all bounds.
            let threshold = top.threshold().filter(|threshold| !threshold.is_nan());
            let mut bounds = [f32::INFINITY; BLOCK_ROWS];
            if threshold.is_some() {
                let sums = scanner.kernel().code_sums(query, block);
                let factors = factors[rows.start * FACTORS..rows.end * FACTORS].chunks_exact(FACTORS);
                let each = bounds.iter_mut().zip(&sums[place..]).zip(factors);
                each.for_each(|((bound, sum), factors)| *bound = query.upper_bound(*sum, factors));
            }
            // Without one, whatever the rows are is among the best; a bound beyond all bounds rules nothing out.
            let threshold = threshold.unwrap_or(f32::NEG_INFINITY);
            let may_be_a_hit = |bound: f32| bound >= threshold || bound.is_nan();
            for (row, _) in rows.clone().zip(bounds).filter(|&(_, bound)| may_be_a_hit(bound)) {
                if let Some(id) = run.row(row) {
                    left.push((id, run.embedding(row)?));
                }
            }
            (row, place) = (rows.end, 0);
            if !left.is_empty() {
                read += left.len();
                scanner.scan(left.drain(..), top).map_err(impossible)?;
            }
        }
        Ok(Some(read))
    }
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
