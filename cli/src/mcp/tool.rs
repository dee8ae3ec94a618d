//! A tool of the protocol: its name and description, its arguments and its answer.

use std::sync::Arc;

use ehi::Index;
use rmcp::model::ToolAnnotations;
use schemars::JsonSchema;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::limits::{FILTER, json_bytes};
use super::schema;
use super::work::Watch;
use crate::failure::Failure;
use crate::held::HeldIndex;

/// Context of a tool call.
pub struct Call<'a> {
    pub held: &'a HeldIndex,
    pub watch: &'a Watch,
}

impl Call<'_> {
    /// The index as of now.
    ///
    /// # Errors
    /// Those of [`HeldIndex::index`].
    pub fn index(&self) -> Result<Arc<Index>, Failure> {
        self.held.index()
    }
}

/// A registered tool.
pub struct RegisteredTool {
    pub tool: rmcp::model::Tool,
    pub writes: bool,
    pub call: Arc<CallTool>,
}

/// A call with its arguments as JSON. Wrong arguments and failures of the index are for the model to read.
type CallTool = dyn Fn(Value, &Call<'_>) -> Result<Value, Failure> + Send + Sync;

/// Describes a tool to the protocol; `description` is read by the model that chooses among tools.
pub fn entry<Arguments: DeserializeOwned + JsonSchema + 'static, Answer: Serialize + JsonSchema + 'static>(
    name: &'static str,
    title: &str,
    description: &'static str,
    writes: bool,
    call: fn(Arguments, &Call<'_>) -> Result<Answer, Failure>,
) -> RegisteredTool {
    let annotations = ToolAnnotations::with_title(title)
        .read_only(!writes)
        // Inserts and judgments replace what was stored.
        .destructive(writes)
        .idempotent(true)
        .open_world(false);
    let mut tool = rmcp::model::Tool::new(name, description, schema::input::<Arguments>())
        .with_title(title)
        .with_annotations(annotations);
    tool.output_schema = Some(schema::output::<Answer>());
    let call = move |arguments, context: &Call<'_>| {
        let arguments = serde_json::from_value(arguments)
            .map_err(|error| Failure::Usage(format!("the arguments of `{name}`: {error}")))?;
        serde_json::to_value(call(arguments, context)?)
            .map_err(|error| Failure::Usage(format!("the answer cannot be written as JSON: {error}")))
    };
    RegisteredTool { tool, writes, call: Arc::new(call) }
}

/// The filter of a call: an object, or a string that holds one.
///
/// # Errors
/// A filter that is too long.
pub fn within_limit(filter: Option<Value>) -> Result<Option<Value>, Failure> {
    let bytes = match &filter {
        Some(Value::String(text)) => text.len(),
        given => given.as_ref().map_or(0, json_bytes),
    };
    match bytes <= FILTER {
        true => Ok(filter),
        false => Err(Failure::Usage(format!("the filter has {bytes} bytes as JSON, at most {FILTER}"))),
    }
}

/// A score with four digits: more carry no information and cost the model tokens.
pub fn rounded(score: f32) -> f64 {
    (f64::from(score) * 1e4).round() / 1e4
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_filter_has_a_limit() {
        let object = serde_json::json!({ "year": { "$gte": 2010 } });
        for given in [None, Some(object.clone()), Some(Value::from(object.to_string()))] {
            assert_eq!(within_limit(given.clone()).unwrap(), given);
        }
        assert!(within_limit(Some(Value::from(" ".repeat(FILTER + 1)))).is_err());
    }

    #[test]
    fn scores_are_rounded() {
        assert_eq!(serde_json::json!(rounded(0.123_456_78)).to_string(), "0.1235");
        assert_eq!(serde_json::json!(rounded(-1.0)).to_string(), "-1.0");
    }
}
