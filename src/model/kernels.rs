//! The element-wise steps of the encoder on the CPU, fused and vectorised.
//!
//! Plain loops without branches, compiled for the widest instruction set of the
//! machine at run time by `pulp`. They work in place on f32 slices.

use pulp::Simd;

use super::config::Activation;
use crate::product::dispatched;

const LANES: usize = 16;

/// `a * b + c`, rounded once if the processor supports it.
#[inline(always)]
fn fused<S: Simd>(a: f32, b: f32, c: f32) -> f32 {
    if S::IS_SCALAR { a * b + c } else { a.mul_add(b, c) }
}

/// e^x for x at most about 88, relative error below 2e-7; underflows to 0.
#[inline(always)]
fn exp<S: Simd>(x: f32) -> f32 {
    let x = x.max(-87.0);
    // 2^n * e^r with |r| <= ln(2)/2; adding and subtracting 1.5 * 2^23 rounds to an integer.
    const ROUND: f32 = 12_582_912.0;
    let rounded = fused::<S>(x, std::f32::consts::LOG2_E, ROUND);
    let n = rounded - ROUND;
    let r = fused::<S>(n, 2.121_944_4e-4, fused::<S>(n, -0.693_359_4, x));
    let p = fused::<S>(1.987_569_1e-4, r, 1.398_2e-3);
    let p = fused::<S>(p, r, 8.333_452e-3);
    let p = fused::<S>(p, r, 4.166_579_6e-2);
    let p = fused::<S>(p, r, 1.666_666_5e-1);
    let p = fused::<S>(p, r, 0.5);
    let p = fused::<S>(p, r * r, r) + 1.0;
    // The low bits of `rounded` are n; a cast would saturate, which is slow.
    p * f32::from_bits(rounded.to_bits().wrapping_add(127) << 23)
}

/// The error function, absolute error below 5e-7 (Abramowitz and Stegun 7.1.26).
#[inline(always)]
fn erf<S: Simd>(x: f32) -> f32 {
    let a = x.abs();
    let t = 1.0 / fused::<S>(0.327_591_1, a, 1.0);
    let p = fused::<S>(1.061_405_4, t, -1.453_152);
    let p = fused::<S>(p, t, 1.421_413_8);
    let p = fused::<S>(p, t, -0.284_496_72);
    let p = fused::<S>(p, t, 0.254_829_6);
    fused::<S>(-p * t, exp::<S>(-a * a), 1.0).copysign(x)
}

#[inline(always)]
fn gelu_erf<S: Simd>(x: f32) -> f32 {
    let half = 0.5 * x;
    fused::<S>(half, erf::<S>(x * std::f32::consts::FRAC_1_SQRT_2), half)
}

#[inline(always)]
fn gelu_tanh<S: Simd>(x: f32) -> f32 {
    // 0.5 (1 + tanh y) = 1 / (1 + e^(-2y)); y is clamped to where the result is 0 or 1 anyway.
    let y = 0.797_884_6 * (x + 0.044_715 * x * x * x);
    x / (1.0 + exp::<S>((-2.0 * y).clamp(-80.0, 80.0)))
}

#[inline(always)]
fn sigmoid<S: Simd>(x: f32) -> f32 {
    // Clamped where the result is 0 or 1 anyway.
    1.0 / (1.0 + exp::<S>((-x).min(80.0)))
}

#[inline(always)]
fn silu<S: Simd>(x: f32) -> f32 {
    x * sigmoid::<S>(x)
}

/// Derivative of [`silu`].
#[cfg(feature = "train")]
#[inline(always)]
fn silu_slope<S: Simd>(x: f32) -> f32 {
    let gate = sigmoid::<S>(x);
    gate + x * gate * (1.0 - gate)
}

