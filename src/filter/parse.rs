//! A filter read from JSON.

use std::str::FromStr;

use serde_json::Value;

use super::{
    Filter, FilterError,
    error::{ON_FIELDS, ON_FILTERS},
    values,
};

type Result<T> = std::result::Result<T, FilterError>;

const SCALAR: &str = "a number, a string, true or false";
const VALUES: &str = "an array of values, as in {\"lang\": {\"$in\": [\"en\", \"de\"]}}";
const OPERATORS: &str = "an object of operators, as in {\"year\": {\"$not\": {\"$gt\": 2010}}}";
const FILTERS: &str = "an array of filters, as in [{\"lang\": \"en\"}, {\"year\": 2010}]";
const IDS: &str = "an array of strings, as in {\"$ids\": [\"id-1\", \"id-2\"]}";

impl Filter {
    /// Reads a filter from JSON; the type's documentation describes the form.
    ///
    /// # Errors
    ///
    /// The problem and what to write instead; [`FilterError::TooDeep`] also if only the form written by
    /// [`Filter::to_json`], with an `$and` for several entries of one object, is too deep.
    pub fn from_json(json: &Value) -> Result<Self> {
        // First, since what follows recurses.
        if values::depth(json, Self::MAX_DEPTH) > Self::MAX_DEPTH {
            return Err(FilterError::TooDeep { most: Self::MAX_DEPTH });
        }
        let filter = read_filter(json)?;
        if filter.depth() > Self::MAX_DEPTH {
            return Err(FilterError::TooDeep { most: Self::MAX_DEPTH });
        }
        Ok(filter)
    }
}

/// Reads JSON text, as [`Filter::from_json`].
impl FromStr for Filter {
    type Err = FilterError;

    fn from_str(text: &str) -> Result<Self> {
        let json = serde_json::from_str(text)
            .map_err(|error: serde_json::Error| FilterError::NotJson { message: error.to_string() })?;
        Self::from_json(&json)
    }
}

fn read_filter(json: &Value) -> Result<Filter> {
    let Value::Object(entries) = json else {
        return Err(FilterError::NotAnObject { found: kind(json) });
    };
    let parts: Vec<Filter> =
        entries.iter().map(|(key, value)| read_entry(key, value)).collect::<Result<_>>()?;
    Ok(Filter::all(parts))
}

fn read_entry(key: &str, value: &Value) -> Result<Filter> {
    match key {
        "$and" => Ok(Filter::all(read_filters("$and", value)?)),
        "$or" => Ok(Filter::any(read_filters("$or", value)?)),
        "$nor" => Ok(!Filter::any(read_filters("$nor", value)?)),
        "$not" => Ok(!read_filter(value)?),
        "$ids" => read_ids(value),
        operator if operator.starts_with('$') => {
            Err(match ON_FIELDS.into_iter().find(|&on| on == operator) {
                Some(operator) => FilterError::Misplaced {
                    operator,
                    expected: "it under a field, as in {\"year\": {\"$gte\": 2010}}",
                },
                None => FilterError::UnknownOperator { operator: operator.into() },
            })
        }
        field => read_field(field, value),
    }
}

fn read_filters(operator: &'static str, value: &Value) -> Result<Vec<Filter>> {
    match value {
        Value::Array(filters) if filters.is_empty() => Err(FilterError::Empty { operator }),
        Value::Array(filters) => filters.iter().map(read_filter).collect(),
        _ => Err(FilterError::WrongValue { operator, expected: FILTERS }),
    }
}

fn read_ids(value: &Value) -> Result<Filter> {
    let ids: Option<Vec<&str>> = value.as_array().and_then(|ids| ids.iter().map(Value::as_str).collect());
    match ids {
        Some(ids) => Ok(Filter::ids(ids)),
        None => Err(FilterError::WrongValue { operator: "$ids", expected: IDS }),
    }
}

fn read_field(field: &str, value: &Value) -> Result<Filter> {
    match value {
        Value::Object(operators) if operators.is_empty() => {
            Err(FilterError::BareObject { field: field.into() })
        }
        Value::Object(operators) => {
            let parts: Vec<Filter> = operators
                .iter()
                .map(|(operator, value)| read_operator(field, operator, value))
                .collect::<Result<_>>()?;
            Ok(Filter::all(parts))
        }
        value => Ok(Filter::eq(field, value.clone())),
    }
}

fn read_operator(field: &str, operator: &str, value: &Value) -> Result<Filter> {
    match operator {
        "$eq" => Ok(Filter::eq(field, value.clone())),
        "$ne" => Ok(Filter::ne(field, value.clone())),
        "$gt" => Ok(Filter::gt(field, scalar("$gt", value)?)),
        "$gte" => Ok(Filter::gte(field, scalar("$gte", value)?)),
        "$lt" => Ok(Filter::lt(field, scalar("$lt", value)?)),
        "$lte" => Ok(Filter::lte(field, scalar("$lte", value)?)),
        "$in" => Ok(Filter::one_of(field, array("$in", value)?)),
        "$nin" => Ok(!Filter::one_of(field, array("$nin", value)?)),
        "$exists" => match value {
            Value::Bool(true) => Ok(Filter::exists(field)),
            Value::Bool(false) => Ok(!Filter::exists(field)),
            _ => Err(FilterError::WrongValue { operator: "$exists", expected: "true or false" }),
        },
        "$not" if value.is_object() => Ok(!read_field(field, value)?),
        "$not" => Err(FilterError::WrongValue { operator: "$not", expected: OPERATORS }),
        operator if operator.starts_with('$') => {
            Err(match ON_FILTERS.into_iter().find(|&on| on == operator) {
                Some(operator) => FilterError::Misplaced {
                    operator,
                    expected: "it beside fields, as in {\"lang\": \"en\", \"$or\": [{\"year\": 2010}, {\"year\": 2011}]}",
                },
                None => FilterError::UnknownOperator { operator: operator.into() },
            })
        }
        _ => Err(FilterError::BareObject { field: field.into() }),
    }
}

fn scalar(operator: &'static str, value: &Value) -> Result<Value> {
    match value {
        Value::Number(_) | Value::String(_) | Value::Bool(_) => Ok(value.clone()),
        _ => Err(FilterError::WrongValue { operator, expected: SCALAR }),
    }
}

fn array(operator: &'static str, value: &Value) -> Result<Vec<Value>> {
    match value {
        Value::Array(values) => Ok(values.clone()),
        _ => Err(FilterError::WrongValue { operator, expected: VALUES }),
    }
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    }
}
