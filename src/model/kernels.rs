//! The element-wise steps of the CPU inference path, fused and vectorised.
//!
//! Plain loops without branches, compiled for the widest instruction set of the
//! machine at run time by `pulp`. They work in place on f32 slices.

use pulp::Arch;

use super::config::Activation;

const LANES: usize = 16;

/// e^x for x at most about 88, relative error below 2e-7; underflows to 0.
#[inline(always)]
fn exp(x: f32) -> f32 {
    let x = x.max(-87.0);
    // 2^n * e^r with |r| <= ln(2)/2; adding and taking away 1.5 * 2^23 rounds to an integer.
    const ROUND: f32 = 12_582_912.0;
    let n = (x * std::f32::consts::LOG2_E + ROUND) - ROUND;
    let r = x - n * 0.693_359_4 + n * 2.121_944_4e-4;
    let p = 1.987_569_1e-4;
    let p = p * r + 1.398_2e-3;
    let p = p * r + 8.333_452e-3;
    let p = p * r + 4.166_579_6e-2;
    let p = p * r + 1.666_666_5e-1;
    let p = p * r + 0.5;
    let p = p * r * r + r + 1.0;
    p * f32::from_bits((((n as i32) + 127) << 23) as u32)
}

/// The error function, absolute error below 5e-7 (Abramowitz and Stegun 7.1.26).
#[inline(always)]
fn erf(x: f32) -> f32 {
    let a = x.abs();
    let t = 1.0 / (1.0 + 0.327_591_1 * a);
    let p = 1.061_405_4;
    let p = p * t - 1.453_152;
    let p = p * t + 1.421_413_8;
    let p = p * t - 0.284_496_72;
    let p = p * t + 0.254_829_6;
    (1.0 - p * t * exp(-a * a)).copysign(x)
}

#[inline(always)]
fn gelu_erf(x: f32) -> f32 {
    0.5 * x * (1.0 + erf(x * std::f32::consts::FRAC_1_SQRT_2))
}

#[inline(always)]
fn gelu_tanh(x: f32) -> f32 {
    // 0.5 (1 + tanh y) = 1 / (1 + e^(-2y)); y is clamped where the result is 0 or 1 anyway.
    let y = 0.797_884_6 * (x + 0.044_715 * x * x * x);
    x / (1.0 + exp((-2.0 * y).clamp(-80.0, 80.0)))
}

/// Derivative of [`gelu_erf`].
#[cfg(feature = "train")]
#[inline(always)]
fn gelu_erf_slope(x: f32) -> f32 {
    const INV_SQRT_TAU: f32 = 0.398_942_3;
    0.5 * (1.0 + erf(x * std::f32::consts::FRAC_1_SQRT_2)) + x * INV_SQRT_TAU * exp(-0.5 * x * x)
}

