//! Detects the format of a stream from its first bytes.

use std::fmt;

use crate::data::delimiter::delimiter;
use crate::data::error::{DataError, DataErrorKind};
use crate::data::unpack::Unpacked;

/// A file format for documents.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Format {
    /// One JSON object per line.
    JsonLines,
    /// An array of JSON objects.
    Json,
    /// Cells between commas, semicolons, tabs or bars, detected from the first rows, with quotes where needed
    /// (RFC 4180). The first row names the columns and may be preceded by a line `sep=;`.
    Csv,
    /// Cells between tabs, in which quotes are ordinary characters. The first row names the columns.
    Tsv,
    /// Parquet, with the feature `parquet`.
    Parquet,
    /// Arrow's IPC format (Feather), as a file or as a stream, with the feature `parquet`.
    Arrow,
}

impl Format {
    /// All of them.
    pub const ALL: [Self; 6] =
        [Self::JsonLines, Self::Json, Self::Csv, Self::Tsv, Self::Parquet, Self::Arrow];

    /// Its name, as used by `ehi insert --format`.
    pub fn name(self) -> &'static str {
        ["jsonl", "json", "csv", "tsv", "parquet", "arrow"][self as usize]
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The kind of a stream by its first bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::data) enum StreamKind {
    Known(Format),
    /// Rows of cells, with their delimiter.
    Table(u8),
    /// Only white space.
    Empty,
    /// Another format: its description, and a remedy.
    Foreign(&'static str, &'static str),
    /// Text in one column.
    Unknown,
}

/// Bytes of a stream that an error shows.
const MOST_SHOWN: usize = 60;
/// Most bytes examined.
const MOST_BYTES: usize = 256 << 10;

const UNPACK: &str = "unpack it and give the files in it";
const CONVERT_TEXT: &str = "convert it to UTF-8";
const OFFICE: &str =
    "give a .docx, .odt or .epub file by its own name, unpack an archive, or save a table as CSV";
const BZIP2: &[u8] = b"BZh";
/// Magic bytes of unsupported files, their description, and a remedy.
const FOREIGN: [(&[u8], &str, &str); 10] = [
    (b"PK\x03\x04", "a ZIP archive or an office document", OFFICE),
    (b"%PDF", "a PDF document", "convert it to text"),
    (b"SQLite format 3\0", "an SQLite database", "export a table as CSV"),
    (BZIP2, "compressed with bzip2", "compress it with gzip or zstd, or not at all"),
    (b"\xfd7zXZ\0", "compressed with xz", "compress it with gzip or zstd, or not at all"),
    (b"7z\xbc\xaf\x27\x1c", "a 7z archive", UNPACK),
    (b"\x1f\x8b", "compressed with gzip twice", "unpack it once"),
    (b"\xff\xfe", "text in UTF-16", CONVERT_TEXT),
    (b"\xfe\xff", "text in UTF-16", CONVERT_TEXT),
    (b"\x28\xb5\x2f\xfd", "compressed with zstd twice", "unpack it once"),
];
/// Magic bytes of columnar files.
const COLUMNAR: [(&[u8], Format); 3] =
    [(b"PAR1", Format::Parquet), (b"ARROW1", Format::Arrow), (b"\xff\xff\xff\xff", Format::Arrow)];
/// The kind of a file that is not text in UTF-8, if it is known, and what to do about it. Valid UTF-8 may
/// still be another kind of file, or text of a charset that uses only the bytes of ASCII.
#[cfg(feature = "folders")]
pub(in crate::data) fn foreign(file: &[u8]) -> Option<(&'static str, &'static str)> {
    const AS_IT_IS: &str = "unpack it: files of folders are read as they are";
    // Text may begin like this, but compressed data is not UTF-8.
    let is_word = |magic: &[u8]| magic == BZIP2 && std::str::from_utf8(file).is_ok();
    let known = FOREIGN.into_iter().find(|(magic, ..)| file.starts_with(magic) && !is_word(magic));
    // Escapes that switch ISO-2022 to letters of two bytes.
    let is_escape = |part: &[u8]| matches!(part, [0x1b, b'$', b'@' | b'A' | b'B' | b'(' | b')']);
    match known.or_else(|| wide(file).map(|what| (&b""[..], what, CONVERT_TEXT))) {
        Some((b"\x1f\x8b", ..)) => Some(("compressed with gzip", AS_IT_IS)),
        Some((b"\x28\xb5\x2f\xfd", ..)) => Some(("compressed with zstd", AS_IT_IS)),
        Some((_, what, remedy)) => Some((what, remedy)),
        None if file.contains(&0) => Some(("a binary file, with zero bytes", "convert it to text in UTF-8")),
        None if file.windows(3).any(is_escape) => Some(("text in ISO-2022", CONVERT_TEXT)),
        None => None,
    }
}

/// The encoding of text with several bytes per ASCII character, by its first two characters.
fn wide(head: &[u8]) -> Option<&'static str> {
    match head {
        [0, 0, 0, 1..=255, ..] | [1..=255, 0, 0, 0, ..] => Some("text in UTF-32"),
        [0, 1..=255, 0, 1..=255, ..] | [1..=255, 0, 1..=255, 0, ..] => Some("text in UTF-16"),
        _ => None,
    }
}

/// Position of a tar archive's magic bytes.
const TAR: std::ops::Range<usize> = 257..262;

/// Whether the names in a table's first row are the expected ones.
pub(in crate::data) type Fits<'a> = &'a dyn Fn(&[String]) -> bool;

