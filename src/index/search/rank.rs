//! Runs a plan: scores candidates from the leaves, the filter's ids or all rows, and keeps the best `k`.

use std::collections::HashSet;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::candidates::{RowCandidates, Selector};
use super::cursor::LeafCursor;
use super::damage::{damaged, scan_failed};
use super::filter::RowFilter;
use super::fusion::HitScores;
use super::plan::Plan;
use super::request::{MOST_EXACT_DOCUMENTS, Reach};
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
#[derive(Clone, Default)]
pub(crate) struct Ranked {
    pub rows: Vec<(f32, Row)>,
    /// One for each row; empty if embeddings alone rank.
    pub scores: Vec<HitScores>,
    pub ranked_by: RankedBy,
    /// The value that each row's document has in common with its group; empty without groups.
    pub groups: Vec<Option<Value>>,
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
/// A product with a leaf's weights takes the time of scoring this many rows by their codes.
const ROWS_PER_LEAF: f64 = 4.0;
/// Share of the documents below which those that pass a filter are scored without the tree.
const RARE: f64 = 0.01;

impl ActiveModel {
    /// How many leaves to visit, given the share of rows that pass the filter; `None` if every one of these
    /// is scored.
    fn beam(&self, plan: &Plan<'_>, view: &View, share: f64) -> Option<NonZeroUsize> {
        match plan.reach() {
            // Scoring so few rows is faster than finding their leaves.
            Reach::Beam(_) if share < RARE => None,
            Reach::Beam(beam) => NonZeroUsize::new(*beam),
            Reach::Leaves(leaves) => NonZeroUsize::new(leaves.len()),
            Reach::Exact => None,
            Reach::Recall(recall) => {
                if *recall >= 1.0 || view.live_rows() <= MOST_EXACT_DOCUMENTS {
                    return None;
                }
                let measured = self.measured();
                let curve = measured.recall.as_ref().filter(|curve| curve.holds_for(view.live()))?;
                // For more hits than were measured, every document is scored.
                curve.reaching(*recall, plan.k.get())?;
                // The best `k` of those that pass are about the best `k / share` of all, where it does not
                // depend on the question which ones pass.
                let among = (plan.k.get() as f64 / share).ceil();
                let (beam, visited) = curve.among(*recall, among)?;
                // Finding leaves costs more than scoring few rows by their codes.
                let leaves = self.model().indexer.shape().leaves() as f64;
                let is_worth_it = share == 1.0 || share * view.live_rows() as f64 > ROWS_PER_LEAF * leaves;
                NonZeroUsize::new(beam).filter(|_| is_worth_it && visited <= MOST_VISITED)
            }
        }
    }
}

/// Most candidates that memory is reserved for in advance.
const MOST_RESERVED: usize = 1024;

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

/// The candidates of a search.
struct Search<'a> {
    view: &'a View,
    selector: Selector<'a>,
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
        let mut filter = plan.filter().map(|filter| RowFilter::new(view, filter, &self.filters));
        let indexer = &self.model().indexer;
        let (mut beam, mut ids) = (self.beam(plan, view, 1.0), None);
        match (plan.reach(), &mut filter) {
            // Regardless of the filter, so that hits do not depend on which documents are in this index.
            (Reach::Leaves(leaves), _) => check_leaves(leaves, indexer)?,
            (_, Some(filter)) => {
                ids = filter.candidate_ids();
                beam = match (&ids, beam) {
                    (None, Some(_)) => self.beam(plan, view, filter.share()?),
                    _ => None,
                };
            }
            (_, None) => {}
        }
        // Whether the search may leave out documents that could be hits. A beam of all leaves is an exact
        // search, unless the index has no tree and so no choice of leaves.
        let may_miss = match plan.reach() {
            Reach::Recall(recall) => *recall < 1.0,
            _ => {
                beam.is_some_and(|beam| beam.get() < indexer.shape().leaves() as usize || !indexer.has_tree())
            }
        };
        let rotation = if plan.request.codes.unwrap_or(may_miss) { self.rotation() } else { None };
        if plan.request.codes == Some(true) && rotation.is_none() {
            return Err(InputError::NoCodes { similarity: self.similarity }.into());
        }
        let mut search = Search {
            view,
            selector: Selector { filter },
            candidates: Vec::with_capacity(beam.map_or(0, |beam| beam.get().min(MOST_RESERVED))),
            documents: 0,
            different: view.has_several().then(HashSet::new),
        };
        let mut cursor = beam.map(|beam| match plan.reach() {
            Reach::Leaves(leaves) => LeafCursor::of(indexer, &unit, leaves),
            _ => LeafCursor::new(indexer, &unit, beam),
        });
        match (&mut cursor, ids) {
            (Some(cursor), _) => search.leaves(cursor, plan)?,
            (None, Some(ids)) => search.ids(&ids)?,
            (None, None) => search.all()?,
        }
        let Search { selector, candidates, documents, .. } = search;
        let mut top = best_of(view, plan.k.get());
        let scorer = Scorer { view, scanner: &scanner, rotation, documents };
        let embeddings_read = match plan.parallel {
            false => scorer.score(&candidates, &mut top)?,
            true => scorer.score_on_pool(&candidates, &mut top)?,
        };
        check_best(view, &top)?;
        let rows = ties::sorted(view, top)?;
        let elapsed = started.elapsed();
        let live = view.live_rows().max(1) as f64;
        let multiply_adds = cursor.as_ref().map_or(0, |cursor| cursor.multiply_adds);
        let beam = cursor.as_ref().map_or(Duration::ZERO, |cursor| cursor.elapsed);
        let stats = SearchStats {
            leaves_visited: cursor.as_ref().map_or(0, |cursor| cursor.visited.len()),
            documents_visited: documents,
            embeddings_read,
            documents_checked: selector.checked(),
            exhausted: cursor.as_ref().is_none_or(LeafCursor::is_exhausted),
            visited_fraction: documents as f64 / live,
            work_fraction: (documents as f64 + multiply_adds as f64 / vector.len() as f64) / live,
            beam,
            scan: elapsed.saturating_sub(beam),
            ..SearchStats::default()
        };
        let sample = cursor.as_ref().and_then(|cursor| cursor.sample);
        let leaves = cursor.map_or_else(Vec::new, |cursor| cursor.visited);
        let (scores, ranked_by, groups) = (Vec::new(), RankedBy::Dense, Vec::new());
        Ok(Ranked { rows, scores, ranked_by, groups, stats, leaves, sample, multiply_adds })
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

impl Search<'_> {
    fn leaves(&mut self, cursor: &mut LeafCursor<'_>, plan: &Plan<'_>) -> Result<()> {
        let mut runs = Vec::new();
        loop {
            // With a filter, or without an explicit reach, the search continues until there are k hits.
            let fills = plan.filter().is_some() || matches!(plan.reach(), Reach::Recall(_));
            let documents = self.different.as_ref().map_or(self.documents, HashSet::len);
            let needs_more = fills && documents < plan.k.get();
            if cursor.is_over() && !needs_more {
                return Ok(());
            }
            let Some(leaf) = cursor.advance() else { return Ok(()) };
            self.view.leaf_runs(leaf, &mut runs)?;
            let first = self.candidates.len();
            self.documents += self.selector.select(runs.drain(..), &mut self.candidates)?;
            self.note_different(first, plan.k.get())?;
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
}
