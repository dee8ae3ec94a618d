//! Options of an index and of a search, with their defaults.

use std::num::NonZeroUsize;
use std::path::Path;
use std::time::Duration;

use super::Index;
use super::reach::{Limits, Reach};
use super::search::SearchResult;
use super::serving::{Serving, check_model};
use super::stop::Stop;
use super::visit::{How, Threads};
use crate::error::{InputError, Result};
use crate::filter::Filter;
use crate::model::{Bundle, EncoderPrecision, ModelHash};
use crate::scan::Similarity;
use crate::store::{Durability, StoreOptions};

/// Hits of a search unless asked otherwise.
pub const DEFAULT_K: usize = 10;
/// Leaves that a search visits unless asked otherwise.
pub const DEFAULT_BEAM: usize = 8;

/// Options with which an index is created or opened.
#[derive(Clone, Debug)]
pub struct IndexBuilder {
    pub(super) similarity: Similarity,
    pub(super) handle: HandleOptions,
    pub(super) expected: Option<ModelHash>,
}

/// What holds for a handle, whatever store it has open.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct HandleOptions {
    pub store: StoreOptions,
    pub precision: EncoderPrecision,
}

impl Default for IndexBuilder {
    fn default() -> Self {
        Self { similarity: Similarity::Cosine, handle: HandleOptions::default(), expected: None }
    }
}

impl IndexBuilder {
    /// How documents are ranked (section 3.6); cosine by default. Holds for the life of the index.
    ///
    /// Documents and queries are stored and compared at unit norm for cosine, and as the
    /// encoder gives them for the others. Routing through the tree always uses unit norm.
    #[must_use]
    pub fn similarity(mut self, similarity: Similarity) -> Self {
        self.similarity = similarity;
        self
    }

    /// What survives what; [`Durability::OnFlush`] by default. Holds for this handle, not for the index.
    #[must_use]
    pub fn durability(mut self, durability: Durability) -> Self {
        self.handle.store.durability = durability;
        self
    }

    /// Whether documents are stored with codes beside their embeddings ([`Query::codes`]), an eighth more bytes or less;
    /// they are by default, but for Manhattan distance and for embeddings narrower than 64. Holds for what this handle
    /// writes; compaction brings all documents to it.
    #[must_use]
    pub fn codes(mut self, codes: bool) -> Self {
        self.handle.store.without_codes = !codes;
        self
    }

    /// Waits this long for another handle or process to give the index back, where one has it open for
    /// writing; not at all by default.
    #[must_use]
    pub fn lock_wait(mut self, most: Duration) -> Self {
        self.handle.store.lock_wait = most;
        self
    }

    /// How this handle encodes texts; [`EncoderPrecision::F32`] by default. Documents and queries need not be encoded in
    /// the same way.
    #[must_use]
    pub fn encoder_precision(mut self, precision: EncoderPrecision) -> Self {
        self.handle.precision = precision;
        self
    }

    /// Makes [`Self::open`] an error ([`InputError::ModelMismatch`]) where the index is served by another model.
    #[must_use]
    pub fn expect_model(mut self, bundle: &Bundle) -> Self {
        self.expected = Some(bundle.hash());
        self
    }

    pub(super) fn check(&self, serving: &Serving) -> Result<()> {
        self.expected.map_or(Ok(()), |expected| check_model(serving.bundle.hash(), expected))
    }

    /// As [`Index::create`], with these options.
    ///
    /// # Errors
    /// Those of [`Index::create`].
    pub fn create(self, path: impl AsRef<Path>, bundle: &Bundle) -> Result<Index> {
        Index::create_on(self.handle.store.backend(), path.as_ref(), bundle, &self)
    }

    /// As [`Index::open`], with these options; the similarity is the index's own.
    ///
    /// # Errors
    /// Those of [`Index::open`].
    pub fn open(self, path: impl AsRef<Path>) -> Result<Index> {
        Index::open_on(self.handle.store.backend(), path.as_ref(), &self)
    }

    /// As [`Index::open_read_only`], with these options as far as they are for reading.
    ///
    /// # Errors
    /// Those of [`Index::open_read_only`], and [`InputError::ModelMismatch`].
    pub fn open_read_only(self, path: impl AsRef<Path>) -> Result<Index> {
        Index::open_read_only_with(path.as_ref(), &self)
    }
}

