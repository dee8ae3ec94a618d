//! Scoring stored embeddings: "which of these rows are most similar to this query?"
//!
//! A `Scanner` reads rows of half-precision embeddings and pushes their scores into a `TopK`. The arithmetic
//! runs on the fastest `Kernel` of the processor, found at run time; all share one loop (`lanes.rs`) except
//! the plain reference (`scalar.rs`). This module is independent of files: rows are slices.

mod lanes;
#[cfg(target_arch = "aarch64")]
#[expect(unsafe_code, reason = "intrinsics")]
mod neon;
mod ranked;
mod rounded;
mod scalar;
mod topk;
#[cfg(target_arch = "x86_64")]
#[expect(unsafe_code, reason = "intrinsics")]
mod x86;

pub(crate) use ranked::Ranked;
pub(crate) use rounded::unit_to_store;
pub(crate) use topk::{Tied, TopK};

use crate::codes::{CodeScan, CodedQuery, Likely, TableSums};
use crate::ids::Row;
use half::f16;
use lanes::{AbsoluteDifference, Product, Term};
use serde::{Deserialize, Serialize};

/// The smallest L2 norm of a vector with a direction: an f16 of this size has full precision, and a vector of
/// up to 65,536 elements does not round to all zeros in f16.
pub(crate) const LEAST_NORM: f64 = f16::MIN_POSITIVE.to_f64_const();

/// Sums of squares side by side, so that the compiler may use vectors.
const PARTIAL_SQUARES: usize = 8;

/// The L2 norm of a vector.
pub(crate) fn norm(vector: &[f32]) -> f64 {
    let square = |x: f32| f64::from(x) * f64::from(x);
    let (blocks, rest) = vector.as_chunks::<PARTIAL_SQUARES>();
    let mut partial = [0.0; PARTIAL_SQUARES];
    for block in blocks {
        partial.iter_mut().zip(block).for_each(|(sum, &x)| *sum += square(x));
    }
    let rest: f64 = rest.iter().map(|&x| square(x)).sum();
    (partial.iter().sum::<f64>() + rest).sqrt()
}

/// Whether a vector is finite and has a direction. Otherwise it can be neither ranked nor routed.
pub(crate) fn has_direction(vector: &[f32]) -> bool {
    let norm = norm(vector);
    norm.is_finite() && norm >= LEAST_NORM
}

/// How similar two embeddings are; a higher score is always better.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Similarity {
    /// The cosine of the angle between them, from -1 to 1.
    ///
    /// Computed as a dot product of the query at unit norm with a stored row, whose norm is at most 1 and
    /// smaller by at most the imprecision of f16. So it is between -1 and 1 apart from the rounding of the
    /// sum, and is clamped to that range.
    Cosine = 1,
    /// The dot product, for any norm.
    DotProduct = 2,
    /// The negated sum of absolute differences (L1 distance), at most 0.
    Manhattan = 3,
}

impl Similarity {
    /// The code of this similarity in a file; never 0.
    pub fn code(self) -> u8 {
        self as u8
    }

    /// Every number of an embedding that stands for a lost one: its product with everything is 0, or it is as
    /// far from everything as can be stored. A negative zero, because a caller's zeros are positive.
    pub(crate) fn of_lost(self) -> f16 {
        match self {
            Self::Manhattan => f16::MAX,
            Self::Cosine | Self::DotProduct => f16::NEG_ZERO,
        }
    }

    /// Whether it is computed as a dot product.
    pub(crate) fn is_product(self) -> bool {
        matches!(self, Self::Cosine | Self::DotProduct)
    }

    /// Inverse of [`Self::code`]; `None` for an unknown code.
    pub fn from_code(code: u8) -> Option<Self> {
        [Self::Cosine, Self::DotProduct, Self::Manhattan]
            .into_iter()
            .find(|similarity| similarity.code() == code)
    }
}

impl std::fmt::Display for Similarity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Cosine => "cosine",
            Self::DotProduct => "dot product",
            Self::Manhattan => "Manhattan distance",
        })
    }
}

