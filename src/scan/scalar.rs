//! The reference kernel, for processors without a fast one and for tests.

use super::lanes::Term;
use half::f16;
use half::slice::HalfFloatSliceExt;

/// Values widened at a time; one by one is an order of magnitude slower.
const BLOCK: usize = 64;

/// Independent sums, so that the compiler may use vectors.
const PARTIAL_SUMS: usize = 8;

/// The sum of the terms of each row with `query`.
pub(super) fn sums<T: Term>(query: &[f32], rows: &[&[f16]], sums: &mut [f32]) {
    for (row, out) in rows.iter().zip(sums) {
        *out = sum::<T>(query, row);
    }
}

fn sum<T: Term>(query: &[f32], row: &[f16]) -> f32 {
    let mut partial = [0.0; PARTIAL_SUMS];
    let mut widened = [0.0; BLOCK];
    for (x, y) in row.chunks(BLOCK).zip(query.chunks(BLOCK)) {
        let widened = &mut widened[..x.len()];
        x.convert_to_f32_slice(widened);
        for (x, y) in widened.chunks(PARTIAL_SUMS).zip(y.chunks(PARTIAL_SUMS)) {
            for ((&x, &y), sum) in x.iter().zip(y).zip(&mut partial) {
                *sum += T::scalar(x, y);
            }
        }
    }
    partial.iter().sum()
}
