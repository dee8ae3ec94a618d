//! Searches with options, for one query and for many.

use std::borrow::Cow;
use std::num::NonZeroUsize;
use std::time::{Duration, Instant};

use rayon::prelude::*;

use super::plan::{Limits, Plan, SearchMode, Threads};
use super::result::SearchResult;
use crate::error::{InputError, Result};
use crate::filter::Filter;
use crate::index::Index;
use crate::index::active_model::ActiveModel;
use crate::model::Role;
use crate::stop::Stop;

/// Hits of a search unless asked otherwise.
pub const DEFAULT_K: usize = 10;
/// Share of exact search's hits that a search is to find unless asked otherwise.
pub const DEFAULT_RECALL: f64 = 0.95;
/// Documents of which a search scores every one unless asked otherwise. With codes that takes a twentieth of
/// the time in which a question is encoded, about (`docs/experiments.md`).
pub const MOST_EXACT_DOCUMENTS: usize = 10_000;

/// One query: a text, or an embedding `[dim]` f32.
#[derive(Clone, Debug)]
pub struct One<'a>(pub(in crate::index) Input<'a>);

/// Several queries: texts, or embeddings `[dim]` f32 each.
#[derive(Clone, Debug)]
pub struct Many<'a>(Vec<Input<'a>>);

/// What a query is given as.
#[derive(Clone, Copy, Debug)]
pub(in crate::index) enum Input<'a> {
    Text(&'a str),
    Vector(&'a [f32]),
}

/// A search about to run; made by [`Index::query`] and [`Index::query_vector`], and for many queries by
/// [`Index::query_batch`] and [`Index::query_vector_batch`].
///
/// Every option can be combined with every other one, for one query, for many and for [`Query::explain`], but
/// for those that exclude each other; these are an error when the search runs.
#[derive(Clone, Debug)]
#[must_use = "a query does nothing until `run`"]
pub struct Query<'a, Input = One<'a>> {
    pub(in crate::index) index: &'a Index,
    pub(in crate::index) input: Input,
    k: usize,
    beam: Option<usize>,
    recall: Option<f64>,
    stops: Vec<Stop>,
    exact: bool,
    filter: Option<&'a Filter>,
    codes: Option<bool>,
    threads: Threads,
}

impl<'a, Input> Query<'a, Input> {
    fn new(index: &'a Index, input: Input) -> Self {
        Self {
            index,
            input,
            k: DEFAULT_K,
            beam: None,
            recall: None,
            stops: Vec::new(),
            exact: false,
            filter: None,
            codes: None,
            threads: Threads::One,
        }
    }

    /// Hits at most; [`DEFAULT_K`] by default. Fewer come back where the index holds fewer documents that may
    /// be hits, or, with [`Self::beam`] or [`Self::stop`], where the visited leaves do.
    pub fn k(mut self, k: usize) -> Self {
        self.k = k;
        self
    }

    /// Leaves to visit, and no more; more than the tree has means all of them.
    ///
    /// Without it, and without [`Self::stop`], a search goes as far as [`Self::recall`] says. With
    /// [`Self::stop`] alone it visits all leaves at most.
    pub fn beam(mut self, beam: usize) -> Self {
        self.beam = Some(beam);
        self
    }

    /// Visits as many leaves as it takes to find this share of the `k` hits of exact search, on average;
    /// [`DEFAULT_RECALL`] by default. There are `k` hits whenever so many documents live.
    ///
    /// How many leaves that are was measured by [`Index::calibrate`] on questions of the index's own; others
    /// may find more or less, and so may a search with a filter. Every document is scored, with codes first
    /// ([`Self::codes`]), where there is no tree, where there are at most [`MOST_EXACT_DOCUMENTS`], where it
    /// is not known how many leaves it takes ([`Index::recall_curve`]) or more than half of the documents lie
    /// in them, and for more than 100 hits. A recall of 1 is exact search. Excludes [`Self::beam`],
    /// [`Self::stop`] and [`Self::exact`].
    pub fn recall(mut self, recall: f64) -> Self {
        self.recall = Some(recall);
        self
    }

    /// Stops by a rule, so that an easy query visits fewer leaves than a hard one. Of several rules, and a
    /// beam, the first that applies ends the search.
    pub fn stop(mut self, stop: Stop) -> Self {
        self.stops.push(stop);
        self
    }

    /// Scores every document without the tree. Excludes [`Self::beam`], [`Self::recall`] and [`Self::stop`].
    pub fn exact(mut self) -> Self {
        self.exact = true;
        self
    }

    /// Whether codes of one bit a dimension may rule documents out, so that their embeddings need not be
    /// read.
    ///
    /// A hit can be missed then; on the sets of `docs/benchmarks.md` three to six in ten thousand were. By
    /// default they may, but for searches that are asked to score every document: [`Self::exact`], a
    /// [`Self::beam`] of all leaves of a tree, and with a beam a filter that lets few documents through. With
    /// `true` they may there too.
    ///
    /// Documents without codes, as those that were not flushed yet, are scored by their embeddings.
    pub fn codes(mut self, codes: bool) -> Self {
        self.codes = Some(codes);
        self
    }

    /// Searches among the documents that a filter lets through.
    ///
    /// There are `k` hits whenever so many documents pass: until then the search visits more leaves than
    /// [`Self::beam`] and [`Self::stop`] ask for. Where fewer than about one document in a hundred passes,
    /// all that pass are scored, without the tree. [`SearchStats`](crate::SearchStats) says how far the
    /// search went.
    ///
    /// The filter is evaluated on the metadata of each document of a visited leaf. The rows that the last few
    /// filters let through are cached.
    pub fn filter(mut self, filter: &'a Filter) -> Self {
        self.filter = Some(filter);
        self
    }

    /// # Errors
    /// [`InputError::ZeroK`], [`InputError::ZeroBeam`], [`InputError::BadRecall`], [`InputError::BadStop`],
    /// [`InputError::Conflict`].
    pub(in crate::index) fn plan(&self) -> Result<Plan<'a>> {
        let k = NonZeroUsize::new(self.k).ok_or(InputError::ZeroK)?;
        let beam = self.beam.unwrap_or(usize::MAX);
        let mut limits = Limits::beam(NonZeroUsize::new(beam).ok_or(InputError::ZeroBeam)?);
        for &stop in &self.stops {
            limits = limits.with(stop)?;
        }
        let recall = self.recall.unwrap_or(DEFAULT_RECALL);
        // NaN is none.
        if !(recall > 0.0 && recall <= 1.0) {
            return Err(InputError::BadRecall { found: recall }.into());
        }
        let conflict = |options| Err(InputError::Conflict { options }.into());
        let mode = match (self.exact, self.recall, self.beam, &*self.stops) {
            (true, Some(_), ..) => return conflict(["exact", "recall"]),
            (true, None, Some(_), _) => return conflict(["exact", "beam"]),
            (true, None, None, [_, ..]) => return conflict(["exact", "stop"]),
            (true, None, None, []) => SearchMode::Exact,
            (false, Some(_), Some(_), _) => return conflict(["recall", "beam"]),
            (false, Some(_), None, [_, ..]) => return conflict(["recall", "stop"]),
            (false, _, None, []) => SearchMode::Recall(recall),
            (false, None, ..) => SearchMode::Tree(limits),
        };
        Ok(Plan { k, mode, filter: self.filter, codes: self.codes, threads: self.threads })
    }
}

