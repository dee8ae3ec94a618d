//! A cross-encoder: a question and a document read together, and one score for the two.

mod head;
#[cfg(feature = "train")]
mod start;
#[cfg(feature = "train")]
pub(crate) use start::RerankerDraft;

use std::collections::BTreeMap;
use std::path::Path;

use rayon::prelude::*;

use super::config::TransformerConfig;
use super::dense::DenseActivation;
use super::encoder::in_micro_batches;
use super::error::ModelError;
use super::files::{ENCODER_FILE, TOKENIZER_FILE};
use super::folder;
use super::load::LoadOptions;
use super::parts::{EncoderFiles, LazyParts};
use super::pooling::Pooler;
use super::tokenize::{Pair, TextRules};
#[cfg(feature = "train")]
use super::transformer::Transformer;
use super::weights::Weights;

/// A model that scores how well a document answers a question, by reading both together.
///
/// It reads every pair in full, so it is meant for the few best documents of a search
/// ([`SearchRequest::rerank`](crate::SearchRequest::rerank)), and takes some milliseconds for each of them.
///
/// # Examples
/// ```no_run
/// use ehi::model::Reranker;
///
/// let reranker = Reranker::open("ms-marco-MiniLM-L6-v2")?;
/// let documents = ["Steep for three minutes.", "Tea is a plant."];
/// let scores = reranker.score("how long does tea steep?", &documents)?;
/// assert!(scores[0] > scores[1]);
/// # Ok::<(), ehi::Error>(())
/// ```
pub struct Reranker {
    parts: LazyParts,
    /// The head: what follows the first token's state.
    head: Pooler,
    #[cfg(feature = "train")]
    head_names: head::HeadNames,
    activation: DenseActivation,
    /// Vector added to the embeddings of the document's tokens, `[m]`; `None` for a model with a single token
    /// type.
    second: Option<Vec<f32>>,
}

impl std::fmt::Debug for Reranker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Reranker").field("max_tokens", &self.max_tokens()).finish_non_exhaustive()
    }
}

/// Tokenised pairs of texts.
pub(crate) struct PairTokens {
    /// Token ids of each pair.
    pub ids: Vec<Vec<u32>>,
    /// For each token, 1 if it belongs to the second text, else 0.
    pub types: Vec<Vec<u32>>,
}

/// Pairs tokenised at a time, to bound memory.
const PAIRS_PER_ROUND: usize = 256;

impl Reranker {
    /// Loads a cross-encoder as sentence-transformers or transformers writes it: a BERT, RoBERTa, XLM-RoBERTa
    /// or ModernBERT with a head of one output. [`LoadOptions::reranker`] offers other precisions than f32.
    ///
    /// # Errors
    /// [`ModelError::OtherPurpose`] for another model, [`ModelError::BadSetting`] for an unimplemented
    /// setting, [`ModelError::BadFile`]; [`ModelError`] names the file and the problem.
    pub fn open(dir: impl AsRef<Path>) -> Result<Self, ModelError> {
        LoadOptions::new().reranker(dir)
    }

    /// The longest pair read in full, in tokens; in a longer pair the longer text is truncated first.
    pub fn max_tokens(&self) -> usize {
        self.parts.source.text.max_tokens
    }

    /// How well each document answers the question, higher is better: the output of the model's head, after
    /// the activation that its folder asks for (the logistic function unless it says otherwise).
    ///
    /// Runs on the calling thread's rayon pool, in micro-batches without padding.
    ///
    /// # Shapes
    /// Output `[documents]` f32, in their order.
    ///
    /// # Errors
    /// [`ModelError::Tokenizer`] if the tokenizer refuses a text; [`ModelError::BadEmbedding`] for a score
    /// that is not finite.
    pub fn score(&self, question: &str, documents: &[&str]) -> Result<Vec<f32>, ModelError> {
        let packed = self.parts.packed()?;
        let mut scores = Vec::with_capacity(documents.len());
        for round in documents.chunks(PAIRS_PER_ROUND) {
            let pairs: Vec<(&str, &str)> = round.iter().map(|&document| (question, document)).collect();
            let PairTokens { ids, types } = self.tokenize(&pairs)?;
            let own = in_micro_batches(&ids, 1, None, |batch, tokens| {
                let added = |text: usize, place: usize| {
                    let second = self.second.as_deref()?;
                    (types[batch[text]][place] == 1).then_some(second)
                };
                let logits = self.head.packed(&packed.forward_with(tokens, &added)?, 0);
                Ok(logits.into_iter().map(|logit| self.activation.apply(logit)).collect())
            })?;
            if let Some(index) = own.iter().position(|score| !score.is_finite()) {
                return Err(ModelError::BadEmbedding { index: scores.len() + index });
            }
            scores.extend(own);
        }
        Ok(scores)
    }
}

impl Reranker {
    /// Tokens of pairs of texts.
    ///
    /// # Errors
    /// [`ModelError::Tokenizer`].
    pub(crate) fn tokenize(&self, pairs: &[(&str, &str)]) -> Result<PairTokens, ModelError> {
        let tokenizer = self.parts.tokenizer()?;
        let pairs = pairs.par_iter().map(|(question, document)| tokenizer.encode_pair(question, document));
        let pairs = pairs.collect::<Result<Vec<Pair>, _>>()?;
        let (ids, types) = pairs.into_iter().map(|pair| (pair.ids, pair.types)).unzip();
        Ok(PairTokens { ids, types })
    }
}

impl LoadOptions {
    /// As [`Reranker::open`], with these options.
    ///
    /// # Errors
    /// Those of [`Reranker::open`].
    pub fn reranker(self, dir: impl AsRef<Path>) -> Result<Reranker, ModelError> {
        let dir = dir.as_ref();
        for missing in ["config.json", TOKENIZER_FILE] {
            if !dir.join(missing).exists() {
                return Err(ModelError::not_a_model(dir, missing));
            }
        }
        let activation = folder::reranker(dir)?;
        let config = TransformerConfig::from_file(&dir.join("config.json"))?;
        folder::check_weights(dir, dir, "CrossEncoder")?;
        let max_tokens = folder::reranker_length(dir, config.max_positions)?;
        let path = dir.join(ENCODER_FILE);
        let weights = Weights::from_file(&path)?;
        let m = config.hidden_size;
        #[cfg_attr(not(feature = "train"), allow(unused_variables, reason = "training writes them"))]
        let (head, head_names) = head::load(dir, &weights, m)?;
        let second = match config.type_vocab_size {
            0 | 1 => None,
            types => {
                let rows = weights.values("embeddings.token_type_embeddings.weight", &[types, m])?;
                let (first, second) = (&rows[..m], &rows[m..2 * m]);
                Some(second.iter().zip(first).map(|(second, first)| second - first).collect())
            }
        };
        drop(weights);
        let (tokenizer, dir) = (dir.join(TOKENIZER_FILE), dir.to_owned());
        let source = EncoderFiles {
            dir,
            weights: path,
            tokenizer,
            config,
            text: TextRules { max_tokens, ..TextRules::default() },
            precision: self.precision(),
            shared: false,
            unchecked: BTreeMap::new(),
        };
        let reranker = Reranker {
            parts: LazyParts::new(source),
            head,
            #[cfg(feature = "train")]
            head_names,
            activation,
            second,
        };
        if !self.lazy {
            reranker.parts.packed()?;
            reranker.parts.tokenizer()?;
        }
        Ok(reranker)
    }
}
