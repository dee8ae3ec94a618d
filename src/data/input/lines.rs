//! Documents from JSON lines.

use super::fields::{At, Fields, Unseen};
use super::record::Record;
use crate::data::streams::Source;
use crate::data::{DataError, Lines};
use crate::document::Document;

pub(super) struct JsonLines {
    pub lines: Lines,
    pub fields: Fields,
    pub unseen: Unseen,
}

impl Source for JsonLines {
    fn next(&mut self) -> Option<Result<Document, DataError>> {
        let name = self.lines.name().to_owned();
        Some(self.lines.next_line()?.and_then(|line| {
            let at = At { name: &name, line: line.number };
            let record = Record::of_json(line.text).map_err(|source| at.json(source))?;
            let record = self.fields.flattened(record, at)?;
            self.unseen.see(&record);
            self.fields.document(record, at)
        }))
    }

    fn line(&self) -> u64 {
        self.lines.number()
    }

    fn unseen(&self) -> &[String] {
        &self.unseen.0
    }
}

impl At<'_> {
    pub fn json(&self, source: serde_json::Error) -> DataError {
        DataError::Json { name: self.name.to_owned(), line: self.line, source }
    }
}
