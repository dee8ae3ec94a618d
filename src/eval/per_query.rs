//! The figures of each query, behind the means of a report.

use std::io::{self, Write};

use serde::Serialize;

use super::report::{Cost, Quality};
use super::{Bracket, Metric};
use crate::stop::Stop;

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
    /// The tree, until a rule ended the search.
    Stopped {
        /// The rule.
        stop: Stop,
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
}

/// An engine at all its settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Engine {
    /// The tree at every beam.
    Tree,
    /// The baseline of one number of lists at every number of probed lists.
    Ivf {
        /// Lists that the documents are divided into.
        lists: usize,
    },
}

impl Engine {
    fn includes(self, setting: Setting) -> bool {
        match (self, setting) {
            (Self::Tree, Setting::Tree { .. }) => true,
            (Self::Ivf { lists }, Setting::Ivf { lists: other, .. }) => lists == other,
            _ => false,
        }
    }
}

/// One setting's figures, query by query, in the order of [`PerQuery::queries`].
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
    pub(super) values: Vec<f64>,
}

/// The figures of each query at each setting: samples for paired tests of significance.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct PerQuery {
    /// Ids of the judged queries: those that were asked, in the order of the dataset, then those
    /// that it has no text of, whose every value is 0.
    pub queries: Vec<String>,
    /// How many of them were asked.
    pub asked: usize,
    /// What was computed.
    pub metrics: Vec<Metric>,
    /// Exact search, the tree's beams and the baseline's points.
    pub settings: Vec<QueryFigures>,
}

impl PerQuery {
    /// A metric at one setting, a value a query; `None` for what was not measured.
    pub fn values(&self, setting: Setting, metric: Metric) -> Option<Vec<f64>> {
        let figures = self.settings.iter().find(|figures| figures.setting == setting)?;
        self.column(figures, metric)
    }

    /// A metric of an engine at a fraction of the cost of scoring every document.
    ///
    /// Each query's value lies between those of the two settings around the fraction, in the
    /// same proportion as in [`EvalReport::compare`](super::EvalReport::compare), so that the
    /// mean is the figure given there. `None` where that gives none.
    pub fn values_at(&self, engine: Engine, cost: Cost, fraction: f64, metric: Metric) -> Option<Vec<f64>> {
        let mut points = Vec::new();
        for figures in self.settings.iter().filter(|figures| engine.includes(figures.setting)) {
            let costs = match cost {
                Cost::Visited => &figures.visited_fraction,
                Cost::Work => &figures.work_fraction,
            };
            let values = self.column(figures, metric)?;
            points.push((mean(costs), mean(&values), values));
        }
        // The order of `Curve`, whose first of several points with one cost counts.
        points.sort_by(|a, b| a.0.total_cmp(&b.0).then_with(|| b.1.total_cmp(&a.1)));
        points.dedup_by_key(|point| point.0);
        let bracket = Bracket::around(&points, |point| point.0, fraction)?;
        let value = |query: usize| bracket.value(|place| points[place].2[query]);
        Some((0..self.queries.len()).map(value).collect())
    }

    /// Writes an object a line for each query and setting, with the keys of the report.
    ///
    /// # Errors
    ///
    /// What the writer fails with.
    pub fn write(&self, mut to: impl Write) -> io::Result<()> {
        #[derive(Serialize)]
        struct Row<'a> {
            query: &'a str,
            #[serde(flatten)]
            setting: Setting,
            /// Absent where the query could not be asked.
            #[serde(skip_serializing_if = "Option::is_none")]
            visited_fraction: Option<f64>,
            #[serde(skip_serializing_if = "Option::is_none")]
            work_fraction: Option<f64>,
            #[serde(flatten)]
            quality: Quality,
        }
        for figures in &self.settings {
            for (place, query) in self.queries.iter().enumerate() {
                let values = figures.values.get(place * self.metrics.len()..).unwrap_or_default();
                let values = values.iter().copied().chain(std::iter::repeat(0.0));
                let row = Row {
                    query,
                    setting: figures.setting,
                    visited_fraction: figures.visited_fraction.get(place).copied(),
                    work_fraction: figures.work_fraction.get(place).copied(),
                    quality: Quality::new(self.metrics.iter().copied().zip(values)),
                };
                serde_json::to_writer(&mut to, &row)?;
                writeln!(to)?;
            }
        }
        to.flush()
    }

    /// Mean values of a setting over all judged queries.
    pub(super) fn quality(&self, figures: &QueryFigures) -> Quality {
        let sums = self.metrics.iter().enumerate().map(|(place, &metric)| {
            let sum: f64 = figures.values.iter().skip(place).step_by(self.metrics.len()).sum();
            (metric, sum / self.queries.len().max(1) as f64)
        });
        Quality::new(sums)
    }

    pub(super) fn column(&self, figures: &QueryFigures, metric: Metric) -> Option<Vec<f64>> {
        let place = self.metrics.iter().position(|known| *known == metric)?;
        let column = figures.values.iter().skip(place).step_by(self.metrics.len()).copied();
        let mut column: Vec<f64> = column.collect();
        column.resize(self.queries.len(), 0.0);
        Some(column)
    }
}

pub(super) fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len().max(1) as f64
}
