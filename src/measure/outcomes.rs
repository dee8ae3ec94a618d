//! Results of every query at each setting, and interpolation to a cost between two settings.

use serde::Serialize;

use super::Metric;
use super::curve::{Bracket, CurvePoint};

/// What ranked the documents.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(tag = "engine", rename_all = "lowercase")]
#[non_exhaustive]
pub enum Setting {
    /// The tree.
    Tree {
        /// Leaves visited.
        beam: usize,
    },
    /// The k-means baseline; its figures are means over seeds.
    Ivf {
        /// Lists that the documents are divided into.
        lists: usize,
        /// Lists probed.
        nprobe: usize,
    },
    /// Every document scored.
    Exact,
    /// Every document is a candidate, not ranked by embeddings alone.
    Ranked {
        /// The ranking.
        by: &'static str,
    },
}

impl Setting {
    /// Leaves or lists visited by every query; 1 for the other settings.
    pub(crate) fn lists_visited(self) -> usize {
        match self {
            Self::Tree { beam } => beam,
            Self::Ivf { nprobe, .. } => nprobe,
            Self::Exact | Self::Ranked { .. } => 1,
        }
    }
}

/// An engine at all its settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Engine {
    /// The tree at every beam.
    Tree,
    /// The baseline with one number of lists, at every number of probed lists.
    Ivf {
        /// Lists that the documents are divided into.
        lists: usize,
    },
    /// Exact search, which has one setting.
    Exact,
}

impl Engine {
    fn includes(self, setting: Setting) -> bool {
        match (self, setting) {
            (Self::Tree, Setting::Tree { .. }) | (Self::Exact, Setting::Exact) => true,
            (Self::Ivf { lists }, Setting::Ivf { lists: other, .. }) => lists == other,
            _ => false,
        }
    }
}

/// The cost measure of a search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cost {
    /// Documents scored.
    Visited,
    /// Documents scored, and routing in document dot products: multiply-adds of the tree's
    /// networks over the width of an embedding, or the centroids of the baseline.
    Work,
}

/// Results and cost of one query at one setting.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Outcome {
    /// Documents scored.
    pub visited: usize,
    /// Cost of routing, in dot products of a document.
    pub routing: f64,
    /// One value for each metric.
    pub values: Vec<f64>,
}

/// One setting's figures, query by query, in the order of
/// [`PerQuery::queries`](crate::eval::PerQuery::queries).
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct QueryFigures {
    /// What ranked the documents.
    pub setting: Setting,
    /// Documents scored over live documents; only for the queries that were asked.
    pub visited_fraction: Vec<f64>,
    /// The same plus routing; only for the queries that were asked.
    pub work_fraction: Vec<f64>,
    /// `[asked queries, metrics]`
    values: Vec<f64>,
    /// Sums over queries, in documents: a sum of fractions can round to more than all documents.
    visited: f64,
    work: f64,
    documents: f64,
}

impl QueryFigures {
    /// Empty figures for a search among `documents` documents.
    pub(crate) fn new(setting: Setting, documents: usize) -> Self {
        Self {
            setting,
            visited_fraction: Vec::new(),
            work_fraction: Vec::new(),
            values: Vec::new(),
            visited: 0.0,
            work: 0.0,
            documents: documents.max(1) as f64,
        }
    }

    /// Adds the outcome of a query, or one seed's share of it. Queries must first be added in order.
    pub(crate) fn add(&mut self, query: usize, outcome: &Outcome, share: f64) {
        let visited = share * outcome.visited as f64;
        let work = visited + share * outcome.routing;
        self.visited += visited;
        self.work += work;
        add(&mut self.visited_fraction, query, std::iter::once(visited / self.documents));
        add(&mut self.work_fraction, query, std::iter::once(work / self.documents));
        add(&mut self.values, query, outcome.values.iter().map(|value| value * share));
    }

    /// The mean cost of the queries that were asked, over that of scoring every document.
    pub(crate) fn fraction(&self, cost: Cost) -> f64 {
        let sum = match cost {
            Cost::Visited => self.visited,
            Cost::Work => self.work,
        };
        sum / (self.documents * self.visited_fraction.len().max(1) as f64)
    }
}

fn add(sums: &mut Vec<f64>, query: usize, values: impl ExactSizeIterator<Item = f64>) {
    let first = query * values.len();
    if sums.len() <= first {
        sums.extend(values);
    } else {
        sums[first..].iter_mut().zip(values).for_each(|(sum, value)| *sum += value);
    }
}

