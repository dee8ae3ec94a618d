//! Support for one search over several indexes of one model: leaves that are found once, statistics of words
//! that can be summed, and candidates of a hybrid search that are merged before they are fused.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::time::Instant;

use serde::Serialize;

use super::fusion::{Candidate, Fusion, HitScores, fuse};
use super::input::{Question, check_vector};
use super::request::{RankBy, SearchRequest};
use super::words::WordSearch;
use crate::error::{InputError, Result};
use crate::ids::{LeafId, Row};
use crate::index::Index;
use crate::index::active_model::ActiveModel;
use crate::index::vectors::unit;
use crate::lexical::{Analyzer, TermStatistics, syntax};
use crate::model::{Bundle, Role};

/// This file of the model defines the tokens of an index.
const TOKENIZER: &str = "tokenizer.json";

/// A leaf for a query.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Routed {
    /// The leaf.
    pub leaf: LeafId,
    /// Its probability, in [0, 1].
    pub probability: f32,
}

/// A document that is among the best of one index, by embeddings or by words, with both scores.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SearchCandidate {
    /// The document's id.
    pub id: String,
    /// By the index's similarity.
    pub dense: f32,
    /// By BM25; `None` if it lacks what the question requires or has what it excludes, so that it cannot be a
    /// hit.
    pub lexical: Option<f32>,
    /// Whether it is among the best by embeddings.
    pub by_embedding: bool,
    /// Whether it is among the best by words.
    pub by_words: bool,
}

/// The candidates of one index for a hybrid search.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct SearchCandidates {
    /// By ascending id.
    pub candidates: Vec<SearchCandidate>,
    /// Whether the question requires or excludes anything, so that more candidates may be needed.
    pub has_signs: bool,
    /// Live documents of the index.
    pub documents: usize,
}

/// A hit of a hybrid search over several indexes.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct FusedCandidate {
    /// The document's id.
    pub id: String,
    /// The combined score.
    pub score: f32,
    /// Both scores, and the ranks among all candidates. Serialised flat.
    #[serde(flatten)]
    pub scores: HitScores,
}

/// What an encoder reads of a question in which signs and quotes have a meaning: everything that is not
/// excluded.
pub fn plain_question(question: &str) -> String {
    syntax::plain_text(&syntax::parse(question))
}

/// The `k` best of the candidates of several indexes; each document must be in only one of them.
///
/// `candidates` are those of all indexes for one question, with the sum of their statistics
/// ([`SearchRequest::statistics`]) and the same `depth`. The best `depth` by embeddings and the best by words
/// over all indexes are fused, so the hits are those of a single index with all documents in the mode
/// [`RankBy::Hybrid`] with as many candidates. [`Fusion::Learned`] uses the default weight here.
///
/// # Errors
/// [`InputError::OutOfRange`].
pub fn fuse_candidates(
    candidates: impl IntoIterator<Item = SearchCandidate>,
    depth: usize,
    fusion: Fusion,
    k: usize,
) -> Result<Vec<FusedCandidate>> {
    let fusion = fusion.check()?;
    if k == 0 || depth == 0 {
        return Err(InputError::zero("k").into());
    }
    let mut all: Vec<SearchCandidate> = candidates.into_iter().collect();
    // So that positions are in id order.
    all.sort_unstable_by(|a, b| a.id.cmp(&b.id));
    let best = |score: &dyn Fn(&SearchCandidate) -> Option<f32>| {
        let scored = all.iter().enumerate().filter_map(|(place, own)| Some((score(own)?, place)));
        let mut scored: Vec<(f32, usize)> = scored.collect();
        scored.sort_unstable_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
        scored.truncate(depth);
        scored.into_iter().map(|(_, place)| place)
    };
    let mut places: Vec<usize> = best(&|own| own.by_embedding.then_some(own.dense)).collect();
    places.extend(best(&|own| own.lexical.filter(|_| own.by_words)));
    places.sort_unstable();
    places.dedup();
    let candidate = |place: usize| {
        let own = &all[place];
        Some(Candidate {
            row: Row(place as u32),
            dense: own.dense,
            lexical: own.lexical?,
            is_found: true,
            moved: 0.0,
        })
    };
    let chosen: Vec<Candidate> = places.into_iter().filter_map(candidate).collect();
    let mut fused = fuse(&chosen, fusion, super::DEFAULT_ALPHA, &|a, b| a.cmp(&b));
    fused.truncate(k);
    let hit = |(score, row, scores): (f32, Row, HitScores)| FusedCandidate {
        id: std::mem::take(&mut all[row.index()].id),
        score,
        scores,
    };
    Ok(fused.into_iter().map(hit).collect())
}

