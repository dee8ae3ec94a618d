//! The read path: encode, route, scan the leaves' postings, fetch the best documents.

use std::borrow::Cow;
use std::num::NonZeroUsize;
use std::ops::Deref;
use std::time::{Duration, Instant};

use half::f16;
use half::slice::HalfFloatSliceExt;

use super::Index;
use super::options::{Query, QueryInput};
use super::reach::Reach;
use super::serving::Serving;
use super::visit::{How, Visit};
use crate::document::Document;
use crate::error::{InputError, Result};
use crate::filter::Filter;
use crate::ids::{LeafId, Row};
use crate::model::{Role, RoutingSample};
use crate::scan::{Scanner, Similarity, TopK};
use crate::store::{Damage, StoreError, View};
use crate::tree::ScoredLeaf;

/// Hits whose documents are asked for together.
const HITS_FETCHED: usize = 64;

/// One document found.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Hit {
    /// The document's id.
    pub id: String,
    /// By the index's similarity; higher is better.
    pub score: f32,
    /// The document as it was inserted.
    pub document: Document,
    /// The leaf it was found in; its most probable one where it is in several.
    pub leaf: LeafId,
}

/// What a search cost.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct SearchStats {
    /// Leaves visited; 0 for exact search.
    pub leaves_visited: usize,
    /// Documents scored.
    pub documents_visited: usize,
    /// Those of them whose embedding was read; the codes of the others ruled them out.
    pub embeddings_read: usize,
    /// Documents whose id and metadata were held against the filter; 0 without one, and less where it was used
    /// lately.
    pub documents_checked: usize,
    /// Whether no other document could have been a hit: all leaves were visited, or all documents that
    /// the filter lets through were scored. Fewer than `k` hits then means that there are no more.
    pub exhausted: bool,
    /// Documents scored over live documents, in [0, 1].
    pub visited_fraction: f64,
    /// As `visited_fraction`, plus the routing cost in document dot products.
    pub work_fraction: f64,
    /// Tokenising and encoding the query.
    pub encode: Duration,
    /// Beam search in the tree; with a filter, part of `scan`.
    pub beam: Duration,
    /// Scoring the leaves' documents.
    pub scan: Duration,
    /// Reading the hits' documents.
    pub fetch: Duration,
}

/// Hits, best first, and what finding them cost. Reads like a slice of hits.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct SearchResult {
    /// Best first; equal scores in the order of their rows.
    pub hits: Vec<Hit>,
    /// What the search cost.
    pub stats: SearchStats,
}

impl Deref for SearchResult {
    type Target = [Hit];

    fn deref(&self) -> &[Hit] {
        &self.hits
    }
}

impl IntoIterator for SearchResult {
    type Item = Hit;
    type IntoIter = std::vec::IntoIter<Hit>;

    fn into_iter(self) -> Self::IntoIter {
        self.hits.into_iter()
    }
}

impl<'a> IntoIterator for &'a SearchResult {
    type Item = &'a Hit;
    type IntoIter = std::slice::Iter<'a, Hit>;

    fn into_iter(self) -> Self::IntoIter {
        self.hits.iter()
    }
}

/// Rows in order of score, before any document is read.
pub(crate) struct Ranked {
    pub rows: Vec<(f32, Row)>,
    pub stats: SearchStats,
    /// The leaves visited, most probable first; none for exact search.
    pub leaves: Vec<ScoredLeaf>,
    /// How sure the tree was; `None` for exact search.
    pub sample: Option<RoutingSample>,
    /// Multiply-adds of the routing.
    pub multiply_adds: u64,
}

impl Index {
    /// The `k` best documents of the `beam` most probable leaves for a question.
    ///
    /// Costs one pass of the encoder, a beam search in the tree and a scan of the visited
    /// leaves. Runs beside other searches and beside a writer.
    ///
    /// A beam beyond the number of leaves visits all of them; then the result is that of
    /// exact search. Fewer than `k` hits come back where the visited leaves hold fewer.
    ///
    /// # Paper
    /// Sections 3.4 and 3.6.
    ///
    /// # Errors
    /// [`InputError::EmptyQuery`], [`InputError::ZeroK`], [`InputError::ZeroBeam`]; failures
    /// of the encoder and of reading.
    pub fn search(&self, query: &str, k: usize, beam: usize) -> Result<SearchResult> {
        self.query(query).k(k).beam(beam).run()
    }

    /// As [`Self::search`], with a query that is already an embedding.
    ///
    /// # Shapes
    /// `vector` `[dim]` f32, finite and not all zeros; it need not have unit norm.
    ///
    /// # Errors
    /// [`InputError::Dimension`], [`InputError::BadVector`], and those of [`Self::search`].
    pub fn search_vector(&self, vector: &[f32], k: usize, beam: usize) -> Result<SearchResult> {
        self.query_vector(vector).k(k).beam(beam).run()
    }

    /// A search with options, run by [`Query::run`].
    pub fn query<'a>(&'a self, text: &'a str) -> Query<'a> {
        Query::new(self, QueryInput::Text(text))
    }

    /// A search with options for a query that is already an embedding, `[dim]` f32.
    pub fn query_vector<'a>(&'a self, vector: &'a [f32]) -> Query<'a> {
        Query::new(self, QueryInput::Vector(vector))
    }
}

impl Serving {
    pub(super) fn run_query(
        &self,
        input: &QueryInput<'_>,
        k: NonZeroUsize,
        reach: Reach,
        filter: Option<&Filter>,
        how: How,
    ) -> Result<SearchResult> {
        // First: once this model is no longer in service, its store may be given up.
        let view = self.view();
        let (vector, encode) = self.embed_input(input)?;
        let ranked = match filter {
            None => self.rank_as(how, &view, &vector, k, reach)?,
            Some(filter) => {
                let unit = unit(&vector);
                self.rank_filtered(&view, self.scored(&vector, &unit), &unit, k, reach, filter)?
            }
        };
        let mut result = self.answer(&view, ranked)?;
        result.stats.encode = encode;
        Ok(result)
    }