/// All measurements with the same queries and documents.
#[derive(Clone, Copy)]
pub(crate) struct Outcomes<'a> {
    /// Number of all queries; those that were not asked count 0 in every mean of a metric.
    pub queries: usize,
    pub metrics: &'a [Metric],
    pub settings: &'a [QueryFigures],
}

impl<'a> Outcomes<'a> {
    /// The settings of an engine, in the order of measurement.
    fn of(self, engine: Engine) -> impl Iterator<Item = &'a QueryFigures> {
        self.settings.iter().filter(move |figures| engine.includes(figures.setting))
    }

    /// The same in the order of the visited fraction: beams of a tree with several levels need not be nested.
    pub(crate) fn by_visited(self, engine: Engine) -> Vec<&'a QueryFigures> {
        let mut settings: Vec<_> = self.of(engine).collect();
        settings.sort_by(|a, b| a.fraction(Cost::Visited).total_cmp(&b.fraction(Cost::Visited)));
        settings
    }

    /// The numbers of lists that the baseline was measured with, ascending.
    pub(crate) fn lists(self) -> Vec<usize> {
        let lists = self.settings.iter().filter_map(|figures| match figures.setting {
            Setting::Ivf { lists, .. } => Some(lists),
            _ => None,
        });
        let mut lists: Vec<usize> = lists.collect();
        lists.sort_unstable();
        lists.dedup();
        lists
    }

    /// Every metric of one query at one setting.
    pub(crate) fn row(self, figures: &QueryFigures, query: usize) -> impl Iterator<Item = f64> {
        (0..self.metrics.len()).map(move |place| self.value(figures, query, place))
    }

    /// A metric at one setting, one value per query; `None` for a metric that was not computed.
    pub(crate) fn values(self, figures: &QueryFigures, metric: Metric) -> Option<Vec<f64>> {
        let place = self.place(metric)?;
        Some((0..self.queries).map(|query| self.value(figures, query, place)).collect())
    }

    /// The mean of a metric at one setting; `None` for a metric that was not computed.
    pub(crate) fn mean(self, figures: &QueryFigures, metric: Metric) -> Option<f64> {
        Some(self.point(figures, Cost::Visited, self.place(metric)?).value)
    }

    /// The mean of a metric where an engine has this cost, interpolated between the settings around it;
    /// `None` outside the measured range.
    pub(crate) fn mean_at(self, engine: Engine, cost: Cost, fraction: f64, metric: Metric) -> Option<f64> {
        let place = self.place(metric)?;
        let point = |figures: &&QueryFigures| self.point(figures, cost, place);
        Some(Bracket::around(self.of(engine), point, fraction)?.value(|figures| point(figures).value))
    }

    /// As [`Self::mean_at`], for each query, in the proportion of the mean costs, so that the values average
    /// to that mean.
    pub(crate) fn values_at(
        self,
        engine: Engine,
        cost: Cost,
        fraction: f64,
        metric: Metric,
    ) -> Option<Vec<f64>> {
        let place = self.place(metric)?;
        let at = Bracket::around(self.of(engine), |figures| self.point(figures, cost, place), fraction)?;
        let value = |query| at.value(|figures| self.value(figures, query, place));
        Some((0..self.queries).map(value).collect())
    }

    /// The mean work fraction where an engine visits this fraction; of settings that visit the same, that
    /// with the least work counts.
    pub(crate) fn work_at(self, engine: Engine, visited_fraction: f64) -> Option<f64> {
        let work = |figures: &&QueryFigures| figures.fraction(Cost::Work);
        let point = |figures: &&QueryFigures| CurvePoint {
            fraction: figures.fraction(Cost::Visited),
            value: -work(figures),
        };
        Some(Bracket::around(self.of(engine), point, visited_fraction)?.value(work))
    }

    fn place(self, metric: Metric) -> Option<usize> {
        self.metrics.iter().position(|known| *known == metric)
    }

    fn value(self, figures: &QueryFigures, query: usize, place: usize) -> f64 {
        figures.values.get(query * self.metrics.len() + place).copied().unwrap_or(0.0)
    }

    fn point(self, figures: &QueryFigures, cost: Cost, place: usize) -> CurvePoint {
        let sum: f64 = figures.values.iter().skip(place).step_by(self.metrics.len()).sum();
        // The sum of no floats is -0.0.
        CurvePoint { fraction: figures.fraction(cost), value: (0.0 + sum) / self.queries.max(1) as f64 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const METRICS: [Metric; 2] = [Metric::RECALL_AT_10, Metric::RECALL_AT_100];

    fn outcome(visited: usize, routing: f64, values: [f64; 2]) -> Outcome {
        Outcome { visited, routing, values: values.to_vec() }
    }

    /// Of 10 documents; one outcome a query.
    fn figures(setting: Setting, found: &[Outcome]) -> QueryFigures {
        let mut figures = QueryFigures::new(setting, 10);
        found.iter().enumerate().for_each(|(query, outcome)| figures.add(query, outcome, 1.0));
        figures
    }

    #[test]
    fn an_engine_is_read_between_its_settings() {
        let settings = [
            figures(Setting::Tree { beam: 4 }, &[outcome(6, 2.0, [0.8, 1.0]), outcome(6, 2.0, [0.4, 1.0])]),
            figures(Setting::Exact, &[outcome(10, 0.0, [1.0; 2]), outcome(10, 0.0, [1.0; 2])]),
            figures(Setting::Tree { beam: 1 }, &[outcome(1, 1.0, [0.0, 0.5]), outcome(3, 1.0, [0.2, 0.7])]),
            figures(Setting::Ranked { by: "hybrid" }, &[outcome(4, 1.0, [1.0; 2])]),
        ];
        // A third query could not be asked.
        let outcomes = Outcomes { queries: 3, metrics: &METRICS, settings: &settings };
        let beams: Vec<Setting> = outcomes.by_visited(Engine::Tree).iter().map(|of| of.setting).collect();
        assert_eq!(beams, [Setting::Tree { beam: 1 }, Setting::Tree { beam: 4 }]);
        let near = |value: Option<f64>, expected: f64| (value.unwrap() - expected).abs() < 1e-12;
        let (recall, visited) = (METRICS[0], Cost::Visited);
        assert!(near(outcomes.mean_at(Engine::Tree, visited, 0.4, recall), (0.4 + 0.3) / 3.0));
        assert!(near(outcomes.mean_at(Engine::Tree, Cost::Work, 0.3, recall), 0.2 / 3.0));
        assert!(near(outcomes.work_at(Engine::Tree, 0.4), 0.55));
        let values = outcomes.values_at(Engine::Tree, visited, 0.4, recall).unwrap();
        assert_eq!((values.len(), values[2]), (3, 0.0));
        assert!(near(Some(values[0]), 0.4) && near(Some(values[1]), 0.3));
        for outside in [0.19, 0.61, f64::NAN] {
            assert_eq!(outcomes.mean_at(Engine::Tree, visited, outside, recall), None);
            assert_eq!(outcomes.work_at(Engine::Tree, outside), None);
        }
        assert_eq!(outcomes.mean_at(Engine::Exact, visited, 1.0, recall), Some(2.0 / 3.0));
        assert_eq!(outcomes.mean_at(Engine::Ivf { lists: 4 }, visited, 1.0, recall), None);
        assert_eq!(outcomes.mean_at(Engine::Tree, visited, 0.4, Metric::NDCG_AT_10), None);
    }

    #[test]
    fn seeds_are_averaged_query_by_query() {
        let mut figures = QueryFigures::new(Setting::Ivf { lists: 3, nprobe: 1 }, 10);
        for found in [outcome(2, 3.0, [1.0, 1.0]), outcome(4, 3.0, [0.0, 1.0])] {
            (0..2).for_each(|query| figures.add(query, &found, 0.5));
        }
        assert_eq!((figures.fraction(Cost::Visited), figures.fraction(Cost::Work)), (0.3, 0.6));
        assert_eq!(figures.visited_fraction.len(), 2);
        let settings = [figures];
        let outcomes = Outcomes { queries: 2, metrics: &METRICS, settings: &settings };
        assert_eq!(outcomes.values(&settings[0], METRICS[0]), Some(vec![0.5, 0.5]));
        assert_eq!(outcomes.row(&settings[0], 1).collect::<Vec<_>>(), [0.5, 1.0]);
        assert_eq!(outcomes.lists(), [3]);
    }

    /// A sum of fractions would be a little more than 1.
    #[test]
    fn visiting_everything_is_never_more_than_everything() {
        for documents in [3, 7, 49, 1_009] {
            let mut figures = QueryFigures::new(Setting::Exact, documents);
            (0..60).for_each(|query| figures.add(query, &outcome(documents, 0.0, [1.0; 2]), 1.0));
            assert_eq!(figures.fraction(Cost::Visited), 1.0);
        }
    }
}
