//! Many searches at once: leaves that several queries visit are scanned once for all of them.

use std::num::NonZeroUsize;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use rayon::prelude::*;

use super::Index;
use super::reach::Reach;
use super::search::{Ranked, SearchResult, SearchStats, impossible, unit};
use super::serving::Serving;
use crate::error::{InputError, Result};
use crate::ids::{LeafId, Row};
use crate::model::Role;
use crate::scan::{ManyScanner, Scanner, TopK};
use crate::store::View;

/// Rows kept for each query beyond those asked for: scores of a shared pass are not rounded as those of a search
/// are, so the best are scored once more.
const SPARE: usize = 4;

impl Index {
    /// The answers of [`Self::search`] to many questions, in their order, for less than that many searches cost.
    ///
    /// The questions are encoded together, and a leaf that several of them visit is read once. Runs on the threads
    /// of the current rayon pool. Among documents whose scores differ by less than rounding, the last hit may be
    /// another than that of [`Self::search`]. In [`SearchStats`] `encode`, `beam` and `scan` are each
    /// query's share of the whole.
    ///
    /// # Errors
    /// Those of [`Self::search`], for the first question that has one.
    pub fn search_batch(
        &self,
        queries: &[impl AsRef<str>],
        k: usize,
        beam: usize,
    ) -> Result<Vec<SearchResult>> {
        let texts: Vec<&str> = queries.iter().map(AsRef::as_ref).collect();
        if texts.iter().any(|text| text.trim().is_empty()) {
            return Err(InputError::EmptyQuery.into());
        }
        self.check_process()?;
        let (k, beam) = counts(k, beam)?;
        let serving = self.serving();
        let view = serving.view();
        let started = Instant::now();
        let rows = serving.model().encoder.embed(&texts, Role::Query)?;
        let encode = started.elapsed() / texts.len().max(1) as u32;
        let vectors: Vec<&[f32]> = rows.chunks_exact(serving.model().encoder.dim()).collect();
        let mut results = serving.run_batch(&view, &vectors, k, beam)?;
        results.iter_mut().for_each(|result| result.stats.encode = encode);
        Ok(results)
    }

    /// As [`Self::search_batch`], with queries that are already embeddings.
    ///
    /// # Shapes
    /// Each of `vectors` `[dim]` f32, as in [`Self::search_vector`].
    ///
    /// # Errors
    /// Those of [`Self::search_vector`], for the first query that has one.
    pub fn search_vector_batch(
        &self,
        vectors: &[impl AsRef<[f32]>],
        k: usize,
        beam: usize,
    ) -> Result<Vec<SearchResult>> {
        self.check_process()?;
        let (k, beam) = counts(k, beam)?;
        let vectors: Vec<&[f32]> = vectors.iter().map(AsRef::as_ref).collect();
        let serving = self.serving();
        vectors.iter().try_for_each(|vector| serving.check_vector(vector))?;
        serving.run_batch(&serving.view(), &vectors, k, beam)
    }
}

fn counts(k: usize, beam: usize) -> Result<(NonZeroUsize, NonZeroUsize)> {
    let k = NonZeroUsize::new(k).ok_or(InputError::ZeroK)?;
    Ok((k, NonZeroUsize::new(beam).ok_or(InputError::ZeroBeam)?))
}

impl Serving {
    fn run_batch(
        &self,
        view: &View,
        vectors: &[&[f32]],
        k: NonZeroUsize,
        beam: NonZeroUsize,
    ) -> Result<Vec<SearchResult>> {
        let ranked = if self.leaves_per_document() > 1 {
            // A document met in two leaves must count once, which is each query's own affair.
            let rank = |vector: &&[f32]| self.rank(view, vector, k, Reach::beam(beam));
            vectors.par_iter().map(rank).collect::<Result<Vec<_>>>()?
        } else {
            self.rank_together(view, vectors, k, beam)?
        };
        ranked.into_iter().map(|ranked| self.answer(view, ranked)).collect()
    }

