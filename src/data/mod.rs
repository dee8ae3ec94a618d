//! Documents, queries and judgments read from files, one line at a time.
//!
//! [`Input`] reads documents from JSON lines, JSON, CSV and TSV with arbitrary field names, `Folder` (feature
//! `folders`) from text files. [`Dataset`] reads a directory in the layout of BEIR, MS
//! MARCO or extreme classification; [`read_documents`] and similar functions read one stream; [`carve_dev`]
//! splits off some training queries.

mod dataset;
mod delimiter;
mod error;
#[cfg(feature = "folders")]
mod folder;
mod held_out;
mod input;
mod judged;
mod lines;
mod note;
mod qrels;
mod quotes;
mod rows;
mod split;
mod streams;
mod unpack;

pub use dataset::{Dataset, read_queries};
pub use error::{DataError, DataErrorKind};
#[cfg(all(feature = "folders", feature = "fuzzing"))]
#[doc(hidden)]
pub use folder::fuzz_markup;
#[cfg(feature = "folders")]
pub use folder::{FileVersion, Folder, MAX_FILE_BYTES, PreCommand};
#[cfg(feature = "train")]
pub(crate) use held_out::SPLIT_SEED;
pub use held_out::{LEARN_HELD_OUT, is_held_out};
pub use input::{Format, Input, Records, decimal, read_documents};
pub use judged::{JudgmentFormat, read_judgments, write_judgments};
pub use lines::MAX_LINE_BYTES;
#[cfg(feature = "eval")]
pub(crate) use lines::is_space;
pub use note::Note;
pub use qrels::{Judgments, Qrels};
pub use split::{DevFraction, carve_dev, is_dev};
#[cfg(feature = "folders")]
pub use streams::FolderReport;
pub use streams::{DatasetQuery, Documents};

#[cfg(test)]
mod tests;
