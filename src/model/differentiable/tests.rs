use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::*;
use crate::model::config::{
    Activation, EncoderPrecision, Family, FeedForward, PositionTable, RelativePositions, Span,
};
use crate::model::error::ModelError;
use crate::model::packed::{PackedLayers, PackedTransformer};
use crate::model::transformer::{GetWeight, Transformer};
use crate::model::weights::Weight;
use crate::model::words::WordTable;
use candle_core::{Device, Var};

const HIDDEN: usize = 24;
const VOCABULARY: usize = 50;

/// A small BERT.
fn bert(activation: Activation) -> TransformerConfig {
    TransformerConfig {
        family: Family::Bert,
        vocab_size: VOCABULARY,
        hidden_size: HIDDEN,
        layers: 2,
        heads: 3,
        max_positions: 16,
        position_table: Some(PositionTable { rows: 16, padding: None }),
        relative_positions: None,
        type_vocab_size: 2,
        embedding_norm: true,
        norms: Norms::After,
        layer_norm_eps: 1e-12,
        norm_bias: true,
        attention_bias: true,
        feed_forward: FeedForward { inner_size: 40, activation, gated: false, bias: true },
        spans: vec![Span::default(); 2],
    }
}

/// Small encoders of every family, and the number of their layout.
fn descriptions() -> Vec<(&'static str, TransformerConfig, usize)> {
    let gelu = || bert(Activation::GeluErf);
    let padded = |rows: usize| Some(PositionTable { rows, padding: Some(1) });
    let nomic = TransformerConfig {
        family: Family::NomicBert,
        position_table: None,
        attention_bias: false,
        feed_forward: FeedForward { inner_size: 40, activation: Activation::Silu, gated: true, bias: false },
        spans: vec![Span { window: None, theta: Some(100.0) }; 2],
        ..gelu()
    };
    // Windows of one token on either side, so that in texts of four tokens some are not visible.
    let modern = TransformerConfig {
        family: Family::ModernBert,
        layers: 3,
        type_vocab_size: 0,
        norms: Norms::Before,
        norm_bias: false,
        feed_forward: FeedForward { activation: Activation::GeluErf, ..nomic.feed_forward },
        spans: vec![
            Span { window: None, theta: Some(1000.0) },
            Span { window: Some(1), theta: Some(50.0) },
            Span { window: Some(2), theta: Some(50.0) },
        ],
        ..nomic.clone()
    };
    let feed_forward = FeedForward { bias: true, activation: Activation::GeluTanh, ..modern.feed_forward };
    let biased = TransformerConfig { norm_bias: true, attention_bias: true, feed_forward, ..modern.clone() };
    let relative_positions = Some(RelativePositions { buckets: 8, farthest: 6 });
    vec![
        ("bert", gelu(), 0),
        ("bert, tanh", bert(Activation::GeluTanh), 0),
        ("bert, relu", bert(Activation::Relu), 0),
        ("bert, silu", bert(Activation::Silu), 0),
        ("distilbert", TransformerConfig { family: Family::DistilBert, type_vocab_size: 0, ..gelu() }, 0),
        ("roberta", TransformerConfig { position_table: padded(18), type_vocab_size: 1, ..gelu() }, 0),
        (
            "mpnet",
            TransformerConfig {
                family: Family::MpNet,
                position_table: padded(18),
                type_vocab_size: 0,
                relative_positions,
                ..gelu()
            },
            0,
        ),
        ("nomic, published", nomic.clone(), 0),
        ("nomic, native", nomic, 1),
        ("modernbert", modern, 0),
        ("modernbert, biases", biased, 0),
    ]
}

impl Transformer<Tensor> {
    /// Hidden states of a padded batch after the last layer, every operation differentiable.
    ///
    /// # Shapes
    /// `ids` `[batch, tokens]` u32, with any padding after each length; output `[batch, tokens, m]` f32.
    fn forward(&self, ids: &Tensor, lengths: &[usize], program: Program) -> candle_core::Result<Tensor> {
        let mask = AttentionMask::with_program(lengths, ids.dim(1)?, ids.device(), program)?;
        let x = self.embeddings.forward(ids, program, &self.config)?;
        self.stack.forward(x, &mask, &self.config)
    }

