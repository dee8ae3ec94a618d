//! MongoDB's answers: each field with each operator, row by row.

use serde_json::{Value, json};

use super::read;

/// `yes` and `.` for each of the operators.
fn check(operators: &[Value], rows: &[(Value, &str)]) {
    for (metadata, expected) in rows {
        let expected: Vec<bool> = expected.split_whitespace().map(|cell| cell == "yes").collect();
        assert_eq!(expected.len(), operators.len(), "{metadata}");
        for (operator, expected) in operators.iter().zip(expected) {
            assert_eq!(read(operator).matches("id", Some(metadata)), expected, "{operator} of {metadata}");
        }
    }
}

#[test]
fn null_and_what_is_missing() {
    check(
        &[
            json!({"v": null}),
            json!({"v": {"$eq": null}}),
            json!({"v": {"$ne": null}}),
            json!({"v": {"$in": [null]}}),
            json!({"v": {"$nin": [null]}}),
            json!({"v": {"$in": [null, 1]}}),
            json!({"v": {"$nin": [null, 1]}}),
            json!({"v": {"$exists": true}}),
            json!({"v": {"$exists": false}}),
            json!({"v": {"$not": {"$eq": null}}}),
        ],
        &[
            (json!({}), "yes yes . yes . yes . . yes ."),
            (json!({"v": null}), "yes yes . yes . yes . yes . ."),
            (json!({"v": 1}), ". . yes . yes yes . yes . yes"),
            (json!({"v": 0}), ". . yes . yes . yes yes . yes"),
            (json!({"v": false}), ". . yes . yes . yes yes . yes"),
            (json!({"v": ""}), ". . yes . yes . yes yes . yes"),
            (json!({"v": []}), ". . yes . yes . yes yes . yes"),
            (json!({"v": [null]}), "yes yes . yes . yes . yes . ."),
            (json!({"v": [1, null]}), "yes yes . yes . yes . yes . ."),
            (json!({"v": [1, 2]}), ". . yes . yes yes . yes . yes"),
            (json!({"v": [[null]]}), ". . yes . yes . yes yes . yes"),
            (json!({"v": {}}), ". . yes . yes . yes yes . yes"),
            (json!({"v": {"a": null}}), ". . yes . yes . yes yes . yes"),
        ],
    );
}

#[test]
fn values_lists_and_objects() {
    check(
        &[
            json!({"v": 1}),
            json!({"v": {"$ne": 1}}),
            json!({"v": {"$in": [1, "a"]}}),
            json!({"v": {"$nin": [1, "a"]}}),
            json!({"v": {"$in": []}}),
            json!({"v": {"$nin": []}}),
            json!({"v": {"$eq": []}}),
            json!({"v": {"$eq": [1]}}),
            json!({"v": {"$eq": {"a": 1}}}),
            json!({"v": {"$ne": {"a": 1}}}),
            json!({"v": {"$gt": 0}}),
            json!({"v": {"$not": {"$gt": 0}}}),
        ],
        &[
            (json!({}), ". yes . yes . yes . . . yes . yes"),
            (json!({"v": null}), ". yes . yes . yes . . . yes . yes"),
            (json!({"v": 1}), "yes . yes . . yes . . . yes yes ."),
            (json!({"v": 1.0}), "yes . yes . . yes . . . yes yes ."),
            (json!({"v": "1"}), ". yes . yes . yes . . . yes . yes"),
            (json!({"v": "a"}), ". yes yes . . yes . . . yes . yes"),
            (json!({"v": []}), ". yes . yes . yes yes . . yes . yes"),
            (json!({"v": [1]}), "yes . yes . . yes . yes . yes yes ."),
            (json!({"v": ["a", 1]}), "yes . yes . . yes . . . yes yes ."),
            (json!({"v": [[1]]}), ". yes . yes . yes . yes . yes . yes"),
            (json!({"v": {"a": 1}}), ". yes . yes . yes . . yes . . yes"),
            (json!({"v": [{"a": 1}]}), ". yes . yes . yes . . yes . . yes"),
        ],
    );
}

#[test]
fn null_at_the_end_of_a_path() {
    check(
        &[
            json!({"a.b": null}),
            json!({"a.b": {"$ne": null}}),
            json!({"a.b": {"$in": [null, 1]}}),
            json!({"a.b": {"$nin": [null]}}),
            json!({"a.b": {"$exists": false}}),
            json!({"a.b": {"$ne": 1}}),
        ],
        &[
            (json!({}), "yes . yes . yes yes"),
            (json!({"a": null}), "yes . yes . yes yes"),
            (json!({"a": 5}), "yes . yes . yes yes"),
            (json!({"a": {}}), "yes . yes . yes yes"),
            (json!({"a": {"b": null}}), "yes . yes . . yes"),
            (json!({"a": {"b": 1}}), ". yes yes yes . ."),
            // A list leads to the values of its objects; its other elements lead nowhere.
            (json!({"a": []}), ". yes . yes yes yes"),
            (json!({"a": [5, "x"]}), ". yes . yes yes yes"),
            (json!({"a": [{}]}), "yes . yes . yes yes"),
            (json!({"a": [{"b": 1}, {"c": 1}]}), "yes . yes . . ."),
            (json!({"a": [{"b": 1}, 5]}), ". yes yes yes . ."),
            (json!({"a": [{"b": null}]}), "yes . yes . . yes"),
        ],
    );
}

#[test]
fn arrays_and_beginnings() {
    check(
        &[
            json!({"v": {"$all": ["a", 1]}}),
            json!({"v": {"$all": ["a"]}}),
            json!({"v": {"$all": []}}),
            json!({"v": {"$all": [["a"]]}}),
            json!({"v": {"$size": 2}}),
            json!({"v": {"$size": 0.0}}),
            json!({"v": {"$not": {"$size": 2}}}),
            json!({"v": {"$regex": "^a"}}),
            json!({"v": {"$regex": "^a\\.b"}}),
            json!({"v": {"$not": {"$regex": "^a"}}}),
        ],
        &[
            (json!({}), ". . . . . . yes . . yes"),
            (json!({"v": "a"}), ". yes . . . . yes yes . ."),
            (json!({"v": "a.b"}), ". . . . . . yes yes yes ."),
            (json!({"v": "a-b"}), ". . . . . . yes yes . ."),
            (json!({"v": ["a", 1, 2]}), "yes yes . . . . yes yes . ."),
            (json!({"v": ["a"]}), ". yes . yes . . yes yes . ."),
            (json!({"v": [["a"], 2]}), ". . . yes yes . . . . yes"),
            (json!({"v": [[1, 2]]}), ". . . . . . yes . . yes"),
            (json!({"v": []}), ". . . . . yes yes . . yes"),
            (json!({"v": 2}), ". . . . . . yes . . yes"),
        ],
    );
}

/// Documented differences from MongoDB, see docs/search.md.
#[test]
fn differences_are_the_ones_written_down() {
    // A range with null, `$exists` with a number, and an object without `$eq` are errors.
    for refused in [json!({"v": {"$gte": null}}), json!({"v": {"$exists": 1}}), json!({"v": {"a": 1}})] {
        assert!(super::Filter::from_json(&refused).is_err(), "{refused}");
    }
    // The order of an object's fields does not matter.
    let swapped = json!({"v": {"b": 2, "a": 1}});
    assert!(read(&json!({"v": {"$eq": {"a": 1, "b": 2}}})).matches("id", Some(&swapped)));
    // A field may have a dot in its name.
    assert!(read(&json!({"a.b": 1})).matches("id", Some(&json!({"a.b": 1}))));
}
