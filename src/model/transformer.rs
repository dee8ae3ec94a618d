//! The weights of an encoder, as described by [`TransformerConfig`].
//!
//! Training uses [`super::differentiable`], on tensors; inference on the CPU packs values
//! ([`super::packed`]). Tests compare the two within 1e-5.

mod layout;

#[cfg(feature = "train")]
use candle_core::Tensor;

use super::config::{MAX_CONFIG_VALUE, Norms, Span, TransformerConfig};
use super::error::ModelError;
use super::weights::{Weight, Weights};
use super::words::{Token, WordTable};
use layout::Layout;
pub(super) use layout::{STATIC_TABLES, TOKEN_ROWS};

/// A weight and a bias: those of a map `y = x W^T + b`, with W as checkpoints store it, `[out, in]`, or those
/// of a layer normalisation over the last dimension, `[m]`.
#[derive(Clone, Debug)]
pub(crate) struct Affine<W> {
    pub weight: W,
    pub bias: Option<W>,
    /// Rows of a map's weight.
    pub outputs: usize,
    #[cfg(feature = "train")]
    names: Names,
}

/// One transformer block: attention, then feed-forward, each with residual and norm.
#[derive(Clone, Debug)]
pub(crate) struct Layer<W> {
    pub span: Span,
    /// Query, key and value, or one map with their stacked rows.
    pub projections: Vec<Affine<W>>,
    pub attention_output: Affine<W>,
    pub attention_norm: Option<Affine<W>>,
    /// One map; for a gated step the activated and the multiplying map, or one map with the stacked rows of
    /// both.
    pub inner: Vec<Affine<W>>,
    pub output: Affine<W>,
    pub output_norm: Affine<W>,
}

/// The tables of words, positions and token types that the encoder has, and the norm of their sum.
#[derive(Clone, Debug)]
pub(crate) struct Embeddings<W> {
    /// `[vocab, m]`
    pub word: WordTable,
    /// Added to the word embeddings by position, `[positions, m]`; includes the row of token type 0, because
    /// every text is one segment. Without a position table, only that row, `[1, m]`.
    pub position: Option<W>,
    /// The loaded tables that `position` was made from, by name, so that a bundle is saved unchanged.
    #[cfg(feature = "train")]
    pub raw: Vec<(&'static str, W)>,
    pub norm: Option<Affine<W>>,
}

/// Layers, with their shared bias and final norm.
#[derive(Clone, Debug)]
pub(crate) struct Stack<W> {
    pub layers: Vec<Layer<W>>,
    /// `[buckets, heads]`, added to the scores of all of them.
    pub relative_bias: Option<W>,
    /// After the last layer, if the norms are before the layers' steps.
    pub final_norm: Option<Affine<W>>,
}

/// The weights of an encoder, f32 (the words' table may be f16) in main memory, or tensors on one device.
#[derive(Clone, Debug)]
pub(crate) struct Transformer<W> {
    pub config: TransformerConfig,
    #[cfg(feature = "train")]
    layout: &'static Layout,
    pub embeddings: Embeddings<W>,
    pub stack: Stack<W>,
}

/// Returns a weight by its name in a weight file and its shape.
pub(super) type GetWeight<'a, W> = &'a mut dyn FnMut(&str, &[usize]) -> Result<W, ModelError>;

/// The name of a map or a norm in reports and checkpoints of training, and its name in the weight file.
type Names = [String; 2];

impl<W> Affine<W> {
    fn build(names: Names, shape: &[usize], bias: bool, get: GetWeight<'_, W>) -> Result<Self, ModelError> {
        let [_, name] = &names;
        Ok(Self {
            weight: get(&format!("{name}.weight"), shape)?,
            bias: bias.then(|| get(&format!("{name}.bias"), &shape[..1])).transpose()?,
            outputs: shape[0],
            #[cfg(feature = "train")]
            names,
        })
    }

    fn of_norm(names: Names, config: &TransformerConfig, get: GetWeight<'_, W>) -> Result<Self, ModelError> {
        Self::build(names, &[config.hidden_size], config.norm_bias, get)
    }

