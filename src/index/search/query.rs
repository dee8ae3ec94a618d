//! Searches with options, for one query and for many.

use std::num::NonZeroUsize;
use std::time::Instant;

use rayon::prelude::*;

use super::asked::Asked;
use super::encode::{Encoding, QueryEncoder};
use super::fusion::Fusion;
use super::input::Input;
use super::plan::{Limits, Plan, RankBy, SearchMode, Threads};
use super::result::SearchResult;
use crate::error::{InputError, Result};
use crate::filter::Filter;
use crate::ids::LeafId;
use crate::index::Index;
use crate::lexical::{Bm25, TermStatistics};
use crate::model::Reranker;
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
    pub(super) k: usize,
    beam: Option<usize>,
    recall: Option<f64>,
    stops: Vec<Stop>,
    exact: bool,
    leaves: Option<&'a [LeafId]>,
    statistics: Option<&'a TermStatistics>,
    by: RankBy,
    bm25: Option<Bm25>,
    filter: Option<&'a Filter>,
    codes: Option<bool>,
    threads: Threads,
    pub(super) encoder: Option<QueryEncoder>,
    pub(super) ids_only: bool,
    pub(super) rerank: Option<(&'a Reranker, usize)>,
    passages: Option<usize>,
    unlogged: bool,
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
            leaves: None,
            statistics: None,
            by: RankBy::Dense,
            bm25: None,
            filter: None,
            codes: None,
            threads: Threads::One,
            encoder: None,
            ids_only: false,
            rerank: None,
            passages: None,
            unlogged: false,
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

    /// Visits these leaves, each once, and no others: those that were found for the query before, by
    /// [`Bundle::route`](crate::Bundle::route), as where one search runs over several indexes of one model.
    ///
    /// Documents elsewhere are no hits, whatever [`Self::filter`] lets through. Excludes [`Self::beam`],
    /// [`Self::recall`], [`Self::stop`], [`Self::exact`] and [`Self::lexical`]; [`InputError::UnknownLeaf`]
    /// beyond the tree; no leaves are [`InputError::ZeroBeam`]. [`Query::explain`] is
    /// [`InputError::InapplicableOption`].
    pub fn leaves(mut self, leaves: &'a [LeafId]) -> Self {
        self.leaves = Some(leaves);
        self
    }

    /// Weighs words by these statistics in place of the index's own: by the sum of those of several indexes
    /// ([`Index::term_statistics`]), so that scores by words are the same whichever index a document lies in.
    ///
    /// [`InputError::OtherTerms`] for those of other words; [`InputError::InapplicableOption`] in a search by
    /// embeddings.
    pub fn statistics(mut self, statistics: &'a TermStatistics) -> Self {
        self.statistics = Some(statistics);
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

    /// Ranks by the words of the question alone, by BM25; nothing is encoded.
    ///
    /// Words are the tokens of the index's encoder, of whole texts, and in scripts without spaces characters
    /// and pairs of them. `+word` must be in every hit, `-word` must not be in any, and so for `"a phrase"`
    /// and `-"a phrase"`, [`MOST_SIGNED`](crate::search::MOST_SIGNED) of them at most; of the other words a
    /// hit has one at least, so there may be fewer than `k` hits. [`SearchResult::signs`] says what the signs
    /// meant. Of more than [`MOST_TERMS`](crate::search::MOST_TERMS) different terms the rarest count.
    ///
    /// For questions in text: a vector is [`InputError::NoWords`]. Excludes [`Self::beam`], [`Self::recall`],
    /// [`Self::stop`], [`Self::exact`], [`Self::codes`] and [`Query::parallel`], which are about embeddings.
    /// An index that was made without words is
    /// [`StoreError::NotLexical`](crate::store::StoreError::NotLexical), a question that only excludes
    /// [`InputError::OnlyExclusions`].
    pub fn lexical(mut self) -> Self {
        self.by = RankBy::Lexical;
        self
    }

    /// Ranks by embeddings and words together, with the two scores joined as [`Fusion`] says.
    ///
    /// Candidates are the best 48 by embeddings and the best 48 by words, or the best `k` of each where
    /// that is more; each of them is scored by both. [`Self::beam`] and the other options of embeddings hold
    /// for the search by embeddings; words are looked for in the whole collection. Words are read as
    /// [`Self::lexical`] does; the encoder reads the question without signs and excluded words. Errors are
    /// those of both.
    ///
    /// Scores are scaled to the candidates, so they are not to be compared between queries, and beyond 48
    /// hits another `k` gives other scores.
    pub fn hybrid(mut self, fusion: Fusion) -> Self {
        self.by = RankBy::Hybrid(fusion);
        self
    }

    /// As [`Self::hybrid`] with [`Fusion::Learned`] where [`Index::fuse`] found that words help, and for a
    /// question with signs, if the index has words; by embeddings alone otherwise, where signs are text. The
    /// mode `best` of the program.
    pub fn learned(mut self) -> Self {
        self.by = RankBy::Best;
        self
    }

    /// Parameters of BM25 in [`Self::lexical`] and [`Self::hybrid`]: `k1`, from 0, 1.2 by default, says how
    /// much further occurrences of a word count; `b`, from 0 to 1, 0.75 by default, how much the score falls
    /// with the length of a text. Others are [`InputError::BadBm25`]; [`InputError::InapplicableOption`] in a
    /// search by embeddings. [`Index::fuse`] measures with the defaults.
    pub fn bm25(mut self, k1: f32, b: f32) -> Self {
        self.bm25 = Some(Bm25 { k1, b });
        self
    }

    /// Which encoder reads the question: [`QueryEncoder::Full`], or the one that was trained to give the same
    /// at a fraction of the cost. By default the fast one where its verdict says so
    /// ([`Index::query_encoder`](crate::Index::query_encoder)).
    ///
    /// The fast one of a model that has none is [`InputError::NoQueryEncoder`]; with a vector, or
    /// [`Self::lexical`], which encodes nothing, any is an error.
    pub fn encoder(mut self, encoder: QueryEncoder) -> Self {
        self.encoder = Some(encoder);
        self
    }

    /// Leaves the documents where they are: a hit's document has its id, without title, text and metadata.
    pub fn ids_only(mut self) -> Self {
        self.ids_only = true;
        self
    }

    /// Has the best `depth` hits read again by a cross-encoder, together with the question, and put in the
    /// order of its scores; those behind them keep their order. A hit keeps its first score, and has the
    /// reranker's beside it ([`Hit::rerank_score`](crate::Hit::rerank_score)).
    ///
    /// The search itself looks for `depth` hits, or `k` where that is more. For questions in text: a vector
    /// is [`InputError::InapplicableOption`], and so are [`Query::explain`] and [`Query::refine`]. A depth
    /// of 0 is [`InputError::ZeroDepth`].
    pub fn rerank(mut self, reranker: &'a Reranker, depth: usize) -> Self {
        self.rerank = Some((reranker, depth));
        self
    }

    /// Passages of each hit, at most: its best ones among those that were candidates, best first, the best
    /// alone by default. With words all of a candidate's passages are scored, else those in visited leaves.
    ///
    /// [`InputError::InapplicableOption`] where the index has none
    /// ([`IndexBuilder::passages`](crate::IndexBuilder::passages)).
    pub fn passages(mut self, passages: usize) -> Self {
        self.passages = Some(passages);
        self
    }

    /// Does not write the question down, where questions are ([`Index::log_questions`]): one that is still
    /// being typed, say.
    pub fn unlogged(mut self) -> Self {
        self.unlogged = true;
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
    /// [`InputError::Conflict`], [`InputError::BadFusion`], [`InputError::BadBm25`].
    pub(in crate::index) fn plan(&self) -> Result<Plan<'a>> {
        let mut k = NonZeroUsize::new(self.k).ok_or(InputError::ZeroK)?;
        if let Some((_, depth)) = self.rerank {
            k = k.max(NonZeroUsize::new(depth).ok_or(InputError::ZeroDepth)?);
        }
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
        if let Some(leaves) = self.leaves {
            let others = [
                ("beam", self.beam.is_some()),
                ("recall", self.recall.is_some()),
                ("stop", !self.stops.is_empty()),
                ("exact", self.exact),
            ];
            if let Some((option, _)) = others.into_iter().find(|(_, given)| *given) {
                return conflict(["leaves", option]);
            }
            if leaves.is_empty() {
                return Err(InputError::ZeroBeam.into());
            }
        }
        let mode = match (self.exact, self.recall, self.beam, &*self.stops) {
            _ if self.leaves.is_some() => SearchMode::Leaves,
            (true, Some(_), ..) => return conflict(["exact", "recall"]),
            (true, None, Some(_), _) => return conflict(["exact", "beam"]),
            (true, None, None, [_, ..]) => return conflict(["exact", "stop"]),
            (true, None, None, []) => SearchMode::Exact,
            (false, Some(_), Some(_), _) => return conflict(["recall", "beam"]),
            (false, Some(_), None, [_, ..]) => return conflict(["recall", "stop"]),
            (false, _, None, []) => SearchMode::Recall(recall),
            (false, None, ..) => SearchMode::Tree(limits),
        };
        if let RankBy::Hybrid(fusion) = self.by {
            fusion.check()?;
        }
        let of_embeddings = [
            ("encoder", self.encoder.is_some()),
            ("beam", self.beam.is_some()),
            ("recall", self.recall.is_some()),
            ("stop", !self.stops.is_empty()),
            ("exact", self.exact),
            ("leaves", self.leaves.is_some()),
            ("codes", self.codes.is_some()),
            ("parallel", self.threads == Threads::Pool),
        ];
        if self.by == RankBy::Lexical
            && let Some((option, _)) = of_embeddings.into_iter().find(|(_, given)| *given)
        {
            return conflict(["lexical", option]);
        }
        let bm25 = self.bm25.unwrap_or_default();
        bm25.check().map_err(|error| InputError::BadBm25 { reason: error.to_string() })?;
        if self.bm25.is_some() && self.by == RankBy::Dense {
            return Err(InputError::InapplicableOption { option: "bm25", call: "a dense search" }.into());
        }
        if let Some(given) = self.statistics {
            if self.by == RankBy::Dense {
                let call = "a dense search";
                return Err(InputError::InapplicableOption { option: "statistics", call }.into());
            }
            given.check_kind(&self.index.serving().term_kind()).map_err(InputError::from)?;
        }
        if self.passages.is_some() && self.index.passages().is_none() {
            let call = "an index without passages";
            return Err(InputError::InapplicableOption { option: "passages", call }.into());
        }
        let Self { by, statistics, filter, codes, threads, encoder, passages, .. } = *self;
        let leaves = self.leaves.unwrap_or_default();
        // A reranker reads the documents.
        let ids_only = self.ids_only && self.rerank.is_none();
        Ok(Plan {
            k,
            by,
            bm25,
            mode,
            leaves,
            statistics,
            filter,
            codes,
            threads,
            encoder,
            ids_only,
            passages,
        })
    }
}

impl<I> Query<'_, I> {
    /// Writes questions down, where that is wanted.
    pub(super) fn log(&self, inputs: &[Input<'_>], asked: &[Asked<'_>]) {
        if !self.unlogged {
            self.index.log_inputs(inputs, asked);
        }
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
        let (asked, encoding) = serving.read_input(&self.input.0, &plan, &view)?;
        self.log(std::slice::from_ref(&self.input.0), std::slice::from_ref(&asked));
        let ranked = serving.rank_asked(&view, &asked, &plan)?;
        self.reranked(&self.input.0, serving.answer(&view, &asked, &plan, &ranked, encoding)?)
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
        let asked = serving.read_inputs(&self.input.0, &plan, &view)?;
        let time = started.elapsed() / asked.len().max(1) as u32;
        self.log(&self.input.0, &asked);
        let search = |(asked, input): (&Asked<'_>, &Input<'_>)| {
            let ranked = serving.rank_asked(&view, asked, &plan)?;
            let encoding = Encoding { time, by: asked.encoder };
            self.reranked(input, serving.answer(&view, asked, &plan, &ranked, encoding)?)
        };
        asked.par_iter().zip(&self.input.0).map(search).collect()
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
    /// `vector` `[dim]` f32, finite, of norm 2^-14 or more; it need not have unit norm.
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

    /// A search with options for a question whose embedding is known, `[dim]` f32: nothing is encoded. The
    /// embedding is that of the question without signs and excluded words
    /// ([`plain_question`](crate::search::plain_question)).
    pub fn query_encoded<'a>(&'a self, text: &'a str, vector: &'a [f32]) -> Query<'a> {
        Query::new(self, One(Input::Encoded(text, vector)))
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
