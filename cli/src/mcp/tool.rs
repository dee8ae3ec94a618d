//! A tool: its name and description, its arguments, its answer.

use std::sync::Arc;

use ehi::{Filter, Index};
use rmcp::model::ToolAnnotations;
use rmcp::schemars::JsonSchema;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::held::Held;
use super::limits::FILTER;
use super::schema;
use super::work::Watch;
use crate::failure::Failure;

pub trait Tool {
    const NAME: &'static str;
    const TITLE: &'static str;
    /// Read by the model that chooses among tools.
    const DESCRIPTION: &'static str;
    /// Whether it changes the index.
    const WRITES: bool = false;
    type Arguments: DeserializeOwned + JsonSchema + 'static;
    type Answer: Serialize + JsonSchema + 'static;

    /// # Errors
    /// Wrong arguments and failures of the index, for the model to read.
    fn call(arguments: Self::Arguments, call: &Call<'_>) -> Result<Self::Answer, Failure>;
}

/// What a call of a tool works with.
pub struct Call<'a> {
    pub held: &'a Held,
    pub watch: &'a Watch,
}

impl Call<'_> {
    /// The index as of now.
    ///
    /// # Errors
    /// Those of [`Held::index`].
    pub fn index(&self) -> Result<Arc<Index>, Failure> {
        self.held.index()
    }
}

/// A tool as the server keeps it.
#[derive(Clone)]
pub struct Entry {
    pub tool: rmcp::model::Tool,
    pub writes: bool,
    pub call: fn(Value, &Call<'_>) -> Result<Value, Failure>,
}

/// Describes a tool to the protocol.
pub fn entry<T: Tool>() -> Entry {
    let annotations = ToolAnnotations::with_title(T::TITLE)
        .read_only(!T::WRITES)
        // Inserts and judgments replace what was stored.
        .destructive(T::WRITES)
        .idempotent(true)
        .open_world(false);
    let mut tool = rmcp::model::Tool::new(T::NAME, T::DESCRIPTION, schema::input::<T::Arguments>())
        .with_title(T::TITLE)
        .with_annotations(annotations);
    tool.output_schema = Some(schema::output::<T::Answer>());
    Entry { tool, writes: T::WRITES, call: call::<T> }
}

fn call<T: Tool>(arguments: Value, call: &Call<'_>) -> Result<Value, Failure> {
    let arguments = serde_json::from_value(arguments)
        .map_err(|error| Failure::Usage(format!("the arguments of `{}`: {error}", T::NAME)))?;
    let answer = T::call(arguments, call)?;
    serde_json::to_value(answer)
        .map_err(|error| Failure::Usage(format!("the answer cannot be written as JSON: {error}")))
}

/// The filter of a call: an object, or a string that holds one.
///
/// # Errors
/// The filter is malformed or too long.
pub fn filter(given: Option<&Value>) -> Result<Option<Filter>, Failure> {
    let Some(given) = given else { return Ok(None) };
    let text = match given {
        Value::String(text) => text.clone(),
        object => object.to_string(),
    };
    if text.len() > FILTER {
        return Err(Failure::Usage(format!("the filter has {} bytes as JSON, at most {FILTER}", text.len())));
    }
    let filter = text.parse().map_err(|error: ehi::FilterError| Failure::Ehi(error.into()))?;
    Ok(Some(filter))
}

/// A score with four digits: more carry no information and cost the model tokens.
pub fn rounded(score: f32) -> f64 {
    (f64::from(score) * 1e4).round() / 1e4
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_filter_may_be_an_object_or_text() {
        let object = serde_json::json!({ "year": { "$gte": 2010 } });
        let text = Value::String(object.to_string());
        let (object, text) = (filter(Some(&object)).unwrap(), filter(Some(&text)).unwrap());
        assert_eq!(object, text);
        assert!(object.is_some() && filter(None).unwrap().is_none());
        assert!(filter(Some(&Value::from("year > 2010"))).is_err());
        assert!(filter(Some(&Value::from(" ".repeat(FILTER + 1)))).is_err());
    }

    #[test]
    fn scores_are_rounded() {
        assert_eq!(serde_json::json!(rounded(0.123_456_78)).to_string(), "0.1235");
        assert_eq!(serde_json::json!(rounded(-1.0)).to_string(), "-1.0");
    }
}
