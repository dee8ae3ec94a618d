//! Detects whether cells of TSV are quoted where needed, as Excel and pandas write them, or quotes are
//! literal.

use super::error::DataErrorKind;
use super::note::{Note, counted};
use super::rows::Rows;
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

/// Reads a table with tabs to its end, or up to the first quote that can only be a literal character: inside
/// an unquoted cell, before more text, not closed, or where the number of cells in the rows contradicts
/// quoting. Another failure also ends it: the reading of the rows reports it.
pub(super) fn told(stream: Unpacked) -> Quotes {
    let mut rows = Rows::new(stream, b'\t', true);
    rows.raw = Some(Vec::new());
    let (mut columns, mut before) = (None, 0);
    loop {
        match rows.advance() {
            Ok(true) => {}
            Err(error) if error.kind() == DataErrorKind::Row => return Quotes::Literal,
            Ok(false) | Err(_) => return Quotes::Around(rows.quoted),
        }
        let (quoted, raw) = (rows.quoted - before, rows.raw.as_deref().unwrap_or_default());
        before = rows.quoted;
        let quotes = |bytes: &[u8]| bytes.iter().filter(|byte| **byte == b'"').count() as u64;
        let of_row = if raw.contains(&b'"') { quotes(raw) } else { 0 };
        // Around quoted cells there are two, and each quote within one is written twice.
        let in_cells: u64 =
            if of_row > 0 { (0..rows.len()).map(|place| quotes(rows.cell(place))).sum() } else { 0 };
        if of_row != 2 * (quoted + in_cells) {
            return Quotes::Literal;
        }
        let Some(columns) = columns else {
            columns = Some(rows.len());
            continue;
        };
        let start = raw.iter().take_while(|byte| matches!(byte, b'\r' | b'\n')).count();
        let lines = || raw[start..].strip_suffix(b"\n").unwrap_or(&raw[start..]).split(|byte| *byte == b'\n');
        let fits_without =
            || lines().all(|line| line.iter().filter(|byte| **byte == b'\t').count() + 1 == columns);
        if of_row > 0 && (rows.len() != columns || lines().count() > 1) && fits_without() {
            return Quotes::Literal;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> Quotes {
        told(Unpacked::new(std::io::Cursor::new(text.to_owned()), "in"))
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
        ] {
            assert_eq!(of(text), Quotes::Around(cells), "{text:?}");
        }
        for text in [
            "id\ttext\n1\t5'9\" tall\n",
            "id\ttext\n1\t\"quoted\" at the start only\n",
            "id\ttext\n1\t\"x\n2\ty\n",
            "id\ttext\n1\t\"x\n2\n3\n",
            "id\ttext\n1\t\"x\n2\ty\"\n",
            "id\ttext\n1\t\"x\"\n2\ty\"z\"\n",
        ] {
            assert_eq!(of(text), Quotes::Literal, "{text:?}");
        }
    }
}
