//! Detects whether cells of TSV are quoted where needed, as Excel and pandas write them, or quotes are
//! literal.

use std::io::BufRead;

use super::MAX_LINE_BYTES;
use super::delimiter::declared;
use super::lines::BYTE_ORDER_MARK;
use super::note::{Note, counted};
use super::unpack::Unpacked;

/// The meaning of quotes in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Quotes {
    /// This many cells are quoted (possibly 0), and quotes appear nowhere else.
    Around(u64),
    /// Literal characters.
    Literal,
}

impl Quotes {
    /// Whether a cell begins and ends with quotes that are kept.
    pub fn keeps(self, cell: &str) -> bool {
        self == Self::Literal && cell.len() > 1 && cell.starts_with('"') && cell.ends_with('"')
    }

    /// The note about quoted cells, of which `kept` keep their quotes.
    pub fn note(self, kept: u64) -> Option<Note> {
        let (cells, what) = match self {
            Self::Around(cells) => (cells, "taken off; `--format tsv` keeps them"),
            Self::Literal => (kept, "kept; `--format csv` takes them off"),
        };
        let note =
            || Note::new(format!("{} in quotes, which are {what}", counted(cells, "cell is", "cells are")));
        (cells > 0).then(note)
    }
}

/// Finds text after the closing quote of a cell, which the row reader would append to the cell.
pub(super) struct Closing {
    delimiter: u8,
    place: InCell,
    /// Whether white space follows the closing quote.
    is_spaced: bool,
}

impl Closing {
    pub fn new(delimiter: u8) -> Self {
        Self { delimiter, place: InCell::Start, is_spaced: false }
    }

    /// Takes the next bytes of the rows; returns the start of such text, if any.
    pub fn find_text_behind(&mut self, bytes: &[u8]) -> Option<usize> {
        let ends = |byte: u8| byte == self.delimiter || matches!(byte, b'\r' | b'\n');
        let mut at = 0;
        while at < bytes.len() {
            if self.place == InCell::Ending {
                self.place = match bytes[at] {
                    b'"' if !self.is_spaced => InCell::Quoted,
                    byte if ends(byte) => InCell::Start,
                    b' ' | b'\t' => InCell::Ending,
                    _ => return Some(at),
                };
                self.is_spaced = self.place == InCell::Ending;
                at += 1;
                continue;
            }
            let quote = quote(&bytes[at..]).map(|next| at + next);
            let end = quote.unwrap_or(bytes.len());
            self.place = match (self.place, end.checked_sub(1).filter(|before| *before >= at)) {
                (InCell::Quoted, _) => InCell::Quoted,
                (_, Some(before)) if ends(bytes[before]) => InCell::Start,
                (_, Some(_)) => InCell::Bare,
                (place, None) => place,
            };
            if quote.is_some() {
                self.place = match self.place {
                    InCell::Quoted => InCell::Ending,
                    InCell::Start => InCell::Quoted,
                    // In an unquoted cell it is literal.
                    place => place,
                };
            }
            at = end + 1;
        }
        None
    }
}

/// Reads a table with tabs to its end, or up to the first quote that can only be a literal character: inside
/// an unquoted cell, before more text, or where the number of cells in the rows contradicts quoting. A read
/// failure also ends it: the reading of the rows reports it.
pub(super) fn told(stream: &mut Unpacked) -> Quotes {
    let mut scan = Scan::default();
    let mut line = Vec::new();
    let mut is_first = true;
    loop {
        line.clear();
        match stream.read_line(0, MAX_LINE_BYTES as u64, &mut line) {
            Ok(0) | Err(_) => return scan.end(),
            Ok(_) => {
                let is_first = std::mem::take(&mut is_first);
                let line =
                    line.strip_prefix(BYTE_ORDER_MARK.as_bytes()).filter(|_| is_first).unwrap_or(&line);
                let declares = scan.columns.is_none() && declared(line).is_some();
                if !declares && scan.line(line).is_none() {
                    return Quotes::Literal;
                }
            }
        }
    }
}