/// Derivative of [`gelu_tanh`].
#[cfg(feature = "train")]
#[inline(always)]
fn gelu_tanh_slope(x: f32) -> f32 {
    let y = 0.797_884_6 * (x + 0.044_715 * x * x * x);
    let gate = 1.0 / (1.0 + exp((-2.0 * y).clamp(-80.0, 80.0)));
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

/// `x = activation(x + bias)` for each row of `bias.len()` values.
pub(crate) fn bias_activation(x: &mut [f32], bias: &[f32], activation: Activation) {
    Arch::new().dispatch(|| {
        for row in x.chunks_exact_mut(bias.len()) {
            match activation {
                Activation::GeluErf => {
                    for (x, b) in row.iter_mut().zip(bias) {
                        *x = gelu_erf(*x + b);
                    }
                }
                Activation::GeluTanh => {
                    for (x, b) in row.iter_mut().zip(bias) {
                        *x = gelu_tanh(*x + b);
                    }
                }
                Activation::Relu => {
                    for (x, b) in row.iter_mut().zip(bias) {
                        *x = (*x + b).max(0.0);
                    }
                }
            }
        }
    });
}

/// `x = x + bias` for each row of `bias.len()` values.
pub(crate) fn add_bias(x: &mut [f32], bias: &[f32]) {
    Arch::new().dispatch(|| {
        for row in x.chunks_exact_mut(bias.len()) {
            for (x, b) in row.iter_mut().zip(bias) {
                *x += b;
            }
        }
    });
}

/// `x = softmax(scale * x)` for each row of `width` values.
pub(crate) fn scaled_softmax(x: &mut [f32], width: usize, scale: f32) {
    Arch::new().dispatch(|| {
        for row in x.chunks_exact_mut(width) {
            softmax_row(row, scale);
        }
    });
}

#[inline(always)]
fn softmax_row(row: &mut [f32], scale: f32) {
    let max = row.iter().fold(f32::NEG_INFINITY, |a, &b| if b > a { b } else { a });
    for x in row.iter_mut() {
        *x = exp((*x - max) * scale);
    }
    let inverse = 1.0 / sum(row, |x| x);
    for x in row.iter_mut() {
        *x *= inverse;
    }
}

/// `x = layer_norm(x + bias + residual)` for each row of `weight.len()` values.
pub(crate) fn add_norm(
    x: &mut [f32],
    bias: &[f32],
    residual: &[f32],
    weight: &[f32],
    shift: &[f32],
    eps: f32,
) {
    let width = weight.len();
    Arch::new().dispatch(|| {
        for (row, residual) in x.chunks_exact_mut(width).zip(residual.chunks_exact(width)) {
            for ((x, b), r) in row.iter_mut().zip(bias).zip(residual) {
                *x += b + r;
            }
            normalise(row, weight, shift, eps);
        }
    });
}

/// `x = layer_norm(x)` for each row of `weight.len()` values.
pub(crate) fn norm(x: &mut [f32], weight: &[f32], shift: &[f32], eps: f32) {
    Arch::new().dispatch(|| {
        for row in x.chunks_exact_mut(weight.len()) {
            normalise(row, weight, shift, eps);
        }
    });
}

/// `g = scale y (g - sum(g y))` for each row: the gradient through [`scaled_softmax`].
#[cfg(feature = "train")]
pub(crate) fn softmax_gradient(g: &mut [f32], y: &[f32], width: usize, scale: f32) {
    Arch::new().dispatch(|| {
        for (g, y) in g.chunks_exact_mut(width).zip(y.chunks_exact(width)) {
            let total = dot(g, y);
            for (g, y) in g.iter_mut().zip(y) {
                *g = scale * y * (*g - total);
            }
        }
    });
}

/// `g = g activation'(x + bias)` for each row of `bias.len()` values.
#[cfg(feature = "train")]
pub(crate) fn activation_gradient(g: &mut [f32], x: &[f32], bias: &[f32], activation: Activation) {
    Arch::new().dispatch(|| {
        for (g, x) in g.chunks_exact_mut(bias.len()).zip(x.chunks_exact(bias.len())) {
            let all = g.iter_mut().zip(x).zip(bias);
            match activation {
                Activation::GeluErf => all.for_each(|((g, x), b)| *g *= gelu_erf_slope(x + b)),
                Activation::GeluTanh => all.for_each(|((g, x), b)| *g *= gelu_tanh_slope(x + b)),
                Activation::Relu => all.for_each(|((g, x), b)| *g = if x + b > 0.0 { *g } else { 0.0 }),
            }
        }
    });
}

/// The gradient through [`norm`] with respect to its input, in place of `g`.
#[cfg(feature = "train")]
pub(crate) fn norm_gradient(g: &mut [f32], x: &[f32], weight: &[f32], eps: f32) {
    let width = weight.len();
    let n = width as f32;
    Arch::new().dispatch(|| {
        for (g, x) in g.chunks_exact_mut(width).zip(x.chunks_exact(width)) {
            let (mean, inverse) = moments(x, eps);
            for (g, w) in g.iter_mut().zip(weight) {
                *g *= w;
            }
            let total = sum(g, |g| g) / n;
            let along = (dot(g, x) - mean * total * n) * inverse / n;
            for (g, x) in g.iter_mut().zip(x) {
                *g = inverse * (*g - total - (x - mean) * inverse * along);
            }
        }
    });
}

/// The gradient through [`norm`] with respect to its weight, `[width]`.
#[cfg(feature = "train")]
pub(crate) fn norm_weight_gradient(x: &[f32], g: &[f32], width: usize, eps: f32) -> Vec<f32> {
    let mut total = vec![0f32; width];
    Arch::new().dispatch(|| {
        for (g, x) in g.chunks_exact(width).zip(x.chunks_exact(width)) {
            let (mean, inverse) = moments(x, eps);
            for ((t, g), x) in total.iter_mut().zip(g).zip(x) {
                *t += g * (x - mean) * inverse;
            }
        }
    });
    total
}

/// Dot product in a fixed lane order, which the compiler may vectorise.
#[cfg(feature = "train")]
#[inline(always)]
fn dot(a: &[f32], b: &[f32]) -> f32 {
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
mod tests {
    use super::*;

    /// The error function by its Taylor series (small x) or 1 (large x), in f64.
    fn erf_reference(x: f64) -> f64 {
        // The series cancels catastrophically further out, where 1 is right to 2e-8.
        if x.abs() > 4.0 {
            return x.signum();
        }
        let (mut term, mut total, mut n) = (x, x, 0.0);
        while term.abs() > 1e-18 {
            n += 1.0;
            term *= -x * x / n;
            total += term / (2.0 * n + 1.0);
        }
        total * 2.0 / std::f64::consts::PI.sqrt()
    }

    #[test]
    fn exp_and_erf_are_within_their_stated_errors() {
        for i in -8000..=800 {
            let x = i as f32 * 0.01;
            let want = f64::from(x).exp();
            assert!((f64::from(exp(x)) - want).abs() <= 2e-7 * want, "exp({x})");
        }
        assert!(exp(-1e9) < 1e-37);
        for i in -500..=500 {
            let x = i as f32 * 0.01;
            assert!((f64::from(erf(x)) - erf_reference(f64::from(x))).abs() < 5e-7, "erf({x})");
        }
    }

    #[test]
    fn activations_match_their_definitions() {
        for i in -1000..=1000 {
            let x = i as f32 * 0.01;
            let mut erf_form = [x - 0.5];
            bias_activation(&mut erf_form, &[0.5], Activation::GeluErf);
            let y = f64::from(x);
            let want = 0.5 * y * (1.0 + erf_reference(y / 2f64.sqrt()));
            assert!((f64::from(erf_form[0]) - want).abs() < 5e-7 * (1.0 + y.abs()), "gelu({x})");
            let mut tanh_form = [x];
            bias_activation(&mut tanh_form, &[0.0], Activation::GeluTanh);
            let want =
                0.5 * y * (1.0 + ((2.0 / std::f64::consts::PI).sqrt() * (y + 0.044715 * y * y * y)).tanh());
            assert!((f64::from(tanh_form[0]) - want).abs() < 5e-7 * (1.0 + y.abs()), "gelu_tanh({x})");
        }
        let mut relu = [-1.0, 2.0];
        bias_activation(&mut relu, &[0.0, 1.0], Activation::Relu);
        assert_eq!(relu, [0.0, 3.0]);
    }

    #[test]
    fn softmax_and_norm_on_odd_widths() {
        for width in [1usize, 3, 16, 17, 33] {
            let mut x: Vec<f32> = (0..2 * width).map(|i| ((i * 37) % 11) as f32 - 5.0).collect();
            let mut want = x.clone();
            scaled_softmax(&mut x, width, 0.5);
            for row in want.chunks_mut(width) {
                let total: f32 = row.iter().map(|v| (v * 0.5).exp()).sum();
                row.iter_mut().for_each(|v| *v = (*v * 0.5).exp() / total);
            }
            assert!(x.iter().zip(&want).all(|(a, b)| (a - b).abs() < 1e-6));

            let (weight, shift) = (vec![2.0; width], vec![1.0; width]);
            let mut y = want.clone();
            norm(&mut y, &weight, &shift, 1e-12);
            if width > 1 {
                for row in y.chunks(width) {
                    let mean: f32 = row.iter().sum::<f32>() / width as f32;
                    assert!((mean - 1.0).abs() < 1e-4);
                }
            }
            let mut z: Vec<f32> = want.iter().map(|v| v - 0.25).collect();
            add_norm(&mut z, &vec![0.125; width], &vec![0.125; 2 * width], &weight, &shift, 1e-12);
            assert!(y.iter().zip(&z).all(|(a, b)| (a - b).abs() < 1e-2));
        }
    }
}
