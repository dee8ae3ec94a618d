//! Products of matrices in slices, row-major f32.

use candle_core::{Device, Result, Tensor};

fn tensor(values: &[f32], width: usize) -> Result<Tensor> {
    Tensor::from_slice(values, (values.len() / width, width), &Device::Cpu)
}

/// `a b^T`: `a` `[n, width]`, `b` `[m, width]`; the result `[n, m]`.
pub(super) fn with_rows(a: &[f32], b: &[f32], width: usize) -> Result<Vec<f32>> {
    tensor(a, width)?.matmul(&tensor(b, width)?.t()?)?.flatten_all()?.to_vec1()
}

/// `a b`: `a` `[n, k]`, `b` `[k, width]`; the result `[n, width]`.
pub(super) fn with_columns(a: &[f32], b: &[f32], width: usize) -> Result<Vec<f32>> {
    tensor(a, b.len() / width)?.matmul(&tensor(b, width)?)?.flatten_all()?.to_vec1()
}

/// `a^T b`: `a` `[n, rows]`, `b` `[n, width]`; the result `[rows, width]`.
pub(super) fn of_columns(a: &[f32], rows: usize, b: &[f32], width: usize) -> Result<Vec<f32>> {
    tensor(a, rows)?.t()?.matmul(&tensor(b, width)?)?.flatten_all()?.to_vec1()
}