    #[cfg(feature = "train")]
    fn tensors(&mut self) -> impl Iterator<Item = (Names, &mut W)> {
        let Self { weight, bias, names, .. } = self;
        let all = [("weight", Some(weight)), ("bias", bias.as_mut())].into_iter();
        all.filter_map(|(kind, own)| Some((names.each_ref().map(|name| format!("{name}.{kind}")), own?)))
    }
}

impl<W> Layer<W> {
    fn build(
        config: &TransformerConfig,
        layout: &Layout,
        index: usize,
        get: GetWeight<'_, W>,
    ) -> Result<Self, ModelError> {
        let (m, step) = (config.hidden_size, config.feed_forward);
        let names = |own: &str, file: &str| {
            [format!("layer.{index}.{own}"), format!("{}.{index}.{file}", layout.layers)]
        };
        let mut maps = |own: &[&str], files: &[&str], [outputs, inputs]: [usize; 2], bias: bool| {
            let shape = [outputs / files.len(), inputs];
            let parts = own.iter().zip(files);
            parts
                .map(|(own, file)| Affine::build(names(own, file), &shape, bias, get))
                .collect::<Result<Vec<_>, ModelError>>()
        };
        let (inner, width) = match (step.gated, layout.inner.len()) {
            (false, _) => (&["intermediate"][..], step.inner_size),
            (true, 1) => (&["gate_and_intermediate"][..], 2 * step.inner_size),
            (true, _) => (&["gate", "intermediate"][..], 2 * step.inner_size),
        };
        let projections = match layout.projections.len() {
            1 => &["query_key_value"][..],
            _ => &["query", "key", "value"],
        };
        let (bias, square) = (config.attention_bias, [m, m]);
        let projections = maps(projections, layout.projections, [3 * m, m], bias)?;
        let attention_output =
            maps(&["attention_output"], &[layout.attention_output], square, bias)?.remove(0);
        let inner = maps(inner, layout.inner, [width, m], step.bias)?;
        let output = maps(&["output"], &[layout.output], [m, step.inner_size], step.bias)?.remove(0);
        let mut norm = |own: &str, file: &str| Affine::of_norm(names(own, file), config, get);
        let has_norm = config.has_attention_norm(index);
        Ok(Self {
            span: config.spans[index],
            projections,
            attention_output,
            attention_norm: has_norm.then(|| norm("attention_norm", layout.attention_norm)).transpose()?,
            inner,
            output,
            output_norm: norm("output_norm", layout.output_norm)?,
        })
    }
}

impl<W: Weight> Embeddings<W> {
    fn build(
        config: &TransformerConfig,
        layout: &Layout,
        word: WordTable,
        get: GetWeight<'_, W>,
    ) -> Result<Self, ModelError> {
        let m = config.hidden_size;
        let rows = [
            (layout.position, config.position_table.map_or(0, |table| table.rows)),
            (layout.types, config.type_vocab_size),
        ];
        let mut raw = Vec::new();
        for (name, rows) in rows.into_iter().filter(|&(_, rows)| rows > 0) {
            raw.push((name, get(name, &[rows, m])?));
        }
        let position = match raw.as_slice() {
            [(_, table)] if config.type_vocab_size > 0 => Some(table.first_row(m)?),
            [(_, table)] => Some(table.clone()),
            [(_, table), (_, types)] => Some(table.plus_row(&types.first_row(m)?)?),
            _ => None,
        };
        Ok(Self {
            word,
            position,
            #[cfg(feature = "train")]
            raw,
            norm: match config.embedding_norm {
                true => Some(Affine::of_norm(
                    ["embeddings.norm", layout.embedding_norm].map(str::to_owned),
                    config,
                    get,
                )?),
                false => None,
            },
        })
    }
}

#[cfg(feature = "train")]
impl Embeddings<Tensor> {
    /// The same tables and norm with tensors that `map` makes from the current ones, given their names.
    ///
    /// The row of token type 0 is already in the table of positions, so that the sum of both is one tensor.
    pub(crate) fn map<E: From<candle_core::Error>>(
        &self,
        map: &mut dyn FnMut(&str, &Tensor) -> Result<Tensor, E>,
    ) -> Result<Self, E> {
        let word = WordTable::trained(&map("embeddings.word", &self.word.tensor()?)?)?;
        let position = self.position.as_ref().map(|own| map("embeddings.position", own)).transpose()?;
        let mut norm = self.norm.clone();
        for ([name, _], own) in norm.iter_mut().flat_map(Affine::tensors) {
            *own = map(&name, own)?;
        }
        Ok(Self { word, position, raw: self.raw.clone(), norm })
    }

