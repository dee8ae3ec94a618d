//! Reads the documents of the best rows.

use std::time::{Duration, Instant};

use super::damage::damaged;
use super::fusion::HitScores;
use super::rank::Ranked;
use super::result::{Hit, SearchResult, SearchStats};
use crate::error::Result;
use crate::ids::Row;
use crate::index::active_model::ActiveModel;
use crate::store::View;

/// Hits whose documents are prefetched together.
const HITS_FETCHED: usize = 64;

impl ActiveModel {
    /// Reads the documents of ranked rows, and records how sure the tree was. `encode`: what encoding took.
    pub(in crate::index) fn answer(
        &self,
        view: &View,
        ranked: &Ranked,
        encode: Duration,
    ) -> Result<SearchResult> {
        if let Some(sample) = ranked.sample {
            self.served.record(sample);
        }
        let started = Instant::now();
        let hits = self.fetch(view, &ranked.rows, &ranked.scores)?;
        let ranked_by = ranked.ranked_by;
        Ok(SearchResult {
            ranked_by,
            hits,
            stats: SearchStats { encode, fetch: started.elapsed(), ..ranked.stats },
        })
    }

    /// Ranked rows with their documents. `scores` are those of [`Ranked::scores`]: of each row, or none where
    /// embeddings alone rank.
    pub(in crate::index) fn fetch(
        &self,
        view: &View,
        rows: &[(f32, Row)],
        scores: &[HitScores],
    ) -> Result<Vec<Hit>> {
        let mut hits = Vec::with_capacity(rows.len());
        for rows in rows.chunks(HITS_FETCHED) {
            view.prefetch_documents(rows.iter().map(|&(_, row)| row))?;
            for &(score, row) in rows {
                let document = view.document(row)?;
                let missing = || damaged("segments", "the leaf of a document");
                let leaf = view.leaves(row)?.first().copied().ok_or_else(missing)?;
                let rank = hits.len();
                let scores = scores.get(rank).copied().unwrap_or_else(|| HitScores {
                    dense: Some(score),
                    dense_rank: Some(rank + 1),
                    ..HitScores::default()
                });
                hits.push(Hit { id: document.id.clone(), score, scores, document, leaf });
            }
        }
        Ok(hits)
    }
}
