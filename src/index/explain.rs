//! Why a search found what it found: an [`Explanation`], made by [`Index::explain`].

use std::num::NonZeroUsize;
use std::time::Duration;

use serde::Serialize;

use super::leaves::check_stored;
use super::search::{
    Hit, MatchedTerm, MovedDocument, Plan, Question, RankBy, Ranked, RankedBy, Reach, SearchRequest,
    SearchResult, SearchStats, Signs, fetch,
};
use super::{Index, unit};
use crate::error::{InputError, Result};
use crate::ids::{LeafId, Row};
use crate::serialize::milliseconds;

/// A leaf that a search visited.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct ReachedLeaf {
    /// The leaf.
    pub leaf: LeafId,
    /// The child taken at each level, root first.
    pub path: Vec<u32>,
    /// Probability of the node reached at each level: the product of the choices so far (Eq. 1).
    pub level_probabilities: Vec<f32>,
    /// Probability of the leaf: the last of them.
    pub probability: f32,
    /// Documents of the leaf.
    pub documents: usize,
}

/// A hit, and its origin.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct ExplainedHit {
    /// The hit. Serialised flat.
    #[serde(flatten)]
    pub hit: Hit,
    /// Rank in exact search, from 1, if requested; for a hybrid search only within its `k`.
    pub exact_rank: Option<usize>,
    /// The words of the question in the document, by descending weight; empty if the search ignores words.
    pub terms: Vec<MatchedTerm>,
}

/// One of the best documents of exact search.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct ExactHit {
    /// The document and its leaf. Serialised flat.
    #[serde(flatten)]
    pub hit: Hit,
    /// Whether one of its leaves was visited.
    pub visited: bool,
    /// Probability of its leaf for the query.
    pub leaf_probability: f32,
}

/// The steps of a search.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Explanation {
    /// The request, with defaults filled in.
    pub request: SearchRequest,
    /// How the hits are ranked.
    pub ranked_by: RankedBy,
    /// The meaning of the signs in the question.
    pub signs: Signs,
    /// Notes on the result, as [`SearchResult::notes`](crate::SearchResult::notes).
    pub notes: Vec<String>,
    /// The leaves visited, most probable first.
    pub leaves: Vec<ReachedLeaf>,
    /// Entropy of the tree's choice in nats: see [`RoutingProfile`](crate::model::RoutingProfile). `None` if
    /// the search did not use the tree.
    pub entropy: Option<f32>,
    /// Best first.
    pub hits: Vec<ExplainedHit>,
    /// Documents that judgments moved and that are not among the hits, such as those judged not to answer;
    /// those that were moved furthest first.
    pub moved: Vec<MovedDocument>,
    /// The best `k` of exact search, if requested.
    pub exact: Option<Vec<ExactHit>>,
    /// The cost of the search, without the comparison.
    pub stats: SearchStats,
    /// Multiply-adds spent in the level networks.
    pub multiply_adds: u64,
    /// The comparison with exact search. Serialised as `exact_ms`.
    #[serde(rename = "exact_ms", serialize_with = "milliseconds")]
    pub exact_time: Duration,
}

