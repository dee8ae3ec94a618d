//! The output of a search.

use std::ops::Range;
use std::time::Duration;

use serde::de::{Deserialize, Deserializer};
use serde::ser::{Serialize, SerializeStruct, Serializer};
use serde_json::Value;

use super::encode::QueryEncoder;
use super::fusion::HitScores;
use super::request::SearchRequest;
use super::signs::Signs;
use crate::document::Document;
use crate::ids::LeafId;
use crate::outline::Outline;
use crate::serialize::milliseconds;

/// A document found by a search.
///
/// Serialised flat: `id`, `score`, `rerank_score`, `leaf`, the five of [`HitScores`], `judged`, `group`,
/// `title`, `text` and `metadata` of the document, and `passages`; all are always present. A hit can be read
/// back from that, without the outline of its document unless that is given as `_outline`.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Hit {
    /// The document's id.
    pub id: String,
    /// The score that ranks the hit, by default the index's similarity; higher is better.
    pub score: f32,
    /// By embedding and by words.
    pub scores: HitScores,
    /// The reranker's score, which determines the hit's position; `None` without a reranker
    /// ([`SearchRequest::rerank`](crate::SearchRequest::rerank)), and beyond its depth.
    pub rerank_score: Option<f32>,
    /// The judgment that moved it most, of the question asked or of a near one; `None` if no judgment did.
    pub judged: Option<RecalledJudgment>,
    /// The value that the documents of its group have in common; `None` for a document that is a group of its
    /// own, and without groups ([`SearchRequest::group_by`](crate::SearchRequest::group_by)).
    pub group: Option<Value>,
    /// The document as it was inserted; with [`SearchRequest::ids_only`](crate::SearchRequest::ids_only),
    /// only its id.
    pub document: Document,
    /// The leaf in which it was found, that of its best passage.
    pub leaf: LeafId,
    /// Its best passages, best first: one, or as many as the request asks for
    /// ([`SearchRequest::passages`](crate::SearchRequest::passages)). Empty in an index without passages.
    pub passages: Vec<HitPassage>,
}

impl Hit {
    /// The text of the best passage; the whole text in an index without passages.
    pub fn passage_text(&self) -> &str {
        match self.passages.first() {
            // Without documents, the text is missing.
            Some(best) => self.document.text.get(best.start..best.end).unwrap_or_default(),
            None => &self.document.text,
        }
    }
}

/// A judgment that changed a hit's score.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
#[non_exhaustive]
pub struct RecalledJudgment {
    /// The question that was judged.
    pub question: String,
    /// Cosine of that question and the one asked; 1 for the same question.
    pub similarity: f32,
    /// As in the judgment: 1 or more if the document answers the question.
    pub grade: i32,
    /// Whether the document's title or text was replaced after it was judged, so that the judgment counts
    /// half. Always false in a search over several indexes: it does not compare texts.
    pub stale: bool,
    /// What this judgment and others together add to the score, in units of the range of the candidates'
    /// scores.
    pub moved: f64,
}

impl RecalledJudgment {
    /// Less than this share of the range of the candidates' scores is not worth a word: of about a hundred
    /// candidates, it is the distance from one to the next.
    const NOTICEABLE: f64 = 0.01;

    /// Whether judgments moved the document so far that a list of hits should say so: by a hundredth of the
    /// range of the candidates' scores.
    pub fn is_noticeable(&self) -> bool {
        self.moved.abs() >= Self::NOTICEABLE
    }
}

/// A document that was judged for the question asked or a near one.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct MovedDocument {
    /// The document's id.
    pub id: String,
    /// What its judgments add to its score, in units of the range of candidates' scores; below 0 if they say
    /// that it does not answer.
    pub moved: f64,
    /// The judgment that counts most; `None` if they cancel each other out.
    pub judged: Option<RecalledJudgment>,
}

/// A passage of a hit's text.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
#[non_exhaustive]
pub struct HitPassage {
    /// The first byte and the end of the passage in the text; both on character boundaries.
    pub start: usize,
    /// See `start`.
    pub end: usize,
    /// By the index's similarity. If words alone rank, by how often the passage contains them.
    pub score: f32,
    /// The leaf that contains it.
    pub leaf: LeafId,
    /// The headings that it is under, outermost first, with one that it begins with. Empty without the
    /// document ([`SearchRequest::ids_only`](crate::SearchRequest::ids_only)).
    pub headings: Vec<String>,
    /// The line of the file on which it begins, from 1; `None` if unknown, or without the document.
    pub line: Option<u32>,
}

impl HitPassage {
    /// Its bytes in the text.
    pub fn range(&self) -> Range<usize> {
        self.start..self.end
    }

    /// Finds its headings and its line.
    pub(super) fn locate(&mut self, document: &Document) {
        let Document { text, outline, .. } = document;
        self.headings = outline.headings(text, self.start).into_iter().map(str::to_owned).collect();
        self.line = outline.line(text, self.start);
    }
}

