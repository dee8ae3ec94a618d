//! The parameters of a search, as plain data.

use std::sync::Arc;

use serde::de::DeserializeOwned;
use serde::{Serialize, Serializer};
use serde_json::{Map, Value, json};

use super::encode::QueryEncoder;
use super::fusion::Fusion;
use crate::error::{InputError, Result};
use crate::filter::Filter;
use crate::ids::LeafId;
use crate::lexical::TermStatistics;
use crate::model::Reranker;

/// Default number of hits of a search.
pub const DEFAULT_K: usize = 10;
/// Default share of exact search's hits that a search should find.
pub const DEFAULT_RECALL: f64 = 0.95;
/// Up to this number of documents, a search scores every one by default. With codes that takes much less
/// time than encoding the question.
pub const MOST_EXACT_DOCUMENTS: usize = 10_000;

/// How a search ranks documents. In text form `best`, `dense`, `lexical` or `hybrid`.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum RankBy {
    /// As [`Self::Hybrid`] with [`Fusion::Learned`] if the index has words. As [`Self::Dense`] without them,
    /// for an embedding, and once [`Index::fuse`](crate::Index::fuse) has found that words do not help,
    /// unless the question has signs. As [`Self::Lexical`] for a text without an embedding in an index
    /// without an encoder ([`Bundle::for_vectors`](crate::Bundle::for_vectors)).
    #[default]
    Best,
    /// By embeddings alone; signs of a question are text.
    Dense,
    /// By the words of the question alone, with BM25; nothing is encoded.
    ///
    /// Words are the tokens of the index's encoder, over whole texts; in scripts without spaces, characters
    /// and pairs of them. `+word` must be in every hit, and `-word` in none; likewise `"a phrase"` and `-"a
    /// phrase"`; at most [`MOST_SIGNED`](crate::search::MOST_SIGNED) of them. A hit contains at least one of
    /// the other words, so there may be fewer than `k` hits. [`SearchResult::signs`] says how the signs were
    /// understood. If there are more than [`MOST_TERMS`](crate::search::MOST_TERMS) different terms, the
    /// rarest count.
    ///
    /// An index without words is [`StoreError::NotLexical`](crate::store::StoreError::NotLexical), a question
    /// that only excludes [`InputError::OnlyExclusions`], a vector [`InputError::NoWords`].
    ///
    /// [`SearchResult::signs`]: crate::SearchResult::signs
    Lexical,
    /// By embeddings and words, with the two scores combined as [`Fusion`] says.
    ///
    /// Candidates are the best 48 by embeddings and the best 48 by words, or the best `k` of each if that is
    /// more; each candidate has both scores. The reach applies to the search by embeddings; words are
    /// searched in the whole collection. The encoder reads the question without signs and excluded words.
    ///
    /// Scores are scaled to the candidates: do not compare them between questions. Beyond 48 hits, another
    /// `k` gives other scores.
    Hybrid(Fusion),
}

impl RankBy {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Best => "best",
            Self::Dense => "dense",
            Self::Lexical => "lexical",
            Self::Hybrid(_) => "hybrid",
        }
    }
}

/// How far embeddings are searched.
#[derive(Clone, Debug, PartialEq)]
pub enum Reach {
    /// As many leaves as needed to find this share of the `k` hits of exact search, on average; over 0, at
    /// most 1. Returns `k` hits whenever that many documents are live.
    ///
    /// [`Index::calibrate`](crate::Index::calibrate) measured on the index's own questions how many leaves
    /// that takes; other questions may find more or less, and so may a search with a filter. Every document
    /// is scored, by codes first ([`SearchRequest::codes`]), if the index has no tree or at most
    /// [`MOST_EXACT_DOCUMENTS`] documents, if the number of leaves was not measured
    /// ([`Index::recall_curve`](crate::Index::recall_curve)) or they hold more than half of the documents,
    /// and for more than 100 hits. 1 means exact search.
    Recall(f64),
    /// Exactly this many of the most probable leaves. A number beyond the leaves of the tree means all of
    /// them.
    Beam(usize),
    /// Exactly these leaves, each once: those that [`Bundle::route`](crate::Bundle::route) found for the
    /// question, for example when one search runs over several indexes of one model. Documents in other
    /// leaves are not hits, even if they pass the filter.
    Leaves(Vec<LeafId>),
    /// Every document, without the tree.
    Exact,
}

