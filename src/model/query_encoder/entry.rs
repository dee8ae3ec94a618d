//! The entry for the query encoder in a bundle's `ehi.json`.

use serde::{Deserialize, Serialize};

use super::super::error::ModelError;

/// Search quality of an encoder on held-out judged questions: means over the questions, each between 0 and 1.
/// Every document is scored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct EncoderQuality {
    /// nDCG of the best ten hits.
    pub ndcg_at_10: f64,
    /// Share of the relevant documents among the ten best.
    pub recall_at_10: f64,
    /// Share of the relevant documents among the hundred best.
    pub recall_at_100: f64,
}

/// A difference of nDCG@10 and its significance.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct SignificantDifference {
    /// Fast minus full.
    pub value: f64,
    /// The lower end of its 95% confidence interval, by the t-distribution.
    pub at_least: f64,
    /// The larger p-value of a paired t-test and a paired bootstrap, two-sided.
    pub p_value: f64,
}

/// Routing of the full and the fast embeddings by the bundle's tree: the share of the ten nearest documents
/// of the full embedding that lie in the leaves of a beam.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct TreeQuality {
    /// Leaves in the beam.
    pub beam: usize,
    /// With the full encoder's embedding.
    pub full: f64,
    /// With the fast encoder's embedding.
    pub fast: f64,
}

/// Median time to encode a question, including tokenization, on one thread of the machine that made the
/// encoder.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct EncodeMicroseconds {
    /// By the full encoder, in f32.
    pub full: f64,
    /// By the fast one.
    pub fast: f64,
}

/// Report of a distillation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct DistilReport {
    /// Texts that it was trained on.
    pub texts: usize,
    /// Judged questions among them.
    pub questions: usize,
    /// Passes over the texts.
    pub passes: usize,
    /// Seconds in total.
    pub seconds: f64,
    /// Bytes of its file.
    pub bytes: u64,
    /// Documents used for the measurements below.
    pub documents: usize,
    /// Held-out texts without judgments.
    pub held_out_texts: usize,
    /// Mean cosine between fast and full embeddings of those.
    pub cosine: f64,
    /// Mean share of the full encoder's ten nearest documents that are among the fast one's ten.
    pub overlap_at_10: f64,
    /// Share of those texts for which the fast encoder is unsure, so that the full one is used.
    pub unsure: f64,
    /// Held-out judged questions.
    pub held_out_questions: usize,
    /// Quality of the full encoder on those; `None` without any.
    pub full: Option<EncoderQuality>,
    /// Quality of the fast encoder, which falls back to the full one if unsure.
    pub fast: Option<EncoderQuality>,
    /// Difference of nDCG@10; `None` with fewer than two questions.
    pub difference: Option<SignificantDifference>,
    /// Routing; `None` without a tree.
    pub tree: Option<TreeQuality>,
    /// Times.
    pub encode_us: EncodeMicroseconds,
    /// Whether searches use the fast encoder unless asked otherwise.
    pub is_default: bool,
    /// The same in one sentence.
    pub sentence: String,
}

/// The entry.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct QueryEncoderEntry {
    /// Name of its file in the bundle: [`Self::file_name`].
    pub file: String,
    pub sha256: String,
    /// The encoder that it was made for, as given by
    /// [`Bundle::encoder_digest`](crate::model::Bundle::encoder_digest).
    pub encoder: String,
    /// Confidence below which the full encoder is used.
    pub unsure_below: f32,
    /// Whether it learned from the index's judged questions.
    pub of_index: bool,
    pub report: DistilReport,
}

/// Prefix and suffix of its file name.
const PREFIX: &str = "query-";
const SUFFIX: &str = ".safetensors";
/// Digits of the checksum in the name.
const DIGITS: usize = 16;

impl QueryEncoderEntry {
    /// The name of a file, from its checksum, so that different encoders never share a name.
    pub fn file_name(sha256: &str) -> String {
        format!("{PREFIX}{}{SUFFIX}", sha256.get(..DIGITS).unwrap_or(sha256))
    }

    /// Whether a file name is that of a query encoder, used or not.
    pub fn is_file_name(name: &str) -> bool {
        let digits = name.strip_prefix(PREFIX).and_then(|name| name.strip_suffix(SUFFIX));
        digits.is_some_and(|digits| digits.len() == DIGITS && digits.bytes().all(|b| b.is_ascii_hexdigit()))
    }

    /// Refuses a query encoder made for another encoder, and a file name that does not match the checksum,
    /// because it is joined to a path.
    pub fn check(&self, path: &std::path::Path, encoder: &str) -> Result<(), ModelError> {
        if self.encoder != encoder {
            return Err(ModelError::unsupported(
                path,
                "query encoder of the encoder",
                &self.encoder,
                "one that was made for the encoder of this model",
            ));
        }
        if Self::is_file_name(&self.file)
            && self.file == Self::file_name(&self.sha256)
            && self.unsure_below.is_finite()
        {
            return Ok(());
        }
        Err(ModelError::unsupported(
            path,
            "query encoder",
            &self.file,
            "a file named by its checksum, with a finite bound",
        ))
    }
}
