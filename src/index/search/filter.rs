//! Which rows pass a filter.

use std::collections::{HashMap, HashSet, VecDeque};
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use super::damage::damaged;
use crate::error::Result;
use crate::filter::{Answer, Filter, bits};
use crate::ids::{Generation, Row};
use crate::store::{Run, View};

/// Documents evaluated to estimate how many pass a filter.
const SAMPLE: usize = 512;
/// Number of filters with cached results: which rows of segments pass, one bit per row.
const CACHED_FILTERS: usize = 16;

/// Rows of a segment that pass a filter, including dead ones, one bit per row; all rows of a document or
/// none.
type Bits = Arc<[u64]>;

/// What is known of the rows of a segment.
#[derive(Clone)]
enum Of {
    All(Bits),
    /// Of the others, the metadata decides.
    Some(Arc<Answer>),
}

/// A cache of the last few filters.
#[derive(Default)]
pub(in crate::index) struct FilterCache(Mutex<VecDeque<(Filter, Known)>>);

/// Cached results of a filter.
#[derive(Clone, Default)]
struct Known {
    /// By number of the segment. Segments do not change, so an entry stays valid.
    segments: HashMap<u64, Of>,
    /// The share of the live rows of a generation that pass.
    share: Option<(Generation, f64)>,
    /// Why no row of a generation passes, if that was asked.
    notes: Option<(Generation, Arc<[String]>)>,
}

impl FilterCache {
    fn get(&self, filter: &Filter) -> Known {
        let mut cached = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let entry = cached.iter().position(|(other, _)| other == filter).and_then(|at| cached.remove(at));
        let Some(entry) = entry else { return Known::default() };
        let known = entry.1.clone();
        cached.push_back(entry);
        known
    }

    /// Why no row of a generation passes, in sentences; computed by `find` if not cached.
    pub fn notes(
        &self,
        filter: &Filter,
        generation: Generation,
        find: impl FnOnce() -> Result<Vec<String>>,
    ) -> Result<Vec<String>> {
        let mut known = self.get(filter);
        if let Some((of, notes)) = &known.notes
            && *of == generation
        {
            return Ok(notes.to_vec());
        }
        let notes = find()?;
        known.notes = Some((generation, notes.as_slice().into()));
        self.put(filter, known);
        Ok(notes)
    }

    fn put(&self, filter: &Filter, known: Known) {
        let mut cached = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        cached.retain(|(other, _)| other != filter);
        cached.push_back((filter.clone(), known));
        while cached.len() > CACHED_FILTERS {
            cached.pop_front();
        }
    }
}

/// A filter over the rows of one view.
pub(super) struct RowFilter<'a> {
    view: &'a View,
    filter: &'a Filter,
    cache: &'a FilterCache,
    /// One for each part of the view, in row order.
    parts: Vec<Run<'a>>,
    known: Known,
    /// Number of documents whose id and metadata were evaluated.
    pub checked: usize,
}

impl<'a> RowFilter<'a> {
    /// Segments whose lists decide of all but a few documents are evaluated at once, unless the filter names
    /// the ids that can pass.
    pub fn new(view: &'a View, filter: &'a Filter, cache: &'a FilterCache) -> Self {
        let mut new = Self { view, filter, cache, parts: view.parts(), known: cache.get(filter), checked: 0 };
        if filter.candidate_ids().is_some() {
            return new;
        }
        let here: HashSet<u64> = new.parts.iter().filter_map(Run::segment).collect();
        new.known.segments.retain(|segment, _| here.contains(segment));
        let mut is_new = false;
        for part in new.parts.clone() {
            let Some(segment) = part.segment().filter(|own| !new.known.segments.contains_key(own)) else {
                continue;
            };
            is_new = true;
            let answer = part.answer(filter).unwrap_or_else(|| undecided(&part));
            // An error concerns a document that the search may never reach.
            let bits = (answer.undecided() <= SAMPLE).then(|| new.decide(&part, &answer).ok()).flatten();
            new.known.segments.insert(segment, bits.map_or(Of::Some(answer.into()), Of::All));
        }
        if is_new {
            cache.put(filter, new.known.clone());
        }
        new
    }