/// Groups of documents with the same value of a field: chunks of one text, or variants of one product.
///
/// The best hit of a group determines its rank. A group has up to `per_group` hits, taken from the best
/// `2 k per_group` documents, or from more, up to 10,000, if these have fewer than `k` groups. The value is a
/// number, a string or a boolean; a document without the field, or with null, an array or an object there, is
/// a group of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupBy {
    /// A key of the metadata, or a path of keys separated by dots, as in a [`Filter`].
    pub field: String,
    /// Maximum number of hits of a group; 0 is [`InputError::OutOfRange`].
    pub per_group: usize,
}

/// A cross-encoder that rescores the best hits, reading each together with the question.
#[derive(Clone, Debug)]
pub struct Rerank {
    /// The cross-encoder.
    pub reranker: Arc<Reranker>,
    /// Number of hits that it reads.
    pub depth: usize,
}

impl PartialEq for Rerank {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.reranker, &other.reranker) && self.depth == other.depth
    }
}

/// The parameters of a search in addition to the question: for
/// [`Index::search_with`](crate::Index::search_with) and related calls.
///
/// Created by [`Self::default`] (the mode [`RankBy::Best`], a recall of [`DEFAULT_RECALL`]), [`Self::dense`],
/// [`Self::lexical`] or [`Self::hybrid`], and methods that each set one field; or read from JSON by
/// [`Self::from_json`], with the same names as in the program and in Python. Checked only when a search uses
/// it.
///
/// `encoder`, `reach`, `codes` and `parallel` belong to searches by embeddings, `bm25` and `statistics` to
/// those by words: in a mode that does not use them they are [`InputError::Conflict`]. Everything else can be
/// combined.
#[derive(Clone, Debug, PartialEq)]
pub struct SearchRequest {
    /// Maximum number of hits. Fewer are returned if fewer documents of the index can be hits, or, with
    /// [`Reach::Beam`], if the visited leaves hold fewer.
    pub k: usize,
    /// How documents are ranked.
    pub mode: RankBy,
    /// How far embeddings are searched: a recall of [`DEFAULT_RECALL`] if absent.
    pub reach: Option<Reach>,
    /// Which encoder reads the question; if absent, the fast one if its verdict says so
    /// ([`Index::query_encoder`](crate::Index::query_encoder)). Asking for a fast encoder that the model
    /// lacks is [`InputError::NoQueryEncoder`]; with an embedding, any encoder is an error.
    pub encoder: Option<QueryEncoder>,
    /// Whether codes of one bit per dimension may rule documents out, so that their embeddings need not be
    /// read.
    ///
    /// A hit can be missed then; on the sets of `docs/lab/benchmarks.md`, one to four in ten thousand were.
    /// If absent, codes are used except in searches that ask for every document: [`Reach::Exact`], a beam of
    /// all leaves of a tree, and a beam with a filter that few documents pass. `true` allows them there too.
    /// Documents without codes, such as unflushed ones, are scored by their embeddings.
    pub codes: Option<bool>,
    /// Whether a single question is searched on the threads of the current rayon pool. Without codes, the
    /// hits are the same; with codes, different hits may be missed. Several questions have a thread each
    /// ([`Index::search_many`](crate::Index::search_many)), regardless of this field.
    pub parallel: bool,
    /// `k1` and `b` of BM25: how much further occurrences of a word count (at least 0, 1.2 if absent), and
    /// how much the score falls with the length of a text (0 to 1, 0.75 if absent). Other values are
    /// [`InputError::OutOfRange`]. [`Index::fuse`](crate::Index::fuse) measures with the defaults.
    pub bm25: Option<(f32, f32)>,
    /// Statistics of words that replace the index's own: the sum of those of several indexes
    /// ([`Index::term_statistics`](crate::Index::term_statistics)), so that scores by words do not depend on
    /// which index holds a document. Statistics of other terms are [`InputError::OtherTerms`]. Not in JSON.
    pub statistics: Option<Arc<TermStatistics>>,
    /// Which documents may be hits.
    ///
    /// Returns `k` hits whenever that many documents pass: until then the search visits more leaves than the
    /// reach asks for. With [`Reach::Recall`] it visits the leaves that it would for `k` divided by the share
    /// of documents that pass, or scores all that pass without the tree if they are few or in most leaves.
    /// With [`Reach::Beam`] it does the latter if fewer than one in a hundred pass.
    /// [`SearchStats`](crate::SearchStats) says how far the search went.
    ///
    /// Lists of the values of metadata say which documents pass, where there are such lists
    /// ([`Index::count_where`](crate::Index::count_where)); results of the last few filters are cached.
    pub filter: Option<Arc<Filter>>,
    /// Groups hits by the value of a field; [`Self::k`] then counts groups. [`InputError::Conflict`] with a
    /// reranker, and [`InputError::InapplicableOption`] in [`Index::explain`](crate::Index::explain) and
    /// [`Index::candidates`](crate::Index::candidates).
    pub group_by: Option<GroupBy>,
    /// Maximum passages per hit: its best ones among the candidates, best first; only the best if absent,
    /// and none with 0. If words are used, all of a candidate's passages are scored, otherwise those in
    /// visited leaves. [`InputError::InapplicableOption`] if the index has no passages
    /// ([`IndexBuilder::passages`](crate::IndexBuilder::passages)).
    pub passages: Option<usize>,
    /// Whether hits contain only ids, without title, text and metadata.
    pub ids_only: bool,
    /// The reranker: it rescores the best hits and reorders them; hits beyond its depth keep their order. A
    /// hit keeps its first score, and has the reranker's in [`Hit::rerank_score`](crate::Hit::rerank_score).
    /// The search itself finds as many hits as the reranker reads, or `k` if that is more. In JSON
    /// `rerank_depth`, which is only written.
    ///
    /// For questions in text: with a vector it is [`InputError::InapplicableOption`], and so it is in
    /// [`Index::explain`](crate::Index::explain). A depth of 0 is [`InputError::OutOfRange`].
    pub rerank: Option<Rerank>,
    /// Whether judgments ([`Index::record`](crate::Index::record)) are left out of the ranking.
    pub no_memory: bool,
    /// Whether the question is kept out of the log of questions
    /// ([`Index::log_questions`](crate::Index::log_questions)): for example one that is still being typed.
    pub unlogged: bool,
}

