//! Progress of an insert: the bytes of input whose documents are stored, of all bytes.

use std::fmt;
use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use indicatif::{HumanCount, HumanDuration, ProgressBar, ProgressState};

use crate::bars;

pub struct InsertBar {
    bar: ProgressBar,
    counts: Arc<Counts>,
    /// Bytes of the input up to the last stored group.
    behind: u64,
}

#[derive(Default)]
struct Counts {
    read: AtomicU64,
    stored: AtomicU64,
}

impl InsertBar {
    /// Shows the bar, or a spinner if the size of the input is unknown.
    pub fn begin(bytes: Option<u64>) -> Self {
        let counts = Arc::new(Counts::default());
        let shown = Arc::clone(&counts);
        let write = move |state: &ProgressState, out: &mut dyn fmt::Write| shown.write(state, out);
        Self { bar: bars::begin("insert", bytes, write), counts, behind: 0 }
    }

    /// Counts a document that was read.
    pub fn read(&self) {
        self.counts.read.fetch_add(1, Ordering::Relaxed);
    }

    /// Updates the number of stored documents after a group that ends at that byte.
    pub fn stored(&mut self, stored: u64, end: u64, done: u64, total: Option<u64>) {
        self.counts.stored.store(stored, Ordering::Relaxed);
        let share = total.filter(|total| *total > 0).map_or(1.0, |total| done as f64 / total as f64);
        self.bar.set_position(self.behind + (end.saturating_sub(self.behind) as f64 * share) as u64);
        if share >= 1.0 {
            self.behind = end;
        }
    }

    /// Prints a line on standard error, above the bar.
    pub fn say(&self, line: &str) {
        // If standard error is closed, the exit status still reports the failure.
        self.bar.suspend(|| {
            let _ = writeln!(io::stderr(), "{line}");
        });
    }

    /// Removes the bar.
    pub fn end(&self) {
        bars::end(&self.bar);
    }
}

impl Counts {
    /// Writes the text next to the bar; writing to a string cannot fail.
    fn write(&self, state: &ProgressState, out: &mut dyn fmt::Write) {
        let read = HumanCount(self.read.load(Ordering::Relaxed));
        let stored = self.stored.load(Ordering::Relaxed);
        if stored == 0 {
            let _ = write!(out, "{read} documents read");
            return;
        }
        let elapsed = state.elapsed();
        let _ = write!(out, "{read} documents read, {} stored", HumanCount(stored));
        if let Some(rate) = bars::rate(stored, elapsed) {
            let _ = write!(out, ", {rate}");
            // Estimated from stored documents, because reading is far ahead.
            if let Some(bytes) = state.len().filter(|_| state.pos() > 0) {
                let left = bytes.saturating_sub(state.pos()) as f64 / state.pos() as f64;
                let _ = write!(out, ", {:#} left", HumanDuration(elapsed.mul_f64(left)));
            }
        }
    }
}
