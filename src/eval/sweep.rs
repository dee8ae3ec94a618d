//! One pass over a split's queries at every beam, in exact search and in the baseline.

use std::num::NonZeroUsize;
use std::sync::Arc;

use super::baseline;
use super::modes::{EvalMode, ModeDifference, ModePoint};
use super::per_query::PerQuery;
use super::queries::{EvalQueries, identical, judged, order_ties};
use super::report::{EvalReport, larger_p_value, means};
use super::trec::{ScoredId, TrecRun};
use crate::data::Dataset;
use crate::error::{InputError, Result};
use crate::ids::Row;
use crate::index::{ActiveModel, Asked, Index, Plan, Words};
use crate::judgment::now;
use crate::measure::{
    Cost, IVF_SEEDS, Judge, Judged, Metric, Outcome, ProgressCounter, QueryFigures, Ranking, RelevanceLevel,
    Retrieved, Setting, check_fraction, doubling,
};
use crate::model::Reranker;
use crate::progress::OnProgress;
use crate::search::{QueryEncoder, SearchRequest};
use crate::store::View;
use crate::tree::Load;

/// Fewest documents ranked per query, the depth of the run.
const DEPTH: usize = 100;

/// A reranker to be measured.
#[derive(Clone, Debug)]
pub struct RerankOptions {
    /// The cross-encoder.
    pub reranker: Arc<Reranker>,
    /// Documents reranked for each query.
    pub depth: usize,
}

/// Options of [`evaluate`].
#[derive(Clone, Debug, Default)]
pub struct EvalOptions {
    /// Beams to measure; an entry beyond the leaves means all of them. Empty: powers of two and all.
    pub beams: Vec<usize>,
    /// The baseline to compare the tree with besides exact search: lists by k-means of the same embeddings.
    /// Numbers of lists to divide the documents into; if empty, the number of the tree's leaves, or without a
    /// tree four times the square root of the number of documents. A number not below that of the documents
    /// is left out with a warning.
    pub baseline: Option<Vec<usize>>,
    /// Searches by embeddings, by words and by both, to be compared with each other. Without an encoder only
    /// [`EvalMode::Lexical`], which is then the default.
    pub modes: Vec<EvalMode>,
    /// Reranks the best documents of the first of these modes (embeddings by default), and is compared with
    /// the modes as [`EvalMode::Reranked`].
    pub rerank: Option<RerankOptions>,
    /// Which encoder reads the queries; by default as in a search
    /// ([`SearchRequest::encoder`](crate::SearchRequest::encoder)).
    pub encoder: Option<QueryEncoder>,
    /// Metrics in addition to [`Metric::STANDARD`].
    pub metrics: Vec<Metric>,
    /// The lowest grade that counts as relevant; nDCG uses the grades themselves.
    pub relevance_level: RelevanceLevel,
    /// Whether a document with the id of the query is left out of its hits. By default as
    /// [`Dataset::ignores_identical_ids`].
    pub ignore_identical_ids: Option<bool>,
    /// Visited fractions at which tree, baseline and exact search are compared.
    pub at: Vec<f64>,
    /// Work fractions at which they are compared.
    pub at_work: Vec<f64>,
}

