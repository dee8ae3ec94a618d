//! What a search returns.

use std::time::Duration;

use serde::ser::{Serialize, SerializeStruct, Serializer};

use super::encode::QueryEncoder;
use super::fusion::HitScores;
use super::request::SearchRequest;
use super::signs::Signs;
use crate::document::Document;
use crate::ids::LeafId;
use crate::serialize::milliseconds;

/// One document found.
///
/// Serialised flat: `id`, `score`, `rerank_score`, `leaf`, the four of [`HitScores`], `title`, `text` and
/// `metadata` of the document, and `passages`, all of them always there.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Hit {
    /// The document's id.
    pub id: String,
    /// By what the search ranks by, the index's similarity unless asked otherwise; higher is better.
    pub score: f32,
    /// By embedding and by words.
    pub scores: HitScores,
    /// What the reranker gave, by which it then stands where it does; none without one
    /// ([`SearchRequest::rerank`](crate::SearchRequest::rerank)), and behind its depth.
    pub rerank_score: Option<f32>,
    /// The document as it was inserted; with
    /// [`SearchRequest::ids_only`](crate::SearchRequest::ids_only) its id alone.
    pub document: Document,
    /// The leaf it was found in, that of its best passage; its most probable one where it is in several.
    pub leaf: LeafId,
    /// Its best passages, best first: one, or as many as the request asks for
    /// ([`SearchRequest::passages`](crate::SearchRequest::passages)). None in an index without passages.
    pub passages: Vec<HitPassage>,
}

impl Hit {
    /// The text of the best passage; all of the text in an index without passages.
    pub fn passage_text(&self) -> &str {
        match self.passages.first() {
            // Without documents there is no text.
            Some(best) => self.document.text.get(best.start..best.end).unwrap_or_default(),
            None => &self.document.text,
        }
    }
}

/// A passage of a hit's text.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize)]
#[non_exhaustive]
pub struct HitPassage {
    /// Its first byte in the text, and the one behind its last; both on a character's boundary.
    pub start: usize,
    /// See `start`.
    pub end: usize,
    /// By the index's similarity. Where words alone rank, by how often the passage has them.
    pub score: f32,
    /// The leaf that it lies in.
    pub leaf: LeafId,
}

impl Serialize for Hit {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self { id, score, scores, rerank_score, document, leaf, passages } = self;
        let HitScores { dense, lexical, dense_rank, lexical_rank } = scores;
        let mut fields = serializer.serialize_struct("Hit", 12)?;
        fields.serialize_field("id", id)?;
        fields.serialize_field("score", score)?;
        fields.serialize_field("rerank_score", rerank_score)?;
        fields.serialize_field("leaf", leaf)?;
        fields.serialize_field("dense", dense)?;
        fields.serialize_field("lexical", lexical)?;
        fields.serialize_field("dense_rank", dense_rank)?;
        fields.serialize_field("lexical_rank", lexical_rank)?;
        fields.serialize_field("title", &document.title)?;
        fields.serialize_field("text", &document.text)?;
        fields.serialize_field("metadata", &document.metadata)?;
        fields.serialize_field("passages", passages)?;
        fields.end()
    }
}

