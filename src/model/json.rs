//! Settings files: JSON objects whose fields are taken one by one.

use std::path::PathBuf;

use serde::de::{DeserializeOwned, Error};
use serde_json::{Map, Value};

use super::error::ModelError;
use super::files;

/// The remaining settings of a file.
pub(super) struct Settings {
    pub path: PathBuf,
    pub fields: Map<String, Value>,
}

impl Settings {
    pub(super) fn read(path: impl Into<PathBuf>) -> Result<Self, ModelError> {
        let path = path.into();
        Ok(Self { fields: files::read_json(&path)?, path })
    }

    /// Reads an optional file.
    pub(super) fn read_or_none(path: impl Into<PathBuf>) -> Result<Self, ModelError> {
        let path = path.into();
        Ok(Self { fields: files::read_json_or_default(&path)?, path })
    }

    /// Removes and returns a setting; `None` if it is absent or null.
    pub(super) fn take<T: DeserializeOwned>(&mut self, name: &str) -> Result<Option<T>, ModelError> {
        let value = self.fields.remove(name).filter(|value| !value.is_null());
        let error = |e| ModelError::json(&self.path, Error::custom(format!("{name}: {e}")));
        value.map(serde_json::from_value).transpose().map_err(error)
    }

    /// Removes and returns a required setting.
    pub(super) fn need<T: DeserializeOwned>(&mut self, name: &str) -> Result<T, ModelError> {
        let value = self.take(name)?;
        value.ok_or_else(|| ModelError::json(&self.path, Error::custom(format!("missing field `{name}`"))))
    }

    /// Removes and returns a setting, or the default if it is absent or null.
    pub(super) fn or<T: DeserializeOwned>(&mut self, name: &str, default: T) -> Result<T, ModelError> {
        Ok(self.take(name)?.unwrap_or(default))
    }

    /// Removes settings that must have these values unless they are absent or empty.
    pub(super) fn check(&mut self, supported: &[(&str, &str)]) -> Result<(), ModelError> {
        for &(name, supported) in supported {
            let found = match self.fields.remove(name) {
                Some(Value::Number(number)) if number.as_f64() == supported.parse().ok() => continue,
                Some(Value::String(text)) if !text.is_empty() => text,
                Some(value) if says_something(&value) || value == Value::Bool(false) => value.to_string(),
                _ => continue,
            };
            if found != supported {
                return Err(self.unsupported(name, found, supported));
            }
        }
        Ok(())
    }

    /// Refuses remaining settings that are not empty.
    pub(super) fn refuse_rest(&self) -> Result<(), ModelError> {
        match self.fields.iter().find(|(_, value)| says_something(value)) {
            Some((name, value)) => {
                Err(self.unsupported("setting", format!("{name}: {value}"), "a file without it"))
            }
            None => Ok(()),
        }
    }

    pub(super) fn unsupported(&self, what: &str, found: impl ToString, supported: &str) -> ModelError {
        ModelError::unsupported(&self.path, what, found, supported)
    }

    pub(super) fn bad(&self, what: &str, found: usize, expected: impl std::fmt::Display) -> ModelError {
        ModelError::bad_config(&self.path, what, found, expected)
    }
}

fn says_something(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => false,
        Value::String(text) => !text.is_empty(),
        Value::Array(values) => !values.is_empty(),
        Value::Object(fields) => !fields.is_empty(),
        _ => true,
    }
}