/// Evaluates an index on one split of a dataset whose corpus it holds.
///
/// Figures are means over all judged queries of the split. Ties are ranked as trec_eval ranks them, so that
/// the figures agree with it on the returned run. In addition to the queries and their judgments, memory
/// holds a row number for each document and, with the baseline, 256 MiB of embeddings at a time.
///
/// Returns the report and the ranking of the largest beam, or without an encoder of the first mode, to a
/// depth of 100 or of the deepest metric.
///
/// # Errors
/// Failures of reading the dataset or the index, [`InputError::OutOfRange`], [`InputError::NothingJudged`],
/// [`InputError::NothingAsked`], [`InputError::NoEncoder`] for anything but words in an index without an
/// encoder, and [`Error::Cancelled`](crate::Error::Cancelled).
pub fn evaluate(
    index: &Index,
    dataset: &Dataset,
    split: &str,
    options: &EvalOptions,
    on_progress: &mut OnProgress<'_>,
) -> Result<(EvalReport, TrecRun)> {
    let serving = &*index.serving();
    let leaves = serving.model().indexer().shape().leaves();
    let has_encoder = serving.model().has_encoder();
    let mut own_modes = options.modes.clone();
    if !has_encoder {
        if own_modes.is_empty() {
            own_modes.push(EvalMode::Lexical);
        }
        let is_of_words = own_modes.iter().all(|mode| *mode == EvalMode::Lexical);
        if !is_of_words
            || !options.beams.is_empty()
            || options.baseline.is_some()
            || options.encoder.is_some()
        {
            return Err(InputError::NoEncoder.into());
        }
    }
    let mut beams = beams(&options.beams, leaves as usize)?;
    beams.retain(|_| has_encoder);
    for &fraction in options.at.iter().chain(&options.at_work) {
        check_fraction(fraction)?;
    }
    let mut metrics = Metric::STANDARD.to_vec();
    metrics.extend(options.metrics.iter().filter(|metric| !Metric::STANDARD.contains(metric)));

    let qrels = dataset.qrels(split)?;
    let encoder = options.encoder.unwrap_or_else(|| serving.default_encoder());
    let queries = EvalQueries::read(serving, dataset, &qrels, encoder)?;
    let view = serving.view();
    let (judged, missing_documents) = judged(&view, &queries, &qrels)?;
    if missing_documents > 0 && judged.iter().all(Judged::has_nothing) {
        let documents = missing_documents;
        return Err(InputError::NothingJudged { split: split.to_owned(), documents }.into());
    }
    if queries.asked == 0 {
        return Err(InputError::NothingAsked { split: split.to_owned(), queries: queries.ids.len() }.into());
    }
    let missing_queries = queries.ids.len() - queries.asked;
    if missing_queries > 0 {
        tracing::warn!(missing_queries, split, "judged queries have no text and count as not answered");
    }
    if missing_documents > 0 {
        tracing::warn!(missing_documents, split, "judged documents are not in the index");
    }
    let judge = Judge::new(&metrics, options.relevance_level, judged);
    let depth = judge.depth().max(DEPTH);
    let ignores_identical_ids =
        options.ignore_identical_ids.unwrap_or_else(|| dataset.ignores_identical_ids());
    let identical = identical(&view, &queries, ignores_identical_ids)?;
    let sweep = Sweep { serving, view: &view, queries: &queries, judge, depth, identical };
    let baseline = match &options.baseline {
        Some(lists) => baseline::plan(lists, leaves as usize, &options.beams, view.live_rows())?,
        None => Vec::new(),
    };
    if own_modes.contains(&EvalMode::Memory) {
        index.load_memory(serving)?;
    }
    if let Some(rerank) = &options.rerank {
        if rerank.depth == 0 {
            return Err(InputError::zero("the depth of the reranker").into());
        }
        if own_modes.is_empty() {
            own_modes.push(EvalMode::Dense);
        }
    }
    let passes = beams.len()
        + own_modes.len()
        + usize::from(options.rerank.is_some())
        + usize::from(has_encoder)
        + baseline.len() * IVF_SEEDS as usize;
    let mut meter = ProgressCounter { on_progress, done: 0, total: passes * queries.asked };

    let mut run = TrecRun::default();
    let mut settings = Vec::new();
    if has_encoder {
        let exact = |query| sweep.find(query, &SearchRequest::dense().exact());
        settings.push(sweep.measure(Setting::Exact, exact, None, &mut meter)?);
    }
    for (place, &beam) in beams.iter().enumerate() {
        let kept = (place + 1 == beams.len()).then_some(&mut run);
        let find = |query| sweep.find(query, &SearchRequest::dense().beam(beam.get()));
        settings.push(sweep.measure(Setting::Tree { beam: beam.get() }, find, kept, &mut meter)?);
    }
    let plain = own_modes.iter().map(|&mode| (mode, mode, None));
    let reranked = options.rerank.iter().zip(&own_modes).map(|(by, &of)| (EvalMode::Reranked, of, Some(by)));
    let mut modes = Vec::new();
    for (mode, of, rerank) in plain.chain(reranked) {
        let find = |query| sweep.find_by(query, of, rerank);
        let setting = Setting::Ranked { by: mode.name() };
        let kept = (!has_encoder && modes.is_empty()).then_some(&mut run);
        modes.push((mode, sweep.measure(setting, find, kept, &mut meter)?));
    }
    settings.extend(baseline::measure(&baseline, &sweep, &mut meter)?);
    let sizes = serving.leaf_sizes(&view)?;
    let load = Load::of(&sizes);
    let EvalQueries { ids, asked, encoders, .. } = &queries;
    let per_query = PerQuery { queries: ids.clone(), asked: *asked, metrics: metrics.clone(), settings };
    let (mode_points, mode_differences) = compared_modes(&per_query, &modes, serving.alpha(Some(encoder)));
    let (exact, points, ivf) = means(&per_query);
    let mut report = EvalReport {
        documents: view.live(),
        queries: ids.len(),
        missing_queries,
        missing_documents,
        relevance_level: options.relevance_level.0,
        ignores_identical_ids,
        encoder,
        unsure_queries: encoders.iter().filter(|own| **own != encoder).count(),
        leaves,
        leaves_used: sizes.len() - load.empty,
        expected_documents_per_leaf: load.expected,
        ideal_documents_per_leaf: load.ideal,
        points,
        exact,
        ivf,
        modes: mode_points,
        mode_differences,
        at: Vec::new(),
        at_work: Vec::new(),
        per_query,
    };
    if !has_encoder {
        return Ok((report, run));
    }
    report.at = options.at.iter().map(|&at| report.compare(Cost::Visited, at)).collect();
    report.at_work = options.at_work.iter().map(|&at| report.compare(Cost::Work, at)).collect();
    Ok((report, run))
}