/// What a query is given as.
pub(super) enum QueryInput<'a> {
    Text(&'a str),
    Vector(&'a [f32]),
}

/// A search about to run; made by [`Index::query`] and [`Index::query_vector`].
#[must_use = "a query does nothing until `run`"]
pub struct Query<'a> {
    pub(super) index: &'a Index,
    pub(super) input: QueryInput<'a>,
    k: usize,
    beam: Option<usize>,
    stops: Vec<Stop>,
    exact: bool,
    filter: Option<&'a Filter>,
    how: How,
}

impl<'a> Query<'a> {
    pub(super) fn new(index: &'a Index, input: QueryInput<'a>) -> Self {
        Self {
            index,
            input,
            k: DEFAULT_K,
            beam: None,
            stops: Vec::new(),
            exact: false,
            filter: None,
            how: How::default(),
        }
    }

    /// Hits at most; [`DEFAULT_K`] by default. Fewer come back where the visited leaves hold fewer.
    pub fn k(mut self, k: usize) -> Self {
        self.k = k;
        self
    }

    /// Leaves to visit; [`DEFAULT_BEAM`] by default, and all of them at most where [`Self::stop`] says when to stop.
    /// More than the tree has means all of them.
    pub fn beam(mut self, beam: usize) -> Self {
        self.beam = Some(beam);
        self
    }

    /// Stops by a rule, so that an easy query visits fewer leaves than a hard one. Of several rules, and a beam, the
    /// first that applies ends the search.
    pub fn stop(mut self, stop: Stop) -> Self {
        self.stops.push(stop);
        self
    }

    /// Scores every document and leaves the tree aside.
    pub fn exact(mut self) -> Self {
        self.exact = true;
        self
    }

    /// Whether codes of one bit a dimension may rule documents out, so that their embeddings need not be read; they may by
    /// default. A hit can be missed then; on the sets of `docs/benchmarks.md` three to six in ten thousand were.
    ///
    /// Exact search and a beam of all leaves read every embedding, as do searches with a filter, of documents in several
    /// leaves, and batches.
    pub fn codes(mut self, codes: bool) -> Self {
        self.how.codes = codes;
        self
    }

    /// Scores on the threads of the current rayon pool; one thread by default. Where codes do not rule documents out
    /// ([`Self::codes`]) the result is the same; where they do, other hits may be missed.
    ///
    /// For one query over very many documents. Many queries are better served by a thread each, or by
    /// [`Index::search_batch`]. A search with a filter or a rule to stop by stays on one thread.
    pub fn parallel(mut self) -> Self {
        self.how.threads = Threads::Pool;
        self
    }

    /// Searches among the documents that a filter lets through.
    ///
    /// `k` of them come back whenever there are so many: more leaves are visited than asked for, or than [`Self::stop`]
    /// would let it, until there are, and
    /// where the filter lets fewer than about one document in a hundred through, all of those are scored, past the tree.
    /// [`SearchStats`](crate::SearchStats) says how far it went. That a filter is evaluated costs a look at the metadata of
    /// each document met. For filters that few documents pass, which ones do is remembered for the last few filters.
    pub fn filter(mut self, filter: &'a Filter) -> Self {
        self.filter = Some(filter);
        self
    }

    /// Runs the search.
    ///
    /// # Errors
    /// [`InputError::BadStop`], and those of [`Index::search`].
    pub fn run(self) -> Result<SearchResult> {
        self.index.check_process()?;
        let k = NonZeroUsize::new(self.k).ok_or(InputError::ZeroK)?;
        let beam = self.beam.unwrap_or(if self.stops.is_empty() { DEFAULT_BEAM } else { usize::MAX });
        let mut limits = Limits::beam(NonZeroUsize::new(beam).ok_or(InputError::ZeroBeam)?);
        for &stop in &self.stops {
            limits = limits.with(stop)?;
        }
        let reach = if self.exact { Reach::Exact } else { Reach::Tree(limits) };
        self.index.serving().run_query(&self.input, k, reach, self.filter, self.how)
    }
}
