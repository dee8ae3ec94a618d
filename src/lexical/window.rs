//! Queries without required terms: block-max MaxScore, a window of rows at a time.
//!
//! In each window, the terms whose bounds together stay below the floor are left out: a row that contains
//! only these is not among the best. The others are summed in one array, and rows whose sum, with the bounds
//! of the omitted terms, is high enough become candidates. Then the omitted terms are added for the
//! candidates one by one, highest bound first, and fewer candidates remain: by looking them up in the term's
//! list or, if there are many, by adding all of its postings, which costs less for each. After Turtle and
//! Flood (1995), Ding and Suel (SIGIR 2011), and Lucene's `MaxScoreBulkScorer`.
//!
//! Sums only select rows. The score of a row is recomputed in query order, unless its sum already was.

use super::search::{Query, Sink, Slack, Term};
use super::{LexicalStats, Undecodable};

/// Rows per window; their sums fit into the first-level cache.
const WINDOW: usize = 4096;
/// Sums examined together.
const GROUP: usize = 32;
/// With fewer postings in a window than this, only their rows are visited, not all sums.
const FEW: usize = WINDOW / 16;
/// Postings that can be added in the time of one row lookup.
const LOOKUP: usize = 8;
/// The sum of a row without postings: the only one with a sign bit, and neutral in additions.
const UNTOUCHED: f32 = -0.0;

/// As [`search`](super::search()).
pub(super) fn search<E: From<Undecodable>>(
    query: &mut Query,
    sink: &mut Sink<E>,
    stats: &mut LexicalStats,
) -> Result<(), E> {
    let rows = query.rows;
    let mut window = Window::new(query.terms.len());
    while window.start < rows {
        window.end = rows.min(window.start.saturating_add(WINDOW as u32));
        let floor = sink.floor();
        if window.divide(&mut query.terms, floor)? {
            window.add_first(&mut query.terms, floor, stats)?;
            window.add_others(&mut query.terms, floor, stats)?;
            window.offer(sink, stats)?;
            window.clear();
        }
        window.start = window.end;
    }
    Ok(())
}

/// Postings of a term in the window that were added.
#[derive(Default)]
struct AddedPostings {
    rows: Vec<u32>,
    scores: Vec<f32>,
    /// Earlier ones belong to rows below the last one requested.
    place: usize,
}

impl AddedPostings {
    fn score(&mut self, row: u32) -> f32 {
        let ahead = self.rows.get(self.place..).unwrap_or(&[]);
        // Requested rows are often close together.
        let mut reach = 8;
        while ahead.get(reach).is_some_and(|&there| there < row) {
            reach *= 2;
        }
        let ahead = ahead.get(..=reach).unwrap_or(ahead);
        self.place += ahead.partition_point(|&there| there < row);
        match self.rows.get(self.place) {
            Some(&there) if there == row => self.scores[self.place],
            _ => 0.0,
        }
    }

    fn clear(&mut self) {
        self.rows.clear();
        self.scores.clear();
        self.place = 0;
    }
}

struct Window {
    slack: Slack,
    start: u32,
    /// Exclusive.
    end: u32,
    /// By row from the window's start.
    sums: Box<[f32; WINDOW]>,
    /// By term: upper bound on scores in the window.
    bounds: Vec<f32>,
    /// The sum of the bounds.
    total: f64,
    /// By term: its postings, if all of them were added.
    found: Vec<AddedPostings>,
    /// Terms added first, in query order.
    first: Vec<usize>,
    /// The other terms, highest bound first.
    others: Vec<usize>,
    /// For each of the others, the sum of the bounds from it on.
    ahead: Vec<f64>,
    /// Rows that may be among the best, relative to the window's start, ascending.
    candidates: Vec<u16>,
    order: Vec<usize>,
}

impl Window {
    fn new(terms: usize) -> Self {
        Self {
            slack: Slack::new(terms),
            start: 0,
            end: 0,
            sums: Box::new([UNTOUCHED; WINDOW]),
            bounds: vec![0.0; terms],
            total: 0.0,
            found: (0..terms).map(|_| AddedPostings::default()).collect(),
            first: Vec::with_capacity(terms),
            others: Vec::with_capacity(terms),
            ahead: Vec::with_capacity(terms + 1),
            candidates: Vec::with_capacity(WINDOW),
            order: (0..terms).collect(),
        }
    }

    /// Chooses the terms to leave out; returns whether any row may reach the floor.
    fn divide(&mut self, terms: &mut [Term], floor: f32) -> Result<bool, Undecodable> {
        self.total = 0.0;
        for (bound, term) in self.bounds.iter_mut().zip(terms.iter_mut()) {
            *bound = term.cursor.bound_within(self.start, self.end)?;
            self.total += f64::from(*bound);
        }
        if !self.slack.reaches(self.total, floor) {
            return Ok(false);
        }
        // Prefers those that save the most postings for their bound.
        let price = |&i: &usize| self.bounds[i] / terms[i].cursor.len() as f32;
        self.order.sort_unstable_by(|a, b| price(a).total_cmp(&price(b)).then(a.cmp(b)));
        self.first.clear();
        self.others.clear();
        let mut sum = 0.0;
        for &term in &self.order {
            let with = sum + f64::from(self.bounds[term]);
            if self.slack.reaches(with, floor) {
                self.first.push(term);
            } else {
                self.others.push(term);
                sum = with;
            }
        }
        self.first.sort_unstable();
        self.others.sort_unstable_by(|&a, &b| self.bounds[b].total_cmp(&self.bounds[a]));
        self.ahead.clear();
        self.ahead.resize(self.others.len() + 1, 0.0);
        for (i, &term) in self.others.iter().enumerate().rev() {
            self.ahead[i] = self.ahead[i + 1] + f64::from(self.bounds[term]);
        }
        Ok(!self.first.is_empty())
    }

