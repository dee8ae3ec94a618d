//! One pass over a split's queries at every beam, in exact search and in the baseline.

use std::num::NonZeroUsize;

use rayon::prelude::*;

use super::baseline::{self, IvfOptions};
use super::judge::{EvalQueries, Judge, Ranking};
use super::per_query::{Engine, PerQuery, QueryFigures, Setting, mean};
use super::report::{BeamPoint, Cost, EvalReport, StopPoint, larger_p_value};
use super::{Curve, Metric, RelevanceLevel, Run};
use crate::data::Dataset;
use crate::error::{Error, InputError, Result};
use crate::index::{ActiveModel, Index, Limits, Plan, SearchMode};
use crate::progress::{OnProgress, Progress, Stage};
use crate::stop::Stop;
use crate::store::View;
use crate::tree::Load;

/// Documents ranked per query at least: what the run holds.
const DEPTH: usize = 100;
/// Queries scored between two progress reports, and the rankings that are in memory at once.
pub(super) const QUERIES_PER_ROUND: usize = 64;

/// What to compare the tree with.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Baseline {
    /// Nothing but exact search.
    #[default]
    None,
    /// IVF: lists by k-means of the same document embeddings.
    Ivf(IvfOptions),
}

/// Options of [`evaluate`].
#[derive(Clone, Debug, Default)]
pub struct EvalOptions {
    /// Beams to measure; an entry beyond the leaves means all of them. Empty: powers of two and all.
    pub beams: Vec<usize>,
    /// Rules of [`Query::stop`](crate::Query::stop), each measured over all leaves.
    pub stops: Vec<Stop>,
    /// What to compare with.
    pub baseline: Baseline,
    /// Metrics to compute beside [`Metric::STANDARD`].
    pub metrics: Vec<Metric>,
    /// The lowest grade that counts as relevant; nDCG goes by the grades themselves.
    pub relevance_level: RelevanceLevel,
    /// Visited fractions at which tree, baseline and exact search are compared.
    pub at: Vec<f64>,
    /// Work fractions at which they are compared.
    pub at_work: Vec<f64>,
}

/// Evaluates an index on one split of a dataset whose corpus it holds.
///
/// Figures are means over all judged queries of the split. Ties are ranked as trec_eval ranks
/// them, so that the figures agree with it on the returned run. Beside the queries and their
/// judgments, memory holds a row number for each document and what the baseline may take:
/// see [`IvfOptions`].
///
/// Returns the report and the ranking of the largest beam, to a depth of 100 or of the deepest
/// metric.
///
/// # Errors
/// Failures of reading the dataset or the index, [`Error::Curve`] for a fraction that is not a
/// finite number from 0, [`InputError::NothingJudged`], [`InputError::ZeroBeam`], [`InputError::BadStop`],
/// [`InputError::ZeroLists`], and [`Error::Cancelled`].
pub fn evaluate(
    index: &Index,
    dataset: &Dataset,
    split: &str,
    options: &EvalOptions,
    on_progress: &mut OnProgress<'_>,
) -> Result<(EvalReport, Run)> {
    let serving = &*index.serving();
    let leaves = serving.model().indexer().shape().leaves();
    let beams = beams(&options.beams, leaves as usize)?;
    for &fraction in options.at.iter().chain(&options.at_work) {
        Curve::new([])?.at(fraction)?;
    }
    let mut metrics = Metric::STANDARD.to_vec();
    metrics.extend(options.metrics.iter().filter(|metric| !Metric::STANDARD.contains(metric)));
    let depth = metrics.iter().map(|metric| metric.k().get()).max().unwrap_or(DEPTH).max(DEPTH);

    let qrels = dataset.qrels(split)?;
    let questions = EvalQueries::read(serving, dataset, &qrels)?;
    let view = serving.view();
    let judge = Judge::new(&view, &questions, &qrels, &metrics, options.relevance_level)?;
    if judge.has_nothing() {
        let documents = judge.missing_documents;
        return Err(InputError::NothingJudged { split: split.to_owned(), documents }.into());
    }
    let missing_queries = questions.ids.len() - questions.asked;
    if missing_queries > 0 {
        tracing::warn!(missing_queries, split, "judged queries have no text and count as not answered");
    }
    if judge.missing_documents > 0 {
        tracing::warn!(judge.missing_documents, split, "judged documents are not in the index");
    }
    let sweep = Sweep { serving, view: &view, questions: &questions, judge: &judge, depth };
    let baseline = match &options.baseline {
        Baseline::None => None,
        Baseline::Ivf(ivf) => Some(baseline::Plan::new(ivf, leaves as usize, &options.beams, view.live())?),
    };
    let passes = beams.len() + options.stops.len() + 1 + baseline.as_ref().map_or(0, baseline::Plan::passes);
    let mut meter = ProgressCounter { on_progress, done: 0, total: passes * questions.asked };

    let mut per_query = PerQuery {
        queries: questions.ids.clone(),
        asked: questions.asked,
        metrics: metrics.clone(),
        settings: vec![sweep.measure(Setting::Exact, SearchMode::Exact, None, &mut meter)?],
    };
    let exact = per_query.quality(&per_query.settings[0]);
    let mut points = Vec::new();
    let mut run = Run::default();
    for (place, &beam) in beams.iter().enumerate() {
        let kept = (place + 1 == beams.len()).then_some(&mut run);
        let setting = Setting::Tree { beam: beam.get() };
        let figures = sweep.measure(setting, SearchMode::beam(beam), kept, &mut meter)?;
        points.push(BeamPoint {
            beam: beam.get(),
            visited_fraction: mean(&figures.visited_fraction).min(1.0),
            work_fraction: mean(&figures.work_fraction),
            quality: per_query.quality(&figures),
        });
        per_query.settings.push(figures);
    }
    let mut stops = Vec::new();
    for &stop in &options.stops {
        let limits = Limits::beam(NonZeroUsize::MAX).with(stop)?;
        let figures = sweep.measure(Setting::Stopped { stop }, SearchMode::Tree(limits), None, &mut meter)?;
        let visited_fraction = mean(&figures.visited_fraction).min(1.0);
        let quality = per_query.quality(&figures);
        let beams = |metric| per_query.values_at(Engine::Tree, Cost::Visited, visited_fraction, metric);
        stops.push(StopPoint {
            stop,
            visited_fraction,
            work_fraction: mean(&figures.work_fraction),
            beams: quality.try_map(|metric| Some(mean(&beams(metric)?))),
            p_value: quality
                .try_map(|metric| larger_p_value(&per_query.column(&figures, metric)?, &beams(metric)?)),
            quality,
        });
        per_query.settings.push(figures);
    }
    let mut ivf = Vec::new();
    for figures in baseline.map_or(Ok(Vec::new()), |plan| plan.measure(&sweep, &mut meter))? {
        ivf.extend(baseline::point(&figures, &per_query));
        per_query.settings.push(figures);
    }
    let sizes = serving.leaf_sizes(&view)?;
    let load = Load::of(&sizes);
    let mut report = EvalReport {
        documents: view.live(),
        queries: questions.ids.len(),
        missing_queries,
        missing_documents: judge.missing_documents,
        relevance_level: options.relevance_level.0,
        leaves,
        leaves_used: sizes.len() - load.empty,
        expected_documents_per_leaf: load.expected,
        ideal_documents_per_leaf: load.ideal,
        points,
        stops,
        exact,
        ivf,
        at: Vec::new(),
        at_work: Vec::new(),
        per_query,
    };
    let compare = |cost, fractions: &[f64]| {
        fractions.iter().map(|&at| Ok(report.compare(cost, at)?)).collect::<Result<Vec<_>>>()
    };
    let (at, at_work) = (compare(Cost::Visited, &options.at)?, compare(Cost::Work, &options.at_work)?);
    (report.at, report.at_work) = (at, at_work);
    Ok((report, run))
}

