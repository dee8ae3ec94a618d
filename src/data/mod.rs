//! Documents, queries and judgments read from files, one line at a time.
//!
//! [`BeirDataset`] reads a directory in the BEIR layout, [`read_documents`] one
//! stream of documents in the same form; [`carve_dev`] sets some training queries aside.

mod beir;
mod error;
mod jsonl;
mod lines;
mod qrels;
mod split;

pub use beir::BeirDataset;
pub use error::DataError;
pub use jsonl::{Documents, Queries, Query, read_documents, read_queries};
pub use lines::MAX_LINE_BYTES;
pub(crate) use lines::{Line, Lines};
pub use qrels::{Judgments, Qrels};
pub use split::{DevFraction, TrainDev, carve_dev, is_dev};

#[cfg(test)]
mod tests;