/// Derivative of [`gelu_erf`].
#[cfg(feature = "train")]
#[inline(always)]
fn gelu_erf_slope<S: Simd>(x: f32) -> f32 {
    const INV_SQRT_TAU: f32 = 0.398_942_3;
    0.5 * (1.0 + erf::<S>(x * std::f32::consts::FRAC_1_SQRT_2)) + x * INV_SQRT_TAU * exp::<S>(-0.5 * x * x)
}

/// Derivative of [`gelu_tanh`].
#[cfg(feature = "train")]
#[inline(always)]
fn gelu_tanh_slope<S: Simd>(x: f32) -> f32 {
    let y = 0.797_884_6 * (x + 0.044_715 * x * x * x);
    let gate = 1.0 / (1.0 + exp::<S>((-2.0 * y).clamp(-80.0, 80.0)));
    let slope = 0.797_884_6 * (1.0 + 0.134_145 * x * x);
    gate + 2.0 * x * gate * (1.0 - gate) * slope
}

/// Sum in a fixed lane order, which the compiler may vectorise.
#[inline(always)]
fn sum(values: &[f32], map: impl Fn(f32) -> f32) -> f32 {
    let mut lanes = [0f32; LANES];
    let chunks = values.chunks_exact(LANES);
    let rest: f32 = chunks.remainder().iter().map(|&x| map(x)).sum();
    for chunk in chunks {
        for (lane, &x) in lanes.iter_mut().zip(chunk) {
            *lane += map(x);
        }
    }
    lanes.iter().sum::<f32>() + rest
}

/// The greatest value, lane by lane, which the compiler may vectorise; NaN is ignored.
#[inline(always)]
fn max(values: &[f32]) -> f32 {
    let greater = |a: f32, b: f32| if b > a { b } else { a };
    let mut lanes = [f32::NEG_INFINITY; LANES];
    let chunks = values.chunks_exact(LANES);
    let rest = chunks.remainder().iter().copied().fold(f32::NEG_INFINITY, greater);
    for chunk in chunks {
        lanes.iter_mut().zip(chunk).for_each(|(lane, &x)| *lane = greater(*lane, x));
    }
    lanes.into_iter().fold(rest, greater)
}

/// `x = activation(x)`, within a dispatched function.
#[inline(always)]
pub(crate) fn activate<S: Simd>(x: &mut [f32], activation: Activation) {
    match activation {
        Activation::GeluErf => x.iter_mut().for_each(|x| *x = gelu_erf::<S>(*x)),
        Activation::GeluTanh => x.iter_mut().for_each(|x| *x = gelu_tanh::<S>(*x)),
        Activation::Relu => x.iter_mut().for_each(|x| *x = x.max(0.0)),
        Activation::Silu => x.iter_mut().for_each(|x| *x = silu::<S>(*x)),
    }
}

/// `row = softmax(scale * row)`, within a dispatched function.
#[inline(always)]
pub(crate) fn softmax<S: Simd>(row: &mut [f32], scale: f32) {
    let max = max(row);
    row.iter_mut().for_each(|x| *x = exp::<S>((*x - max) * scale));
    let inverse = 1.0 / sum(row, |x| x);
    row.iter_mut().for_each(|x| *x *= inverse);
}

