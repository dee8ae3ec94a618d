//! Evaluates an index: quality against documents visited, compared with exact search and IVF.

mod baseline;
mod modes;
mod per_query;
mod quality;
mod queries;
mod report;
mod sweep;
mod trec;

pub use crate::measure::{Metric, QueryFigures, RelevanceLevel, Setting, UnknownMetric};
pub use modes::{EvalMode, ModeDifference, ModePoint};
pub use per_query::PerQuery;
pub use quality::Quality;
pub use report::{BeamPoint, CostComparison, EvalReport, IvfPoint, ListsAt};
pub use sweep::{EvalOptions, RerankOptions, evaluate};
pub use trec::{ScoredId, TrecRun};
