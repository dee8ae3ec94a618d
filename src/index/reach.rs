//! How far a search goes in the tree, and the way there.

use std::collections::HashSet;
use std::fmt;
use std::num::NonZeroUsize;
use std::str::FromStr;
use std::time::{Duration, Instant};

use half::f16;
use rayon::prelude::*;

use super::search::impossible;
use super::serving::Serving;
use crate::codes::{BLOCK_ROWS, CodedQuery, FACTORS, Rotation};
use crate::error::{InputError, Result};
use crate::ids::{LeafId, Row};
use crate::model::{Indexer, RoutingSample};
use crate::scan::{Scanner, TopK};
use crate::store::{Run, View};
use crate::tree::ScoredLeaf;

/// Leaves with which an adaptive search of a tree of several levels begins; it widens as it goes on. With one
/// level every leaf is scored anyway.
const FIRST_WIDTH: usize = 16;
/// How much wider it grows at a time, so that what is found twice costs little.
const WIDENING: usize = 4;

/// A rule by which a search stops before it has visited every leaf, so that an easy query visits fewer.
///
/// Leaves are visited from the most probable on; the first one that holds a document always is, but for `Mass` and
/// `Patience`, to which an empty leaf counts as one.
///
/// Written and parsed as `patience=8`, `mass=0.9`, `documents=500`, `fraction=0.05`.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum Stop {
    /// After this many leaves in a row in which nothing was among the best `k` so far; from 1.
    Patience(usize),
    /// Once the leaves visited have this much of the probability together, over 0 to 1.
    Mass(f64),
    /// Before the leaf with which more than this many documents would be scored; from 1.
    Documents(usize),
    /// As `Documents`, in proportion to the live documents; over 0 to 1.
    Fraction(f64),
}

impl Stop {
    pub(crate) fn check(self) -> std::result::Result<(), InputError> {
        let valid = match self {
            Self::Patience(count) | Self::Documents(count) => count > 0,
            Self::Mass(share) | Self::Fraction(share) => share > 0.0 && share <= 1.0,
        };
        if valid { Ok(()) } else { Err(InputError::BadStop { stop: self }) }
    }
}

impl fmt::Display for Stop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Patience(leaves) => write!(f, "patience={leaves}"),
            Self::Mass(share) => write!(f, "mass={share}"),
            Self::Documents(count) => write!(f, "documents={count}"),
            Self::Fraction(share) => write!(f, "fraction={share}"),
        }
    }
}

impl FromStr for Stop {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Self, String> {
        let expected =
            || format!("`{text}` is none of patience=LEAVES, mass=SHARE, documents=COUNT and fraction=SHARE");
        let (rule, value) = text.trim().split_once('=').ok_or_else(expected)?;
        let count = || value.parse().map_err(|_| expected());
        let share = || value.parse().map_err(|_| expected());
        let stop = match rule {
            "patience" => Self::Patience(count()?),
            "mass" => Self::Mass(share()?),
            "documents" => Self::Documents(count()?),
            "fraction" => Self::Fraction(share()?),
            _ => return Err(expected()),
        };
        stop.check().map_err(|error| error.to_string())?;
        Ok(stop)
    }
}

impl serde::Serialize for Stop {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

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

/// How far a search goes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Reach {
    /// Leaves of the tree.
    Tree(Limits),
    /// Every document, past the tree.
    Exact,
}

impl Reach {
    pub fn beam(leaves: NonZeroUsize) -> Self {
        Self::Tree(Limits::beam(leaves))
    }
}

/// Where a search of the tree ends: at whichever comes first.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Limits {
    pub leaves: NonZeroUsize,
    documents: usize,
    fraction: f64,
    mass: f64,
    patience: usize,
}

impl Limits {
    pub fn beam(leaves: NonZeroUsize) -> Self {
        Self {
            leaves,
            documents: usize::MAX,
            fraction: f64::INFINITY,
            mass: f64::INFINITY,
            patience: usize::MAX,
        }
    }

    /// With one rule more; of two of a kind the stricter one counts.
    pub fn with(mut self, stop: Stop) -> std::result::Result<Self, InputError> {
        stop.check()?;
        match stop {
            Stop::Patience(leaves) => self.patience = self.patience.min(leaves),
            Stop::Mass(share) => self.mass = self.mass.min(share),
            Stop::Documents(count) => self.documents = self.documents.min(count),
            Stop::Fraction(share) => self.fraction = self.fraction.min(share),
        }
        Ok(self)
    }

    fn is_adaptive(&self) -> bool {
        *self != Self::beam(self.leaves)
    }

    /// Documents to score at most, of so many live ones.
    pub fn documents_of(&self, live: usize) -> usize {
        // A share beyond every document, infinity too, saturates.
        self.documents.min((self.fraction * live as f64) as usize)
    }
}

