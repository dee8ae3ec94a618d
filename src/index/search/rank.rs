//! Runs a plan: candidates from the leaves, the filter's ids or all rows, scored into the best `k`.

use std::time::{Duration, Instant};

use super::candidates::{Candidates, Selector};
use super::cursor::LeafCursor;
use super::damage::scan_failed;
use super::filter::RowFilter;
use super::plan::{Limits, Plan, SearchMode};
use super::result::SearchStats;
use super::scorer::{ROWS_PER_TASK, Scorer};
use crate::error::{InputError, Result};
use crate::ids::Row;
use crate::index::active_model::ActiveModel;
use crate::index::vectors::unit;
use crate::model::RoutingSample;
use crate::scan::{Scanner, Similarity, TopK};
use crate::store::View;
use crate::tree::ScoredLeaf;

/// Rows in order of score, before any document is read.
pub(crate) struct Ranked {
    pub rows: Vec<(f32, Row)>,
    pub stats: SearchStats,
    /// The leaves visited, most probable first; none where the tree was not used.
    pub leaves: Vec<ScoredLeaf>,
    /// How sure the tree was; `None` where it was not used.
    pub sample: Option<RoutingSample>,
    /// Multiply-adds of the routing.
    pub multiply_adds: u64,
}

/// Where the candidates come from.
enum Source<'f> {
    Ids(Vec<&'f str>),
    All,
    Leaves(Limits),
}

/// One search under way.
struct Search<'a> {
    view: &'a View,
    selector: Selector<'a>,
    scorer: Scorer<'a>,
    top: TopK,
    candidates: Vec<Candidates<'a>>,
    /// Live documents that were candidates.
    documents: usize,
}

impl ActiveModel {
    /// The best rows of one view for a checked query vector, `[dim]`.
    pub(crate) fn rank(&self, view: &View, vector: &[f32], plan: &Plan<'_>) -> Result<Ranked> {
        let unit = unit(vector);
        let query = if self.similarity == Similarity::Cosine { &unit } else { vector };
        let scanner = Scanner::new(self.similarity, query).map_err(scan_failed)?;
        let started = Instant::now();
        let mut filter = plan.filter.map(|filter| RowFilter::new(view, filter, &self.filters));
        let source = source(plan, filter.as_mut())?;
        let all_leaves = self.model().indexer.shape().leaves() as usize;
        // A beam of all leaves is exact search.
        let is_exhaustive = match &source {
            Source::Leaves(limits) => !limits.is_adaptive() && limits.leaves.get() >= all_leaves,
            Source::Ids(_) | Source::All => true,
        };
        let rotation = if plan.codes.unwrap_or(!is_exhaustive) { self.rotation() } else { None };
        if plan.codes == Some(true) && rotation.is_none() {
            return Err(InputError::NoCodes { similarity: self.similarity }.into());
        }
        // A document may be in several leaves.
        let several = matches!(source, Source::Leaves(_)) && self.leaves_per_document() > 1;
        let mut search = Search {
            view,
            selector: Selector::new(filter, several.then(|| view.rows())),
            scorer: Scorer::new(view, &scanner, rotation, plan.threads),
            top: TopK::new(plan.k.get()),
            candidates: Vec::new(),
            documents: 0,
        };
        let cursor = match source {
            Source::Ids(ids) => search.ids(&ids).map(|()| None)?,
            Source::All => search.all().map(|()| None)?,
            Source::Leaves(limits) => {
                let mut cursor = LeafCursor::new(&self.model().indexer, &unit, limits);
                search.leaves(&mut cursor, limits, plan)?;
                Some(cursor)
            }
        };
        search.scorer.score(&search.candidates, search.documents, &mut search.top)?;
        Ok(search.ranked(cursor, vector.len(), started.elapsed()))
    }
}

