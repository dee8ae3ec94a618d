//! How good an index is: quality against documents visited, beside exact search and IVF.

mod baseline;
mod curve;
mod judge;
mod metrics;
mod per_query;
mod report;
mod significance;
mod sweep;
mod trec;

pub use baseline::{DEFAULT_SAMPLE_BYTES, IvfOptions};
pub(crate) use curve::Bracket;
pub use curve::{Curve, CurveError, CurvePoint};
pub(crate) use metrics::binary_ndcg_at_k;
pub use metrics::{Metric, RelevanceLevel, UnknownMetric, mrr_at_k, ndcg_at_k, precision_at_k, recall_at_k};
pub use per_query::{Engine, PerQuery, QueryFigures, Setting};
pub use report::{BeamPoint, Comparison, Cost, EvalReport, IvfPoint, ListsAt, Quality, StopPoint};
pub use significance::{BOOTSTRAP_RESAMPLES, SignificanceError, paired_bootstrap, paired_t_test};
pub use sweep::{Baseline, EvalOptions, evaluate};
pub(crate) use sweep::{ProgressCounter, doubling};
pub use trec::{Run, ScoredId, TrecError, read_qrels, write_qrels};
