//! Vectors at unit norm.

use half::f16;
use half::slice::HalfFloatSliceExt;

use crate::scan::{LEAST_NORM, norm};

/// A stored row at unit L2 norm, f32.
pub(crate) fn unit_of_stored(row: &[f16]) -> Vec<f32> {
    let mut values = vec![0f32; row.len()];
    row.convert_to_f32_slice(&mut values);
    unit(&values)
}

/// A vector at unit L2 norm; zeros if it has no direction.
pub(crate) fn unit(vector: &[f32]) -> Vec<f32> {
    let norm = norm(vector);
    let inverse = if norm < LEAST_NORM { 0.0 } else { 1.0 / norm };
    vector.iter().map(|x| (f64::from(*x) * inverse) as f32).collect()
}
