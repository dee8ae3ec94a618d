//! Initial weights of a static query encoder.

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::lesson::Lesson;
use crate::model::HeadWeights;

/// Most texts used to fit the first linear map.
const TEXTS: usize = 20_000;
/// Added to the diagonal of the normal equations, over the number of texts.
const RIDGE: f64 = 1e-4;

pub(super) struct Start {
    pub table: Vec<f32>,
    pub weights: Vec<f32>,
    pub head: HeadWeights,
}

/// Adds the weighted mean of some tokens' vectors to `row`, and returns the sum of the weights.
pub(super) fn add_mean(text: &[u32], table: &[f32], weights: &[f32], row: &mut [f32]) -> f32 {
    let dim = row.len();
    let sum: f32 = text.iter().map(|&token| weights[token as usize]).sum();
    for &token in text {
        let share = weights[token as usize] / sum;
        let vector = &table[token as usize * dim..][..dim];
        row.iter_mut().zip(vector).for_each(|(sum, x)| *sum += share * x);
    }
    sum
}

/// `word` `[vocabulary, dim]` are the encoder's own word embeddings.
pub(super) fn of(
    lesson: &Lesson,
    word: Vec<f32>,
    dim: usize,
    frequencies: &[u32],
    hidden: usize,
    seed: u64,
) -> Start {
    let texts = lesson.tokens.len();
    // Inverse document frequencies from 0 to 1.
    let idf = |frequency: &u32| (texts as f32 / (*frequency as f32 + 1.0)).ln_1p();
    let most = (texts as f32).ln_1p();
    let weights: Vec<f32> = frequencies.iter().map(|frequency| idf(frequency) / most).collect();
    let used = texts.min(TEXTS);
    let mut means = vec![0.0; used * dim];
    for (text, row) in lesson.tokens.iter().zip(means.chunks_exact_mut(dim)) {
        add_mean(text, &word, &weights, row);
    }
    // Scaled so that means have unit length on average and learning rates suit every encoder.
    let length: f32 = means.chunks_exact(dim).map(norm).sum::<f32>() / used.max(1) as f32;
    let scale = if length > 0.0 { 1.0 / length } else { 1.0 };
    means.iter_mut().for_each(|x| *x *= scale);
    let table: Vec<f32> = word.into_iter().map(|x| x * scale).collect();
    let (linear, bias) = ridge(&means, &lesson.targets[..used * dim], dim);
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    // Uniform with the variance 1 / dim; the output starts at zero, so that only the linear map acts.
    let bound = (3.0 / dim as f32).sqrt();
    let head = HeadWeights {
        linear,
        bias,
        hidden: (0..hidden * dim).map(|_| rng.random_range(-bound..bound)).collect(),
        hidden_bias: vec![0.0; hidden],
        output: vec![0.0; dim * hidden],
    };
    Start { table, weights, head }
}

fn norm(row: &[f32]) -> f32 {
    row.iter().map(|x| x * x).sum::<f32>().sqrt()
}

/// The matrix, `[dim, dim]` row-major by output, and bias that take `from` to `to`, both `[n, dim]`, with the
/// least squared error (ridge regression).
fn ridge(from: &[f32], to: &[f32], dim: usize) -> (Vec<f32>, Vec<f32>) {
    let wide = dim + 1;
    let n = (from.len() / dim).max(1);
    let (mut normal, mut right) = (vec![0f64; wide * wide], vec![0f64; wide * dim]);
    let mut own = vec![1f64; wide];
    for (x, y) in from.chunks_exact(dim).zip(to.chunks_exact(dim)) {
        own.iter_mut().zip(x).for_each(|(own, x)| *own = f64::from(*x));
        for (i, &x) in own.iter().enumerate() {
            // The lower triangle.
            normal[i * wide..][..=i].iter_mut().zip(&own).for_each(|(sum, z)| *sum += x * z);
            right[i * dim..][..dim].iter_mut().zip(y).for_each(|(sum, y)| *sum += x * f64::from(*y));
        }
    }
    for i in 0..wide {
        normal[i * wide + i] += RIDGE * n as f64;
    }
    solve(&mut normal, &mut right, wide, dim);
    let mut linear = vec![0.0; dim * dim];
    for (i, row) in right.chunks_exact(dim).take(dim).enumerate() {
        row.iter().enumerate().for_each(|(output, x)| linear[output * dim + i] = *x as f32);
    }
    (linear, right[dim * dim..].iter().map(|x| *x as f32).collect())
}

/// Solves `matrix X = right` in place by Cholesky's decomposition; `matrix` `[n, n]`, symmetric and positive
/// definite, read from its lower triangle; `right` `[n, columns]`.
pub(super) fn solve(matrix: &mut [f64], right: &mut [f64], n: usize, columns: usize) {
    for i in 0..n {
        for j in 0..=i {
            let (a, b) = (&matrix[i * n..][..j], &matrix[j * n..][..j]);
            let left = matrix[i * n + j] - a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
            matrix[i * n + j] = if i == j { left.sqrt() } else { left / matrix[j * n + j] };
        }
    }
    let less = |own: &mut [f64], factor: f64, other: &[f64]| {
        own.iter_mut().zip(other).for_each(|(x, y)| *x -= factor * y);
    };
    for i in 0..n {
        let (done, rest) = right.split_at_mut(i * columns);
        let own = &mut rest[..columns];
        let others = done.chunks_exact(columns).zip(&matrix[i * n..]);
        others.for_each(|(other, factor)| less(own, *factor, other));
        own.iter_mut().for_each(|x| *x /= matrix[i * n + i]);
    }
    for i in (0..n).rev() {
        let (rest, done) = right.split_at_mut((i + 1) * columns);
        let own = &mut rest[i * columns..];
        let others = done.chunks_exact(columns).zip(i + 1..);
        others.for_each(|(other, j)| less(own, matrix[j * n + i], other));
        own.iter_mut().for_each(|x| *x /= matrix[i * n + i]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ridge_finds_the_map_that_made_the_rows() {
        let mut rng = ChaCha8Rng::seed_from_u64(3);
        let dim = 5;
        let mut values = |n: usize| (0..n).map(|_| rng.random_range(-1.0..1.0f32)).collect::<Vec<_>>();
        let (map, bias, from) = (values(dim * dim), values(dim), values(200 * dim));
        let to = from.chunks_exact(dim).flat_map(|x| {
            let product = |row: &[f32]| row.iter().zip(x).map(|(a, b)| a * b).sum::<f32>();
            map.chunks_exact(dim).zip(&bias).map(|(row, b)| product(row) + b).collect::<Vec<_>>()
        });
        let (linear, found) = ridge(&from, &to.collect::<Vec<_>>(), dim);
        for (a, b) in linear.iter().zip(&map).chain(found.iter().zip(&bias)) {
            assert!((a - b).abs() < 2e-3, "{a} {b}");
        }
    }
}
