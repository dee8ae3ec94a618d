//! Hits with excerpts.

use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use ehi::search::QuestionWords;
use ehi::{Document, Facet, FacetValue, Filter, Hit, Index, RecalledJudgment};
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::document::excerpt;
use super::question::Ask;
use super::reply::{self, Refusal, Reply};
use super::site::Site;
use crate::printing;
use crate::text::{beginning, floor};

/// Most metadata fields shown per hit, and their most nesting.
const MOST_FIELDS: usize = 16;
const DEEPEST: usize = 3;
/// Most bytes of a shown value, of its name, and of a title. Longer ones get no filter, because filters are
/// sent with each hit and back with each question.
const MOST_VALUE: usize = 200;
const MOST_NAME: usize = 100;
pub const MOST_TITLE: usize = 1_000;
/// Most fields whose values are counted, and values shown of each.
const MOST_FACETS: usize = 8;
const FACET_VALUES: usize = 8;

/// A value of the metadata.
#[derive(Debug, PartialEq, Serialize)]
pub struct Field {
    name: String,
    value: String,
    /// The filter for this value, as JSON; `None` if the field cannot be named in a filter, or the value is
    /// too long.
    filter: Option<String>,
}

/// The values of a field among the documents that pass the filters.
#[derive(Serialize)]
struct FieldValues {
    name: String,
    values: Vec<Counted>,
    distinct: usize,
}

#[derive(Serialize)]
struct Counted {
    #[serde(flatten)]
    field: Field,
    documents: usize,
}

pub fn search(site: &Site, body: &[u8]) -> Result<Reply, Refusal> {
    let ask: Ask = reply::json(body)?;
    let index = site.held.index()?;
    let mut request = ask.request()?;
    // A read-only index is never written to, not even its log of questions.
    request.unlogged = !(ask.asked && site.held.writes());
    let mut result = index.search_with(&ask.question, &request)?;
    let words = QuestionWords::of(&ask.question);
    let grades = match ask.grades {
        // In the form in which the page stores the question.
        true => index.judgments_of(ask.question.trim(), result.iter().map(|hit| &hit.id))?,
        false => vec![None; result.len()],
    };
    let grades = grades.into_iter().map(|judgment| judgment.map(|own| own.grade));
    let shown: Vec<Shown> =
        result.hits.iter_mut().zip(grades).map(|(hit, grade)| shown(hit, &words, grade)).collect();
    let facets = if ask.facets { facets(&index, request.filter.as_deref(), &shown)? } else { Vec::new() };
    let mut answer = printing::value(&result)?;
    answer["facets"] = json!(facets);
    answer["embeddings"] = json!(index.embeddings());
    for (hit, shown) in answer["hits"].as_array_mut().into_iter().flatten().zip(shown) {
        let shown = printing::value(&shown)?;
        shown.as_object().into_iter().flatten().for_each(|(name, value)| hit[name] = value.clone());
    }
    Ok(Reply::json(&answer))
}

/// The values of the fields that most hits have, without fields of which all values differ.
fn facets(index: &Index, filter: Option<&Filter>, hits: &[Shown]) -> Result<Vec<FieldValues>, Refusal> {
    let mut names: BTreeMap<&str, usize> = BTreeMap::new();
    for Shown { fields, .. } in hits {
        let own: BTreeSet<&str> =
            fields.iter().filter(|field| field.filter.is_some()).map(|field| &*field.name).collect();
        own.into_iter().for_each(|name| *names.entry(name).or_default() += 1);
    }
    let mut names: Vec<(&str, usize)> = names.into_iter().collect();
    names.sort_by_key(|&(_, hits)| Reverse(hits));
    let names = names.into_iter().map(|(name, _)| name).take(MOST_FACETS);
    let mut found = Vec::new();
    for Facet { field: name, values, distinct, .. } in index.facets(names, filter, FACET_VALUES)? {
        let path: Vec<&str> = name.split('.').collect();
        let counted =
            |own: &FacetValue| Counted { field: field(&own.value, &path), documents: own.documents };
        let values: Vec<Counted> = values.iter().filter(|own| own.documents > 1).map(counted).collect();
        if distinct > 1 && !values.is_empty() {
            found.push(FieldValues { name, values, distinct });
        }
    }
    Ok(found)
}

/// What a hit shows in place of its text and metadata.
#[derive(Serialize)]
struct Shown {
    excerpt: Value,
    bytes: usize,
    fields: Vec<Field>,
    grade: Option<i32>,
}

/// Takes text and metadata out of a hit, and a judgment that hardly moved it.
fn shown(hit: &mut Hit, words: &QuestionWords, grade: Option<i32>) -> Shown {
    let excerpt = json!(excerpt(hit, words));
    let mut fields = Vec::new();
    if let Some(metadata) = hit.document.metadata.take() {
        collect(&metadata, &mut Vec::new(), &mut fields);
    }
    hit.judged = hit.judged.take().filter(RecalledJudgment::is_noticeable);
    let Document { title, text, .. } = &mut hit.document;
    title.truncate(floor(title, MOST_TITLE));
    let bytes = std::mem::take(text).len();
    Shown { excerpt, bytes, fields, grade }
}

/// The scalar values of a document's metadata, with arrays flattened.
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
    let text = value.as_str().map_or_else(|| Cow::Owned(value.to_string()), Cow::Borrowed);
    let name = path.join(".");
    let is_short = name.len() <= MOST_NAME && text.len() <= MOST_VALUE;
    // A dot separates nested fields, and a dollar begins an operator.
    let has_name = path.iter().all(|name| !name.is_empty() && !name.contains('.') && !name.starts_with('$'));
    let filter = (is_short && has_name).then(|| {
        let mut filter = Map::new();
        let test = match value {
            // `$eq` with null also finds documents without the field.
            Value::Null => json!({ "$eq": value, "$exists": true }),
            _ => json!({ "$eq": value }),
        };
        filter.insert(name.clone(), test);
        Value::Object(filter).to_string()
    });
    Field { name: beginning(&name, MOST_NAME), value: beginning(&text, MOST_VALUE), filter }
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
                assert!(["a.b", "$where", "long"].contains(&field.name.as_str()));
                continue;
            };
            let filter = &serde_json::from_str(filter).unwrap();
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
        let long =
            json!({ "n".repeat(60_000): 1, "value": "v".repeat(512 << 10), "é".repeat(51): "of 102 bytes" });
        let mut fields = Vec::new();
        collect(&long, &mut Vec::new(), &mut fields);
        assert_eq!(fields.len(), 3);
        for Field { name, value, filter } in &fields {
            assert!(name.len() <= MOST_NAME + 3 && value.len() <= MOST_VALUE + 3, "{name}: {value}");
            assert_eq!(*filter, None);
        }
        let many: Map<String, Value> = (0..1_000).map(|n| (n.to_string(), json!(n))).collect();
        let mut fields = Vec::new();
        collect(&Value::Object(many), &mut Vec::new(), &mut fields);
        assert_eq!(fields.len(), MOST_FIELDS);
    }
}
