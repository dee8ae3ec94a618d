//! Lines of a text stream that may be compressed, with a bound on their length.

use std::io::{BufRead, Read};

use super::DataError;
use super::unpack::{ByteStream, Packing, unpack};

/// The most bytes a line may have, without its line feed: 256 MiB.
///
/// It bounds the memory that a file without line feeds can take.
pub const MAX_LINE_BYTES: usize = 256 << 20;

pub(super) const BYTE_ORDER_MARK: &str = "\u{feff}";

/// A line that is not blank, with its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Line<'a> {
    /// 1-based.
    pub(crate) number: u64,
    /// Without the line feed and without one carriage return before it.
    pub(crate) text: &'a str,
}

/// Reads a stream line by line, splitting on `\n` and on nothing else.
///
/// Gzip and zstd are recognised by the first bytes, whatever the name says. A byte order
/// mark on the first line is dropped; lines of white space are counted and skipped.
///
/// A line that is not UTF-8 is one error and reading goes on behind it; after any other
/// error there are no further lines.
pub(crate) struct Lines {
    name: String,
    source: Source,
    /// The number of the line in `buffer`.
    number: u64,
    buffer: Vec<u8>,
    limit: usize,
}

enum Source {
    /// The first bytes, which say how it is compressed, are read with the first line.
    Unopened(Box<dyn Read + Send>),
    Open(Packing, ByteStream),
    Finished,
}

impl Lines {
    pub(crate) fn new(reader: impl Read + Send + 'static, name: impl Into<String>) -> Self {
        Self::with_limit(reader, name, MAX_LINE_BYTES)
    }

    pub(crate) fn with_limit(
        reader: impl Read + Send + 'static,
        name: impl Into<String>,
        limit: usize,
    ) -> Self {
        Self::of(Source::Unopened(Box::new(reader)), name.into(), limit)
    }

    /// The lines of a stream that is unpacked already.
    pub(super) fn unpacked(packing: Packing, stream: ByteStream, name: String) -> Self {
        Self::of(Source::Open(packing, stream), name, MAX_LINE_BYTES)
    }

    fn of(source: Source, name: String, limit: usize) -> Self {
        Self { name, source, number: 0, buffer: Vec::new(), limit }
    }

    /// The name that errors give for the stream.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// The line read last, counted from 1.
    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    /// The next line that is not blank, or `None` at the end and after a fatal error.
    pub(crate) fn next_line(&mut self) -> Option<Result<Line<'_>, DataError>> {
        loop {
            match self.fill() {
                Ok(true) => {}
                Ok(false) => {
                    self.source = Source::Finished;
                    return None;
                }
                Err(error) => {
                    self.source = Source::Finished;
                    return Some(Err(error));
                }
            }
            if !self.buffer.trim_ascii().is_empty() {
                return Some(self.decode());
            }
        }
    }

    fn decode(&self) -> Result<Line<'_>, DataError> {
        let bytes = self.buffer.strip_suffix(b"\r").unwrap_or(&self.buffer);
        let text = std::str::from_utf8(bytes).map_err(|error| DataError::InvalidUtf8 {
            name: self.name.clone(),
            line: self.number,
            valid_up_to: error.valid_up_to(),
        })?;
        let text = match self.number {
            1 => text.strip_prefix(BYTE_ORDER_MARK).unwrap_or(text),
            _ => text,
        };
        Ok(Line { number: self.number, text })
    }

    /// Puts the next line into `buffer` without its line feed; false at the end.
    fn fill(&mut self) -> Result<bool, DataError> {
        self.number += 1;
        self.buffer.clear();
        self.open().map_err(|source| self.read_error(source))?;
        let Source::Open(_, stream) = &mut self.source else {
            return Ok(false);
        };
        // One byte more than the limit: the line feed, or proof that the line is too long.
        let most = (self.limit as u64).saturating_add(1);
        let result = stream.take(most).read_until(b'\n', &mut self.buffer);
        let read = result.map_err(|source| self.read_error(source))?;
        if self.buffer.last() == Some(&b'\n') {
            self.buffer.pop();
        } else if self.buffer.len() > self.limit {
            return Err(DataError::LineTooLong {
                name: self.name.clone(),
                line: self.number,
                limit: self.limit,
            });
        }
        Ok(read > 0)
    }

    /// Finds out once how the stream is compressed.
    fn open(&mut self) -> std::io::Result<()> {
        if let Source::Unopened(_) = &self.source
            && let Source::Unopened(reader) = std::mem::replace(&mut self.source, Source::Finished)
        {
            let (packing, stream) = unpack(reader)?;
            self.source = Source::Open(packing, stream);
        }
        Ok(())
    }

    fn read_error(&self, source: std::io::Error) -> DataError {
        let packing = match self.source {
            Source::Open(packing, _) => packing,
            _ => Packing::None,
        };
        packing.error(&self.name, self.number, source)
    }
}
