//! Rows of delimited cells, with their line numbers and a bound on their size.

use std::io::BufRead;

use super::MAX_LINE_BYTES;
use super::delimiter::declared;
use super::error::{DataError, DataErrorKind, Place};
use super::unpack::Unpacked;

/// The most cells of a row.
const MOST_CELLS: usize = 1 << 16;

/// Reads rows (RFC 4180). Blank lines, and a first row such as `sep=;`, are skipped.
pub(super) struct Rows {
    stream: Unpacked,
    delimiter: u8,
    /// Whether cells may be in quotes; otherwise quotes are literal.
    is_quoted: bool,
    /// The line of the next byte, from 1.
    here: u64,
    /// The line on which the last row begins.
    line: u64,
    /// The cells of the last row, concatenated, and where each ends.
    cells: Vec<u8>,
    ends: Vec<usize>,
    /// Cells in quotes so far.
    pub quoted: u64,
    /// The bytes of the last row and of the blank lines before it, if they are kept.
    pub raw: Option<Vec<u8>>,
    is_first: bool,
    is_finished: bool,
}

/// What precedes the next byte of a cell.
#[derive(Clone, Copy, PartialEq)]
enum InCell {
    Start,
    Bare,
    Quoted,
    /// A quote that closes the cell, or that escapes a quote if one follows.
    Closing,
    /// White space after the closing quote.
    Spaced,
}

impl Rows {
    pub fn new(stream: Unpacked, delimiter: u8, is_quoted: bool) -> Self {
        let (cells, ends) = (Vec::new(), Vec::new());
        let (here, line, quoted, raw) = (1, 1, 0, None);
        Self {
            stream,
            delimiter,
            is_quoted,
            here,
            line,
            cells,
            ends,
            quoted,
            raw,
            is_first: true,
            is_finished: false,
        }
    }

    /// The stream, from the end of the last row.
    pub fn into_stream(self) -> Unpacked {
        self.stream
    }

    pub fn stream(&self) -> &Unpacked {
        &self.stream
    }

