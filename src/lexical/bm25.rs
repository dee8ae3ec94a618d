//! The score of a term in a row.
//!
//! This is BM25 in the form of Lucene since version 8, which Lù (BM25S, arXiv 2407.03618) calls "lucene":
//! `idf = ln(1 + (N - df + 0.5) / (df + 0.5))`, and the score of a posting is
//! `idf tf / (tf + k1 (1 - b + b len / average))`. It leaves out the factor `k1 + 1`, which does not change
//! the order.

use super::bound;

/// Lengths with precomputed norms.
const TABLE: usize = 4096;

/// How quickly further occurrences lose weight, and how much long texts are penalised.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bm25 {
    /// 0 or more; with 0, a term counts once.
    pub k1: f32,
    /// From 0, where lengths are ignored, to 1.
    pub b: f32,
}

impl Default for Bm25 {
    fn default() -> Self {
        Self { k1: 1.2, b: 0.75 }
    }
}

impl Bm25 {
    /// The weight of a term, from the number of rows of the index and of rows that contain it; positive, at
    /// most about 23.
    pub fn idf(rows: u64, document_frequency: u64) -> f32 {
        let others = rows.saturating_sub(document_frequency) as f64;
        ((others + 0.5) / (document_frequency as f64 + 0.5)).ln_1p() as f32
    }

    /// `k1 (1 - b + b len / average)` as its value at length 0 and its increase per unit of length; `k1` if
    /// no average exists.
    fn line(self, average: f32) -> [f64; 2] {
        let [k1, b, average] = [self.k1, self.b, average].map(f64::from);
        if average > 0.0 { [k1 * (1.0 - b), k1 * b / average] } else { [k1, 0.0] }
    }
}

/// Never decreases with the length.
#[inline(always)]
fn norm(line: [f64; 2], length: u32) -> f32 {
    (line[0] + line[1] * f64::from(length)) as f32
}

/// The parameters, prepared for scoring with one average length. Made once per query, for all parts.
#[derive(Clone, Debug)]
pub struct Norms {
    line: [f64; 2],
    /// By length.
    table: Box<[f32; TABLE]>,
    /// By length bound.
    bounds: Box<[f32; 256]>,
}

impl Norms {
    /// Prepares checked parameters.
    ///
    /// `average` is the mean length of all rows of the index; 0 or NaN for an empty index, in which case
    /// every row counts as average.
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

    /// The norm of a length.
    #[inline(always)]
    pub(super) fn of(&self, length: u32) -> f32 {
        match self.table.get(length as usize) {
            Some(norm) => *norm,
            None => norm(self.line, length),
        }
    }

    /// The lowest ratio of norm and count that a block's bounds allow; its score is the highest.
    #[inline(always)]
    pub(super) fn least_ratio(&self, pairs: [[u8; 2]; bound::PAIRS]) -> f32 {
        let pair = |[count, length]: [u8; 2]| match count {
            u8::MAX => 0.0,
            // Infinite for an unused pair with count 0.
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

/// `weight count / (count + norm)`, computed so that rounding never makes it decrease with the count or
/// increase with the norm: each step is correctly rounded, and so monotonic. Bounds rely on that.
#[inline(always)]
pub(super) fn score(weight: f32, count: u32, norm: f32) -> f32 {
    saturate(weight, norm / count as f32)
}

/// The score for a ratio of norm and count.
#[inline(always)]
pub(super) fn saturate(weight: f32, ratio: f32) -> f32 {
    weight / (1.0 + ratio)
}

/// A weight that can be used in scores.
pub(super) fn usable(weight: f32) -> f32 {
    if weight > 0.0 { weight.min(f32::MAX) } else { 0.0 }
}
