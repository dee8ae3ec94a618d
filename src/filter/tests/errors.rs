use serde_json::{Value, json};

use super::super::{
    Filter, FilterError,
    error::{ON_FIELDS, ON_FILTERS},
};

fn error(json: &Value) -> FilterError {
    match Filter::from_json(json) {
        Ok(filter) => panic!("{json} was read as {filter}"),
        Err(error) => error,
    }
}

#[test]
fn each_message_says_what_to_write() {
    for (json, expected) in [
        (json!(null), r#"a filter is an object such as {"lang": "en"}, not null"#),
        (json!([{"lang": "en"}]), r#"a filter is an object such as {"lang": "en"}, not an array"#),
        (json!({"$and": ["x"]}), r#"a filter is an object such as {"lang": "en"}, not a string"#),
        (json!({"$not": 1}), r#"a filter is an object such as {"lang": "en"}, not a number"#),
        (
            json!({"$price": 1}),
            "unknown operator `$price`, and a field's name cannot begin with `$`; write one of \
             $eq $ne $gt $gte $lt $lte $in $nin $all $size $regex $exists $not under a field, \
             one of $and $or $nor $not $ids beside fields",
        ),
        (
            json!({"lang": {"$gte": "a", "$near": "x"}}),
            "unknown operator `$near`, and a field's name cannot begin with `$`; write one of \
             $eq $ne $gt $gte $lt $lte $in $nin $all $size $regex $exists $not under a field, \
             one of $and $or $nor $not $ids beside fields",
        ),
        (
            json!({"$gte": 1}),
            r#"the operator `$gte` cannot stand here; write it under a field, as in {"year": {"$gte": 2010}}"#,
        ),
        (
            json!({"year": {"$or": []}}),
            "the operator `$or` cannot stand here; write it beside fields, as in \
             {\"lang\": \"en\", \"$or\": [{\"year\": 2010}, {\"year\": 2011}]}",
        ),
        (
            json!({"year": {"gte": 1}}),
            "the object under `year` is not an operator; write {\"$eq\": {...}} to compare with an object, or \
             one of $eq $ne $gt $gte $lt $lte $in $nin $all $size $regex $exists $not",
        ),
        (json!({"year": {"$gt": null}}), "`$gt` takes a number, a string, true or false"),
        (json!({"$or": []}), "`$or` is empty; write at least one filter in it, or leave it out"),
    ] {
        assert_eq!(error(&json).to_string(), expected, "{json}");
    }
}

#[test]
fn a_wrong_value_names_its_operator() {
    for (operator, value) in [
        ("$gt", json!([1])),
        ("$gte", json!({"x": 1})),
        ("$lt", json!(null)),
        ("$lte", json!([])),
        ("$in", json!("en")),
        ("$nin", json!({"0": "en"})),
        ("$all", json!("en")),
        ("$size", json!(-1)),
        ("$size", json!(1.5)),
        ("$size", json!({"$gt": 1})),
        ("$regex", json!(1)),
        ("$regex", json!("docs/")),
        ("$regex", json!("^docs.*")),
        ("$regex", json!("^docs$")),
        ("$regex", json!("^docs\\d")),
        ("$regex", json!("^docs\\")),
        ("$exists", json!(1)),
        ("$not", json!(5)),
        ("$not", json!([{"$gt": 1}])),
    ] {
        let found = error(&json!({ "field": { operator: value } }));
        assert!(found.to_string().starts_with(&format!("`{operator}` takes ")), "{found}");
    }
    for (operator, value) in [
        ("$and", json!({"a": 1})),
        ("$or", json!(true)),
        ("$nor", json!(null)),
        ("$ids", json!("id")),
        ("$ids", json!(["id", 1])),
    ] {
        let found = error(&json!({ operator: value }));
        assert!(found.to_string().starts_with(&format!("`{operator}` takes ")), "{found}");
    }
}

#[test]
fn nothing_empty_or_bare_is_guessed_at() {
    for operator in ["$and", "$or", "$nor"] {
        let found = error(&json!({ operator: [] })).to_string();
        assert!(found.starts_with(&format!("`{operator}` is empty")), "{found}");
    }
    for object in [json!({}), json!({"x": 1}), json!({"$gt": 1, "x": 1}), json!({"$not": {}})] {
        let found = error(&json!({ "a.b": object })).to_string();
        assert!(found.starts_with("the object under `a.b` is not an operator"), "{object}: {found}");
    }
}

#[test]
fn exactly_the_listed_operators_are_known() {
    let unknown = |json: Value| {
        Filter::from_json(&json).is_err_and(|error| {
            let message = error.to_string();
            message.starts_with("unknown operator") || message.contains("cannot stand here")
        })
    };
    for operator in ON_FIELDS {
        assert!(!unknown(json!({ "field": { operator: 1 } })), "{operator}");
        let beside = json!({ operator: 1 });
        assert_eq!(unknown(beside), !ON_FILTERS.contains(&operator), "{operator}");
    }
    for operator in ON_FILTERS {
        assert!(!unknown(json!({ operator: 1 })), "{operator}");
        let under = json!({ "field": { operator: 1 } });
        assert_eq!(unknown(under), !ON_FIELDS.contains(&operator), "{operator}");
    }
    assert!(unknown(json!({"$": 1})) && unknown(json!({"field": {"$": 1}})));
}

#[test]
fn malformed_json_and_other_json_have_different_errors() {
    let parse = |text: &str| text.parse::<Filter>().unwrap_err();
    for text in ["", "{", "{\"a\": 1} x", "{'a': 1}", &"[".repeat(100_000)] {
        assert!(matches!(parse(text), FilterError::NotJson { .. }));
    }
    for text in [r#"{"lang": "en", "lang": "de"}"#, r#"{"year": {"$gt": 1, "$gt": 2}}"#] {
        assert!(parse(text).to_string().contains("appears twice"), "{text}");
    }
    assert!(parse("{\n\"a\"}").to_string().contains("line 2"));
    assert!(parse("1").to_string().ends_with("not a number"));
}
