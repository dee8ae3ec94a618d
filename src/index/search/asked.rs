//! Runs a plan by the kind of its ranking: embeddings, words, or both.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::num::NonZeroUsize;

use serde::Serialize;

use super::damage::scan_failed;
use super::encode::{EncoderText, QueryEncoder};
use super::filter::RowFilter;
use super::fusion::{Candidate, Fusion, HitScores, fuse};
use super::memory::{Further, RecalledDocument};
use super::plan::Plan;
use super::rank::Ranked;
use super::request::RankBy;
use super::result::{RankedBy, SearchStats};
use super::signs::Signs;
use super::ties::ById;
use super::words::{WordSearch, Words};
use crate::error::{InputError, Result};
use crate::ids::Row;
use crate::index::active_model::ActiveModel;
use crate::index::vectors::unit;
use crate::scan::{Scanner, Similarity, TopK};
use crate::store::View;

/// Minimum number of candidates of a hybrid search by either score. With fewer, chance would determine the
/// scale of a query's scores.
pub const FEWEST_CANDIDATES: usize = 48;

/// Factor by which candidates increase if too few of them can be hits.
const WIDER: NonZeroUsize = NonZeroUsize::new(4).unwrap();

/// A term of a question that a document contains.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct MatchedTerm {
    /// The token as in the tokenizer's vocabulary, or the word or the characters as in the question.
    pub term: String,
    /// Its share of the lexical score.
    pub weight: f32,
}

/// A question, checked and prepared as its plan requires.
#[derive(Clone, Debug, Default)]
pub(crate) struct Asked<'a> {
    /// The ranking; [`RankBy::Best`] is resolved. If words rank, they are present.
    pub by: RankBy,
    /// As it was asked; `None` for an embedding.
    pub text: Option<&'a str>,
    /// `[dim]`; empty if embeddings are not used.
    pub vector: Cow<'a, [f32]>,
    pub words: Option<Words>,
    /// The meaning of its signs, even if they are ignored.
    pub signs: Signs,
    /// Why the signs were read as text, in a sentence.
    pub note: Option<String>,
    /// Which encoder gave the vector.
    pub encoder: Option<QueryEncoder>,
    /// The documents judged for near questions, in row order.
    pub recalled: Vec<RecalledDocument>,
}

impl Asked<'_> {
    /// What an encoder reads of it; `None` for an embedding.
    pub(super) fn encoder_text(&self) -> Option<EncoderText<'_>> {
        self.words.as_ref().map(Into::into).or(self.text.map(Into::into))
    }
}

impl ActiveModel {
    /// The best rows of one view for a query.
    pub(crate) fn rank_asked(&self, view: &View, asked: &Asked<'_>, plan: &Plan<'_>) -> Result<Ranked> {
        if let RankBy::Hybrid(fusion) = asked.by {
            let (all, ranked) = self.candidates(view, asked, plan)?;
            return fused(view, &all, ranked, fusion, self.alpha(asked.encoder), plan.k);
        }
        let (ranked, further) =
            self.rank_by_one(view, asked, &Plan { k: Self::depth(asked, plan), ..*plan })?;
        match asked.recalled.is_empty() {
            true => Ok(ranked),
            false => self.with_recalled(view, asked, ranked, further, plan.k),
        }
    }

    /// The best rows by embeddings or words alone, and those that only judgments name; scores are without
    /// what judgments add.
    pub(super) fn rank_by_one(
        &self,
        view: &View,
        asked: &Asked<'_>,
        plan: &Plan<'_>,
    ) -> Result<(Ranked, Vec<Further>)> {
        match asked.by {
            RankBy::Lexical => {
                self.rank_by_words(view, asked, asked.words.as_ref().ok_or(InputError::NoWords)?, plan)
            }
            _ => self.rank_by_embeddings(view, asked, plan),
        }
    }

