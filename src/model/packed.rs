//! The CPU inference path: packed tokens, no padding, fused element-wise steps.
//!
//! The texts of a micro-batch lie one behind another in one `[tokens, m]` matrix,
//! so that the big products see no padding; attention runs text by text.

use candle_core::{CpuStorage, D, Device, InplaceOp1, InplaceOp2, Layout, Tensor};

use super::config::{Activation, TransformerConfig};
use super::kernels;
use super::transformer::{Layer, LayerNorm, Linear, Transformer};

/// A transformer prepared for inference: transposed weights, biases as slices.
pub(crate) struct PackedTransformer {
    config: TransformerConfig,
    word: Vec<f32>,
    position: Vec<f32>,
    norm: PackedNorm,
    layers: Vec<PackedLayer>,
}

struct PackedNorm {
    weight: Vec<f32>,
    bias: Vec<f32>,
    eps: f32,
}

struct PackedLayer {
    /// `[m, 3m]`: query, key and value side by side.
    qkv: Tensor,
    qkv_bias: Vec<f32>,
    /// `[m, m]`
    attention_output: Tensor,
    attention_output_bias: Vec<f32>,
    attention_norm: PackedNorm,
    /// `[m, inner]`
    intermediate: Tensor,
    intermediate_bias: Vec<f32>,
    /// `[inner, m]`
    output: Tensor,
    output_bias: Vec<f32>,
    output_norm: PackedNorm,
}

/// Hidden states of a micro-batch: `[tokens, m]` f32, texts one behind another.
pub(crate) struct PackedHidden {
    pub values: Vec<f32>,
    pub lengths: Vec<usize>,
}

fn to_vec(t: &Tensor) -> candle_core::Result<Vec<f32>> {
    t.to_device(&Device::Cpu)?.flatten_all()?.to_vec1()
}

fn transposed(t: &Tensor) -> candle_core::Result<Tensor> {
    t.to_device(&Device::Cpu)?.t()?.contiguous()
}

impl PackedNorm {
    fn new(norm: &LayerNorm) -> candle_core::Result<Self> {
        Ok(Self { weight: to_vec(&norm.weight)?, bias: to_vec(&norm.bias)?, eps: norm.eps as f32 })
    }
}

impl PackedLayer {
    fn new(layer: &Layer) -> candle_core::Result<Self> {
        let Layer { query, key, value, .. } = layer;
        let bias = |linear: &Linear| to_vec(&linear.bias);
        Ok(Self {
            qkv: transposed(&Tensor::cat(&[&query.weight, &key.weight, &value.weight], 0)?)?,
            qkv_bias: to_vec(&Tensor::cat(&[&query.bias, &key.bias, &value.bias], 0)?)?,
            attention_output: transposed(&layer.attention_output.weight)?,
            attention_output_bias: bias(&layer.attention_output)?,
            attention_norm: PackedNorm::new(&layer.attention_norm)?,
            intermediate: transposed(&layer.intermediate.weight)?,
            intermediate_bias: bias(&layer.intermediate)?,
            output: transposed(&layer.output.weight)?,
            output_bias: bias(&layer.output)?,
            output_norm: PackedNorm::new(&layer.output_norm)?,
        })
    }

    fn forward(
        &self,
        x: &Tensor,
        lengths: &[usize],
        config: &TransformerConfig,
    ) -> candle_core::Result<Tensor> {
        let (m, heads, width) = (config.hidden_size, config.heads, config.head_size());
        let scale = 1.0 / (width as f32).sqrt();
        let qkv = x.matmul(&self.qkv)?;
        qkv.inplace_op1(&AddBias(&self.qkv_bias))?;
        let mut contexts = Vec::with_capacity(lengths.len());
        let mut start = 0;
        for &length in lengths {
            let rows = qkv.narrow(0, start, length)?;
            let part =
                |index: usize| rows.narrow(1, index * m, m)?.reshape((length, heads, width))?.transpose(0, 1);
            let scores = part(0)?.matmul(&part(1)?.transpose(1, 2)?)?;
            scores.inplace_op1(&ScaledSoftmax { scale })?;
            let context = scores.matmul(&part(2)?)?;
            contexts.push(context.transpose(0, 1)?.reshape((length, m))?);
            start += length;
        }
        let context = if contexts.len() == 1 { contexts.swap_remove(0) } else { Tensor::cat(&contexts, 0)? };
        let attended = context.matmul(&self.attention_output)?;
        attended.inplace_op2(x, &AddNorm(&self.attention_output_bias, &self.attention_norm))?;
        let inner = attended.matmul(&self.intermediate)?;
        inner.inplace_op1(&BiasActivation(&self.intermediate_bias, config.activation))?;
        let output = inner.matmul(&self.output)?;
        output.inplace_op2(&attended, &AddNorm(&self.output_bias, &self.output_norm))?;
        Ok(output)
    }
}

impl PackedTransformer {
    /// Prepares the first `layers` layers.
    pub(crate) fn new(transformer: &Transformer, layers: usize) -> candle_core::Result<Self> {
        let e = &transformer.embeddings;
        Ok(Self {
            config: transformer.config.clone(),
            word: to_vec(&e.word)?,
            position: to_vec(&e.position)?,
            norm: PackedNorm::new(&e.norm)?,
            layers: transformer.layers[..layers]
                .iter()
                .map(PackedLayer::new)
                .collect::<candle_core::Result<_>>()?,
        })
    }

