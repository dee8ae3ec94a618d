//! Queries in the BEIR form, one JSON object a line, and what other records share with them.

use serde::de::{DeserializeOwned, Error};
use serde::{Deserialize, Deserializer};
use serde_json::Value;

use super::{DataError, Lines, Query};

pub(super) fn query(lines: &mut Lines) -> Option<Result<Query, DataError>> {
    next_record(lines).map(|record| {
        let (at, record): (_, QueryRecord) = record?;
        Ok(Query { id: at.id(record._id, "_id")?, text: at.required(record.text, "text")? })
    })
}

// Absent and null fields are told from wrong types by hand, so that the error can name them.
#[derive(Deserialize)]
struct QueryRecord {
    #[serde(default, deserialize_with = "id")]
    _id: Option<String>,
    text: Option<String>,
}

/// An id: a string, or an integer as it is written. Another value comes back.
pub(super) fn id_text(value: Value) -> Result<String, Value> {
    match value {
        Value::String(id) => Ok(id),
        Value::Number(id) if id.is_i64() || id.is_u64() => Ok(id.to_string()),
        other => Err(other),
    }
}

/// The id of a record, if it has one.
pub(super) fn id<'de, D: Deserializer<'de>>(from: D) -> Result<Option<String>, D::Error> {
    let value = Option::<Value>::deserialize(from)?;
    let id = value.map(id_text).transpose();
    id.map_err(|_| D::Error::custom("the id is neither a string nor an integer"))
}

/// Where a record stood, for errors found after parsing.
pub(super) struct Place {
    pub name: String,
    pub line: u64,
}

impl Place {
    pub fn required(&self, value: Option<String>, field: &'static str) -> Result<String, DataError> {
        value.ok_or_else(|| DataError::MissingField { name: self.name.clone(), line: self.line, field })
    }

    pub fn id(&self, value: Option<String>, field: &'static str) -> Result<String, DataError> {
        let id = self.required(value, field)?;
        if id.is_empty() {
            return Err(DataError::EmptyId { name: self.name.clone(), line: self.line, field });
        }
        Ok(id)
    }
}

pub(super) fn next_record<T: DeserializeOwned>(lines: &mut Lines) -> Option<Result<(Place, T), DataError>> {
    let (number, parsed) = match lines.next_line()? {
        Ok(line) => (line.number, serde_json::from_str(line.text)),
        Err(error) => return Some(Err(error)),
    };
    let at = Place { name: lines.name().to_owned(), line: number };
    Some(match parsed {
        Ok(record) => Ok((at, record)),
        Err(source) => Err(DataError::Json { name: at.name, line: at.line, source }),
    })
}
