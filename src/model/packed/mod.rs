//! The CPU inference path: packed tokens, no padding, fused element-wise steps.
//!
//! The texts of a micro-batch are concatenated in one `[tokens, m]` matrix, so that the large products have
//! no padding; attention runs text by text. One thread processes a micro-batch.

mod attention;
mod layer;
mod linear;
mod norm;
mod places;

use std::borrow::Cow;
use std::sync::Arc;

use super::config::{self, EncoderPrecision, PositionTable, TransformerConfig};
use super::error::ModelError;
use super::rotation::Rotation;
use super::transformer::{Stack, Transformer};
use super::weights::Weight;
use super::words::WordTable;
use layer::{PackedLayer, Scratch};
pub(super) use linear::{PackedLinear, products_in_bytes};
use norm::PackedNorm;
use places::PlaceBias;

/// Tokens in one micro-batch: enough to fill the matrix kernels, few enough to stay in cache.
pub(crate) const TOKENS_PER_BATCH: usize = 96;

/// A transformer prepared for inference: packed weights, biases as slices.
pub(crate) struct PackedTransformer {
    words: WordTable,
    position: Vec<f32>,
    position_table: Option<PositionTable>,
    max_positions: usize,
    norm: Option<PackedNorm>,
    layers: PackedLayers,
}

/// Hidden states of a micro-batch: `[tokens, m]` f32, texts concatenated.
pub(crate) struct PackedHidden {
    pub values: Vec<f32>,
    pub lengths: Vec<usize>,
}

impl PackedTransformer {
    /// Prepares the first `layers` layers.
    pub(crate) fn new(
        transformer: &Transformer<impl Weight>,
        layers: usize,
        precision: EncoderPrecision,
    ) -> Result<Self, ModelError> {
        let (e, config) = (&transformer.embeddings, &transformer.config);
        Ok(Self {
            words: e.word.to_read()?,
            position: e.position.as_ref().map_or(Ok(Vec::new()), |own| own.values().map(Cow::into_owned))?,
            position_table: config.position_table,
            max_positions: config.max_positions,
            norm: e.norm.as_ref().map(|norm| PackedNorm::new(norm, config.layer_norm_eps)).transpose()?,
            layers: PackedLayers::new(&transformer.stack, layers, config, precision)?,
        })
    }

    /// Hidden states after the prepared layers.
    ///
    /// # Errors
    /// [`ModelError::OutsideTable`] for a text longer than the positions, or an id beyond the
    /// vocabulary.
    pub(crate) fn forward(&self, texts: &[&[u32]]) -> Result<PackedHidden, ModelError> {
        self.forward_with(texts, &|_, _| None)
    }

    /// As [`Self::forward`]; `added` may return a row, `[m]`, to add to the embedding of a token, given the
    /// text's number and the token's position.
    pub(crate) fn forward_with<'a>(
        &self,
        texts: &[&[u32]],
        added: &dyn Fn(usize, usize) -> Option<&'a [f32]>,
    ) -> Result<PackedHidden, ModelError> {
        let m = self.words.width;
        let lengths: Vec<usize> = texts.iter().map(|t| t.len()).collect();
        let outside = |found| ModelError::OutsideTable { what: "a text", found, rows: self.max_positions };
        if let Some(&length) = lengths.iter().find(|&&length| length > self.max_positions) {
            return Err(outside(length));
        }
        let mut values = self.words.rows(texts.iter().copied().flatten())?;
        let mut rows = values.chunks_exact_mut(m);
        for (number, text) in texts.iter().enumerate() {
            let places = config::places(self.position_table, text).enumerate();
            for ((at, place), row) in places.zip(rows.by_ref()) {
                let mut add = |own: &[f32]| row.iter_mut().zip(own).for_each(|(value, own)| *value += own);
                if !self.position.is_empty() {
                    let own = self.position.get(place * m..(place + 1) * m);
                    add(own.ok_or_else(|| outside(text.len()))?);
                }
                if let Some(own) = added(number, at) {
                    add(own);
                }
            }
        }
        if let Some(norm) = &self.norm {
            norm.apply_in_place(&mut values);
        }
        Ok(self.layers.forward(PackedHidden { values, lengths }))
    }
}

/// Only the layers, applied to hidden states from another pass.
pub(crate) struct PackedLayers {
    layers: Vec<PackedLayer>,
    bias: Option<PlaceBias>,
    final_norm: Option<PackedNorm>,
}

impl PackedLayers {
    /// Prepares the first `layers` layers of `stack`, with the final norm if they include the last one.
    pub(crate) fn new(
        stack: &Stack<impl Weight>,
        layers: usize,
        config: &TransformerConfig,
        precision: EncoderPrecision,
    ) -> Result<Self, ModelError> {
        let mut rotations: Vec<(f32, Arc<Rotation>)> = Vec::new();
        let mut rotation = |theta: f32| {
            if let Some((_, known)) = rotations.iter().find(|(own, _)| *own == theta) {
                return Arc::clone(known);
            }
            let new = Arc::new(Rotation::new(theta, config.head_size(), config.rotated_positions()));
            rotations.push((theta, Arc::clone(&new)));
            new
        };
        let final_norm = stack.final_norm.as_ref().filter(|_| layers == stack.layers.len());
        let layers = stack.layers[..layers]
            .iter()
            .map(|layer| PackedLayer::new(layer, layer.span.theta.map(&mut rotation), config, precision));
        let bias = match (&stack.relative_bias, config.relative_positions) {
            (Some(table), Some(relative)) => {
                Some(PlaceBias::new(&table.values()?, relative, config.heads, config.max_positions))
            }
            _ => None,
        };
        Ok(Self {
            layers: layers.collect::<Result<_, _>>()?,
            bias,
            final_norm: final_norm.map(|norm| PackedNorm::new(norm, config.layer_norm_eps)).transpose()?,
        })
    }

    /// Shapes: `values` `[sum of lengths, m]`; the same on return.
    pub(crate) fn forward(&self, mut hidden: PackedHidden) -> PackedHidden {
        let mut scratch = Scratch::default();
        let PackedHidden { values, lengths } = &mut hidden;
        for (i, layer) in self.layers.iter().enumerate() {
            let next = self.layers.get(i + 1).map_or(&[][..], PackedLayer::first);
            layer.forward(values, lengths, self.bias.as_ref(), next, &mut scratch);
        }
        if let Some(norm) = &self.final_norm {
            norm.apply_in_place(values);
        }
        hidden
    }
}
