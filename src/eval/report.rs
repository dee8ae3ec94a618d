//! What an evaluation found, in the shape that `ehi eval --json` writes.

use serde::Serialize;

/// Quality of a ranking, averaged over queries; fractions in [0, 1].
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Quality {
    /// Recall@10.
    #[serde(rename = "recall@10")]
    pub recall_at_10: f64,
    /// Recall@20.
    #[serde(rename = "recall@20")]
    pub recall_at_20: f64,
    /// Recall@50.
    #[serde(rename = "recall@50")]
    pub recall_at_50: f64,
    /// Recall@100.
    #[serde(rename = "recall@100")]
    pub recall_at_100: f64,
    /// MRR@10.
    #[serde(rename = "mrr@10")]
    pub mrr_at_10: f64,
    /// nDCG@10.
    #[serde(rename = "ndcg@10")]
    pub ndcg_at_10: f64,
}

/// The tree at one beam.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct BeamPoint {
    /// Leaves visited.
    pub beam: usize,
    /// Documents scored over live documents, mean over queries.
    pub visited_fraction: f64,
    /// The same plus the routing cost in document dot products (multiply-adds over dim).
    pub work_fraction: f64,
    /// What was found.
    #[serde(flatten)]
    pub quality: Quality,
}

/// The k-means baseline at one number of probed lists, averaged over seeds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct IvfPoint {
    /// Lists probed.
    pub nprobe: usize,
    /// Documents scored over live documents, mean over queries and seeds.
    pub visited_fraction: f64,
    /// The same plus one dot product per centroid.
    pub work_fraction: f64,
    /// What was found.
    #[serde(flatten)]
    pub quality: Quality,
}

/// An evaluation of an index on one split.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct EvalReport {
    /// Live documents.
    pub documents: usize,
    /// Judged queries.
    pub queries: usize,
    /// Leaves of the tree.
    pub leaves: u32,
    /// Leaves with at least one document.
    pub leaves_used: usize,
    /// Expected documents per leaf, sum of p_i c_i (section 4.6).
    pub expected_documents_per_leaf: f64,
    /// Entries of all postings over leaves: the value of a perfectly even load.
    pub ideal_documents_per_leaf: f64,
    /// The tree at each beam asked for.
    pub points: Vec<BeamPoint>,
    /// Exact search over every document.
    pub exact: Quality,
    /// The baseline; empty unless asked for.
    pub ivf: Vec<IvfPoint>,
}

impl EvalReport {
    /// A metric of the tree at a visited fraction, by linear interpolation between beams.
    ///
    /// `None` beyond the largest beam measured.
    pub fn tree_at(&self, visited_fraction: f64, metric: fn(&Quality) -> f64) -> Option<f64> {
        let points = self.points.iter().map(|p| (p.visited_fraction, metric(&p.quality)));
        interpolate(points, visited_fraction)
    }

    /// As [`Self::tree_at`], for the baseline.
    pub fn ivf_at(&self, visited_fraction: f64, metric: fn(&Quality) -> f64) -> Option<f64> {
        let points = self.ivf.iter().map(|p| (p.visited_fraction, metric(&p.quality)));
        interpolate(points, visited_fraction)
    }
}

fn interpolate(points: impl Iterator<Item = (f64, f64)>, at: f64) -> Option<f64> {
    let points = points.map(|(visited_fraction, value)| super::CurvePoint { visited_fraction, value });
    super::Curve::new(points).ok()?.at(at).ok()?
}
