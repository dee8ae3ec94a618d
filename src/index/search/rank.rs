//! Runs a plan: scores candidates from the leaves, the filter's ids or all rows, and keeps the best `k`.

use std::collections::HashSet;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::candidates::{RowCandidates, Selector};
use super::cursor::LeafCursor;
use super::damage::{damaged, scan_failed};
use super::filter::RowFilter;
use super::fusion::HitScores;
use super::plan::{Limits, Plan, SearchMode};
use super::request::MOST_EXACT_DOCUMENTS;
use super::result::{RankedBy, SearchStats};
use super::scorer::{ROWS_PER_TASK, Scorer};
use super::ties;
use crate::error::{InputError, Result};
use crate::ids::{LeafId, Row};
use crate::index::active_model::ActiveModel;
use crate::index::vectors::unit;
use crate::model::{Indexer, RoutingSample};
use crate::scan::{Scanner, Similarity, TopK};
use crate::store::View;
use crate::tree::ScoredLeaf;

/// Rows ranked by score, before any document is read; only the best row of each document.
#[derive(Clone)]
pub(crate) struct Ranked {
    pub rows: Vec<(f32, Row)>,
    /// One for each row; empty if embeddings alone rank.
    pub scores: Vec<HitScores>,
    pub ranked_by: RankedBy,
    pub stats: SearchStats,
    /// The visited leaves, most probable first; empty if the tree was not used.
    pub leaves: Vec<ScoredLeaf>,
    /// How certain the tree was; `None` if it was not used.
    pub sample: Option<RoutingSample>,
    /// Multiply-adds of routing.
    pub multiply_adds: u64,
}

/// Share of the documents above which scoring all of them in order is as cheap as visiting leaves.
const MOST_VISITED: f64 = 0.5;

/// Where the candidates come from.
enum Source<'f> {
    Ids(Vec<&'f str>),
    All,
    Leaves(Limits),
}

impl ActiveModel {
    /// Limits on the tree search; `None` if every document is scored.
    fn limits(&self, plan: &Plan<'_>, view: &View) -> Option<Limits> {
        match plan.mode {
            SearchMode::Tree(limits) => Some(limits),
            SearchMode::Leaves => Some(Limits::beam(NonZeroUsize::new(plan.leaves.len())?)),
            SearchMode::Exact => None,
            SearchMode::Recall(recall) => {
                if recall >= 1.0 || view.live_rows() <= MOST_EXACT_DOCUMENTS {
                    return None;
                }
                let curve = self.recall_curve().filter(|curve| curve.holds_for(view.live()))?;
                let point = curve.reaching(recall, plan.k.get())?;
                let beam = NonZeroUsize::new(point.beam).filter(|_| point.visited <= MOST_VISITED)?;
                Some(Limits::beam(beam))
            }
        }
    }
}

/// An empty selection of the best rows of at most `k` documents of a view.
pub(crate) fn best_of(view: &View, k: usize) -> TopK {
    if !view.has_several() {
        return TopK::new(k);
    }
    let view = view.clone();
    TopK::of_documents(k, Arc::new(move |row| view.head(row).ok()))
}

/// # Errors
/// Damage of the mapping of rows to documents, if it affected the selection.
pub(crate) fn check_best(view: &View, top: &TopK) -> Result<()> {
    let Some(row) = top.failed() else { return Ok(()) };
    view.head(row)?;
    Err(damaged("segments", "the document of a row").into())
}

/// A search in progress.
struct Search<'a> {
    view: &'a View,
    selector: Selector<'a>,
    scorer: Scorer<'a>,
    top: TopK,
    candidates: Vec<RowCandidates<'a>>,
    /// Number of live rows that were candidates.
    documents: usize,
    /// If a document may have several rows, the documents of those, until there are k.
    different: Option<HashSet<Row>>,
}

impl ActiveModel {
    /// The best rows of one view for a checked query vector, `[dim]`.
    pub(crate) fn rank(&self, view: &View, vector: &[f32], plan: &Plan<'_>) -> Result<Ranked> {
        let unit = unit(vector);
        let query = if self.similarity == Similarity::Cosine { &unit } else { vector };
        let scanner = Scanner::new(self.similarity, query).map_err(scan_failed)?;
        let started = Instant::now();
        let mut filter = plan.filter.map(|filter| RowFilter::new(view, filter, &self.filters));
        let indexer = &self.model().indexer;
        let source = match (plan.mode, self.limits(plan, view)) {
            // Regardless of the filter, so that hits do not depend on which documents are in this index.
            (SearchMode::Leaves, Some(limits)) => {
                check_leaves(plan.leaves, indexer)?;
                Source::Leaves(limits)
            }
            (_, limits) => source(limits, filter.as_mut())?,
        };
        let rotation =
            if plan.codes.unwrap_or(source.may_miss(plan, indexer)) { self.rotation() } else { None };
        if plan.codes == Some(true) && rotation.is_none() {
            return Err(InputError::NoCodes { similarity: self.similarity }.into());
        }
        let mut search = Search {
            view,
            selector: Selector { filter },
            scorer: Scorer::new(view, &scanner, rotation, plan.parallel),
            top: best_of(view, plan.k.get()),
            candidates: Vec::new(),
            documents: 0,
            different: view.has_several().then(HashSet::new),
        };
        let cursor = match source {
            Source::Ids(ids) => search.ids(&ids).map(|()| None)?,
            Source::All => search.all().map(|()| None)?,
            Source::Leaves(limits) => {
                let mut cursor = match plan.mode {
                    SearchMode::Leaves => LeafCursor::of(indexer, &unit, plan.leaves),
                    _ => LeafCursor::new(indexer, &unit, limits),
                };
                search.leaves(&mut cursor, limits, plan)?;
                Some(cursor)
            }
        };
        search.scorer.score(&search.candidates, search.documents, &mut search.top)?;
        check_best(view, &search.top)?;
        search.ranked(cursor, vector.len(), started)
    }
}

