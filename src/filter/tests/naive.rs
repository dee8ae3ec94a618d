//! A second evaluator of filters, as simple as possible: by recursion over the JSON, with copies.

use serde_json::{Value, json};

/// Whether the filter, which must be valid, matches.
pub(super) fn matches(filter: &Value, id: &str, metadata: Option<&Value>) -> bool {
    filter.as_object().unwrap().iter().all(|(key, value)| match key.as_str() {
        "$and" => value.as_array().unwrap().iter().all(|part| matches(part, id, metadata)),
        "$or" => value.as_array().unwrap().iter().any(|part| matches(part, id, metadata)),
        "$nor" => value.as_array().unwrap().iter().all(|part| !matches(part, id, metadata)),
        "$not" => !matches(value, id, metadata),
        "$ids" => value.as_array().unwrap().contains(&json!(id)),
        field => {
            let path: Vec<&str> = field.split('.').collect();
            let whole = metadata.map_or(vec![None], |metadata| at(metadata, &path));
            condition(value, &whole)
        }
    })
}

/// The values of a path, and `None` for nothing.
fn at(value: &Value, path: &[&str]) -> Vec<Option<Value>> {
    let Some((first, rest)) = path.split_first() else { return vec![Some(value.clone())] };
    match value {
        Value::Object(fields) if fields.contains_key(&path.join(".")) => {
            vec![Some(fields[&path.join(".")].clone())]
        }
        Value::Object(fields) if fields.contains_key(*first) => at(&fields[*first], rest),
        Value::Array(items) => match first.parse::<usize>() {
            Ok(index) if index < items.len() => at(&items[index], rest),
            Ok(_) => vec![],
            Err(_) => items.iter().filter(|item| item.is_object()).flat_map(|item| at(item, path)).collect(),
        },
        _ => vec![None],
    }
}

/// For the values of a path, without their elements.
fn condition(condition: &Value, whole: &[Option<Value>]) -> bool {
    let mut found = whole.to_vec();
    for value in whole.iter().flatten() {
        found.extend(value.as_array().cloned().unwrap_or_default().into_iter().map(Some));
    }
    let values: Vec<Value> = found.iter().map(|found| found.clone().unwrap_or(Value::Null)).collect();
    let any = |holds: &dyn Fn(&Value) -> bool| values.iter().any(holds);
    let Some(operators) = condition.as_object() else { return any(&|x| same(x, condition)) };
    operators.iter().all(|(operator, value)| {
        let one_of = |x: &Value| value.as_array().unwrap().iter().any(|value| same(x, value));
        match operator.as_str() {
            "$eq" => any(&|x| same(x, value)),
            "$ne" => !any(&|x| same(x, value)),
            "$gt" => any(&|x| less(value, x)),
            "$gte" => any(&|x| less(value, x) || same(value, x)),
            "$lt" => any(&|x| less(x, value)),
            "$lte" => any(&|x| less(x, value) || same(x, value)),
            "$in" => any(&one_of),
            "$nin" => !any(&one_of),
            "$all" => {
                value.as_array().unwrap().iter().all(|value| any(&|x| same(x, value))) && value != &json!([])
            }
            "$size" => whole
                .iter()
                .flatten()
                .any(|x| x.as_array().map(Vec::len) == Some(value.as_u64().unwrap() as usize)),
            "$regex" => any(&|x| x.as_str().is_some_and(|x| x.starts_with(&value.as_str().unwrap()[1..]))),
            "$exists" => found.iter().any(Option::is_some) == value.as_bool().unwrap(),
            "$not" => !self::condition(value, whole),
            _ => unreachable!("{operator}"),
        }
    })
}

/// Twice the number: an integer for every number used in the tests.
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