impl Default for SearchRequest {
    fn default() -> Self {
        Self {
            k: DEFAULT_K,
            mode: RankBy::Best,
            reach: None,
            encoder: None,
            codes: None,
            parallel: false,
            bm25: None,
            statistics: None,
            filter: None,
            group_by: None,
            passages: None,
            ids_only: false,
            rerank: None,
            no_memory: false,
            unlogged: false,
        }
    }
}

impl SearchRequest {
    /// The default, except for the mode.
    pub fn of(mode: RankBy) -> Self {
        Self { mode, ..Self::default() }
    }

    /// By embeddings alone.
    pub fn dense() -> Self {
        Self::of(RankBy::Dense)
    }

    /// By words alone.
    pub fn lexical() -> Self {
        Self::of(RankBy::Lexical)
    }

    /// By both.
    pub fn hybrid(fusion: Fusion) -> Self {
        Self::of(RankBy::Hybrid(fusion))
    }

    /// Sets [`Self::k`].
    pub fn k(self, k: usize) -> Self {
        Self { k, ..self }
    }

    /// Searches with [`Reach::Beam`].
    pub fn beam(self, beam: usize) -> Self {
        self.reach(Reach::Beam(beam))
    }

    /// Searches with [`Reach::Recall`].
    pub fn recall(self, recall: f64) -> Self {
        self.reach(Reach::Recall(recall))
    }

    /// Searches with [`Reach::Exact`].
    pub fn exact(self) -> Self {
        self.reach(Reach::Exact)
    }

    /// Searches with [`Reach::Leaves`].
    pub fn leaves(self, leaves: &[LeafId]) -> Self {
        self.reach(Reach::Leaves(leaves.to_vec()))
    }

    /// Sets [`Self::reach`].
    pub fn reach(self, reach: Reach) -> Self {
        Self { reach: Some(reach), ..self }
    }

    /// Sets [`Self::encoder`].
    pub fn encoder(self, encoder: QueryEncoder) -> Self {
        Self { encoder: Some(encoder), ..self }
    }

    /// Sets [`Self::codes`].
    pub fn codes(self, codes: bool) -> Self {
        Self { codes: Some(codes), ..self }
    }

