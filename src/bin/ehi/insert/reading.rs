//! Documents read on a thread of their own, so that an interrupt does not wait for input.

use std::fs::{self, File};
use std::io;
use std::panic;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use ehi::Document;
use ehi::data::{DataError, Dataset, Documents, read_documents};

use super::bar::InsertBar;
use crate::failure::Failure;
use crate::interrupt::Interrupts;
use crate::printing;

/// The path that means standard input.
const STDIN: &str = "-";
/// How often it is looked whether an interrupt came.
const POLL: Duration = Duration::from_millis(50);

/// A document with the line that it is from, and the bytes of all inputs read by then.
pub struct Read {
    pub document: Result<Document, DataError>,
    pub line: u64,
    pub position: u64,
}

/// The documents of one input.
pub struct Reading {
    name: String,
    read: Receiver<Read>,
    thread: Option<JoinHandle<()>>,
}

impl Reading {
    pub fn begin(path: &Path, bar: &InsertBar) -> Result<Self, Failure> {
        let name = if path == Path::new(STDIN) { "<stdin>".to_owned() } else { printing::path(path) };
        let documents = open(path, &name, bar)?;
        // No document waits in the channel: one may be large.
        let (send, read) = sync_channel(0);
        let position = bar.position();
        let run = move || {
            let mut documents = documents;
            while let Some(document) = documents.next() {
                let failed = document.is_err();
                let read = Read { document, line: documents.line(), position: position() };
                // The other end goes away at an error or an interrupt.
                if send.send(read).is_err() || failed {
                    return;
                }
            }
        };
        let thread = thread::Builder::new().name("read".to_owned()).spawn(run);
        Ok(Self { name, read, thread: Some(thread.map_err(Failure::file("read", path))?) })
    }

    /// What errors call the input.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The next document; none at the end, and after an interrupt.
    pub fn next(&mut self, interrupts: &Interrupts) -> Option<Read> {
        while interrupts.signal().is_none() {
            match self.read.recv_timeout(POLL) {
                Ok(read) => return Some(read),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => {
                    // A panic there must not pass for the end of the input.
                    if let Some(Err(panicked)) = self.thread.take().map(JoinHandle::join) {
                        panic::resume_unwind(panicked);
                    }
                    return None;
                }
            }
        }
        None
    }
}

fn open(path: &Path, name: &str, bar: &InsertBar) -> Result<Documents, Failure> {
    if path == Path::new(STDIN) {
        return Ok(read_documents(bar.counting(io::stdin()), name));
    }
    if path.is_dir() {
        return Ok(Dataset::open(path)?.corpus()?);
    }
    let file = File::open(path).map_err(Failure::file("open", path))?;
    Ok(read_documents(bar.counting(file), name))
}

/// The size of all inputs together, where all of them are files.
pub fn bytes_of(paths: &[PathBuf]) -> Option<u64> {
    let size = |path: &PathBuf| fs::metadata(path).ok().filter(fs::Metadata::is_file).map(|file| file.len());
    paths.iter().map(size).sum()
}
