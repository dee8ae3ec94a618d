//! Why a filter lets nothing through: missing fields, and kinds of values that never compare.

use serde_json::Value;

use super::Filter;
use super::matches::{Test, each_at};

/// Maximum number of fields of a filter that are examined.
const MOST_FIELDS: usize = 50;
/// Kinds of values that are never equal to one another, greater or less.
const KINDS: [&str; 3] = ["numbers", "strings", "booleans"];

/// The fields of a filter that found nothing, and the values in documents.
pub(crate) struct Observed {
    fields: Vec<Field>,
    documents: usize,
}

struct Field {
    name: String,
    is_there: bool,
    /// The kinds that the filter compares it with, and the kinds in documents.
    wanted: [bool; 3],
    held: [bool; 3],
}

impl Observed {
    pub fn new(filter: &Filter) -> Self {
        let field = |name: &str| Field {
            name: name.to_owned(),
            is_there: false,
            wanted: [false; 3],
            held: [false; 3],
        };
        let mut fields: Vec<Field> = filter.fields().into_iter().take(MOST_FIELDS).map(field).collect();
        filter.each_test(&mut |test| {
            let own = fields.iter_mut().find(|own| Some(&*own.name) == test.field());
            match (own, test) {
                (Some(own), Test::Compare { value, .. }) => note(value, &mut own.wanted),
                (Some(own), Test::Prefix { .. }) => own.wanted[1] = true,
                (Some(own), Test::OneOf { values, .. }) => {
                    values.iter().for_each(|value| note(value, &mut own.wanted));
                }
                _ => {}
            }
        });
        Self { fields, documents: 0 }
    }

    /// Number of documents examined.
    pub fn documents(&self) -> usize {
        self.documents
    }

    /// Examines a document's metadata.
    pub fn look(&mut self, metadata: Option<&Value>) {
        self.documents += 1;
        for Field { name, is_there, held, .. } in &mut self.fields {
            each_at(metadata, name, |found| {
                *is_there |= found.is_some();
                found.into_iter().for_each(|found| note(found, held));
                false
            });
        }
    }

    /// The notes; `all` if no document was left out.
    pub fn notes(&self, all: bool) -> Vec<String> {
        if self.documents == 0 {
            return Vec::new();
        }
        self.fields.iter().filter_map(|field| field.note(all, self.documents)).collect()
    }
}

impl Field {
    fn note(&self, all: bool, documents: usize) -> Option<String> {
        let Self { name, is_there, wanted, held } = self;
        if !is_there {
            let none = match all {
                true => "no document has".to_owned(),
                false => format!("none of the {documents} documents looked at has"),
            };
            return Some(format!("{none} the field `{name}` in its metadata"));
        }
        let compared = wanted.iter().zip(held).any(|(wanted, held)| *wanted && *held);
        let others = wanted.iter().zip(held).any(|(wanted, held)| !*wanted && *held);
        if *wanted == [false; 3] || compared && !others {
            return None;
        }
        let among = match all || compared {
            true => String::new(),
            false => format!(" in the {documents} documents looked at"),
        };
        let (wanted, held, alone) = (names(*wanted), names(*held), if compared { " alone" } else { "" });
        Some(format!(
            "the field `{name}` holds {held}{among}, and the filter compares it with {wanted}{alone}; values of \
             different kinds never match"
        ))
    }
}

fn note(value: &Value, kinds: &mut [bool; 3]) {
    match value {
        Value::Number(_) => kinds[0] = true,
        Value::String(_) => kinds[1] = true,
        Value::Bool(_) => kinds[2] = true,
        _ => {}
    }
}

fn names(of: [bool; 3]) -> String {
    let names: Vec<_> = KINDS.iter().zip(of).filter(|(_, is)| *is).map(|(name, _)| *name).collect();
    if names.is_empty() { "no such values".to_owned() } else { names.join(" and ") }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// The notes for documents with this metadata.
    fn notes(filter: &Value, metadata: &[Value]) -> Vec<String> {
        let mut observed = Observed::new(&Filter::from_json(filter).unwrap());
        metadata.iter().for_each(|own| observed.look(Some(own)));
        observed.notes(true)
    }

    #[test]
    fn what_a_field_is_compared_with_and_holds_is_said_where_they_differ() {
        let metadata = [
            json!({ "year": 2010, "by": { "name": "x" }, "tags": ["a"], "at": [1], "zip": "02134" }),
            json!({ "zip": 90210, "gone": null }),
        ];
        let year = "the field `year` holds numbers, and the filter compares it with strings";
        let zip = "the field `zip` holds numbers and strings, and the filter compares it with strings alone";
        for (filter, says) in [
            (json!({ "year": "2010" }), Some(year)),
            (json!({ "year": { "$not": { "$gte": "2010" } } }), Some(year)),
            (json!({ "$or": [{ "year": { "$in": ["2010"] } }, { "$ids": ["b"] }] }), Some(year)),
            (json!({ "year": { "$in": ["2010", 2010] } }), None),
            (json!({ "year": 2011 }), None),
            (json!({ "year": null }), None),
            (json!({ "year": { "$exists": false } }), None),
            (json!({ "gone": { "$ne": null } }), None),
            (json!({ "by.name": true }), Some("holds strings, and the filter compares it with booleans")),
            (json!({ "by": { "$eq": { "name": 1 } } }), None),
            (json!({ "by": 1 }), Some("holds no such values, and the filter compares it with numbers")),
            (json!({ "tags": "b" }), None),
            (json!({ "tags": 1 }), Some("holds strings")),
            (json!({ "at": { "$eq": ["x"] } }), None),
            (json!({ "lang": "en" }), Some("no document has the field `lang`")),
            (json!({ "zip": "90210" }), Some(zip)),
            (json!({ "zip": { "$gte": 90211 } }), Some("compares it with numbers alone")),
            (json!({ "zip": { "$in": [1, "2"] } }), None),
        ] {
            let notes = notes(&filter, &metadata);
            match says {
                None => assert_eq!(notes, [""; 0], "{filter}"),
                Some(says) => assert!(notes.len() == 1 && notes[0].contains(says), "{filter}: {notes:?}"),
            }
        }
        assert_eq!(notes(&json!({ "lang": "en" }), &[]), [""; 0]);
    }

    #[test]
    fn of_some_documents_nothing_is_said_of_all() {
        let mut observed = Observed::new(&Filter::eq("year", "2010").and(Filter::eq("lang", "en")));
        observed.look(Some(&json!({ "year": 2010 })));
        let notes = observed.notes(false).join("; ");
        assert!(notes.contains("holds numbers in the 1 documents looked at"), "{notes}");
        assert!(notes.contains("none of the 1 documents looked at has the field `lang`"), "{notes}");
    }
}
