//! Documents from JSON lines.

use super::fields::{At, Fields, Unseen};
use super::record::Record;
use super::rounded::Rounded;
use crate::data::streams::Source;
use crate::data::{DataError, Lines, Note};
use crate::document::Document;

pub(super) struct JsonLines {
    lines: Lines,
    fields: Fields,
    unseen: Unseen,
    rounded: Rounded,
}

impl JsonLines {
    pub fn new(lines: Lines, fields: Fields) -> Self {
        let unseen = fields.optional();
        Self { lines, fields, unseen, rounded: Rounded::default() }
    }
}

impl Source for JsonLines {
    fn next(&mut self) -> Option<Result<Document, DataError>> {
        let Self { lines, fields, unseen, rounded } = self;
        next(lines, |record, text, at| {
            rounded.see(&record, text, at.line);
            let record = fields.flattened(record, at)?;
            unseen.see(&record);
            fields.document(record, at)
        })
    }

    fn line(&self) -> u64 {
        self.lines.number()
    }

    fn unseen(&self) -> &[String] {
        &self.unseen.0
    }

    fn notes(&self) -> Vec<Note> {
        self.rounded.note().into_iter().collect()
    }
}

/// The document of the next line.
fn next(
    lines: &mut Lines,
    document: impl FnOnce(Record, &str, At<'_>) -> Result<Document, DataError>,
) -> Option<Result<Document, DataError>> {
    let name = lines.name().to_owned();
    Some(lines.next_line()?.and_then(|line| {
        let at = At { name: &name, line: line.number };
        let record = Record::of_json(line.text).map_err(|source| at.json(source))?;
        document(record, line.text, at)
    }))
}

/// The next label of an extreme classification set.
pub(in crate::data) fn label(lines: &mut Lines) -> Option<Result<Document, DataError>> {
    next(lines, |record, _, at| at.label(record))
}

impl At<'_> {
    pub fn json(&self, source: serde_json::Error) -> DataError {
        DataError::Json { name: self.name.to_owned(), line: self.line, source }
    }
}