    /// The table of words in f32, row by row.
    pub(crate) fn words(&self) -> candle_core::Result<Vec<f32>> {
        self.word.tensor()?.to_dtype(candle_core::DType::F32)?.flatten_all()?.to_vec1()
    }

    /// Updates the raw tables from a trained `position`: the position table is `position` minus the row of
    /// token type 0; without a position table, `position` is that row.
    pub(crate) fn take_position_apart(&mut self, config: &TransformerConfig) -> candle_core::Result<()> {
        let Some(position) = &self.position else { return Ok(()) };
        let position = position.to_device(&candle_core::Device::Cpu)?;
        self.raw[0].1 = match self.raw.as_slice() {
            [_, (_, types)] => position.broadcast_sub(&types.narrow(0, 0, 1)?)?,
            [(_, types)] if config.type_vocab_size > 1 => {
                Tensor::cat(&[&position, &types.narrow(0, 1, config.type_vocab_size - 1)?], 0)?
            }
            _ => position,
        };
        Ok(())
    }
}

#[cfg(feature = "train")]
impl Stack<Tensor> {
    /// The last layers and the final norm; nothing for zero layers.
    pub(crate) fn last(&self, layers: usize) -> Self {
        Self {
            layers: self.layers[self.layers.len() - layers..].to_vec(),
            relative_bias: self.relative_bias.clone(),
            final_norm: self.final_norm.clone().filter(|_| layers > 0),
        }
    }

    /// All tensors of the layers, then what they share.
    fn tensors(&mut self, layout: &Layout) -> Vec<(Names, &mut Tensor)> {
        let mut all = Vec::new();
        for layer in &mut self.layers {
            let Layer { projections, attention_output, inner, output, attention_norm, output_norm, .. } =
                layer;
            let maps = projections.iter_mut().chain([attention_output]).chain(inner).chain([output]);
            let norms = attention_norm.iter_mut().chain([output_norm]);
            all.extend(maps.chain(norms).flat_map(Affine::tensors));
        }
        let names = [RELATIVE_BIAS, layout.relative_bias].map(str::to_owned);
        all.extend(self.relative_bias.as_mut().map(|bias| (names, bias)));
        all.extend(self.final_norm.iter_mut().flat_map(Affine::tensors));
        all
    }

