//! The trainable upper layers of the encoder.

use std::sync::{Arc, Mutex};

use candle_core::{DType, Device, Tensor, Var};
use rayon::prelude::*;

use super::device::PassBudget;
use super::frozen::FrozenCache;
use super::optimizer::{Gradients, Parameter};
use crate::error::Result;
use crate::model::{
    AttentionMask, Embeddings, Encoder, EncoderPrecision, ModelError, PackedHidden, PackedLayers,
    PackedTransformer, Pooler, Precision, Stack, Transformer,
};

/// The last layers of an encoder as variables, on top of a [`FrozenCache`]; with the embedding
/// tables below them, the whole encoder.
pub(crate) struct Head<'a> {
    /// Turns the last hidden states into an embedding.
    pooler: Arc<Pooler>,
    /// All layers before training.
    base: &'a Transformer<Tensor>,
    /// Variables too; the head then reads token ids instead of cached states.
    embeddings: Option<Embeddings<Tensor>>,
    stack: Stack<Tensor>,
    precision: Precision,
    parameters: Vec<Parameter>,
    device: Device,
    budget: PassBudget,
}

/// What to train.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scope {
    /// Layers from the top.
    pub layers: usize,
    /// The embedding tables as well.
    pub embeddings: bool,
    pub precision: Precision,
}

/// Some texts split into parts, with the inputs of the trainable layers for the first parts.
pub(crate) struct Gathered {
    texts: Vec<usize>,
    groups: Vec<GatheredPart>,
}

struct GatheredPart {
    positions: Vec<usize>,
    /// Whether the graph is kept.
    graph: bool,
    /// Padded states in main memory, and their lengths. `None` if the graph is not kept, where they are read
    /// on demand so that a batch of any size fits, and if token ids are read instead.
    states: Option<(Tensor, Vec<usize>)>,
}

/// The forward pass of some texts, kept for its backward pass.
pub(crate) struct Forward {
    parts: Vec<ForwardPart>,
    /// Texts of the whole batch.
    texts: Vec<usize>,
}

struct ForwardPart {
    /// Position in the batch of each row of `embeddings`.
    positions: Vec<usize>,
    embeddings: Tensor,
    mask: AttentionMask,
    /// Whether `embeddings` still has its graph; if not, the backward pass runs the forward pass again.
    graph: bool,
}

/// Parts whose gradients are held at once.
const PARTS_PER_ROUND: usize = 16;
/// Tokens per micro-batch without gradient.
const TOKENS_PER_BATCH: usize = 2048;

impl<'a> Head<'a> {
    /// Copies the parts of an encoder named by `scope` into variables on `device`.
    pub(crate) fn new(
        encoder: &'a Encoder,
        scope: Scope,
        device: &Device,
    ) -> std::result::Result<Self, ModelError> {
        Self::of(encoder.transformer()?, Arc::clone(&encoder.pooler), scope, device)
    }

    /// As [`Self::new`], for given layers and a pooler, which may have variables of its own.
    pub(crate) fn of(
        base: &'a Transformer<Tensor>,
        pooler: Arc<Pooler>,
        scope: Scope,
        device: &Device,
    ) -> std::result::Result<Self, ModelError> {
        let mut parameters = Vec::new();
        let mut variable = |name: &str, tensor: &Tensor| -> candle_core::Result<Tensor> {
            let var = Var::from_tensor(&tensor.to_device(device)?.to_dtype(DType::F32)?.copy()?)?;
            let shared = var.as_tensor().clone();
            parameters.push(Parameter { name: format!("encoder.{name}"), var });
            Ok(shared)
        };
        let embeddings = match scope.embeddings {
            true => Some(base.embeddings.map(&mut variable)?),
            false => None,
        };
        // Weights shared by all layers are frozen if some layers are.
        let shared = scope.layers == base.config.layers;
        let stack = base.map_last(scope.layers, shared, &mut variable)?;
        let budget = PassBudget::of(device, base.config.hidden_size)?;
        let (precision, device) = (scope.precision, device.clone());
        Ok(Self { pooler, base, embeddings, stack, precision, parameters, device, budget })
    }

