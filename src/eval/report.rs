//! The report of an evaluation, in the form written by `ehi eval --json`.

use super::modes::{ModeDifference, ModePoint};
use super::per_query::PerQuery;
use super::quality::Quality;
use crate::measure::{Cost, Engine, Metric, PairedTests, Setting};
use crate::search::QueryEncoder;

/// Seed of the resamples, so that an evaluation is reproducible.
const BOOTSTRAP_SEED: u64 = 0;

/// The tree at one beam.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
#[non_exhaustive]
pub struct BeamPoint {
    /// Leaves visited.
    pub beam: usize,
    /// Documents scored over live documents, mean over queries.
    pub visited_fraction: f64,
    /// The same plus the routing cost in document dot products (multiply-adds over dim).
    pub work_fraction: f64,
    /// Quality of the results.
    #[serde(flatten)]
    pub quality: Quality,
}

/// The k-means baseline at one number of lists and of probed lists, averaged over seeds.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
#[non_exhaustive]
pub struct IvfPoint {
    /// Lists that the documents are divided into.
    pub lists: usize,
    /// Lists probed.
    pub nprobe: usize,
    /// Documents scored over live documents, mean over queries and seeds.
    pub visited_fraction: f64,
    /// The same plus one dot product per centroid.
    pub work_fraction: f64,
    /// Quality of the results.
    #[serde(flatten)]
    pub quality: Quality,
}

/// The baseline of one number of lists at a fraction.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
#[non_exhaustive]
pub struct ListsAt {
    /// Lists that the documents are divided into.
    pub lists: usize,
    /// By interpolation; `None` beyond the most expensive measured point.
    pub quality: Option<Quality>,
}

/// Tree, baseline and exact search at one fraction of the cost of scoring every document.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
#[non_exhaustive]
pub struct CostComparison {
    /// The fraction asked for.
    pub fraction: f64,
    /// The tree, by interpolation between beams; `None` beyond the most expensive measured beam.
    pub tree: Option<Quality>,
    /// The baseline for each number of lists.
    pub ivf: Vec<ListsAt>,
    /// The best of them for each metric: the upper envelope; `None` without any.
    pub ivf_best: Option<Quality>,
    /// For each metric, the significance of the difference between tree and `ivf_best`: the larger p-value of
    /// a paired t-test and a paired bootstrap over the queries, both two-sided; `None` without either curve,
    /// or with fewer than two queries.
    pub p_value: Option<Quality>,
    /// Exact search, which scores every document at any fraction.
    pub exact: Quality,
}

/// An evaluation of an index on one split.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
#[non_exhaustive]
pub struct EvalReport {
    /// Live documents.
    pub documents: usize,
    /// Judged queries, over which every mean is taken.
    pub queries: usize,
    /// Judged queries without a text in the dataset. They could not be asked and count 0 in
    /// every mean of quality, as with `-c` of `trec_eval`; costs are means over the others.
    pub missing_queries: usize,
    /// Judged documents that are not in the index, so that no search can find them.
    pub missing_documents: usize,
    /// The lowest grade that counted as relevant.
    pub relevance_level: i32,
    /// Whether a document with the id of a query was left out of its hits.
    pub ignores_identical_ids: bool,
    /// Which encoder read the queries.
    pub encoder: QueryEncoder,
    /// Queries read by the full encoder because the fast one was unsure.
    pub unsure_queries: usize,
    /// Leaves of the tree.
    pub leaves: u32,
    /// Leaves with at least one document.
    pub leaves_used: usize,
    /// Expected documents per leaf, sum of p_i c_i (section 4.6).
    pub expected_documents_per_leaf: f64,
    /// Entries of all postings over leaves: the value of a perfectly even load.
    pub ideal_documents_per_leaf: f64,
    /// The tree at each beam asked for; empty without an encoder.
    pub points: Vec<BeamPoint>,
    /// Exact search over every document; without metrics if there is no encoder.
    pub exact: Quality,
    /// The baseline by lists, then by lists probed; empty unless asked for.
    pub ivf: Vec<IvfPoint>,
    /// Searches by embeddings, words and both, every document a candidate; empty unless asked for.
    pub modes: Vec<ModePoint>,
    /// Significance of the difference between each two of them.
    pub mode_differences: Vec<ModeDifference>,
    /// Comparison at each requested visited fraction.
    pub at: Vec<CostComparison>,
    /// Comparison at each requested work fraction.
    pub at_work: Vec<CostComparison>,
    /// The figures of each query, for tests of significance; not written with the rest.
    #[serde(skip)]
    pub per_query: PerQuery,
}

impl EvalReport {
    /// The numbers of lists that the baseline was measured with, ascending.
    pub fn lists(&self) -> Vec<usize> {
        self.per_query.outcomes().lists()
    }

    /// Tree, baseline and exact search at a fraction of the cost of scoring every document.
    pub(super) fn compare(&self, cost: Cost, fraction: f64) -> CostComparison {
        let outcomes = self.per_query.outcomes();
        let quality = |engine| self.exact.try_map(|metric| outcomes.mean_at(engine, cost, fraction, metric));
        let ivf = |lists| ListsAt { lists, quality: quality(Engine::Ivf { lists }) };
        let p_value = |metric| {
            let of = |engine| outcomes.values_at(engine, cost, fraction, metric);
            let (lists, _) = self.best_lists(cost, fraction, metric)?;
            larger_p_value(&of(Engine::Tree)?, &of(Engine::Ivf { lists })?)
        };
        CostComparison {
            fraction,
            tree: quality(Engine::Tree),
            ivf: self.lists().into_iter().map(ivf).collect(),
            ivf_best: self.exact.try_map(|metric| Some(self.best_lists(cost, fraction, metric)?.1)),
            p_value: self.exact.try_map(p_value),
            exact: self.exact.clone(),
        }
    }

    /// The number of lists with the largest value of a metric at a fraction, and that value.
    fn best_lists(&self, cost: Cost, fraction: f64, metric: Metric) -> Option<(usize, f64)> {
        let value = |lists| {
            let engine = Engine::Ivf { lists };
            Some((lists, self.per_query.outcomes().mean_at(engine, cost, fraction, metric)?))
        };
        self.lists().into_iter().filter_map(value).max_by(|a, b| a.1.total_cmp(&b.1))
    }
}

/// The means of all measurements: exact search, the tree, the baseline.
pub(super) fn means(per_query: &PerQuery) -> (Quality, Vec<BeamPoint>, Vec<IvfPoint>) {
    let (mut exact, mut points, mut ivf) = (Quality::default(), vec![], vec![]);
    for figures in &per_query.settings {
        let visited_fraction = figures.fraction(Cost::Visited);
        let work_fraction = figures.fraction(Cost::Work);
        let quality = per_query.quality(figures);
        match figures.setting {
            Setting::Exact => exact = quality,
            // All have the same cost, so they are not on a curve.
            Setting::Ranked { .. } => {}
            Setting::Tree { beam } => {
                points.push(BeamPoint { beam, visited_fraction, work_fraction, quality });
            }
            Setting::Ivf { lists, nprobe } => {
                ivf.push(IvfPoint { lists, nprobe, visited_fraction, work_fraction, quality });
            }
        }
    }
    (exact, points, ivf)
}

/// Significance of the mean difference of paired values: the larger p-value of a paired t-test and a paired
/// bootstrap, both two-sided.
pub(super) fn larger_p_value(a: &[f64], b: &[f64]) -> Option<f64> {
    Some(PairedTests::new(a, b, BOOTSTRAP_SEED)?.larger_p())
}