/// Why rows could not be scored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ScanError {
    /// A query without dimensions.
    #[error("the query has no dimensions; pass an embedding as wide as the index")]
    EmptyQuery,
    /// A row has another width than the query.
    #[error("{row:?} has {found} dimensions, the query {dim}; pass a query as wide as the index")]
    Width {
        /// The row.
        row: Row,
        /// Its dimensions.
        found: usize,
        /// Dimensions of the query.
        dim: usize,
    },
}

/// A set of machine instructions that scores rows.
///
/// The fast ones carry a proof that this processor has them.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Kernel {
    Scalar,
    #[cfg(target_arch = "x86_64")]
    Avx2(x86::Avx2),
    #[cfg(target_arch = "x86_64")]
    Avx512(x86::Avx512),
    #[cfg(target_arch = "aarch64")]
    Neon(neon::Neon),
}

impl Kernel {
    /// The kernels this processor can run, fastest first; the last is the scalar one.
    pub fn available() -> impl Iterator<Item = Self> {
        #[cfg(target_arch = "x86_64")]
        let fast = [x86::Avx512::detect().map(Self::Avx512), x86::Avx2::detect().map(Self::Avx2)];
        #[cfg(target_arch = "aarch64")]
        let fast = [neon::Neon::detect().map(Self::Neon)];
        #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
        let fast: [Option<Self>; 0] = [];
        fast.into_iter().flatten().chain([Self::Scalar])
    }

    /// The fastest kernel of this processor; the standard library caches the answer.
    pub fn detect() -> Self {
        Self::available().next().unwrap_or(Self::Scalar)
    }

    /// The usual name of the instructions.
    pub fn instructions(self) -> &'static str {
        match self {
            Self::Scalar => "none",
            #[cfg(target_arch = "x86_64")]
            Self::Avx2(_) => "AVX2",
            #[cfg(target_arch = "x86_64")]
            Self::Avx512(avx512) => avx512.instructions(),
            #[cfg(target_arch = "aarch64")]
            Self::Neon(_) => "NEON",
        }
    }

    /// Scores each row with `query`. A cosine is clamped to the range from -1 to 1, since rounding to f16 can
    /// make a row slightly longer than 1.
    ///
    /// # Shapes
    /// `query` `[dim]` f32; `rows` n slices `[dim]` f16; `scores` `[n]` f32.
    pub fn score(self, similarity: Similarity, query: &[f32], rows: &[&[f16]], scores: &mut [f32]) {
        match similarity {
            Similarity::Cosine => {
                self.sums::<Product>(query, rows, scores);
                scores.iter_mut().for_each(|score| *score = score.clamp(-1.0, 1.0));
            }
            Similarity::DotProduct => self.sums::<Product>(query, rows, scores),
            Similarity::Manhattan => {
                self.sums::<AbsoluteDifference>(query, rows, scores);
                scores.iter_mut().for_each(|score| *score = -*score);
            }
        }
    }

    fn sums<T: Term>(self, query: &[f32], rows: &[&[f16]], sums: &mut [f32]) {
        match self {
            Self::Scalar => scalar::sums::<T>(query, rows, sums),
            #[cfg(target_arch = "x86_64")]
            Self::Avx2(lanes) => lanes.sums::<T>(query, rows, sums),
            #[cfg(target_arch = "x86_64")]
            Self::Avx512(lanes) => lanes.sums::<T>(query, rows, sums),
            #[cfg(target_arch = "aarch64")]
            Self::Neon(lanes) => lanes.sums::<T>(query, rows, sums),
        }
    }

    /// Passes the blocks of codes with rows that can have a score of the threshold to `found`.
    pub fn scan_codes(self, scan: CodeScan<'_>, found: &mut impl FnMut(&Likely)) {
        match self {
            #[cfg(target_arch = "x86_64")]
            Self::Avx2(avx2) => avx2.scan_codes(scan, found),
            #[cfg(target_arch = "x86_64")]
            Self::Avx512(avx512) => avx512.scan_codes(scan, found),
            _ => scan.run(TableSums, found),
        }
    }

    /// The product with the levels of a supplement, as [`CodedQuery::levels`].
    pub fn code_levels(self, query: &CodedQuery, bits: &[u8]) -> i32 {
        match self {
            #[cfg(target_arch = "x86_64")]
            Self::Avx2(avx2) | Self::Avx512(x86::Avx512 { avx2, .. }) => avx2.code_levels(&query.fine, bits),
            _ => query.levels(bits),
        }
    }
}

