//! The trainable upper layers of the encoder.

use std::sync::Mutex;

use candle_core::{Device, Tensor, Var};
use rayon::prelude::*;

use super::optimizer::{Gradients, Parameter};
use super::trunk::TrunkCache;
use crate::error::Result;
use crate::model::{
    AttentionMask, Encoder, Layer, LayerNorm, Linear, ModelError, PackedTail, pool_packed, pool_padded,
};

/// The last layers of an encoder as variables, on top of a [`TrunkCache`].
pub(crate) struct Tail<'a> {
    encoder: &'a Encoder,
    layers: Vec<Layer>,
    parameters: Vec<Parameter>,
    device: Device,
}

/// The forward pass of some texts, kept for its backward pass.
pub(crate) struct Forward {
    parts: Vec<Part>,
    rows: usize,
}

struct Part {
    /// Where in the batch the rows of `embeddings` belong.
    positions: Vec<usize>,
    embeddings: Tensor,
}

/// Padded tokens in one part of a batch; each part has a graph of its own.
const TOKENS_PER_PART: usize = 1024;
/// Tokens per micro-batch without gradient.
const TOKENS_PER_BATCH: usize = 2048;

impl<'a> Tail<'a> {
    /// Copies the last `count` layers of `encoder` into variables on `device`.
    pub(crate) fn new(encoder: &'a Encoder, count: usize, device: &Device) -> candle_core::Result<Self> {
        let all = &encoder.transformer.layers;
        let first = all.len() - count;
        let mut parameters = Vec::new();
        let mut layers = Vec::new();
        for (index, layer) in all.iter().enumerate().skip(first) {
            let mut variable = |part: &str, tensor: &Tensor| -> candle_core::Result<Tensor> {
                let var = Var::from_tensor(&tensor.to_device(device)?.copy()?)?;
                let shared = var.as_tensor().clone();
                parameters.push(Parameter { name: format!("encoder.layer.{index}.{part}"), var });
                Ok(shared)
            };
            let mut linear = |part: &str, linear: &Linear| -> candle_core::Result<Linear> {
                Ok(Linear {
                    weight: variable(&format!("{part}.weight"), &linear.weight)?,
                    bias: variable(&format!("{part}.bias"), &linear.bias)?,
                })
            };
            let query = linear("query", &layer.query)?;
            let key = linear("key", &layer.key)?;
            let value = linear("value", &layer.value)?;
            let attention_output = linear("attention_output", &layer.attention_output)?;
            let intermediate = linear("intermediate", &layer.intermediate)?;
            let output = linear("output", &layer.output)?;
            let mut norm = |part: &str, norm: &LayerNorm| -> candle_core::Result<LayerNorm> {
                Ok(LayerNorm {
                    weight: variable(&format!("{part}.weight"), &norm.weight)?,
                    bias: variable(&format!("{part}.bias"), &norm.bias)?,
                    eps: norm.eps,
                })
            };
            layers.push(Layer {
                query,
                key,
                value,
                attention_output,
                attention_norm: norm("attention_norm", &layer.attention_norm)?,
                intermediate,
                output,
                output_norm: norm("output_norm", &layer.output_norm)?,
            });
        }
        Ok(Self { encoder, layers, parameters, device: device.clone() })
    }

    pub(crate) fn parameters(&self) -> &[Parameter] {
        &self.parameters
    }

    /// The whole encoder's tensors, the trained layers in place of the original ones.
    pub(crate) fn named(&self) -> Vec<(String, Tensor)> {
        let mut transformer = self.encoder.transformer.clone();
        let first = transformer.layers.len() - self.layers.len();
        transformer.layers.truncate(first);
        transformer.layers.extend(self.layers.iter().cloned());
        transformer.named()
    }

    /// Embeddings of some texts with the graph kept.
    ///
    /// # Shapes
    /// The joined result is `[texts, dim]` f32 in the order of `texts`.
    pub(crate) fn forward(&self, cache: &TrunkCache, texts: &[usize]) -> Result<(Tensor, Forward)> {
        let mut order: Vec<usize> = (0..texts.len()).collect();
        order.sort_by_key(|&position| std::cmp::Reverse(cache.length(texts[position])));
        let mut groups: Vec<Vec<usize>> = Vec::new();
        for position in order {
            match groups.last_mut() {
                // Longest first, so the group's padded length is that of its first text.
                Some(group) if (group.len() + 1) * cache.length(texts[group[0]]) <= TOKENS_PER_PART => {
                    group.push(position);
                }
                _ => groups.push(vec![position]),
            }
        }
        let part = |positions: Vec<usize>| {
            let own: Vec<usize> = positions.iter().map(|&p| texts[p]).collect();
            Ok(Part { embeddings: self.embed_padded(cache, &own)?, positions })
        };
        let parts = map_parts(groups, part).map_err(ModelError::from)?;
        let forward = Forward { rows: texts.len(), parts };
        let joined = forward.join().map_err(ModelError::from)?;
        Ok((joined, forward))
    }

