//! Rows of delimited cells, with their line numbers and a bound on their size.

use csv_core::{ReadRecordResult, Reader, ReaderBuilder};

use super::MAX_LINE_BYTES;
use super::delimiter::declared;
use super::error::{DataError, DataErrorKind, Place};
use super::lines::BYTE_ORDER_MARK;
use super::quotes::Closing;
use super::unpack::Unpacked;

/// A row added after the last one; if it is not returned, a quote was still open.
const LAST_ROW: &[u8] = b"\n\0end of the table\0\n";
/// The most cells of a row.
const MOST_CELLS: usize = 1 << 16;
/// Initial capacity of a row in cells.
const CELLS: usize = 64;
/// Initial capacity of a row in bytes.
const BYTES: usize = 4 << 10;

/// Reads rows. Blank lines are skipped.
pub(super) struct Rows {
    stream: Unpacked,
    core: Reader,
    /// Set if cells may be quoted.
    closing: Option<Closing>,
    /// The line of the next byte, from 1.
    here: u64,
    /// The line on which the last row begins.
    line: u64,
    /// The cells of the last row, concatenated, and where each ends.
    cells: Vec<u8>,
    ends: Vec<usize>,
    count: usize,
    is_finished: bool,
}

impl Rows {
    /// Without `quoting`, quotes are literal. A first line such as `sep=;` is skipped.
    ///
    /// # Errors
    /// Those of reading the first row.
    pub fn begin(mut stream: Unpacked, delimiter: u8, quoting: bool) -> Result<Self, DataError> {
        let (mut line, mut has_declared) = (1, false);
        let mut first = Vec::new();
        loop {
            first.clear();
            stream.read_line(line, MAX_LINE_BYTES as u64, &mut first)?;
            if line == 1 && first.starts_with(BYTE_ORDER_MARK.as_bytes()) {
                first.drain(..BYTE_ORDER_MARK.len());
            }
            // A row of tabs is one of empty cells.
            let is_blank = matches!(first[..], [b'\n'] | [b'\r', b'\n']);
            let declares = !has_declared && declared(&first).is_some();
            if !is_blank && !declares {
                break;
            }
            has_declared |= declares;
            line += 1;
        }
        stream.put(first, LAST_ROW);
        let closing = quoting.then(|| Closing::new(delimiter));
        let core = ReaderBuilder::new().delimiter(delimiter).quoting(quoting).build();
        let (cells, ends) = (vec![0; BYTES], vec![0; CELLS]);
        Ok(Self { stream, core, closing, here: line, line, cells, ends, count: 0, is_finished: false })
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
        let read = self.read();
        self.is_finished = !matches!(read, Ok(true));
        read
    }

    fn read(&mut self) -> Result<bool, DataError> {
        let (mut bytes, mut count, mut has_begun) = (0, 0, false);
        loop {
            let input = self.stream.fill(self.here)?;
            let at_end = input.is_empty();
            let mut blank = 0;
            if !has_begun {
                // The rest of the previous row's line ending, and blank lines.
                blank = input.iter().take_while(|byte| matches!(byte, b'\r' | b'\n')).count();
                self.here += line_feeds(&input[..blank]);
                self.line = self.here;
            }
            let rest = &input[blank..];
            if rest.is_empty() && !at_end {
                self.stream.consume(blank);
                continue;
            }
            has_begun = true;
            let (cells, ends) = (&mut self.cells[bytes..], &mut self.ends[count..]);
            let (result, read, written, ended) = self.core.read_record(rest, cells, ends);
            if let Some(text) =
                self.closing.as_mut().and_then(|quotes| quotes.find_text_behind(&rest[..read]))
            {
                let at = match self.here + line_feeds(&rest[..text]) {
                    at if at == self.line => String::new(),
                    at => format!(" in line {at}"),
                };
                let message = format!(
                    "a cell of this row ends with a quote{at}, and text follows the quote; close the quotes around \
                     cells, and write a quote within them twice (`\"\"`)"
                );
                return Err(self.place().error(DataErrorKind::Row, message));
            }
            self.here += line_feeds(&rest[..read]);
            self.stream.consume(blank + read);
            bytes += written;
            count += ended;
            match result {
                ReadRecordResult::InputEmpty => {}
                ReadRecordResult::OutputFull => {
                    let room = self.cells.len();
                    if room >= MAX_LINE_BYTES {
                        let message = format!("a record of more than {room} bytes; is a quote not closed?");
                        return Err(self.place().error(DataErrorKind::TooLarge, message));
                    }
                    self.cells.resize((2 * room).min(MAX_LINE_BYTES), 0);
                }
                ReadRecordResult::OutputEndsFull => {
                    let room = self.ends.len();
                    if room >= MOST_CELLS {
                        let message = format!("a row of more than {room} cells; is a quote not closed?");
                        return Err(self.place().error(DataErrorKind::TooLarge, message));
                    }
                    self.ends.resize((2 * room).min(MOST_CELLS), 0);
                }
                // The last row ends before the stream does, unless it is within a quote.
                ReadRecordResult::Record | ReadRecordResult::End if at_end => {
                    let message = "a quote in the row that begins here is not closed";
                    return Err(self.place().error(DataErrorKind::Row, message));
                }
                ReadRecordResult::Record | ReadRecordResult::End => break,
            }
        }
        self.count = count;
        Ok(self.cells[..bytes] != *LAST_ROW.trim_ascii())
    }

    /// Cells of the last row.
    pub fn len(&self) -> usize {
        self.count
    }

    /// A cell of the last row; empty if the row is shorter.
    pub fn cell(&self, place: usize) -> &[u8] {
        if place >= self.count {
            return &[];
        }
        let start = place.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.cells[start..self.ends[place]]
    }

    /// A cell of the last row as text; `column` is its name in errors.
    pub fn text(&self, place: usize, column: impl FnOnce() -> String) -> Result<&str, DataError> {
        std::str::from_utf8(self.cell(place)).map_err(|_| {
            let message = format!("the column `{}` is not UTF-8; convert the file", column());
            self.place().error(DataErrorKind::Encoding, message)
        })
    }
}

fn line_feeds(bytes: &[u8]) -> u64 {
    bytes.iter().filter(|byte| **byte == b'\n').count() as u64
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
        let mut rows = Rows::begin(stream, b',', true).unwrap();
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
    fn a_quote_that_stays_open_is_told_from_the_end() {
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
    fn text_behind_the_quote_that_ends_a_cell_is_an_error() {
        for (text, rows, at) in [
            ("a,b\n1,\"abc\n2,b\n3,\"c\"\n4,d\n", 1, (2, 4)),
            ("a,b\n1,x\n2,\"12\" pipe\n", 2, (3, 3)),
            ("\"a \\\"q\\\" b\",c\n", 0, (1, 1)),
            ("a,b\r\n\"1\" \"2\",x\r\n", 1, (2, 2)),
        ] {
            // Also if the bytes arrive one by one.
            for size in [1, 3, 1 << 10] {
                let stream = Unpacked::new(Slow(std::io::Cursor::new(text.to_owned()), size), "in");
                let mut rows_of = Rows::begin(stream, b',', true).unwrap();
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
    fn long_rows_of_many_cells_are_read() {
        let text = format!("{}{}\n", "x".repeat(100_000), ",y".repeat(1_000));
        let (found, end) = read(&text);
        end.unwrap();
        assert_eq!(found, [(1, "x".repeat(100_000))]);
    }
}
