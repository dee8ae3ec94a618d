//! Lines of a text stream that may be gzip-compressed, with a bound on their length.

use std::io::{self, BufRead, BufReader, Cursor, Read};

use flate2::bufread::MultiGzDecoder;

use super::DataError;

/// The most bytes a line may have, without its line feed: 256 MiB.
///
/// It bounds the memory that a file without line feeds can take.
pub const MAX_LINE_BYTES: usize = 256 << 20;

pub(super) const GZIP_MAGIC: [u8; 2] = [0x1f, 0x8b];
const BYTE_ORDER_MARK: &str = "\u{feff}";
/// Large enough that the operating system is asked rarely, small enough for the cache.
const BUFFER_BYTES: usize = 64 << 10;

type ByteStream = Box<dyn BufRead + Send>;

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
/// Gzip is recognised by the first two bytes, whatever the name says. A byte order
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
    /// The first bytes, which say whether it is gzip, are read with the first line.
    Unopened(Box<dyn Read + Send>),
    Plain(ByteStream),
    Gzip(ByteStream),
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
        Self {
            name: name.into(),
            source: Source::Unopened(Box::new(reader)),
            number: 0,
            buffer: Vec::new(),
            limit,
        }
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
        let (Source::Plain(stream) | Source::Gzip(stream)) = &mut self.source else {
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

    /// Decides once between plain text and gzip.
    fn open(&mut self) -> io::Result<()> {
        let Source::Unopened(reader) = &mut self.source else {
            return Ok(());
        };
        let mut head = Vec::with_capacity(GZIP_MAGIC.len());
        reader.take(GZIP_MAGIC.len() as u64).read_to_end(&mut head)?;
        let is_gzip = head == GZIP_MAGIC;
        let Source::Unopened(reader) = std::mem::replace(&mut self.source, Source::Finished) else {
            return Ok(());
        };
        let whole = BufReader::with_capacity(BUFFER_BYTES, Cursor::new(head).chain(reader));
        self.source = if is_gzip {
            let unpacked = MultiGzDecoder::new(whole);
            Source::Gzip(Box::new(BufReader::with_capacity(BUFFER_BYTES, unpacked)))
        } else {
            Source::Plain(Box::new(whole))
        };
        Ok(())
    }

    fn read_error(&self, source: io::Error) -> DataError {
        let (name, line) = (self.name.clone(), self.number);
        let is_gzip = matches!(self.source, Source::Gzip(_));
        match source.kind() {
            io::ErrorKind::UnexpectedEof if is_gzip => DataError::TruncatedGzip { name, line },
            io::ErrorKind::InvalidInput | io::ErrorKind::InvalidData if is_gzip => {
                DataError::CorruptGzip { name, line, source }
            }
            _ => DataError::Read { name, line, source },
        }
    }
}
