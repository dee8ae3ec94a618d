//! Joint training of encoder and tree from queries and the documents that answer them
//! (section 3.5, Algorithm 1), and of rerankers from the same pairs.

mod batch;
mod card;
mod checkpoint;
pub(crate) mod config;
pub(crate) mod dataset;
mod dev;
mod device;
pub(crate) mod distil;
pub(crate) mod error;
mod finish;
mod frozen;
mod head;
mod indexer;
pub(crate) mod init;
pub(crate) mod inputs;
mod losses;
mod mining;
mod optimizer;
mod parameters;
mod plan;
pub(crate) mod policy;
pub(crate) mod query_encoder;
pub(crate) mod refresh;
mod report;
mod reranker;
pub(crate) mod run;
mod sampler;
mod schedule;
mod step;
pub(crate) mod texts;
pub(crate) mod trainer;
mod trees;
pub(crate) mod verdict;

pub use crate::data::{LEARN_HELD_OUT, is_held_out};
pub use crate::measure::SIGNIFICANCE_LEVEL;
pub use crate::model::differentiable::Precision;
pub use checkpoint::CHECKPOINT_FILE;
pub(crate) use config::default_leaves;
pub use config::{
    Decay, DistillationSettings, EncoderTraining, Init, IntraLeaf, LossSettings, LossWeights, MiningSettings,
    Negatives, Preset, QueryEncoderChoice, ScheduleSettings, Siamese, TrainConfig, TreeSettings,
};
pub(crate) use dataset::TrainingQuery;
pub use dataset::TrainingSet;
pub use device::TrainDevice;
pub use error::{SettingsError, TrainError};
pub use policy::{DECISIVE_COMPARISONS, FEWEST_QUERIES, SMALLEST_GAIN};
pub use query_encoder::{DEFAULT_PASSES, DEFAULT_TEXTS, DistilOptions, distil};
pub use report::{DevFigures, EpochReport, LoadReport, LossParts, MovedTensor, TrainEvent, TrainReport};
pub use reranker::{
    FittedReranker, RerankerConfig, RerankerEpoch, RerankerEvent, RerankerLoss, RerankerRecommendation,
    RerankerReport, RerankerTrainer, RerankerVerdict,
};
pub use trainer::{DEFAULT_CACHE_BYTES, Fitted, REPORT_FILE, Trainer};
pub use verdict::{
    CEILING, Comparison, DECISION_DOCUMENTS, Difference, FRACTIONS, Figures, FractionPoint, MeasuredPoint,
    Method, MethodFigures, Recommendation, Verdict,
};
