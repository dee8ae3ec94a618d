//! What each leaf is about: a [`LeafSummary`] for each, made by [`Index::leaves`].

use std::collections::{BTreeSet, HashMap};
use std::num::NonZeroUsize;

use serde::Serialize;

pub use crate::terms::LeafTerm;

use super::active_model::ActiveModel;
use super::vectors::unit_of_stored;
use super::{Index, unit};
use crate::error::{InputError, Result};
use crate::ids::{LeafId, Row};
use crate::model::Role;
use crate::scan::TopK;
use crate::store::{Damage, StoreError, View};
use crate::terms::TermCounts;
use crate::tree::TreeShape;

/// Default number of terms of a leaf.
pub const DEFAULT_TERMS: usize = 8;
/// Default number of sample documents, and of sample queries, of a leaf.
pub const DEFAULT_SAMPLES: usize = 3;
/// Queries embedded per block.
const QUERIES_PER_BLOCK: usize = 256;

/// Options of [`Index::leaves`].
#[derive(Clone, Debug)]
pub struct LeafOptions {
    /// A single leaf, even if empty; by default all leaves with documents or questions. Costs the same, since
    /// a word is distinctive relative to the rest of the collection.
    pub leaf: Option<LeafId>,
    /// Maximum number of terms; [`DEFAULT_TERMS`] by default.
    pub terms: usize,
    /// Maximum number of documents, and of queries; [`DEFAULT_SAMPLES`] by default.
    pub samples: usize,
    /// Questions to route; each goes to its most probable leaf.
    pub queries: Vec<String>,
}

impl Default for LeafOptions {
    fn default() -> Self {
        Self { leaf: None, terms: DEFAULT_TERMS, samples: DEFAULT_SAMPLES, queries: Vec::new() }
    }
}

/// A document near the middle of a leaf.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct LeafDocument {
    /// The document's id.
    pub id: String,
    /// Its title, which may be empty.
    pub title: String,
    /// Its text, or that of the passage.
    pub text: String,
    /// Cosine with the mean of the leaf's embeddings.
    pub similarity: f32,
}

/// A question whose most probable leaf this is.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct LeafQuery {
    /// The question.
    pub text: String,
    /// Probability of the leaf for the question.
    pub probability: f32,
}

/// What a leaf is about.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct LeafSummary {
    /// The leaf.
    pub leaf: LeafId,
    /// The child taken at each level, root first.
    pub path: Vec<u32>,
    /// Documents in it, or passages of them.
    pub documents: usize,
    /// The most distinctive words, best first; few or none if the leaf is not distinctive.
    pub terms: Vec<LeafTerm>,
    /// The documents nearest to the mean of its embeddings, nearest first.
    pub nearest: Vec<LeafDocument>,
    /// The questions routed to it with the highest probability.
    pub queries: Vec<LeafQuery>,
    /// Number of questions routed to it.
    pub queries_routed: usize,
}

