//! Decisions and losses of a reader.

use std::fmt;

/// A decision of the reader, or a loss, that changes the documents of a file:
/// [`Documents::notes`](super::Documents::notes). It is displayed as a sentence.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Note {
    message: String,
    /// Values of the file that are not in any document.
    pub left_out: u64,
    /// The column that is text in the metadata because of some of its values, if the note is about one.
    pub text_column: Option<String>,
}

impl Note {
    pub(super) fn new(message: String) -> Self {
        Self { message, ..Self::default() }
    }

    /// A note about a column that is text in the metadata.
    pub(super) fn about_text(message: String, column: &str) -> Self {
        Self { text_column: Some(column.to_owned()), ..Self::new(message) }
    }
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

/// The count of values, and the line or row of the first.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Seen {
    pub count: u64,
    pub first: u64,
}

impl Seen {
    pub fn see(&mut self, count: u64, at: u64) {
        if self.count == 0 {
            self.first = at;
        }
        self.count += count;
    }
}

/// A count with its noun.
pub(super) fn counted(count: u64, one: &str, several: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { several })
}