    /// Sets [`Self::parallel`].
    pub fn parallel(self) -> Self {
        Self { parallel: true, ..self }
    }

    /// Sets [`Self::bm25`].
    pub fn bm25(self, k1: f32, b: f32) -> Self {
        Self { bm25: Some((k1, b)), ..self }
    }

    /// Sets [`Self::statistics`].
    pub fn statistics(self, statistics: &Arc<TermStatistics>) -> Self {
        Self { statistics: Some(Arc::clone(statistics)), ..self }
    }

    /// Sets [`Self::filter`].
    pub fn filter(self, filter: &Filter) -> Self {
        Self { filter: Some(Arc::new(filter.clone())), ..self }
    }

    /// Sets [`Self::group_by`].
    pub fn group_by(self, field: impl Into<String>, per_group: usize) -> Self {
        Self { group_by: Some(GroupBy { field: field.into(), per_group }), ..self }
    }

    /// Sets [`Self::passages`].
    pub fn passages(self, passages: usize) -> Self {
        Self { passages: Some(passages), ..self }
    }

    /// Sets [`Self::ids_only`].
    pub fn ids_only(self) -> Self {
        Self { ids_only: true, ..self }
    }

    /// Sets [`Self::rerank`].
    pub fn rerank(self, reranker: &Arc<Reranker>, depth: usize) -> Self {
        Self { rerank: Some(Rerank { reranker: Arc::clone(reranker), depth }), ..self }
    }

    /// Sets [`Self::no_memory`].
    pub fn no_memory(self) -> Self {
        Self { no_memory: true, ..self }
    }

    /// Sets [`Self::unlogged`].
    pub fn unlogged(self) -> Self {
        Self { unlogged: true, ..self }
    }

    /// Reads a request from a JSON object: `k`, `mode`, `alpha` or `rrf` for [`RankBy::Hybrid`]; one of
    /// `beam` (a number or `"all"`), `recall`, `exact` and `leaves`; `encoder`, `codes`, `parallel`, `bm25`,
    /// `filter`, `group_by` (a field), `per_group`, `passages`, `ids_only`, `no_memory` and `unlogged`. A
    /// null means an absent entry. `alpha` and `rrf` imply the mode `hybrid` if none is given.
    ///
    /// # Errors
    /// [`InputError::Conflict`] for options that exclude each other; [`InputError::BadRequest`] for unknown
    /// names and values of another kind; [`FilterError`](crate::FilterError).
    pub fn from_json(json: Value) -> Result<Self> {
        let (mut request, mut mode, mut reaches) = (Self::default(), None, Vec::new());
        let (mut alpha, mut rrf, mut per_group) = (None, None, None);
        let fields: Map<String, Value> = read("a request", json)?;
        for (name, value) in fields.into_iter().filter(|(_, value)| !value.is_null()) {
            match &*name {
                "k" => request.k = read(&name, value)?,
                "mode" => mode = Some(read::<String>(&name, value)?),
                "alpha" => alpha = Some(read(&name, value)?),
                "rrf" => rrf = Some(read(&name, value)?),
                "recall" => reaches.push(Reach::Recall(read(&name, value)?)),
                "beam" if value == "all" => reaches.push(Reach::Beam(usize::MAX)),
                "beam" => reaches.push(Reach::Beam(read(&name, value)?)),
                "leaves" => reaches.push(Reach::Leaves(read(&name, value)?)),
                "exact" => reaches.extend(read::<bool>(&name, value)?.then_some(Reach::Exact)),
                "encoder" => request.encoder = Some(read(&name, value)?),
                "codes" => request.codes = Some(read(&name, value)?),
                "parallel" => request.parallel = read(&name, value)?,
                "bm25" => request.bm25 = Some(read(&name, value)?),
                "filter" => {
                    let filter = value.as_str().map_or_else(|| Filter::from_json(&value), str::parse);
                    request.filter = Some(Arc::new(filter?));
                }
                "group_by" => request.group_by = Some(GroupBy { field: read(&name, value)?, per_group: 1 }),
                "per_group" => per_group = Some(read(&name, value)?),
                "passages" => request.passages = Some(read(&name, value)?),
                "ids_only" => request.ids_only = read(&name, value)?,
                "no_memory" => request.no_memory = read(&name, value)?,
                "unlogged" => request.unlogged = read(&name, value)?,
                _ => return Err(InputError::BadRequest { reason: format!("unknown field `{name}`") }.into()),
            }
        }
        match (&mut request.group_by, per_group) {
            (Some(group_by), Some(per_group)) => group_by.per_group = per_group,
            (None, Some(_)) => {
                let reason = "`per_group` needs `group_by`, the field that groups have in common".to_owned();
                return Err(InputError::BadRequest { reason }.into());
            }
            (_, None) => {}
        }
        let fusion = match (alpha, rrf) {
            (Some(_), Some(_)) => return Err(InputError::Conflict { options: ["alpha", "rrf"] }.into()),
            (Some(alpha), None) => Some(("alpha", Fusion::Convex(alpha))),
            (None, rrf) => rrf.map(|k| ("rrf", Fusion::Rrf { k })),
        };
        request.mode = match (mode.as_deref(), fusion) {
            (None | Some("hybrid"), Some((_, fusion))) => RankBy::Hybrid(fusion),
            (None | Some("best"), None) => RankBy::Best,
            (Some("dense"), None) => RankBy::Dense,
            (Some("lexical"), None) => RankBy::Lexical,
            (Some("hybrid"), None) => RankBy::Hybrid(Fusion::Learned),
            (Some("best" | "dense" | "lexical"), Some((option, _))) => {
                return Err(InputError::Conflict { options: [option, "mode"] }.into());
            }
            (Some(other), _) => {
                let reason = format!("`{other}` is not a mode: best, dense, lexical or hybrid");
                return Err(InputError::BadRequest { reason }.into());
            }
        };
        if let [one, other, ..] = &reaches[..] {
            return Err(InputError::Conflict { options: [one.name(), other.name()] }.into());
        }
        request.reach = reaches.pop();
        Ok(request)
    }
}

