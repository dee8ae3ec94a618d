//! Did training help? Base and trained encoder, with exact search, k-means lists and the learned
//! tree, on the dev queries.
//!
//! Everything is measured in memory, on embeddings that a run has at hand: no index is written
//! and no text encoded.

mod bench;
mod comparison;
mod ivf;
mod partition;
mod recommendation;
mod report;
#[cfg(test)]
mod tests;

pub(crate) use bench::Bench;
pub(crate) use partition::Partition;
pub use recommendation::{
    CEILING, DECISION_DOCUMENTS, DECISIVE_COMPARISONS, FEWEST_QUERIES, Recommendation, SIGNIFICANCE_LEVEL,
    SMALLEST_GAIN,
};
pub use report::{
    ComparedMetric, Comparison, Difference, Figures, FractionPoint, MeasuredPoint, Method, MethodFigures,
    Verdict,
};

use crate::error::Result;
use crate::eval::ProgressCounter;
use crate::ids::LeafId;
use crate::model::Indexer;
use crate::progress::OnProgress;
use bench::{Measured, Outcome, Point, QUERIES_PER_BLOCK};
use ivf::Lists;

/// Visited fractions at which methods are tabled.
pub const FRACTIONS: [f64; 7] = [0.01, 0.02, 0.05, 0.1, 0.2, 0.4, 1.0];

/// What a verdict is made from.
pub(crate) struct HeldOut<'a> {
    pub dim: usize,
    /// Relevant documents of each dev query, ascending.
    pub positives: &'a [Vec<u32>],
    /// By the base encoder.
    pub base: Embedded<'a>,
    /// By the trained encoder.
    pub trained: Embedded<'a>,
    /// Leaves of each document in the trained tree.
    pub leaves: &'a [Vec<LeafId>],
    pub indexer: &'a Indexer,
    /// Seed of the resampling.
    pub seed: u64,
}

/// Unit rows of one encoder.
#[derive(Clone, Copy, PartialEq)]
pub(crate) struct Embedded<'a> {
    /// `[documents, dim]`
    pub documents: &'a [f32],
    /// `[dev queries, dim]`
    pub queries: &'a [f32],
}

/// The searches of one encoder.
struct Measurements {
    exact: Measured,
    /// With as many lists as leaves.
    ivf: Lists,
    /// With other numbers of lists.
    alternatives: Vec<Lists>,
}

