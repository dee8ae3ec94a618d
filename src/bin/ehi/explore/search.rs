//! Hits, each with the part of its text that is shown.

use ehi::{Hit, RankedBy, SearchStats};
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::excerpt::{Excerpt, excerpt};
use super::question::Ask;
use super::reply::{Refusal, Reply};
use super::routes::{Call, Site};
use crate::cut::floor;
use crate::passage::Words;

/// Fields of the metadata that a hit shows, and how deep they may lie.
const MOST_FIELDS: usize = 16;
const DEEPEST: usize = 3;
/// Bytes of a value that is shown, and of a title.
const MOST_VALUE: usize = 200;
pub const MOST_TITLE: usize = 1_000;

#[derive(Serialize)]
struct Found<'a> {
    ranked_by: RankedBy,
    stats: SearchStats,
    embeddings: usize,
    hits: Vec<Shown<'a>>,
}

#[derive(Serialize)]
struct Shown<'a> {
    id: &'a str,
    title: &'a str,
    score: f32,
    dense: Option<f32>,
    lexical: Option<f32>,
    dense_rank: Option<usize>,
    lexical_rank: Option<usize>,
    leaf: u32,
    excerpt: Excerpt<'a>,
    /// Bytes of the whole text.
    bytes: usize,
    fields: Vec<Field>,
}

/// A value of the metadata.
#[derive(Debug, PartialEq, Serialize)]
pub struct Field {
    name: String,
    value: String,
    /// What only documents with this value pass; none where no filter can name the field.
    filter: Option<Value>,
}

pub fn search(site: &Site, call: &Call) -> Result<Reply, Refusal> {
    let ask: Ask = call.json()?;
    let index = site.held.index()?;
    let filter = ask.filter()?;
    let mut query = ask.query(index, filter.as_ref())?;
    if !ask.asked {
        query = query.unlogged();
    }
    let result = query.run()?;
    let words = Words::of(&ask.question);
    Ok(Reply::json(&Found {
        ranked_by: result.ranked_by,
        stats: result.stats,
        embeddings: index.embeddings(),
        hits: result.iter().map(|hit| shown(hit, &words)).collect(),
    }))
}

fn shown<'a>(hit: &'a Hit, words: &Words) -> Shown<'a> {
    let Hit { id, score, scores, document, leaf, .. } = hit;
    let mut fields = Vec::new();
    if let Some(metadata) = &document.metadata {
        collect(metadata, &mut Vec::new(), &mut fields);
    }
    Shown {
        id,
        title: &document.title[..floor(&document.title, MOST_TITLE)],
        score: *score,
        dense: scores.dense,
        lexical: scores.lexical,
        dense_rank: scores.dense_rank,
        lexical_rank: scores.lexical_rank,
        leaf: leaf.0,
        excerpt: excerpt(hit.passage_text(), words),
        bytes: document.text.len(),
        fields,
    }
}

/// The values of a document's metadata that are no objects, those of an array one by one.
fn collect<'a>(value: &'a Value, path: &mut Vec<&'a str>, fields: &mut Vec<Field>) {
    if fields.len() == MOST_FIELDS {
        return;
    }
    match value {
        Value::Object(own) if path.len() < DEEPEST => {
            for (name, value) in own {
                path.push(name);
                collect(value, path, fields);
                path.pop();
            }
        }
        Value::Array(values) if values.iter().all(|value| !value.is_object() && !value.is_array()) => {
            values.iter().for_each(|value| collect(value, path, fields));
        }
        Value::Object(_) | Value::Array(_) => {}
        _ if path.is_empty() => {}
        value => fields.push(field(value, path)),
    }
}

fn field(value: &Value, path: &[&str]) -> Field {
    let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let shown = floor(&text, MOST_VALUE);
    // A dot is where one field lies in another, and a dollar begins an operator.
    let has_name = path.iter().all(|name| !name.is_empty() && !name.contains('.') && !name.starts_with('$'));
    let mut filter = Map::new();
    filter.insert(path.join("."), json!({ "$eq": value }));
    let value = if shown < text.len() { format!("{}…", &text[..shown]) } else { text };
    Field { name: path.join("."), value, filter: has_name.then_some(Value::Object(filter)) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ehi::Filter;

    #[test]
    fn each_value_has_a_filter_that_its_document_passes() {
        let metadata = json!({
            "lang": "en", "year": 2012, "open": true, "none": null, "tags": ["a", "b"],
            "by": { "name": "x", "of": { "place": "y", "deeper": { "still": 1 } } },
            "a.b": 1, "$where": 1, "long": "é".repeat(1_000), "list": [{ "in": 1 }]
        });
        let mut fields = Vec::new();
        collect(&metadata, &mut Vec::new(), &mut fields);
        let names: Vec<&str> = fields.iter().map(|field| field.name.as_str()).collect();
        for name in
            ["lang", "year", "open", "none", "tags", "by.name", "by.of.place", "a.b", "$where", "long"]
        {
            assert!(names.contains(&name), "{names:?}");
        }
        assert!(!names.iter().any(|name| name.contains("still") || name.contains("in")), "{names:?}");
        for field in &fields {
            let Some(filter) = &field.filter else {
                assert!(["a.b", "$where"].contains(&field.name.as_str()));
                continue;
            };
            assert!(Filter::from_json(filter).unwrap().matches("id", Some(&metadata)), "{filter}");
            assert!(
                !Filter::from_json(filter).unwrap().matches("id", Some(&json!({ "lang": "de" }))),
                "{filter}"
            );
            assert!(field.value.len() <= MOST_VALUE + 3);
        }
    }

    #[test]
    fn metadata_that_is_no_object_or_without_an_end_shows_no_more_than_fits() {
        for metadata in [json!(1), json!("text"), json!([]), json!({})] {
            let mut fields = Vec::new();
            collect(&metadata, &mut Vec::new(), &mut fields);
            assert_eq!(fields, []);
        }
        let many: Map<String, Value> = (0..1_000).map(|n| (n.to_string(), json!(n))).collect();
        let mut fields = Vec::new();
        collect(&Value::Object(many), &mut Vec::new(), &mut fields);
        assert_eq!(fields.len(), MOST_FIELDS);
    }
}
