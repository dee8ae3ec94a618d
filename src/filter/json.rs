//! Filters read from JSON and written as JSON.

use std::fmt;
use std::str::FromStr;

use serde_json::{Value, json};

use super::error::{ON_FIELDS, ON_FILTERS};
use super::matches::{Relation, Test};
use super::{Filter, FilterError, Join, Node, values};
use crate::serialize::Strict;

type Result<T> = std::result::Result<T, FilterError>;

const SCALAR: &str = "a number, a string, true or false";
const VALUES: &str = "an array of values, as in {\"lang\": {\"$in\": [\"en\", \"de\"]}}";
const OPERATORS: &str = "an object of operators, as in {\"year\": {\"$not\": {\"$gt\": 2010}}}";
const FILTERS: &str = "an array of filters, as in [{\"lang\": \"en\"}, {\"year\": 2010}]";
const PREFIX: &str = "`^` and the beginning of a string, as in {\"path\": {\"$regex\": \"^docs/\"}}, with a backslash \
                      before . * + ? ( ) [ ] { } | ^ $ and \\";
/// Characters with a meaning in regular expressions, without the backslash.
const SPECIAL: &str = ".*+?()[]{}|^$";
const IDS: &str = "an array of strings, as in {\"$ids\": [\"id-1\", \"id-2\"]}";
const UNDER: &str = "under a field, as in {\"year\": {\"$gte\": 2010}}";
const BESIDE: &str = "beside fields, as in {\"lang\": \"en\", \"$or\": [{\"year\": 2010}, {\"year\": 2011}]}";

impl Filter {
    /// Reads a filter from JSON; the type's documentation describes the form.
    ///
    /// # Errors
    ///
    /// The problem and what to write instead; [`FilterError::TooDeep`] also if only the form written by
    /// [`Filter::to_json`], with an `$and` for several entries of one object, is too deep.
    pub fn from_json(json: &Value) -> Result<Self> {
        let most = Self::MAX_DEPTH;
        // First, since what follows recurses.
        let depth = values::depth(json, most);
        if depth > most {
            return Err(FilterError::TooDeep { most });
        }
        let filter = read_filter(json)?;
        // Each level is written as three at most.
        if 3 * depth > most && values::depth(&filter.to_json(), most) > most {
            return Err(FilterError::TooDeep { most });
        }
        Ok(filter)
    }

    /// The filter in JSON; [`Filter::from_json`] reads the same filter from it.
    ///
    /// Two exceptions, which only the functions can make, are refused when read: a field that begins with
    /// `$`, and a filter nested deeper than [`Filter::MAX_DEPTH`].
    pub fn to_json(&self) -> Value {
        match &self.node {
            Node::Test { test, negated } => write_test(test, *negated),
            Node::Join { join, parts } => {
                let parts: Vec<Value> = parts.iter().map(Self::to_json).collect();
                match join {
                    Join::All if parts.is_empty() => json!({}),
                    Join::All => json!({ "$and": parts }),
                    Join::Any if parts.is_empty() => json!({ "$not": {} }),
                    Join::Any => json!({ "$or": parts }),
                }
            }
        }
    }
}

/// Reads JSON text, as [`Filter::from_json`]. A repeated key in an object is an error.
impl FromStr for Filter {
    type Err = FilterError;

    fn from_str(text: &str) -> Result<Self> {
        let Strict(json) = serde_json::from_str(text)
            .map_err(|error: serde_json::Error| FilterError::NotJson { message: error.to_string() })?;
        Self::from_json(&json)
    }
}

/// The JSON of [`Filter::to_json`], on one line.
impl fmt::Display for Filter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.to_json().fmt(f)
    }
}

fn write_test(test: &Test, negated: bool) -> Value {
    match test {
        Test::Ids(ids) if negated => json!({ "$not": { "$ids": ids } }),
        Test::Ids(ids) => json!({ "$ids": ids }),
        Test::Exists { field } => json!({ field: { "$exists": !negated } }),
        Test::OneOf { field, values } => match values.single() {
            Some(value) if negated => json!({ field: { "$ne": value } }),
            Some(value) if value.is_object() => json!({ field: { "$eq": value } }),
            Some(value) => json!({ field: value }),
            None => {
                let operator = if negated { "$nin" } else { "$in" };
                json!({ field: { operator: values.iter().collect::<Vec<_>>() } })
            }
        },
        Test::Compare { field, relation, value } => {
            write_operator(field, json!({ relation.operator(): value }), negated)
        }
        Test::Prefix { field, prefix } => {
            write_operator(field, json!({ "$regex": write_prefix(prefix) }), negated)
        }
        Test::Size { field, size } => write_operator(field, json!({ "$size": size }), negated),
    }
}

fn write_operator(field: &str, operator: Value, negated: bool) -> Value {
    if negated { json!({ field: { "$not": operator } }) } else { json!({ field: operator }) }
}

fn read_filter(json: &Value) -> Result<Filter> {
    let Value::Object(entries) = json else {
        let found = kind(json);
        return malformed(format!("a filter is an object such as {{\"lang\": \"en\"}}, not {found}"));
    };
    let parts = entries.iter().map(|(key, value)| read_entry(key, value));
    Ok(Filter::all(parts.collect::<Result<Vec<_>>>()?))
}

