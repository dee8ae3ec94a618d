//! Maps the fields of a record to a document's id, title, text and metadata.

use std::collections::HashMap;

use serde::Deserialize;
use serde_json::Value;
use sha2::{Digest, Sha256};

use super::strict::Record;
use crate::data::error::{DataError, DataErrorKind, Place, listing};
use crate::document::Document;
use crate::outline::Outline;

/// Separator between the fields of a text: a paragraph break.
const BETWEEN_PARTS: &str = "\n\n";
/// The field that may hold the metadata as an object, as in BEIR's lines.
const METADATA: &str = "metadata";
/// Default names of the id.
const IDS: [&str; 2] = ["_id", "id"];
const TITLE: &str = "title";
const TEXT: &str = "text";
/// The field of an export that has the outline of the text.
const OUTLINE: &str = "_outline";

/// Field names given by the caller.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Fields {
    pub id: Option<String>,
    /// Whether ids are hashes of the documents' content.
    pub hashed_ids: bool,
    pub title: Option<String>,
    pub text: Vec<String>,
    /// Whether a document may have neither text nor title.
    pub optional_text: bool,
    pub metadata: Option<Vec<String>>,
}

impl Fields {
    /// Whether the caller named nothing.
    pub fn are_default(&self) -> bool {
        *self == Self { optional_text: self.optional_text, ..Self::default() }
    }

    /// A field that one option names twice, and the option.
    pub fn named_twice(&self) -> Option<(&str, &str)> {
        let lists = [("text", &*self.text), ("metadata", self.metadata.as_deref().unwrap_or_default())];
        lists.into_iter().find_map(|(option, names)| {
            let twice = names.iter().enumerate().find(|(at, name)| names[..*at].contains(name));
            twice.map(|(_, name)| (name.as_str(), option))
        })
    }

