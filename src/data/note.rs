//! What a reader decided or left out.

use std::fmt;

use serde::Serialize;

/// Something about a file that changes what is found in it, told when its documents have been read:
/// [`Documents::notes`](super::Documents::notes).
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Note {
    /// A column of a table is text in the metadata, though some of its cells would be numbers or booleans by
    /// themselves.
    TextColumn {
        /// The column.
        column: String,
        /// Its cells that are not empty.
        cells: u64,
        /// Those that read as numbers.
        numbers: u64,
        /// Those that read as booleans.
        booleans: u64,
        /// The first of the others, shortened, with the line on which its row begins.
        other: Option<(String, u64)>,
    },
    /// Columns of a table without a value in any row, so that their names are in no document.
    EmptyColumns {
        /// The columns.
        columns: Vec<String>,
    },
    /// Cells of TSV stand in quotes.
    Quotes {
        /// How many.
        cells: u64,
        /// Whether the quotes are in the documents.
        are_kept: bool,
    },
    /// Numbers without an end, which JSON does not have: each became null.
    Infinite {
        /// The column.
        column: String,
        /// How many.
        values: u64,
        /// The first row with one, from 1.
        row: u64,
    },
    /// Whole numbers of JSON have more digits than a number of 64 bits holds: each became the nearest that it
    /// holds.
    Rounded {
        /// How many.
        values: u64,
        /// The line of the first record with one.
        line: u64,
    },
    /// The decimals of a column are text in the metadata, because a number of 64 bits cannot hold some of
    /// them.
    TextDecimals {
        /// The column.
        column: String,
        /// How many it cannot hold.
        values: u64,
        /// The first row with one, from 1.
        row: u64,
    },
}

impl Note {
    /// Values of the file that are in no document.
    pub fn left_out(&self) -> u64 {
        match self {
            Self::Infinite { values, .. } => *values,
            _ => 0,
        }
    }
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TextColumn { column, cells, numbers, booleans, other } => {
                write!(f, "the column `{column}` is text: of its {cells} cells ")?;
                match (numbers, booleans) {
                    (numbers, 0) => {
                        write!(f, "{}", counted(*numbers, "reads as a number", "read as numbers"))?
                    }
                    (0, booleans) => {
                        write!(f, "{}", counted(*booleans, "reads as a boolean", "read as booleans"))?
                    }
                    (numbers, booleans) => {
                        let numbers = counted(*numbers, "reads as a number", "read as numbers");
                        write!(f, "{numbers} and {}", counted(*booleans, "as a boolean", "as booleans"))?;
                    }
                }
                match other {
                    Some((cell, line)) => write!(f, ", but not `{cell}` in line {line}"),
                    None => Ok(()),
                }
            }
            Self::EmptyColumns { columns } => {
                let what = if columns.len() == 1 { "the column" } else { "the columns" };
                write!(f, "no row has a value in {what} `{}`", columns.join("`, `"))
            }
            Self::Quotes { cells, are_kept: false } => {
                let cells = counted(*cells, "cell is", "cells are");
                write!(f, "{cells} in quotes, which are taken off; `--format tsv` keeps them")
            }
            Self::Quotes { cells, are_kept: true } => {
                let cells = counted(*cells, "cell is", "cells are");
                write!(f, "{cells} in quotes, which are kept; `--format csv` takes them off")
            }
            Self::Infinite { column, values, row } => {
                let values = counted(*values, "infinite value is", "infinite values are");
                write!(f, "{values} left out of the column `{column}`, the first in row {row}: JSON has none")
            }
            Self::Rounded { values, line } => {
                let values = counted(*values, "number has", "numbers have");
                write!(
                    f,
                    "{values} more digits than 64 bits hold and lost some, the first in line {line}; quotes around \
                     a number keep all of them"
                )
            }
            Self::TextDecimals { column, values, row } => {
                let values = counted(*values, "of them has", "of them have");
                write!(
                    f,
                    "the decimals of the column `{column}` are text: {values} more digits than a number holds, \
                     the first in row {row}"
                )
            }
        }
    }
}

/// A count with what follows it.
fn counted(count: u64, one: &str, several: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { several })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notes_are_sentences() {
        let text = |numbers, booleans, other| {
            let (column, cells) = ("zip".to_owned(), 3);
            Note::TextColumn { column, cells, numbers, booleans, other }.to_string()
        };
        let other = Some(("02134".to_owned(), 2));
        assert_eq!(
            text(2, 0, other),
            "the column `zip` is text: of its 3 cells 2 read as numbers, but not `02134` in line 2"
        );
        assert_eq!(
            text(1, 2, None),
            "the column `zip` is text: of its 3 cells 1 reads as a number and 2 as booleans"
        );
    }
}