impl Query<'_> {
    /// Scores on the threads of the current rayon pool; on the calling thread by default. Where codes do not
    /// rule documents out ([`Self::codes`]) the hits are the same; where they do, other hits may be missed.
    ///
    /// For one query over very many documents. Many queries are better served by a thread each, or by
    /// [`Index::query_batch`].
    pub fn parallel(mut self) -> Self {
        self.threads = Threads::Pool;
        self
    }

    /// Runs the search.
    ///
    /// # Errors
    /// [`InputError::BadStop`], [`InputError::Conflict`], [`InputError::NoCodes`], and those of
    /// [`Index::search`].
    pub fn run(self) -> Result<SearchResult> {
        self.index.check_process()?;
        let plan = self.plan()?;
        let serving = self.index.serving();
        // First: once this model is no longer in service, its store may be removed.
        let view = serving.view();
        let _span = plan.span(1, &view).entered();
        let (vector, encode) = serving.embed_input(&self.input.0)?;
        self.index.log_inputs(std::slice::from_ref(&self.input.0));
        serving.answer(&view, &serving.rank(&view, &vector, &plan)?, encode)
    }
}

impl Query<'_, Many<'_>> {
    /// The answers in the order of the queries, each that of a search of its own.
    ///
    /// The texts are encoded together, and the searches run on the threads of the current rayon pool.
    /// In [`SearchStats`](crate::SearchStats) `encode` is each query's share of the whole.
    ///
    /// # Errors
    /// Those of [`Query::run`], for the first query that has one.
    pub fn run(self) -> Result<Vec<SearchResult>> {
        self.index.check_process()?;
        let plan = self.plan()?;
        let serving = self.index.serving();
        let view = serving.view();
        let _span = plan.span(self.input.0.len(), &view).entered();
        let started = Instant::now();
        let vectors = serving.embed_inputs(&self.input.0)?;
        let encode = started.elapsed() / vectors.len().max(1) as u32;
        self.index.log_inputs(&self.input.0);
        let search = |vector: &Cow<'_, [f32]>| {
            let ranked = serving.rank(&view, vector, &plan)?;
            serving.answer(&view, &ranked, encode)
        };
        vectors.par_iter().map(search).collect()
    }
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

    /// The answers of [`Self::search`] to many questions, in their order; see [`Self::query_batch`].
    ///
    /// # Errors
    /// Those of [`Self::search`], for the first question that has one.
    pub fn search_batch(
        &self,
        queries: &[impl AsRef<str>],
        k: usize,
        beam: usize,
    ) -> Result<Vec<SearchResult>> {
        self.query_batch(queries).k(k).beam(beam).run()
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
        self.query_vector_batch(vectors).k(k).beam(beam).run()
    }

    /// A search with options, run by [`Query::run`].
    pub fn query<'a>(&'a self, text: &'a str) -> Query<'a> {
        Query::new(self, One(Input::Text(text)))
    }

    /// A search with options for a query that is already an embedding, `[dim]` f32.
    pub fn query_vector<'a>(&'a self, vector: &'a [f32]) -> Query<'a> {
        Query::new(self, One(Input::Vector(vector)))
    }

    /// A search with options for many questions, which are encoded together.
    pub fn query_batch<'a>(&'a self, texts: &'a [impl AsRef<str>]) -> Query<'a, Many<'a>> {
        Query::new(self, Many(texts.iter().map(|text| Input::Text(text.as_ref())).collect()))
    }

    /// A search with options for many queries that are already embeddings, `[dim]` f32 each.
    pub fn query_vector_batch<'a>(&'a self, vectors: &'a [impl AsRef<[f32]>]) -> Query<'a, Many<'a>> {
        Query::new(self, Many(vectors.iter().map(|vector| Input::Vector(vector.as_ref())).collect()))
    }
}

