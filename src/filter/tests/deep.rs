//! The limit of nesting.

use serde_json::{Value, json};

use super::super::{Filter, FilterError};

/// Dropping a value in `serde_json` is itself recursive.
fn drop_flat(value: Value) {
    let mut todo = vec![value];
    while let Some(value) = todo.pop() {
        match value {
            Value::Array(items) => todo.extend(items),
            Value::Object(fields) => todo.extend(fields.into_iter().map(|(_, value)| value)),
            _ => {}
        }
    }
}

#[test]
fn metadata_of_any_depth_is_searched() {
    const DEEP: usize = 200_000;
    let mut value = json!({"a": 1});
    for _ in 0..DEEP {
        value = Value::Array(vec![value]);
    }
    let Value::Object(mut fields) = json!({}) else { unreachable!() };
    fields.insert("deep".into(), value);
    let metadata = Value::Object(fields);
    assert!(Filter::eq("deep.0".to_string() + &".0".repeat(DEEP - 1) + ".a", 1).matches("", Some(&metadata)));
    assert!(!Filter::eq("deep.a", 1).matches("", Some(&metadata)));
    assert!(!Filter::eq("deep", json!([[[{}]]])).matches("", Some(&metadata)));
    assert!(matches!(Filter::from_json(&metadata), Err(FilterError::TooDeep { .. })));
    drop_flat(metadata);
}

#[test]
fn the_limit_is_exact() {
    let too_deep = Err(FilterError::TooDeep { most: Filter::MAX_DEPTH });
    // One level for itself and two for each join; the value takes the rest.
    let nested = |depth: usize| {
        let mut filter = Filter::eq("a", (0..(depth - 1) % 2).fold(json!(1), |value, _| json!([value])));
        for level in 0..(depth - 1) / 2 {
            let more = Filter::eq("b", 1);
            filter = if level % 2 == 0 { filter.and(more) } else { filter.or(more) };
        }
        filter
    };
    for depth in [1, 2, 3, 4, 5, 6, 63, 64] {
        let filter = nested(depth);
        assert_eq!(super::super::depth(&filter.to_json(), 99), depth);
        assert_eq!(Filter::from_json(&filter.to_json()), Ok(filter.clone()));
        assert_eq!(filter.to_string().parse(), Ok(filter));
    }
    assert_eq!(Filter::from_json(&nested(65).to_json()), too_deep);

    let not = |depth| (1..depth).fold(json!({}), |filter, _| json!({ "$not": filter }));
    assert_eq!(Filter::from_json(&not(64)), Ok(Filter::any([])));
    assert_eq!(Filter::from_json(&not(65)), too_deep);
    let value = |depth| json!({ "a": (1..depth).fold(json!(1), |value, _| json!([value])) });
    assert!(Filter::from_json(&value(64)).is_ok());
    assert_eq!(Filter::from_json(&value(65)), too_deep);
}

#[test]
fn what_is_written_deeper_than_it_was_read_is_refused() {
    let implicit =
        |levels| (0..levels).fold(json!({"a": 0}), |filter, n| json!({"a": n, "$or": [{ "b": n }, filter]}));
    // Two levels each when read, four when written.
    assert!(Filter::from_json(&implicit(15)).is_ok());
    assert_eq!(Filter::from_json(&implicit(16)), Err(FilterError::TooDeep { most: Filter::MAX_DEPTH }));
}
