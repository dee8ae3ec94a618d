//! The objects of a JSON array, held in memory one at a time.

use super::strict::Strings;
use crate::data::MAX_LINE_BYTES;
use crate::data::error::{DataError, DataErrorKind};
use crate::data::lines::{Line, not_utf8};
use crate::data::unpack::Unpacked;

pub(super) struct JsonArray {
    stream: Unpacked,
    /// The current line, from 1.
    here: u64,
    /// The line on which the last element begins.
    line: u64,
    /// The bytes of which one is next; none at the end and after an error.
    next: &'static [u8],
    element: Vec<u8>,
}

impl JsonArray {
    pub fn new(stream: Unpacked) -> Self {
        Self { stream, here: 1, line: 1, next: b"[", element: Vec::new() }
    }

    /// The line on which the last element begins.
    pub fn line(&self) -> u64 {
        self.line
    }

    /// The next element; `None` at the end and after an error of the array.
    pub fn next_element(&mut self) -> Option<Result<Line<'_>, DataError>> {
        match self.fill() {
            Ok(true) => Some(self.decode()),
            Ok(false) => None,
            Err(error) => {
                self.next = b"";
                Some(Err(error))
            }
        }
    }

    fn decode(&self) -> Result<Line<'_>, DataError> {
        let at = self.stream.place(self.line);
        let text = std::str::from_utf8(&self.element).map_err(|error| {
            let before = &self.element[..error.valid_up_to()];
            let line = self.line + before.iter().filter(|byte| **byte == b'\n').count() as u64;
            let in_line = before.rsplit(|byte| *byte == b'\n').next().unwrap_or_default();
            not_utf8(self.stream.place(line), in_line.len())
        })?;
        Ok(Line { at, text })
    }

    /// Peeks at the next byte that is not white space.
    fn peek(&mut self) -> Result<Option<u8>, DataError> {
        loop {
            let Some(first) = self.stream.fill(self.here)?.first().copied() else { return Ok(None) };
            if !first.is_ascii_whitespace() {
                return Ok(Some(first));
            }
            self.here += u64::from(first == b'\n');
            self.stream.consume(1);
        }
    }

    fn broken(&self, found: Option<u8>, expected: &str) -> DataError {
        let found = found.map_or_else(|| "the end".to_owned(), |byte| format!("`{}`", byte.escape_ascii()));
        let message = format!("expected {expected} in an array of objects, found {found}");
        self.stream.place(self.here).error(DataErrorKind::Json, message)
    }

    /// Puts the next element into `element`; false at the end of the array.
    fn fill(&mut self) -> Result<bool, DataError> {
        while !self.next.is_empty() {
            let found = self.peek()?;
            let Some(byte) = found.filter(|byte| self.next.contains(byte)) else {
                let expected = match self.next {
                    b"[" => "`[`",
                    b",]" => "`,` or `]`",
                    _ => "an object",
                };
                return Err(self.broken(found, expected));
            };
            if byte == b'{' {
                self.read_element()?;
                self.next = b",]";
                return Ok(true);
            }
            self.stream.consume(1);
            self.next = match byte {
                b'[' => b"{]",
                b',' => b"{",
                _ => b"",
            };
            if byte == b']'
                && let found @ Some(_) = self.peek()?
            {
                return Err(self.broken(found, "the end"));
            }
        }
        Ok(false)
    }

    /// Reads an element from its first byte to its last.
    fn read_element(&mut self) -> Result<(), DataError> {
        self.element.clear();
        self.line = self.here;
        let (mut strings, mut depth) = (Strings::default(), 0_usize);
        loop {
            let waiting = self.stream.fill(self.here)?;
            if waiting.is_empty() {
                return Err(self.broken(None, "the end of the object"));
            }
            let end = waiting.iter().position(|&byte| {
                self.here += u64::from(byte == b'\n');
                if strings.is_outside(byte) {
                    match byte {
                        b'{' | b'[' => depth += 1,
                        b'}' | b']' => depth = depth.saturating_sub(1),
                        _ => return false,
                    }
                    return depth == 0;
                }
                false
            });
            let taken = end.map_or(waiting.len(), |end| end + 1);
            self.element.extend_from_slice(&waiting[..taken]);
            self.stream.consume(taken);
            if self.element.len() > MAX_LINE_BYTES {
                let message =
                    format!("a record of more than {MAX_LINE_BYTES} bytes; is a bracket not closed?");
                return Err(self.stream.place(self.line).error(DataErrorKind::TooLarge, message));
            }
            if end.is_some() {
                return Ok(());
            }
        }
    }
}
