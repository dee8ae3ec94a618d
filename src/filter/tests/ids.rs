use serde_json::{Value, json};

use super::super::Filter;

#[test]
fn without_metadata_every_field_is_missing() {
    for (filter, expected) in [
        (Filter::all([]), true),
        (Filter::any([]), false),
        (Filter::exists(""), false),
        (Filter::ne("a", 1), true),
        (Filter::eq("a", Value::Null), true),
        (Filter::ne("a", Value::Null), false),
        (Filter::one_of("a", [Value::Null]), true),
        (Filter::eq("a", 1), false),
        (Filter::ids(["id"]), true),
    ] {
        assert_eq!(filter.matches("id", None), expected, "{filter}");
        assert_eq!(filter.matches_bytes("id", b"").unwrap(), expected, "{filter}");
    }
}

#[test]
fn metadata_is_parsed_only_where_the_id_does_not_decide() {
    let (garbage, ids, field) = (b"{\"a\":".as_slice(), Filter::ids(["a", "b"]), Filter::eq("year", 1));
    for (filter, id, expected) in [
        (ids.clone(), "a", Some(true)),
        (ids.clone(), "c", Some(false)),
        (!ids.clone(), "a", Some(false)),
        (Filter::all([]), "a", Some(true)),
        (field.clone(), "a", None),
        (field.clone().and(ids.clone()), "a", None),
        (field.clone().and(ids.clone()), "c", Some(false)),
        (ids.clone().and(field.clone()), "c", Some(false)),
        (ids.clone().or(field.clone()), "a", Some(true)),
        (ids.clone().or(field.clone()), "c", None),
        (!(ids.clone().and(field.clone())), "c", Some(true)),
        (ids.clone().and(field.clone()).or(Filter::ids(["c"])), "d", Some(false)),
        (ids.clone().and(field.clone()).or(Filter::ids(["c"])), "a", None),
    ] {
        assert_eq!(filter.matches_bytes(id, garbage).ok(), expected, "{filter} {id}");
    }
    assert!(field.matches_bytes("a", b"{\"year\":1.0}").unwrap());
}

#[test]
fn candidate_ids_of_each_form() {
    let ids = |ids: &[&str]| Filter::ids(ids.iter().copied());
    let field = || Filter::eq("year", 1);
    let none = None::<&[&str]>;
    for (filter, expected) in [
        (field(), none),
        (Filter::all([]), none),
        (Filter::any([]), Some([].as_slice())),
        (ids(&["b", "a", "b"]), Some(&["a", "b"])),
        (!ids(&["a"]), none),
        (!!ids(&["a"]), Some(&["a"])),
        (ids(&["a", "b"]).and(field()), Some(&["a", "b"])),
        (field().and(ids(&["a", "b", "c"])).and(ids(&["c", "d"])), Some(&["c", "d"])),
        (ids(&["b", "c"]).or(ids(&["a", "b"]).and(field())), Some(&["a", "b", "c"])),
        (ids(&["a"]).or(field()), none),
        (!(!ids(&["a"])).or(field()), Some(&["a"])),
        (ids(&[]).and(ids(&["a"])), Some(&[])),
    ] {
        assert_eq!(filter.candidate_ids().as_deref(), expected, "{filter}");
    }
}

#[test]
fn large_sets_find_their_own() {
    let numbers = || 0..10_000_u32;
    let ids = Filter::ids(numbers().map(|n| format!("id-{n}")));
    let values = Filter::one_of("n", numbers().map(|n| n * 3));
    for n in numbers() {
        assert!(ids.matches(&format!("id-{n}"), None));
        assert_eq!(values.matches("", Some(&json!({ "n": n }))), n % 3 == 0, "{n}");
    }
    assert!(!ids.matches("id-10000", None));
}
