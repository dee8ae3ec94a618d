//! Rows in their stored form for cosine.

use half::f16;
use half::vec::HalfFloatVecExt;

/// Rounds a row at unit L2 norm for storing with cosine: its norm is at most 1, so that every cosine with it
/// is in [-1, 1].
///
/// Each value is rounded to the nearest f16, which changes the row's length by about 3e-5. If the row becomes
/// too long, values (usually a few) are rounded toward zero until it fits.
pub(crate) fn unit_to_store(unit: &[f32]) -> Vec<f16> {
    let mut row = Vec::from_f32_slice(unit);
    let square = |x: f16| x.to_f64() * x.to_f64();
    // Exact: a square is a multiple of 2^-48, and no sum reaches 2^5.
    let mut norm: f64 = row.iter().map(|&x| square(x)).sum();
    for (stored, x) in row.iter_mut().zip(unit).filter(|(_, x)| **x != 0.0) {
        if norm <= 1.0 {
            break;
        }
        if stored.to_f32().abs() >= x.abs() {
            let shorter = f16::from_bits(stored.to_bits() - 1);
            norm -= square(*stored) - square(shorter);
            *stored = shorter;
        }
    }
    row
}
