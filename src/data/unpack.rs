//! Streams that may be compressed with gzip or zstd, detected from their first bytes.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Cursor, Read, Seek, Write};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use flate2::bufread::MultiGzDecoder;
use ruzstd::decoding::errors::{FrameDecoderError, ReadFrameHeaderError};
use ruzstd::decoding::{BlockDecodingStrategy, FrameDecoder};
use tempfile::{SpooledData, SpooledTempFile};

use super::error::{DataError, DataErrorKind, Place};
use super::lines::BYTE_ORDER_MARK;

const GZIP_MAGIC: &[u8] = &[0x1f, 0x8b];
const ZSTD_MAGIC: &[u8] = &[0x28, 0xb5, 0x2f, 0xfd];
/// The bytes after the first of a skippable frame.
const SKIPPABLE_REST: &[u8] = &[0x2a, 0x4d, 0x18];
/// Large enough for few system calls, small enough for the cache.
const BUFFER_BYTES: usize = 64 << 10;

type ByteStream = Box<dyn BufRead + Send>;

/// Bytes of a copy kept in memory; a larger one is a temporary file.
const IN_MEMORY: usize = 4 << 20;

/// Counts the bytes that are read.
struct Counting<R> {
    reader: R,
    bytes: Arc<AtomicU64>,
}

impl<R: Read> Read for Counting<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let read = self.reader.read(into)?;
        self.bytes.fetch_add(read as u64, Ordering::Relaxed);
        Ok(read)
    }
}

/// The unpacked bytes of a stream without a byte order mark, and the name of the stream in errors.
pub(super) struct Unpacked {
    pub name: String,
    /// The count of packed bytes read so far.
    pub position: Arc<AtomicU64>,
    /// The raw stream, until its first bytes are needed to detect the compression.
    packed: Option<Box<dyn Read + Send>>,
    /// The compression, if any.
    packing: Option<&'static str>,
    bytes: ByteStream,
}

impl Unpacked {
    /// Reads nothing yet.
    pub fn new(reader: impl Read + Send + 'static, name: impl Into<String>) -> Self {
        let position = Arc::default();
        let packed = Box::new(Counting { reader, bytes: Arc::clone(&position) });
        let bytes = Box::new(io::empty());
        Self { name: name.into(), position, packed: Some(packed), packing: None, bytes }
    }

    fn bytes(&mut self) -> io::Result<&mut ByteStream> {
        if let Some(packed) = self.packed.take() {
            (self.packing, self.bytes) = unpack(packed)?;
            let mut head = Vec::new();
            read_as(&mut self.bytes, BYTE_ORDER_MARK.as_bytes(), &mut head)?;
            if !head.is_empty() && head != BYTE_ORDER_MARK.as_bytes() {
                self.put(head);
            }
        }
        Ok(&mut self.bytes)
    }

    pub fn place(&self, line: u64) -> Place<'_> {
        Place { name: &self.name, line }
    }

    /// The error for a read that failed at a line: the system's, or that of a damaged stream.
    fn error(&self, line: u64, source: io::Error) -> DataError {
        let (at, kind) = (self.place(line), source.kind());
        match (self.packing, kind) {
            (Some(packing), io::ErrorKind::UnexpectedEof) => {
                let message = format!("the {packing} stream is cut off in line {line}; fetch the file again");
                at.error(DataErrorKind::CutOff, message)
            }
            (Some(packing), io::ErrorKind::InvalidInput | io::ErrorKind::InvalidData) => {
                let message =
                    format!("the {packing} stream is damaged near line {line}; fetch the file again");
                at.error(DataErrorKind::Damaged, message).with(source)
            }
            _ => at.error(DataErrorKind::Read, format!("reading failed at line {line}")).with(source),
        }
    }

    /// The buffered bytes, empty at the end; the line is for errors.
    pub fn fill(&mut self, line: u64) -> Result<&[u8], DataError> {
        match self.bytes().and_then(|bytes| bytes.fill_buf().map(<[u8]>::len)) {
            Ok(0) => Ok(&[]),
            // They are in the buffer already.
            Ok(_) => Ok(self.bytes.fill_buf().unwrap_or_default()),
            Err(source) => Err(self.error(line, source)),
        }
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
        self.packing.is_some()
    }

    /// Copies the rest of the stream, after bytes that were read before it.
    fn copied(mut self, before: &[u8]) -> Result<SpooledTempFile, DataError> {
        let mut copy = SpooledTempFile::new(IN_MEMORY);
        let mut line = 1;
        copy.write_all(before).map_err(|source| self.error(line, no_room(source)))?;
        loop {
            let waiting = self.fill(line)?;
            let (read, lines) = (waiting.len(), waiting.iter().filter(|byte| **byte == b'\n').count());
            let written = if read == 0 { copy.rewind() } else { copy.write_all(waiting) };
            written.map_err(|source| self.error(line, no_room(source)))?;
            if read == 0 {
                return Ok(copy);
            }
            line += lines as u64;
            self.consume(read);
        }
    }

    /// A temporary file with the rest of the stream.
    #[cfg(feature = "parquet")]
    pub fn into_file(self) -> Result<File, DataError> {
        let name = self.name.clone();
        let file = self.copied(&[])?.into_file();
        file.map_err(|source| {
            Place { name: &name, line: 1 }.error(DataErrorKind::Read, "reading failed").with(no_room(source))
        })
    }

    /// Inserts bytes before the rest of the stream.
    pub fn put(&mut self, before: Vec<u8>) {
        let bytes = std::mem::replace(&mut self.bytes, Box::new(io::empty()));
        self.bytes = Box::new(Cursor::new(before).chain(bytes));
    }
}