    /// The same with default names for the roles without one, for records that all have these columns.
    ///
    /// Default names match in upper or lower case.
    pub fn for_columns(&self, columns: &[String], name: &str) -> Result<Self, DataError> {
        let like = |wanted: &str| columns.iter().find(|column| column.eq_ignore_ascii_case(wanted)).cloned();
        let missing = |wanted: &str, role: &str| {
            let found = listing(columns.iter());
            let hash = if role == "id" { ", `--hash-ids` makes ids" } else { "" };
            let delimiter = match found.contains(", ") {
                true => "",
                false => ", `--delimiter` says what separates columns",
            };
            let message = format!(
                "no column `{wanted}` for the {role}; columns found: {found}; `--{role}` names another \
                 one{hash}{delimiter}"
            );
            Place { name, line: 0 }.error(DataErrorKind::Column, message)
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
            [] => match like(TEXT) {
                None if !self.optional_text => return Err(missing(TEXT, "text")),
                found => found.into_iter().collect(),
            },
            // No text at all.
            given if self.optional_text && given.iter().all(String::is_empty) => given.to_vec(),
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
        Ok(Self { id, title, text, metadata: Some(metadata), ..*self })
    }

    /// All names.
    pub fn names(&self) -> impl Iterator<Item = &String> {
        self.id.iter().chain(&self.title).chain(&self.text).chain(self.metadata.iter().flatten())
    }

    /// The names of fields that may be missing, as far as they were given; a wrong one is not detected by any
    /// single record.
    pub fn optional(&self) -> Vec<String> {
        let is_optional = self.text.len() > 1 || self.optional_text;
        let texts = self.texts().filter(|name| is_optional && !name.is_empty()).map(str::to_owned);
        let others = self.title.iter().chain(self.metadata.iter().flatten()).cloned();
        texts.chain(others).collect()
    }

    /// The names of the text.
    pub fn texts(&self) -> impl Iterator<Item = &str> {
        self.text.iter().map(String::as_str).chain(self.text.is_empty().then_some(TEXT))
    }

    /// For each column, whether it is metadata alone, given fields from [`Self::for_columns`]; `None` if it
    /// is not used.
    pub fn uses(&self, columns: &[String]) -> Vec<Option<bool>> {
        let metadata = self.metadata.iter().flatten().map(|name| (name, true));
        let own = self.id.iter().chain(&self.title).chain(&self.text).map(|name| (name, false));
        let uses: HashMap<&String, bool> = metadata.chain(own).collect();
        columns.iter().map(|column| uses.get(column).copied()).collect()
    }

    /// The record with the members of an object `metadata` moved next to the other fields, if named fields
    /// may be among them.
    pub fn flattened(&self, mut record: Record, at: Place<'_>) -> Result<Record, DataError> {
        if !self.are_default() && self.names().all(|name| name != METADATA) {
            spread(&mut record, at)?;
        }
        Ok(record)
    }

    /// The document of a record. It may have a title alone if `has_text`, which says that the names of the
    /// text are right, or if no other field could be its text.
    pub fn document(&self, mut record: Record, at: Place<'_>, has_text: bool) -> Result<Document, DataError> {
        let is_set = |name: &str| record.get(name).is_some_and(|value| !value.is_null());
        let is_beir = self.are_default() && is_set(IDS[0]);
        let id = match &self.id {
            Some(id) => id.as_str(),
            None if is_set(IDS[0]) || !is_set(IDS[1]) => IDS[0],
            None => IDS[1],
        };
        let title = self.title.as_deref().unwrap_or(TITLE);
        let missing = |wanted: &str, role| {
            let found = listing(record.keys());
            let (fields, are) = if wanted.contains("`, `") { ("fields", "are") } else { ("field", "is") };
            let message = format!(
                "there is no {role}: the {fields} `{wanted}` {are} missing or null; fields found: {found}; \
                 `--{role}` names another one"
            );
            at.error(DataErrorKind::Field, message).in_field(wanted)
        };
        if !self.hashed_ids && !is_set(id) {
            return Err(missing(id, "id"));
        }
        let is_known =
            |name: &str| [id, title, METADATA].contains(&name) || self.texts().any(|text| text == name);
        let has_title = is_set(title) && (has_text || record.keys().all(|name| is_known(name)));
        if !has_title && !self.optional_text && !self.texts().any(is_set) {
            return Err(missing(&self.texts().collect::<Vec<_>>().join("`, `"), "text"));
        }
        // A field stays in the record for a later role that names it too.
        let is_metadata = |name: &str| self.metadata.iter().flatten().any(|chosen| chosen == name);
        let is_later = |name: &str| is_metadata(name) || self.texts().any(|text| text == name);
        // If ids are hashes, a field `id` is ordinary metadata.
        let value = if self.hashed_ids { None } else { take(&mut record, id, id == title || is_later(id)) };
        let id = value.map(|value| at.id(id, value)).transpose()?;
        let title = at.text(title, take(&mut record, title, is_later(title)))?;
        let mut text = String::new();
        for field in self.texts() {
            let part = at.text(field, take(&mut record, field, is_metadata(field)))?;
            if !text.is_empty() && !part.is_empty() {
                text.push_str(BETWEEN_PARTS);
            }
            text.push_str(&part);
        }
        // Another field of that name is metadata.
        let outline =
            record.get(OUTLINE).filter(|_| is_beir).and_then(|value| Outline::deserialize(value).ok());
        outline.iter().for_each(|_| drop(record.remove(OUTLINE)));
        let outline = outline.unwrap_or_default();
        let metadata = match &self.metadata {
            // As in BEIR's lines and in an export: any type, or null for none.
            None if is_beir && record.keys().all(|name| name == METADATA) => {
                take(&mut record, METADATA, false)
            }
            None => metadata(record, at)?,
            Some(chosen) => {
                let chosen = chosen.iter().filter_map(|name| record.remove_entry(name));
                metadata(chosen.collect(), at)?
            }
        };
        let id = match id {
            Some(id) => id,
            None if self.optional_text && title.is_empty() && text.is_empty() => {
                let message =
                    "there is neither title nor text to make an id of; `--id` names a field with ids";
                return Err(at.error(DataErrorKind::Field, message));
            }
            None => hashed(&title, &text),
        };
        Ok(Document { id, title, text, metadata, outline })
    }
}

/// Takes the value of an id, a title or a text out of a record, or copies it; a null counts as missing.
fn take(record: &mut Record, name: &str, stays: bool) -> Option<Value> {
    let value = if stays { record.get(name).cloned() } else { record.remove(name) };
    value.filter(|value| !value.is_null())
}

/// The document of a label in extreme classification, which has its own field names.
pub(in crate::data) fn label(mut record: Record, at: Place<'_>) -> Result<Document, DataError> {
    let id = at.id("uid", take(&mut record, "uid", false).ok_or_else(|| at.missing("uid"))?)?;
    let title = take(&mut record, TITLE, false).ok_or_else(|| at.missing(TITLE))?;
    let title = at.text(TITLE, Some(title))?;
    let text = at.text("content", take(&mut record, "content", false))?;
    Ok(Document { metadata: metadata(record, at)?, ..Document::new(id, title, text) })
}

/// Moves the members of an object `metadata` next to the other fields; returns whether it was an object.
fn spread(record: &mut Record, at: Place<'_>) -> Result<bool, DataError> {
    if !record.get(METADATA).is_some_and(Value::is_object) {
        return Ok(false);
    }
    if let Some(Value::Object(members)) = record.remove(METADATA) {
        for (name, value) in members {
            if record.contains_key(&name) {
                let message = format!("`{name}` is a field and a member of the field `metadata`; rename one");
                return Err(at.error(DataErrorKind::Field, message).in_field(&name));
            }
            record.insert(name, value);
        }
    }
    Ok(true)
}

/// Fields as an object, nulls too; `None` without a field. The members of an object `metadata` are placed
/// next to the others; a null `metadata` has none.
fn metadata(mut fields: Record, at: Place<'_>) -> Result<Option<Value>, DataError> {
    let is_object = spread(&mut fields, at)?;
    if fields.get(METADATA).is_some_and(Value::is_null) && !is_object {
        fields.remove(METADATA);
    }
    Ok((is_object || !fields.is_empty()).then_some(Value::Object(fields)))
}

/// An id derived from a document's content, so that it is the same on every reading.
fn hashed(title: &str, text: &str) -> String {
    let mut digest = Sha256::new();
    digest.update((title.len() as u64).to_le_bytes());
    digest.update(title);
    digest.update(text);
    digest.finalize()[..16].iter().map(|byte| format!("{byte:02x}")).collect()
}

impl Place<'_> {
    fn kind(self, field: &str, value: &Value, expected: &str) -> DataError {
        let found = match value {
            Value::Number(_) => "a number that is not an integer of 64 bits",
            value => crate::filter::kind(value),
        };
        let message = format!("expected {expected} in the field `{field}`, found {found}");
        self.error(DataErrorKind::Field, message).in_field(field)
    }

    /// An id is a string or an integer.
    pub fn id(self, field: &str, value: Value) -> Result<String, DataError> {
        match value {
            Value::String(id) if id.is_empty() => Err(self.empty_id(field)),
            Value::String(id) => Ok(id),
            Value::Number(id) if id.is_i64() || id.is_u64() => Ok(id.to_string()),
            other => Err(self.kind(field, &other, "a string or an integer")),
        }
    }

    pub fn empty_id(self, field: &str) -> DataError {
        let message = format!("the field `{field}` is empty; every id needs at least one character");
        self.error(DataErrorKind::Field, message).in_field(field)
    }

    /// A text is a string, or a number as written; empty if missing.
    pub fn text(self, field: &str, value: Option<Value>) -> Result<String, DataError> {
        match value {
            None => Ok(String::new()),
            Some(Value::String(text)) => Ok(text),
            Some(Value::Number(number)) => Ok(number.to_string()),
            Some(value) => Err(self.kind(field, &value, "a string or a number")),
        }
    }
}
