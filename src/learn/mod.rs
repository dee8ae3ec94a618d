//! What an index learns from its users: encoder, tree, query encoder and the weight of words. Training itself
//! is in [`train`](crate::train), which does not depend on indexes.
//!
//! | File | Contents |
//! |---|---|
//! | `encoder.rs` | `Index::learn`: from judgments to a model that is shown to be better |
//! | `judged.rs` | the judgments that can be learned from |
//! | `outcome.rs` | the outcome of a learning, and its sentence |
//! | `tree.rs`, `auto_tune.rs` | a tree for the stored documents, without judgments |
//! | `query_encoder.rs` | a fast encoder of questions |
//! | `rankings.rs` | the same decision for external searches |
//! | `passages.rs`, `first_stage.rs` | the training data in an index |

mod auto_tune;
mod encoder;
mod first_stage;
mod judged;
mod outcome;
mod passages;
mod query_encoder;
mod rankings;
mod tree;

pub use auto_tune::{AutoTune, AutoTuneOptions, DEFAULT_INTERVAL};
pub use encoder::Learnable;
pub use judged::LearnOptions;
pub use outcome::{ChangeByNearness, Decision, Learned, Learning, QUESTIONS_NAMED, QuestionChange};
pub use rankings::{JudgedRankings, RankingVerdict, compare_rankings};
pub use tree::{
    COMPARED_RECALL, DEFAULT_MEMORY_BYTES, FEWEST_TUNING_QUESTIONS, NEEDED_SAVING, NEEDED_SAVING_OF_NONE,
    Needed, TuneOptions, Tuned,
};