    /// Replaces the last layers and the final norm with those of another stack.
    pub(crate) fn replace_last(&mut self, other: &Self) {
        self.layers.truncate(self.layers.len() - other.layers.len());
        self.layers.extend(other.layers.iter().cloned());
        self.relative_bias.clone_from(&other.relative_bias);
        if other.final_norm.is_some() {
            self.final_norm.clone_from(&other.final_norm);
        }
    }
}

/// The table of words. Tokens of a static encoder may share rows (model2vec's `mapping` and `weights`).
fn words(weights: &Weights, layout: &Layout, config: &TransformerConfig) -> Result<WordTable, ModelError> {
    let (tokens, m) = (config.vocab_size, config.hidden_size);
    let numbers = |name: &str| {
        let is_there = config.layers == 0 && weights.shape(name).is_some();
        is_there.then(|| weights.numbers(name, &[tokens])).transpose()
    };
    let (rows, factors) = (numbers(layout::MAPPING)?, numbers(layout::WEIGHTS)?);
    if rows.is_none() && factors.is_none() {
        return weights.table(layout.word, [tokens, m]);
    }
    let height = match (&rows, weights.shape(layout.word).as_deref()) {
        // More rows have no exact number in f32.
        (Some(_), Some(&[height, _])) if height <= MAX_CONFIG_VALUE => height,
        _ => tokens,
    };
    let token = |id: usize| Token {
        // A negative number is refused like one beyond the last row.
        row: rows.as_ref().map_or(id as u32, |rows| if rows[id] < 0.0 { u32::MAX } else { rows[id] as u32 }),
        weight: factors.as_ref().map_or(1.0, |factors| factors[id]),
    };
    weights.table(layout.word, [height, m])?.shared((0..tokens).map(token).collect())
}

impl<W: Weight> Transformer<W> {
    pub(crate) fn load(weights: &Weights, config: TransformerConfig) -> Result<Self, ModelError> {
        let layouts = config.family.layouts();
        let has = |layout: &&Layout| match config.layers {
            0 => weights.shape(layout.word).is_some(),
            _ => {
                let first = format!("{}.0.{}.weight", layout.layers, layout.projections[0]);
                weights.shape(&first).is_some()
            }
        };
        let layout = layouts.iter().find(has).unwrap_or(&layouts[0]);
        let word = words(weights, layout, &config)?;
        Self::build(config, layout, word, &mut |name, shape| weights.get(name, shape))
    }

    pub(super) fn build(
        config: TransformerConfig,
        layout: &'static Layout,
        word: WordTable,
        get: GetWeight<'_, W>,
    ) -> Result<Self, ModelError> {
        let embeddings = Embeddings::build(&config, layout, word, get)?;
        let mut layers = Vec::with_capacity(config.layers);
        for index in 0..config.layers {
            layers.push(Layer::build(&config, layout, index, get)?);
        }
        let shape = config.relative_positions.map(|positions| [positions.buckets, config.heads]);
        let relative_bias = shape.map(|shape| get(layout.relative_bias, &shape)).transpose()?;
        let final_norm = match config.norms {
            Norms::After => None,
            Norms::Before => {
                Some(Affine::of_norm(["final_norm", layout.final_norm].map(str::to_owned), &config, get)?)
            }
        };
        let stack = Stack { layers, relative_bias, final_norm };
        Ok(Self {
            config,
            #[cfg(feature = "train")]
            layout,
            embeddings,
            stack,
        })
    }
}

#[cfg(feature = "train")]
impl Transformer<Tensor> {
    /// The last layers with tensors that `map` makes from the current ones, given names common to all
    /// families. `shared`: includes the tensors shared by all layers.
    pub(crate) fn map_last<E>(
        &self,
        layers: usize,
        shared: bool,
        map: &mut dyn FnMut(&str, &Tensor) -> Result<Tensor, E>,
    ) -> Result<Stack<Tensor>, E> {
        let mut stack = self.stack.last(layers);
        for ([name, _], tensor) in stack.tensors(self.layout) {
            if shared || name != RELATIVE_BIAS {
                *tensor = map(&name, tensor)?;
            }
        }
        Ok(stack)
    }

    /// Every tensor under its checkpoint name, without a model prefix.
    pub(crate) fn named(&self) -> candle_core::Result<Vec<(String, Tensor)>> {
        let Self { layout, embeddings, mut stack, .. } = self.clone();
        let mut all = vec![(layout.word.to_owned(), embeddings.word.tensor()?)];
        let mut norm = embeddings.norm;
        let norm = norm.iter_mut().flat_map(Affine::tensors);
        all.extend(norm.map(|([_, name], own)| (name, own.clone())));
        all.extend(embeddings.raw.into_iter().map(|(name, table)| (name.to_owned(), table)));
        all.extend(stack.tensors(layout).into_iter().map(|([_, name], own)| (name, own.clone())));
        Ok(all)
    }
}

/// The name of the bias shared by all layers.
#[cfg(feature = "train")]
const RELATIVE_BIAS: &str = "relative_bias";
