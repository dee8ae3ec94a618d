//! Another evaluator of filters, as plain as can be: by recursion over the JSON, with copies.

use serde_json::{Value, json};

/// Whether the filter, which must be a good one, matches.
pub(super) fn matches(filter: &Value, id: &str, metadata: Option<&Value>) -> bool {
    filter.as_object().unwrap().iter().all(|(key, value)| match key.as_str() {
        "$and" => value.as_array().unwrap().iter().all(|part| matches(part, id, metadata)),
        "$or" => value.as_array().unwrap().iter().any(|part| matches(part, id, metadata)),
        "$nor" => value.as_array().unwrap().iter().all(|part| !matches(part, id, metadata)),
        "$not" => !matches(value, id, metadata),
        "$ids" => value.as_array().unwrap().contains(&json!(id)),
        field => {
            let path: Vec<&str> = field.split('.').collect();
            let mut found = metadata.map_or(vec![], |metadata| at(metadata, &path));
            for value in found.clone() {
                found.extend(value.as_array().cloned().unwrap_or_default());
            }
            condition(value, &found)
        }
    })
}

fn at(value: &Value, path: &[&str]) -> Vec<Value> {
    let Some((first, rest)) = path.split_first() else { return vec![value.clone()] };
    match value {
        Value::Object(fields) if fields.contains_key(&path.join(".")) => {
            vec![fields[&path.join(".")].clone()]
        }
        Value::Object(fields) if fields.contains_key(*first) => at(&fields[*first], rest),
        Value::Array(items) => match first.parse::<usize>() {
            Ok(index) if index < items.len() => at(&items[index], rest),
            Ok(_) => vec![],
            Err(_) => items.iter().filter(|item| item.is_object()).flat_map(|item| at(item, path)).collect(),
        },
        _ => vec![],
    }
}

fn condition(condition: &Value, found: &[Value]) -> bool {
    let Some(operators) = condition.as_object() else { return found.iter().any(|x| same(x, condition)) };
    operators.iter().all(|(operator, value)| {
        let values = || value.as_array().unwrap();
        match operator.as_str() {
            "$eq" => found.iter().any(|x| same(x, value)),
            "$ne" => !found.iter().any(|x| same(x, value)),
            "$gt" => found.iter().any(|x| less(value, x)),
            "$gte" => found.iter().any(|x| less(value, x) || same(value, x)),
            "$lt" => found.iter().any(|x| less(x, value)),
            "$lte" => found.iter().any(|x| less(x, value) || same(x, value)),
            "$in" => found.iter().any(|x| values().iter().any(|value| same(x, value))),
            "$nin" => found.iter().all(|x| values().iter().all(|value| !same(x, value))),
            "$exists" => found.is_empty() != value.as_bool().unwrap(),
            "$not" => !self::condition(value, found),
            _ => unreachable!("{operator}"),
        }
    })
}

/// Twice the number: whole for every number that the tests use.
fn doubled(value: &Value) -> Option<i128> {
    let number = value.as_number()?;
    match (number.as_i64(), number.as_u64()) {
        (Some(n), _) => Some(i128::from(n) * 2),
        (_, Some(n)) => Some(i128::from(n) * 2),
        _ => {
            let double = number.as_f64().unwrap() * 2.0;
            assert_eq!(double.fract(), 0.0);
            Some(double as i128)
        }
    }
}

fn same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(_), Value::Number(_)) => doubled(a) == doubled(b),
        (Value::Array(a), Value::Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b)),
        (Value::Object(a), Value::Object(b)) => {
            a.keys().eq(b.keys()) && a.values().zip(b.values()).all(|(a, b)| same(a, b))
        }
        _ => a == b,
    }
}

fn less(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(_), Value::Number(_)) => doubled(a) < doubled(b),
        (Value::String(a), Value::String(b)) => a.as_bytes() < b.as_bytes(),
        (Value::Bool(a), Value::Bool(b)) => !a && *b,
        _ => false,
    }
}
