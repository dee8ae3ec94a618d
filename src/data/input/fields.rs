//! Which fields of a record are a document's id, title, text and metadata.

use std::collections::HashMap;

use serde_json::{Map, Value};
use sha2::{Digest, Sha256};

use super::listing;
use super::record::Record;
use crate::data::DataError;
use crate::data::jsonl::id_text;
use crate::document::Document;

/// What is between the parts of a text that is in several fields: a paragraph ends.
const BETWEEN_PARTS: &str = "\n\n";
/// The field that may hold the metadata as an object, as in BEIR's lines.
const METADATA: &str = "metadata";
/// Names of the id where none is given.
const IDS: [&str; 2] = ["_id", "id"];
const TITLE: &str = "title";
const TEXT: &str = "text";

/// The names that the caller gave.
#[derive(Clone, Debug, Default)]
pub(super) struct Fields {
    pub id: Option<String>,
    /// Whether ids are hashes of what documents hold.
    pub hashed_ids: bool,
    pub title: Option<String>,
    pub text: Vec<String>,
    pub metadata: Option<Vec<String>>,
}

/// Names of fields that no record had so far.
pub(super) struct Unseen(pub Vec<String>);

impl Unseen {
    pub fn see(&mut self, record: &Record) {
        // Empty after the first records as a rule.
        self.0.retain(|name| record.get(name).is_none());
    }
}

/// Where a record is from.
#[derive(Clone, Copy)]
pub(super) struct At<'a> {
    pub name: &'a str,
    pub line: u64,
}

impl Fields {
    /// Whether the caller named nothing.
    pub fn are_default(&self) -> bool {
        self.id.is_none()
            && !self.hashed_ids
            && self.title.is_none()
            && self.text.is_empty()
            && self.metadata.is_none()
    }

    /// The option that names a field in a second role.
    pub fn named_twice(&self) -> Option<&str> {
        let roles = self.id.iter().chain(&self.title).chain(&self.text);
        let names: Vec<&String> = roles.chain(self.metadata.iter().flatten()).collect();
        let twice = names.iter().enumerate().find(|(at, name)| names[..*at].contains(name));
        twice.map(|(_, name)| name.as_str())
    }

    /// The same with names for what was not named, where all records have the same columns.
    ///
    /// Names that are not given are looked for in upper and lower case.
    pub fn for_columns(&self, columns: &[String], name: &str) -> Result<Self, DataError> {
        let like = |wanted: &str| columns.iter().find(|column| column.eq_ignore_ascii_case(wanted)).cloned();
        let missing = |wanted: &str, role| DataError::NoColumn {
            name: name.to_owned(),
            wanted: wanted.to_owned(),
            role,
            found: listing(columns),
        };
        let there = |wanted: &String, role| match columns.contains(wanted) {
            true => Ok(wanted.clone()),
            false => Err(missing(wanted, role)),
        };
        let id = match &self.id {
            Some(given) => Some(there(given, "id")?),
            None if self.hashed_ids => None,
            None => Some(IDS.iter().find_map(|id| like(id)).ok_or_else(|| missing("id", "id"))?),
        };
        let title = match &self.title {
            Some(given) => Some(there(given, "title")?),
            None => like(TITLE),
        };
        let text = match &self.text[..] {
            [] => vec![like(TEXT).ok_or_else(|| missing(TEXT, "text"))?],
            given => given.iter().map(|given| there(given, "text")).collect::<Result<_, _>>()?,
        };
        let metadata = match &self.metadata {
            Some(given) => {
                given.iter().map(|given| there(given, "metadata")).collect::<Result<Vec<_>, _>>()?
            }
            None => {
                let taken = |column: &String| {
                    id.as_ref() == Some(column) || title.as_ref() == Some(column) || text.contains(column)
                };
                columns.iter().filter(|column| !taken(column)).cloned().collect()
            }
        };
        Ok(Self { id, hashed_ids: self.hashed_ids, title, text, metadata: Some(metadata) })
    }

    /// All names.
    pub fn names(&self) -> impl Iterator<Item = &String> {
        self.id.iter().chain(&self.title).chain(&self.text).chain(self.metadata.iter().flatten())
    }

    /// The names that were given for what need not be there, so that a wrong one is not noticed by any
    /// record.
    pub fn optional(&self) -> Unseen {
        let several = if self.text.len() > 1 { &self.text[..] } else { &[] };
        Unseen(self.title.iter().chain(several).chain(self.metadata.iter().flatten()).cloned().collect())
    }

    /// Of each column whether it is metadata, where the fields were found by [`Self::for_columns`]; `None`
    /// for one that is not used.
    pub fn uses(&self, columns: &[String]) -> Vec<Option<bool>> {
        let own = self.id.iter().chain(&self.title).chain(&self.text).map(|name| (name, false));
        let metadata = self.metadata.iter().flatten().map(|name| (name, true));
        let uses: HashMap<&String, bool> = own.chain(metadata).collect();
        columns.iter().map(|column| uses.get(column).copied()).collect()
    }

    /// A record whose members of a field `metadata` that is an object stand beside the other fields, where
    /// fields are named that may be among them.
    pub fn flattened(&self, mut record: Record, at: At<'_>) -> Result<Record, DataError> {
        let is_object = record.get(METADATA).is_some_and(Value::is_object);
        if !is_object || self.are_default() || self.names().any(|name| name == METADATA) {
            return Ok(record);
        }
        if let Some(Value::Object(members)) = record.take(METADATA) {
            for (name, value) in members {
                if record.get(&name).is_some() {
                    return Err(at.twice(name));
                }
                record.push(name, value);
            }
        }
        Ok(record)
    }

