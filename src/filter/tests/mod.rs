mod deep;
mod errors;
mod ids;
mod lists;
mod mongodb;
mod naive;
mod properties;

use serde_json::{Value, json};

use super::Filter;

fn read(json: &Value) -> Filter {
    Filter::from_json(json).unwrap_or_else(|error| panic!("{json}: {error}"))
}

/// Asserts for each filter which of the documents with this metadata match.
fn check(metadata: &[Value], cases: &[(Value, &[usize])]) {
    for (filter, expected) in cases {
        let read = read(filter);
        let matched: Vec<usize> =
            (0..metadata.len()).filter(|&i| read.matches("id", Some(&metadata[i]))).collect();
        assert_eq!(&matched, expected, "{filter}");
    }
}

#[test]
fn every_operator() {
    let years =
        [json!({"y": 2009}), json!({"y": 2010}), json!({"y": 2011}), json!({"y": "2010"}), json!({"z": 1})];
    check(
        &years,
        &[
            (json!({}), &[0, 1, 2, 3, 4]),
            (json!({"y": 2010}), &[1]),
            (json!({"y": {"$eq": 2010}}), &[1]),
            (json!({"y": {"$ne": 2010}}), &[0, 2, 3, 4]),
            (json!({"y": {"$gt": 2010}}), &[2]),
            (json!({"y": {"$gte": 2010}}), &[1, 2]),
            (json!({"y": {"$lt": 2010}}), &[0]),
            (json!({"y": {"$lte": 2010}}), &[0, 1]),
            (json!({"y": {"$gt": 2009, "$lt": 2011}}), &[1]),
            (json!({"y": {"$in": [2011, 2009.0, 3]}}), &[0, 2]),
            (json!({"y": {"$in": []}}), &[]),
            (json!({"y": {"$nin": [2011, 2009]}}), &[1, 3, 4]),
            (json!({"y": {"$exists": true}}), &[0, 1, 2, 3]),
            (json!({"y": {"$exists": false}}), &[4]),
            (json!({"y": {"$not": {"$gte": 2010}}}), &[0, 3, 4]),
            (json!({"y": {"$not": {"$gt": 2009, "$lt": 2011}}}), &[0, 2, 3, 4]),
            (json!({"$not": {"y": 2010}}), &[0, 2, 3, 4]),
            (json!({"$not": {"$not": {"y": 2010}}}), &[1]),
            (json!({"$not": {}}), &[]),
            (json!({"$or": [{"y": 2009}, {"z": 1}]}), &[0, 4]),
            (json!({"$nor": [{"y": 2009}, {"z": 1}]}), &[1, 2, 3]),
            (json!({"$and": [{"y": {"$gt": 2009}}, {"y": {"$ne": 2011}}]}), &[1]),
            (json!({"$or": [{"y": 2009}, {"y": 2010}], "y": {"$gt": 2009}}), &[1]),
            (json!({"$ids": ["other", "id"]}), &[0, 1, 2, 3, 4]),
            (json!({"$ids": ["i", "idd"]}), &[]),
            (json!({"$ids": []}), &[]),
            (json!({"$ids": ["id"], "y": 2011}), &[2]),
        ],
    );
}

#[test]
fn ranges_hold_within_one_type() {
    let values =
        [json!(false), json!(true), json!(""), json!("Z"), json!("a"), json!("é"), json!(0), json!(null)];
    let metadata = values.map(|value| json!({ "v": value }));
    check(
        &metadata,
        &[
            (json!({"v": {"$gte": ""}}), &[2, 3, 4, 5]),
            (json!({"v": {"$gt": "Z"}}), &[4, 5]),
            (json!({"v": {"$lt": "b"}}), &[2, 3, 4]),
            (json!({"v": {"$gte": false}}), &[0, 1]),
            (json!({"v": {"$lt": true}}), &[0]),
            (json!({"v": {"$lte": 0}}), &[6]),
        ],
    );
}

#[test]
fn nothing_is_greater_or_less_than_null_an_array_or_an_object() {
    for value in [json!(null), json!([]), json!([1]), json!({}), json!(f64::NAN)] {
        for filter in [Filter::gt, Filter::gte, Filter::lt, Filter::lte] {
            let filter: Filter = filter("v", value.clone());
            for found in [json!({ "v": value }), json!({"v": 1}), json!({})] {
                assert!(!filter.matches("id", Some(&found)), "{value} {found}");
            }
            assert_eq!(read(&filter.to_json()), filter);
        }
    }
}