/// # Errors
/// [`InputError::UnknownLeaf`].
fn check_leaves(leaves: &[LeafId], indexer: &Indexer) -> Result<()> {
    let shape = indexer.shape();
    match leaves.iter().find(|leaf| !shape.contains(**leaf)) {
        Some(leaf) => Err(InputError::UnknownLeaf { leaf: leaf.0, leaves: shape.leaves() }.into()),
        None => Ok(()),
    }
}

/// If few rows pass a filter, they are scored without the tree.
fn source<'a>(limits: Option<Limits>, filter: Option<&mut RowFilter<'a>>) -> Result<Source<'a>> {
    Ok(match (filter, limits) {
        (None, Some(limits)) => Source::Leaves(limits),
        (None, None) => Source::All,
        (Some(filter), limits) => match (filter.candidate_ids(), limits) {
            (Some(ids), _) => Source::Ids(ids),
            (None, Some(limits)) if !filter.is_rare()? => Source::Leaves(limits),
            (None, _) => Source::All,
        },
    })
}

impl Source<'_> {
    /// Whether the search may leave out documents that could be hits.
    fn may_miss(&self, plan: &Plan<'_>, indexer: &Indexer) -> bool {
        match (plan.mode, self) {
            (SearchMode::Recall(recall), _) => recall < 1.0,
            // A beam of all leaves is an exact search, unless the index has no tree and so no choice of
            // leaves.
            (_, Self::Leaves(limits)) => {
                limits.is_adaptive()
                    || limits.leaves.get() < indexer.shape().leaves() as usize
                    || !indexer.has_tree()
            }
            (_, Self::Ids(_) | Self::All) => false,
        }
    }
}

impl Search<'_> {
    fn leaves(&mut self, cursor: &mut LeafCursor<'_>, limits: Limits, plan: &Plan<'_>) -> Result<()> {
        let budget = limits.documents_of(self.view.live_rows());
        let mut runs = Vec::new();
        loop {
            // With a filter, or without an explicit reach, the search continues until there are k hits.
            let fills = plan.filter.is_some() || matches!(plan.mode, SearchMode::Recall(_));
            let documents = self.different.as_ref().map_or(self.documents, HashSet::len);
            let needs_more = fills && documents < plan.k.get();
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
            self.note_different(first, plan.k.get())?;
            let accepted = self.top.accepted();
            // Otherwise all are scored together: with more candidates, fewer embeddings need to be read.
            if limits.needs_scores() {
                self.scorer.score(&self.candidates, self.documents, &mut self.top)?;
                self.candidates.clear();
            }
            cursor.visit(leaf, self.top.accepted() > accepted);
        }
    }

    /// Records the documents of candidates starting at `first`, until there are `k`.
    fn note_different(&mut self, first: usize, k: usize) -> Result<()> {
        let Some(different) = &mut self.different else { return Ok(()) };
        for row in self.candidates[first..].iter().flat_map(RowCandidates::rows) {
            if different.len() >= k {
                break;
            }
            different.insert(self.view.head(row)?);
        }
        Ok(())
    }

    fn ids(&mut self, ids: &[&str]) -> Result<()> {
        let mut runs = Vec::with_capacity(ids.len());
        for id in ids {
            if let Some(row) = self.view.row_of(id)? {
                for row in self.view.rows_of(row)? {
                    runs.push(self.view.run_of(row)?);
                }
            }
        }
        self.documents = self.selector.select(runs.into_iter(), &mut self.candidates)?;
        Ok(())
    }

    fn all(&mut self) -> Result<()> {
        match &mut self.selector.filter {
            None => {
                for part in self.view.parts() {
                    self.candidates.extend(RowCandidates::pieces(part, None, ROWS_PER_TASK));
                }
            }
            Some(filter) => {
                for (part, bits) in filter.all()? {
                    self.candidates.extend(RowCandidates::pieces(part, Some(&bits), ROWS_PER_TASK));
                }
            }
        }
        self.documents = self.candidates.iter().map(RowCandidates::len).sum();
        Ok(())
    }

    /// `cursor`: of the tree, if it was used.
    fn ranked(self, cursor: Option<LeafCursor<'_>>, dim: usize, started: Instant) -> Result<Ranked> {
        let rows = ties::sorted(self.view, self.top)?;
        let elapsed = started.elapsed();
        let live = self.view.live_rows().max(1) as f64;
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
            ..SearchStats::default()
        };
        let sample = cursor.as_ref().and_then(|cursor| cursor.sample);
        let leaves = cursor.map_or_else(Vec::new, |cursor| cursor.visited);
        Ok(Ranked {
            rows,
            scores: Vec::new(),
            ranked_by: RankedBy::Dense,
            stats,
            leaves,
            sample,
            multiply_adds,
        })
    }
}