impl Reach {
    pub(super) fn name(&self) -> &'static str {
        match self {
            Self::Recall(_) => "recall",
            Self::Beam(_) => "beam",
            Self::Leaves(_) => "leaves",
            Self::Exact => "exact",
        }
    }
}

fn read<T: DeserializeOwned>(name: &str, value: Value) -> std::result::Result<T, InputError> {
    serde_json::from_value(value)
        .map_err(|error| InputError::BadRequest { reason: format!("`{name}`: {error}") })
}

/// In the form that [`SearchRequest::from_json`] reads, with the default reach filled in.
impl Serialize for SearchRequest {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        let default = (self.mode != RankBy::Lexical).then_some(Reach::Recall(DEFAULT_RECALL));
        let (name, reach) = match self.reach.as_ref().or(default.as_ref()) {
            None => ("beam", Value::Null),
            Some(Reach::Beam(usize::MAX)) => ("beam", "all".into()),
            Some(Reach::Beam(beam)) => ("beam", (*beam).into()),
            Some(Reach::Recall(recall)) => ("recall", (*recall).into()),
            Some(Reach::Leaves(leaves)) => ("leaves", json!(leaves)),
            Some(Reach::Exact) => ("exact", true.into()),
        };
        let (alpha, rrf) = match self.mode {
            RankBy::Hybrid(Fusion::Convex(alpha)) => (Some(alpha), None),
            RankBy::Hybrid(Fusion::Rrf { k }) => (None, Some(k)),
            _ => (None, None),
        };
        let given = json!({
            "k": self.k, "mode": self.mode.name(), "alpha": alpha, "rrf": rrf, name: reach,
            "encoder": self.encoder, "codes": self.codes, "bm25": self.bm25, "passages": self.passages,
            "group_by": self.group_by.as_ref().map(|group_by| &group_by.field),
            "per_group": self.group_by.as_ref().map(|group_by| group_by.per_group),
            "filter": self.filter.as_ref().map(|filter| filter.to_json()),
            "rerank_depth": self.rerank.as_ref().map(|rerank| rerank.depth),
            "parallel": self.parallel.then_some(true), "ids_only": self.ids_only.then_some(true),
            "no_memory": self.no_memory.then_some(true), "unlogged": self.unlogged.then_some(true),
        });
        let given = given.as_object().into_iter().flatten();
        serializer.collect_map(given.filter(|(_, value)| !value.is_null()))
    }
}
