//! Encodes questions, with the full encoder or with the query encoder.

use std::sync::Arc;

use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use crate::error::{InputError, Result};
use crate::index::active_model::ActiveModel;
use crate::model::{FastEncoder, Role};

/// Which of a model's two encoders reads a question.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum QueryEncoder {
    /// The small encoder, trained to match the full one ([`Index::distil`], [`distil`]). If it is unsure, for
    /// example of words that it has never seen, the full one is used.
    ///
    /// [`Index::distil`]: crate::Index::distil
    /// [`distil`]: crate::train::distil
    Fast,
    /// The encoder that encoded the documents.
    Full,
}

impl std::fmt::Display for QueryEncoder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Fast => "fast",
            Self::Full => "full",
        })
    }
}

impl std::str::FromStr for QueryEncoder {
    type Err = UnknownEncoder;

    fn from_str(text: &str) -> std::result::Result<Self, UnknownEncoder> {
        match text {
            "fast" => Ok(Self::Fast),
            "full" => Ok(Self::Full),
            _ => Err(UnknownEncoder { found: text.to_owned() }),
        }
    }
}

/// A text that does not name a [`QueryEncoder`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{found}` is not an encoder of questions: fast or full")]
pub struct UnknownEncoder {
    /// The text.
    pub found: String,
}

/// A question as the encoders read it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EncoderText<'a> {
    pub text: &'a str,
    /// Its tokens, if they are known.
    pub tokens: Option<&'a [u32]>,
}

impl<'a> From<&'a str> for EncoderText<'a> {
    fn from(text: &'a str) -> Self {
        Self { text, tokens: None }
    }
}

/// The embedding of a question, `[dim]` f32, and the encoder that produced it.
pub(crate) type EncodedQuestion = (Vec<f32>, QueryEncoder);

impl ActiveModel {
    /// The encoder for searches that do not choose one.
    pub(crate) fn default_encoder(&self) -> QueryEncoder {
        match self.bundle.fast() {
            // `verify` reports a damaged one; a search that asks for it gets the error.
            Some(fast) if fast.entry().report.is_default && fast.is_usable() => QueryEncoder::Fast,
            _ => QueryEncoder::Full,
        }
    }

    /// Embeddings of questions, in their order.
    ///
    /// # Errors
    /// [`InputError::NoQueryEncoder`] if the fast one is requested but missing; those of the encoders.
    pub(crate) fn encode_questions(
        &self,
        questions: &[EncoderText<'_>],
        asked: Option<QueryEncoder>,
    ) -> Result<Vec<EncodedQuestion>> {
        let encoded = match asked.unwrap_or_else(|| self.default_encoder()) {
            QueryEncoder::Full => vec![None; questions.len()],
            QueryEncoder::Fast => self.encode_fast(questions)?,
        };
        let left = questions.iter().zip(&encoded).filter(|(_, row)| row.is_none());
        let left: Vec<&str> = left.map(|(question, _)| question.text).collect();
        let encoder = self.model().encoder()?;
        let rows = if left.is_empty() { Vec::new() } else { encoder.embed(&left, Role::Query)? };
        let mut rows = rows.chunks_exact(encoder.dim());
        let full = |row: Option<Vec<f32>>| match row {
            Some(row) => (row, QueryEncoder::Fast),
            None => (rows.next().unwrap_or_default().to_vec(), QueryEncoder::Full),
        };
        Ok(encoded.into_iter().map(full).collect())
    }

    /// With the fast encoder; `None` if it is unsure.
    fn encode_fast(&self, questions: &[EncoderText<'_>]) -> Result<Vec<Option<Vec<f32>>>> {
        let fast: Arc<FastEncoder> = self.bundle.fast().ok_or(InputError::NoQueryEncoder)?;
        let encoder = self.model().encoder()?;
        let encode = |question: &EncoderText<'_>| -> Result<Option<Vec<f32>>> {
            let embedding = match question.tokens {
                Some(tokens) => fast.embed(tokens)?,
                None => fast.embed(&encoder.tokenize(question.text, Role::Query)?)?,
            };
            Ok((!fast.is_unsure(&embedding)).then_some(embedding.row))
        };
        match questions {
            // Without using the thread pool.
            [question] => Ok(vec![encode(question)?]),
            questions => {
                fast.load()?;
                questions.par_iter().map(encode).collect()
            }
        }
    }
}
