//! Progress of an insert: the bytes of input whose documents are stored, of all bytes.

use indicatif::{HumanCount, HumanDuration, ProgressBar};

use crate::bars;

pub struct InsertBar {
    bar: ProgressBar,
    read: u64,
    stored: u64,
    /// Bytes of the input up to the last stored group.
    behind: u64,
}

impl InsertBar {
    /// Shows the bar, or a spinner if the size of the input is unknown.
    pub fn begin(bytes: Option<u64>) -> Self {
        Self { bar: bars::begin("insert", bytes), read: 0, stored: 0, behind: 0 }
    }

    /// Counts a document that was read.
    pub fn read(&mut self) {
        self.read += 1;
        self.show();
    }

    /// Updates the number of stored documents after a group that ends at that byte.
    pub fn stored(&mut self, stored: u64, end: u64, done: u64, total: Option<u64>) {
        self.stored = stored;
        let share = total.filter(|total| *total > 0).map_or(1.0, |total| done as f64 / total as f64);
        self.bar.set_position(self.behind + (end.saturating_sub(self.behind) as f64 * share) as u64);
        if share >= 1.0 {
            self.behind = end;
        }
        self.show();
    }

    /// Removes the bar.
    pub fn end(&self) {
        bars::end(&self.bar);
    }

    /// Updates the text next to the bar.
    fn show(&self) {
        let mut text = format!("{} documents read", HumanCount(self.read));
        if self.stored > 0 {
            text += &format!(", {} stored", HumanCount(self.stored));
        }
        let elapsed = self.bar.elapsed();
        if let Some(rate) = bars::rate(self.stored, elapsed).filter(|_| self.stored > 0) {
            text += &format!(", {rate}");
            // Estimated from stored documents, because reading is far ahead.
            if let Some(bytes) = self.bar.length().filter(|_| self.bar.position() > 0) {
                let done = self.bar.position();
                let left = elapsed.mul_f64(bytes.saturating_sub(done) as f64 / done as f64);
                text += &format!(", {:#} left", HumanDuration(left));
            }
        }
        self.bar.set_message(text);
    }
}
