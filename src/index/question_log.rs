//! The log of questions: off by default, bounded, and deletable.
//!
//! It is a plain file of JSON lines. Every handle, even a read-only one, appends to it as long as the file
//! exists. It carries no promise: snapshots do not include it, and lines torn by a crash are skipped. So its
//! operations do not go through [`Backend`](crate::disk::Backend).

use std::collections::HashSet;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::sync::atomic::Ordering::Relaxed;

use serde::{Deserialize, Serialize};

use super::Index;
use crate::disk::{Kind, names, open_regular};
use crate::error::Result;
use crate::judgment::now;
use crate::store::{Damage, Operation, StoreError};

/// Approximate maximum size of the log in bytes: then the older half is dropped.
pub const MOST_LOG_BYTES: u64 = 8 << 20;
/// Longer questions are not logged.
const LONGEST_QUESTION: usize = 16 << 10;

/// A question in text that the index was asked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct LoggedQuestion {
    /// The question as it was asked.
    pub question: String,
    /// Time in seconds since 1970 (UTC).
    pub time: u64,
}

impl Index {
    /// Starts to log every question asked in text, or stops and deletes the log.
    ///
    /// Applies to all handles and processes from the next question on. The log is a plain file, `QUESTIONS`
    /// in the index directory, readable only by its owner, of [`MOST_LOG_BYTES`] at most: then its older half
    /// is dropped. [`Self::tune`](Self#method.tune) and [`Self::calibrate`] learn from it. A snapshot does
    /// not include it.
    ///
    /// # Errors
    /// [`StoreError::ReadOnly`], and failures of the file system.
    pub fn log_questions(&self, on: bool) -> Result<()> {
        self.check_writable()?;
        self.root.check()?;
        let path = self.path().join(names::QUESTIONS);
        if on {
            // A link or a FIFO there could not take questions.
            let there = self.root.backend().kind(&path).map_err(StoreError::io(&path, Operation::Create))?;
            if there.is_some_and(|kind| kind != Kind::File) {
                return Err(StoreError::corrupt(names::QUESTIONS, Damage::NotAFile).into());
            }
            return Ok(create(&path).map_err(StoreError::io(path, Operation::Create))?);
        }
        // Waits for a process that is about to start a new file, so that the file does not reappear. The
        // older file first: while it exists, a missing newer one is made again.
        let _held = open(OpenOptions::new().append(true), &path).and_then(|file| file.lock().map(|()| file));
        for name in [names::QUESTIONS_OLD, names::QUESTIONS] {
            let path = self.path().join(name);
            match fs::remove_file(&path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    return Err(StoreError::io(path, Operation::Remove)(error).into());
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Whether questions are logged.
    pub fn logs_questions(&self) -> bool {
        is_on(self.path())
    }

    /// The logged questions, oldest first, each as often as it was asked.
    ///
    /// # Errors
    /// Failures of reading.
    pub fn logged_questions(&self) -> Result<Vec<LoggedQuestion>> {
        let mut found = Vec::new();
        for name in [names::QUESTIONS_OLD, names::QUESTIONS] {
            let path = self.path().join(name);
            let io = |operation| StoreError::io(&path, operation);
            let file = match open(OpenOptions::new().read(true), &path) {
                Ok(file) => file,
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(error) => return Err(io(Operation::Open)(error).into()),
            };
            // The file may be larger than any that we leave: only its end counts.
            let mut file = file;
            let length = file.metadata().map_err(io(Operation::Read))?.len();
            let start = length.saturating_sub(MOST_LOG_BYTES);
            file.seek(SeekFrom::Start(start)).map_err(io(Operation::Read))?;
            for line in BufReader::new(file.take(MOST_LOG_BYTES)).split(b'\n') {
                let line = line.map_err(io(Operation::Read))?;
                // Lines torn by a crash are skipped.
                found.extend(serde_json::from_slice::<LoggedQuestion>(&line));
            }
        }
        Ok(found)
    }

    /// The newest logged or judged questions, at most `most`, without duplicates, newest first.
    ///
    /// # Errors
    /// Failures of reading the judgments; an unreadable log is skipped with a warning.
    pub fn asked(&self, most: usize) -> Result<Vec<String>> {
        let judged = self.judgments()?.into_iter().map(|judgment| (judgment.time, judgment.question));
        // Nothing depends on it.
        let logged = self.attempted(self.logged_questions(), "the log of questions cannot be read");
        let logged = logged.into_iter().flatten().map(|logged| (logged.time, logged.question));
        let mut asked: Vec<(u64, String)> =
            judged.chain(logged).filter(|(_, question)| !question.trim().is_empty()).collect();
        asked.sort_by(|a, b| b.cmp(a));
        let mut seen = HashSet::new();
        let asked = asked.into_iter().map(|(_, question)| question);
        Ok(asked.filter(|question| seen.insert(question.clone())).take(most).collect())
    }

    /// Logs a question if logging is on. A search never fails because of it; the first failure is a warning.
    pub(super) fn log_question(&self, question: &str) {
        if question.len() > LONGEST_QUESTION {
            return;
        }
        use io::ErrorKind::{NotFound, PermissionDenied, ReadOnlyFilesystem};
        let Err(error) = append(self.path(), question) else { return };
        match error.kind() {
            NotFound => {}
            // Users who may read an index without writing to it do not log their questions.
            PermissionDenied | ReadOnlyFilesystem => {
                tracing::debug!(index = %self.path().display(), %error, "a question was not logged");
            }
            _ if self.warned_of_log.swap(true, Relaxed) => {}
            _ => tracing::warn!(index = %self.path().display(), %error, "questions are not logged"),
        }
    }
}

/// A file of the log, which must not be a link or a FIFO.
fn open(options: &mut OpenOptions, path: &Path) -> io::Result<File> {
    open_regular(options, false, path)
}

/// Creates a file of the log, unless it exists.
fn create(path: &Path) -> io::Result<()> {
    match OpenOptions::new().write(true).create_new(true).mode(0o600).open(path) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
        _ => Ok(()),
    }
}

/// Whether there is a log: between its two files, a process may be starting the newer one, or have crashed.
fn is_on(dir: &Path) -> bool {
    [names::QUESTIONS, names::QUESTIONS_OLD].iter().any(|name| dir.join(name).exists())
}

/// Appends a line in one write, so that lines of several processes do not interleave.
fn append(dir: &Path, question: &str) -> io::Result<()> {
    let path = dir.join(names::QUESTIONS);
    let opened = match open(OpenOptions::new().append(true), &path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound && is_on(dir) => {
            create(&path).and_then(|()| open(OpenOptions::new().append(true), &path))
        }
        opened => opened,
    };
    let mut file = opened?;
    // A torn line lacks its line feed, so each line starts with one.
    let mut line = b"\n".to_vec();
    serde_json::to_writer(&mut line, &LoggedQuestion { question: question.to_owned(), time: now() })?;
    file.write_all(&line)?;
    // One process starts a new file; the others continue with the full one.
    if file.metadata()?.len() > MOST_LOG_BYTES / 2
        && file.try_lock().is_ok()
        && fs::symlink_metadata(&path)?.ino() == file.metadata()?.ino()
    {
        fs::rename(&path, dir.join(names::QUESTIONS_OLD))?;
        create(&path)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_log_is_bounded_and_keeps_what_came_last() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(append(dir.path(), "a").unwrap_err().kind(), io::ErrorKind::NotFound);
        File::create(dir.path().join(names::QUESTIONS)).unwrap();
        let text = "word ".repeat(2_000);
        let many = 2 * MOST_LOG_BYTES as usize / text.len();
        for number in 0..many {
            append(dir.path(), &format!("{number} {text}")).unwrap();
        }
        let sizes = [names::QUESTIONS, names::QUESTIONS_OLD]
            .map(|name| fs::metadata(dir.path().join(name)).unwrap().len());
        assert!(sizes.iter().sum::<u64>() < MOST_LOG_BYTES + (1 << 16), "{sizes:?}");
        let last = fs::read_to_string(dir.path().join(names::QUESTIONS)).unwrap();
        let old = fs::read_to_string(dir.path().join(names::QUESTIONS_OLD)).unwrap();
        assert!((old + &last).contains(&format!("\"{} word", many - 1)));
        // A crash between the two files does not end the log.
        fs::remove_file(dir.path().join(names::QUESTIONS)).unwrap();
        append(dir.path(), "a").unwrap();
        assert!(dir.path().join(names::QUESTIONS).exists());
    }
}