/// Few rows that pass a filter are scored without the tree.
fn source<'a>(plan: &Plan<'_>, filter: Option<&mut RowFilter<'a>>) -> Result<Source<'a>> {
    Ok(match (filter, plan.mode) {
        (None, SearchMode::Tree(limits)) => Source::Leaves(limits),
        (None, SearchMode::Exact) => Source::All,
        (Some(filter), mode) => match (filter.candidate_ids(), mode) {
            (Some(ids), _) => Source::Ids(ids),
            (None, SearchMode::Tree(limits)) if !filter.is_rare()? => Source::Leaves(limits),
            (None, _) => Source::All,
        },
    })
}

impl Search<'_> {
    fn leaves(&mut self, cursor: &mut LeafCursor<'_>, limits: Limits, plan: &Plan<'_>) -> Result<()> {
        let budget = limits.documents_of(self.view.live());
        let mut runs = Vec::new();
        loop {
            // With a filter the search goes on until there are k hits.
            let needs_more = plan.filter.is_some() && self.documents < plan.k.get();
            if cursor.is_over() && !needs_more {
                return Ok(());
            }
            let Some(leaf) = cursor.advance() else { return Ok(()) };
            self.view.leaf_runs(leaf.leaf, &mut runs)?;
            let first = self.candidates.len();
            let found = self.selector.select(runs.drain(..), &mut self.candidates)?;
            if !needs_more && self.documents > 0 && self.documents.saturating_add(found) > budget {
                self.candidates.truncate(first);
                return Ok(());
            }
            self.documents += found;
            let accepted = self.top.accepted();
            // Else all are scored together: the more candidates, the fewer embeddings need be read.
            if limits.needs_scores() {
                self.scorer.score(&self.candidates, self.documents, &mut self.top)?;
                self.candidates.clear();
            }
            cursor.visit(leaf, self.top.accepted() > accepted);
        }
    }

    fn ids(&mut self, ids: &[&str]) -> Result<()> {
        let mut runs = Vec::with_capacity(ids.len());
        for id in ids {
            if let Some(row) = self.view.row_of(id)? {
                runs.push(self.view.run_of(row)?);
            }
        }
        self.documents = self.selector.select(runs.into_iter(), &mut self.candidates)?;
        Ok(())
    }

    fn all(&mut self) -> Result<()> {
        match &mut self.selector.filter {
            None => {
                for part in self.view.parts() {
                    self.candidates.extend(Candidates::pieces(part, None, ROWS_PER_TASK));
                }
            }
            Some(filter) => {
                for (part, bits) in filter.all()? {
                    self.candidates.extend(Candidates::pieces(part, Some(&bits), ROWS_PER_TASK));
                }
            }
        }
        self.documents = self.candidates.iter().map(Candidates::len).sum();
        Ok(())
    }

    /// `cursor`: that of the tree, where it was used.
    fn ranked(self, cursor: Option<LeafCursor<'_>>, dim: usize, elapsed: Duration) -> Ranked {
        let live = self.view.live().max(1) as f64;
        let multiply_adds = cursor.as_ref().map_or(0, |cursor| cursor.multiply_adds);
        let beam = cursor.as_ref().map_or(Duration::ZERO, |cursor| cursor.beam);
        let stats = SearchStats {
            leaves_visited: cursor.as_ref().map_or(0, |cursor| cursor.visited.len()),
            documents_visited: self.documents,
            embeddings_read: self.scorer.embeddings,
            documents_checked: self.selector.checked(),
            exhausted: cursor.as_ref().is_none_or(LeafCursor::is_exhausted),
            visited_fraction: self.documents as f64 / live,
            work_fraction: (self.documents as f64 + multiply_adds as f64 / dim as f64) / live,
            beam,
            scan: elapsed.saturating_sub(beam),
            encode: Duration::ZERO,
            fetch: Duration::ZERO,
        };
        let sample = cursor.as_ref().and_then(|cursor| cursor.sample);
        let leaves = cursor.map_or_else(Vec::new, |cursor| cursor.visited);
        Ranked { rows: self.top.into_sorted(), stats, leaves, sample, multiply_adds }
    }
}