    /// The document of a record.
    pub fn document(&self, mut record: Record, at: At<'_>) -> Result<Document, DataError> {
        let is_set = |name: &str| record.get(name).is_some_and(|value| !value.is_null());
        let is_beir = self.are_default() && is_set(IDS[0]);
        let id = match &self.id {
            Some(id) => id.as_str(),
            None if is_set(IDS[0]) || !is_set(IDS[1]) => IDS[0],
            None => IDS[1],
        };
        let id = match self.hashed_ids {
            true => None,
            false => {
                let value = record.take_set(id).ok_or_else(|| at.missing(id, "id", &record))?;
                Some(at.id(id, value)?)
            }
        };
        let title = self.title.as_deref().unwrap_or(TITLE);
        let title =
            record.take_set(title).map(|value| at.text(title, value)).transpose()?.unwrap_or_default();
        let default = [TEXT.to_owned()];
        let fields = if self.text.is_empty() { &default[..] } else { &self.text[..] };
        let mut text: Option<String> = None;
        for field in fields {
            let Some(part) = record.take_set(field) else { continue };
            let part = at.text(field, part)?;
            match &mut text {
                Some(text) if !part.is_empty() => {
                    if !text.is_empty() {
                        text.push_str(BETWEEN_PARTS);
                    }
                    text.push_str(&part);
                }
                Some(_) => {}
                None => text = Some(part),
            }
        }
        let text = text.ok_or_else(|| at.missing(&fields.join("`, `"), "text", &record))?;
        let metadata = match &self.metadata {
            // As BEIR's lines and an export have it, of any kind; null where there is none.
            None if is_beir && record.has_only(METADATA) => record.take_set(METADATA),
            None => at.metadata(record.rest())?,
            Some(chosen) => {
                let chosen = chosen.iter().filter_map(|name| Some((name.clone(), record.take(name)?)));
                at.metadata(chosen.collect())?
            }
        };
        let id = id.unwrap_or_else(|| hashed(&title, &text));
        Ok(Document { id, title, text, metadata })
    }
}

/// An id that follows from what a document holds, so that it is the same when the document is read again.
fn hashed(title: &str, text: &str) -> String {
    let mut digest = Sha256::new();
    digest.update((title.len() as u64).to_le_bytes());
    digest.update(title);
    digest.update(text);
    digest.finalize()[..16].iter().map(|byte| format!("{byte:02x}")).collect()
}

impl At<'_> {
    /// The document of a label, whose fields have names of their own.
    pub fn label(&self, mut record: Record) -> Result<Document, DataError> {
        let missing = |field| DataError::MissingField { name: self.name.to_owned(), line: self.line, field };
        let id = record.take_set("uid").ok_or_else(|| missing("uid"))?;
        let id = self.id("uid", id)?;
        let title = record.take_set(TITLE).ok_or_else(|| missing(TITLE))?;
        let title = self.text(TITLE, title)?;
        let text = record.take_set("content").map(|text| self.text("content", text)).transpose()?;
        let metadata = self.metadata(record.rest())?;
        Ok(Document { id, title, text: text.unwrap_or_default(), metadata })
    }

    fn missing(&self, wanted: &str, role: &'static str, record: &Record) -> DataError {
        let (name, line) = (self.name.to_owned(), self.line);
        let found = listing(&record.names()).into();
        DataError::NoField { name, line, wanted: wanted.to_owned(), role, found }
    }

    fn twice(&self, field: String) -> DataError {
        DataError::MetadataTwice { name: self.name.to_owned(), line: self.line, field }
    }

    fn kind(&self, field: &str, value: &Value, expected: &'static str) -> DataError {
        let found = match value {
            Value::Null => "null",
            Value::Bool(_) => "a boolean",
            Value::Number(_) => "a number that is no integer of 64 bits",
            Value::String(_) => "a string",
            Value::Array(_) => "an array",
            Value::Object(_) => "an object",
        };
        let (name, line, field) = (self.name.to_owned(), self.line, field.to_owned());
        DataError::FieldKind { name, line, field, found, expected }
    }

    /// An id is a string or an integer.
    fn id(&self, field: &str, value: Value) -> Result<String, DataError> {
        let id = id_text(value).map_err(|value| self.kind(field, &value, "a string or an integer"))?;
        if id.is_empty() {
            let (name, line, field) = (self.name.to_owned(), self.line, field.to_owned());
            return Err(DataError::NoId { name, line, field });
        }
        Ok(id)
    }

    /// A text is a string, or a number as it is written.
    fn text(&self, field: &str, value: Value) -> Result<String, DataError> {
        match value {
            Value::String(text) => Ok(text),
            Value::Number(number) => Ok(number.to_string()),
            value => Err(self.kind(field, &value, "a string or a number")),
        }
    }

    /// Fields as an object, nulls too; `None` without a field. The members of a field `metadata` that is an
    /// object stand beside the others, and where that field is null there are none.
    fn metadata(&self, mut fields: Vec<(String, Value)>) -> Result<Option<Value>, DataError> {
        fields.retain(|(name, value)| !(name == METADATA && value.is_null()));
        if fields.is_empty() {
            return Ok(None);
        }
        let mut all = Map::new();
        let mut inner = None;
        for (name, value) in fields {
            match value {
                Value::Object(members) if name == METADATA => inner = Some(members),
                value => {
                    all.insert(name, value);
                }
            }
        }
        for (name, value) in inner.into_iter().flatten() {
            if all.contains_key(&name) {
                return Err(self.twice(name));
            }
            all.insert(name, value);
        }
        Ok(Some(Value::Object(all)))
    }
}