    /// The only ids that can pass, if the filter names them.
    pub fn candidate_ids(&self) -> Option<Vec<&'a str>> {
        self.filter.candidate_ids()
    }

    /// The share of live rows that pass, from 0 to 1: estimated from some of them where the lists of values
    /// do not say it.
    pub fn share(&mut self) -> Result<f64> {
        let generation = self.view.generation();
        if let Some((of, share)) = self.known.share
            && of == generation
        {
            return Ok(share);
        }
        let share = self.estimate()?;
        self.known.share = Some((generation, share));
        self.cache.put(self.filter, self.known.clone());
        Ok(share)
    }

    fn estimate(&mut self) -> Result<f64> {
        let count = |part: &Run<'_>| match self.known.segments.get(&part.segment()?)? {
            Of::All(bits) => Some(part.live_among(bits)),
            Of::Some(_) => None,
        };
        let sealed = self.parts.iter().filter(|part| part.segment().is_some());
        let Some(mut passed) = sealed.map(count).sum::<Option<usize>>() else {
            let (seen, passed) = self.sample(0..self.view.rows() as u32)?;
            return Ok(passed as f64 / seen.max(1) as f64);
        };
        let in_memory: Vec<(Range<u32>, usize)> = self
            .parts
            .iter()
            .filter(|part| part.segment().is_none())
            .map(|part| (rows_of(part), part.live()))
            .collect();
        for (rows, live) in in_memory {
            let (seen, own) = self.sample(rows)?;
            passed += own * live / seen.max(1);
        }
        Ok((passed as f64 / self.view.live_rows().max(1) as f64).min(1.0))
    }

    /// The number of live rows evaluated in this range, and how many of them pass.
    fn sample(&mut self, rows: Range<u32>) -> Result<(usize, usize)> {
        let step = rows.len().div_ceil(SAMPLE).max(1);
        let view = self.view;
        let (mut seen, mut passed) = (0, 0);
        for row in rows.step_by(step).map(Row).filter(|row| view.is_live(*row)) {
            seen += 1;
            passed += usize::from(self.passes(row)?);
        }
        Ok((seen, passed))
    }

    /// What is known of the part of a row, and the part's first row.
    fn known_of(&self, row: Row) -> Option<(u32, &Of)> {
        let place = self.parts.partition_point(|part| part.first_row() <= row).checked_sub(1)?;
        let part = self.parts.get(place)?;
        Some((part.first_row().0, self.known.segments.get(&part.segment()?)?))
    }

    /// Which rows of a run pass, one bit per row, including dead ones that may be wrong.
    pub fn mask(&mut self, run: &Run<'a>) -> Result<Vec<u64>> {
        let first = run.first_row();
        if let Some((base, Of::All(bits))) = self.known_of(first) {
            let first = (first.0 - base) as usize;
            return Ok(bits::slice(bits, first..first + run.len()));
        }
        let mut mask = bits::none(run.len());
        for at in (0..run.len()).filter(|&at| run.is_live(at)) {
            if self.passes(Row(first.0 + at as u32))? {
                bits::set(&mut mask, &[at as u32]);
            }
        }
        Ok(mask)
    }

    pub fn passes(&mut self, row: Row) -> Result<bool> {
        match self.known_of(row) {
            Some((first, Of::All(bits))) => Ok(bits::has(bits, (row.0 - first) as usize)),
            Some((first, Of::Some(answer))) => match answer.of((row.0 - first) as usize) {
                Some(passes) => Ok(passes),
                None => self.evaluate(row),
            },
            None => self.evaluate(row),
        }
    }

    fn evaluate(&mut self, row: Row) -> Result<bool> {
        self.checked += 1;
        let (id, metadata) = self.view.tags(row)?;
        let passes = self.filter.matches_bytes(id, metadata);
        Ok(passes.map_err(|_| damaged("segments", "the metadata of a document"))?)
    }

    /// Each part with its rows that pass, one bit per row, including dead ones. The bits of segments are
    /// cached.
    pub fn all(&mut self) -> Result<Vec<(Run<'a>, Bits)>> {
        let mut all = Vec::with_capacity(self.parts.len());
        let mut is_new = false;
        for part in self.parts.clone() {
            let known = part.segment().and_then(|segment| self.known.segments.get(&segment)).cloned();
            let bits = match known {
                Some(Of::All(bits)) => {
                    all.push((part, bits));
                    continue;
                }
                Some(Of::Some(answer)) => self.decide(&part, &answer)?,
                None => self.decide(&part, &undecided(&part))?,
            };
            if let Some(segment) = part.segment() {
                self.known.segments.insert(segment, Of::All(Arc::clone(&bits)));
                is_new = true;
            }
            all.push((part, bits));
        }
        if is_new {
            self.cache.put(self.filter, self.known.clone());
        }
        Ok(all)
    }

    /// Evaluates the filter on the metadata of the documents that an answer leaves undecided.
    fn decide(&mut self, part: &Run<'a>, answer: &Answer) -> Result<Bits> {
        let (mut passing, mut undecided) = (answer.passing.clone(), answer.possible.clone());
        bits::zip(&mut undecided, &passing, |possible, passing| possible & !passing);
        let first = part.first_row().0;
        for local in bits::rows(&undecided) {
            // Once per document: either all of its rows pass or none.
            if part.has_several() && part.head(local as usize)? != local as usize {
                continue;
            }
            let row = Row(first + local);
            let passes = match self.evaluate(row) {
                // Dead rows are never used.
                Err(_) if !self.view.is_live(row) => false,
                passes => passes?,
            };
            if passes {
                bits::set(&mut passing, &[local]);
            }
        }
        if part.has_several() {
            for local in bits::rows(&undecided) {
                if bits::has(&passing, part.head(local as usize)?) {
                    bits::set(&mut passing, &[local]);
                }
            }
        }
        Ok(passing.into())
    }
}

/// Nothing is known of any row.
fn undecided(part: &Run<'_>) -> Answer {
    Answer { passing: bits::none(part.len()), possible: bits::all(part.len()) }
}

fn rows_of(part: &Run<'_>) -> Range<u32> {
    let first = part.first_row().0;
    first..first + part.len() as u32
}
