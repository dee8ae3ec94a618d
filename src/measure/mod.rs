//! Measures the results and costs of searches, both for evaluating an index and for the verdict of a training
//! run.
//!
//! | File | Contents |
//! |---|---|
//! | `partition.rs` | documents in lists of a tree or of k-means, and searches in some of them |
//! | `judge.rs`, `metrics.rs` | the quality of a ranking |
//! | `outcomes.rs` | results of every query at every setting, and at a cost between two settings |
//! | `curve.rs` | interpolation between measured points, never beyond them |
//! | `significance.rs` | whether a difference is significant |
//! | `bench.rs` | all of it for embeddings in memory |
//!
//! Everything works on slices and is independent of indexes and training runs.

mod bench;
mod curve;
mod judge;
mod metrics;
mod outcomes;
mod partition;
mod progress;
mod significance;

pub(crate) use bench::Bench;
pub(crate) use curve::{CurvePoint, check_fraction, value_at};
pub(crate) use judge::{Judge, Judged};
pub use metrics::{Metric, RelevanceLevel, UnknownMetric};
pub(crate) use outcomes::{Cost, Engine, Outcome, Outcomes};
pub use outcomes::{QueryFigures, Setting};
pub(crate) use partition::{IVF_SEEDS, Partition, Ranking, Retrieved, doubling};
pub(crate) use progress::{ProgressCounter, blocks};
pub use significance::SIGNIFICANCE_LEVEL;
pub(crate) use significance::{PairedTests, p_in_words};
