//! The figures of each query, which a report averages.

use std::io::{self, Write};

use serde::Serialize;

use super::quality::Quality;
use crate::measure::{Metric, Outcomes, QueryFigures, Setting};

/// The figures of each query at each setting: samples for paired tests of significance.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct PerQuery {
    /// Ids of the judged queries: those asked, in the order of the dataset, then those without a text, whose
    /// values are all 0.
    pub queries: Vec<String>,
    /// How many of them were asked.
    pub asked: usize,
    /// The computed metrics.
    pub metrics: Vec<Metric>,
    /// Exact search, the tree's beams and the baseline's points.
    pub settings: Vec<QueryFigures>,
}

impl PerQuery {
    /// Writes one JSON object per line for each query and setting, with the keys of the report.
    ///
    /// # Errors
    ///
    /// Errors of the writer.
    pub fn write(&self, mut to: impl Write) -> io::Result<()> {
        #[derive(Serialize)]
        struct Row<'a> {
            query: &'a str,
            #[serde(flatten)]
            setting: Setting,
            /// Absent if the query could not be asked.
            #[serde(skip_serializing_if = "Option::is_none")]
            visited_fraction: Option<f64>,
            #[serde(skip_serializing_if = "Option::is_none")]
            work_fraction: Option<f64>,
            #[serde(flatten)]
            quality: Quality,
        }
        for figures in &self.settings {
            for (place, query) in self.queries.iter().enumerate() {
                let row = Row {
                    query,
                    setting: figures.setting,
                    visited_fraction: figures.visited_fraction.get(place).copied(),
                    work_fraction: figures.work_fraction.get(place).copied(),
                    quality: Quality::new(
                        self.metrics.iter().copied().zip(self.outcomes().row(figures, place)),
                    ),
                };
                serde_json::to_writer(&mut to, &row)?;
                writeln!(to)?;
            }
        }
        to.flush()
    }

    pub(super) fn outcomes(&self) -> Outcomes<'_> {
        Outcomes { queries: self.queries.len(), metrics: &self.metrics, settings: &self.settings }
    }

    /// Mean values of a setting over all judged queries.
    pub(super) fn quality(&self, figures: &QueryFigures) -> Quality {
        let mean = |&metric: &Metric| Some((metric, self.outcomes().mean(figures, metric)?));
        Quality::new(self.metrics.iter().filter_map(mean))
    }
}
