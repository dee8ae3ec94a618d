//! Evaluates an index: quality against documents visited, compared with exact search and IVF.

mod baseline;
mod modes;
mod per_query;
mod quality;
mod queries;
mod report;
mod sweep;
mod trec;

pub use crate::measure::{
    BOOTSTRAP_RESAMPLES, BadFraction, Cost, Engine, Metric, QueryFigures, RelevanceLevel, Setting,
    SignificanceError, UnknownMetric, paired_bootstrap, paired_t_test,
};
pub use baseline::{DEFAULT_SAMPLE_BYTES, IvfOptions};
pub use modes::{EvalMode, ModeDifference, ModePoint, UnknownMode};
pub use per_query::PerQuery;
pub use quality::Quality;
pub use report::{BeamPoint, CostComparison, EvalReport, IvfPoint, ListsAt};
pub use sweep::{EvalOptions, RerankOptions, evaluate};
pub use trec::{ScoredId, TrecRun, write_qrels};
