//! Documents from an array of JSON objects, of which one at a time is in memory.

use std::io::BufRead;

use super::fields::{At, Fields, Unseen};
use super::record::Record;
use super::rounded::Rounded;
use crate::data::lines::BYTE_ORDER_MARK;
use crate::data::streams::Source;
use crate::data::unpack::{ByteStream, Packing};
use crate::data::{DataError, MAX_LINE_BYTES, Note};
use crate::document::Document;

pub(super) struct JsonArray {
    name: String,
    packing: Packing,
    stream: ByteStream,
    fields: Fields,
    unseen: Unseen,
    rounded: Rounded,
    /// The line that is being read, from 1.
    here: u64,
    /// The line on which the last element begins.
    line: u64,
    state: State,
    element: Vec<u8>,
}

#[derive(Clone, Copy, PartialEq)]
enum State {
    /// Before the bracket.
    Outside,
    /// After the bracket: an element, or the end.
    First,
    /// After a comma: an element.
    Element,
    /// After an element: a comma, or the end.
    Between,
    Finished,
}

/// Where in an element a byte is.
#[derive(Default)]
struct Extent {
    depth: usize,
    in_string: bool,
    is_escaped: bool,
}

impl Extent {
    /// Takes a byte; whether the element ends with it.
    fn take(&mut self, byte: u8) -> bool {
        match byte {
            _ if self.is_escaped => self.is_escaped = false,
            b'\\' if self.in_string => self.is_escaped = true,
            b'"' => self.in_string = !self.in_string,
            _ if self.in_string => {}
            b'{' | b'[' => self.depth += 1,
            b'}' | b']' => {
                self.depth = self.depth.saturating_sub(1);
                return self.depth == 0;
            }
            _ => {}
        }
        false
    }
}

impl JsonArray {
    pub fn new(name: String, packing: Packing, stream: ByteStream, fields: Fields) -> Self {
        let (state, unseen) = (State::Outside, fields.optional());
        let (rounded, element) = (Rounded::default(), Vec::new());
        Self { name, packing, stream, fields, unseen, rounded, here: 1, line: 1, state, element }
    }

    /// The next byte that is not white space, which stays in the stream.
    fn peek(&mut self) -> Result<Option<u8>, DataError> {
        loop {
            let waiting = match self.stream.fill_buf() {
                Ok(waiting) => waiting,
                Err(source) => return Err(self.packing.error(&self.name, self.here, source)),
            };
            let Some(first) = waiting.first().copied() else { return Ok(None) };
            if !first.is_ascii_whitespace() {
                return Ok(Some(first));
            }
            self.here += u64::from(first == b'\n');
            self.stream.consume(1);
        }
    }

    fn broken(&self, found: Option<u8>, expected: &'static str) -> DataError {
        let found = found.map_or_else(|| "the end".to_owned(), |byte| format!("`{}`", byte.escape_ascii()));
        let (name, line) = (self.name.clone(), self.here);
        DataError::JsonArray { name, line, found, expected }
    }

    /// Puts the next element into `element`; false at the end of the array.
    fn fill(&mut self) -> Result<bool, DataError> {
        while self.state != State::Finished {
            let found = self.peek()?;
            match (self.state, found) {
                (State::Outside, Some(b'[')) => self.state = State::First,
                (State::Outside, Some(byte)) if BYTE_ORDER_MARK.as_bytes().contains(&byte) => {}
                (State::Outside, _) => return Err(self.broken(found, "`[`")),
                (State::First | State::Between, Some(b']')) => {
                    self.stream.consume(1);
                    self.state = State::Finished;
                    return match self.peek()? {
                        None => Ok(false),
                        found => Err(self.broken(found, "nothing behind the array")),
                    };
                }
                (State::Between, Some(b',')) => self.state = State::Element,
                (State::Between, _) => return Err(self.broken(found, "`,` or `]`")),
                (State::First | State::Element, Some(b'{')) => return self.element().map(|()| true),
                (State::First | State::Element, _) => return Err(self.broken(found, "an object")),
                (State::Finished, _) => break,
            }
            self.stream.consume(1);
        }
        Ok(false)
    }

    /// Reads an element from its first byte to its last.
    fn element(&mut self) -> Result<(), DataError> {
        self.element.clear();
        self.line = self.here;
        let mut extent = Extent::default();
        loop {
            let waiting = match self.stream.fill_buf() {
                Ok(waiting) => waiting,
                Err(source) => return Err(self.packing.error(&self.name, self.here, source)),
            };
            if waiting.is_empty() {
                return Err(self.broken(None, "the end of the object"));
            }
            let end = waiting.iter().position(|byte| {
                self.here += u64::from(*byte == b'\n');
                extent.take(*byte)
            });
            let taken = end.map_or(waiting.len(), |end| end + 1);
            self.element.extend_from_slice(&waiting[..taken]);
            self.stream.consume(taken);
            if self.element.len() > MAX_LINE_BYTES {
                let (name, line, limit) = (self.name.clone(), self.line, MAX_LINE_BYTES);
                return Err(DataError::RecordTooLong { name, line, limit, hint: "a bracket" });
            }
            if end.is_some() {
                self.state = State::Between;
                return Ok(());
            }
        }
    }

    fn document(&mut self) -> Result<Document, DataError> {
        let at = At { name: &self.name, line: self.line };
        let text = std::str::from_utf8(&self.element).map_err(|error| {
            let before = &self.element[..error.valid_up_to()];
            let line = self.line + before.iter().filter(|byte| **byte == b'\n').count() as u64;
            let in_line = before.rsplit(|byte| *byte == b'\n').next().unwrap_or_default();
            DataError::InvalidUtf8 { name: self.name.clone(), line, valid_up_to: in_line.len() }
        })?;
        let record = Record::of_json(text).map_err(|source| {
            let line = self.line + (source.line() as u64).saturating_sub(1);
            At { line, ..at }.json(source)
        })?;
        self.rounded.see(&record, text, at.line);
        let record = self.fields.flattened(record, at)?;
        self.unseen.see(&record);
        self.fields.document(record, at)
    }
}

impl Source for JsonArray {
    fn next(&mut self) -> Option<Result<Document, DataError>> {
        match self.fill() {
            Ok(true) => Some(self.document()),
            Ok(false) => None,
            Err(error) => {
                self.state = State::Finished;
                Some(Err(error))
            }
        }
    }

    fn line(&self) -> u64 {
        self.line
    }

    fn unseen(&self) -> &[String] {
        &self.unseen.0
    }

    fn notes(&self) -> Vec<Note> {
        self.rounded.note().into_iter().collect()
    }
}
