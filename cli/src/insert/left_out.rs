//! Counts of skipped folder entries and file values, by reason.

use ehi::data::FolderReport;
use serde::Serialize;

#[derive(Default, Serialize)]
pub struct LeftOut {
    hidden: u64,
    ignored: u64,
    links: u64,
    others: u64,
    empty: u64,
    /// Values of a file that are not in any document.
    pub values: u64,
}

impl LeftOut {
    pub fn add(&mut self, report: &FolderReport) {
        self.hidden += report.hidden;
        self.ignored += report.ignored;
        self.links += report.links;
        self.others += report.others;
        self.empty += report.empty;
    }

    /// What was not read; empty if everything was.
    pub fn line(&self) -> String {
        let Self { hidden, ignored, links, others, empty, values } = *self;
        let value = if values == 1 { "value" } else { "values" };
        super::tally::listed(&[
            (hidden, "hidden"),
            (ignored, "ignored"),
            (links, "links"),
            (others, "of other kinds"),
            (empty, "without text"),
            (values, value),
        ])
    }
}
