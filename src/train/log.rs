//! The JSON-lines log of a run: one [`TrainEvent`] per line, with the seconds since the run began.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Instant;

use serde::Serialize;

use super::error::TrainError;
use super::report::TrainEvent;

/// Appends events to a file.
pub(crate) struct Log {
    path: PathBuf,
    file: File,
    started: Instant,
    failed: bool,
}

#[derive(Serialize)]
struct Line<'a> {
    /// Seconds since this process began the run; events have a `seconds` of their own.
    at: f64,
    #[serde(flatten)]
    event: &'a TrainEvent,
}

impl Log {
    /// Opens the file for appending.
    pub(crate) fn open(path: &Path) -> Result<Self, TrainError> {
        let file = OpenOptions::new().create(true).append(true).open(path);
        let file = file.map_err(|source| TrainError::Log { path: path.to_owned(), source })?;
        Ok(Self { path: path.to_owned(), file, started: Instant::now(), failed: false })
    }

    /// Writes one line. A full disk must not end a long run, so a failure is reported once and the run
    /// continues.
    pub(crate) fn write(&mut self, event: &TrainEvent) {
        let line = Line { at: self.started.elapsed().as_secs_f64(), event };
        let written = serde_json::to_vec(&line).map_err(std::io::Error::from).and_then(|mut json| {
            json.push(b'\n');
            self.file.write_all(&json)
        });
        if let Err(error) = written
            && !self.failed
        {
            self.failed = true;
            tracing::warn!(path = %self.path.display(), %error, "the training log cannot be written");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::train::report::IndexerEpochReport;

    #[test]
    fn every_name_of_a_line_is_said_once() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        let epoch = IndexerEpochReport { seconds: 7.0, ..Default::default() };
        Log::open(&path).unwrap().write(&TrainEvent::IndexerEpoch(epoch));
        let line = std::fs::read_to_string(&path).unwrap();
        assert_eq!(line.matches("\"seconds\":").count(), 1, "{line}");
        let read: serde_json::Value = serde_json::from_str(&line).unwrap();
        assert_eq!(read["seconds"], 7.0);
        assert!(read["at"].as_f64().unwrap() < 7.0);
    }
}
