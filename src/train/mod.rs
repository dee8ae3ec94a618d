//! Joint training of encoder and tree from queries and the documents that answer them
//! (section 3.5, Algorithm 1).

mod checkpoint;
mod config;
mod dataset;
mod dev;
mod distil;
mod error;
mod indexer;
mod init;
mod log;
mod losses;
mod mining;
mod optimizer;
mod parameters;
mod refresh;
mod report;
mod run;
mod sampler;
mod schedule;
mod step;
mod tail;
mod texts;
mod trainer;
mod trunk;

pub use checkpoint::CHECKPOINT_FILE;
pub use config::{Init, IntraLeaf, LossWeights, Negatives, Preset, Schedule, TrainConfig};
pub use dataset::TrainingSet;
pub use error::TrainError;
pub use report::{
    DevFigures, DevPoint, EarlyStop, EpochReport, IndexerEpochReport, LossParts, MovedTensor, TrainEvent,
    TrainReport,
};
pub use trainer::{DEFAULT_CACHE_BYTES, Fitted, REPORT_FILE, TrainDevice, Trainer};
