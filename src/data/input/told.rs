//! What the content of a stream says of its kind, for readers of their own forms.

use std::io::{self, BufRead};

use super::format::{Fits, Format, Kind, sniff};
use crate::data::DataError;
use crate::data::lines::BYTE_ORDER_MARK;
use crate::data::unpack::{ByteStream, Packing};

/// Bytes of a stream that an error shows.
const MOST_SHOWN: usize = 60;

/// The format of a stream by its content, what separates its cells, and how its first line begins.
pub(in crate::data) struct Told {
    pub format: Format,
    pub delimiter: Option<u8>,
    pub first: String,
}

/// What the content of a stream says, and the stream; none where it is empty.
pub(in crate::data) fn told(
    packing: Packing,
    stream: ByteStream,
    name: &str,
    fits: Fits<'_>,
) -> Result<(Option<Told>, ByteStream), DataError> {
    let failed = |source| packing.error(name, 1, source);
    let (kind, mut stream) = sniff(stream, fits).map_err(failed)?;
    let (format, delimiter) = match kind {
        Kind::Known(format) => (format, None),
        Kind::Table(b'\t') => (Format::Tsv, Some(b'\t')),
        Kind::Table(sign) => (Format::Csv, Some(sign)),
        Kind::Empty => return Ok((None, stream)),
        Kind::Unknown | Kind::Foreign(..) => return Err(refused(kind, packing, stream, name)),
    };
    let first = first_line(&mut stream, usize::MAX).map_err(failed)?;
    Ok((Some(Told { format, delimiter, first }), stream))
}

/// Why a stream of this kind is not read.
pub(super) fn refused(kind: Kind, packing: Packing, mut stream: ByteStream, name: &str) -> DataError {
    let name = name.to_owned();
    match kind {
        Kind::Foreign(what, remedy) => DataError::Foreign { name, what, remedy },
        _ => match first_line(&mut stream, MOST_SHOWN) {
            Ok(first) => DataError::UnknownFormat { name, first },
            Err(source) => packing.error(&name, 1, source),
        },
    }
}

/// How the first line begins of what was looked at, which is still there.
fn first_line(stream: &mut ByteStream, most: usize) -> io::Result<String> {
    let head = stream.fill_buf()?;
    let head = head.strip_prefix(BYTE_ORDER_MARK.as_bytes()).unwrap_or(head).trim_ascii_start();
    let line = head.split(|byte| *byte == b'\n').next().unwrap_or_default();
    let shown = String::from_utf8_lossy(&line[..line.len().min(most)]);
    Ok(shown.trim_end_matches(char::REPLACEMENT_CHARACTER).to_owned())
}
