//! What an index learns from its users: encoder, tree, query encoder and the weight of words. Training itself
//! is in [`train`](crate::train), which knows no index.
//!
//! | File | What it has |
//! |---|---|
//! | `encoder.rs` | `Index::learn`: from judgments to a model that is shown to be better |
//! | `judged.rs` | the judgments that can be learned from |
//! | `questions.rs` | how a model as it serves answers judged questions |
//! | `outcome.rs` | what a learning came to, and its sentence |
//! | `tree.rs`, `auto_tune.rs` | a tree for what is stored, without judgments |
//! | `query_encoder.rs` | a fast encoder of questions |
//! | `words.rs` | how much words count beside embeddings |
//! | `rankings.rs` | the same decision for searches that were made elsewhere |
//! | `set.rs`, `passages.rs`, `first_stage.rs` | what a training sees of an index |

mod auto_tune;
mod encoder;
mod first_stage;
mod judged;
mod outcome;
mod passages;
mod query_encoder;
mod questions;
mod rankings;
mod set;
mod tree;
mod words;

pub use auto_tune::{AutoTune, AutoTuneOptions, DEFAULT_INTERVAL};
pub use encoder::Learnable;
pub use judged::LearnOptions;
pub use outcome::{Decision, Learned, Learning, QUESTIONS_NAMED, QuestionChange};
pub use rankings::{JudgedRankings, RankingVerdict, compare_rankings};
pub use tree::{
    COMPARED_RECALL, DEFAULT_MEMORY_BYTES, NEEDED_SAVING, NEEDED_SAVING_OF_NONE, Needed, TuneOptions, Tuned,
};
pub use words::{FEWEST_FUSION_QUESTIONS, Fused};
