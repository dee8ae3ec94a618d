//! Schemas of arguments and answers, in the subset that every client accepts.
//!
//! JSON Schema allows more than clients accept. The protocol's TypeScript package refuses all tools if the
//! schema of a property is `true`; validators of its older versions do not support the draft named by
//! `$schema`; and several model providers accept neither references nor lists of types.

use std::sync::Arc;

use rmcp::model::JsonObject;
use schemars::generate::SchemaSettings;
use schemars::transform::{Transform, transform_subschemas};
use schemars::{JsonSchema, Schema};
use serde_json::Value;

/// The input schema of a tool.
pub fn input<T: JsonSchema>() -> Arc<JsonObject> {
    of::<T>(SchemaSettings::draft2020_12())
}

/// The output schema of a tool.
pub fn output<T: JsonSchema>() -> Arc<JsonObject> {
    of::<T>(SchemaSettings::draft2020_12().for_serialize())
}

fn of<T: JsonSchema>(settings: SchemaSettings) -> Arc<JsonObject> {
    let settings = settings.with(|own| {
        own.meta_schema = None;
        own.inline_subschemas = true;
    });
    let mut schema = settings.with_transform(Plain).into_generator().into_root_schema_for::<T>();
    let fields = schema.ensure_object();
    // The name and the comment of a type in Rust.
    fields.remove("title");
    fields.remove("description");
    // Some clients refuse an object without `properties`.
    fields.entry("properties").or_insert_with(|| Value::Object(JsonObject::default()));
    Arc::new(std::mem::take(fields))
}

/// Converts a value to the form in the schema, because models and clients also send other forms: a JSON
/// string in place of a list, object, number or boolean, `3.0` for `3`, null for an absent field.
pub fn normalize(schema: &Value, value: &mut Value) {
    let wanted = schema["type"].as_str().unwrap_or_default();
    if let Value::String(text) = value
        && let Ok(held) = serde_json::from_str(text)
        && is_of(wanted, &held)
    {
        *value = held;
    }
    // Beyond 2^53 a float may not be the intended integer.
    if wanted == "integer"
        && let Some(number) =
            value.as_f64().filter(|own| own.fract() == 0.0 && own.abs() <= (1_u64 << 53) as f64)
    {
        *value = Value::from(number as i64);
    }
    match value {
        Value::Array(items) => items.iter_mut().for_each(|item| normalize(&schema["items"], item)),
        Value::Object(fields) => {
            let required = schema["required"].as_array();
            let is_required = |name: &str| required.is_some_and(|all| all.iter().any(|own| own == name));
            let properties = &schema["properties"];
            // Unknown fields are kept, so that they are refused later.
            fields.retain(|name, own| !own.is_null() || properties.get(name).is_none() || is_required(name));
            fields.iter_mut().for_each(|(name, field)| normalize(&properties[name], field));
        }
        _ => {}
    }
}

fn is_of(wanted: &str, value: &Value) -> bool {
    match wanted {
        "array" => value.is_array(),
        "object" => value.is_object(),
        "integer" | "number" => value.is_number(),
        "boolean" => value.is_boolean(),
        _ => false,
    }
}

#[derive(Clone)]
struct Plain;

impl Transform for Plain {
    fn transform(&mut self, schema: &mut Schema) {
        // `true` becomes `{}`.
        let fields = schema.ensure_object();
        // A number's type in Rust (`uint`).
        fields.remove("format");
        if fields.get("default").is_some_and(Value::is_null) {
            fields.remove("default");
        }
        // Null means an absent argument, and answers never contain null.
        if let Some(Value::Array(types)) = fields.get_mut("type") {
            types.retain(|own| own != "null");
            if let [only] = types.as_mut_slice() {
                fields["type"] = only.take();
            }
        }
        // The one keyword for which all clients accept a boolean; its absence means `true`.
        let more = fields.remove("additionalProperties");
        transform_subschemas(self, schema);
        if let Some(more) = more.filter(|more| *more != Value::Bool(true)) {
            schema.insert("additionalProperties".to_owned(), more);
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn values_are_read_as_the_schema_means_them() {
        let text = json!({ "type": "string" });
        let properties = json!({ "id": text, "metadata": { "type": "object" } });
        let document = json!({ "type": "object", "properties": properties, "required": ["id"] });
        let list = json!({ "type": "array", "items": document });
        for (schema, given, expected) in [
            (&list, json!(r#"[{"id": "7"}]"#), json!([{ "id": "7" }])),
            (
                &list,
                json!([{ "id": "7", "metadata": r#"{"a": 1}"# }]),
                json!([{ "id": "7", "metadata": { "a": 1 } }]),
            ),
            (&document, json!(r#"{"id": "[1]"}"#), json!({ "id": "[1]" })),
            (&json!({ "type": "integer" }), json!("3"), json!(3)),
            (&json!({ "type": "integer" }), json!(-3.0), json!(-3)),
            (&json!({ "type": "integer" }), json!(3.5), json!(3.5)),
            (&json!({ "type": "number" }), json!(3.0), json!(3.0)),
            (&document, json!({ "id": null, "metadata": null, "x": null }), json!({ "id": null, "x": null })),
            (&document, json!({ "metadata": { "a": null } }), json!({ "metadata": { "a": null } })),
            (&json!({ "type": "boolean" }), json!("true"), json!(true)),
            (&text, json!("3"), json!("3")),
            (&text, json!("[1]"), json!("[1]")),
            // Of another type, so that the original value is refused.
            (&list, json!("{}"), json!("{}")),
            (&list, json!("[1"), json!("[1")),
            (&json!({ "type": "integer" }), json!("ten"), json!("ten")),
            (&json!({}), json!("[1]"), json!("[1]")),
        ] {
            let mut value = given.clone();
            normalize(schema, &mut value);
            assert_eq!(value, expected, "{given}");
        }
    }
}