    fn rank_by_embeddings(
        &self,
        view: &View,
        asked: &Asked<'_>,
        plan: &Plan<'_>,
    ) -> Result<(Ranked, Vec<Further>)> {
        let mut ranked = self.rank(view, &asked.vector, plan)?;
        if asked.recalled.is_empty() {
            return Ok((ranked, Vec::new()));
        }
        let scored =
            |score: f32, dense_rank| HitScores { dense: Some(score), dense_rank, ..HitScores::default() };
        ranked.scores =
            ranked.rows.iter().zip(1..).map(|(&(score, _), rank)| scored(score, Some(rank))).collect();
        let missing = self.recalled_beyond(view, asked, &ranked.rows, plan.k)?;
        let (further, _) = self.best_passages(view, &asked.vector, &missing)?;
        let further = further.into_iter().map(|best| ((best.score, best.row), scored(best.score, None)));
        Ok((ranked, further.collect()))
    }

    fn rank_by_words(
        &self,
        view: &View,
        asked: &Asked<'_>,
        words: &Words,
        plan: &Plan<'_>,
    ) -> Result<(Ranked, Vec<Further>)> {
        let mut search = WordSearch::new(view, words, self.analysis(), plan)?;
        let mut filter = plan.filter().map(|filter| RowFilter::new(view, filter, &self.filters));
        let rows = search.best(plan.k.get(), filter.as_mut())?;
        let scores = rows.iter().zip(1..).map(|(&(score, _), rank)| HitScores {
            lexical: Some(score),
            lexical_rank: Some(rank),
            ..HitScores::default()
        });
        let live = view.live().max(1) as f64;
        // Dead rows are scored too.
        let scored = search.stats.rows_scored.min(view.live());
        let share = scored as f64 / live;
        let stats = SearchStats {
            documents_visited: scored,
            documents_checked: filter.map_or(0, |filter| filter.checked),
            postings_scored: search.stats.postings,
            exhausted: true,
            visited_fraction: share,
            work_fraction: share,
            lexical: search.elapsed,
            ..SearchStats::default()
        };
        let scores = scores.collect();
        let ranked_by = RankedBy::Lexical;
        let missing = self.recalled_beyond(view, asked, &rows, plan.k)?;
        // A document without a required word, or with an excluded one, has no score.
        let further = missing.iter().zip(search.scores(&missing)?);
        let further = further.filter_map(|(&row, score)| {
            Some(((score?, row), HitScores { lexical: score, ..HitScores::default() }))
        });
        let ranked = Ranked { rows, scores, ranked_by, stats, ..Ranked::default() };
        Ok((ranked, further.collect()))
    }

    /// The best rows by embeddings and the best by words that can be hits, each with both scores, in row
    /// order; and the underlying search by embeddings, without its rows.
    pub(crate) fn candidates(
        &self,
        view: &View,
        asked: &Asked<'_>,
        plan: &Plan<'_>,
    ) -> Result<(Vec<Candidate>, Ranked)> {
        let words = asked.words.as_ref().ok_or(InputError::NoWords)?;
        let mut depth = NonZeroUsize::new(FEWEST_CANDIDATES).map_or(plan.k, |fewest| fewest.max(plan.k));
        let mut search = WordSearch::new(view, words, self.analysis(), plan)?;
        loop {
            let (both, ranked) = self.both(view, asked, plan, depth, &mut search)?;
            let candidate = |both: &WithBoth| {
                let BestRow { document, score: dense, row } = both.best;
                let is_found = both.by_embedding || both.by_words;
                let moved = asked.moved(document);
                Some(Candidate { row, dense, lexical: both.lexical?, is_found, moved })
            };
            let mut all: Vec<Candidate> = both.iter().filter_map(candidate).collect();
            // Required or excluded words may leave few of the candidates found by embeddings.
            if all.len() >= plan.k.get() || !words.has_sequences() || depth.get() >= view.live() {
                all.sort_unstable_by_key(|candidate| candidate.row);
                return Ok((all, ranked));
            }
            depth = depth.saturating_mul(WIDER);
        }
    }

