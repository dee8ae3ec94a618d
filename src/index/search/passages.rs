//! Which passages of a hit answer the question.

use std::collections::HashMap;

use super::asked::Asked;
use super::fusion::{Candidate, Fusion, fuse};
use super::plan::Plan;
use super::rank::Ranked;
use super::request::RankBy;
use super::result::{HitPassage, RankedBy};
use super::words::{WordSearch, Words};
use crate::error::Result;
use crate::ids::Row;
use crate::index::active_model::ActiveModel;
use crate::passages::Span;
use crate::store::View;

/// Passages of a hit, the nearest by embeddings, whose words are counted.
const PASSAGES_READ: usize = 16;

impl ActiveModel {
    /// The best passages of each ranked row's document, best first, as many as the plan asks for; empty if
    /// documents have no passages.
    pub(in crate::index) fn passages_of_hits(
        &self,
        view: &View,
        asked: &Asked<'_>,
        plan: &Plan<'_>,
        ranked: &Ranked,
    ) -> Result<Vec<Vec<HitPassage>>> {
        let most = plan.request.passages.unwrap_or(1);
        if self.passages().is_none() || most == 0 {
            return Ok(Vec::new());
        }
        let words = match &asked.words {
            Some(words)
                if !matches!(ranked.ranked_by, RankedBy::Dense | RankedBy::Hybrid { alpha: Some(1.0) }) =>
            {
                Some(WordSearch::new(view, words, self.analysis(), plan)?)
            }
            _ => None,
        };
        // Every word that a question requires is in a hit, and so should it be in the passage.
        let by_words = asked.by == RankBy::Lexical || asked.words.as_ref().is_some_and(Words::has_sequences);
        let passages = |(place, &(score, row)): (usize, &(f32, Row))| {
            let mut rows = match &words {
                Some(words) if by_words => words.best_passages(row, &view.rows_of(row)?)?,
                Some(words) => self.passages_by_both(view, asked, words, row)?,
                None if most == 1 => {
                    let dense = ranked.scores.get(place).and_then(|scores| scores.dense);
                    vec![(dense.unwrap_or(score), row)]
                }
                None => {
                    let rows = self.candidates_among(view, view.rows_of(row)?, ranked)?;
                    self.scores_of(view, &asked.vector, &rows)?
                }
            };
            rows.truncate(most);
            let shown = |(score, row)| {
                let Span { start, end } = view.span(row)?.unwrap_or_default();
                let leaf = view.leaf_of(row)?;
                let (start, end) = (start as usize, end as usize);
                Ok(HitPassage { start, end, score, leaf, headings: Vec::new(), line: None })
            };
            rows.into_iter().map(shown).collect()
        };
        ranked.rows.iter().enumerate().map(passages).collect()
    }

    /// The passages of a document that are best by embeddings, best first by both scores in equal parts, each
    /// with its score by embedding.
    fn passages_by_both(
        &self,
        view: &View,
        asked: &Asked<'_>,
        words: &WordSearch<'_>,
        row: Row,
    ) -> Result<Vec<(f32, Row)>> {
        let mut dense = self.scores_of(view, &asked.vector, &view.rows_of(row)?)?;
        if dense.len() == 1 {
            return Ok(dense);
        }
        let others = dense.split_off(PASSAGES_READ.min(dense.len()));
        let rows: Vec<Row> = dense.iter().map(|&(_, row)| row).collect();
        let by_words: HashMap<Row, f32> =
            words.best_passages(row, &rows)?.into_iter().map(|(score, row)| (row, score)).collect();
        let candidates: Vec<Candidate> = dense
            .iter()
            .map(|&(dense, row)| Candidate {
                row,
                dense,
                lexical: by_words.get(&row).copied().unwrap_or_default(),
                is_found: true,
                moved: 0.0,
            })
            .collect();
        let both = fuse(&candidates, Fusion::Convex(0.5), 0.5, &|a, b| a.cmp(&b));
        let both = both.into_iter().map(|(score, row, scores)| (scores.dense.unwrap_or(score), row));
        Ok(both.chain(others).collect())
    }

    /// The rows of a document that were candidates: those in a visited leaf.
    fn candidates_among(&self, view: &View, rows: Vec<Row>, ranked: &Ranked) -> Result<Vec<Row>> {
        // If words are used, all passages of a candidate are scored.
        if ranked.leaves.is_empty() {
            return Ok(rows);
        }
        let mut found = Vec::with_capacity(rows.len());
        for row in rows {
            let own = view.leaf_of(row)?;
            // Judgments may name a document beyond the visited leaves.
            let is_hit = || ranked.rows.iter().any(|&(_, hit)| hit == row);
            if ranked.leaves.iter().any(|scored| scored.leaf == own) || is_hit() {
                found.push(row);
            }
        }
        Ok(found)
    }
}
