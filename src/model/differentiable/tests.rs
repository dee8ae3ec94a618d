use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::*;
use crate::model::config::{Architecture, EncoderPrecision};
use crate::model::packed::PackedTransformer;
use candle_core::Var;

const HIDDEN: usize = 24;
const VOCABULARY: usize = 50;

/// A small random transformer whose tensors are all variables.
pub(crate) fn random(activation: Activation, seed: u64) -> (Transformer, Vec<Var>) {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let mut vars = Vec::new();
    let mut tensor = |shape: &[usize], mean: f32, std: f32| {
        let count: usize = shape.iter().product();
        // Uniform, of this standard deviation.
        let half_width = std * 3f32.sqrt();
        let values: Vec<f32> =
            (0..count).map(|_| mean + half_width * (2.0 * rng.random::<f32>() - 1.0)).collect();
        let var = Var::from_tensor(&Tensor::from_vec(values, shape, &Device::Cpu).unwrap()).unwrap();
        vars.push(var.clone());
        var.as_tensor().clone()
    };
    let mut layers = Vec::new();
    for _ in 0..2 {
        let mut linear = |output: usize, input: usize| Linear {
            weight: tensor(&[output, input], 0.0, 0.3),
            bias: tensor(&[output], 0.0, 0.3),
        };
        let (query, key, value) = (linear(HIDDEN, HIDDEN), linear(HIDDEN, HIDDEN), linear(HIDDEN, HIDDEN));
        let attention_output = linear(HIDDEN, HIDDEN);
        let (intermediate, output) = (linear(40, HIDDEN), linear(HIDDEN, 40));
        let mut norm = || LayerNorm {
            weight: tensor(&[HIDDEN], 1.0, 0.2),
            bias: tensor(&[HIDDEN], 0.0, 0.2),
            eps: 1e-12,
        };
        let (attention_norm, output_norm) = (norm(), norm());
        layers.push(Layer {
            query,
            key,
            value,
            attention_output,
            attention_norm,
            intermediate,
            output,
            output_norm,
        });
    }
    let position = tensor(&[16, HIDDEN], 0.0, 1.0);
    let embeddings = Embeddings {
        word: tensor(&[VOCABULARY, HIDDEN], 0.0, 1.0),
        raw: vec![("embeddings.position_embeddings.weight", position.clone())],
        position,
        norm: LayerNorm {
            weight: tensor(&[HIDDEN], 1.0, 0.2),
            bias: tensor(&[HIDDEN], 0.0, 0.2),
            eps: 1e-12,
        },
    };
    let config = TransformerConfig {
        architecture: Architecture::DistilBert,
        vocab_size: VOCABULARY,
        hidden_size: HIDDEN,
        layers: 2,
        heads: 3,
        intermediate_size: 40,
        max_positions: 16,
        type_vocab_size: 0,
        layer_norm_eps: 1e-12,
        activation,
    };
    (Transformer { config, embeddings, layers }, vars)
}

/// Three texts of different length, padded with an arbitrary token.
fn texts() -> (Vec<Vec<u32>>, Tensor, Vec<usize>) {
    let texts: Vec<Vec<u32>> = vec![vec![3, 7, 11, 2, 49, 20, 1], vec![5], vec![8, 8, 30, 31]];
    let lengths: Vec<usize> = texts.iter().map(Vec::len).collect();
    let padded: Vec<u32> =
        texts.iter().flat_map(|t| (0..7).map(|i| t.get(i).copied().unwrap_or(13))).collect();
    (texts, Tensor::from_vec(padded, (3, 7), &Device::Cpu).unwrap(), lengths)
}

/// Values at real tokens, text after text.
fn real(hidden: &Tensor, lengths: &[usize]) -> Vec<f32> {
    let rows: Vec<Vec<Vec<f32>>> = hidden.to_vec3().unwrap();
    rows.iter().zip(lengths).flat_map(|(text, &n)| text[..n].concat()).collect()
}

fn worst(a: &[f32], b: &[f32]) -> f32 {
    assert_eq!(a.len(), b.len());
    a.iter().zip(b).map(|(x, y)| (x - y).abs()).fold(0.0, f32::max)
}