    /// Where the last row begins.
    pub fn place(&self) -> Place<'_> {
        self.stream.place(self.line)
    }

    /// Reads the next row; false at the end and after an error.
    pub fn advance(&mut self) -> Result<bool, DataError> {
        if self.is_finished {
            return Ok(false);
        }
        if let Some(raw) = &mut self.raw {
            raw.clear();
        }
        let mut read = self.read();
        if std::mem::take(&mut self.is_first) && matches!(read, Ok(true)) && self.declares() {
            read = self.read();
        }
        self.is_finished = !matches!(read, Ok(true));
        read
    }

    /// Whether the last row only names the delimiter.
    fn declares(&self) -> bool {
        match self.ends[..] {
            [_] => declared(&self.cells).is_some(),
            [_, _] => self.cells.eq_ignore_ascii_case(b"sep="),
            _ => false,
        }
    }

    fn read(&mut self) -> Result<bool, DataError> {
        let Self { stream, delimiter, is_quoted, here, line, cells, ends, quoted, raw, .. } = self;
        cells.clear();
        ends.clear();
        let (mut before, mut has_begun, mut has_ended) = (InCell::Start, false, false);
        while !has_ended {
            let bytes = stream.fill(*here)?;
            if bytes.is_empty() && before == InCell::Quoted {
                let message = "a quote in the row that begins here is not closed";
                return Err(stream.place(*line).error(DataErrorKind::Row, message));
            }
            if bytes.is_empty() {
                if has_begun {
                    ends.push(cells.len());
                    *quoted += u64::from(matches!(before, InCell::Closing | InCell::Spaced));
                }
                break;
            }
            let mut at = 0;
            while at < bytes.len() && !has_ended {
                let (byte, rest) = (bytes[at], &bytes[at..]);
                let mut taken = 1;
                match (before, byte) {
                    // The rest of the previous row's line ending, and blank lines.
                    (_, b'\r' | b'\n') if !has_begun => {}
                    (InCell::Quoted, b'"') => before = InCell::Closing,
                    (InCell::Quoted, _) => {
                        taken = quote(rest).unwrap_or(rest.len());
                        cells.extend_from_slice(&rest[..taken]);
                    }
                    (InCell::Closing, b'"') => {
                        cells.push(byte);
                        before = InCell::Quoted;
                    }
                    (_, end) if end == *delimiter || matches!(end, b'\r' | b'\n') => {
                        ends.push(cells.len());
                        *quoted += u64::from(matches!(before, InCell::Closing | InCell::Spaced));
                        (before, has_ended) = (InCell::Start, end != *delimiter);
                    }
                    (InCell::Closing | InCell::Spaced, b' ' | b'\t') => {
                        cells.push(byte);
                        before = InCell::Spaced;
                    }
                    (InCell::Closing | InCell::Spaced, _) => {
                        let (at, line) = (*here, *line);
                        let at = if at == line { String::new() } else { format!(" in line {at}") };
                        let message = format!(
                            "a cell of this row ends with a quote{at}, and text follows the quote; close the quotes \
                             around cells, and write a quote within them twice (`\"\"`)"
                        );
                        return Err(stream.place(line).error(DataErrorKind::Row, message));
                    }
                    (InCell::Start, b'"') if *is_quoted => before = InCell::Quoted,
                    (InCell::Start | InCell::Bare, _) => {
                        let ends = |byte: &u8| *byte == *delimiter || matches!(byte, b'\r' | b'\n');
                        taken = rest.iter().position(ends).unwrap_or(rest.len());
                        cells.extend_from_slice(&rest[..taken]);
                        before = InCell::Bare;
                    }
                }
                if !has_begun && !matches!(byte, b'\r' | b'\n') {
                    (has_begun, *line) = (true, *here);
                }
                *here += rest[..taken].iter().filter(|byte| **byte == b'\n').count() as u64;
                at += taken;
            }
            if let Some(raw) = raw {
                raw.extend_from_slice(&bytes[..at]);
            }
            stream.consume(at);
            if cells.len() > MAX_LINE_BYTES || ends.len() > MOST_CELLS {
                let found = match ends.len() > MOST_CELLS {
                    true => format!("a row of more than {MOST_CELLS} cells"),
                    false => format!("a record of more than {MAX_LINE_BYTES} bytes"),
                };
                let message = format!("{found}; is a quote not closed?");
                return Err(stream.place(*line).error(DataErrorKind::TooLarge, message));
            }
        }
        Ok(!ends.is_empty())
    }

    /// Cells of the last row.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// A cell of the last row; empty if the row is shorter.
    pub fn cell(&self, place: usize) -> &[u8] {
        let Some(end) = self.ends.get(place) else { return &[] };
        let start = place.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.cells[start..*end]
    }

    /// A cell of the last row as text; `column` is its name in errors.
    pub fn text(&self, place: usize, column: impl FnOnce() -> String) -> Result<&str, DataError> {
        std::str::from_utf8(self.cell(place)).map_err(|_| {
            let message = format!("the column `{}` is not UTF-8; convert the file", column());
            self.place().error(DataErrorKind::Encoding, message)
        })
    }
}