fn read_entry(key: &str, value: &Value) -> Result<Filter> {
    match key {
        "$and" => Ok(Filter::all(read_filters(key, value)?)),
        "$or" => Ok(Filter::any(read_filters(key, value)?)),
        "$nor" => Ok(!Filter::any(read_filters(key, value)?)),
        "$not" => Ok(!read_filter(value)?),
        "$ids" => {
            let ids: Option<Vec<&str>> =
                value.as_array().and_then(|ids| ids.iter().map(Value::as_str).collect());
            ids.map_or_else(|| wrong(key, IDS), |ids| Ok(Filter::ids(ids)))
        }
        operator if operator.starts_with('$') => misplaced(operator, &ON_FIELDS, UNDER),
        field => read_field(field, value),
    }
}

fn read_filters(operator: &str, value: &Value) -> Result<Vec<Filter>> {
    match value {
        Value::Array(filters) if filters.is_empty() => {
            malformed(format!("`{operator}` is empty; write at least one filter in it, or leave it out"))
        }
        Value::Array(filters) => filters.iter().map(read_filter).collect(),
        _ => wrong(operator, FILTERS),
    }
}

fn read_field(field: &str, value: &Value) -> Result<Filter> {
    match value {
        Value::Object(operators) if operators.is_empty() => bare(field),
        Value::Object(operators) => {
            let parts = operators.iter().map(|(operator, value)| read_operator(field, operator, value));
            Ok(Filter::all(parts.collect::<Result<Vec<_>>>()?))
        }
        value => Ok(Filter::eq(field, value.clone())),
    }
}

fn read_operator(field: &str, operator: &str, value: &Value) -> Result<Filter> {
    if let Some((_, relation)) = Relation::ALL.into_iter().find(|(name, _)| *name == operator) {
        return match value {
            Value::Number(_) | Value::String(_) | Value::Bool(_) => {
                Ok(Filter::compare(field, relation, value.clone()))
            }
            _ => wrong(operator, SCALAR),
        };
    }
    match (operator, value) {
        ("$eq", _) => Ok(Filter::eq(field, value.clone())),
        ("$ne", _) => Ok(Filter::ne(field, value.clone())),
        ("$in", Value::Array(values)) => Ok(Filter::one_of(field, values.clone())),
        ("$nin", Value::Array(values)) => Ok(!Filter::one_of(field, values.clone())),
        ("$in" | "$nin", _) => wrong(operator, VALUES),
        ("$all", Value::Array(values)) => Ok(Filter::has_all(field, values.clone())),
        ("$all", _) => wrong(operator, "an array of values, as in {\"tags\": {\"$all\": [\"a\", \"b\"]}}"),
        ("$size", _) => match whole(value).and_then(|size| size.try_into().ok()) {
            Some(size) => Ok(Filter::size(field, size)),
            None => wrong(operator, "a whole number, as in {\"tags\": {\"$size\": 2}}"),
        },
        ("$regex", _) => match value.as_str().and_then(read_prefix) {
            Some(prefix) => Ok(Filter::starts_with(field, prefix)),
            None => wrong(operator, PREFIX),
        },
        ("$exists", Value::Bool(true)) => Ok(Filter::exists(field)),
        ("$exists", Value::Bool(false)) => Ok(!Filter::exists(field)),
        ("$exists", _) => wrong(operator, "true or false"),
        ("$not", Value::Object(_)) => Ok(!read_field(field, value)?),
        ("$not", _) => wrong(operator, OPERATORS),
        (operator, _) if operator.starts_with('$') => misplaced(operator, &ON_FILTERS, BESIDE),
        _ => bare(field),
    }
}

/// A number from 0 without a fraction, also as `2.0`.
fn whole(value: &Value) -> Option<u64> {
    let float = || value.as_f64().filter(|size| *size >= 0.0 && size.fract() == 0.0 && *size < 1e15);
    value.as_u64().or_else(|| float().map(|size| size as u64))
}

/// The text that an expression such as `^docs/` looks for at the beginning; `None` for other expressions.
fn read_prefix(expression: &str) -> Option<String> {
    let mut prefix = String::new();
    let mut rest = expression.strip_prefix('^')?.chars();
    while let Some(next) = rest.next() {
        prefix.push(match next {
            '\\' => rest.next().filter(char::is_ascii_punctuation)?,
            next if SPECIAL.contains(next) => return None,
            next => next,
        });
    }
    Some(prefix)
}

fn write_prefix(prefix: &str) -> String {
    let mut expression = "^".to_owned();
    for next in prefix.chars() {
        expression.extend((next == '\\' || SPECIAL.contains(next)).then_some('\\'));
        expression.push(next);
    }
    expression
}

fn malformed<T>(message: String) -> Result<T> {
    Err(FilterError::Malformed { message })
}

/// A value that the operator does not accept.
fn wrong<T>(operator: &str, expected: &str) -> Result<T> {
    malformed(format!("`{operator}` takes {expected}"))
}

/// An operator that is unknown, or belongs in another `place` if it is one of these.
fn misplaced<T>(operator: &str, others: &[&str], place: &str) -> Result<T> {
    if others.contains(&operator) {
        return malformed(format!("the operator `{operator}` cannot stand here; write it {place}"));
    }
    malformed(format!(
        "unknown operator `{operator}`, and a field's name cannot begin with `$`; write one of {} under a field, \
         one of {} beside fields",
        ON_FIELDS.join(" "),
        ON_FILTERS.join(" ")
    ))
}

/// An object under a field that is empty or has a key that does not begin with `$`.
fn bare<T>(field: &str) -> Result<T> {
    malformed(format!(
        "the object under `{field}` is not an operator; write {{\"$eq\": {{...}}}} to compare with an object, or \
         one of {}",
        ON_FIELDS.join(" ")
    ))
}

/// The kind of a value in messages.
pub(crate) fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    }
}