    /// Width of the embeddings.
    pub(crate) fn dim(&self) -> usize {
        self.pooler.dim
    }

    /// Adds variables that follow the layers.
    pub(crate) fn add_parameters(&mut self, more: impl IntoIterator<Item = Parameter>) {
        self.parameters.extend(more);
    }

    pub(crate) fn parameters(&self) -> &[Parameter] {
        &self.parameters
    }

    /// All tensors of the encoder, with the trained values.
    pub(crate) fn named(&self) -> candle_core::Result<Vec<(String, Tensor)>> {
        let mut transformer = self.transformer();
        if self.embeddings.is_some() {
            transformer.embeddings.take_position_apart(&self.base.config)?;
        }
        transformer.named()
    }

    fn transformer(&self) -> Transformer<Tensor> {
        let mut transformer = self.base.clone();
        transformer.stack.replace_last(&self.stack);
        if let Some(embeddings) = &self.embeddings {
            transformer.embeddings = embeddings.clone();
        }
        transformer
    }

    /// Splits some texts into parts and reads the states of those whose graphs may be kept.
    pub(crate) fn gather(&self, cache: &FrozenCache<'_>, texts: &[usize]) -> candle_core::Result<Gathered> {
        let parts = self.parts(cache, texts);
        let mut room = self.budget.graph_tokens / self.stack.layers.len().max(1);
        let group = |positions: Vec<usize>| {
            let tokens = positions.len() * cache.length(texts[positions[0]]);
            let graph = tokens <= room;
            room = room.saturating_sub(tokens);
            let read = graph && self.embeddings.is_none();
            let states = read.then(|| cache.padded(&own(texts, &positions))).transpose()?;
            Ok(GatheredPart { positions, graph, states })
        };
        let groups = parts.into_iter().map(group).collect::<candle_core::Result<_>>()?;
        Ok(Gathered { texts: texts.to_vec(), groups })
    }

    /// Positions of texts in parts of similar length, each within the budget when padded.
    fn parts(&self, cache: &FrozenCache<'_>, texts: &[usize]) -> Vec<Vec<usize>> {
        let mut order: Vec<usize> = (0..texts.len()).collect();
        order.sort_by_key(|&position| std::cmp::Reverse(cache.length(texts[position])));
        let mut parts: Vec<Vec<usize>> = Vec::new();
        for position in order {
            match parts.last_mut() {
                // Longest first, so the part's padded length is that of its first text.
                Some(part) if (part.len() + 1) * cache.length(texts[part[0]]) <= self.budget.part_tokens => {
                    part.push(position);
                }
                _ => parts.push(vec![position]),
            }
        }
        parts
    }

    /// Embeddings of some texts, with as much of the graph as the budget allows.
    ///
    /// # Shapes
    /// The joined result is `[texts, dim]` f32 in the order of the texts gathered.
    pub(crate) fn forward(&self, cache: &FrozenCache<'_>, gathered: Gathered) -> Result<(Tensor, Forward)> {
        let Gathered { texts, groups } = gathered;
        let part = |group: GatheredPart| {
            let GatheredPart { positions, graph, states } = group;
            let (embeddings, mask) = self.embed_padded(cache, &own(&texts, &positions), states)?;
            let embeddings = if graph { embeddings } else { embeddings.detach() };
            Ok(ForwardPart { positions, embeddings, mask, graph })
        };
        let parts = self.in_precision(|| map_parts(&self.device, groups, part)).map_err(ModelError::from)?;
        let forward = Forward { texts, parts };
        let joined = forward.join().map_err(ModelError::from)?;
        Ok((joined, forward))
    }

    /// Runs something whose products on a GPU have the precision of this head. candle has one switch for the
    /// whole process; elsewhere, products are f32.
    fn in_precision<T>(&self, run: impl FnOnce() -> T) -> T {
        candle_core::cuda::set_gemm_reduced_precision_f32(self.precision == Precision::Tf32);
        let out = run();
        candle_core::cuda::set_gemm_reduced_precision_f32(false);
        out
    }