    /// Adds all postings of a term in the window.
    fn add(&mut self, term: usize, terms: &mut [Term], floor: f32) -> Result<(), Undecodable> {
        let Self { slack, sums, found, start, .. } = self;
        let cursor = &mut terms[term].cursor;
        cursor.seek(*start)?;
        // A row of such a block does not reach the floor, even less without this term.
        let rest = self.total - f64::from(self.bounds[term]);
        let skip = |bound: f32| !slack.reaches(rest + f64::from(bound), floor);
        let found = &mut found[term];
        cursor.take_until(self.end, skip, |rows, scores| {
            found.rows.extend_from_slice(rows);
            found.scores.extend_from_slice(scores);
            for (&row, &score) in rows.iter().zip(scores) {
                sums[(row - *start) as usize % WINDOW] += score;
            }
        })
    }

    /// Adds the terms that are not left out, and finds the initial candidates.
    fn add_first(
        &mut self,
        terms: &mut [Term],
        floor: f32,
        stats: &mut LexicalStats,
    ) -> Result<(), Undecodable> {
        let mut postings = 0;
        for i in 0..self.first.len() {
            self.add(self.first[i], terms, floor)?;
            postings += self.found[self.first[i]].rows.len();
        }
        stats.postings += postings;
        let need = self.slack.need(floor, self.ahead[0]);
        let Self { sums, candidates, .. } = self;
        candidates.clear();
        if postings < FEW {
            for &term in &self.first {
                let places = self.found[term].rows.iter().map(|row| (row - self.start) as u16);
                candidates.extend(places.filter(|&place| sums[usize::from(place)] >= need));
            }
            if self.first.len() > 1 {
                candidates.sort_unstable();
                candidates.dedup();
            }
            return Ok(());
        }
        // Without a branch for each: whether a sum suffices is hard to predict.
        candidates.resize(WINDOW, 0);
        let mut kept = 0;
        for (group, first) in sums.as_chunks::<GROUP>().0.iter().zip((0..).step_by(GROUP)) {
            // The bits of floats without a sign are in the same order, and those with a sign are below.
            let enough = |sum: f32| sum.to_bits() as i32 >= need.to_bits() as i32;
            if group.iter().fold(false, |any, &sum| any | enough(sum)) {
                for (place, &sum) in (first..).zip(group) {
                    if let Some(slot) = candidates.get_mut(kept) {
                        *slot = place;
                    }
                    kept += usize::from(enough(sum));
                }
            }
        }
        candidates.truncate(kept);
        Ok(())
    }

    /// Adds the omitted terms, for the candidates that still need them.
    fn add_others(
        &mut self,
        terms: &mut [Term],
        floor: f32,
        stats: &mut LexicalStats,
    ) -> Result<(), Undecodable> {
        for i in 0..self.others.len() {
            if self.candidates.is_empty() {
                return Ok(());
            }
            let (term, ahead) = (self.others[i], self.ahead[i + 1]);
            if terms[term].cursor.at_most_within(self.end) < self.candidates.len() * LOOKUP {
                self.add(term, terms, floor)?;
            } else {
                let Self { slack, sums, found, candidates, start, .. } = self;
                let (cursor, found, bound) = (&mut terms[term].cursor, &mut found[term], self.bounds[term]);
                for &place in &*candidates {
                    let (row, sum) = (*start + u32::from(place), &mut sums[usize::from(place) % WINDOW]);
                    let bound = f64::from(cursor.bound_at(row).min(bound));
                    if !slack.reaches(f64::from(*sum) + bound + ahead, floor) {
                        continue;
                    }
                    cursor.seek(row)?;
                    if cursor.row() == row {
                        let score = cursor.score();
                        *sum += score;
                        found.rows.push(row);
                        found.scores.push(score);
                    }
                }
            }
            stats.postings += self.found[term].rows.len();
            let need = self.slack.need(floor, ahead);
            let mut kept = 0;
            for i in 0..self.candidates.len() {
                let place = self.candidates[i];
                self.candidates[kept] = place;
                kept += usize::from(self.sums[usize::from(place) % WINDOW] >= need);
            }
            self.candidates.truncate(kept);
        }
        Ok(())
    }

    /// Offers the candidates.
    fn offer<E>(&mut self, sink: &mut Sink<E>, stats: &mut LexicalStats) -> Result<(), E> {
        // The floor rises with each accepted row.
        let (mut floor, mut need) = (f32::NEG_INFINITY, 0.0);
        for &place in &self.candidates {
            let (row, sum) = (self.start + u32::from(place), self.sums[usize::from(place) % WINDOW]);
            if sum < need {
                continue;
            }
            let now = sink.floor();
            if now > floor {
                floor = now;
                need = self.slack.need(floor, 0.0);
                if sum < need {
                    continue;
                }
            }
            let exact = match self.others.is_empty() {
                true => sum,
                false => self.found.iter_mut().fold(0.0, |sum, found| sum + found.score(row)),
            };
            stats.rows_scored += 1;
            sink.offer(row, exact)?;
        }
        Ok(())
    }

    fn clear(&mut self) {
        let touched: usize = self.found.iter().map(|found| found.rows.len()).sum();
        if touched < FEW {
            for row in self.found.iter().flat_map(|found| &found.rows) {
                self.sums[(row - self.start) as usize % WINDOW] = UNTOUCHED;
            }
        } else {
            self.sums.fill(UNTOUCHED);
        }
        self.found.iter_mut().for_each(AddedPostings::clear);
    }
}