    /// A transformer of given tensors; `layout` is the number of the family's layout.
    fn of_tensors(
        config: TransformerConfig,
        layout: usize,
        get: GetWeight<'_, Tensor>,
    ) -> Result<Self, ModelError> {
        let layout = &config.family.layouts()[layout];
        let word = WordTable::trained(&get(layout.word, &[config.vocab_size, config.hidden_size])?)?;
        Self::build(config, layout, word, get)
    }
}

/// A small random BERT whose tensors are all variables.
pub(crate) fn random(activation: Activation, seed: u64) -> (Transformer<Tensor>, Vec<(String, Var)>) {
    random_of(bert(activation), 0, seed)
}

/// A random transformer whose tensors are all variables, by their names in files.
fn random_of(
    config: TransformerConfig,
    layout: usize,
    seed: u64,
) -> (Transformer<Tensor>, Vec<(String, Var)>) {
    random_on(&Device::Cpu, config, layout, seed)
}

/// As [`random_of`], on a device.
fn random_on(
    device: &Device,
    config: TransformerConfig,
    layout: usize,
    seed: u64,
) -> (Transformer<Tensor>, Vec<(String, Var)>) {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let mut vars = Vec::new();
    let mut tensor = |name: &str, shape: &[usize]| {
        let is_norm = shape.len() == 1 && name.ends_with("weight");
        let (mean, std) = match name {
            _ if is_norm => (1.0, 0.2),
            _ if name.contains("embeddings") && shape.len() == 2 => (0.0, 1.0),
            _ if name.contains("relative") => (0.0, 1.0),
            _ => (0.0, 0.3),
        };
        let count: usize = shape.iter().product();
        // Uniform, of this standard deviation.
        let half_width = std * 3f32.sqrt();
        let values: Vec<f32> =
            (0..count).map(|_| mean + half_width * (2.0 * rng.random::<f32>() - 1.0)).collect();
        let var = Var::from_tensor(&Tensor::from_vec(values, shape, device)?)?;
        vars.push((name.to_owned(), var.clone()));
        Ok(var.as_tensor().clone())
    };
    let transformer = Transformer::of_tensors(config, layout, &mut tensor).unwrap();
    (transformer, vars)
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

/// The inference path and both training paths compute the same function.
#[test]
fn packed_composed_and_fused_agree() {
    for (name, config, layout) in descriptions() {
        let layers = config.layers;
        let (transformer, vars) = random_of(config.clone(), layout, 1);
        let (texts, ids, lengths) = texts();
        let composed = real(&transformer.forward(&ids, &lengths, Program::Composed).unwrap(), &lengths);
        let fused = real(&transformer.forward(&ids, &lengths, Program::Fused).unwrap(), &lengths);
        let slices: Vec<&[u32]> = texts.iter().map(Vec::as_slice).collect();
        let packed = PackedTransformer::new(&transformer, layers, EncoderPrecision::F32).unwrap();
        let packed = packed.forward(&slices).unwrap();
        assert_eq!(packed.lengths, lengths);
        assert!(worst(&composed, &fused) < 1e-5, "{name} fused {}", worst(&composed, &fused));
        assert!(
            worst(&composed, &packed.values) < 1e-5,
            "{name} packed {}",
            worst(&composed, &packed.values)
        );
        let mut read = |name: &str, _: &[usize]| {
            Ok(vars.iter().find(|(own, _)| own == name).unwrap().1.values()?.into_owned())
        };
        let layout = &config.family.layouts()[layout];
        let word = WordTable::held(read(layout.word, &[]).unwrap(), [VOCABULARY, HIDDEN]);
        let without_tensors = Transformer::<Vec<f32>>::build(config, layout, word, &mut read).unwrap();
        let again = PackedTransformer::new(&without_tensors, layers, EncoderPrecision::F32).unwrap();
        assert_eq!(again.forward(&slices).unwrap().values, packed.values, "{name}");
        // Not a test of constants.
        assert!(worst(&composed, &vec![0.0; composed.len()]) > 0.5);
    }
}

/// The first layers followed by the last ones equal the whole encoder.
#[test]
fn first_and_last_layers_make_the_whole() {
    for (name, config, layout) in descriptions() {
        let (transformer, _) = random_of(config, layout, 5);
        let (texts, _, _) = texts();
        let slices: Vec<&[u32]> = texts.iter().map(Vec::as_slice).collect();
        let config = &transformer.config;
        let pass = |layers| PackedTransformer::new(&transformer, layers, EncoderPrecision::F32).unwrap();
        let whole = pass(config.layers).forward(&slices).unwrap().values;
        for first in 0..=config.layers {
            let layers = config.layers - first;
            let last = transformer.stack.last(layers);
            let last = PackedLayers::new(&last, layers, config, EncoderPrecision::F32).unwrap();
            let joined = last.forward(pass(first).forward(&slices).unwrap()).values;
            assert_eq!(joined, whole, "{name} cut at {first}");
        }
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

/// Eight bits preserve the direction of every token, at any text length.
#[test]
fn eight_bits_are_close() {
    for (name, config, layout) in descriptions() {
        let layers = config.layers;
        // Without a norm after the layers, their errors remain.
        let least = if config.norms == Norms::Before { 0.995 } else { 0.999 };
        let (transformer, _) = random_of(config, layout, 3);
        let (texts, _, _) = texts();
        let slices: Vec<&[u32]> = texts.iter().map(Vec::as_slice).collect();
        let [exact, close] = [EncoderPrecision::F32, EncoderPrecision::Int8].map(|precision| {
            PackedTransformer::new(&transformer, layers, precision).unwrap().forward(&slices).unwrap().values
        });
        let dot = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(x, y)| x * y).sum::<f32>();
        for (exact, close) in exact.chunks(HIDDEN).zip(close.chunks(HIDDEN)) {
            let cosine = dot(exact, close) / (dot(exact, exact) * dot(close, close)).sqrt();
            assert!(cosine > least, "{name}: {cosine}");
        }
        assert!(exact != close);
    }
}

/// Weighs every real value differently.
fn objective_weights(hidden: &Tensor, lengths: &[usize]) -> Vec<f32> {
    let (texts, tokens, m) = hidden.dims3().unwrap();
    let is_real = |i: usize| (i / m) % tokens < lengths[i / (m * tokens)];
    let weight = |i: usize| if is_real(i) { ((i * 37) % 19) as f32 / 19.0 - 0.4 } else { 0.0 };
    (0..texts * tokens * m).map(weight).collect()
}

fn objective(hidden: &Tensor, lengths: &[usize]) -> Tensor {
    let weights = objective_weights(hidden, lengths);
    let weights = Tensor::from_vec(weights, hidden.dims(), &Device::Cpu).unwrap();
    (hidden * weights).unwrap().sum_all().unwrap()
}

/// Every tensor gets a gradient, and the fused operations give the composed ones'.
#[test]
fn gradients_reach_every_tensor_and_agree() {
    for (name, config, layout) in descriptions() {
        let (transformer, vars) = random_of(config, layout, 2);
        let (_, ids, lengths) = texts();
        let stores = [Program::Composed, Program::Fused].map(|program| {
            let hidden = transformer.forward(&ids, &lengths, program).unwrap();
            objective(&hidden, &lengths).backward().unwrap()
        });
        for (tensor, var) in &vars {
            let [composed, fused] = stores.each_ref().map(|store| -> Vec<f32> {
                let gradient = store.get(var.as_tensor());
                let gradient = gradient.unwrap_or_else(|| panic!("{name}: {tensor} has no gradient"));
                gradient.flatten_all().unwrap().to_vec1().unwrap()
            });
            let scale = composed.iter().map(|x| x.abs()).fold(0.0, f32::max);
            // A key's bias does not change attention weights.
            let is_key_bias =
                ["key.bias", "k.bias", "k_lin.bias", "k_proj.bias"].iter().any(|end| tensor.ends_with(end));
            assert!(scale > 1e-3 || is_key_bias, "{name}: {tensor} has gradient {scale}");
            let off = worst(&composed, &fused);
            assert!(off < 1e-4 * scale.max(1.0), "{name} tensor {tensor}: {off} of {scale}");
        }
    }
}

/// Gradients against central differences, for every tensor.
#[test]
fn gradients_match_finite_differences() {
    for (name, config, layout) in descriptions() {
        let (transformer, vars) = random_of(config.clone(), layout, 3);
        let (_, ids, lengths) = texts();
        let value = |transformer: &Transformer<Tensor>| -> f64 {
            let hidden = transformer.forward(&ids, &lengths, Program::Fused).unwrap();
            let values: Vec<f32> = hidden.flatten_all().unwrap().to_vec1().unwrap();
            // In f64, so that the difference of two values keeps some digits.
            let weights = objective_weights(&hidden, &lengths);
            values.iter().zip(weights).map(|(x, w)| f64::from(*x) * f64::from(w)).sum()
        };
        let hidden = transformer.forward(&ids, &lengths, Program::Fused).unwrap();
        let store = objective(&hidden, &lengths).backward().unwrap();
        for (tensor, var) in &vars {
            let gradient: Vec<f32> =
                store.get(var.as_tensor()).unwrap().flatten_all().unwrap().to_vec1().unwrap();
            let start = var.as_tensor().copy().unwrap();
            let flat: Vec<f32> = start.flatten_all().unwrap().to_vec1().unwrap();
            // The steepest value; others drown in rounding.
            let steeper = |a: &usize, b: &usize| gradient[*a].abs().total_cmp(&gradient[*b].abs());
            let at = (0..gradient.len()).max_by(steeper).unwrap();
            let moved = |step: f32| {
                let mut values = flat.clone();
                values[at] += step;
                let moved = Tensor::from_vec(values, start.dims(), &Device::Cpu).unwrap();
                var.set(&moved).unwrap();
                // Tables are summed when they are loaded.
                let read = &mut |name: &str, _: &[usize]| {
                    Ok(vars.iter().find(|(own, _)| own == name).unwrap().1.as_tensor().clone())
                };
                value(&Transformer::of_tensors(config.clone(), layout, read).unwrap())
            };
            let step = 3e-3;
            let slope = ((moved(step) - moved(-step)) / (2.0 * f64::from(step))) as f32;
            var.set(&start).unwrap();
            let tolerance = 1e-2 * gradient[at].abs() + 5e-3;
            assert!((slope - gradient[at]).abs() < tolerance, "{name} {tensor}: {slope} {}", gradient[at]);
        }
    }
}

/// A GPU computes the hidden states and gradients of the CPU, for every family. Needs a GPU.
#[cfg(feature = "cuda")]
#[test]
fn a_gpu_agrees_with_the_cpu() {
    let gpu = Device::new_cuda(0).unwrap();
    for (name, config, layout) in descriptions() {
        let (_, ids, lengths) = texts();
        let runs = [(&Device::Cpu, Program::Fused), (&gpu, Program::Composed)].map(|(device, program)| {
            let (transformer, vars) = random_on(device, config.clone(), layout, 2);
            let ids = ids.to_device(device).unwrap();
            let mask = AttentionMask::with_program(&lengths, 7, device, program).unwrap();
            let x = transformer.embeddings.forward(&ids, program, &config).unwrap();
            let hidden = transformer.stack.forward(x, &mask, &config).unwrap();
            let hidden = hidden.to_device(&Device::Cpu).unwrap();
            (real(&hidden, &lengths), mask.backward(&objective(&hidden, &lengths)).unwrap(), vars)
        });
        let [(expected, ..), (found, ..)] = &runs;
        assert!(worst(expected, found) < 1e-5, "{name}: {}", worst(expected, found));
        for (at, (tensor, _)) in runs[0].2.iter().enumerate() {
            let [expected, found] = runs.each_ref().map(|(_, store, vars)| -> Vec<f32> {
                let gradient = store.get(vars[at].1.as_tensor());
                let gradient = gradient.unwrap_or_else(|| panic!("{name}: {tensor} has no gradient"));
                gradient.flatten_all().unwrap().to_vec1().unwrap()
            });
            let scale = expected.iter().map(|x| x.abs()).fold(1.0, f32::max);
            let off = worst(&expected, &found);
            assert!(off < 1e-4 * scale, "{name} tensor {tensor}: {off} of {scale}");
        }
    }
}
