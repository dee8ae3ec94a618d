//! Filters and values nested so deeply that any recursion over them would end the process.

use std::thread;

use serde_json::{Value, json};

use super::super::{Filter, FilterError};

const DEEP: usize = 200_000;

/// Runs with a stack much smaller than one frame per level.
fn on_a_small_stack(run: impl FnOnce() + Send + 'static) {
    thread::Builder::new().stack_size(256 << 10).spawn(run).unwrap().join().unwrap();
}

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
fn filters_of_any_depth_match_compare_and_drop() {
    on_a_small_stack(|| {
        // a or (b and (a or (b and ...))), which equals a or b and the innermost.
        let (a, b) = (Filter::eq("a", 1), Filter::eq("b", 1));
        let mut filter = Filter::ids(["id"]);
        for _ in 0..DEEP / 2 {
            filter = filter.and(b.clone()).or(a.clone());
        }
        assert!(filter.matches("", Some(&json!({"a": 1}))));
        assert!(filter.matches("id", Some(&json!({"b": 1}))));
        assert!(!filter.matches("", Some(&json!({"b": 1}))));
        assert!(!filter.matches_bytes("id", b"{\"b\":2}").unwrap());
        assert_eq!(filter.candidate_ids(), None);
        let negated = !filter.clone();
        assert!(negated.matches("", Some(&json!({"b": 1}))));
        assert!(negated != filter && !negated == filter);
        assert_eq!(filter.to_json(), Value::Null);
        assert_eq!(filter.to_string(), "null");
        assert!(format!("{filter:?}").len() > DEEP);
        drop(filter);
    });
}

#[test]
fn metadata_of_any_depth_is_searched() {
    on_a_small_stack(|| {
        let mut value = json!({"a": 1});
        for _ in 0..DEEP {
            value = Value::Array(vec![value]);
        }
        let metadata = json!({});
        let Value::Object(mut fields) = metadata else { unreachable!() };
        fields.insert("deep".into(), value);
        let metadata = Value::Object(fields);
        assert!(
            Filter::eq("deep.0".to_string() + &".0".repeat(DEEP - 1) + ".a", 1).matches("", Some(&metadata))
        );
        assert!(!Filter::eq("deep.a", 1).matches("", Some(&metadata)));
        assert!(!Filter::eq("deep", json!([[[{}]]])).matches("", Some(&metadata)));
        assert!(matches!(Filter::from_json(&metadata), Err(FilterError::TooDeep { .. })));
        drop_flat(metadata);
    });
}

#[test]
fn deep_values_are_equal_without_recursion() {
    on_a_small_stack(|| {
        let deep = |innermost: Value| (0..DEEP).fold(innermost, |value, _| Value::Array(vec![value]));
        let (one, also, two) = (deep(json!(1)), deep(json!(1.0)), deep(json!(2)));
        assert!(super::super::values::equal(&one, &also) && !super::super::values::equal(&one, &two));
        [one, also, two].into_iter().for_each(drop_flat);
    });
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
        assert_eq!(filter.depth(), depth);
        assert_eq!(Filter::from_json(&filter.to_json()), Ok(filter.clone()));
        assert_eq!(filter.to_string().parse(), Ok(filter));
    }
    assert_eq!(nested(65).to_json(), Value::Null);

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
