//! Vectors that come with documents and questions.

use ehi::Document;
use serde_json::Value;

use crate::text::counted;

/// The field of a vector in an export: metadata may have a field `vector`.
pub const EXPORTED: &str = "_vector";
/// The fields that may hold a document's vector in an index without an encoder, unless another is named.
pub const FIELDS: [&str; 2] = [EXPORTED, "vector"];
/// What is wrong with a list that is not one of numbers.
pub const NO_NUMBERS: &str = "is not a list of numbers such as [0.1, 0.2]";

/// The numbers of a list.
pub fn numbers(values: &[Value]) -> Option<Vec<f32>> {
    values.iter().map(|value| value.as_f64().map(|value| value as f32)).collect()
}

/// Takes a vector of `dim` numbers out of a document, from the first of the fields that its metadata has.
///
/// # Errors
/// Why there is none.
pub fn take(document: &mut Document, fields: &[String], dim: usize) -> Result<Vec<f32>, String> {
    let metadata = document.metadata.as_mut().and_then(Value::as_object_mut);
    let taken = |own: &mut serde_json::Map<_, _>, field| own.remove(field).filter(|values| !values.is_null());
    let found = metadata.and_then(|own| fields.iter().find_map(|field| Some((field, taken(own, field)?))));
    if document.metadata.as_ref().and_then(Value::as_object).is_some_and(serde_json::Map::is_empty) {
        document.metadata = None;
    }
    let usual = fields.last().map(String::as_str).unwrap_or_default();
    let (field, values) = match found {
        None => return Err(format!("it has no field `{usual}` with its vector")),
        Some((field, Value::Array(values))) => (field, values),
        Some((field, _)) => return Err(format!("the field `{field}` {NO_NUMBERS}")),
    };
    let vector = numbers(&values).ok_or_else(|| format!("the field `{field}` {NO_NUMBERS}"))?;
    match vector.len() {
        found if found == dim => Ok(vector),
        found => {
            let found = counted(found, "number");
            Err(format!("the field `{field}` has {found}, and the index has {}", counted(dim, "dimension")))
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn taken(metadata: Value) -> (Result<Vec<f32>, String>, Option<Value>) {
        let mut document = Document::new("id", "", "text").with_metadata(metadata);
        (take(&mut document, &["v".to_owned()], 2), document.metadata)
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
        assert!(reason(json!({ "v": [[1, 2]] })).contains("not a list of numbers"));
        assert_eq!(reason(json!({ "v": [1] })), "the field `v` has 1 number, and the index has 2 dimensions");
        assert_eq!(
            reason(json!({ "v": [1, 2, 3] })),
            "the field `v` has 3 numbers, and the index has 2 dimensions"
        );
    }
}
