//! Documents, queries and judgments read from files, one line at a time.
//!
//! [`Dataset`] reads a directory in the layout of BEIR, MS MARCO or extreme classification;
//! [`read_documents`] and its like read one stream; [`carve_dev`] sets some training queries
//! aside.

mod beir;
mod dataset;
mod error;
mod extreme;
mod files;
mod jsonl;
mod judged;
mod lines;
mod msmarco;
mod qrels;
mod split;
mod streams;
mod tsv;

pub use beir::BeirDataset;
pub use dataset::Dataset;
pub use error::DataError;
pub use extreme::{ExtremeDataset, read_targets};
pub use judged::{JudgmentFormat, read_judgments, write_judgments};
pub use lines::MAX_LINE_BYTES;
pub(crate) use lines::{Line, Lines};
pub use msmarco::MsMarcoDataset;
pub use qrels::{Judgments, Qrels};
pub use split::{DevFraction, TrainDev, carve_dev, is_dev};
pub use streams::{
    Documents, Queries, Query, read_collection, read_documents, read_labels, read_points, read_queries,
    read_query_table,
};

#[cfg(test)]
mod tests;
