//! The CPU inference path: packed tokens, no padding, fused element-wise steps.
//!
//! The texts of a micro-batch lie one behind another in one `[tokens, m]` matrix,
//! so that the big products see no padding; attention runs text by text. A micro-batch is one
//! thread's work.

mod attention;
mod layer;
mod linear;

use candle_core::{Device, Tensor};

use super::config::{EncoderPrecision, TransformerConfig};
use super::error::ModelError;
use super::kernels;
use super::transformer::{Layer, LayerNorm, Transformer};
use layer::{PackedLayer, Scratch};
pub(super) use linear::{PackedLinear, Then};

/// Tokens in one micro-batch: enough to fill the matrix kernels, few enough to stay in cache.
pub(crate) const TOKENS_PER_BATCH: usize = 96;

/// A transformer prepared for inference: packed weights, biases as slices.
pub(crate) struct PackedTransformer {
    word: Vec<f32>,
    position: Vec<f32>,
    norm: PackedNorm,
    layers: PackedLayers,
}

struct PackedNorm {
    weight: Vec<f32>,
    bias: Vec<f32>,
    eps: f32,
}

/// Hidden states of a micro-batch: `[tokens, m]` f32, texts one behind another.
pub(crate) struct PackedHidden {
    pub values: Vec<f32>,
    pub lengths: Vec<usize>,
}

fn to_vec(t: &Tensor) -> candle_core::Result<Vec<f32>> {
    t.to_device(&Device::Cpu)?.flatten_all()?.to_vec1()
}

impl PackedNorm {
    fn new(norm: &LayerNorm) -> candle_core::Result<Self> {
        Ok(Self { weight: to_vec(&norm.weight)?, bias: to_vec(&norm.bias)?, eps: norm.eps as f32 })
    }
}

impl PackedTransformer {
    /// Prepares the first `layers` layers.
    pub(crate) fn new(
        transformer: &Transformer,
        layers: usize,
        precision: EncoderPrecision,
    ) -> candle_core::Result<Self> {
        let e = &transformer.embeddings;
        Ok(Self {
            word: to_vec(&e.word)?,
            position: to_vec(&e.position)?,
            norm: PackedNorm::new(&e.norm)?,
            layers: PackedLayers::new(&transformer.layers[..layers], &transformer.config, precision)?,
        })
    }

    /// Hidden states after the prepared layers.
    ///
    /// # Errors
    /// [`ModelError::OutsideTable`] for a text longer than the position table, or an id beyond the
    /// vocabulary.
    pub(crate) fn forward(&self, texts: &[&[u32]]) -> Result<PackedHidden, ModelError> {
        let m = self.norm.weight.len();
        let lengths: Vec<usize> = texts.iter().map(|t| t.len()).collect();
        let total: usize = lengths.iter().sum();
        let mut values = Vec::with_capacity(total * m);
        for text in texts {
            let mut places = self.position.chunks_exact(m);
            for &id in *text {
                let word = self.word.get(id as usize * m..).and_then(|rest| rest.get(..m));
                let outside = |what, found, table: &[f32]| ModelError::OutsideTable {
                    what,
                    found,
                    rows: table.len() / m,
                };
                let word = word.ok_or_else(|| outside("an id", id as usize, &self.word))?;
                let place = places.next().ok_or_else(|| outside("a text", text.len(), &self.position))?;
                values.extend(word.iter().zip(place).map(|(a, b)| a + b));
            }
        }
        kernels::norm(&mut values, &self.norm.weight, &self.norm.bias, self.norm.eps);
        Ok(self.layers.forward(PackedHidden { values, lengths }))
    }
}

/// Layers alone, over hidden states that another pass left behind.
pub(crate) struct PackedLayers {
    layers: Vec<PackedLayer>,
}

impl PackedLayers {
    /// Prepares `layers`, which may be training variables.
    pub(crate) fn new(
        layers: &[Layer],
        config: &TransformerConfig,
        precision: EncoderPrecision,
    ) -> candle_core::Result<Self> {
        let layers = layers.iter().map(|layer| PackedLayer::new(layer, config, precision));
        Ok(Self { layers: layers.collect::<candle_core::Result<_>>()? })
    }

    /// Shapes: `values` `[sum of lengths, m]`; the same on return.
    pub(crate) fn forward(&self, mut hidden: PackedHidden) -> PackedHidden {
        let mut scratch = Scratch::default();
        for (i, layer) in self.layers.iter().enumerate() {
            let next = self.layers.get(i + 1).map_or(&[][..], PackedLayer::first);
            layer.forward(&mut hidden.values, &hidden.lengths, next, &mut scratch);
        }
        hidden
    }
}