/// The means of the modes, and the p-values of each two of them.
fn compared_modes(
    per_query: &PerQuery,
    modes: &[(EvalMode, QueryFigures)],
    alpha: f64,
) -> (Vec<ModePoint>, Vec<ModeDifference>) {
    let outcomes = per_query.outcomes();
    let point = |(mode, figures): &(EvalMode, QueryFigures)| ModePoint {
        mode: *mode,
        alpha: (*mode == EvalMode::Hybrid).then_some(alpha),
        quality: per_query.quality(figures),
    };
    let points: Vec<ModePoint> = modes.iter().map(point).collect();
    let mut differences = Vec::new();
    for (place, (first, a)) in modes.iter().enumerate() {
        for (second, b) in &modes[place + 1..] {
            let p_value = |metric| larger_p_value(&outcomes.values(a, metric)?, &outcomes.values(b, metric)?);
            if let Some(p_value) = points[place].quality.try_map(p_value) {
                differences.push(ModeDifference { modes: [*first, *second], p_value });
            }
        }
    }
    (points, differences)
}

fn beams(asked: &[usize], leaves: usize) -> Result<Vec<NonZeroUsize>> {
    let mut beams: Vec<usize> = if asked.is_empty() {
        doubling(leaves).collect()
    } else {
        asked.iter().map(|&beam| beam.min(leaves)).collect()
    };
    beams.sort_unstable();
    beams.dedup();
    beams.into_iter().map(|beam| NonZeroUsize::new(beam).ok_or(InputError::zero("the beam").into())).collect()
}

/// The inputs of every measurement.
pub(super) struct Sweep<'a> {
    pub serving: &'a ActiveModel,
    pub view: &'a View,
    pub queries: &'a EvalQueries,
    pub judge: Judge<'a>,
    /// Documents ranked per query.
    pub depth: usize,
    /// For each query, the document left out of its hits, if any.
    pub identical: Vec<Option<Row>>,
}

