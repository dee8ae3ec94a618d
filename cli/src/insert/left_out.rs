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

    /// The summary's line; empty if everything was read.
    pub fn line(&self) -> String {
        let Self { hidden, ignored, links, others, empty, values } = *self;
        let all = [
            (hidden, "hidden"),
            (ignored, "ignored"),
            (links, "links"),
            (others, "of other kinds"),
            (empty, "without text"),
            (values, if values == 1 { "value" } else { "values" }),
        ];
        let named = all.iter().filter(|(count, _)| *count > 0);
        let named: Vec<String> = named.map(|(count, what)| format!("{count} {what}")).collect();
        if named.is_empty() { String::new() } else { format!("; not read: {}", named.join(", ")) }
    }
}