/// The position of the first quote, by the standard library's search, which is faster than a loop.
fn quote(mut bytes: &[u8]) -> Option<usize> {
    let whole = bytes;
    // Reading a slice cannot fail.
    let last = bytes.skip_until(b'"').ok()?.checked_sub(1)?;
    (whole[last] == b'"').then_some(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns this many bytes at a time.
    struct Slow(std::io::Cursor<String>, usize);

    impl std::io::Read for Slow {
        fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
            let most = into.len().min(self.1);
            self.0.read(&mut into[..most])
        }
    }

    /// The first cell of each row with its line, and how it ended.
    fn read(text: &str) -> (Vec<(u64, String)>, Result<(), DataError>) {
        let stream = Unpacked::new(std::io::Cursor::new(text.to_owned()), "in");
        let mut rows = Rows::new(stream, b',', true);
        let mut found = Vec::new();
        loop {
            match rows.advance() {
                Ok(true) => {
                    found.push((rows.place().line, rows.text(0, String::new).unwrap().to_owned()));
                }
                Ok(false) => return (found, Ok(())),
                Err(error) => return (found, Err(error)),
            }
        }
    }

    #[test]
    fn rows_begin_on_the_lines_that_an_editor_shows() {
        for text in ["a,b\n1,2\n\n\n3,\"x\ny\"\n5,6\n", "\u{feff}a,b\n1,2\n\n\n3,\"x\ny\"\n5,6"] {
            for text in [text.to_owned(), text.replace('\n', "\r\n")] {
                let (found, end) = read(&text);
                end.unwrap();
                let expected = [(1, "a"), (2, "1"), (5, "3"), (7, "5")];
                assert_eq!(found, expected.map(|(line, cell)| (line, cell.to_owned())), "{text:?}");
            }
        }
        assert_eq!(read("\n\na\n").0, [(3, "a".to_owned())]);
        assert!(read("").0.is_empty() && read("\n\r\n").0.is_empty());
    }

    #[test]
    fn an_open_quote_is_an_error_at_the_end() {
        for text in ["a,b\n1,2\n3,\"x\ny", "a,b\n1,2\n3,\"x\ny\n"] {
            let (found, end) = read(text);
            assert_eq!(found.len(), 2);
            let error = end.unwrap_err();
            assert_eq!((error.kind(), error.line()), (DataErrorKind::Row, Some(3)), "{error}");
        }
        let (found, end) = read("a,b\n1,\"\"\"2\"\"\"");
        assert_eq!((found.len(), end.is_ok()), (2, true));
    }

    #[test]
    fn text_after_the_quote_that_ends_a_cell_is_an_error() {
        for (text, rows, at) in [
            ("a,b\n1,\"abc\n2,b\n3,\"c\"\n4,d\n", 1, (2, 4)),
            ("a,b\n1,x\n2,\"12\" pipe\n", 2, (3, 3)),
            ("\"a \\\"q\\\" b\",c\n", 0, (1, 1)),
            ("a,b\r\n\"1\" \"2\",x\r\n", 1, (2, 2)),
        ] {
            // Also if the bytes arrive one by one.
            for size in [1, 3, 1 << 10] {
                let stream = Unpacked::new(Slow(std::io::Cursor::new(text.to_owned()), size), "in");
                let mut rows_of = Rows::new(stream, b',', true);
                let mut read = 0;
                let error = loop {
                    match rows_of.advance() {
                        Ok(true) => read += 1,
                        Ok(false) => panic!("{text:?}"),
                        Err(error) => break error,
                    }
                };
                let (line, quote) = at;
                assert_eq!((read, error.line()), (rows, Some(line)), "{text:?}");
                let says = match quote == line {
                    true => "ends with a quote, and text".to_owned(),
                    false => format!("ends with a quote in line {quote}, and text"),
                };
                assert!(error.to_string().contains(&says), "{error}");
            }
        }
        let fine =
            "a,b\n5'9\" tall,x\"y\"\n\"\",\"\"\"\"\n\"1\r\n\",\"2, \"\"3\"\"\"\r\n \"4\",5\n\"6\" \t,7\n";
        let (found, end) = read(fine);
        end.unwrap();
        let cells = ["a", "5'9\" tall", "", "1\r\n", " \"4\"", "6 \t"];
        assert_eq!(found.into_iter().map(|(_, cell)| cell).collect::<Vec<_>>(), cells);
    }

    #[test]
    fn a_carriage_return_alone_ends_a_row() {
        let (found, end) = read("a,b\r1,2\r\"3\",\"x\ry\"\r");
        end.unwrap();
        assert_eq!(found, ["a", "1", "3"].map(|cell| (1, cell.to_owned())));
    }

    #[test]
    fn long_rows_of_many_cells_are_read() {
        let text = format!("{}{}\n", "x".repeat(100_000), ",y".repeat(1_000));
        let (found, end) = read(&text);
        end.unwrap();
        assert_eq!(found, [(1, "x".repeat(100_000))]);
    }
}