/// The inference path and both training paths are three programs for one function.
#[test]
fn packed_composed_and_fused_agree() {
    for activation in [Activation::GeluErf, Activation::GeluTanh, Activation::Relu] {
        let (transformer, _) = random(activation, 1);
        let (texts, ids, lengths) = texts();
        let composed =
            real(&transformer.forward(&ids, &lengths, Program::Composed(Precision::F32)).unwrap(), &lengths);
        let fused = real(&transformer.forward(&ids, &lengths, Program::Fused).unwrap(), &lengths);
        let slices: Vec<&[u32]> = texts.iter().map(Vec::as_slice).collect();
        let packed =
            PackedTransformer::new(&transformer, 2, EncoderPrecision::F32).unwrap().forward(&slices).unwrap();
        assert_eq!(packed.lengths, lengths);
        assert!(worst(&composed, &fused) < 1e-5, "{activation:?} fused {}", worst(&composed, &fused));
        assert!(worst(&composed, &packed.values) < 1e-5, "{activation:?} packed");
        // Not a test of constants.
        assert!(worst(&composed, &vec![0.0; composed.len()]) > 0.5);
    }
}

#[test]
fn fused_log_softmax_is_the_composed_one() {
    let device = &Device::Cpu;
    for (rows, width, scale) in [(1, 1, 3.0), (5, 7, 20.0), (3, 100, 0.5), (2, 33, 100.0)] {
        let values: Vec<f32> = (0..rows * width).map(|i| ((i * 37) % 101) as f32 / 50.0 - 1.0).collect();
        let x = Var::from_slice(&values, (rows, width), device).unwrap();
        let weights = values.iter().map(|x| x * x - 0.3).collect::<Vec<_>>();
        let weights = Tensor::from_vec(weights, (rows, width), device).unwrap();
        let composed =
            candle_nn::ops::log_softmax(&(x.as_tensor() * scale).unwrap(), candle_core::D::Minus1).unwrap();
        let fused = log_softmax(x.as_tensor(), scale).unwrap();
        let found = [composed, fused].map(|y| {
            let values: Vec<f32> = y.flatten_all().unwrap().to_vec1().unwrap();
            let gradients = (y * &weights).unwrap().sum_all().unwrap().backward().unwrap();
            let gradient = gradients.get(x.as_tensor()).unwrap();
            (values, gradient.flatten_all().unwrap().to_vec1::<f32>().unwrap())
        });
        assert!(worst(&found[0].0, &found[1].0) < 1e-4, "{rows} {width}");
        assert!(worst(&found[0].1, &found[1].1) < 1e-4 * scale as f32, "{rows} {width}");
    }
}

/// Eight bits keep the direction of every token, whatever the lengths of the texts.
#[test]
fn eight_bits_are_close() {
    for activation in [Activation::GeluErf, Activation::Relu] {
        let (transformer, _) = random(activation, 3);
        let (texts, _, _) = texts();
        let slices: Vec<&[u32]> = texts.iter().map(Vec::as_slice).collect();
        let [exact, close] = [EncoderPrecision::F32, EncoderPrecision::Int8].map(|precision| {
            PackedTransformer::new(&transformer, 2, precision).unwrap().forward(&slices).unwrap().values
        });
        let dot = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(x, y)| x * y).sum::<f32>();
        for (exact, close) in exact.chunks(HIDDEN).zip(close.chunks(HIDDEN)) {
            let cosine = dot(exact, close) / (dot(exact, exact) * dot(close, close)).sqrt();
            assert!(cosine > 0.999, "{activation:?}: {cosine}");
        }
        assert!(exact != close);
    }
}

/// A scalar that weighs every real value differently.
fn objective(hidden: &Tensor, lengths: &[usize]) -> Tensor {
    let (texts, tokens, m) = hidden.dims3().unwrap();
    let weights: Vec<f32> = (0..texts * tokens * m)
        .map(|i| {
            if (i / m) % tokens < lengths[i / (m * tokens)] {
                ((i * 37) % 19) as f32 / 19.0 - 0.4
            } else {
                0.0
            }
        })
        .collect();
    let weights = Tensor::from_vec(weights, (texts, tokens, m), &Device::Cpu).unwrap();
    (hidden * weights).unwrap().sum_all().unwrap()
}