    /// Reads the documents of ranked rows, and remembers how sure the tree was.
    pub(super) fn answer(&self, view: &View, ranked: Ranked) -> Result<SearchResult> {
        let Ranked { rows, mut stats, sample, .. } = ranked;
        if let Some(sample) = sample {
            self.served.record(sample);
        }
        let started = Instant::now();
        let hits = self.fetch(view, &rows)?;
        stats.fetch = started.elapsed();
        Ok(SearchResult { hits, stats })
    }

    /// A query as a checked vector, and how long that took.
    pub(super) fn embed_input<'a>(&self, input: &QueryInput<'a>) -> Result<(Cow<'a, [f32]>, Duration)> {
        let started = Instant::now();
        let vector = match *input {
            QueryInput::Vector(vector) => {
                self.check_vector(vector)?;
                Cow::Borrowed(vector)
            }
            QueryInput::Text(text) => {
                if text.trim().is_empty() {
                    return Err(InputError::EmptyQuery.into());
                }
                Cow::Owned(self.model().encoder.embed(&[text], Role::Query)?)
            }
        };
        Ok((vector, started.elapsed()))
    }

    /// Ranked rows with their documents.
    pub(super) fn fetch(&self, view: &View, rows: &[(f32, Row)]) -> Result<Vec<Hit>> {
        let mut hits = Vec::with_capacity(rows.len());
        for rows in rows.chunks(HITS_FETCHED) {
            view.expect_documents(rows.iter().map(|&(_, row)| row))?;
            for &(score, row) in rows {
                let document = view.document(row)?;
                let missing = || damaged("segments", "the leaf of a document");
                let leaf = view.leaves(row)?.first().copied().ok_or_else(missing)?;
                hits.push(Hit { id: document.id.clone(), score, document, leaf });
            }
        }
        Ok(hits)
    }

    /// The query that rows are scored against.
    pub(super) fn scored<'a>(&self, vector: &'a [f32], unit: &'a [f32]) -> &'a [f32] {
        match self.similarity {
            Similarity::Cosine => unit,
            _ => vector,
        }
    }

    /// The best rows of one view for a checked query vector.
    pub(crate) fn rank(&self, view: &View, vector: &[f32], k: NonZeroUsize, reach: Reach) -> Result<Ranked> {
        self.rank_as(How::default(), view, vector, k, reach)
    }

    /// The same with a say in how rows are scored.
    pub(super) fn rank_as(
        &self,
        how: How,
        view: &View,
        vector: &[f32],
        k: NonZeroUsize,
        reach: Reach,
    ) -> Result<Ranked> {
        let unit = unit(vector);
        let query = self.scored(vector, &unit);
        let mut top = TopK::new(k.get());
        let scanner = Scanner::new(self.similarity, query).map_err(impossible)?;
        let started = Instant::now();
        let visit = match reach {
            Reach::Exact => Self::visit_all(view, how.threads, &scanner, &mut top)?,
            Reach::Tree(limits) => self.visit(view, &unit, limits, how, &scanner, &mut top)?,
        };
        let leaves = self.model().indexer.shape().leaves() as usize;
        let live = view.live().max(1) as f64;
        let routing = visit.multiply_adds as f64 / vector.len() as f64;
        let stats = SearchStats {
            leaves_visited: visit.leaves.len(),
            documents_visited: visit.documents,
            embeddings_read: visit.embeddings,
            exhausted: reach == Reach::Exact || visit.leaves.len() == leaves,
            visited_fraction: visit.documents as f64 / live,
            work_fraction: (visit.documents as f64 + routing) / live,
            beam: visit.beam,
            scan: started.elapsed().saturating_sub(visit.beam),
            ..SearchStats::default()
        };
        let Visit { leaves, sample, multiply_adds, .. } = visit;
        Ok(Ranked { rows: top.into_sorted(), stats, leaves, sample, multiply_adds })
    }

    pub(super) fn check_vector(&self, vector: &[f32]) -> Result<()> {
        let expected = self.model().indexer.dim();
        if vector.len() != expected {
            return Err(InputError::Dimension { found: vector.len(), expected }.into());
        }
        let norm: f64 = vector.iter().map(|x| f64::from(*x) * f64::from(*x)).sum();
        if norm.is_finite() && norm > 0.0 { Ok(()) } else { Err(InputError::BadVector.into()) }
    }
}

/// The store hands out whole rows and checked postings, so a scan that fails means damage.
pub(super) fn impossible(error: crate::scan::ScanError) -> crate::error::Error {
    tracing::error!(%error, "scan of checked rows failed");
    damaged("segments", "a row that a posting list names").into()
}

pub(super) fn damaged(file: &'static str, what: &'static str) -> StoreError {
    StoreError::Corrupt { file: file.into(), detail: Damage::Missing { what } }
}

/// A stored row at unit L2 norm, f32.
pub(crate) fn unit_of_stored(row: &[f16]) -> Vec<f32> {
    let mut values = vec![0f32; row.len()];
    row.convert_to_f32_slice(&mut values);
    unit(&values)
}

/// A vector at unit L2 norm.
pub(crate) fn unit(vector: &[f32]) -> Vec<f32> {
    let norm = vector.iter().map(|x| f64::from(*x) * f64::from(*x)).sum::<f64>().sqrt();
    vector.iter().map(|x| (f64::from(*x) / norm) as f32).collect()
}
