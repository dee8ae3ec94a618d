//! Documents, queries and judgments read from files, one line at a time.
//!
//! [`Input`] reads documents from JSON lines, JSON, CSV and TSV with fields of any names,
//! `Folder` (feature `folders`) from Markdown, HTML and plain text.
//! [`Dataset`] reads a directory in the layout of BEIR, MS MARCO or extreme classification;
//! [`read_documents`] and its like read one stream; [`carve_dev`] sets some training queries
//! aside.

mod again;
mod beir;
mod dataset;
mod delimiter;
mod error;
mod extreme;
mod files;
#[cfg(feature = "folders")]
mod folder;
mod input;
mod jsonl;
mod judged;
mod lines;
mod msmarco;
mod note;
mod qrels;
mod quotes;
mod rows;
mod split;
mod streams;
mod tsv;
mod unpack;

pub use beir::BeirDataset;
pub use dataset::Dataset;
pub use error::DataError;
pub use extreme::{ExtremeDataset, read_targets};
#[cfg(all(feature = "folders", feature = "fuzzing"))]
#[doc(hidden)]
pub use folder::fuzz_markup;
#[cfg(feature = "folders")]
pub use folder::{FileVersion, Folder, FolderDocuments, FolderFile, FolderReport, MAX_FILE_BYTES};
pub use input::{Format, Input};
pub use judged::{JudgmentFormat, read_judgments, write_judgments};
pub use lines::MAX_LINE_BYTES;
pub(crate) use lines::{Line, Lines};
pub use msmarco::MsMarcoDataset;
pub use note::Note;
pub use qrels::{Judgments, Qrels};
pub use split::{DevFraction, TrainDev, carve_dev, is_dev};
pub use streams::{
    Documents, Queries, Query, read_collection, read_documents, read_labels, read_points, read_queries,
    read_query_table,
};

#[cfg(test)]
mod tests;
