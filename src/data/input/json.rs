//! Documents from JSON lines, and from an array of objects.

use super::array::JsonArray;
use super::fields::Fields;
use super::rounded::Rounded;
use super::strict::record;
use crate::data::Note;
use crate::data::error::DataError;
use crate::data::lines::Lines;
use crate::data::streams::DocumentSource;
use crate::document::Document;

/// The texts of the objects.
pub(super) enum JsonTexts {
    Lines(Lines),
    Array(JsonArray),
}

pub(super) struct JsonRecords {
    texts: JsonTexts,
    fields: Fields,
    /// Names of fields that no record had so far.
    unseen: Vec<String>,
    rounded: Rounded,
}

impl JsonRecords {
    pub fn new(texts: JsonTexts, fields: Fields) -> Self {
        let unseen = fields.optional();
        Self { texts, fields, unseen, rounded: Rounded::default() }
    }
}

impl DocumentSource for JsonRecords {
    fn next(&mut self) -> Option<Result<Document, DataError>> {
        let Self { texts, fields, unseen, rounded } = self;
        let line = match texts {
            JsonTexts::Lines(lines) => lines.next_line(),
            JsonTexts::Array(array) => array.next_element(),
        };
        Some(line?.and_then(|line| {
            let record = record(line.text).map_err(|source| line.at.json(source))?;
            rounded.see(&record, line.text, line.at.line);
            let record = fields.flattened(record, line.at)?;
            // Empty after the first records as a rule.
            unseen.retain(|name| !record.contains_key(name));
            fields.document(record, line.at)
        }))
    }

    fn line(&self) -> u64 {
        match &self.texts {
            JsonTexts::Lines(lines) => lines.number(),
            JsonTexts::Array(array) => array.line(),
        }
    }

    fn unseen(&self) -> &[String] {
        &self.unseen
    }

    fn notes(&self) -> Vec<Note> {
        self.rounded.note().into_iter().collect()
    }
}

/// The documents of JSON lines with fields of the usual names.
pub(in crate::data) fn json_lines(lines: Lines) -> Box<dyn DocumentSource> {
    Box::new(JsonRecords::new(JsonTexts::Lines(lines), Fields::default()))
}