    fn embed_padded(&self, cache: &TrunkCache, texts: &[usize]) -> candle_core::Result<Tensor> {
        let (mut x, lengths) = cache.padded(texts, &self.device)?;
        let mask = AttentionMask::new(&lengths, x.dim(1)?, &self.device)?;
        for layer in &self.layers {
            x = layer.forward(&x, &mask, &self.encoder.transformer.config)?;
        }
        pool_padded(&x, &lengths, self.encoder.pooling, self.encoder.normalisation)
    }

    /// Gradients of the variables, given the loss's gradient with respect to the embeddings.
    pub(crate) fn backward(
        &self,
        forward: &Forward,
        gradient: &Tensor,
        gradients: &mut Gradients,
    ) -> candle_core::Result<()> {
        // In the order of the parts, whichever is done first: sums must not depend on timing.
        let stores = map_parts(forward.parts.iter().collect(), |part: &Part| {
            let positions: Vec<u32> = part.positions.iter().map(|&p| p as u32).collect();
            let rows = gradient.index_select(&Tensor::new(positions.as_slice(), gradient.device())?, 0)?;
            (&part.embeddings * rows)?.sum_all()?.backward()
        })?;
        stores.iter().try_for_each(|store| gradients.add(&self.parameters, store))
    }

    /// Embeddings without gradient, by the fast path.
    ///
    /// # Shapes
    /// Output `[texts, dim]` row-major, in the order of `texts`; `done` is told how many are finished.
    pub(crate) fn embed(
        &self,
        cache: &TrunkCache,
        texts: &[usize],
        mut done: impl FnMut(usize) -> Result<()>,
    ) -> Result<Vec<f32>> {
        let config = &self.encoder.transformer.config;
        let m = config.hidden_size;
        let packed = PackedTail::new(&self.layers, config).map_err(ModelError::from)?;
        let mut groups: Vec<Vec<usize>> = Vec::new();
        let mut room = 0;
        for (position, &text) in texts.iter().enumerate() {
            let length = cache.length(text);
            match groups.last_mut() {
                Some(group) if length <= room => group.push(position),
                _ => {
                    groups.push(vec![position]);
                    room = TOKENS_PER_BATCH;
                }
            }
            room = room.saturating_sub(length);
        }
        let out = Mutex::new(vec![0f32; texts.len() * m]);
        let mut finished = 0;
        for round in groups.chunks(16) {
            round.par_iter().try_for_each(|positions| -> std::result::Result<(), ModelError> {
                let own: Vec<usize> = positions.iter().map(|&p| texts[p]).collect();
                let hidden = packed.forward(cache.packed(&own))?;
                let pooled = pool_packed(&hidden, m, self.encoder.pooling, self.encoder.normalisation);
                let mut out = out.lock().unwrap_or_else(|p| p.into_inner());
                for (&position, row) in positions.iter().zip(pooled.chunks_exact(m)) {
                    out[position * m..][..m].copy_from_slice(row);
                }
                Ok(())
            })?;
            finished += round.iter().map(Vec::len).sum::<usize>();
            done(finished)?;
        }
        Ok(out.into_inner().unwrap_or_else(|p| p.into_inner()))
    }
}

/// Maps the parts of a batch, on all cores where that pays.
///
/// candle's element-wise operations share one pool behind a spinning barrier: callers on
/// several threads wait for each other, at several times the cost of taking turns. With
/// `CANDLE_NUM_THREADS=1` there is no pool, and the parts run side by side.
fn map_parts<T: Send, R: Send>(
    items: Vec<T>,
    map: impl Fn(T) -> candle_core::Result<R> + Send + Sync,
) -> candle_core::Result<Vec<R>> {
    if candle_core::utils::barrier_pool().n_workers() == 0 {
        items.into_par_iter().map(map).collect()
    } else {
        items.into_iter().map(map).collect()
    }
}

impl Forward {
    /// All embeddings in the order of the batch, cut from their graphs.
    fn join(&self) -> candle_core::Result<Tensor> {
        let parts: Vec<Tensor> = self.parts.iter().map(|part| part.embeddings.detach()).collect();
        let mut place = vec![0u32; self.rows];
        let positions = self.parts.iter().flat_map(|part| &part.positions);
        for (row, &position) in positions.enumerate() {
            place[position] = row as u32;
        }
        let all = Tensor::cat(&parts, 0)?;
        all.index_select(&Tensor::new(place.as_slice(), all.device())?, 0)
    }
}
