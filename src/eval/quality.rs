//! The figures of a ranking.

use crate::measure::Metric;
use serde::ser::{Serialize, Serializer};

/// Quality of a ranking: metrics in the requested order, with their means over queries, from 0 to 1.
///
/// Serialised as a map with keys such as `recall@10`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Quality {
    values: Vec<(Metric, f64)>,
}

impl Quality {
    pub(super) fn new(values: impl IntoIterator<Item = (Metric, f64)>) -> Self {
        Self { values: values.into_iter().collect() }
    }

    /// The mean of a metric, or `None` if it was not computed.
    pub fn get(&self, metric: Metric) -> Option<f64> {
        self.values.iter().find(|(known, _)| *known == metric).map(|(_, value)| *value)
    }

    /// The metrics with their means.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (Metric, f64)> + '_ {
        self.values.iter().copied()
    }

    /// Each metric from `value`; `None` if any is `None`.
    pub(super) fn try_map(&self, mut value: impl FnMut(Metric) -> Option<f64>) -> Option<Self> {
        let values = self.values.iter().map(|&(metric, _)| Some((metric, value(metric)?)));
        Some(Self { values: values.collect::<Option<_>>()? })
    }
}

impl Serialize for Quality {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.values.iter().map(|(metric, value)| (metric.to_string(), value)))
    }
}