impl Serialize for Hit {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self { id, score, scores, rerank_score, judged, group, document, leaf, passages } = self;
        let HitScores { dense, lexical, dense_rank, lexical_rank, memory } = scores;
        let mut fields = serializer.serialize_struct("Hit", 15)?;
        fields.serialize_field("id", id)?;
        fields.serialize_field("score", score)?;
        fields.serialize_field("rerank_score", rerank_score)?;
        fields.serialize_field("leaf", leaf)?;
        fields.serialize_field("dense", dense)?;
        fields.serialize_field("lexical", lexical)?;
        fields.serialize_field("dense_rank", dense_rank)?;
        fields.serialize_field("lexical_rank", lexical_rank)?;
        fields.serialize_field("memory", memory)?;
        fields.serialize_field("judged", judged)?;
        fields.serialize_field("group", group)?;
        fields.serialize_field("title", &document.title)?;
        fields.serialize_field("text", &document.text)?;
        fields.serialize_field("metadata", &document.metadata)?;
        fields.serialize_field("passages", passages)?;
        fields.end()
    }
}

/// The fields of a serialised [`Hit`].
#[derive(serde::Deserialize)]
struct Fields {
    id: String,
    score: f32,
    rerank_score: Option<f32>,
    leaf: LeafId,
    #[serde(flatten)]
    scores: HitScores,
    judged: Option<RecalledJudgment>,
    group: Option<Value>,
    title: String,
    text: String,
    metadata: Option<Value>,
    #[serde(default, rename = "_outline")]
    outline: Outline,
    passages: Vec<HitPassage>,
}

impl<'de> Deserialize<'de> for Hit {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let own = Fields::deserialize(deserializer)?;
        let Fields { id, score, rerank_score, leaf, scores, judged, group, passages, .. } = own;
        let Fields { title, text, metadata, outline, .. } = own;
        let document = Document { id: id.clone(), title, text, metadata, outline };
        Ok(Self { id, score, scores, rerank_score, judged, group, document, leaf, passages })
    }
}

/// The cost of a search.
///
/// Times are serialised in milliseconds: `encode_ms`, `beam_ms`, `scan_ms`, `lexical_ms`, `fetch_ms`,
/// `rerank_ms`.
#[derive(Clone, Copy, Debug, Default, PartialEq, serde::Serialize)]
#[non_exhaustive]
pub struct SearchStats {
    /// Leaves visited; 0 for exact search.
    pub leaves_visited: usize,
    /// Documents scored; passages if each has its own embedding
    /// ([`IndexBuilder::passages`](crate::IndexBuilder::passages)), also in the counts below.
    pub documents_visited: usize,
    /// How many of their embeddings were read; codes ruled out the others.
    pub embeddings_read: usize,
    /// Documents whose id and metadata the filter was evaluated on; 0 without a filter, and fewer if its
    /// results are cached or lists of values answer it.
    pub documents_checked: usize,
    /// Postings of terms that were scored; 0 if words are not used.
    pub postings_scored: usize,
    /// Hits read by a reranker; 0 without one.
    pub reranked: usize,
    /// Whether no other document could have been a hit: all leaves were visited, or all documents that pass
    /// the filter were scored. If fewer than `k` hits were found then, no more exist.
    pub exhausted: bool,
    /// Documents scored over live documents, in [0, 1].
    pub visited_fraction: f64,
    /// As `visited_fraction`, plus the routing cost in document dot products.
    pub work_fraction: f64,
    /// Which encoder produced the embedding of the query; `None` for a vector, and if words alone rank. The
    /// full one if the fast one was unsure.
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
    /// The reranker's reading of hits and question.
    #[serde(rename = "rerank_ms", serialize_with = "milliseconds")]
    pub rerank: Duration,
}

/// How the hits of a search are ranked.
#[derive(Clone, Copy, Debug, Default, PartialEq, serde::Serialize)]
#[serde(tag = "mode", rename_all = "lowercase")]
#[non_exhaustive]
pub enum RankedBy {
    /// By their embeddings; the score is the index's similarity.
    #[default]
    Dense,
    /// By the words of the question; the score is that of BM25.
    Lexical,
    /// By both.
    Hybrid {
        /// Weight of the embeddings' score, from 0 to 1; `None` if ranks are combined.
        alpha: Option<f64>,
    },
}

/// Hits, best first, and the cost of finding them.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
#[non_exhaustive]
pub struct SearchResult {
    /// The request, with defaults filled in.
    pub request: SearchRequest,
    /// How the hits are ranked. Serialised as `ranked_by.mode`, and `ranked_by.alpha` for a hybrid search.
    pub ranked_by: RankedBy,
    /// The meaning of the signs in the question.
    pub signs: Signs,
    /// Notes on the result, in sentences: why no document passes a filter, why signs were read as text, or
    /// that the requested fast encoder was unsure. Usually empty.
    pub notes: Vec<String>,
    /// Best first, by the reranker for those that it read; equal scores in byte order of their ids.
    pub hits: Vec<Hit>,
    /// The cost of the search.
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
