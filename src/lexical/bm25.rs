//! The score of a term in a row.
//!
//! BM25 as Lucene computes it since version 8, "lucene" in Lù, BM25S (arXiv 2407.03618): `idf = ln(1 + (N -
//! df + 0.5) / (df + 0.5))`, and a posting's score is `idf tf / (tf + k1 (1 - b + b len / average))`, without
//! the factor `k1 + 1`, which changes no order.

use super::bound;

/// Lengths whose norms are looked up.
const TABLE: usize = 4096;

/// How fast further occurrences stop to matter, and how much long texts are held back.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bm25 {
    /// 0 or more; 0 counts a term once.
    pub k1: f32,
    /// From 0, where lengths do not matter, to 1.
    pub b: f32,
}

impl Default for Bm25 {
    fn default() -> Self {
        Self { k1: 1.2, b: 0.75 }
    }
}

/// A parameter that scores nothing.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Bm25Error {
    /// Not a number from 0 up, or infinite.
    K1(f32),
    /// Not a number from 0 to 1.
    B(f32),
}

impl std::fmt::Display for Bm25Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::K1(k1) => write!(f, "k1 is {k1}; it must be 0 or more"),
            Self::B(b) => write!(f, "b is {b}; it must be from 0 to 1"),
        }
    }
}

impl std::error::Error for Bm25Error {}

impl Bm25 {
    /// Whether scores can be computed with these.
    ///
    /// # Errors
    /// [`Bm25Error`] for what is out of range.
    pub fn check(self) -> Result<(), Bm25Error> {
        if !(self.k1.is_finite() && self.k1 >= 0.0) {
            return Err(Bm25Error::K1(self.k1));
        }
        if !(0.0..=1.0).contains(&self.b) {
            return Err(Bm25Error::B(self.b));
        }
        Ok(())
    }

    /// How much a term says, by the rows of the index and those that hold it; positive, at most about 23.
    pub fn idf(rows: u64, document_frequency: u64) -> f32 {
        let others = rows.saturating_sub(document_frequency) as f64;
        ((others + 0.5) / (document_frequency as f64 + 0.5)).ln_1p() as f32
    }

    /// `k1 (1 - b + b len / average)` as what it is at length 0 and what each unit of length adds; `k1` where
    /// there is no average.
    fn line(self, average: f32) -> [f64; 2] {
        let [k1, b, average] = [self.k1, self.b, average].map(f64::from);
        if average > 0.0 { [k1 * (1.0 - b), k1 * b / average] } else { [k1, 0.0] }
    }
}

/// Never falls as lengths grow.
#[inline(always)]
fn norm(line: [f64; 2], length: u32) -> f32 {
    (line[0] + line[1] * f64::from(length)) as f32
}

/// The parameters, ready for scoring with one average length. Made once for a query, for all parts.
#[derive(Clone, Debug)]
pub struct Norms {
    line: [f64; 2],
    /// By length.
    table: Box<[f32; TABLE]>,
    /// By length bound.
    bounds: Box<[f32; 256]>,
}

impl Norms {
    /// Prepares parameters that were checked.
    ///
    /// `average` is the mean length of all rows of the index; 0 or no number where there are none, which
    /// makes every row as long as the average.
    pub fn new(parameters: Bm25, average: f32) -> Self {
        let line = parameters.line(average);
        let mut table = Box::new([0.0; TABLE]);
        table.iter_mut().zip(0..).for_each(|(slot, length)| *slot = norm(line, length));
        let mut bounds = Box::new([0.0; 256]);
        for (slot, code) in bounds.iter_mut().zip(0..=u8::MAX) {
            *slot = norm(line, bound::length(code));
        }
        Self { line, table, bounds }
    }

    /// What a length is to the score.
    #[inline(always)]
    pub(super) fn of(&self, length: u32) -> f32 {
        match self.table.get(length as usize) {
            Some(norm) => *norm,
            None => norm(self.line, length),
        }
    }

    /// The least ratio of norm and count that a block's bounds allow; its score is the highest.
    #[inline(always)]
    pub(super) fn least_ratio(&self, pairs: [[u8; 2]; bound::PAIRS]) -> f32 {
        let pair = |[count, length]: [u8; 2]| match count {
            u8::MAX => 0.0,
            // Infinite for 0, which is no pair.
            _ => self.bounds[usize::from(length)].max(f32::MIN_POSITIVE) / f32::from(count),
        };
        pairs.map(pair).into_iter().fold(f32::INFINITY, f32::min)
    }

    /// The score of a term in a row of this length.
    #[cfg(test)]
    pub fn score(&self, weight: f32, count: u32, length: u32) -> f32 {
        score(weight, count, self.of(length))
    }
}

/// `weight count / (count + norm)`, so written that rounding never lets it fall as counts grow or rise with
/// the norm: each step is correctly rounded, and so keeps order. Bounds need that.
#[inline(always)]
pub(super) fn score(weight: f32, count: u32, norm: f32) -> f32 {
    saturate(weight, norm / count as f32)
}

/// The score by the ratio of norm and count.
#[inline(always)]
pub(super) fn saturate(weight: f32, ratio: f32) -> f32 {
    weight / (1.0 + ratio)
}

/// A weight that scores can be computed with.
pub(super) fn usable(weight: f32) -> f32 {
    if weight > 0.0 { weight.min(f32::MAX) } else { 0.0 }
}
