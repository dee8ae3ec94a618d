//! The weights of a query encoder, and their file.

use std::path::Path;

#[cfg(feature = "train")]
use half::f16;
use safetensors::Dtype;
#[cfg(feature = "train")]
use safetensors::tensor::TensorView;

use super::super::error::ModelError;
use super::super::weights::Weights;
use super::table::{SIGNALS, TokenTable};
use super::{Head, LoadedQueryEncoder};

/// Names of the tensors.
const TOKENS: &str = "tokens";
const SCALES: &str = "scales";
const WEIGHTS: &str = "weights";
const SEEN: &str = "seen";
const LINEAR: &str = "linear.weight";
const BIAS: &str = "linear.bias";
const HIDDEN: &str = "hidden.weight";
const HIDDEN_BIAS: &str = "hidden.bias";
const OUTPUT: &str = "output.weight";
const CONFIDENCE: &str = "confidence";

/// Largest value of a token's vector in eight bits.
#[cfg(feature = "train")]
const LARGEST: f32 = 127.0;

/// The head: `A p + b + C relu(D p + e)`.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct HeadWeights {
    /// A, `[dim, dim]`, row-major by output.
    pub linear: Vec<f32>,
    /// b, `[dim]`
    pub bias: Vec<f32>,
    /// D, `[width, dim]`
    pub hidden: Vec<f32>,
    /// e, `[width]`
    pub hidden_bias: Vec<f32>,
    /// C, `[dim, width]`
    pub output: Vec<f32>,
}

/// A static query encoder in f32, as trained.
#[cfg(feature = "train")]
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct StaticWeights {
    pub dim: usize,
    /// `[vocabulary, dim]`
    pub table: Vec<f32>,
    /// `[vocabulary]`, above 0.
    pub weights: Vec<f32>,
    /// `[vocabulary]`: whether training saw a token often enough.
    pub seen: Vec<bool>,
    pub head: HeadWeights,
    /// Weights of the signals in the confidence, a weighted sum.
    pub confidence: [f32; SIGNALS],
}

#[cfg(feature = "train")]
impl StaticWeights {
    /// The content of the file: vectors of tokens in eight bits with a scale each, matrices in f16, the rest
    /// in f32.
    pub fn to_bytes(&self) -> Result<Vec<u8>, ModelError> {
        let (dim, vocabulary) = (self.dim, self.weights.len());
        let (mut values, mut scales) = (Vec::with_capacity(self.table.len()), Vec::with_capacity(vocabulary));
        for row in self.table.chunks_exact(dim) {
            let scale = row.iter().fold(0f32, |most, x| most.max(x.abs())) / LARGEST;
            let inverse = if scale > 0.0 { 1.0 / scale } else { 0.0 };
            values.extend(row.iter().map(|x| (x * inverse).round().clamp(-LARGEST, LARGEST) as i8));
            scales.push(scale);
        }
        let seen: Vec<u8> = self.seen.iter().map(|seen| u8::from(*seen)).collect();
        let half = |values: &[f32]| values.iter().map(|x| f16::from_f32(*x)).collect::<Vec<_>>();
        let head = &self.head;
        let [linear, hidden, output] = [&head.linear, &head.hidden, &head.output].map(|own| half(own));
        let width = head.hidden_bias.len();
        let tensors: [(&str, Dtype, Vec<usize>, &[u8]); 10] = [
            (TOKENS, Dtype::I8, vec![vocabulary, dim], bytemuck::cast_slice(&values)),
            (SCALES, Dtype::F32, vec![vocabulary], bytemuck::cast_slice(&scales)),
            (WEIGHTS, Dtype::F32, vec![vocabulary], bytemuck::cast_slice(&self.weights)),
            (SEEN, Dtype::U8, vec![vocabulary], &seen),
            (LINEAR, Dtype::F16, vec![dim, dim], bytemuck::cast_slice(&linear)),
            (BIAS, Dtype::F32, vec![dim], bytemuck::cast_slice(&head.bias)),
            (HIDDEN, Dtype::F16, vec![width, dim], bytemuck::cast_slice(&hidden)),
            (HIDDEN_BIAS, Dtype::F32, vec![width], bytemuck::cast_slice(&head.hidden_bias)),
            (OUTPUT, Dtype::F16, vec![dim, width], bytemuck::cast_slice(&output)),
            (CONFIDENCE, Dtype::F32, vec![SIGNALS], bytemuck::cast_slice(&self.confidence)),
        ];
        let error = |source| ModelError::safetensors("query.safetensors", source);
        let views = tensors
            .into_iter()
            .map(|(name, dtype, shape, data)| Ok((name, TensorView::new(dtype, shape, data)?)));
        let views = views.collect::<Result<Vec<_>, safetensors::SafeTensorError>>().map_err(error)?;
        safetensors::serialize(views, None).map_err(error)
    }
}

impl LoadedQueryEncoder {
    /// Reads a file for an encoder with this vocabulary size and embedding width.
    ///
    /// # Errors
    /// [`ModelError::Safetensors`], [`ModelError::BadTensor`].
    pub fn from_bytes(
        bytes: Vec<u8>,
        path: &Path,
        vocabulary: usize,
        dim: usize,
    ) -> Result<Self, ModelError> {
        let file = Weights::from_bytes(path, bytes)?;
        let width = file.shape(HIDDEN_BIAS).and_then(|shape| shape.first().copied()).unwrap_or_default();
        if width == 0 {
            return Err(ModelError::tensor_shape(path, HIDDEN_BIAS, &[0], &[2 * dim]));
        }
        let values = file.bytes(TOKENS, Dtype::I8, &[vocabulary, dim])?;
        let values: Vec<i8> = values.iter().map(|x| *x as i8).collect();
        let scales = file.values(SCALES, &[vocabulary])?;
        let norm = |(row, scale): (&[i8], &f32)| {
            scale * (row.iter().map(|x| i32::from(*x) * i32::from(*x)).sum::<i32>() as f32).sqrt()
        };
        let norms = values.chunks_exact(dim).zip(&scales).map(norm).collect();
        let seen = file.bytes(SEEN, Dtype::U8, &[vocabulary])?.iter().map(|x| *x != 0).collect();
        let weights = file.values(WEIGHTS, &[vocabulary])?;
        let head = Head::new(HeadWeights {
            linear: file.values(LINEAR, &[dim, dim])?,
            bias: file.values(BIAS, &[dim])?,
            hidden: file.values(HIDDEN, &[width, dim])?,
            hidden_bias: file.values(HIDDEN_BIAS, &[width])?,
            output: file.values(OUTPUT, &[dim, width])?,
        });
        let mut confidence = [0.0; SIGNALS];
        confidence.copy_from_slice(&file.values(CONFIDENCE, &[SIGNALS])?);
        Ok(Self { table: TokenTable { values, scales, weights, norms, seen, dim }, head, confidence })
    }
}