/// Detects the kind of a stream without consuming it. For JSON no more is read than needed, because a pipe
/// may be slow.
pub(in crate::data) fn sniff(stream: &mut Unpacked, fits: Fits<'_>) -> Result<StreamKind, DataError> {
    read_until(stream, |head, is_whole| kind(head, is_whole, fits))
}

/// The delimiter of a table; a comma if its first row is a single cell. Does not consume the stream.
pub(in crate::data) fn separated(stream: &mut Unpacked, fits: Fits<'_>) -> Result<u8, DataError> {
    const ONE_COLUMN: u8 = b',';
    read_until(stream, |head, is_whole| match is_whole || head.len() >= MOST_BYTES {
        true => Some(delimiter(head, is_whole, fits).unwrap_or(ONE_COLUMN)),
        false => None,
    })
}

/// Reads the head of a stream until `told` returns something, which it must once it has the whole stream or
/// [`MOST_BYTES`]. The head stays in the stream.
fn read_until<T>(stream: &mut Unpacked, told: impl Fn(&[u8], bool) -> Option<T>) -> Result<T, DataError> {
    let mut head = Vec::new();
    let mut is_whole = false;
    loop {
        if let Some(told) = told(&head, is_whole) {
            stream.put(head);
            return Ok(told);
        }
        let waiting = stream.fill(1)?;
        let read = waiting.len();
        head.extend_from_slice(waiting);
        stream.consume(read);
        is_whole = read == 0;
    }
}

/// Why a stream of this kind is not read.
pub(in crate::data) fn refused(kind: StreamKind, stream: &mut Unpacked) -> DataError {
    let message = match kind {
        StreamKind::Foreign(what, remedy) => format!("this is {what}, which is not read; {remedy}"),
        _ => match first_line(stream, MOST_SHOWN) {
            Ok(first) => format!(
                "it begins with `{first}`, which is neither JSON nor a row of names between commas, semicolons, \
                 tabs or bars; `--delimiter` names another sign between cells, and `--format` the kind of file"
            ),
            Err(error) => return error,
        },
    };
    stream.place(0).error(DataErrorKind::Format, message)
}

/// The beginning of the first line, without consuming it.
pub(in crate::data) fn first_line(stream: &mut Unpacked, most: usize) -> Result<String, DataError> {
    let head = stream.fill(1)?;
    let line = head.trim_ascii_start().split(|byte| *byte == b'\n').next().unwrap_or_default();
    let shown = String::from_utf8_lossy(&line[..line.len().min(most)]);
    Ok(shown.trim_end_matches(char::REPLACEMENT_CHARACTER).to_owned())
}

/// The kind of a stream with this start; `None` if more bytes are needed.
fn kind(head: &[u8], is_whole: bool, fits: Fits<'_>) -> Option<StreamKind> {
    let is_all = is_whole || head.len() >= MOST_BYTES;
    let columnar = COLUMNAR.map(|(magic, format)| (magic, StreamKind::Known(format)));
    let foreign = FOREIGN.map(|(magic, what, remedy)| (magic, StreamKind::Foreign(what, remedy)));
    for (magic, kind) in columnar.into_iter().chain(foreign) {
        if head.starts_with(magic) {
            return Some(kind);
        }
        if !is_all && magic.starts_with(head) {
            return None;
        }
    }
    if let Some(what) = wide(head) {
        return Some(StreamKind::Foreign(what, CONVERT_TEXT));
    }
    if head.get(TAR) == Some(b"ustar") {
        return Some(StreamKind::Foreign("a tar archive", UNPACK));
    }
    let Some(start) = head.iter().position(|byte| !byte.is_ascii_whitespace()) else {
        return is_all.then_some(StreamKind::Empty);
    };
    match head[start] {
        b'{' => return Some(StreamKind::Known(Format::JsonLines)),
        b'[' => return Some(StreamKind::Known(Format::Json)),
        _ if !is_all => return None,
        _ => {}
    }
    // A tab at the start of a row is an unnamed first column.
    let line_start = head[..start].iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
    Some(delimiter(&head[line_start..], is_whole, fits).map_or(StreamKind::Unknown, StreamKind::Table))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_told_by_content() {
        let kind = |head: &[u8], is_whole| kind(head, is_whole, &|_| false);
        for (head, expected) in [
            ("{\"a\": 1", StreamKind::Known(Format::JsonLines)),
            ("\n {", StreamKind::Known(Format::JsonLines)),
            ("\n [", StreamKind::Known(Format::Json)),
            ("i\0d\0,\0", StreamKind::Foreign("text in UTF-16", CONVERT_TEXT)),
            ("\0{\0\"", StreamKind::Foreign("text in UTF-16", CONVERT_TEXT)),
            ("PK\u{3}\u{4}", StreamKind::Foreign("a ZIP archive or an office document", FOREIGN[0].2)),
        ] {
            assert_eq!(kind(head.as_bytes(), false), Some(expected), "{head:?}");
        }
        for (head, expected) in [
            ("id,text\n", StreamKind::Table(b',')),
            ("\n\tid\ttext\n", StreamKind::Table(b'\t')),
            ("text\n", StreamKind::Unknown),
            (" \n", StreamKind::Empty),
            ("a|b", StreamKind::Table(b'|')),
        ] {
            assert_eq!(kind(head.as_bytes(), true), Some(expected), "{head:?}");
            assert_eq!(kind(head.as_bytes(), false), None, "{head:?}");
        }
        for undecided in ["", "\n ", "id,te", "P", "SQLite"] {
            assert_eq!(kind(undecided.as_bytes(), false), None, "{undecided:?}");
        }
    }
}
