//! Joint training of encoder and tree from queries and the documents that answer them
//! (section 3.5, Algorithm 1), and of rerankers from the same pairs.

mod auto_tune;
mod balance;
mod batch;
mod card;
mod checkpoint;
mod config;
mod dataset;
mod dev;
mod device;
mod distil;
mod error;
mod finish;
mod frozen;
mod fuse;
mod head;
mod held_out;
mod indexer;
mod init;
mod inputs;
mod learn;
mod learned;
mod log;
mod losses;
mod mining;
mod optimizer;
mod parameters;
mod passages;
mod plan;
mod query_encoder;
mod rankings;
mod refresh;
mod report;
mod reranker;
mod retrain;
mod run;
mod sampler;
mod schedule;
mod step;
mod texts;
mod trainer;
mod trees;
mod tune;
mod verdict;

pub use crate::model::differentiable::Precision;
pub use auto_tune::{AutoTune, AutoTuneOptions, DEFAULT_INTERVAL};
pub use balance::{LeafSizes, LoadReport};
pub use checkpoint::CHECKPOINT_FILE;
pub use config::{
    Decay, DistillationSettings, EncoderSettings, Init, IntraLeaf, LossSettings, LossWeights, MiningSettings,
    Negatives, Preset, ScheduleSettings, SettingsError, Siamese, TrainConfig, TreeSettings,
};
pub use dataset::TrainingSet;
pub use device::TrainDevice;
pub use error::TrainError;
pub use fuse::{FEWEST_FUSION_QUESTIONS, Fused};
pub use held_out::{LEARN_HELD_OUT, is_held_out};
pub use learn::LearnOptions;
pub use learned::{Decision, Learned, Learning, QUESTIONS_NAMED, QuestionChange};
pub use query_encoder::{DEFAULT_PASSES, DEFAULT_TEXTS, DistilOptions, QueryEncoderChoice};
pub use rankings::{JudgedRankings, RankingVerdict, compare_rankings};
pub use report::{
    DevFigures, DevPoint, EarlyStop, EpochReport, IndexerEpochReport, LossParts, MovedTensor, TrainEvent,
    TrainReport,
};
pub use reranker::{
    FittedReranker, RerankerConfig, RerankerEpoch, RerankerEvent, RerankerLoss, RerankerRecommendation,
    RerankerReport, RerankerTrainer, RerankerVerdict,
};
pub use retrain::Retrained;
pub use trainer::{DEFAULT_CACHE_BYTES, Fitted, REPORT_FILE, Trainer};
pub use tune::{
    COMPARED_RECALL, DEFAULT_MEMORY_BYTES, NEEDED_SAVING, NEEDED_SAVING_OF_NONE, Needed, TuneOptions, Tuned,
};
pub use verdict::{
    CEILING, ComparedMetric, Comparison, DECISION_DOCUMENTS, DECISIVE_COMPARISONS, Difference,
    FEWEST_QUERIES, FRACTIONS, Figures, FractionPoint, MeasuredPoint, Method, MethodFigures, Recommendation,
    SIGNIFICANCE_LEVEL, SMALLEST_GAIN, Verdict,
};
