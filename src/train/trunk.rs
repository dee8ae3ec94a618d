//! The frozen lower layers, run once: their output is what training reads.

use std::ops::ControlFlow;
use std::sync::Mutex;

use candle_core::{Device, Tensor};
use half::f16;
use half::slice::HalfFloatSliceExt;
use rayon::prelude::*;

use crate::error::{Error, Result};
use crate::model::{ModelError, PackedHidden, PackedTransformer, micro_batches};
use crate::progress::{OnProgress, Progress, Stage};

/// Hidden states of a set of texts below the trainable layers, f16 in memory.
pub(crate) struct TrunkCache {
    texts: Vec<Vec<f16>>,
    dim: usize,
}

/// Tokens in one micro-batch of the frozen layers.
const TOKENS_PER_BATCH: usize = 512;
/// Micro-batches between two progress reports.
const BATCHES_PER_ROUND: usize = 16;

impl TrunkCache {
    /// Runs `trunk` over all texts.
    pub(crate) fn compute(
        trunk: &PackedTransformer,
        dim: usize,
        tokens: &[Vec<u32>],
        on_progress: &mut OnProgress<'_>,
    ) -> Result<Self> {
        let texts = Mutex::new(vec![Vec::new(); tokens.len()]);
        let mut done = 0;
        for round in micro_batches(tokens, TOKENS_PER_BATCH).chunks(BATCHES_PER_ROUND) {
            round.par_iter().try_for_each(|batch| -> std::result::Result<(), ModelError> {
                let slices: Vec<&[u32]> = batch.iter().map(|&i| tokens[i].as_slice()).collect();
                let hidden = trunk.forward(&slices)?;
                let mut rest = hidden.values.as_slice();
                for (&index, &length) in batch.iter().zip(&hidden.lengths) {
                    let (own, tail) = rest.split_at(length * dim);
                    rest = tail;
                    let mut half = vec![f16::ZERO; own.len()];
                    half.convert_from_f32_slice(own);
                    texts.lock().unwrap_or_else(|p| p.into_inner())[index] = half;
                }
                Ok(())
            })?;
            done += round.iter().map(Vec::len).sum::<usize>();
            if let ControlFlow::Break(()) = on_progress(Progress::new(Stage::Trunk, done, tokens.len())) {
                return Err(Error::Cancelled);
            }
        }
        Ok(Self { texts: texts.into_inner().unwrap_or_else(|p| p.into_inner()), dim })
    }

    /// Tokens of one text.
    pub(crate) fn length(&self, text: usize) -> usize {
        self.texts[text].len() / self.dim
    }

    /// A padded batch `[texts, longest, dim]` f32, padding zero, with the lengths.
    pub(crate) fn padded(
        &self,
        texts: &[usize],
        device: &Device,
    ) -> candle_core::Result<(Tensor, Vec<usize>)> {
        let lengths: Vec<usize> = texts.iter().map(|&t| self.length(t)).collect();
        let longest = lengths.iter().copied().max().unwrap_or(0);
        let mut flat = vec![0f32; texts.len() * longest * self.dim];
        for (row, &text) in flat.chunks_exact_mut(longest * self.dim).zip(texts) {
            let own = &self.texts[text];
            own.convert_to_f32_slice(&mut row[..own.len()]);
        }
        let batch = Tensor::from_vec(flat, (texts.len(), longest, self.dim), device)?;
        Ok((batch, lengths))
    }

    /// The texts one behind another, without padding.
    pub(crate) fn packed(&self, texts: &[usize]) -> PackedHidden {
        let lengths: Vec<usize> = texts.iter().map(|&t| self.length(t)).collect();
        let mut values = vec![0f32; lengths.iter().sum::<usize>() * self.dim];
        let mut rest = values.as_mut_slice();
        for &text in texts {
            let own = &self.texts[text];
            let (row, tail) = rest.split_at_mut(own.len());
            own.convert_to_f32_slice(row);
            rest = tail;
        }
        PackedHidden { values, lengths }
    }
}