    /// Embeds a part of a batch from the given states, or from states read now; also returns the mask, which
    /// runs the backward pass.
    fn embed_padded(
        &self,
        cache: &FrozenCache<'_>,
        own: &[usize],
        states: Option<(Tensor, Vec<usize>)>,
    ) -> candle_core::Result<(Tensor, AttentionMask)> {
        let config = &self.base.config;
        let (x, lengths, mask) = match &self.embeddings {
            None => {
                let (x, lengths) = states.map_or_else(|| cache.padded(own), Ok)?;
                let x = x.to_device(&self.device)?;
                let mask = AttentionMask::new(&lengths, x.dim(1)?, &self.device)?;
                (x, lengths, mask)
            }
            Some(embeddings) => {
                let lengths: Vec<usize> = own.iter().map(|&t| cache.length(t)).collect();
                let longest = lengths.iter().copied().max().unwrap_or(0);
                let mut ids = vec![0u32; own.len() * longest];
                for (row, &text) in ids.chunks_exact_mut(longest.max(1)).zip(own) {
                    row[..cache.length(text)].copy_from_slice(cache.tokens(text));
                }
                let ids = Tensor::from_vec(ids, (own.len(), longest), &self.device)?;
                let mask = AttentionMask::new(&lengths, longest, &self.device)?;
                (embeddings.forward(&ids, mask.program(), config)?, lengths, mask)
            }
        };
        if self.reads_embeddings() {
            return Ok((x.squeeze(1)?, mask));
        }
        let x = self.stack.forward(x, &mask, config)?;
        Ok((self.pooler.padded(&x, &lengths, cache.skip())?, mask))
    }

    /// Whether the states are embeddings: nothing of the encoder is trained.
    fn reads_embeddings(&self) -> bool {
        self.stack.layers.is_empty() && self.embeddings.is_none()
    }

    /// Gradients of the variables, given the loss's gradient with respect to the embeddings.
    pub(crate) fn backward(
        &self,
        cache: &FrozenCache<'_>,
        forward: &Forward,
        gradient: &Tensor,
        gradients: &mut Gradients,
    ) -> candle_core::Result<()> {
        // In the order of the parts, not of completion: sums must not depend on timing.
        for round in forward.parts.chunks(PARTS_PER_ROUND) {
            let part = |part: &ForwardPart| {
                let positions: Vec<u32> = part.positions.iter().map(|&p| p as u32).collect();
                let positions = Tensor::new(positions.as_slice(), gradient.device())?;
                // Detached, or this pass would go on into the loss.
                let rows = gradient.detach().index_select(&positions, 0)?;
                let again = match part.graph {
                    true => None,
                    false => {
                        let own = own(&forward.texts, &part.positions);
                        Some(self.embed_padded(cache, &own, None)?)
                    }
                };
                let (embeddings, mask) = match &again {
                    Some((embeddings, mask)) => (embeddings, mask),
                    None => (&part.embeddings, &part.mask),
                };
                mask.backward(&(embeddings * rows)?.sum_all()?)
            };
            let stores = self.in_precision(|| map_parts(&self.device, round.iter().collect(), part))?;
            stores.iter().try_for_each(|store| gradients.add(&self.parameters, store))?;
        }
        Ok(())
    }

