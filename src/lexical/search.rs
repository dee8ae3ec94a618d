//! The best rows of one part.

use super::cursor::{Cursor, RowNorms};
use super::{LexicalStats, Norms, QueryTerm, Undecodable, together, window};
use crate::ids::Row;
use crate::scan::TopK;

/// Offers the best rows of one part to `best`: exactly those that scoring every row would find.
///
/// A row matches if it contains every required term, and at least one term. Its score is the sum of its
/// terms' scores in f32, in query order. `accept` is called last, with the row of the part and its score, and
/// only for rows that may be among the best.
///
/// # Shapes
/// `lengths` `[rows]`, of the part; row r of the part is row `base + r` in `best`.
///
/// # Errors
/// [`Undecodable`] for a damaged list, or one with a row outside the part; the errors of `accept`. `best`
/// then contains some rows of the part.
pub fn search<E: From<Undecodable>>(
    terms: &[QueryTerm],
    lengths: &[u32],
    norms: &Norms,
    base: u32,
    accept: &mut dyn FnMut(u32, f32) -> Result<bool, E>,
    best: &mut TopK,
) -> Result<LexicalStats, E> {
    let mut query = Query::new(terms, lengths, norms)?;
    let mut stats = LexicalStats::default();
    // Without the rows of a required term, no row matches.
    let matches = query.terms.iter().all(|term| !term.required || !term.cursor.is_empty());
    if best.k() > 0 && !query.terms.is_empty() && matches {
        let mut sink = Sink { base, accept, best };
        if query.terms.iter().any(|term| term.required) {
            together::search(&mut query, &mut sink, &mut stats)?;
        } else {
            window::search(&mut query, &mut sink, &mut stats)?;
        }
    }
    Ok(stats)
}

/// Appends the score of each of `rows` to `out`, bit for bit as found by [`search`].
///
/// `None` if a row lacks a required term, or is outside the part; 0 if it contains no term at all and none is
/// required.
///
/// # Shapes
/// `lengths` `[rows of the part]`; `rows` `[n]`, ascending, give n values.
///
/// # Errors
/// [`Undecodable`] as in [`search`]; `out` then has some of the values.
pub fn score_rows(
    terms: &[QueryTerm],
    lengths: &[u32],
    norms: &Norms,
    rows: &[u32],
    out: &mut Vec<Option<f32>>,
) -> Result<LexicalStats, Undecodable> {
    let mut query = Query::new(terms, lengths, norms)?;
    let mut stats = LexicalStats::default();
    for &row in rows {
        if row >= query.rows {
            out.push(None);
            continue;
        }
        let mut score = Some(0.0);
        for term in &mut query.terms {
            term.cursor.seek(row)?;
            if term.cursor.row() == row {
                let own = term.cursor.score();
                score = score.map(|score| score + own);
                stats.postings += 1;
            } else if term.required {
                score = None;
                break;
            }
        }
        stats.rows_scored += 1;
        out.push(score);
    }
    Ok(stats)
}

/// A term in a part.
pub(super) struct Term<'a> {
    pub cursor: Cursor<'a>,
    pub required: bool,
}

/// A query on a part.
pub(super) struct Query<'a> {
    /// In query order; optional ones only if they have postings.
    pub terms: Vec<Term<'a>>,
    /// Rows of the part.
    pub rows: u32,
}

impl<'a> Query<'a> {
    pub fn new(terms: &[QueryTerm<'a>], lengths: &'a [u32], norms: &'a Norms) -> Result<Self, Undecodable> {
        let part = RowNorms::new(lengths, norms, terms.iter().map(|term| term.list));
        let rows = u32::try_from(lengths.len()).unwrap_or(u32::MAX);
        let kept = terms.iter().filter(|term| term.required || !term.list.is_empty());
        let term = |term: &QueryTerm<'a>| {
            Ok(Term { cursor: Cursor::new(term.list, term.weight, part)?, required: term.required })
        };
        Ok(Self { terms: kept.map(term).collect::<Result<_, _>>()?, rows })
    }
}

/// Receives rows.
pub(super) struct Sink<'s, E> {
    pub base: u32,
    pub accept: &'s mut dyn FnMut(u32, f32) -> Result<bool, E>,
    pub best: &'s mut TopK,
}

impl<E> Sink<'_, E> {
    /// The minimum score that a row needs; minus infinity while there is room.
    #[inline(always)]
    pub fn floor(&self) -> f32 {
        self.best.threshold().unwrap_or(f32::NEG_INFINITY)
    }

    /// Offers a row with its exact score, in ascending order of rows.
    pub fn offer(&mut self, row: u32, score: f32) -> Result<(), E> {
        if score >= self.floor() && (self.accept)(row, score)? {
            // A floor must be a number.
            let score = if score.is_nan() { f32::NEG_INFINITY } else { score };
            self.best.push(score, Row(self.base.saturating_add(row)));
        }
        Ok(())
    }
}

/// Decides by sums of bounds, which are rounded differently from scores.
#[derive(Clone, Copy, Debug)]
pub(super) struct Slack(f64);

impl Slack {
    /// For sums of `terms` scores. The relative error of a sum of n positive f32 is less than n / 2^24, in
    /// any order; twice that for the score and the sum that it is compared with, and a margin for the f64.
    pub fn new(terms: usize) -> Self {
        Self(1.0 + (terms + 4) as f64 / f64::from(1 << 22))
    }

    /// Whether a score that is at most `sum`, apart from rounding, may reach the floor.
    #[inline(always)]
    pub fn reaches(self, sum: f64, floor: f32) -> bool {
        sum * self.0 >= f64::from(floor)
    }

    /// A lower f32 sum does not reach the floor with `more`; at least 0.
    #[inline(always)]
    pub fn need(self, floor: f32, more: f64) -> f32 {
        ((f64::from(floor) / self.0 - more) as f32).next_down().max(0.0)
    }
}
