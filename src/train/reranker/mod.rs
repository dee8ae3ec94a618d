//! Training of a cross-encoder on pairs of questions and the documents that answer them.

mod config;
mod first;
mod loss;
mod plan;
mod report;
mod run;
mod trainer;
mod verdict;

pub use config::{RerankerConfig, RerankerLoss};
pub use report::{RerankerEpoch, RerankerEvent, RerankerRecommendation, RerankerReport, RerankerVerdict};
pub use trainer::{FittedReranker, RerankerTrainer};