    /// The best `depth` documents by embeddings and the best by words; and the search by embeddings, without
    /// its rows.
    pub(super) fn both(
        &self,
        view: &View,
        asked: &Asked<'_>,
        plan: &Plan<'_>,
        depth: NonZeroUsize,
        search: &mut WordSearch<'_>,
    ) -> Result<(Vec<WithBoth>, Ranked)> {
        let mut ranked = self.rank(view, &asked.vector, &Plan { k: depth, ..*plan })?;
        let mut filter = plan.filter().map(|filter| RowFilter::new(view, filter, &self.filters));
        let mut by_words = search.best(depth.get(), filter.as_mut())?;
        by_words.sort_unstable_by_key(|&(_, row)| row);
        let by_embedding = view.heads(ranked.rows.iter().map(|&(_, row)| row))?;
        let mut further = asked.raised(plan.k);
        further.extend(by_words.iter().map(|&(_, row)| row));
        let (mut dense, embeddings) = self.dense_candidates(view, asked, &mut ranked, further)?;
        dense.sort_unstable_by_key(|best| best.document);
        let known = |head: Row| {
            let place = by_words.binary_search_by_key(&head, |&(_, row)| row).ok()?;
            Some(by_words[place].0)
        };
        let unknown: Vec<Row> =
            dense.iter().map(|best| best.document).filter(|&head| known(head).is_none()).collect();
        let mut scored = search.scores(&unknown)?.into_iter();
        let with_both = |&best: &BestRow| {
            let by_words = known(best.document);
            WithBoth {
                best,
                lexical: by_words.or_else(|| scored.next().flatten()),
                by_embedding: by_embedding.binary_search(&best.document).is_ok(),
                by_words: by_words.is_some(),
            }
        };
        let all = dense.iter().map(with_both).collect();
        let (stats, live) = (&mut ranked.stats, view.live_rows());
        // Documents ruled out by codes were already counted as visited.
        let visited = (stats.documents_visited + embeddings).min(live.max(stats.documents_visited));
        let share = (visited - stats.documents_visited) as f64 / live.max(1) as f64;
        stats.documents_visited = visited;
        stats.embeddings_read = (stats.embeddings_read + embeddings).min(visited);
        stats.visited_fraction += share;
        stats.work_fraction += share;
        stats.documents_checked += filter.map_or(0, |filter| filter.checked);
        stats.postings_scored = search.stats.postings;
        stats.lexical = search.elapsed;
        Ok((all, ranked))
    }

    /// The best documents by embeddings and `further` ones, given by their representative rows, with their
    /// best rows; and the number of embeddings read for that. Of a document with passages, all passages are
    /// considered, wherever they lie, so that its score does not depend on how it was found.
    fn dense_candidates(
        &self,
        view: &View,
        asked: &Asked<'_>,
        ranked: &mut Ranked,
        further: Vec<Row>,
    ) -> Result<(Vec<BestRow>, usize)> {
        let mut dense = std::mem::take(&mut ranked.rows);
        if view.has_several() {
            let mut heads: HashSet<Row> = further.into_iter().collect();
            for &(_, row) in &dense {
                heads.insert(view.head(row)?);
            }
            let heads: Vec<Row> = heads.into_iter().collect();
            return self.best_passages(view, &asked.vector, &heads);
        }
        dense.sort_unstable_by_key(|&(_, row)| row);
        let place = |row: Row| dense.binary_search_by_key(&row, |&(_, row)| row);
        let mut missing = further;
        missing.retain(|&row| place(row).is_err());
        missing.sort_unstable();
        missing.dedup();
        let further = self.scores_of(view, &asked.vector, &missing)?;
        let embeddings = further.len();
        let best = |(score, row)| BestRow { document: row, score, row };
        Ok((dense.into_iter().chain(further).map(best).collect(), embeddings))
    }