/// The position of the first quote, by the standard library's search, which is faster than a loop.
fn quote(mut bytes: &[u8]) -> Option<usize> {
    let whole = bytes;
    // Reading a slice cannot fail.
    let last = bytes.skip_until(b'"').ok()?.checked_sub(1)?;
    (whole[last] == b'"').then_some(last)
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
enum InCell {
    #[default]
    Start,
    Bare,
    Quoted,
    /// After a quote that closes the cell, or that escapes a quote if one follows.
    Ending,
}

#[derive(Default)]
struct Scan {
    /// Cells of the first row.
    columns: Option<u64>,
    place: InCell,
    /// Cells that ended in this row.
    cells: u64,
    /// Lines of this row, and whether each of them has as many cells as the first row.
    lines: u64,
    lines_fit: bool,
    /// Whether the last line has no line feed.
    is_open: bool,
    quoted: u64,
}

impl Scan {
    /// Takes a line with its end; `None` if it shows that quotes are literal.
    fn line(&mut self, line: &[u8]) -> Option<()> {
        if self.place != InCell::Quoted {
            if self.columns.is_some() && !line.contains(&b'"') {
                return Some(());
            }
            if line.trim_ascii_end().is_empty() && !line.contains(&b'\t') {
                return Some(());
            }
            (self.place, self.cells, self.lines, self.lines_fit) = (InCell::Start, 0, 0, true);
        }
        self.lines += 1;
        let tabs = line.iter().filter(|byte| **byte == b'\t').count() as u64;
        self.lines_fit &= self.columns.is_none_or(|columns| columns == tabs + 1);
        for byte in line {
            self.place = match (self.place, *byte) {
                (InCell::Quoted, b'"') => InCell::Ending,
                (InCell::Quoted, _) => InCell::Quoted,
                (InCell::Ending, b'"') => InCell::Quoted,
                // Part of the line ending.
                (InCell::Ending, b'\r') => InCell::Ending,
                (place, b'\t' | b'\n') => {
                    self.cell(place);
                    InCell::Start
                }
                (InCell::Start, b'"') => InCell::Quoted,
                (InCell::Ending, _) | (InCell::Bare, b'"') => return None,
                (InCell::Start | InCell::Bare, _) => InCell::Bare,
            };
        }
        self.is_open = !line.ends_with(b"\n");
        if self.place == InCell::Start && !self.is_open { self.row() } else { Some(()) }
    }

    fn cell(&mut self, place: InCell) {
        self.cells += 1;
        self.quoted += u64::from(place == InCell::Ending);
    }

    /// At the end of a row.
    fn row(&mut self) -> Option<()> {
        let Some(columns) = self.columns else {
            self.columns = Some(self.cells);
            return Some(());
        };
        let fits_without = self.lines_fit && (self.lines > 1 || self.cells != columns);
        (!fits_without).then_some(())
    }

    fn end(mut self) -> Quotes {
        let place = self.place;
        let fits = match place {
            InCell::Start if !self.is_open => Some(()),
            // A quote is still open at the end.
            InCell::Quoted => (!self.lines_fit).then_some(()),
            InCell::Start | InCell::Bare | InCell::Ending => {
                self.cell(place);
                self.row()
            }
        };
        fits.map_or(Quotes::Literal, |()| Quotes::Around(self.quoted))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> Quotes {
        told(&mut Unpacked::new(std::io::Cursor::new(text.to_owned()), "in"))
    }

    #[test]
    fn the_last_row_may_end_with_an_empty_cell_and_without_a_line_feed() {
        assert_eq!(of("id\ttext\tnote\n1\t\"a \"\"b\"\"\"\t"), Quotes::Around(1));
    }

    #[test]
    fn quotes_are_told_by_where_they_stand() {
        for (text, cells) in [
            ("id\ttext\n1\tx\n", 0),
            ("id\ttext\n1\t\"a, \"\"b\"\"\"\n2\tc", 1),
            ("\"id\"\t\"text\"\r\n\"1\"\t\"x\"\r\n", 4),
            ("id\ttext\n1\t\"two\nlines\"\n2\t\"a\tb\"\n3\t\"\"\n", 3),
            ("id\ttext\n\n1\t\"x\"", 1),
            ("\u{feff}\"id\"\ttext\n1\tx\n", 1),
            ("sep=\t\nid\ttext\tmore\n1\t\"x\ty\"\tz\n", 1),
            // Short rows, also without quotes.
            ("id\ttext\n1\n2\t\"x\"\n\"3\"\n", 2),
            // Not closed; the following lines have too few cells to be rows of this table.
            ("id\ttext\n1\t\"x\n2\n3\n", 0),
        ] {
            assert_eq!(of(text), Quotes::Around(cells), "{text:?}");
        }
        for text in [
            "id\ttext\n1\t5'9\" tall\n",
            "id\ttext\n1\t\"quoted\" at the start only\n",
            "id\ttext\n1\t\"x\n2\ty\n",
            "id\ttext\n1\t\"x\n2\ty\"\n",
            "id\ttext\n1\t\"x\"\n2\ty\"z\"\n",
        ] {
            assert_eq!(of(text), Quotes::Literal, "{text:?}");
        }
    }
}