fn beams(asked: &[usize], leaves: usize) -> Result<Vec<NonZeroUsize>> {
    let mut beams: Vec<usize> = if asked.is_empty() {
        doubling(leaves).collect()
    } else {
        asked.iter().map(|&beam| beam.min(leaves)).collect()
    };
    beams.sort_unstable();
    beams.dedup();
    beams.into_iter().map(|beam| NonZeroUsize::new(beam).ok_or(Error::Input(InputError::ZeroBeam))).collect()
}

/// 1, 2, 4 and so on, and `most` itself.
pub(crate) fn doubling(most: usize) -> impl Iterator<Item = usize> {
    let powers = std::iter::successors(Some(1usize), |number| number.checked_mul(2));
    powers.take_while(move |&number| number < most).chain([most])
}

pub(crate) struct ProgressCounter<'a, 'b> {
    pub on_progress: &'a mut OnProgress<'b>,
    pub done: usize,
    pub total: usize,
}

impl ProgressCounter<'_, '_> {
    pub fn add(&mut self, queries: usize) -> Result<()> {
        self.done += queries;
        Progress::new(Stage::Evaluate, self.done, self.total).tell(self.on_progress, Error::Cancelled)
    }
}

/// What every setting is measured with.
pub(super) struct Sweep<'a> {
    pub serving: &'a ActiveModel,
    pub view: &'a View,
    pub questions: &'a EvalQueries,
    pub judge: &'a Judge<'a>,
    /// Documents ranked per query.
    pub depth: usize,
}

impl Sweep<'_> {
    pub fn dim(&self) -> usize {
        self.serving.model().encoder().dim()
    }

    /// Measures one mode over all queries; the rankings go to `run` where there is one.
    fn measure(
        &self,
        setting: Setting,
        mode: SearchMode,
        mut run: Option<&mut Run>,
        meter: &mut ProgressCounter<'_, '_>,
    ) -> Result<QueryFigures> {
        let depth = NonZeroUsize::new(self.depth).unwrap_or(NonZeroUsize::MIN);
        let mut figures = QueryFigures {
            setting,
            visited_fraction: Vec::with_capacity(self.questions.asked),
            work_fraction: Vec::with_capacity(self.questions.asked),
            values: Vec::new(),
        };
        let rows: Vec<&[f32]> = self.questions.rows.chunks_exact(self.dim()).collect();
        for (round, rows) in rows.chunks(QUERIES_PER_ROUND).enumerate() {
            let ranked = rows
                .par_iter()
                .map(|row| {
                    let mut ranked = self.serving.rank(self.view, row, &Plan::new(depth, mode))?;
                    self.judge.order(&mut ranked.rows)?;
                    Ok(ranked)
                })
                .collect::<Result<Vec<_>>>()?;
            for (query, ranked) in (round * QUERIES_PER_ROUND..).zip(ranked) {
                figures.visited_fraction.push(ranked.stats.visited_fraction);
                figures.work_fraction.push(ranked.stats.work_fraction);
                figures.values.extend(self.judge.values(query, &ranked.rows));
                if let Some(run) = run.as_deref_mut() {
                    self.record(run, query, &ranked.rows)?;
                }
            }
            meter.add(rows.len())?;
        }
        Ok(figures)
    }

    fn record(&self, run: &mut Run, query: usize, ranking: &Ranking) -> Result<()> {
        for &(score, row) in ranking {
            run.add(&self.questions.ids[query], self.view.id(row)?, score)?;
        }
        Ok(())
    }
}
