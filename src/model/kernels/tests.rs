use pulp::WithSimd;

use super::*;
use crate::product::tests::on_every_instruction_set;

/// The error function by its Taylor series (small x) or 1 (large x), in f64.
fn erf_reference(x: f64) -> f64 {
    // The series cancels catastrophically further out, where 1 is accurate to 2e-8.
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
    on_every_instruction_set(Errors);
}

#[derive(Clone, Copy)]
struct Errors;

impl WithSimd for Errors {
    type Output = ();

    fn with_simd<S: Simd>(self, _: S) {
        for i in -8000..=800 {
            let x = i as f32 * 0.01;
            let want = f64::from(x).exp();
            assert!((f64::from(exp::<S>(x)) - want).abs() <= 2e-7 * want, "exp({x})");
        }
        assert!(exp::<S>(-1e9) < 1e-37);
        for i in -500..=500 {
            let x = i as f32 * 0.01;
            assert!((f64::from(erf::<S>(x)) - erf_reference(f64::from(x))).abs() < 5e-7, "erf({x})");
        }
    }
}

#[cfg(feature = "train")]
#[test]
fn activations_match_their_definitions() {
    for i in -1000..=1000 {
        let x = i as f32 * 0.01;
        let mut erf_form = [x - 0.5];
        add_bias(&mut erf_form, &[0.5], Some(Activation::GeluErf));
        let y = f64::from(x);
        let want = 0.5 * y * (1.0 + erf_reference(y / 2f64.sqrt()));
        assert!((f64::from(erf_form[0]) - want).abs() < 5e-7 * (1.0 + y.abs()), "gelu({x})");
        let mut tanh_form = [x];
        add_bias(&mut tanh_form, &[0.0], Some(Activation::GeluTanh));
        let want =
            0.5 * y * (1.0 + ((2.0 / std::f64::consts::PI).sqrt() * (y + 0.044715 * y * y * y)).tanh());
        assert!((f64::from(tanh_form[0]) - want).abs() < 5e-7 * (1.0 + y.abs()), "gelu_tanh({x})");
    }
    for i in -1000..=1000 {
        let y = f64::from(i) * 0.1;
        let mut silu = [y as f32];
        add_bias(&mut silu, &[0.0], Some(Activation::Silu));
        assert!((f64::from(silu[0]) - y / (1.0 + (-y).exp())).abs() < 5e-7 * (1.0 + y.abs()), "silu({y})");
    }
    let mut relu = [-1.0, 2.0];
    add_bias(&mut relu, &[0.0, 1.0], Some(Activation::Relu));
    assert_eq!(relu, [0.0, 3.0]);
}

#[test]
fn log_softmax_and_its_entropy_match_their_definitions() {
    for width in [1usize, 2, 15, 16, 17, 100, 1000] {
        let logits: Vec<f32> = (0..width).map(|i| ((i * 37) % 101) as f32 * 0.02 - 1.0).collect();
        for scale in [0.0f32, 1.0, 20.0, 400.0, -3.0] {
            let mut row = logits.clone();
            let mut entropy = f32::NAN;
            log_softmax_entropy(&mut row, scale, &mut entropy);
            let scaled = || logits.iter().map(|&x| f64::from(x) * f64::from(scale));
            let max = scaled().fold(f64::NEG_INFINITY, f64::max);
            let log_sum = max + scaled().map(|x| (x - max).exp()).sum::<f64>().ln();
            let want = -scaled().map(|x| (x - log_sum) * (x - log_sum).exp()).sum::<f64>();
            assert!((f64::from(entropy) - want).abs() < 1e-4, "{width} {scale}: {entropy} for {want}");
            for (own, want) in row.iter().zip(scaled().map(|x| x - log_sum)) {
                assert!((f64::from(*own) - want).abs() < 1e-4 * (1.0 + want.abs()), "{width} {scale}");
            }
        }
    }
    let (mut row, mut entropy) = ([f32::NAN, 0.0, f32::NEG_INFINITY], f32::NAN);
    log_softmax_entropy(&mut row, 1.0, &mut entropy);
    assert!(row[0].is_nan() && row[1].abs() < 1e-6 && entropy.abs() < 1e-6, "{row:?} {entropy}");
}

#[test]
fn weighted_rows_add_up() {
    for (rows, width) in [(0usize, 5usize), (1, 1), (7, 33), (8, 16), (9, 40), (64, 518)] {
        let value = |i: usize| ((i * 29) % 17) as f32 - 8.0;
        let matrix: Vec<f32> = (0..rows * width).map(value).collect();
        let factors: Vec<f32> = (0..rows).map(|row| row as f32 * 0.25 - 1.0).collect();
        let mut out: Vec<f32> = (0..width).map(value).collect();
        add_weighted_rows(&mut out, &matrix, &factors);
        for (place, &own) in out.iter().enumerate() {
            let products = factors.iter().enumerate().map(|(row, f)| f * matrix[row * width + place]);
            // Multiples of a quarter, so that no sum is rounded.
            assert_eq!(own, value(place) + products.sum::<f32>());
        }
    }
}

#[cfg(feature = "train")]
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
        add_norm(&mut z, &vec![0.25; 2 * width], &weight, &shift, 1e-12);
        assert!(y.iter().zip(&z).all(|(a, b)| (a - b).abs() < 1e-2));
    }
}