/// A method with what was measured of it.
enum Source<'a> {
    /// At one number of lists, or none.
    One { lists: Option<usize>, measured: &'a Measured },
    /// At the number of lists that is best at each fraction.
    Best(Vec<&'a Lists>),
}

/// Measures all methods and decides.
///
/// Cost: k-means of each encoder's documents with four seeds and up to four numbers of lists, and each
/// dev query scored against every document. Memory: a packed copy of the documents of one
/// encoder at a time, and what [`Bench::measure`] says.
///
/// # Errors
/// [`Error::Cluster`](crate::Error::Cluster) for rows that are not of unit norm,
/// [`Error::Cancelled`](crate::Error::Cancelled).
pub(crate) fn compute(held_out: &HeldOut<'_>, on_progress: &mut OnProgress<'_>) -> Result<Verdict> {
    let HeldOut { dim, positives, indexer, .. } = *held_out;
    let documents = held_out.trained.documents.len() / dim;
    let leaves = indexer.shape().leaves();
    if positives.is_empty() || documents == 0 {
        return Ok(Verdict::unmeasured(documents, leaves));
    }
    let counts = ivf::list_counts(documents, leaves as usize);
    let blocks = positives.len().div_ceil(QUERIES_PER_BLOCK);
    // Where the encoder was left as it was, what holds of its embeddings need not be measured twice.
    let changed = held_out.base != held_out.trained;
    let total = (1 + usize::from(changed)) * (counts.len() * ivf::SEEDS as usize + blocks);
    let mut meter = ProgressCounter { on_progress, done: 0, total };

    let base = match changed {
        true => Some(measure(held_out, held_out.base, &counts, None, &mut meter)?.0),
        false => None,
    };
    let tree = Partition::tree(indexer, held_out.leaves);
    let (trained, tree) = measure(held_out, held_out.trained, &counts, Some(tree), &mut meter)?;
    let base = base.as_ref().unwrap_or(&trained);
    let own = Some(leaves as usize);
    let methods = [
        (Method::BaseExact, Source::exact(base)),
        (Method::BaseIvf, Source::ivf(base)),
        (Method::BaseIvfBest, Source::best(base, documents)),
        (Method::TrainedExact, Source::exact(&trained)),
        (Method::TrainedIvf, Source::ivf(&trained)),
        (Method::TrainedIvfBest, Source::best(&trained, documents)),
        (Method::TrainedTree, Source::One { lists: own, measured: &tree }),
    ];
    let figures = methods.iter().map(|(method, source)| source.figures(*method, dim, documents)).collect();
    let comparisons = comparison::compare(base, &trained, &tree, documents, held_out.seed);
    Ok(recommendation::decide(Verdict {
        documents,
        queries: positives.len(),
        leaves,
        methods: figures,
        comparisons,
        ..Verdict::unmeasured(documents, leaves)
    }))
}

/// Everything of one encoder; the tree is empty where there is none.
fn measure(
    held_out: &HeldOut<'_>,
    rows: Embedded<'_>,
    counts: &[usize],
    tree: Option<Partition<'_>>,
    meter: &mut ProgressCounter<'_, '_>,
) -> Result<(Measurements, Measured)> {
    let mut partitions = Vec::new();
    for &lists in counts {
        for seed in 0..ivf::SEEDS {
            partitions.push(Partition::k_means(rows.documents, held_out.dim, lists, seed)?);
            meter.add(1)?;
        }
    }
    let of_lists = partitions.len();
    partitions.extend(tree);
    let space = Bench::new(rows.documents, held_out.dim, rows.queries, held_out.positives);
    let (exact, mut measured) = space.measure(&partitions, &mut || meter.add(1))?;
    let tree = measured.split_off(of_lists).pop().unwrap_or_default();
    let documents = rows.documents.len() / held_out.dim;
    let mut lists = counts
        .iter()
        .zip(measured.chunks(ivf::SEEDS as usize))
        .map(|(&lists, seeds)| Lists { lists, measured: Measured::mean(seeds, documents) });
    let ivf = lists.next().unwrap_or_default();
    let alternatives = lists.collect();
    Ok((Measurements { exact, ivf, alternatives }, tree))
}

impl<'a> Source<'a> {
    fn exact(of: &'a Measurements) -> Self {
        Self::One { lists: None, measured: &of.exact }
    }

    fn ivf(of: &'a Measurements) -> Self {
        Self::One { lists: Some(of.ivf.lists), measured: &of.ivf.measured }
    }

    fn best(of: &'a Measurements, documents: usize) -> Self {
        Self::Best(ivf::short_list(documents, &of.ivf, &of.alternatives))
    }

    fn figures(&self, method: Method, dim: usize, documents: usize) -> MethodFigures {
        let cost = Cost { dim, documents };
        let point = |visited_fraction: f64| match self {
            Self::One { lists, measured } => FractionPoint {
                visited_fraction,
                lists: *lists,
                figures: cost.at(measured, visited_fraction),
            },
            Self::Best(candidates) => {
                let mut best = FractionPoint { visited_fraction, lists: None, figures: None };
                for candidate in candidates {
                    let figures = cost.at(&candidate.measured, visited_fraction);
                    let recall = |figures: Option<Figures>| figures.map(|f| f.recall_at_100);
                    if recall(figures) > recall(best.figures) {
                        best = FractionPoint { lists: Some(candidate.lists), figures, ..best };
                    }
                }
                best
            }
        };
        let measured = match self {
            Self::One { measured, .. } => measured.points.iter().map(|point| cost.measured(point)).collect(),
            Self::Best(_) => Vec::new(),
        };
        MethodFigures { method, measured, at: FRACTIONS.into_iter().map(point).collect() }
    }
}

/// What turns outcomes into figures.
struct Cost {
    dim: usize,
    documents: usize,
}

impl Cost {
    fn at(&self, measured: &Measured, visited_fraction: f64) -> Option<Figures> {
        let bracket = measured.around(visited_fraction)?;
        Some(self.figures(|of| bracket.value(|place| measured.points[place].mean(of))))
    }

    fn measured(&self, point: &Point) -> MeasuredPoint {
        MeasuredPoint {
            setting: point.setting,
            visited_fraction: point.visited_fraction,
            figures: self.figures(|of| point.mean(of)),
        }
    }

    fn figures(&self, mean: impl Fn(&dyn Fn(&Outcome) -> f64) -> f64) -> Figures {
        let work = |outcome: &Outcome| outcome.visited + outcome.multiply_adds / self.dim as f64;
        Figures {
            work_fraction: mean(&work) / self.documents as f64,
            recall_at_10: mean(&|outcome| outcome.recall_at_10),
            recall_at_100: mean(&|outcome| outcome.recall_at_100),
            ndcg_at_10: mean(&|outcome| outcome.ndcg_at_10),
        }
    }
}
