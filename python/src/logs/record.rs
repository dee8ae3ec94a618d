//! A record of Python's `logging`, made of an event or a span.

use std::fmt::{self, Write};
use std::time::{SystemTime, UNIX_EPOCH};

use pyo3::prelude::*;
use pyo3::types::PyTuple;
use tracing::Metadata;
use tracing::field::{Field, Visit};

use super::levels::number;

/// A field's value.
enum Content {
    Truth(bool),
    Whole(i64),
    Large(u64),
    Number(f64),
    Text(String),
}

impl fmt::Display for Content {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Truth(value) => value.fmt(out),
            Self::Whole(value) => value.fmt(out),
            Self::Large(value) => value.fmt(out),
            Self::Number(value) => value.fmt(out),
            Self::Text(value) => value.fmt(out),
        }
    }
}

#[derive(Default)]
pub struct Fields(Vec<(&'static str, Content)>);

impl Visit for Fields {
    fn record_bool(&mut self, field: &Field, value: bool) {
        self.0.push((field.name(), Content::Truth(value)));
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.0.push((field.name(), Content::Whole(value)));
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.0.push((field.name(), Content::Large(value)));
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.0.push((field.name(), Content::Number(value)));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.0.push((field.name(), Content::Text(value.to_owned())));
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.0.push((field.name(), Content::Text(format!("{value:?}"))));
    }
}

/// An event or a span that waits for the interpreter.
pub struct Waiting {
    pub metadata: &'static Metadata<'static>,
    pub fields: Fields,
    pub created: SystemTime,
    /// Of a span, in seconds.
    pub duration: Option<f64>,
}

impl Waiting {
    /// `message: error (name=value, …)`, in the order in which the fields are given.
    fn message(&self) -> String {
        let of = |wanted| self.fields.0.iter().find(|(name, _)| *name == wanted);
        let mut message = match (self.duration, of("message")) {
            (Some(duration), _) => format!("{}: {:.3} ms", self.metadata.name(), duration * 1e3),
            (None, Some((_, text))) => text.to_string(),
            (None, None) => String::new(),
        };
        if let Some((_, error)) = of("error") {
            let _ = write!(message, ": {error}");
        }
        let rest = self.fields.0.iter().filter(|(name, _)| !["message", "error"].contains(name));
        let rest: Vec<String> = rest.map(|(name, value)| format!("{name}={value}")).collect();
        if !rest.is_empty() {
            let _ = write!(message, " ({})", rest.join(", "));
        }
        message.trim_start().to_owned()
    }

    pub fn hand_over<'py>(&self, logging: &Bound<'py, PyModule>) -> PyResult<()> {
        let (py, metadata) = (logging.py(), self.metadata);
        let name = metadata.target().replace("::", ".");
        let logger = logging.call_method1("getLogger", (&name,))?;
        let level = number(metadata);
        if !logger.call_method1("isEnabledFor", (level,))?.is_truthy()? {
            return Ok(());
        }
        let (file, line) = (metadata.file().unwrap_or_default(), metadata.line());
        let of_record = (name, level, file, line, self.message(), PyTuple::empty(py), py.None());
        let record = logger.call_method1("makeRecord", of_record)?;
        if let Ok(created) = self.created.duration_since(UNIX_EPOCH) {
            record.setattr("created", created.as_secs_f64())?;
            record.setattr("msecs", f64::from(created.subsec_millis()))?;
        }
        let own = self.duration.map(|duration| ("duration", Content::Number(duration)));
        for (name, value) in self
            .fields
            .0
            .iter()
            .map(|(name, value)| (*name, value))
            .chain(own.as_ref().map(|(name, value)| (*name, value)))
        {
            // Names of `logging` itself stay.
            if name == "message" || record.hasattr(name)? {
                continue;
            }
            match value {
                Content::Truth(value) => record.setattr(name, value)?,
                Content::Whole(value) => record.setattr(name, value)?,
                Content::Large(value) => record.setattr(name, value)?,
                Content::Number(value) => record.setattr(name, value)?,
                Content::Text(value) => record.setattr(name, value)?,
            }
        }
        logger.call_method1("handle", (record,)).map(drop)
    }
}