    /// Embeddings of all texts without gradient, in f32: computed by the packed layers on a CPU and by the
    /// trained layers on a GPU.
    ///
    /// # Shapes
    /// Output `[texts, dim]` row-major; `done` is told how many are finished.
    pub(crate) fn embed(
        &self,
        cache: &FrozenCache<'_>,
        mut done: impl FnMut(usize) -> Result<()>,
    ) -> Result<Vec<f32>> {
        if !self.device.is_cpu() && !self.reads_embeddings() {
            return self.embed_on_device(cache, &mut done);
        }
        let config = &self.base.config;
        let (m, layers) = (self.dim(), self.stack.layers.len());
        let packed = match &self.embeddings {
            None => Inference::Head(PackedLayers::new(&self.stack, layers, config, EncoderPrecision::F32)?),
            Some(_) => {
                Inference::Whole(PackedTransformer::new(&self.transformer(), layers, EncoderPrecision::F32)?)
            }
        };
        let mut groups: Vec<Vec<usize>> = Vec::new();
        let mut room = 0;
        for text in 0..cache.texts() {
            let length = cache.length(text);
            match groups.last_mut() {
                Some(group) if length <= room => group.push(text),
                _ => {
                    groups.push(vec![text]);
                    room = TOKENS_PER_BATCH;
                }
            }
            room = room.saturating_sub(length);
        }
        let out = Mutex::new(vec![0f32; cache.texts() * m]);
        let mut finished = 0;
        for round in groups.chunks(16) {
            round.par_iter().try_for_each(|texts| -> std::result::Result<(), ModelError> {
                let pooled = match self.reads_embeddings() {
                    true => cache.packed(texts)?.values,
                    false => self.pooler.packed(&packed.forward(cache, texts)?, cache.skip()),
                };
                // A group's texts follow each other.
                out.lock().unwrap_or_else(|p| p.into_inner())[texts[0] * m..][..pooled.len()]
                    .copy_from_slice(&pooled);
                Ok(())
            })?;
            finished += round.iter().map(Vec::len).sum::<usize>();
            done(finished)?;
        }
        Ok(out.into_inner().unwrap_or_else(|p| p.into_inner()))
    }

    fn embed_on_device(
        &self,
        cache: &FrozenCache<'_>,
        done: &mut dyn FnMut(usize) -> Result<()>,
    ) -> Result<Vec<f32>> {
        let m = self.dim();
        let all: Vec<usize> = (0..cache.texts()).collect();
        let mut out = vec![0f32; all.len() * m];
        let mut finished = 0;
        for texts in self.parts(cache, &all) {
            let rows = self.embed_padded(cache, &texts, None);
            let rows: Vec<f32> =
                rows.and_then(|(x, _)| x.flatten_all()?.to_vec1()).map_err(ModelError::from)?;
            for (&text, row) in texts.iter().zip(rows.chunks_exact(m)) {
                out[text * m..][..m].copy_from_slice(row);
            }
            finished += texts.len();
            done(finished)?;
        }
        Ok(out)
    }
}

/// The texts at some positions of a batch.
fn own(texts: &[usize], positions: &[usize]) -> Vec<usize> {
    positions.iter().map(|&p| texts[p]).collect()
}

/// The head prepared for inference.
enum Inference {
    Head(PackedLayers),
    Whole(PackedTransformer),
}

impl Inference {
    fn forward(&self, cache: &FrozenCache<'_>, texts: &[usize]) -> candle_core::Result<PackedHidden> {
        match self {
            Self::Head(head) => Ok(head.forward(cache.packed(texts)?)),
            Self::Whole(whole) => {
                let tokens: Vec<&[u32]> = texts.iter().map(|&t| cache.tokens(t)).collect();
                whole.forward(&tokens).map_err(candle_core::Error::wrap)
            }
        }
    }
}

/// Maps the parts of a batch, on all cores if that is faster.
///
/// candle's element-wise operations share one pool behind a spinning barrier: callers on several threads wait
/// for each other and are several times slower than taking turns. With `CANDLE_NUM_THREADS=1` there is no
/// pool, and the parts run side by side. A GPU has one queue.
fn map_parts<T: Send, R: Send>(
    device: &Device,
    items: Vec<T>,
    map: impl Fn(T) -> candle_core::Result<R> + Send + Sync,
) -> candle_core::Result<Vec<R>> {
    if device.is_cpu() && candle_core::utils::barrier_pool().n_workers() == 0 {
        items.into_par_iter().map(map).collect()
    } else {
        items.into_iter().map(map).collect()
    }
}

impl Forward {
    /// All embeddings in batch order, detached from their graphs.
    fn join(&self) -> candle_core::Result<Tensor> {
        let parts: Vec<Tensor> = self.parts.iter().map(|part| part.embeddings.detach()).collect();
        let mut place = vec![0u32; self.texts.len()];
        let positions = self.parts.iter().flat_map(|part| &part.positions);
        for (row, &position) in positions.enumerate() {
            place[position] = row as u32;
        }
        let all = Tensor::cat(&parts, 0)?;
        all.index_select(&Tensor::new(place.as_slice(), all.device())?, 0)
    }
}