/// The way of a query through the leaves, most probable first, as far as it is asked.
pub(super) struct Course<'a> {
    indexer: &'a Indexer,
    unit: &'a [f32],
    limits: Limits,
    /// Of the beam search that found the leaves at hand; 0 before the first.
    width: usize,
    at_hand: std::vec::IntoIter<ScoredLeaf>,
    /// Those that were handed out, which a wider beam finds again.
    pub leaves: Vec<ScoredLeaf>,
    given: HashSet<LeafId>,
    /// Their probability together, and how many of the last ones brought nothing.
    mass: f64,
    quiet: usize,
    pub multiply_adds: u64,
    pub sample: Option<RoutingSample>,
    /// Time of the beam searches.
    pub beam: Duration,
}

impl<'a> Course<'a> {
    pub fn new(indexer: &'a Indexer, unit: &'a [f32], limits: Limits) -> Self {
        Self {
            indexer,
            unit,
            limits,
            width: 0,
            at_hand: Vec::new().into_iter(),
            leaves: Vec::new(),
            given: HashSet::new(),
            mass: 0.0,
            quiet: 0,
            multiply_adds: 0,
            sample: None,
            beam: Duration::ZERO,
        }
    }

    /// Whether the limits are reached, but for those that count documents.
    pub fn is_over(&self) -> bool {
        self.leaves.len() >= self.limits.leaves.get()
            || self.mass >= self.limits.mass
            || self.quiet >= self.limits.patience
    }

    /// Whether all leaves were handed out.
    pub fn is_exhausted(&self) -> bool {
        self.leaves.len() >= self.all()
    }

    /// The next leaf, also beyond the limits.
    pub fn advance(&mut self) -> Option<ScoredLeaf> {
        loop {
            if let Some(scored) = self.at_hand.find(|scored| !self.given.contains(&scored.leaf)) {
                return Some(scored);
            }
            if self.width >= self.all() {
                return None;
            }
            self.widen();
        }
    }

    /// Counts a leaf that was scored.
    pub fn scored(&mut self, scored: ScoredLeaf, accepted: bool) {
        self.mass += f64::from(scored.log_probability.exp());
        self.quiet = if accepted { 0 } else { self.quiet + 1 };
        self.given.insert(scored.leaf);
        self.leaves.push(scored);
    }

    /// Leaves of the tree.
    pub fn all(&self) -> usize {
        self.indexer.shape().leaves() as usize
    }

    fn widen(&mut self) {
        let adaptive = self.limits.is_adaptive();
        let width = match self.width {
            // A tree of one level scores every leaf anyway.
            0 if adaptive && self.indexer.shape().height() == 1 => self.all(),
            0 if adaptive => FIRST_WIDTH,
            0 => self.limits.leaves.get(),
            width => width.saturating_mul(WIDENING),
        };
        self.width = width.min(self.all());
        let started = Instant::now();
        let beam = NonZeroUsize::new(self.width).unwrap_or(NonZeroUsize::MIN);
        let (routing, sample) = self.indexer.route_observed(self.unit, beam);
        self.beam += started.elapsed();
        self.multiply_adds += routing.multiply_adds;
        self.sample.get_or_insert(sample);
        self.at_hand = routing.search.leaves.into_iter();
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
        let exact = limits == Limits::beam(limits.leaves) && limits.leaves.get() >= course.all();
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
fn scan_in_pool(scanner: &Scanner<'_>, rows: &[(Row, &[f16])], top: &mut TopK) -> Result<usize> {
    let part = |rows: &[(Row, &[f16])]| -> Result<TopK> {
        let mut own = top.fork();
        scanner.scan(rows.iter().copied(), &mut own).map_err(impossible)?;
        Ok(own)
    };
    let parts = rows.par_chunks(ROWS_PER_TASK).map(part).collect::<Result<Vec<_>>>()?;
    parts.into_iter().for_each(|own| top.merge(own));
    Ok(rows.len())
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
            // It only rises.
            let threshold = top.threshold();
            let sums = match threshold {
                Some(_) => scanner.kernel().code_sums(query, block),
                // Whatever they are is among the best.
                None => [0; BLOCK_ROWS],
            };
            let threshold = threshold.unwrap_or(f32::NEG_INFINITY);
            let factors = &factors[rows.start * FACTORS..rows.end * FACTORS];
            let mut bounds = [f32::INFINITY; BLOCK_ROWS];
            if threshold > f32::NEG_INFINITY {
                let each = bounds.iter_mut().zip(&sums[place..]).zip(factors.chunks_exact(FACTORS));
                each.for_each(|((bound, sum), factors)| *bound = query.upper_bound(*sum, factors));
            }
            for (row, _) in rows.clone().zip(&bounds).filter(|(_, bound)| **bound >= threshold) {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_are_written_as_they_are_read() {
        let stops = [Stop::Patience(8), Stop::Mass(0.9), Stop::Documents(500), Stop::Fraction(0.05)];
        for stop in stops {
            assert_eq!(stop.to_string().parse(), Ok(stop));
        }
        for bad in [
            "",
            "8",
            "patience",
            "patience=0",
            "mass=0",
            "mass=1.5",
            "mass=NaN",
            "fraction=-1",
            "beam=3",
            "documents=1.5",
        ] {
            assert!(bad.parse::<Stop>().is_err(), "{bad}");
        }
    }
}
