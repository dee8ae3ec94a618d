//! Reads the documents of the best rows.

use std::time::{Duration, Instant};

use super::asked::Asked;
use super::fusion::HitScores;
use super::memory::note_judgments;
use super::plan::Plan;
use super::rank::Ranked;
use super::result::{Hit, HitPassage, SearchResult, SearchStats};
use crate::error::Result;
use crate::index::active_model::ActiveModel;
use crate::store::View;

/// Hits whose documents are read together.
const HITS_FETCHED: usize = 64;

impl ActiveModel {
    /// Reads the documents of ranked rows, or only their ids, and records how certain the tree was.
    pub(in crate::index) fn answer(
        &self,
        view: &View,
        asked: &Asked<'_>,
        plan: &Plan<'_>,
        ranked: &Ranked,
        encode: Duration,
    ) -> Result<SearchResult> {
        if let Some(sample) = ranked.sample {
            self.served.record(sample);
        }
        let started = Instant::now();
        let passages = self.passages_of_hits(view, asked, plan, ranked)?;
        // A reranker reads the documents.
        let ids_only = plan.request.ids_only && plan.request.rerank.is_none();
        let mut hits = fetch(view, ranked, passages, ids_only)?;
        note_judgments(view, asked, ranked, &mut hits)?;
        Ok(SearchResult {
            request: plan.request.clone(),
            ranked_by: ranked.ranked_by,
            signs: asked.signs.clone(),
            notes: self.notes(view, asked, plan, &hits)?,
            hits,
            stats: SearchStats { encode, encoder: asked.encoder, fetch: started.elapsed(), ..ranked.stats },
        })
    }
}

/// Ranked rows with their documents, or with only their ids. `passages`: for each row, those that the hit
/// shows; empty if none does.
pub(in crate::index) fn fetch(
    view: &View,
    ranked: &Ranked,
    passages: Vec<Vec<HitPassage>>,
    ids_only: bool,
) -> Result<Vec<Hit>> {
    let mut hits = Vec::with_capacity(ranked.rows.len());
    let mut passages = passages.into_iter();
    for rows in ranked.rows.chunks(HITS_FETCHED) {
        let documents = view.documents(rows.iter().map(|&(_, row)| row), ids_only)?;
        for (document, &(score, row)) in documents.zip(rows) {
            let (document, mut passages) = (document?, passages.next().unwrap_or_default());
            passages.iter_mut().for_each(|passage| passage.locate(&document));
            let leaf = match passages.first() {
                Some(best) => best.leaf,
                None => view.leaf_of(row)?,
            };
            let place = hits.len();
            // Without scores, embeddings alone rank.
            let scores = ranked.scores.get(place).copied().unwrap_or_else(|| HitScores {
                dense: Some(score),
                dense_rank: Some(place + 1),
                ..HitScores::default()
            });
            let (rerank_score, judged) = (None, None);
            let group = ranked.groups.get(place).cloned().flatten();
            hits.push(Hit {
                id: document.id.clone(),
                score,
                scores,
                rerank_score,
                judged,
                group,
                document,
                leaf,
                passages,
            });
        }
    }
    Ok(hits)
}