impl Index {
    /// Runs a search, and explains which leaves were visited, why, and where each hit came from.
    ///
    /// The hits are those of [`Index::search_with`]; nothing is logged. `against_exact` adds the best
    /// documents of exact search under the same filter, and the rank of each hit there. That costs a scan of
    /// every document, and 16 bytes of memory for each.
    ///
    /// # Errors
    /// Those of [`Index::search_with`]; [`InputError::InapplicableOption`] with a reranker or with leaves
    /// given; [`InputError::Conflict`] for a comparison of a search by words alone.
    pub fn explain<'q>(
        &self,
        question: impl Into<Question<'q>>,
        request: &SearchRequest,
        against_exact: bool,
    ) -> Result<Explanation> {
        self.check_process()?;
        request.check_ungrouped("explain")?;
        let plan = request.plan(self)?;
        if matches!(request.reach, Some(Reach::Leaves(_))) {
            return Err(InputError::InapplicableOption { option: "leaves", call: "explain" }.into());
        }
        let k = plan.k;
        if against_exact && request.mode == RankBy::Lexical {
            return Err(InputError::Conflict { options: ["lexical", "exact"] }.into());
        }
        let serving = self.serving();
        let view = serving.view();
        let _span = plan.span(1, &view).entered();
        let started = std::time::Instant::now();
        let mut asked = serving.read_question(question.into(), &plan, &view)?;
        let encode = started.elapsed();
        self.recall(&serving, &view, &plan, std::slice::from_mut(&mut asked));
        let vector = &asked.vector;
        let ranked = serving.rank_asked(&view, &asked, &plan)?;
        let SearchResult { request, hits: found, stats, ranked_by, signs, notes } =
            serving.answer(&view, &asked, &plan, &ranked, encode)?;
        let Ranked { rows, leaves, sample, multiply_adds, .. } = ranked;

        let indexer = &serving.model().indexer;
        let shape = indexer.shape();
        let unit = unit(vector);
        let reached: Vec<LeafId> = leaves.iter().map(|scored| scored.leaf).collect();
        let level_probabilities = match &*reached {
            // A search by words alone has no embedding.
            [] => Vec::new(),
            reached => indexer.level_probabilities(&unit, reached),
        };
        let mut reached_leaves = Vec::with_capacity(leaves.len());
        for (scored, level_probabilities) in leaves.iter().zip(level_probabilities) {
            reached_leaves.push(ReachedLeaf {
                leaf: scored.leaf,
                path: shape.path(scored.leaf),
                level_probabilities,
                probability: scored.log_probability.exp(),
                documents: view.postings(scored.leaf)?.len(),
            });
        }
        let started = std::time::Instant::now();
        let rank_all = || {
            let all = NonZeroUsize::new(view.live()).unwrap_or(NonZeroUsize::MIN);
            // The scores of both kinds of candidates are scaled to each other, so more candidates would
            // change the ranks.
            let k = if asked.words.is_some() { plan.k } else { all };
            let request = SearchRequest { codes: None, parallel: false, ..request.clone() }.exact();
            serving.rank_asked(&view, &asked, &Plan::new(k, &request))
        };
        let exact = against_exact.then(rank_all).transpose()?;
        let exact_rows = exact.iter().flat_map(|ranked| &ranked.rows);
        // By document: another passage may be the best of all.
        let exact_rows = exact_rows.map(|&(_, row)| view.head(row));
        let exact_rows: Vec<Row> = exact_rows.collect::<std::result::Result<_, _>>()?;
        let rank_of = |head: Row| Some(exact_rows.iter().position(|&other| other == head)? + 1);
        let moved = asked.moved_beyond(&view, &rows)?;
        let mut hits = Vec::with_capacity(found.len());
        let matched = serving.matched_terms(&view, &asked, &plan, &rows)?;
        for ((hit, &(_, row)), terms) in found.into_iter().zip(&rows).zip(matched) {
            hits.push(ExplainedHit { hit, exact_rank: rank_of(view.head(row)?), terms });
        }
        let exact = match &exact {
            None => None,
            Some(ranked) => {
                let mut best = ranked.clone();
                best.rows.truncate(k.get());
                let passages = serving.passages_of_hits(&view, &asked, &plan, &best)?;
                let rows = &best.rows;
                let best = fetch(&view, &best, passages, false)?;
                let leaves: Vec<LeafId> = best.iter().map(|hit| hit.leaf).collect();
                leaves.iter().try_for_each(|&leaf| check_stored(shape, leaf))?;
                let probabilities = indexer.level_probabilities(&unit, &leaves);
                let mut exact = Vec::with_capacity(best.len());
                for ((hit, probabilities), &(_, row)) in best.into_iter().zip(probabilities).zip(rows) {
                    // Without the tree, all possible hits were scored.
                    let visited = reached.is_empty() || reached.contains(&view.leaf_of(row)?);
                    let leaf_probability = probabilities.last().copied().unwrap_or_default();
                    exact.push(ExactHit { hit, visited, leaf_probability });
                }
                Some(exact)
            }
        };
        let exact_time = if exact.is_some() { started.elapsed() } else { Duration::ZERO };
        Ok(Explanation {
            request,
            ranked_by,
            signs,
            notes,
            leaves: reached_leaves,
            entropy: sample.map(|sample| sample.entropy),
            hits,
            moved,
            exact,
            stats,
            multiply_adds,
            exact_time,
        })
    }
}
