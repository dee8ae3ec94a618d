//! Lines of a text stream that may be compressed, with a bound on their length.

use std::io::Read;

use super::error::{DataError, DataErrorKind, Place};
use super::unpack::Unpacked;

/// The most bytes a line may have, without its line feed: 256 MiB.
///
/// It bounds the memory that a file without line feeds can take.
pub const MAX_LINE_BYTES: usize = 256 << 20;

pub(super) const BYTE_ORDER_MARK: &str = "\u{feff}";

/// A line that is not blank, or an element of an array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Line<'a> {
    pub(crate) at: Place<'a>,
    /// Without the line feed and without one carriage return before it.
    pub(crate) text: &'a str,
}

/// Reads a stream line by line, splitting only on `\n`.
///
/// Gzip and zstd are recognised by the first bytes, regardless of the name. A byte order mark at the start is
/// dropped; lines of white space are counted and skipped.
///
/// A line that is not UTF-8 is an error, and reading continues with the next line; after any other error
/// there are no further lines.
pub(crate) struct Lines {
    stream: Unpacked,
    /// The number of the line in `buffer`.
    number: u64,
    buffer: Vec<u8>,
    pub(super) limit: usize,
    is_finished: bool,
}

impl Lines {
    pub(crate) fn new(reader: impl Read + Send + 'static, name: impl Into<String>) -> Self {
        Self::of(Unpacked::new(reader, name))
    }

    pub(super) fn of(stream: Unpacked) -> Self {
        Self { stream, number: 0, buffer: Vec::new(), limit: MAX_LINE_BYTES, is_finished: false }
    }

    /// Number of the last line read, from 1.
    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    /// The next line that is not blank, or `None` at the end and after a fatal error.
    pub(crate) fn next_line(&mut self) -> Option<Result<Line<'_>, DataError>> {
        while !self.is_finished {
            match self.fill() {
                Ok(true) if self.buffer.trim_ascii().is_empty() => {}
                Ok(true) => return Some(self.decode()),
                Ok(false) => self.is_finished = true,
                Err(error) => {
                    self.is_finished = true;
                    return Some(Err(error));
                }
            }
        }
        None
    }

    fn decode(&self) -> Result<Line<'_>, DataError> {
        let at = self.stream.place(self.number);
        let bytes = self.buffer.strip_suffix(b"\r").unwrap_or(&self.buffer);
        let text = std::str::from_utf8(bytes).map_err(|error| not_utf8(at, error.valid_up_to()))?;
        Ok(Line { at, text })
    }

    /// Puts the next line into `buffer` without its line feed; false at the end.
    fn fill(&mut self) -> Result<bool, DataError> {
        self.number += 1;
        self.buffer.clear();
        // One byte more than the limit: the line feed, or proof that the line is too long.
        let most = (self.limit as u64).saturating_add(1);
        let read = self.stream.read_line(self.number, most, &mut self.buffer)?;
        if self.buffer.last() == Some(&b'\n') {
            self.buffer.pop();
        } else if self.buffer.len() > self.limit {
            let message = format!("longer than {} bytes; is this one JSON object a line?", self.limit);
            return Err(self.stream.place(self.number).error(DataErrorKind::TooLarge, message));
        }
        Ok(read > 0)
    }
}

/// The error for a line of which only the first bytes are UTF-8.
pub(super) fn not_utf8(at: Place<'_>, valid_up_to: usize) -> DataError {
    let message = format!("not UTF-8 from byte {valid_up_to} of the line; convert the file");
    at.error(DataErrorKind::Encoding, message)
}

/// Passes each row of `N` columns to `take`, with its place.
pub(super) fn each_row<const N: usize>(
    mut lines: Lines,
    split: fn(&str) -> Vec<&str>,
    names: &str,
    mut take: impl FnMut(Place<'_>, [&str; N]) -> Result<(), DataError>,
) -> Result<(), DataError> {
    while let Some(line) = lines.next_line() {
        let Line { at, text } = line?;
        let columns = <[&str; N]>::try_from(split(text)).map_err(|columns| {
            at.error(DataErrorKind::Row, format!("{} columns instead of {names}", columns.len()))
        })?;
        take(at, columns)?;
    }
    Ok(())
}

/// The columns of a row, separated by white space as in `trec_eval`: that of C, including the vertical tab.
pub(super) fn split_by_space(row: &str) -> Vec<&str> {
    row.split(is_space).filter(|column| !column.is_empty()).collect()
}

/// Whether a character is white space of C.
pub(crate) fn is_space(c: char) -> bool {
    c.is_ascii_whitespace() || c == '\x0b'
}
