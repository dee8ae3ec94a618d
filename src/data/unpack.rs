//! Streams that may be compressed with gzip or zstd, detected from their first bytes.

use std::io::{self, BufRead, BufReader, Cursor, Read};
#[cfg(feature = "parquet")]
use std::io::{Seek, Write};

use flate2::bufread::MultiGzDecoder;
use ruzstd::decoding::errors::{FrameDecoderError, ReadFrameHeaderError};
use ruzstd::decoding::{BlockDecodingStrategy, FrameDecoder};

use super::error::{DataError, DataErrorKind, Place};

const GZIP_MAGIC: &[u8] = &[0x1f, 0x8b];
const ZSTD_MAGIC: &[u8] = &[0x28, 0xb5, 0x2f, 0xfd];
/// The bytes after the first of a skippable frame.
const SKIPPABLE_REST: &[u8] = &[0x2a, 0x4d, 0x18];
/// Large enough for few system calls, small enough for the cache.
const BUFFER_BYTES: usize = 64 << 10;

pub(super) type ByteStream = Box<dyn BufRead + Send>;

/// How a stream is compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Packing {
    None,
    Gzip,
    Zstd,
}

impl Packing {
    /// The error for a failed read: the system's, or that of a damaged stream.
    fn error(self, at: Place<'_>, source: io::Error) -> DataError {
        let (line, is_packed) = (at.line, self != Self::None);
        let packing = if self == Self::Gzip { "gzip" } else { "zstd" };
        match source.kind() {
            io::ErrorKind::UnexpectedEof if is_packed => {
                let message = format!("the {packing} stream is cut off in line {line}; fetch the file again");
                at.error(DataErrorKind::CutOff, message)
            }
            io::ErrorKind::InvalidInput | io::ErrorKind::InvalidData if is_packed => {
                let message =
                    format!("the {packing} stream is damaged near line {line}; fetch the file again");
                at.error(DataErrorKind::Damaged, message).with(source)
            }
            _ => at.error(DataErrorKind::Read, format!("reading failed at line {line}")).with(source),
        }
    }
}

/// The unpacked bytes of a stream, with its name in errors.
pub(super) struct Unpacked {
    pub name: String,
    /// The raw stream, until its first bytes are needed to detect the compression.
    packed: Option<Box<dyn Read + Send>>,
    packing: Packing,
    bytes: ByteStream,
}

impl Unpacked {
    /// Reads nothing yet.
    pub fn new(reader: impl Read + Send + 'static, name: impl Into<String>) -> Self {
        let (packed, packing): (Option<Box<dyn Read + Send>>, _) = (Some(Box::new(reader)), Packing::None);
        Self { name: name.into(), packed, packing, bytes: Box::new(io::empty()) }
    }

    pub(super) fn bytes(&mut self) -> io::Result<&mut ByteStream> {
        if let Some(packed) = self.packed.take() {
            (self.packing, self.bytes) = unpack(packed)?;
        }
        Ok(&mut self.bytes)
    }

    pub fn place(&self, line: u64) -> Place<'_> {
        Place { name: &self.name, line }
    }

    /// The error for a read that failed at a line.
    pub fn error(&self, line: u64, source: io::Error) -> DataError {
        self.packing.error(self.place(line), source)
    }

    /// The buffered bytes, empty at the end; the line is for errors.
    pub fn fill(&mut self, line: u64) -> Result<&[u8], DataError> {
        if let Err(source) = self.bytes() {
            return Err(self.error(line, source));
        }
        let at = Place { name: &self.name, line };
        self.bytes.fill_buf().map_err(|source| self.packing.error(at, source))
    }

    pub fn consume(&mut self, read: usize) {
        self.bytes.consume(read);
    }

    /// Appends bytes up to and including the next line feed, but at most `most`; returns their number.
    pub fn read_line(&mut self, line: u64, most: u64, into: &mut Vec<u8>) -> Result<usize, DataError> {
        let read = self.bytes().and_then(|bytes| bytes.take(most).read_until(b'\n', into));
        read.map_err(|source| self.error(line, source))
    }

    /// Whether the stream, as far as read, is compressed.
    #[cfg(feature = "parquet")]
    pub fn is_packed(&self) -> bool {
        self.packing != Packing::None
    }

    /// Copies the rest of the stream into a temporary file.
    #[cfg(feature = "parquet")]
    pub fn copied(&mut self) -> Result<std::fs::File, DataError> {
        let mut copy = tempfile::tempfile().map_err(|source| self.error(1, no_room(source)))?;
        loop {
            let waiting = self.fill(1)?;
            let read = waiting.len();
            let written = if read == 0 { copy.rewind() } else { copy.write_all(waiting) };
            written.map_err(|source| self.error(1, no_room(source)))?;
            if read == 0 {
                return Ok(copy);
            }
            self.consume(read);
        }
    }

    /// Inserts bytes before and after the rest of the stream.
    pub fn put(&mut self, before: Vec<u8>, behind: &'static [u8]) {
        let bytes = std::mem::replace(&mut self.bytes, Box::new(io::empty()));
        self.bytes = Box::new(Cursor::new(before).chain(bytes).chain(behind));
    }
}