/// What can be read repeatedly from its start: a file, or a copy of a stream.
pub(super) struct Again {
    name: String,
    data: Repeatable,
}

enum Repeatable {
    File(File),
    Memory(Arc<[u8]>),
}

impl Again {
    /// A regular file.
    pub fn of_file(file: File, name: impl Into<String>) -> Self {
        Self { name: name.into(), data: Repeatable::File(file) }
    }

    /// A copy of a stream, and of bytes that were read before it.
    pub fn copy(stream: Unpacked, before: &[u8]) -> Result<Self, DataError> {
        let name = stream.name.clone();
        let data = match stream.copied(before)?.into_inner() {
            SpooledData::InMemory(bytes) => Repeatable::Memory(bytes.into_inner().into()),
            SpooledData::OnDisk(file) => Repeatable::File(file),
        };
        Ok(Self { name, data })
    }

    /// Starts from the beginning. An earlier stream must not continue.
    pub fn stream(&self) -> Result<Unpacked, DataError> {
        match &self.data {
            Repeatable::Memory(bytes) => Ok(Unpacked::new(Cursor::new(Arc::clone(bytes)), &*self.name)),
            Repeatable::File(file) => {
                let again = file.try_clone().and_then(|mut file| file.rewind().map(|()| file));
                let failed = |source| DataError::open(Path::new(&self.name), source);
                Ok(Unpacked::new(again.map_err(failed)?, &*self.name))
            }
        }
    }

    /// The file itself, if it is one.
    #[cfg(feature = "parquet")]
    pub fn into_file(self) -> Option<File> {
        match self.data {
            Repeatable::File(file) => Some(file),
            Repeatable::Memory(_) => None,
        }
    }
}

/// Reads bytes into `head` for as long as they can be the start of `magic`.
fn read_as(reader: &mut impl Read, magic: &[u8], head: &mut Vec<u8>) -> io::Result<()> {
    while head.len() < magic.len() && magic.starts_with(head) && reader.take(1).read_to_end(head)? > 0 {}
    Ok(())
}

/// The unpacked bytes of a stream; reads its first bytes. The bytes decide, not the name.
fn unpack(mut reader: impl Read + Send + 'static) -> io::Result<(Option<&'static str>, ByteStream)> {
    let mut head = Vec::with_capacity(ZSTD_MAGIC.len());
    // Reads no further than needed to tell them apart: more may not arrive for long.
    for magic in [GZIP_MAGIC, ZSTD_MAGIC] {
        if magic.starts_with(&head) || is_skippable(&head) {
            (&mut reader).take((magic.len() - head.len()) as u64).read_to_end(&mut head)?;
        }
    }
    let (is_gzip, is_zstd) = (head.starts_with(GZIP_MAGIC), head == ZSTD_MAGIC || is_skippable(&head));
    let whole = BufReader::with_capacity(BUFFER_BYTES, Cursor::new(head).chain(reader));
    Ok(match (is_gzip, is_zstd) {
        (true, _) => {
            (Some("gzip"), Box::new(BufReader::with_capacity(BUFFER_BYTES, MultiGzDecoder::new(whole))))
        }
        (_, true) => {
            (Some("zstd"), Box::new(BufReader::with_capacity(BUFFER_BYTES, ZstdDecoder::new(whole))))
        }
        (false, false) => (None, Box::new(whole)),
    })
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
        "a stream that is read more than once is copied, and {} cannot hold the copy ({error}); set TMPDIR to \
         a directory that can, or give a file",
        place.display()
    );
    io::Error::other(what)
}
