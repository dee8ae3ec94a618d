//! The log of the questions that an index was asked: off until somebody asks for it, bounded, and deletable.
//!
//! It is a plain file of JSON lines that every handle appends to as long as the file is there, read-only
//! ones too. Nothing is promised of it: it is no part of snapshots, and lines that a crash tore are passed
//! over. So its operations do not go through [`Backend`](crate::disk::Backend).

use std::collections::HashSet;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

use rustix::fs::OFlags;
use serde::{Deserialize, Serialize};

use super::Index;
use crate::disk::{Kind, names};
use crate::error::Result;
use crate::judgment::now;
use crate::store::{Damage, Operation, StoreError};

/// Bytes of the log at most, about: the older half is dropped then.
pub const MOST_LOG_BYTES: u64 = 8 << 20;
/// Longer questions are not logged.
const LONGEST_QUESTION: usize = 16 << 10;

/// A question that the index was asked in text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct LoggedQuestion {
    /// The question as it was asked.
    pub question: String,
    /// When, in seconds since 1970 (UTC).
    pub time: u64,
}

#[derive(Serialize)]
struct Line<'a> {
    question: &'a str,
    time: u64,
}

impl Index {
    /// Begins to write down every question that is asked in text, or ends it and deletes what was written.
    ///
    /// Holds for all handles and processes from the next question on. The log is a plain file, `QUESTIONS` in
    /// the directory of the index, readable by its owner alone, of [`MOST_LOG_BYTES`] at most: then its older
    /// half goes. [`Self::tune`](Self#method.tune) and [`Self::calibrate`] learn from it. A snapshot does not
    /// copy it.
    ///
    /// # Errors
    /// [`StoreError::ReadOnly`], and failures of the file system.
    pub fn log_questions(&self, on: bool) -> Result<()> {
        self.check_writable()?;
        self.root.check()?;
        let path = self.path().join(names::QUESTIONS);
        if on {
            // A link or a FIFO there would take no question.
            let there = self.root.backend().kind(&path).map_err(StoreError::io(&path, Operation::Create))?;
            if there.is_some_and(|kind| kind != Kind::File) {
                return Err(StoreError::corrupt(names::QUESTIONS, Damage::NotAFile).into());
            }
            let made = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path);
            return match made {
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                    Err(StoreError::io(path, Operation::Create)(error).into())
                }
                _ => Ok(()),
            };
        }
        // A process that is about to begin a new file is waited for, so that none comes back.
        let _held = open(OpenOptions::new().append(true), &path).and_then(|file| file.lock().map(|()| file));
        for name in [names::QUESTIONS, names::QUESTIONS_OLD, names::QUESTIONS_NEW] {
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

    /// Whether questions are written down.
    pub fn logs_questions(&self) -> bool {
        self.path().join(names::QUESTIONS).exists()
    }

    /// The questions that were written down, the oldest first, each as often as it was asked.
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
            // The file may be larger than any that we leave: its end is what counts.
            let mut file = file;
            let length = file.metadata().map_err(io(Operation::Read))?.len();
            let start = length.saturating_sub(MOST_LOG_BYTES);
            file.seek(SeekFrom::Start(start)).map_err(io(Operation::Read))?;
            for line in BufReader::new(file.take(MOST_LOG_BYTES)).split(b'\n') {
                let line = line.map_err(io(Operation::Read))?;
                // What a crash tore is passed over.
                found.extend(serde_json::from_slice::<LoggedQuestion>(&line));
            }
        }
        Ok(found)
    }

    /// The newest questions that were logged or judged, each once, the newest first, so many at most.
    ///
    /// # Errors
    /// Failures of reading the judgments; a log that cannot be read is passed over with a warning.
    pub fn asked(&self, most: usize) -> Result<Vec<String>> {
        let judged = self.judgments()?.into_iter().map(|judgment| (judgment.time, judgment.question));
        let logged = self.logged_questions().unwrap_or_else(|error| {
            // Nothing rests on it.
            tracing::warn!(index = %self.path().display(), %error, "the log of questions cannot be read");
            Vec::new()
        });
        let logged = logged.into_iter().map(|logged| (logged.time, logged.question));
        let mut asked: Vec<(u64, String)> =
            judged.chain(logged).filter(|(_, question)| !question.trim().is_empty()).collect();
        asked.sort_by(|a, b| b.cmp(a));
        let mut seen = HashSet::new();
        let asked = asked.into_iter().map(|(_, question)| question);
        Ok(asked.filter(|question| seen.insert(question.clone())).take(most).collect())
    }

    /// Writes a question down where that is wanted. No search fails for it.
    pub(super) fn log_question(&self, question: &str) {
        if question.len() > LONGEST_QUESTION {
            return;
        }
        if let Err(error) = append(self.path(), question)
            && error.kind() != io::ErrorKind::NotFound
        {
            tracing::debug!(index = %self.path().display(), %error, "a question was not logged");
        }
    }
}

/// A file of the log: no link, and no FIFO.
fn open(options: &mut OpenOptions, path: &Path) -> io::Result<File> {
    let file = options.custom_flags((OFlags::NOFOLLOW | OFlags::NONBLOCK).bits() as i32).open(path)?;
    match file.metadata()?.is_file() {
        true => Ok(file),
        false => Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file")),
    }
}

/// Appends a line in one write, so that lines of several processes do not mix.
fn append(dir: &Path, question: &str) -> io::Result<()> {
    let mut file = open(OpenOptions::new().append(true), &dir.join(names::QUESTIONS))?;
    let time = now();
    // In front of a line that was torn there is no line feed.
    let mut line = b"\n".to_vec();
    serde_json::to_writer(&mut line, &Line { question, time })?;
    file.write_all(&line)?;
    if file.metadata()?.len() > MOST_LOG_BYTES / 2 {
        turn_over(dir, &file)?;
    }
    Ok(())
}

/// Begins a new file; the one so far takes the place of the older one. There is a file at every moment, since
/// without one nothing is logged. One process does it; the others go on.
fn turn_over(dir: &Path, full: &File) -> io::Result<()> {
    let [now, old, new] =
        [names::QUESTIONS, names::QUESTIONS_OLD, names::QUESTIONS_NEW].map(|name| dir.join(name));
    let is_current = || Ok::<_, io::Error>(fs::symlink_metadata(&now)?.ino() == full.metadata()?.ino());
    if full.try_lock().is_err() || !is_current()? {
        return Ok(());
    }
    for path in [&new, &old] {
        match fs::remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    OpenOptions::new().write(true).create_new(true).mode(0o600).open(&new)?;
    fs::hard_link(&now, &old)?;
    fs::rename(&new, &now)
}

/// Removes a file that was begun in [`turn_over`], unless a process is at it.
pub(super) fn clear_begun_log(dir: &Path) -> std::result::Result<(), StoreError> {
    let _held = match open(OpenOptions::new().append(true), &dir.join(names::QUESTIONS)) {
        // The process that begins a file holds the lock.
        Ok(log) => match log.try_lock() {
            Ok(()) => Some(log),
            Err(_) => return Ok(()),
        },
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(_) => return Ok(()),
    };
    let new = dir.join(names::QUESTIONS_NEW);
    match fs::remove_file(&new) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(StoreError::io(new, Operation::Remove)(error))
        }
        _ => Ok(()),
    }
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
        assert!(!dir.path().join(names::QUESTIONS_NEW).exists());
    }
}
