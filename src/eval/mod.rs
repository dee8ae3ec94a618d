//! How good an index is: quality against documents visited, beside exact search and IVF.

mod curve;
mod metrics;
mod report;
mod sweep;
mod trec;

pub use curve::{Curve, CurveError, CurvePoint};
pub use metrics::{Metric, RelevanceLevel, mrr_at_k, ndcg_at_k, precision_at_k, recall_at_k};
pub use report::{BeamPoint, EvalReport, IvfPoint, Quality};
pub use sweep::{Baseline, EvalOptions, evaluate};
pub use trec::{Run, ScoredId, TrecError, read_qrels, write_qrels};