/// Rows passed to a kernel at a time.
const BLOCK_ROWS: usize = 64;

/// One query, to be scored with any number of rows.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scanner<'a> {
    pub kernel: Kernel,
    similarity: Similarity,
    /// What rows are scored with.
    pub query: &'a [f32],
}

impl<'a> Scanner<'a> {
    /// The score of one row.
    ///
    /// # Shapes
    /// `row` `[dim]` f16.
    pub fn score(&self, row: &[f16]) -> f32 {
        let mut score = [0.0];
        self.kernel.score(self.similarity, self.query, &[row], &mut score);
        score[0]
    }

    /// Prepares to score rows.
    ///
    /// # Shapes
    /// `query` `[dim]` f32; of unit norm for [`Similarity::Cosine`].
    ///
    /// # Errors
    /// [`ScanError::EmptyQuery`].
    pub fn new(similarity: Similarity, query: &'a [f32]) -> Result<Self, ScanError> {
        if query.is_empty() {
            return Err(ScanError::EmptyQuery);
        }
        Ok(Self { kernel: Kernel::detect(), similarity, query })
    }

    /// Pushes the score of each of `rows` into `top`; returns how many there were.
    ///
    /// Consecutive rows are the fastest. A row given twice is scored and pushed twice.
    ///
    /// # Shapes
    /// Each row `[dim]` f16; of unit norm for [`Similarity::Cosine`].
    ///
    /// # Errors
    /// [`ScanError::Width`]; `top` may then contain some of the scores.
    pub fn scan<'r>(
        &self,
        rows: impl IntoIterator<Item = (Row, &'r [f16])>,
        top: &mut TopK,
    ) -> Result<usize, ScanError> {
        let needed = |top: &TopK| top.threshold().unwrap_or(f32::NEG_INFINITY);
        let mut least = needed(top);
        self.scan_with(rows, |score, row| {
            // Most scores are too low; one that cannot be compared is for the selection to judge.
            if score < least {
                return;
            }
            top.push(score, row);
            least = needed(top);
        })
    }

    /// As [`Self::scan`], with something else than a push for each score.
    ///
    /// # Errors
    /// Those of [`Self::scan`].
    pub fn scan_with<'r>(
        &self,
        rows: impl IntoIterator<Item = (Row, &'r [f16])>,
        mut push: impl FnMut(f32, Row),
    ) -> Result<usize, ScanError> {
        let mut rows = rows.into_iter();
        let mut ids = [Row(0); BLOCK_ROWS];
        let mut slices: [&[f16]; BLOCK_ROWS] = [&[]; BLOCK_ROWS];
        let mut scores = [0.0; BLOCK_ROWS];
        let mut scanned = 0;
        loop {
            let mut filled = 0;
            for (row, values) in rows.by_ref().take(BLOCK_ROWS) {
                if values.len() != self.query.len() {
                    return Err(ScanError::Width { row, found: values.len(), dim: self.query.len() });
                }
                ids[filled] = row;
                slices[filled] = values;
                filled += 1;
            }
            if filled == 0 {
                return Ok(scanned);
            }
            let scores = &mut scores[..filled];
            self.kernel.score(self.similarity, self.query, &slices[..filled], scores);
            scores.iter().zip(&ids).for_each(|(&score, &row)| push(score, row));
            scanned += filled;
        }
    }
}

#[cfg(test)]
mod tests;