    /// The best rows for each of several checked query vectors, each leaf scanned once.
    fn rank_together(
        &self,
        view: &View,
        vectors: &[&[f32]],
        k: NonZeroUsize,
        beam: NonZeroUsize,
    ) -> Result<Vec<Ranked>> {
        let share = vectors.len().max(1) as u32;
        let units: Vec<Vec<f32>> = vectors.par_iter().map(|vector| unit(vector)).collect();
        let queries: Vec<&[f32]> =
            vectors.iter().zip(&units).map(|(vector, unit)| self.scored(vector, unit)).collect();
        let started = Instant::now();
        let indexer = &self.model().indexer;
        let routed: Vec<_> = units.par_iter().map(|unit| indexer.route_observed(unit, beam)).collect();
        let routing_time = started.elapsed() / share;

        let started = Instant::now();
        let mut visits: Vec<(LeafId, usize)> = Vec::new();
        for (query, (routing, _)) in routed.iter().enumerate() {
            visits.extend(routing.search.leaves.iter().map(|scored| (scored.leaf, query)));
        }
        visits.sort_unstable();
        let kept = k.get().saturating_add(SPARE);
        let tops: Vec<Mutex<(TopK, usize)>> =
            queries.iter().map(|_| Mutex::new((TopK::new(kept), 0))).collect();
        let leaves: Vec<&[(LeafId, usize)]> = visits.chunk_by(|a, b| a.0 == b.0).collect();
        leaves.par_iter().try_for_each(|visits| -> Result<()> {
            let rows = view.leaf(visits[0].0)?;
            let own = visits.iter().map(|&(_, query)| queries[query]).collect();
            let mut found = vec![TopK::new(kept); visits.len()];
            ManyScanner::new(self.similarity, own)
                .and_then(|s| s.scan(&rows, &mut found))
                .map_err(impossible)?;
            for (&(_, query), found) in visits.iter().zip(found) {
                let mut top = tops[query].lock().unwrap_or_else(PoisonError::into_inner);
                top.0.merge(found);
                top.1 += rows.len();
            }
            Ok(())
        })?;
        let live = view.live().max(1) as f64;
        let all = indexer.shape().leaves() as usize;
        let mut ranked = Vec::with_capacity(queries.len());
        for ((query, (routing, sample)), top) in queries.iter().zip(routed).zip(tops) {
            let (top, documents) = top.into_inner().unwrap_or_else(PoisonError::into_inner);
            let rows = self.score_again(view, query, top.into_sorted(), k)?;
            let work = documents as f64 + routing.multiply_adds as f64 / query.len() as f64;
            let leaves = routing.search.leaves;
            let stats = SearchStats {
                leaves_visited: leaves.len(),
                documents_visited: documents,
                embeddings_read: documents,
                exhausted: leaves.len() == all,
                visited_fraction: documents as f64 / live,
                work_fraction: work / live,
                beam: routing_time,
                ..SearchStats::default()
            };
            let multiply_adds = routing.multiply_adds;
            ranked.push(Ranked { rows, stats, leaves, sample: Some(sample), multiply_adds });
        }
        let scan = started.elapsed() / share;
        ranked.iter_mut().for_each(|ranked| ranked.stats.scan = scan);
        Ok(ranked)
    }

    /// The best `k` of a few rows, by the scores that a search gives them.
    fn score_again(
        &self,
        view: &View,
        query: &[f32],
        rows: Vec<(f32, Row)>,
        k: NonZeroUsize,
    ) -> Result<Vec<(f32, Row)>> {
        let mut top = TopK::new(k.get());
        let mut few = Vec::with_capacity(rows.len());
        for (_, row) in rows {
            few.push((row, view.embedding(row)?));
        }
        Scanner::new(self.similarity, query).and_then(|s| s.scan(few, &mut top)).map_err(impossible)?;
        Ok(top.into_sorted())
    }
}