impl Sweep<'_> {
    pub fn dim(&self) -> usize {
        self.serving.model().dim()
    }

    /// The embedding of a query, `[dim]`; empty without an encoder.
    pub fn query(&self, query: usize) -> &[f32] {
        self.queries.rows.get(query * self.dim()..(query + 1) * self.dim()).unwrap_or_default()
    }

    /// Documents to search for: one more if one of them is left out.
    pub fn searched(&self, query: usize, depth: usize) -> usize {
        depth + usize::from(self.identical[query].is_some())
    }

    /// Removes the document with the query's own id from its ranking, if requested.
    pub fn drop_identical(&self, query: usize, ranking: &mut Ranking, depth: usize) -> Result<()> {
        let Some(identical) = self.identical[query] else { return Ok(()) };
        for place in 0..ranking.len() {
            // The row may be one of its passages.
            if self.view.head(ranking[place].1)? == identical {
                ranking.remove(place);
                break;
            }
        }
        ranking.truncate(depth);
        Ok(())
    }

    /// Judges the results of a query, and sorts its ranking like `trec_eval`.
    pub fn outcome(&self, query: usize, found: &mut Retrieved) -> Result<Outcome> {
        self.drop_identical(query, &mut found.ranking, self.depth)?;
        // Judgments are for documents.
        for (_, row) in &mut found.ranking {
            *row = self.view.head(*row)?;
        }
        order_ties(self.view, &mut found.ranking)?;
        Ok(self.judge.outcome(query, found))
    }

    /// Results of a query with the tree or with exact search.
    fn find(&self, query: usize, request: &SearchRequest) -> Result<Retrieved> {
        let depth = NonZeroUsize::new(self.searched(query, self.depth)).unwrap_or(NonZeroUsize::MIN);
        let ranked = self.serving.rank(self.view, self.query(query), &Plan::new(depth, request))?;
        let routing = ranked.multiply_adds as f64 / self.dim() as f64;
        Ok(Retrieved { visited: ranked.stats.documents_visited, routing, ranking: ranked.rows })
    }

    /// Results of a query in a mode, with every document as a candidate.
    fn find_by(&self, query: usize, mode: EvalMode, rerank: Option<&RerankOptions>) -> Result<Retrieved> {
        let depth = rerank.map_or(self.depth, |rerank| rerank.depth.max(self.depth));
        let searched = NonZeroUsize::new(self.searched(query, depth)).unwrap_or(NonZeroUsize::MIN);
        let request = SearchRequest::dense().exact();
        let text = &self.queries.texts[query];
        let mut asked = Asked {
            by: mode.rank_by(),
            text: Some(text),
            vector: self.query(query).into(),
            // Plain words: operators in a dataset's question are not meant as such.
            words: Some(Words::plain(&self.queries.texts[query], self.serving.analysis())?),
            encoder: self.queries.encoders.get(query).copied(),
            ..Asked::default()
        };
        let plan = Plan::new(searched, &request);
        if mode == EvalMode::Memory {
            asked.recalled = self.serving.recall(self.view, &asked, &plan, now())?;
        }
        let ranked = self.serving.rank_asked(self.view, &asked, &plan)?;
        let visited = ranked.stats.documents_visited;
        let mut ranking = ranked.rows;
        self.drop_identical(query, &mut ranking, depth)?;
        if let Some(rerank) = rerank {
            ranking = self.reranked(&self.queries.texts[query], ranking, rerank)?;
            ranking.truncate(self.depth);
        }
        Ok(Retrieved { visited, routing: 0.0, ranking })
    }

    /// A ranking in the order of a reranker. Rows beyond its depth get scores below all reranked ones,
    /// because measurements use only scores.
    fn reranked(&self, question: &str, ranking: Ranking, rerank: &RerankOptions) -> Result<Ranking> {
        let (read, rest) = ranking.split_at(rerank.depth.min(ranking.len()));
        let documents = read.iter().map(|&(_, row)| Ok(self.view.passage(row)?));
        let documents = documents.collect::<Result<Vec<_>>>()?;
        let texts: Vec<_> = documents.iter().map(|document| document.embedding_text()).collect();
        let texts: Vec<&str> = texts.iter().map(AsRef::as_ref).collect();
        let scores = rerank.reranker.score(question, &texts)?;
        let mut reranked: Ranking =
            scores.into_iter().zip(read).map(|(score, &(_, row))| (score, row)).collect();
        reranked.sort_by(|a, b| b.0.total_cmp(&a.0));
        let lowest = reranked.last().map_or(0.0, |&(score, _)| score);
        let behind = rest.iter().zip(1u16..).map(|(&(_, row), place)| (lowest - f32::from(place), row));
        reranked.extend(behind);
        Ok(reranked)
    }

    /// Measures all queries at one setting; the rankings go to `run` if given.
    fn measure(
        &self,
        setting: Setting,
        find: impl Fn(usize) -> Result<Retrieved> + Sync,
        mut run: Option<&mut TrecRun>,
        meter: &mut ProgressCounter<'_, '_>,
    ) -> Result<QueryFigures> {
        let mut figures = QueryFigures::new(setting, self.view.live_rows());
        let search = |query| -> Result<(Outcome, Ranking)> {
            let mut found = find(query)?;
            Ok((self.outcome(query, &mut found)?, found.ranking))
        };
        meter.measure(self.queries.asked, search, |query, (outcome, ranking)| {
            figures.add(query, &outcome, 1.0);
            if let Some(run) = run.as_deref_mut() {
                let scored = |(score, row)| Ok(ScoredId { id: self.view.id(row)?, score });
                let results = ranking.into_iter().map(scored).collect::<Result<_>>()?;
                run.by_query.insert(self.queries.ids[query].clone(), results);
            }
            Ok(())
        })?;
        Ok(figures)
    }
}
