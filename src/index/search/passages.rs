//! Which passages of a hit answer the question.

use super::asked::Asked;
use super::plan::Plan;
use super::rank::Ranked;
use super::request::RankBy;
use super::result::{HitPassage, RankedBy};
use super::words::WordSearch;
use crate::error::Result;
use crate::ids::Row;
use crate::index::active_model::ActiveModel;
use crate::passages::Span;
use crate::store::View;

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
            return Ok(vec![Vec::new(); ranked.rows.len()]);
        }
        let words = match (asked.by, &asked.words) {
            (RankBy::Lexical, Some(words)) => Some(WordSearch::new(view, words, self.analysis(), plan)?),
            _ => None,
        };
        let passages = |(place, &(score, row)): (usize, &(f32, Row))| {
            let mut rows = match &words {
                Some(words) => words.best_passages(row, &view.rows_of(row)?)?,
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

    /// The rows of a document that were candidates: in a search by embeddings alone, those in a visited leaf.
    fn candidates_among(&self, view: &View, rows: Vec<Row>, ranked: &Ranked) -> Result<Vec<Row>> {
        // If words are used, all passages of a candidate are scored.
        if ranked.leaves.is_empty() || ranked.ranked_by != RankedBy::Dense {
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