/// What a search cost.
///
/// Times are serialised in milliseconds: `encode_ms`, `beam_ms`, `scan_ms`, `lexical_ms`, `fetch_ms`,
/// `rerank_ms`.
#[derive(Clone, Copy, Debug, Default, PartialEq, serde::Serialize)]
#[non_exhaustive]
pub struct SearchStats {
    /// Leaves visited; 0 for exact search.
    pub leaves_visited: usize,
    /// Documents scored; passages of them where each has its own embedding
    /// ([`IndexBuilder::passages`](crate::IndexBuilder::passages)), which are then what is visited and read
    /// below.
    pub documents_visited: usize,
    /// Those of them whose embedding was read; codes ruled the others out.
    pub embeddings_read: usize,
    /// Documents whose id and metadata the filter was evaluated on; 0 without a filter, and fewer where the
    /// rows that it lets through are cached.
    pub documents_checked: usize,
    /// Postings of terms that were scored; 0 where words are not looked at.
    pub postings_scored: usize,
    /// Hits that a reranker read; 0 without one.
    pub reranked: usize,
    /// Whether no other document could have been a hit: all leaves were visited, or all documents that
    /// the filter lets through were scored. Fewer than `k` hits then means that there are no more.
    pub exhausted: bool,
    /// Documents scored over live documents, in [0, 1].
    pub visited_fraction: f64,
    /// As `visited_fraction`, plus the routing cost in document dot products.
    pub work_fraction: f64,
    /// Which encoder gave the embedding of the query; `None` of a vector, and where words alone rank. The
    /// full one where the fast one was unsure.
    pub encoder: Option<QueryEncoder>,
    /// Tokenising and encoding the query.
    #[serde(rename = "encode_ms", serialize_with = "milliseconds")]
    pub encode: Duration,
    /// Beam search in the tree.
    #[serde(rename = "beam_ms", serialize_with = "milliseconds")]
    pub beam: Duration,
    /// Evaluating the filter and scoring documents.
    #[serde(rename = "scan_ms", serialize_with = "milliseconds")]
    pub scan: Duration,
    /// Finding and scoring documents by their words.
    #[serde(rename = "lexical_ms", serialize_with = "milliseconds")]
    pub lexical: Duration,
    /// Reading the hits' documents.
    #[serde(rename = "fetch_ms", serialize_with = "milliseconds")]
    pub fetch: Duration,
    /// Reading hits and question together by the reranker.
    #[serde(rename = "rerank_ms", serialize_with = "milliseconds")]
    pub rerank: Duration,
}

/// What the hits of a search are ranked by.
#[derive(Clone, Copy, Debug, Default, PartialEq, serde::Serialize)]
#[serde(tag = "mode", rename_all = "lowercase")]
#[non_exhaustive]
pub enum RankedBy {
    /// Their embeddings; the score is the index's similarity.
    #[default]
    Dense,
    /// The words of the question; the score is that of BM25.
    Lexical,
    /// Both.
    Hybrid {
        /// Weight of the embeddings, with a score from 0 to 1; `None` where ranks are joined.
        alpha: Option<f64>,
    },
}

/// Hits, best first, and what finding them cost.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
#[non_exhaustive]
pub struct SearchResult {
    /// What was asked for, with the defaults.
    pub request: SearchRequest,
    /// What they are ranked by. Serialised as `ranked_by.mode`, and `ranked_by.alpha` of a hybrid search.
    pub ranked_by: RankedBy,
    /// What the signs of the question meant.
    pub signs: Signs,
    /// What should be known of the result, in sentences: why a filter let nothing through, why signs
    /// were read as text, or that the fast encoder was asked for and was unsure. Most results have none.
    pub notes: Vec<String>,
    /// Best first, by the reranker where one has read them; equal scores in the byte order of
    /// their ids.
    pub hits: Vec<Hit>,
    /// What the search cost.
    pub stats: SearchStats,
}

impl SearchResult {
    /// The hits, best first.
    pub fn iter(&self) -> std::slice::Iter<'_, Hit> {
        self.hits.iter()
    }

    /// Number of hits.
    pub fn len(&self) -> usize {
        self.hits.len()
    }

    /// Whether there are no hits.
    pub fn is_empty(&self) -> bool {
        self.hits.is_empty()
    }
}

impl IntoIterator for SearchResult {
    type Item = Hit;
    type IntoIter = std::vec::IntoIter<Hit>;

    fn into_iter(self) -> Self::IntoIter {
        self.hits.into_iter()
    }
}

impl<'a> IntoIterator for &'a SearchResult {
    type Item = &'a Hit;
    type IntoIter = std::slice::Iter<'a, Hit>;

    fn into_iter(self) -> Self::IntoIter {
        self.hits.iter()
    }
}
