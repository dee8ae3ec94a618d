//! Reads documents on a separate thread, so that an interrupt does not wait for input.

use std::fs;
use std::panic;
use std::path::Path;
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use ehi::Document;
use ehi::data::{DataError, Documents, FolderReport, Note};

use super::origin::Opener;
use crate::failure::Failure;
use crate::interrupt::Interrupts;

/// How often the reader checks for an interrupt.
const POLL: Duration = Duration::from_millis(50);

/// A document with its line, 0 if an input cannot be opened, and the bytes of all inputs read so far.
pub struct ReadDocument {
    pub document: Result<Document, DataError>,
    pub line: u64,
    pub position: u64,
}

/// The documents of one input.
pub struct Reading {
    name: String,
    read: Receiver<ReadDocument>,
    thread: Option<JoinHandle<Option<Documents>>>,
    is_folder: bool,
    /// The input, once reading it has ended.
    ended: Option<Documents>,
}

impl Reading {
    /// `before` are the bytes of the inputs before this one.
    pub fn begin(
        path: &Path,
        name: String,
        open: Opener,
        is_folder: bool,
        before: u64,
    ) -> Result<Self, Failure> {
        // An unbuffered channel, because documents may be large.
        let (send, read) = sync_channel(0);
        let run = move || {
            // Opened here, because it may wait for the first bytes.
            let mut documents = match open() {
                Ok(documents) => documents,
                Err(error) => {
                    // The receiver is dropped at an interrupt.
                    let _ = send.send(ReadDocument { document: Err(error), line: 0, position: before });
                    return None;
                }
            };
            while let Some(document) = documents.next() {
                let failed = document.as_ref().is_err_and(|error| !goes_on(error, is_folder));
                let (line, position) = (documents.line(), before + documents.position());
                let read = ReadDocument { document, line, position };
                // The receiver is dropped at an error or an interrupt.
                if send.send(read).is_err() || failed {
                    break;
                }
            }
            Some(documents)
        };
        let thread = thread::Builder::new().name("read".to_owned()).spawn(run);
        let thread = Some(thread.map_err(Failure::file("read", path))?);
        Ok(Self { name, read, thread, is_folder, ended: None })
    }

    /// The report of a folder, once all of it was read.
    pub fn folder(&self) -> Option<&FolderReport> {
        self.ended.as_ref()?.folder()
    }

    /// Named fields that no record had, once all of the input was read.
    pub fn unseen(&self) -> &[String] {
        self.ended.as_ref().map_or(&[], Documents::unseen)
    }

    /// Notes on the input, once it has ended.
    pub fn notes(&mut self) -> Vec<Note> {
        self.finish();
        self.ended.as_ref().map_or_else(Vec::new, Documents::notes)
    }

    /// The place of a document in errors.
    pub fn place(&self, line: u64, id: &str) -> String {
        if self.is_folder { format!("{}: {id}", self.name) } else { format!("{}:{line}", self.name) }
    }

    /// Whether documents may follow an error.
    pub fn goes_on(&self, error: &DataError) -> bool {
        goes_on(error, self.is_folder)
    }

    /// The next document; `None` at the end and after an interrupt.
    pub fn next(&mut self, interrupts: &Interrupts) -> Option<ReadDocument> {
        while interrupts.signal().is_none() {
            match self.read.recv_timeout(POLL) {
                Ok(read) => return Some(read),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => {
                    self.finish();
                    return None;
                }
            }
        }
        None
    }

    /// Collects the results of the finished thread.
    fn finish(&mut self) {
        // A panic there must not pass for the end of the input.
        match self.thread.take().map(JoinHandle::join) {
            Some(Err(panicked)) => panic::resume_unwind(panicked),
            Some(Ok(ended)) => self.ended = ended,
            None => {}
        }
    }
}

fn goes_on(error: &DataError, is_folder: bool) -> bool {
    error.is_of_one_record() || is_folder && error.is_of_one_file()
}

/// The total size of all inputs, if all are files.
pub fn bytes_of<'a>(paths: impl IntoIterator<Item = &'a Path>) -> Option<u64> {
    let size = |path: &Path| fs::metadata(path).ok().filter(fs::Metadata::is_file).map(|file| file.len());
    paths.into_iter().map(size).sum()
}
