//! Reads the documents of the best rows.

use std::time::{Duration, Instant};

use super::asked::Asked;
use super::fusion::HitScores;
use super::plan::Plan;
use super::rank::Ranked;
use super::request::SearchRequest;
use super::result::{Hit, HitPassage, SearchResult, SearchStats};
use crate::document::Document;
use crate::error::Result;
use crate::ids::Row;
use crate::index::active_model::ActiveModel;
use crate::store::View;

/// Hits whose documents are prefetched together.
const HITS_FETCHED: usize = 64;

impl ActiveModel {
    /// Reads the documents of ranked rows, or only their ids, and records how certain the tree was.
    pub(in crate::index) fn answer(
        &self,
        view: &View,
        asked: &Asked<'_>,
        request: &SearchRequest,
        plan: &Plan<'_>,
        ranked: &Ranked,
        encode: Duration,
    ) -> Result<SearchResult> {
        if let Some(sample) = ranked.sample {
            self.served.record(sample);
        }
        let started = Instant::now();
        let passages = self.passages_of_hits(view, asked, plan, ranked)?;
        let hits = match plan.ids_only {
            true => self.fetch_ids(view, ranked, passages)?,
            false => self.fetch(view, &ranked.rows, &ranked.scores, passages)?,
        };
        Ok(SearchResult {
            request: request.clone(),
            ranked_by: ranked.ranked_by,
            signs: asked.signs.clone(),
            notes: self.notes(view, asked, plan, hits.is_empty())?,
            hits,
            stats: SearchStats { encode, encoder: asked.encoder, fetch: started.elapsed(), ..ranked.stats },
        })
    }

    fn fetch_ids(&self, view: &View, ranked: &Ranked, passages: Vec<Vec<HitPassage>>) -> Result<Vec<Hit>> {
        let mut passages = passages.into_iter();
        let id = |row| Ok(Document::new(view.id(row)?, "", ""));
        hits_of(view, &ranked.rows, &ranked.scores, 0, &mut passages, id)
    }

    /// Ranked rows with their documents. `scores` are those of [`Ranked::scores`]: one per row, or empty if
    /// embeddings alone rank. `passages`: for each row, those that the hit shows.
    pub(in crate::index) fn fetch(
        &self,
        view: &View,
        rows: &[(f32, Row)],
        scores: &[HitScores],
        passages: Vec<Vec<HitPassage>>,
    ) -> Result<Vec<Hit>> {
        let mut passages = passages.into_iter();
        let mut hits = Vec::with_capacity(rows.len());
        for rows in rows.chunks(HITS_FETCHED) {
            view.prefetch_documents(rows.iter().map(|&(_, row)| row))?;
            let scores = scores.get(hits.len()..).unwrap_or_default();
            let first = hits.len();
            hits.extend(hits_of(view, rows, scores, first, &mut passages, |row| Ok(view.document(row)?))?);
        }
        Ok(hits)
    }
}

/// Turns ranked rows, the first of them at rank `first` counted from 0, into hits with what `document`
/// returns.
fn hits_of(
    view: &View,
    rows: &[(f32, Row)],
    scores: &[HitScores],
    first: usize,
    passages: &mut dyn Iterator<Item = Vec<HitPassage>>,
    document: impl Fn(Row) -> Result<Document>,
) -> Result<Vec<Hit>> {
    let mut hits = Vec::with_capacity(rows.len());
    for (place, &(score, row)) in rows.iter().enumerate() {
        let document = document(row)?;
        let passages = passages.next().unwrap_or_default();
        let leaf = match passages.first() {
            Some(best) => best.leaf,
            None => view.leaf_of(row)?,
        };
        let scores = scores.get(place).copied().unwrap_or_else(|| HitScores {
            dense: Some(score),
            dense_rank: Some(first + place + 1),
            ..HitScores::default()
        });
        let rerank_score = None;
        hits.push(Hit { id: document.id.clone(), score, scores, rerank_score, document, leaf, passages });
    }
    Ok(hits)
}