    /// Hidden states after the prepared layers.
    ///
    /// Token ids must be below the vocabulary's size and texts no longer than the
    /// position table; the tokenizer wrapper sees to both.
    pub(crate) fn forward(&self, texts: &[&[u32]]) -> candle_core::Result<PackedHidden> {
        let m = self.config.hidden_size;
        let lengths: Vec<usize> = texts.iter().map(|t| t.len()).collect();
        let total: usize = lengths.iter().sum();
        let mut x = Vec::with_capacity(total * m);
        for text in texts {
            for (position, &id) in text.iter().enumerate() {
                let word = &self.word[id as usize * m..][..m];
                let place = &self.position[position * m..][..m];
                x.extend(word.iter().zip(place).map(|(a, b)| a + b));
            }
        }
        kernels::norm(&mut x, &self.norm.weight, &self.norm.bias, self.norm.eps);
        if self.layers.is_empty() {
            return Ok(PackedHidden { values: x, lengths });
        }
        let mut x = Tensor::from_vec(x, (total, m), &Device::Cpu)?;
        for layer in &self.layers {
            x = layer.forward(&x, &lengths, &self.config)?;
        }
        Ok(PackedHidden { values: x.flatten_all()?.to_vec1()?, lengths })
    }
}

/// Runs only the last layers, over hidden states that another pass left behind.
#[cfg(feature = "train")]
pub(crate) struct PackedTail {
    config: TransformerConfig,
    layers: Vec<PackedLayer>,
}

#[cfg(feature = "train")]
impl PackedTail {
    /// Prepares `layers`, which may be training variables.
    pub(crate) fn new(layers: &[Layer], config: &TransformerConfig) -> candle_core::Result<Self> {
        Ok(Self {
            config: config.clone(),
            layers: layers.iter().map(PackedLayer::new).collect::<candle_core::Result<_>>()?,
        })
    }

    /// Shapes: `values` `[sum of lengths, m]`; the same on return.
    pub(crate) fn forward(&self, hidden: PackedHidden) -> candle_core::Result<PackedHidden> {
        if self.layers.is_empty() {
            return Ok(hidden);
        }
        let total: usize = hidden.lengths.iter().sum();
        let mut x = Tensor::from_vec(hidden.values, (total, self.config.hidden_size), &Device::Cpu)?;
        for layer in &self.layers {
            x = layer.forward(&x, &hidden.lengths, &self.config)?;
        }
        Ok(PackedHidden { values: x.flatten_all()?.to_vec1()?, lengths: hidden.lengths })
    }
}

fn contiguous_mut<'a>(storage: &'a mut CpuStorage, layout: &Layout) -> candle_core::Result<&'a mut [f32]> {
    let Some((start, end)) = layout.contiguous_offsets() else {
        candle_core::bail!("fused kernel needs a contiguous tensor")
    };
    match storage {
        CpuStorage::F32(values) => Ok(&mut values[start..end]),
        _ => candle_core::bail!("fused kernel needs f32"),
    }
}

struct AddBias<'a>(&'a [f32]);

impl InplaceOp1 for AddBias<'_> {
    fn name(&self) -> &'static str {
        "add-bias"
    }
    fn cpu_fwd(&self, storage: &mut CpuStorage, layout: &Layout) -> candle_core::Result<()> {
        kernels::add_bias(contiguous_mut(storage, layout)?, self.0);
        Ok(())
    }
}

struct BiasActivation<'a>(&'a [f32], Activation);

impl InplaceOp1 for BiasActivation<'_> {
    fn name(&self) -> &'static str {
        "bias-activation"
    }
    fn cpu_fwd(&self, storage: &mut CpuStorage, layout: &Layout) -> candle_core::Result<()> {
        kernels::bias_activation(contiguous_mut(storage, layout)?, self.0, self.1);
        Ok(())
    }
}

struct ScaledSoftmax {
    scale: f32,
}

impl InplaceOp1 for ScaledSoftmax {
    fn name(&self) -> &'static str {
        "scaled-softmax"
    }
    fn cpu_fwd(&self, storage: &mut CpuStorage, layout: &Layout) -> candle_core::Result<()> {
        let width = layout.shape().dim(D::Minus1)?;
        kernels::scaled_softmax(contiguous_mut(storage, layout)?, width, self.scale);
        Ok(())
    }
}

struct AddNorm<'a>(&'a [f32], &'a PackedNorm);

impl InplaceOp2 for AddNorm<'_> {
    fn name(&self) -> &'static str {
        "add-norm"
    }
    fn cpu_fwd(
        &self,
        storage: &mut CpuStorage,
        layout: &Layout,
        residual: &CpuStorage,
        residual_layout: &Layout,
    ) -> candle_core::Result<()> {
        let (CpuStorage::F32(residual), Some((start, end))) =
            (residual, residual_layout.contiguous_offsets())
        else {
            candle_core::bail!("fused kernel needs a contiguous f32 residual")
        };
        let norm = self.1;
        let x = contiguous_mut(storage, layout)?;
        kernels::add_norm(x, self.0, &residual[start..end], &norm.weight, &norm.bias, norm.eps);
        Ok(())
    }
}