#[test]
fn paths_lead_through_objects_and_arrays() {
    let metadata = [
        json!({"author": {"name": "Ann"}}),
        json!({"author.name": "Ann"}),
        json!({"author.name": "Bob", "author": {"name": "Ann"}}),
        json!({"author": [{"name": "Bob"}, "Ann", {"name": "Ann"}, [{"name": "Cid"}]]}),
        json!({"author": "Ann"}),
        json!([{"author": {"name": "Ann"}}]),
        json!("Ann"),
        json!({"author": {"": 1, "name.first": "Ann"}, "": {"name": "Ann"}}),
        json!({"author": {"0": {"name": "Cid"}}}),
    ];
    check(
        &metadata,
        &[
            (json!({"author.name": "Ann"}), &[0, 1, 3, 5]),
            (json!({"author.name": "Bob"}), &[2, 3]),
            (json!({"author.name": "Cid"}), &[]),
            (json!({"author.name": {"$ne": "Ann"}}), &[2, 4, 6, 7, 8]),
            (json!({"author.0.name": "Bob"}), &[3]),
            (json!({"author.2.name": "Ann"}), &[3]),
            (json!({"author.3.name": "Cid"}), &[3]),
            (json!({"author.3.0.name": "Cid"}), &[3]),
            (json!({"author.1": "Ann"}), &[3]),
            (json!({"author.4": {"$exists": true}}), &[]),
            (json!({"author.99999999999999999999999": {"$exists": true}}), &[]),
            (json!({"author.0.name": "Cid"}), &[8]),
            (json!({"author.name.first": "Ann"}), &[7]),
            (json!({"author.": 1}), &[7]),
            (json!({".name": "Ann"}), &[7]),
            (json!({"": {"$exists": true}}), &[7]),
            (json!({"0.author.name": "Ann"}), &[5]),
            (json!({"author": "Ann"}), &[3, 4]),
            (json!({"author": {"$eq": {"name": "Ann"}}}), &[0, 2, 3, 5]),
        ],
    );
}

#[test]
fn an_array_compares_as_a_whole_and_by_element() {
    let metadata =
        [json!({"t": ["a", "b"]}), json!({"t": [["a", "b"], 5]}), json!({"t": [1, 9]}), json!({"t": []})];
    check(
        &metadata,
        &[
            (json!({"t": "a"}), &[0]),
            (json!({"t": ["a", "b"]}), &[0, 1]),
            (json!({"t": ["b", "a"]}), &[]),
            (json!({"t": []}), &[3]),
            (json!({"t": {"$ne": "a"}}), &[1, 2, 3]),
            (json!({"t": {"$in": [["a", "b"], 1.0]}}), &[0, 1, 2]),
            (json!({"t": {"$nin": ["a", 9]}}), &[1, 3]),
            // No element is in between, but one is above and one below.
            (json!({"t": {"$gt": 4, "$lt": 2}}), &[2]),
            (json!({"t": {"$gt": 4}}), &[1, 2]),
            (json!({"t.0": "a"}), &[0, 1]),
        ],
    );
}

#[test]
fn numbers_compare_by_value() {
    let one = json!({"n": 1});
    assert!(
        Filter::eq("n", 1.0).matches("", Some(&one)) && Filter::one_of("n", [1.0]).matches("", Some(&one))
    );
    let odd = json!({"n": [9_007_199_254_740_993_u64]});
    let even = 9_007_199_254_740_992.0;
    assert!(!Filter::eq("n", even).matches("", Some(&odd)) && Filter::gt("n", even).matches("", Some(&odd)));
    assert!(!Filter::one_of("n", [even]).matches("", Some(&odd)));
    assert!(Filter::eq("n", json!({"x": [2]})).matches("", Some(&json!({"n": {"x": [2.0]}}))));
}

#[test]
fn the_json_written() {
    for (filter, expected) in [
        (Filter::all([]), json!({})),
        (Filter::any([]), json!({"$not": {}})),
        (Filter::eq("a", "x"), json!({"a": "x"})),
        (Filter::eq("a", json!({"b": 1})), json!({"a": {"$eq": {"b": 1}}})),
        (Filter::ne("a", Value::Null), json!({"a": {"$ne": null}})),
        (!Filter::gt("a", 1), json!({"a": {"$not": {"$gt": 1}}})),
        (!Filter::one_of("a", ["y", "x", "y"]), json!({"a": {"$nin": ["x", "y"]}})),
        (!Filter::exists("a"), json!({"a": {"$exists": false}})),
        (!Filter::ids(["y", "x"]), json!({"$not": {"$ids": ["x", "y"]}})),
        (
            Filter::lte("a", 1).and(Filter::gte("a", 0)),
            json!({"$and": [{"a": {"$lte": 1}}, {"a": {"$gte": 0}}]}),
        ),
        (
            !Filter::lt("a", 1).or(Filter::eq("b", 2)),
            json!({"$and": [{"a": {"$not": {"$lt": 1}}}, {"b": {"$ne": 2}}]}),
        ),
    ] {
        assert_eq!(filter.to_json(), expected);
        assert_eq!(filter.to_string(), expected.to_string());
        assert_eq!(filter.to_string().parse(), Ok(filter));
    }
}

#[test]
fn chains_stay_flat() {
    let parts = || ["a", "b", "c", "d"].map(|field| Filter::eq(field, 1));
    let [a, b, c, d] = parts();
    assert_eq!(a.clone().and(b.clone()).and(c.clone().and(d.clone())), Filter::all(parts()));
    assert_eq!(a.clone().or(b.clone().or(c.clone()).or(d)), Filter::any(parts()));
    assert_eq!(Filter::all([a.clone()]), a);
    assert_eq!(Filter::all([]).and(a.clone()), a);
    assert_eq!(!!(a.clone().or(b.clone()).and(c.clone())), a.or(b).and(c));
}
