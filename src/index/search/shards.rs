//! Support for one search over several indexes of one model: leaves that are found once, statistics of words
//! that can be summed, candidates that are merged before they are ranked, and judged questions.

use std::collections::{BTreeMap, HashMap};
use std::num::NonZeroUsize;
use std::time::Instant;

use serde::Serialize;

use super::fusion::{Candidate, HitScores, fuse};
use super::input::{Question, check_vector};
use super::memory::{Scored, moved_by_range, recalled_judgment};
use super::plan::Plan;
use super::request::{RankBy, SearchRequest};
use super::result::MovedDocument;
use super::words::{WordSearch, Words};
use crate::error::{InputError, Result};
use crate::ids::{LeafId, Row};
use crate::index::Index;
use crate::index::active_model::ActiveModel;
use crate::index::judgments::check_stored_judgment;
use crate::index::vectors::unit;
use crate::judgment::Judgment;
use crate::lexical::{Analyzer, TermStatistics, syntax};
use crate::memory::{Memory, MemoryWeights, Vote, by_grade};
use crate::model::{Bundle, Role};
use crate::scan::Similarity;

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

/// A document that is among the best of one index, by embeddings or by words, or that judgments name.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SearchCandidate {
    /// The document's id.
    pub id: String,
    /// By the index's similarity; `None` in a search by words alone.
    pub dense: Option<f32>,
    /// By BM25; `None` in a search by embeddings alone, and if it lacks what the question requires or has
    /// what it excludes, so that it cannot be a hit.
    pub lexical: Option<f32>,
    /// Whether it is among the best by embeddings.
    pub by_embedding: bool,
    /// Whether it is among the best by words.
    pub by_words: bool,
}

/// The candidates of one index for a search over several.
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

/// A hit of a search over several indexes.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct FusedCandidate {
    /// The document's id.
    pub id: String,
    /// The score that ranks the hit.
    pub score: f32,
    /// Both scores, and the ranks among all candidates. Serialised flat.
    #[serde(flatten)]
    pub scores: HitScores,
}

/// The judged questions of several indexes of one model, for searches over all of them.
///
/// Only judgments of the very question asked count, apart from case and punctuation: how much those of near
/// questions should count is learned by each index for itself ([`Index::fuse`]).
#[derive(Debug)]
pub struct JudgedQuestions(Memory);

impl JudgedQuestions {
    /// A later judgment of the same question and document replaces an earlier one.
    ///
    /// # Errors
    /// Those of [`Index::record`], for a judgment that an index could not store.
    pub fn new(judgments: &[Judgment]) -> Result<Self> {
        judgments.iter().try_for_each(check_stored_judgment)?;
        let mut memory = Memory::new(0, None);
        judgments.iter().for_each(|judgment| memory.judge(judgment));
        Ok(Self(memory))
    }

    /// The documents judged for a question, by id, for [`Index::candidates`] and [`fuse_candidates`].
    pub fn documents(&self, question: &str) -> Vec<MovedDocument> {
        let Self(memory) = self;
        let mut documents: BTreeMap<&str, Vec<Vote>> = BTreeMap::new();
        // Without a vector, this cannot fail.
        for same in memory.nearest(Some(question), None, 0, &|_| true).unwrap_or_default() {
            let mut votes: Vec<_> = memory.votes(same, 0).collect();
            by_grade(&mut votes);
            for (judged, vote) in votes {
                documents.entry(&judged.id).or_default().push(vote);
            }
        }
        let weights = MemoryWeights::default();
        let documents = documents.into_iter().map(|(id, votes)| {
            let (moved, strongest) = (weights.moved(&votes), weights.strongest(&votes));
            let judged = strongest.map(|vote| recalled_judgment(memory.judged(vote), vote, moved));
            MovedDocument { id: id.to_owned(), moved, judged }
        });
        documents.collect()
    }
}