/// Every tensor gets a gradient, and the fused operations give the composed ones'.
#[test]
fn gradients_reach_every_tensor_and_agree() {
    for activation in [Activation::GeluErf, Activation::GeluTanh, Activation::Relu] {
        let (transformer, vars) = random(activation, 2);
        let (_, ids, lengths) = texts();
        let stores = [Program::Composed(Precision::F32), Program::Fused].map(|program| {
            let hidden = transformer.forward(&ids, &lengths, program).unwrap();
            objective(&hidden, &lengths).backward().unwrap()
        });
        for (number, var) in vars.iter().enumerate() {
            let [composed, fused] = stores.each_ref().map(|store| -> Vec<f32> {
                let gradient =
                    store.get(var.as_tensor()).unwrap_or_else(|| panic!("tensor {number} has no gradient"));
                gradient.flatten_all().unwrap().to_vec1().unwrap()
            });
            let scale = composed.iter().map(|x| x.abs()).fold(0.0, f32::max);
            assert!(worst(&composed, &fused) < 1e-4 * scale.max(1.0), "{activation:?} tensor {number}");
        }
    }
}

/// bf16 keeps 8 bits, so values and gradients agree to a percent or so of their scale and no better.
#[test]
fn mixed_precision_is_close_in_values_and_gradients() {
    let (transformer, vars) = random(Activation::GeluErf, 4);
    let (_, ids, lengths) = texts();
    let [exact, mixed] = [Precision::F32, Precision::Bf16].map(|precision| {
        let hidden = transformer.forward(&ids, &lengths, Program::Composed(precision)).unwrap();
        let store = objective(&hidden, &lengths).backward().unwrap();
        let gradients: Vec<Vec<f32>> = vars
            .iter()
            .map(|var| store.get(var.as_tensor()).unwrap().flatten_all().unwrap().to_vec1().unwrap())
            .collect();
        (real(&hidden, &lengths), gradients)
    });
    let difference = worst(&exact.0, &mixed.0);
    assert!(difference > 1e-5 && difference < 0.1, "{difference}");
    for (number, (exact, mixed)) in exact.1.iter().zip(&mixed.1).enumerate() {
        let norm = |values: &[f32]| values.iter().map(|x| x * x).sum::<f32>().sqrt();
        let off: Vec<f32> = exact.iter().zip(mixed).map(|(a, b)| a - b).collect();
        // A key's bias has no gradient but that of the rounding.
        assert!(norm(&off) < 0.05 * norm(exact) + 0.02, "tensor {number}: {} of {}", norm(&off), norm(exact));
    }
}

/// Gradients against central differences, for a weight of each kind.
#[test]
fn gradients_match_finite_differences() {
    let (transformer, vars) = random(Activation::GeluErf, 3);
    let (_, ids, lengths) = texts();
    let value = || -> f32 {
        let hidden = transformer.forward(&ids, &lengths, Program::Fused).unwrap();
        objective(&hidden, &lengths).to_scalar().unwrap()
    };
    let hidden = transformer.forward(&ids, &lengths, Program::Fused).unwrap();
    let store = objective(&hidden, &lengths).backward().unwrap();
    for var in &vars[..16] {
        let gradient: Vec<f32> =
            store.get(var.as_tensor()).unwrap().flatten_all().unwrap().to_vec1().unwrap();
        let start = var.as_tensor().copy().unwrap();
        let flat: Vec<f32> = start.flatten_all().unwrap().to_vec1().unwrap();
        let at = gradient.len() / 2;
        let moved = |step: f32| {
            let mut values = flat.clone();
            values[at] += step;
            var.set(&Tensor::from_vec(values, start.dims(), &Device::Cpu).unwrap()).unwrap();
            value()
        };
        let step = 2e-2;
        let slope = (moved(step) - moved(-step)) / (2.0 * step);
        var.set(&start).unwrap();
        let tolerance = 2e-2 * gradient[at].abs() + 2e-2;
        assert!((slope - gradient[at]).abs() < tolerance, "{slope} {} {:?}", gradient[at], start.dims());
    }
}