impl Index {
    /// What each leaf with documents or questions is about, ascending by leaf.
    ///
    /// Reads every document once and keeps counts of words, not texts.
    ///
    /// # Paper
    /// Section 4.6 and the appendix on the semantics of leaves.
    ///
    /// # Errors
    /// [`InputError::UnknownLeaf`] for a leaf that the tree does not have,
    /// [`InputError::EmptyQuery`], and failures of reading and of the encoder.
    pub fn leaves(&self, options: &LeafOptions) -> Result<Vec<LeafSummary>> {
        self.check_process()?;
        let serving = self.serving();
        let shape = serving.model().indexer.shape();
        if let Some(leaf) = options.leaf.filter(|&leaf| !shape.contains(leaf)) {
            return Err(InputError::UnknownLeaf { leaf: leaf.0, leaves: shape.leaves() }.into());
        }
        let mut questions = serving.route_questions(&options.queries)?;
        let mut listed: BTreeSet<LeafId> = questions.keys().copied().chain(options.leaf).collect();
        let view = serving.view();
        for leaf in view.leaf_sizes()?.into_keys() {
            check_stored(shape, leaf)?;
            listed.insert(leaf);
        }
        let mut counts = TermCounts::new(listed.len());
        let mut summaries = Vec::new();
        for (group, &leaf) in listed.iter().enumerate() {
            let rows = view.postings(leaf)?;
            for &row in &rows {
                counts.add(group, &view.passage(row)?.embedding_text());
            }
            if options.leaf.is_some_and(|only| only != leaf) {
                continue;
            }
            let mut queries = questions.remove(&leaf).unwrap_or_default();
            let queries_routed = queries.len();
            queries.sort_by(|a, b| b.probability.total_cmp(&a.probability));
            queries.truncate(options.samples);
            let nearest = serving.nearest_to_mean(&view, &rows, options.samples)?;
            let (path, documents) = (shape.path(leaf), rows.len());
            let terms = Vec::new();
            let summary = LeafSummary { leaf, path, documents, terms, nearest, queries, queries_routed };
            summaries.push((group, summary));
        }
        let mut terms = counts.distinctive(options.terms);
        let with_terms = |(group, summary): (usize, LeafSummary)| LeafSummary {
            terms: std::mem::take(&mut terms[group]),
            ..summary
        };
        Ok(summaries.into_iter().map(with_terms).collect())
    }
}

/// Checks that the tree has the leaf; a stored document with any other leaf is damage.
pub(super) fn check_stored(shape: TreeShape, leaf: LeafId) -> Result<()> {
    if shape.contains(leaf) {
        return Ok(());
    }
    let detail = Damage::Field { field: "the leaf of a document", found: leaf.0.into() };
    Err(StoreError::Corrupt { file: "segments".into(), detail }.into())
}

impl ActiveModel {
    fn route_questions(&self, texts: &[String]) -> Result<HashMap<LeafId, Vec<LeafQuery>>> {
        let model = self.model();
        let mut by_leaf: HashMap<LeafId, Vec<LeafQuery>> = HashMap::new();
        if texts.iter().any(|text| text.trim().is_empty()) {
            return Err(InputError::EmptyQuery.into());
        }
        for block in texts.chunks(QUERIES_PER_BLOCK) {
            let block: Vec<&str> = block.iter().map(String::as_str).collect();
            let rows = model.encoder()?.embed(&block, Role::Query)?;
            for (text, row) in block.iter().zip(rows.chunks_exact(model.dim())) {
                let sample = model.indexer.route(&unit(row), NonZeroUsize::MIN, Role::Query).sample;
                let query = LeafQuery { text: (*text).to_owned(), probability: sample.top_probability };
                by_leaf.entry(sample.leaf).or_default().push(query);
            }
        }
        Ok(by_leaf)
    }

    fn nearest_to_mean(&self, view: &View, rows: &[Row], most: usize) -> Result<Vec<LeafDocument>> {
        let mut sum = vec![0f64; self.model().dim()];
        for &row in rows {
            let unit = self.unit_row(view, row)?;
            sum.iter_mut().zip(unit).for_each(|(sum, x)| *sum += f64::from(x));
        }
        let sum: Vec<f32> = sum.into_iter().map(|x| x as f32).collect();
        let mean = unit(&sum);
        let mut top = TopK::new(most);
        for &row in rows {
            let unit = self.unit_row(view, row)?;
            let cosine: f32 = unit.iter().zip(&mean).map(|(x, m)| x * m).sum();
            // Rounding may exceed the range.
            top.push(cosine.clamp(-1.0, 1.0), row);
        }
        let nearest = top.into_sorted().into_iter().map(|(similarity, row)| {
            let document = view.passage(row)?;
            Ok(LeafDocument { id: document.id, title: document.title, text: document.text, similarity })
        });
        nearest.collect::<std::result::Result<_, StoreError>>().map_err(Into::into)
    }

    /// A stored row at unit norm, f32.
    pub(crate) fn unit_row(&self, view: &View, row: Row) -> Result<Vec<f32>> {
        Ok(unit_of_stored(view.embedding(row)?))
    }
}