/// What an encoder reads of a question in which signs and quotes have a meaning: everything that is not
/// excluded.
pub fn plain_question(question: &str) -> String {
    syntax::plain_text(&syntax::parse(question))
}

/// The `k` best of the candidates of several indexes; each document must be in only one of them.
///
/// `candidates` are those of all indexes for one question, with the same mode, `moved` and `depth`, and with
/// the sum of their statistics ([`SearchRequest::statistics`]). The best `depth` by embeddings or by words
/// over all indexes, or the best of both, are ranked, so the hits are those of a single index with all
/// documents, and with the judgments of `moved`, in the same mode with as many candidates.
/// [`Fusion::Learned`](super::Fusion::Learned) uses the default weight here.
///
/// # Errors
/// [`InputError::OutOfRange`]; [`InputError::InapplicableOption`] for the mode [`RankBy::Best`].
pub fn fuse_candidates(
    candidates: impl IntoIterator<Item = SearchCandidate>,
    depth: usize,
    mode: RankBy,
    k: usize,
    moved: &[MovedDocument],
) -> Result<Vec<FusedCandidate>> {
    check_mode(mode)?;
    let (Some(k), Some(depth)) = (NonZeroUsize::new(k), NonZeroUsize::new(depth)) else {
        return Err(InputError::zero("k").into());
    };
    let mut all: Vec<SearchCandidate> = candidates.into_iter().collect();
    // So that positions are in id order.
    all.sort_unstable_by(|a, b| a.id.cmp(&b.id));
    let best = |score: &dyn Fn(&SearchCandidate) -> Option<f32>| {
        let scored = all.iter().enumerate().filter_map(|(place, own)| Some((score(own)?, place)));
        let mut scored: Vec<(f32, usize)> = scored.collect();
        scored.sort_unstable_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
        scored.truncate(depth.get());
        scored.into_iter().map(|(_, place)| place)
    };
    let mut found: Vec<usize> = best(&|own| own.dense.filter(|_| own.by_embedding)).collect();
    found.extend(best(&|own| own.lexical.filter(|_| own.by_words)));
    found.sort_unstable();
    found.dedup();
    let moved: HashMap<&str, f64> = moved.iter().map(|own| (&*own.id, own.moved)).collect();
    let moved = |place: usize| moved.get(&*all[place].id).copied().unwrap_or(0.0);
    let is_found = |place: usize| found.binary_search(&place).is_ok();
    let places = (0..all.len()).filter(|&place| is_found(place) || moved(place) > 0.0);
    let row = |place: usize| Row(place as u32);
    let ranked: Vec<(f32, Row, HitScores)> = match mode {
        RankBy::Hybrid(fusion) => {
            let candidate = |place: usize| {
                let SearchCandidate { dense, lexical, .. } = all[place];
                let (is_found, moved) = (is_found(place), moved(place));
                Some(Candidate { row: row(place), dense: dense?, lexical: lexical?, is_found, moved })
            };
            let chosen: Vec<Candidate> = places.filter_map(candidate).collect();
            let mut fused = fuse(&chosen, fusion, super::DEFAULT_ALPHA, &|a, b| a.cmp(&b));
            fused.truncate(k.get());
            fused
        }
        _ => {
            let scored = |place: usize| {
                let SearchCandidate { dense, lexical, .. } = all[place];
                let scores = HitScores { dense, lexical, ..HitScores::default() };
                Some(Scored { score: dense.or(lexical)?, of: row(place), scores, moved: moved(place) })
            };
            let (found, further): (Vec<usize>, Vec<usize>) = places.partition(|&place| is_found(place));
            let [found, further] = [found, further].map(|own| own.into_iter().filter_map(scored).collect());
            let ranked = moved_by_range(found, further, k, &Row::cmp);
            ranked.into_iter().map(|own| (own.score, own.of, own.scores)).collect()
        }
    };
    let hit = |(score, row, scores): (f32, Row, HitScores)| FusedCandidate {
        id: std::mem::take(&mut all[row.index()].id),
        score,
        scores,
    };
    Ok(ranked.into_iter().map(hit).collect())
}