dispatched! {
    /// `x = activation(x + bias)` for each row of `bias.len()` values.
    #[cfg(feature = "train")]
    fn add_bias<S>(x: &mut [f32], bias: &[f32], activation: Option<Activation>) {
        for row in x.chunks_exact_mut(bias.len()) {
            row.iter_mut().zip(bias).for_each(|(x, b)| *x += b);
            if let Some(activation) = activation {
                activate::<S>(row, activation);
            }
        }
    }

    /// `out = activation(a) * b` for each row of `wide`, `[a, b]`, of `2 width` values.
    fn gate_rows<S>(wide: &[f32], width: usize, activation: Activation, out: &mut [f32]) {
        for (out, wide) in out.chunks_exact_mut(width).zip(wide.chunks_exact(2 * width)) {
            let (a, b) = wide.split_at(width);
            out.copy_from_slice(a);
            activate::<S>(out, activation);
            out.iter_mut().zip(b).for_each(|(x, b)| *x *= b);
        }
    }

    /// `x = x + y`, value by value.
    fn add<S>(x: &mut [f32], y: &[f32]) {
        x.iter_mut().zip(y).for_each(|(x, y)| *x += y);
    }

    /// Rotates pairs of values in the first `count` values of each row, with `stride` values between rows. A
    /// pair takes one value from each half of a head of `width` values; `table` has each position's cosines
    /// and then its sines, `[positions, width]`. Positions restart with each text.
    fn rotate<S>(
        rows: &mut [f32],
        stride: usize,
        count: usize,
        lengths: &[usize],
        table: &[f32],
        width: usize,
        way: f32,
    ) {
        let mut rows = rows.chunks_exact_mut(stride);
        for &length in lengths {
            for (row, angles) in rows.by_ref().take(length).zip(table.chunks_exact(width)) {
                let (cosines, sines) = angles.split_at(width / 2);
                for head in row[..count].chunks_exact_mut(width) {
                    let (first, second) = head.split_at_mut(width / 2);
                    let angles = cosines.iter().zip(sines);
                    for ((a, b), (cosine, sine)) in first.iter_mut().zip(second).zip(angles) {
                        let sine = sine * way;
                        (*a, *b) = (*a * cosine - *b * sine, *b * cosine + *a * sine);
                    }
                }
            }
        }
    }

    /// `x = softmax(scale * x)` for each row of `width` values.
    #[cfg(feature = "train")]
    fn scaled_softmax<S>(x: &mut [f32], width: usize, scale: f32) {
        x.chunks_exact_mut(width).for_each(|row| softmax::<S>(row, scale));
    }

    /// `x = layer_norm(x + residual)` for each row of `weight.len()` values.
    fn add_norm<S>(x: &mut [f32], residual: &[f32], weight: &[f32], shift: &[f32], eps: f32) {
        let width = weight.len();
        for (row, residual) in x.chunks_exact_mut(width).zip(residual.chunks_exact(width)) {
            row.iter_mut().zip(residual).for_each(|(x, r)| *x += r);
            normalise(row, weight, shift, eps);
        }
    }

    /// `x = layer_norm(x)` for each row of `weight.len()` values.
    fn norm<S>(x: &mut [f32], weight: &[f32], shift: &[f32], eps: f32) {
        x.chunks_exact_mut(weight.len()).for_each(|row| normalise(row, weight, shift, eps));
    }

    /// `g = scale y (g - sum(g y))` for each row: the gradient through [`scaled_softmax`].
    #[cfg(feature = "train")]
    fn softmax_gradient<S>(g: &mut [f32], y: &[f32], width: usize, scale: f32) {
        for (g, y) in g.chunks_exact_mut(width).zip(y.chunks_exact(width)) {
            let total = dot(g, y);
            g.iter_mut().zip(y).for_each(|(g, y)| *g = scale * y * (*g - total));
        }
    }

    /// `x = ln softmax(scale * x)` for each row of `width` values.
    #[cfg(feature = "train")]
    fn scaled_log_softmax<S>(x: &mut [f32], width: usize, scale: f32) {
        for row in x.chunks_exact_mut(width) {
            let max = max(row);
            let shift = scale * max + sum(row, |x| exp::<S>((x - max) * scale)).ln();
            row.iter_mut().for_each(|x| *x = fused::<S>(scale, *x, -shift));
        }
    }

    /// `row = ln softmax(scale * row)`, and the entropy of that distribution, in nats, from the same
    /// exponentials.
    fn log_softmax_entropy<S>(row: &mut [f32], scale: f32, entropy: &mut f32) {
        // Scaled first, so that the scale may have either sign.
        row.iter_mut().for_each(|x| *x *= scale);
        let max = max(row);
        let (mut total, mut weighted) = ([0f32; LANES], [0f32; LANES]);
        let mut add = |lane: usize, x: f32| {
            // Below that both terms are negligible.
            let below = (x - max).max(-87.0);
            let e = exp::<S>(below);
            total[lane] += e;
            weighted[lane] = fused::<S>(e, below, weighted[lane]);
        };
        let chunks = row.chunks_exact(LANES);
        let rest = chunks.remainder();
        chunks.for_each(|chunk| chunk.iter().enumerate().for_each(|(lane, &x)| add(lane, x)));
        rest.iter().enumerate().for_each(|(lane, &x)| add(lane, x));
        let (total, weighted): (f32, f32) = (total.iter().sum(), weighted.iter().sum());
        let log_total = total.ln();
        *entropy = log_total - weighted / total;
        let shift = max + log_total;
        row.iter_mut().for_each(|x| *x -= shift);
    }

    /// `out += sum_i factors[i] * matrix[i, :]`: a transposed product over several rows at a time, so that
    /// `out` is seldom read and written.
    fn add_weighted_rows<S>(out: &mut [f32], matrix: &[f32], factors: &[f32]) {
        const ROWS: usize = 8;
        let width = out.len();
        let (blocks, rest) = factors.as_chunks::<ROWS>();
        let (whole, last) = matrix.split_at(blocks.len() * ROWS * width);
        for (block, factors) in whole.chunks_exact(ROWS * width).zip(blocks) {
            let rows: [&[f32]; ROWS] = std::array::from_fn(|row| &block[row * width..][..width]);
            for (place, o) in out.iter_mut().enumerate() {
                let mut sum = *o;
                for (row, &factor) in rows.iter().zip(factors) {
                    sum = fused::<S>(factor, row[place], sum);
                }
                *o = sum;
            }
        }
        for (row, &factor) in last.chunks_exact(width).zip(rest) {
            out.iter_mut().zip(row).for_each(|(o, x)| *o = fused::<S>(factor, *x, *o));
        }
    }

    /// `values[row] = <matrix[row, :], factors>` for each of `rows`.
    fn products_of_rows<S>(values: &mut [f32], matrix: &[f32], factors: &[f32], rows: &[u32]) {
        for &row in rows {
            values[row as usize] = dot(&matrix[row as usize * factors.len()..][..factors.len()], factors);
        }
    }

    /// `g = scale (g - e^y sum(g))` for each row: the gradient through [`scaled_log_softmax`].
    #[cfg(feature = "train")]
    fn log_softmax_gradient<S>(g: &mut [f32], y: &[f32], width: usize, scale: f32) {
        for (g, y) in g.chunks_exact_mut(width).zip(y.chunks_exact(width)) {
            let total = sum(g, |g| g);
            g.iter_mut().zip(y).for_each(|(g, y)| *g = scale * (*g - exp::<S>(*y) * total));
        }
    }

    /// `g = g activation'(x + bias)` for each row of `bias.len()` values.
    #[cfg(feature = "train")]
    fn activation_gradient<S>(g: &mut [f32], x: &[f32], bias: &[f32], activation: Activation) {
        for (g, x) in g.chunks_exact_mut(bias.len()).zip(x.chunks_exact(bias.len())) {
            let all = g.iter_mut().zip(x).zip(bias);
            match activation {
                Activation::GeluErf => all.for_each(|((g, x), b)| *g *= gelu_erf_slope::<S>(x + b)),
                Activation::GeluTanh => all.for_each(|((g, x), b)| *g *= gelu_tanh_slope::<S>(x + b)),
                Activation::Relu => all.for_each(|((g, x), b)| *g = if x + b > 0.0 { *g } else { 0.0 }),
                Activation::Silu => all.for_each(|((g, x), b)| *g *= silu_slope::<S>(x + b)),
            }
        }
    }

    /// `x = activation(x) * y`, value by value.
    #[cfg(feature = "train")]
    fn gate<S>(x: &mut [f32], y: &[f32], activation: Activation) {
        activate::<S>(x, activation);
        x.iter_mut().zip(y).for_each(|(x, y)| *x *= y);
    }

    /// `g = g y activation'(x)`: the gradient through [`gate`] with respect to `x`.
    #[cfg(feature = "train")]
    fn gate_gradient<S>(g: &mut [f32], x: &[f32], y: &[f32], activation: Activation) {
        let all = g.iter_mut().zip(x).zip(y);
        match activation {
            Activation::GeluErf => all.for_each(|((g, x), y)| *g *= y * gelu_erf_slope::<S>(*x)),
            Activation::GeluTanh => all.for_each(|((g, x), y)| *g *= y * gelu_tanh_slope::<S>(*x)),
            Activation::Relu => all.for_each(|((g, x), y)| *g *= if *x > 0.0 { *y } else { 0.0 }),
            Activation::Silu => all.for_each(|((g, x), y)| *g *= y * silu_slope::<S>(*x)),
        }
    }

    /// The gradient through [`norm`] with respect to its input, replacing `g`.
    #[cfg(feature = "train")]
    fn norm_gradient<S>(g: &mut [f32], x: &[f32], weight: &[f32], eps: f32) {
        let width = weight.len();
        let n = width as f32;
        for (g, x) in g.chunks_exact_mut(width).zip(x.chunks_exact(width)) {
            let (mean, inverse) = moments(x, eps);
            g.iter_mut().zip(weight).for_each(|(g, w)| *g *= w);
            let total = sum(g, |g| g) / n;
            let along = (dot(g, x) - mean * total * n) * inverse / n;
            for (g, x) in g.iter_mut().zip(x) {
                *g = inverse * (*g - total - (x - mean) * inverse * along);
            }
        }
    }

    /// Adds the gradient through [`norm`] with respect to its weight to `total`, `[width]`.
    #[cfg(feature = "train")]
    fn add_norm_weight_gradient<S>(total: &mut [f32], x: &[f32], g: &[f32], eps: f32) {
        let width = total.len();
        for (g, x) in g.chunks_exact(width).zip(x.chunks_exact(width)) {
            let (mean, inverse) = moments(x, eps);
            for ((t, g), x) in total.iter_mut().zip(g).zip(x) {
                *t += g * (x - mean) * inverse;
            }
        }
    }
}