    /// The best row of each of these documents; and the number of embeddings read.
    pub(crate) fn best_passages(
        &self,
        view: &View,
        vector: &[f32],
        rows: &[Row],
    ) -> Result<(Vec<BestRow>, usize)> {
        if !view.has_several() {
            let scored = self.scores_of(view, vector, rows)?.into_iter();
            return Ok((
                scored.map(|(score, row)| BestRow { document: row, score, row }).collect(),
                rows.len(),
            ));
        }
        let (mut places, mut all) = (HashMap::new(), Vec::with_capacity(rows.len()));
        for (place, &row) in rows.iter().enumerate() {
            for passage in view.rows_of(row)? {
                places.insert(passage, place);
                all.push(passage);
            }
        }
        let mut best = vec![None; rows.len()];
        for (score, passage) in self.scores_of(view, vector, &all)? {
            if let Some(place) = places.get(&passage) {
                best[*place].get_or_insert(BestRow { document: rows[*place], score, row: passage });
            }
        }
        Ok((best.into_iter().flatten().collect(), all.len()))
    }

    /// The terms of a query that each of these rows contains; empty if words are not used.
    pub(in crate::index) fn matched_terms(
        &self,
        view: &View,
        asked: &Asked<'_>,
        plan: &Plan<'_>,
        rows: &[(f32, Row)],
    ) -> Result<Vec<Vec<MatchedTerm>>> {
        let Some(words) = &asked.words else {
            return Ok(vec![Vec::new(); rows.len()]);
        };
        let analysis = self.analysis();
        let search = WordSearch::new(view, words, analysis, plan)?;
        let name = analysis.names(&words.text)?;
        let named = |(term, weight)| MatchedTerm { term: name(term), weight };
        let matched = |&(_, row): &(f32, Row)| {
            let mut terms: Vec<MatchedTerm> = search.matches(row)?.into_iter().map(named).collect();
            terms.sort_by(|a, b| b.weight.total_cmp(&a.weight));
            Ok(terms)
        };
        rows.iter().map(matched).collect()
    }

    /// The scores of some rows by their embeddings, best first.
    pub(in crate::index) fn scores_of(
        &self,
        view: &View,
        vector: &[f32],
        rows: &[Row],
    ) -> Result<Vec<(f32, Row)>> {
        let unit = unit(vector);
        let query = if self.similarity == Similarity::Cosine { &unit } else { vector };
        let scanner = Scanner::new(self.similarity, query).map_err(scan_failed)?;
        let mut embeddings = Vec::with_capacity(rows.len());
        for &row in rows {
            embeddings.push((row, view.embedding(row)?));
        }
        let mut top = TopK::new(rows.len().max(1));
        scanner.scan(embeddings, &mut top).map_err(scan_failed)?;
        Ok(top.into_sorted())
    }
}

/// A document's best row by embeddings.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BestRow {
    /// The row given for the document.
    pub document: Row,
    pub score: f32,
    /// The row with this score.
    pub row: Row,
}

/// A document that is among the best by embeddings, by words, or both.
#[derive(Clone, Copy, Debug)]
pub(super) struct WithBoth {
    pub best: BestRow,
    /// `None` if it lacks a required word or has an excluded one.
    pub lexical: Option<f32>,
    pub by_embedding: bool,
    pub by_words: bool,
}

/// The `k` best candidates by their combined scores.
fn fused(
    view: &View,
    candidates: &[Candidate],
    ranked: Ranked,
    fusion: Fusion,
    learned: f64,
    k: NonZeroUsize,
) -> Result<Ranked> {
    let order = ById::new(view);
    let mut fused = fuse(candidates, fusion, learned, &|a, b| order.compare(a, b));
    order.finish()?;
    fused.truncate(k.get());
    let (rows, scores) = fused.into_iter().map(|(score, row, scores)| ((score, row), scores)).unzip();
    let alpha = match fusion {
        Fusion::Learned => Some(learned),
        Fusion::Convex(alpha) => Some(alpha),
        Fusion::Rrf { .. } => None,
    };
    Ok(Ranked { rows, scores, ranked_by: RankedBy::Hybrid { alpha }, ..ranked })
}