impl Bundle {
    /// The `beam` most probable leaves for an embedding, best first: those visited by a search with this
    /// beam.
    ///
    /// # Shapes
    /// `vector` `[dim]` f32, finite, of norm 2^-14 or more; it need not have unit norm.
    ///
    /// # Errors
    /// [`InputError::Dimension`], [`InputError::BadVector`], [`InputError::OutOfRange`].
    pub fn route(&self, vector: &[f32], beam: usize) -> Result<Vec<Routed>> {
        let indexer = self.model().indexer();
        let beam = NonZeroUsize::new(beam.min(indexer.shape().leaves() as usize))
            .ok_or(InputError::zero("the beam"))?;
        check_vector(vector, indexer.dim())?;
        let leaves = indexer.route(&unit(vector), beam, Role::Query).search.leaves;
        let routed = leaves
            .into_iter()
            .map(|scored| Routed { leaf: scored.leaf, probability: scored.log_probability.exp() });
        Ok(routed.collect())
    }
}

impl Index {
    /// Statistics of the index's words, to be added to those of other indexes ([`TermStatistics::add`],
    /// [`SearchRequest::statistics`]).
    ///
    /// # Errors
    /// [`StoreError::NotLexical`](crate::store::StoreError::NotLexical) for an index without words; damage.
    pub fn term_statistics(&self) -> Result<TermStatistics> {
        self.check_process()?;
        let serving = self.serving();
        let view = serving.view();
        let (mut documents, mut total, mut terms) = (0, 0, BTreeMap::new());
        for part in view.term_parts()? {
            documents += u64::from(part.documents());
            total += part.total_length;
            part.add_counts(&mut terms)?;
        }
        Ok(TermStatistics::new(serving.term_kind(), documents, total, terms))
    }
}

impl ActiveModel {
    /// The kind of terms in the index.
    pub(super) fn term_kind(&self) -> String {
        match self.analyzer().unwrap_or_default() {
            Analyzer::Tokens => {
                let files = self.bundle.encoder_files();
                format!("tokens {}", files.get(TOKENIZER).map_or("", String::as_str))
            }
            stems => stems.to_string(),
        }
    }
}

impl Index {
    /// The candidates of this index for a hybrid search over several: the best `depth` documents by
    /// embeddings and the best by words, each with both scores. [`fuse_candidates`] turns them into hits.
    ///
    /// Embeddings are searched as the request says, words with its statistics. A hybrid search of a single
    /// index has 48 candidates of either kind, or `k` if that is more; if the question requires or excludes
    /// something and fewer than `k` are left, it asks for four times as many.
    ///
    /// # Errors
    /// Those of [`Index::search_with`]; [`InputError::OutOfRange`] for a depth of 0, and
    /// [`InputError::InapplicableOption`] for a mode other than [`RankBy::Hybrid`] and with a reranker.
    pub fn candidates<'q>(
        &self,
        question: impl Into<Question<'q>>,
        depth: usize,
        request: &SearchRequest,
    ) -> Result<SearchCandidates> {
        self.check_process()?;
        request.check_no_rerank("candidates")?;
        let plan = request.plan(self)?;
        let RankBy::Hybrid(_) = request.mode else {
            let call = "a search by embeddings or words alone";
            return Err(InputError::InapplicableOption { option: "candidates", call }.into());
        };
        let depth = NonZeroUsize::new(depth).ok_or(InputError::zero("k"))?;
        let serving = self.serving();
        let view = serving.view();
        let _span = plan.span(1, &view).entered();
        let started = Instant::now();
        let asked = serving.read_question(question.into(), &plan, &view)?;
        let words = asked.words.as_ref().ok_or(InputError::NoWords)?;
        let mut search = WordSearch::new(&view, words, serving.analysis(), &plan)?;
        let (both, _) = serving.both(&view, &asked, &plan, depth, &mut search)?;
        let mut candidates = Vec::with_capacity(both.len());
        for own in &both {
            candidates.push(SearchCandidate {
                id: view.id(own.best.document)?,
                dense: own.best.score,
                lexical: own.lexical,
                by_embedding: own.by_embedding,
                by_words: own.by_words,
            });
        }
        candidates.sort_unstable_by(|a, b| a.id.cmp(&b.id));
        tracing::trace!(candidates = candidates.len(), elapsed = ?started.elapsed());
        Ok(SearchCandidates { candidates, has_signs: words.has_sequences(), documents: view.live() })
    }
}