/// The unpacked bytes of a stream; reads its first bytes. The bytes decide, not the name.
fn unpack(mut reader: impl Read + Send + 'static) -> io::Result<(Packing, ByteStream)> {
    let mut head = Vec::with_capacity(ZSTD_MAGIC.len());
    // Reads no further than needed to tell them apart: more may not arrive for long.
    for magic in [GZIP_MAGIC, ZSTD_MAGIC] {
        if magic.starts_with(&head) || is_skippable(&head) {
            (&mut reader).take((magic.len() - head.len()) as u64).read_to_end(&mut head)?;
        }
    }
    let packing = match () {
        () if head.starts_with(GZIP_MAGIC) => Packing::Gzip,
        () if head == ZSTD_MAGIC || is_skippable(&head) => Packing::Zstd,
        () => Packing::None,
    };
    let whole = BufReader::with_capacity(BUFFER_BYTES, Cursor::new(head).chain(reader));
    let stream: ByteStream = match packing {
        Packing::None => Box::new(whole),
        Packing::Gzip => Box::new(BufReader::with_capacity(BUFFER_BYTES, MultiGzDecoder::new(whole))),
        Packing::Zstd => Box::new(BufReader::with_capacity(BUFFER_BYTES, ZstdDecoder::new(whole))),
    };
    Ok((packing, stream))
}

/// Whether these are the first bytes of a skippable zstd frame, which pzstd writes first.
fn is_skippable(head: &[u8]) -> bool {
    head.len() > 1 && head[0] & 0xf0 == 0x50 && SKIPPABLE_REST.starts_with(&head[1..])
}

/// Unpacks frames of zstd, one after the other, and verifies their checksums if present.
///
/// The window of a frame is limited to 128 MiB.
pub(super) struct ZstdDecoder<R> {
    packed: R,
    frame: FrameDecoder,
    /// Whether `frame` is inside a frame.
    is_open: bool,
}

impl<R: BufRead> ZstdDecoder<R> {
    pub fn new(packed: R) -> Self {
        Self { packed, frame: FrameDecoder::new(), is_open: false }
    }

    /// Begins the next frame; false at the end of the stream.
    fn begin(&mut self) -> io::Result<bool> {
        loop {
            if self.packed.fill_buf()?.is_empty() {
                return Ok(false);
            }
            match self.frame.reset(&mut self.packed) {
                Ok(()) => {
                    self.is_open = true;
                    return Ok(true);
                }
                Err(FrameDecoderError::ReadFrameHeaderError(ReadFrameHeaderError::SkipFrame {
                    length,
                    ..
                })) => {
                    let skipped = io::copy(&mut (&mut self.packed).take(length.into()), &mut io::sink())?;
                    if skipped < length.into() {
                        return Err(io::ErrorKind::UnexpectedEof.into());
                    }
                }
                Err(error) => return Err(self.failed(error)),
            }
        }
    }

    fn end(&mut self) -> io::Result<()> {
        self.is_open = false;
        match (self.frame.get_checksum_from_data(), self.frame.get_calculated_checksum()) {
            (Some(stored), Some(found)) if stored != found => {
                Err(io::Error::new(io::ErrorKind::InvalidData, "the checksum of a frame does not match"))
            }
            _ => Ok(()),
        }
    }

    /// Several of the decoder's errors can mean that the stream ended, so the stream itself is checked.
    fn failed(&mut self, error: FrameDecoderError) -> io::Error {
        if matches!(error, FrameDecoderError::WindowSizeTooBig { .. }) {
            let what = "its window is over 128 MiB; pack it without --long, or unpack it";
            return io::Error::new(io::ErrorKind::Unsupported, what);
        }
        match self.packed.fill_buf() {
            Ok([]) => io::ErrorKind::UnexpectedEof.into(),
            Ok(_) => io::Error::new(io::ErrorKind::InvalidData, error.to_string()),
            Err(error) => error,
        }
    }
}

impl<R: BufRead> Read for ZstdDecoder<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if into.is_empty() {
            return Ok(0);
        }
        loop {
            if !self.is_open && !self.begin()? {
                return Ok(0);
            }
            while self.frame.can_collect() == 0 && !self.frame.is_finished() {
                let decoded =
                    self.frame.decode_blocks(&mut self.packed, BlockDecodingStrategy::UptoBlocks(1));
                if let Err(error) = decoded {
                    return Err(self.failed(error));
                }
            }
            let read = self.frame.read(into)?;
            if self.frame.is_finished() && self.frame.can_collect() == 0 {
                self.end()?;
            }
            if read > 0 {
                return Ok(read);
            }
        }
    }
}

/// The error for a temporary file that cannot be written.
pub(super) fn no_room(error: io::Error) -> io::Error {
    let place = std::env::temp_dir();
    let what = format!(
        "a table from a stream is read more than once, and {} cannot hold a copy of it ({error}); set TMPDIR to \
         a directory that can, or give a file",
        place.display()
    );
    io::Error::other(what)
}
