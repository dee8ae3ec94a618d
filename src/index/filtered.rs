//! Searches among the documents that a filter lets through.

use std::collections::{HashMap, HashSet, VecDeque};
use std::num::NonZeroUsize;
use std::ops::Range;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use half::f16;

use super::reach::{Course, Reach};
use super::search::{Ranked, SearchStats, damaged, impossible};
use super::serving::Serving;
use crate::error::Result;
use crate::filter::Filter;
use crate::ids::{LeafId, Row};
use crate::scan::{Scanner, TopK};
use crate::store::{RowSpan, View};

/// Documents looked at to tell how many a filter lets through.
const SAMPLE: usize = 512;
/// A filter that lets through fewer than one document in this many is searched exactly: so few are scored
/// sooner than the leaves that they are in are found.
const RARE: usize = 100;
/// Filters of which it is kept which rows of sealed files they let through: a bit for each row.
const KEPT_FILTERS: usize = 16;

/// Rows of a segment that a filter lets through, dead ones among them, a bit for each.
type Bits = Arc<[u64]>;

/// What is known of the filters used last. Segments do not change, so it never grows old.
#[derive(Default)]
pub(super) struct KnownFilters(Mutex<VecDeque<(Filter, HashMap<u64, Bits>)>>);

impl KnownFilters {
    fn take(&self, filter: &Filter) -> Option<HashMap<u64, Bits>> {
        let mut kept = self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let place = kept.iter().position(|(other, _)| other == filter)?;
        let known = kept.remove(place)?;
        let bits = known.1.clone();
        kept.push_back(known);
        Some(bits)
    }

    /// Keeps what is known of the segments that a view has.
    fn keep(&self, filter: &Filter, bits: HashMap<u64, Bits>) {
        let mut kept = self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        kept.retain(|(other, _)| other != filter);
        kept.push_back((filter.clone(), bits));
        while kept.len() > KEPT_FILTERS {
            kept.pop_front();
        }
    }
}

/// A search under way.
struct Search<'a> {
    view: &'a View,
    filter: &'a Filter,
    scanner: &'a Scanner<'a>,
    top: TopK,
    /// Which rows of a segment pass, of those segments where that is known.
    known: HashMap<u64, Bits>,
    spans: Vec<RowSpan>,
    /// Rows met in a leaf, where a document can be in several.
    met: HashSet<Row>,
    scored: usize,
    checked: usize,
}

impl Serving {
    /// The best rows among those that a filter lets through. Visits more leaves than asked for until there
    /// are `k`; few rows are scored all, past the tree.
    pub(super) fn rank_filtered(
        &self,
        view: &View,
        query: &[f32],
        unit: &[f32],
        k: NonZeroUsize,
        reach: Reach,
        filter: &Filter,
    ) -> Result<Ranked> {
        let started = Instant::now();
        let scanner = Scanner::new(self.similarity, query).map_err(impossible)?;
        let known = self.filters.take(filter);
        let spans = view.spans();
        let known = known.unwrap_or_default();
        let top = TopK::new(k.get());
        let met = HashSet::new();
        let mut search =
            Search { view, filter, scanner: &scanner, top, known, spans, met, scored: 0, checked: 0 };
        let mut stats = SearchStats::default();
        let (mut leaves, mut sample, mut multiply_adds) = (Vec::new(), None, 0);
        let ids = filter.candidate_ids();
        match (ids, reach) {
            (Some(ids), _) => {
                search.ids(&ids)?;
                stats.exhausted = true;
            }
            (None, Reach::Tree(limits)) if !search.is_rare()? => {
                let budget = limits.documents_of(view.live());
                let mut course = Course::new(&self.model().indexer, unit, limits);
                let several = self.leaves_per_document() > 1;
                while search.scored < k.get() || !(course.is_over() || search.scored >= budget) {
                    let Some(scored) = course.advance() else { break };
                    let accepted = search.top.accepted();
                    search.leaf(scored.leaf, several)?;
                    course.scored(scored, search.top.accepted() > accepted);
                }
                stats.exhausted = course.is_exhausted();
                stats.leaves_visited = course.leaves.len();
                Course { leaves, sample, multiply_adds, .. } = course;
            }
            _ => {
                search.everything()?;
                self.filters.keep(filter, std::mem::take(&mut search.known));
                stats.exhausted = true;
            }
        }
        stats.scan = started.elapsed();
        stats.embeddings_read = search.scored;
        let live = view.live().max(1) as f64;
        stats.documents_visited = search.scored;
        stats.documents_checked = search.checked;
        stats.visited_fraction = search.scored as f64 / live;
        stats.work_fraction = (search.scored as f64 + multiply_adds as f64 / query.len() as f64) / live;
        Ok(Ranked { rows: search.top.into_sorted(), stats, leaves, sample, multiply_adds })
    }
}

