//! Embeddings that come with documents.

use ehi::Document;
use serde_json::Value;

/// The field that holds a document's embedding in an index without an encoder, unless another is named.
pub const FIELD: &str = "vector";

/// Takes an embedding of `dim` numbers out of the document's metadata.
///
/// # Errors
/// Why there is none.
pub fn take(document: &mut Document, field: &str, dim: usize) -> Result<Vec<f32>, String> {
    let fields = document.metadata.as_mut().and_then(Value::as_object_mut);
    let found = fields.and_then(|fields| fields.remove(field));
    if document.metadata.as_ref().and_then(Value::as_object).is_some_and(serde_json::Map::is_empty) {
        document.metadata = None;
    }
    let Some(Value::Array(values)) = found else {
        return Err(match found {
            None | Some(Value::Null) => format!("it has no field `{field}` with its vector"),
            Some(_) => format!("the field `{field}` is not a list of numbers"),
        });
    };
    if values.len() != dim {
        return Err(format!(
            "the field `{field}` has {} numbers, and the index has {dim} dimensions",
            values.len()
        ));
    }
    let number = |value: &Value| value.as_f64().map(|value| value as f32);
    let vector: Option<Vec<f32>> = values.iter().map(number).collect();
    vector.ok_or_else(|| format!("the field `{field}` is not a list of numbers"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn taken(metadata: Value) -> (Result<Vec<f32>, String>, Option<Value>) {
        let mut document = Document::new("id", "", "text").with_metadata(metadata);
        (take(&mut document, "v", 2), document.metadata)
    }

    #[test]
    fn an_embedding_is_no_longer_part_of_the_metadata() {
        assert_eq!(
            taken(json!({ "v": [1, 0.5], "year": 7 })),
            (Ok(vec![1.0, 0.5]), Some(json!({ "year": 7 })))
        );
        assert_eq!(taken(json!({ "v": [1, 0.5] })), (Ok(vec![1.0, 0.5]), None));
    }

    #[test]
    fn what_is_not_an_embedding_is_refused_with_its_reason() {
        let reason = |metadata| taken(metadata).0.unwrap_err();
        assert!(reason(json!({ "w": [1, 2] })).contains("no field `v`"));
        assert!(reason(json!({ "v": null })).contains("no field `v`"));
        assert!(reason(json!({ "v": "1,2" })).contains("not a list of numbers"));
        assert!(reason(json!({ "v": [1, "2"] })).contains("not a list of numbers"));
        assert_eq!(
            reason(json!({ "v": [1, 2, 3] })),
            "the field `v` has 3 numbers, and the index has 2 dimensions"
        );
    }
}
