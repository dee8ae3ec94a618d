//! What a search finds and at what cost: the one ruler, for an evaluation of an index and for the verdict of
//! a training run.
//!
//! | File | What it measures |
//! |---|---|
//! | `partition.rs` | documents in lists, of a tree or of k-means, and what a query finds in some of them |
//! | `judge.rs`, `metrics.rs` | what a ranking is worth |
//! | `outcomes.rs` | what every query found at every setting, and at a cost between two settings |
//! | `curve.rs` | brackets and straight lines between measured points; nothing outside of them |
//! | `significance.rs` | whether a difference is more than chance |
//! | `bench.rs` | all of it for embeddings in memory |
//!
//! Everything is about slices: nothing here opens an index or knows a training run.

mod bench;
mod curve;
mod judge;
mod metrics;
mod outcomes;
mod partition;
mod progress;
mod significance;

pub(crate) use bench::Bench;
pub use curve::BadFraction;
pub(crate) use curve::{CurvePoint, check_fraction, value_at};
pub(crate) use judge::{Judge, Judged};
pub use metrics::{Metric, RelevanceLevel, UnknownMetric};
pub use outcomes::{Cost, Engine, QueryFigures, Setting};
pub(crate) use outcomes::{Outcome, Outcomes};
pub(crate) use partition::{IVF_SEEDS, Partition, Ranking, Retrieved, doubling};
pub(crate) use progress::{ProgressCounter, blocks};
pub(crate) use significance::PairedTests;
pub use significance::{BOOTSTRAP_RESAMPLES, SignificanceError, paired_bootstrap, paired_t_test};
