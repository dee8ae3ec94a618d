use serde_json::{Value, json};

use super::super::{Answer, BuiltLists, Filter, ListBuilder, bits};

/// One row for each document.
fn built(documents: &[Value], bytes: u64) -> BuiltLists {
    let mut builder = ListBuilder::new(documents.len(), documents.len(), bytes);
    for (head, metadata) in (0..).zip(documents) {
        builder.add(head, &serde_json::to_vec(metadata).unwrap());
    }
    builder.build(&|head, out| out.push(head))
}

fn answer(built: &BuiltLists, rows: usize, filter: &Value) -> Answer {
    Filter::from_json(filter).unwrap().answer(&built.read(rows), &|_| Some(vec![])).unwrap()
}

#[test]
fn lists_decide_of_scalars_and_lists_of_scalars() {
    let documents: Vec<Value> = (0..200)
        .map(|n| match n % 4 {
            0 => {
                json!({ "year": 2000 + n, "lang": "en", "tags": ["a", n], "by": { "name": format!("n{n}") } })
            }
            1 => json!({ "year": f64::from(n) + 0.5, "lang": "de", "tags": "b", "none": null }),
            2 => json!({ "lang": "en", "tags": [], "many": [{ "x": n }] }),
            _ => json!(null),
        })
        .collect();
    let built = built(&documents, 0);
    for filter in [
        json!({ "year": { "$gte": 2010, "$lt": 2050 } }),
        json!({ "year": { "$not": { "$gt": 49.5 } }, "lang": { "$in": ["en", "fr"] } }),
        json!({ "lang": { "$ne": "en" } }),
        json!({ "tags": "a" }),
        json!({ "tags": { "$in": ["b", 8] } }),
        json!({ "tags": { "$exists": true } }),
        json!({ "none": null }),
        json!({ "by.name": { "$gt": "n5" } }),
        json!({ "by.age": { "$exists": false } }),
        json!({ "absent": { "$nin": [1, 2] } }),
        json!({ "$or": [{ "year": 2004 }, { "tags": true }, { "many": 3 }] }),
        json!({ "$nor": [{ "lang": "en" }, { "lang": null }] }),
    ] {
        let answer = answer(&built, documents.len(), &filter);
        assert_eq!(answer.undecided(), 0, "{filter}");
        let read = Filter::from_json(&filter).unwrap();
        let expected: Vec<u32> = (0..)
            .zip(&documents)
            .filter(|(_, own)| read.matches("", Some(own)))
            .map(|(row, _)| row)
            .collect();
        assert_eq!(bits::rows(&answer.passing).collect::<Vec<_>>(), expected, "{filter}");
        assert!(!expected.is_empty(), "{filter}");
    }
    // Of elements of a list by place, of objects in lists and of whole lists the metadata decides.
    for filter in [json!({ "tags.0": "a" }), json!({ "many.x": 6 }), json!({ "tags": { "$eq": ["a", 0] } })] {
        assert_eq!(answer(&built, documents.len(), &filter).undecided(), documents.len(), "{filter}");
    }
    // What lists decide need not be looked up.
    let joined =
        answer(&built, documents.len(), &json!({ "tags.0": "a", "lang": "en", "year": { "$lt": 2040 } }));
    assert_eq!(joined.undecided(), 10);
}

#[test]
fn lists_have_a_budget() {
    let documents: Vec<Value> =
        (0..4_000).map(|n| json!({ "lang": "en", "id": format!("a long name {n} and {n}") })).collect();
    let undecided =
        |bytes, filter: Value| answer(&built(&documents, bytes), documents.len(), &filter).undecided();
    assert_eq!(undecided(100 << 20, json!({ "id": "a long name 7 and 7" })), 0);
    assert_eq!(undecided(0, json!({ "id": "a long name 7 and 7" })), documents.len());
    assert_eq!(undecided(0, json!({ "lang": "en" })), 0);
    assert_eq!(undecided(0, json!({ "id.x": { "$exists": false } })), documents.len());
    // More fields than have lists.
    let many: Vec<Value> = (0..1_200).map(|n| json!({ format!("f{n:04}"): 1 })).collect();
    let built = built(&many, 100 << 20);
    assert_eq!(answer(&built, many.len(), &json!({ "f0999": 1 })).undecided(), 0);
    for unknown in ["f1000", "absent"] {
        assert_eq!(answer(&built, many.len(), &json!({ unknown: 1 })).undecided(), many.len());
    }
}

#[test]
fn names_that_are_long_have_no_lists() {
    let long = "k".repeat(500);
    let documents =
        [json!({ &long: { "a": 1, "a much longer name": 2, "b": { "c": { "d": 3 } } }, "x": 1 }), json!({})];
    let built = built(&documents, 0);
    let undecided = |filter: Value| answer(&built, documents.len(), &filter).undecided();
    assert_eq!(undecided(json!({ format!("{long}.a"): 1 })), 0);
    assert_eq!(undecided(json!({ "x": 1 })), 0);
    for name in [format!("{long}.a much longer name"), format!("{long}.b.c.d.e.f.g.h"), "absent".to_owned()] {
        assert_eq!(undecided(json!({ name: 1 })), documents.len());
    }
    assert!(built.sections().iter().map(|section| section.len()).sum::<usize>() < 8_000);
}

#[test]
fn lists_of_unreadable_metadata_decide_nothing() {
    for bad in [&b"{"[..], b"[{\"a\": 1}]"] {
        let mut builder = ListBuilder::new(2, 2, 0);
        builder.add(0, b"{\"a\": 1}");
        builder.add(1, bad);
        let built = builder.build(&|head, out| out.push(head));
        assert_eq!(answer(&built, 2, &json!({ "a": 1 })).undecided(), 2);
    }
}

/// Fields with blocks, with and without arrays, and one whose dense list prevents them.
#[test]
fn ranges_over_many_values_find_what_their_values_say() {
    let number = |n: u64| n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
    let documents: Vec<Value> = (0..3_000)
        .map(|n| {
            let several: Vec<u64> = (0..n % 4).map(|m| number(7 * n + m) % 500).collect();
            let mixed = if n % 3 == 0 { json!(5) } else { json!(number(n) % 1_000) };
            json!({ "one": number(n) % 2_000, "name": format!("n{}", number(n) % 700), "several": several, "mixed": mixed })
        })
        .collect();
    let built = built(&documents, 100 << 20);
    for round in 0..200 {
        let (from, to) = (number(round) % 2_200, number(round + 500) % 2_200);
        let digits = from.to_string();
        let filters = [
            json!({ "one": { "$gte": from, "$lt": to } }),
            json!({ "one": { "$gt": from } }),
            json!({ "one": { "$lte": from } }),
            json!({ "several": { "$gte": from / 4 } }),
            json!({ "several": { "$lt": to / 4 } }),
            json!({ "mixed": { "$gte": from / 2 } }),
            json!({ "name": { "$regex": format!("^n{}", &digits[..1]) } }),
            json!({ "name": { "$regex": format!("^n{}", &digits[..digits.len().min(2)]) } }),
            json!({ "name": { "$gt": format!("n{from}") } }),
        ];
        for filter in filters {
            let answer = answer(&built, documents.len(), &filter);
            assert_eq!(answer.undecided(), 0);
            let read = Filter::from_json(&filter).unwrap();
            for (row, document) in documents.iter().enumerate() {
                assert_eq!(answer.of(row), Some(read.matches("", Some(document))), "{filter} {document}");
            }
        }
    }
}