impl Index {
    fn log_inputs(&self, inputs: &[Input<'_>]) {
        let texts = inputs.iter().filter_map(|input| match input {
            Input::Text(text) => Some(*text),
            Input::Vector(_) => None,
        });
        texts.for_each(|text| self.log_question(text));
    }
}

impl ActiveModel {
    /// A query as a checked vector, and how long that took.
    pub(in crate::index) fn embed_input<'a>(&self, input: &Input<'a>) -> Result<(Cow<'a, [f32]>, Duration)> {
        let started = Instant::now();
        let mut vectors = self.embed_inputs(std::slice::from_ref(input))?;
        let vector = vectors.pop().unwrap_or_default();
        Ok((vector, started.elapsed()))
    }

    /// Queries as checked vectors. Texts are encoded together.
    fn embed_inputs<'a>(&self, inputs: &[Input<'a>]) -> Result<Vec<Cow<'a, [f32]>>> {
        let mut texts = Vec::new();
        for input in inputs {
            match input {
                Input::Vector(vector) => self.check_vector(vector)?,
                Input::Text(text) if text.trim().is_empty() => return Err(InputError::EmptyQuery.into()),
                Input::Text(text) => texts.push(*text),
            }
        }
        let embedded = match &*texts {
            [] => Vec::new(),
            texts => self.model().encoder.embed(texts, Role::Query)?,
        };
        let mut rows = embedded.chunks_exact(self.model().encoder.dim());
        let vector = |input: &Input<'a>| match *input {
            Input::Vector(vector) => Cow::Borrowed(vector),
            Input::Text(_) => Cow::Owned(rows.next().unwrap_or_default().to_vec()),
        };
        Ok(inputs.iter().map(vector).collect())
    }

    pub(in crate::index) fn check_vector(&self, vector: &[f32]) -> Result<()> {
        let expected = self.model().indexer.dim();
        if vector.len() != expected {
            return Err(InputError::Dimension { found: vector.len(), expected }.into());
        }
        let norm: f64 = vector.iter().map(|x| f64::from(*x) * f64::from(*x)).sum();
        if norm.is_finite() && norm > 0.0 { Ok(()) } else { Err(InputError::BadVector.into()) }
    }
}