impl<'a> Search<'a> {
    /// Whether so few rows pass that scoring them all is the best way.
    fn is_rare(&mut self) -> Result<bool> {
        if !self.spans.iter().filter_map(|span| span.segment).all(|segment| self.known.contains_key(&segment))
        {
            let (seen, passed) = self.sample(0..self.view.rows() as u32)?;
            return Ok(passed * RARE < seen);
        }
        let ones = |bits: &Bits| bits.iter().map(|word| word.count_ones() as usize).sum::<usize>();
        let mut passed: usize = self.known.values().map(ones).sum();
        for span in self.spans.clone().into_iter().filter(|span| span.segment.is_none()) {
            let (seen, own) = self.sample(span.rows.clone())?;
            passed += own * span.rows.len() / seen.max(1);
        }
        Ok(passed * RARE < self.view.live())
    }

    /// Live rows looked at among these, and how many of them pass.
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

    fn passes(&mut self, row: Row) -> Result<bool> {
        let span = self.spans.partition_point(|span| span.rows.start <= row.0).checked_sub(1);
        let span = span.and_then(|place| self.spans.get(place));
        if let Some((span, bits)) = span.and_then(|span| Some((span, self.known.get(&span.segment?)?))) {
            let local = (row.0 - span.rows.start) as usize;
            return Ok(bits[local / 64] >> (local % 64) & 1 == 1);
        }
        self.checked += 1;
        self.evaluate(row)
    }

    fn evaluate(&self, row: Row) -> Result<bool> {
        let (id, metadata) = self.view.tags(row)?;
        let passes = self.filter.matches_bytes(&id, &metadata);
        Ok(passes.map_err(|_| damaged("segments", "the metadata of a document"))?)
    }

    fn score(&mut self, rows: Vec<(Row, &'a [f16])>) -> Result<()> {
        self.scored += self.scanner.scan(rows, &mut self.top).map_err(impossible)?;
        Ok(())
    }

    fn leaf(&mut self, leaf: LeafId, several: bool) -> Result<()> {
        let mut passed = Vec::new();
        for (row, embedding) in self.view.leaf(leaf)? {
            // A document in several leaves is met in the first of them.
            if several && !self.met.insert(row) {
                continue;
            }
            if self.passes(row)? {
                passed.push((row, embedding));
            }
        }
        self.score(passed)
    }

    fn ids(&mut self, ids: &[&str]) -> Result<()> {
        let mut passed = Vec::new();
        for id in ids {
            if let Some(row) = self.view.row_of(id)?
                && self.passes(row)?
            {
                passed.push((row, self.view.embedding(row)?));
            }
        }
        self.score(passed)
    }

    /// Scores every row that passes, and keeps which those are.
    fn everything(&mut self) -> Result<()> {
        let mut known = std::mem::take(&mut self.known);
        for span in self.spans.clone() {
            let bits = match span.segment.and_then(|segment| known.get(&segment)) {
                Some(bits) => Arc::clone(bits),
                None => {
                    let mut words = vec![0u64; span.rows.len().div_ceil(64)];
                    for (local, row) in span.rows.clone().enumerate() {
                        self.checked += 1;
                        let passes = match self.evaluate(Row(row)) {
                            // Nobody asks for a dead one.
                            Err(_) if !self.view.is_live(Row(row)) => false,
                            passes => passes?,
                        };
                        words[local / 64] |= u64::from(passes) << (local % 64);
                    }
                    words.into()
                }
            };
            let mut passed = Vec::new();
            for (place, &word) in bits.iter().enumerate() {
                let mut rest = word;
                while rest != 0 {
                    let row = Row(span.rows.start + place as u32 * 64 + rest.trailing_zeros());
                    rest &= rest - 1;
                    if self.view.is_live(row) {
                        passed.push((row, self.view.embedding(row)?));
                    }
                }
            }
            self.score(passed)?;
            if let Some(segment) = span.segment {
                known.insert(segment, bits);
            }
        }
        let here: HashSet<u64> = self.spans.iter().filter_map(|span| span.segment).collect();
        known.retain(|segment, _| here.contains(segment));
        self.known = known;
        Ok(())
    }
}
