//! A stream that can be read repeatedly from its start.

use std::fs::File;
use std::io::{self, Read, Seek, Write};
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tempfile::SpooledTempFile;

use super::error::DataError;
use super::streams::Counting;
use super::unpack::{Unpacked, no_room};

/// Bytes of a stream kept in memory; the rest goes into a temporary file.
const IN_MEMORY: usize = 4 << 20;

/// A file, or a stream whose read bytes are kept.
#[derive(Clone)]
pub(super) struct Again(Arc<Mutex<Origin>>);

/// One reading from the start, with the count of the packed bytes that were read.
pub(super) struct Pass {
    pub stream: Unpacked,
    pub position: Arc<AtomicU64>,
}

enum Origin {
    File(File),
    Stream(Box<Kept>),
}

struct Kept {
    reader: Box<dyn Read + Send>,
    /// Bytes read so far; `None` once the last pass has gone beyond them.
    kept: Option<SpooledTempFile>,
    is_keeping: bool,
    end: Option<End>,
}

/// The end of a reader, which is not polled again.
enum End {
    Whole,
    Failed(io::ErrorKind, String),
}

impl Again {
    /// A regular file.
    pub fn of_file(file: File) -> Self {
        Self(Arc::new(Mutex::new(Origin::File(file))))
    }

    pub fn of_stream(reader: impl Read + Send + 'static) -> Self {
        let kept = Some(SpooledTempFile::new(IN_MEMORY));
        let stream = Kept { reader: Box::new(reader), kept, is_keeping: true, end: None };
        Self(Arc::new(Mutex::new(Origin::Stream(Box::new(stream)))))
    }

    /// Starts a pass. An earlier pass must not continue.
    pub fn pass(&self, name: &str) -> Result<Pass, DataError> {
        let rewound = match &mut *self.lock() {
            Origin::File(file) => file.rewind(),
            Origin::Stream(stream) => stream.kept.as_mut().map_or(Ok(()), Seek::rewind),
        };
        let (reader, position) = Counting::new(self.clone());
        let stream = Unpacked::new(reader, name);
        match rewound {
            Ok(()) => Ok(Pass { stream, position }),
            Err(source) => Err(stream.error(1, source)),
        }
    }

    /// Marks this pass as the last one, so that nothing more is kept.
    pub fn keep_no_more(&self) {
        if let Origin::Stream(stream) = &mut *self.lock() {
            stream.is_keeping = false;
        }
    }

    /// The file itself, unless its content is compressed.
    #[cfg(feature = "parquet")]
    pub fn file(&self, pass: &mut Pass) -> Result<Option<File>, DataError> {
        // The first bytes show whether it is.
        pass.stream.fill(1)?;
        match &*self.lock() {
            Origin::File(file) if !pass.stream.is_packed() => {
                file.try_clone().map(Some).map_err(|source| pass.stream.error(1, source))
            }
            _ => Ok(None),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Origin> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Read for Again {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        match &mut *self.lock() {
            Origin::File(file) => file.read(into),
            Origin::Stream(stream) => stream.read(into),
        }
    }
}

impl Kept {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if into.is_empty() {
            return Ok(0);
        }
        let read = self.kept_or_next(into);
        if let Err(error) = &read
            && error.kind() != io::ErrorKind::Interrupted
        {
            // Bytes that were read but not kept may be lost, so no pass continues after them.
            self.end = Some(End::Failed(error.kind(), error.to_string()));
        }
        read
    }

    fn kept_or_next(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if let Some(kept) = &mut self.kept {
            let read = kept.read(into)?;
            if read > 0 {
                return Ok(read);
            }
            if !self.is_keeping {
                self.kept = None;
            }
        }
        match &self.end {
            Some(End::Whole) => return Ok(0),
            Some(End::Failed(kind, what)) => return Err(io::Error::new(*kind, what.clone())),
            None => {}
        }
        let read = self.reader.read(into)?;
        match &mut self.kept {
            _ if read == 0 => self.end = Some(End::Whole),
            Some(kept) => kept.write_all(&into[..read]).map_err(no_room)?,
            None => {}
        }
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns its bytes, then one error, then the end, as a socket may.
    struct Once(io::Cursor<Vec<u8>>, bool);

    impl Read for Once {
        fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
            match self.0.read(into)? {
                0 if !std::mem::replace(&mut self.1, true) => Err(io::Error::other("unplugged")),
                read => Ok(read),
            }
        }
    }

    fn whole(again: &Again) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        let mut pass = again.pass("in").map_err(|error| io::Error::other(error.to_string()))?;
        pass.stream.bytes()?.read_to_end(&mut bytes).map(|_| bytes)
    }

    #[test]
    fn every_reading_has_the_same_bytes() {
        // More than is kept in memory.
        let bytes: Vec<u8> = (0..IN_MEMORY as u32 / 2).flat_map(u32::to_le_bytes).collect();
        let again = Again::of_stream(io::Cursor::new(bytes.clone()));
        // The first reading stops early.
        let mut first = [0; 1000];
        again.pass("in").unwrap().stream.bytes().unwrap().read_exact(&mut first).unwrap();
        assert!(whole(&again).unwrap() == bytes);
        let pass = again.pass("in").unwrap();
        again.keep_no_more();
        let (mut stream, mut last) = (pass.stream, Vec::new());
        stream.bytes().unwrap().read_to_end(&mut last).unwrap();
        assert!(last == bytes);
    }

    #[test]
    fn what_cannot_be_kept_is_an_error_of_every_reading() {
        let kept = Some(SpooledTempFile::new_in(1_000, "/no/such/folder"));
        let reader = Box::new(io::Cursor::new(vec![b'x'; 1 << 20]));
        let stream = Kept { reader, kept, is_keeping: true, end: None };
        let again = Again(Arc::new(Mutex::new(Origin::Stream(Box::new(stream)))));
        for _ in 0..3 {
            let error = whole(&again).unwrap_err().to_string();
            assert!(error.contains("cannot hold a copy of it") && error.contains("set TMPDIR"), "{error}");
        }
    }

    #[test]
    fn a_failure_is_met_by_every_reading() {
        let again = Again::of_stream(Once(io::Cursor::new(b"id,text\n".to_vec()), false));
        for _ in 0..3 {
            assert_eq!(whole(&again).unwrap_err().to_string(), "unplugged");
        }
    }
}
