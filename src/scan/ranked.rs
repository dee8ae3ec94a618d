//! A score with its row as one integer, which is compared faster than a pair.

use std::cmp::Ordering;

use crate::ids::Row;

/// A row and its score, ordered from best to worst: the greatest score first, then the lower row. NaN is
/// worse than every number, and both zeros are the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Ranked(u64);

const SIGN: u32 = 1 << 31;

impl Ranked {
    #[inline(always)]
    pub fn new(score: f32, row: Row) -> Self {
        let bits = if score.is_nan() { f32::NAN.to_bits() | SIGN } else { (score + 0.0).to_bits() };
        // Integers in the order of the scores: the sign bit is flipped, and all other bits if it was set.
        let rising = bits ^ (((bits as i32 >> 31) as u32) | SIGN);
        Self(u64::from(!rising) << 32 | u64::from(row.0))
    }

    pub fn row(self) -> Row {
        Row(self.0 as u32)
    }

    pub fn score(self) -> f32 {
        let rising = !((self.0 >> 32) as u32);
        f32::from_bits(if rising & SIGN != 0 { rising ^ SIGN } else { !rising })
    }

    /// The better score is the lesser one.
    pub fn compare_scores(self, other: Self) -> Ordering {
        (self.0 >> 32).cmp(&(other.0 >> 32))
    }
}