/// Dot product in a fixed lane order, which the compiler may vectorise.
#[inline(always)]
pub(crate) fn dot(a: &[f32], b: &[f32]) -> f32 {
    let mut lanes = [0f32; LANES];
    let (left, right) = (a.chunks_exact(LANES), b.chunks_exact(LANES));
    let rest: f32 = left.remainder().iter().zip(right.remainder()).map(|(x, y)| x * y).sum();
    for (a, b) in left.zip(right) {
        for ((lane, x), y) in lanes.iter_mut().zip(a).zip(b) {
            *lane += x * y;
        }
    }
    lanes.iter().sum::<f32>() + rest
}

/// Mean, and 1 over the standard deviation, of a row.
#[inline(always)]
fn moments(row: &[f32], eps: f32) -> (f32, f32) {
    let n = row.len() as f32;
    let mean = sum(row, |x| x) / n;
    let variance = sum(row, |x| (x - mean) * (x - mean)) / n;
    (mean, 1.0 / (variance + eps).sqrt())
}

#[inline(always)]
fn normalise(row: &mut [f32], weight: &[f32], shift: &[f32], eps: f32) {
    let (mean, inverse) = moments(row, eps);
    for ((x, w), b) in row.iter_mut().zip(weight).zip(shift) {
        *x = (*x - mean) * inverse * w + b;
    }
}

#[cfg(test)]
mod tests;