/// Refuses the mode that depends on the index, and a bad fusion.
fn check_mode(mode: RankBy) -> Result<()> {
    match mode {
        RankBy::Hybrid(fusion) => fusion.check().map(drop)?,
        RankBy::Best => {
            let call = "the mode `best`, which each index decides for itself";
            return Err(InputError::InapplicableOption { option: "candidates", call }.into());
        }
        RankBy::Dense | RankBy::Lexical => {}
    }
    Ok(())
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
        check_vector(vector, indexer.dim(), Similarity::Cosine)?;
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
    /// The candidates of this index for a search over several: the best `depth` documents by embeddings or by
    /// words, or in the mode [`RankBy::Hybrid`] the best of both, each with both scores; and those of `moved`
    /// that judgments say answer the question, with scores without what judgments add.
    /// [`fuse_candidates`] turns them into hits.
    ///
    /// Embeddings are searched as the request says, words with its statistics. The index's own judgments do
    /// not count. A hybrid search of a single index, and one with judgments of its question, has 48
    /// candidates of either kind, or `k` if that is more; if a hybrid question requires or excludes something
    /// and fewer than `k` are left, it asks for four times as many.
    ///
    /// # Errors
    /// Those of [`Index::search_with`]; [`InputError::OutOfRange`] for a depth of 0, and
    /// [`InputError::InapplicableOption`] for the mode [`RankBy::Best`] and with a reranker.
    pub fn candidates<'q>(
        &self,
        question: impl Into<Question<'q>>,
        depth: usize,
        moved: &[MovedDocument],
        request: &SearchRequest,
    ) -> Result<SearchCandidates> {
        self.check_process()?;
        request.check_ungrouped("candidates")?;
        let plan = request.plan(self)?;
        check_mode(request.mode)?;
        let depth = NonZeroUsize::new(depth).ok_or(InputError::zero("k"))?;
        let serving = self.serving();
        let view = serving.view();
        let _span = plan.span(1, &view).entered();
        let started = Instant::now();
        let mut asked = serving.read_question(question.into(), &plan, &view)?;
        asked.recalled = serving.recall_moved(&view, moved, &plan)?;
        let mut candidates = Vec::new();
        if let RankBy::Hybrid(_) = request.mode {
            let words = asked.words.as_ref().ok_or(InputError::NoWords)?;
            let mut search = WordSearch::new(&view, words, serving.analysis(), &plan)?;
            for own in serving.both(&view, &asked, &plan, depth, &mut search)?.0 {
                candidates.push(SearchCandidate {
                    id: view.id(own.best.document)?,
                    dense: Some(own.best.score),
                    lexical: own.lexical,
                    by_embedding: own.by_embedding,
                    by_words: own.by_words,
                });
            }
        } else {
            let by_words = request.mode == RankBy::Lexical;
            let (ranked, further) = serving.rank_by_one(&view, &asked, &Plan { k: depth, ..plan })?;
            let found = ranked.rows.into_iter().map(|row| (row, true));
            for ((score, row), is_found) in found.chain(further.into_iter().map(|(row, _)| (row, false))) {
                candidates.push(SearchCandidate {
                    id: view.id(row)?,
                    dense: (!by_words).then_some(score),
                    lexical: by_words.then_some(score),
                    by_embedding: is_found && !by_words,
                    by_words: is_found && by_words,
                });
            }
        }
        candidates.sort_unstable_by(|a, b| a.id.cmp(&b.id));
        tracing::trace!(candidates = candidates.len(), elapsed = ?started.elapsed());
        let has_signs = asked.words.as_ref().is_some_and(Words::has_sequences);
        Ok(SearchCandidates { candidates, has_signs, documents: view.live() })
    }
}
