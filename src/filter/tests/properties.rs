use proptest::{collection::vec, prelude::*, sample::select};
use serde_json::{Map, Value, json};

use super::{
    super::{Filter, ListBuilder, bits},
    naive, read,
};

const IDS: [&str; 4] = ["", "a", "b", "c"];

/// Few values, so that filters often match.
fn scalar() -> impl Strategy<Value = Value> + Clone {
    const SCALARS: &str = r#"[null, false, true, -1, 0, -0.0, 1, 1.0, 1.5, 2, 9007199254740993,
        9007199254740992.0, 18446744073709551615, 18446744073709551616.0, "", "a", "b", "1", "é"]"#;
    select(serde_json::from_str::<Vec<Value>>(SCALARS).unwrap())
}

fn key() -> impl Strategy<Value = &'static str> + Clone {
    select(vec!["a", "a", "a", "b", "b", "a.b", "b.a", "0", ""])
}

fn field() -> impl Strategy<Value = &'static str> {
    select(vec!["a", "a", "b", "a.b", "a.b", "a.0", "a.0.b", "a.b.0", "a.b.a", "0", "0.a", "", "a.", "c"])
}

fn object(value: impl Strategy<Value = Value>) -> impl Strategy<Value = Value> {
    vec((key(), value), 0..4).prop_map(|entries| {
        Value::Object(entries.into_iter().map(|(key, value)| (key.to_owned(), value)).collect())
    })
}

fn value() -> impl Strategy<Value = Value> + Clone {
    scalar().prop_recursive(3, 12, 3, |value| {
        prop_oneof![vec(value.clone(), 0..4).prop_map(Value::Array), object(value)]
    })
}

fn metadata() -> impl Strategy<Value = Option<Value>> {
    prop_oneof![
        1 => Just(None),
        1 => value().prop_map(Some),
        8 => object(value()).prop_map(Some),
        4 => object(object(value())).prop_map(Some),
    ]
}

/// Several operators under a field.
fn operators() -> impl Strategy<Value = Value> {
    let ordered = scalar().prop_filter("ranges take no null", |value| !value.is_null());
    let operator = prop_oneof![
        2 => (select(vec!["$eq", "$ne"]), value()),
        4 => (select(vec!["$gt", "$gte", "$lt", "$lte"]), ordered),
        2 => (select(vec!["$in", "$nin"]), vec(value(), 0..4).prop_map(Value::Array)),
        1 => (Just("$all"), vec(value(), 0..3).prop_map(Value::Array)),
        1 => (Just("$size"), (0..4).prop_map(Value::from)),
        1 => (Just("$regex"), select(vec!["^", "^a", "^b", "^1", "^a1"]).prop_map(Value::from)),
        1 => (Just("$exists"), any::<bool>().prop_map(Value::Bool)),
    ];
    let several = vec(operator, 1..3).prop_map(|operators| {
        Value::Object(operators.into_iter().map(|(name, value)| (name.to_owned(), value)).collect())
    });
    several.prop_recursive(2, 4, 1, |inner| inner.prop_map(|inner| json!({ "$not": inner })))
}

/// A valid filter in JSON.
fn filter() -> impl Strategy<Value = Value> {
    let bare = value().prop_filter("an object needs `$eq`", |value| !value.is_object());
    let leaf = prop_oneof![
        1 => Just(json!({})),
        2 => vec(select(&IDS[..]), 0..3).prop_map(|ids| json!({ "$ids": ids })),
        3 => (field(), bare).prop_map(|(field, value)| json!({ field: value })),
        6 => (field(), operators()).prop_map(|(field, value)| json!({ field: value })),
    ];
    leaf.prop_recursive(4, 24, 3, |inner| {
        prop_oneof![
            4 => (select(vec!["$and", "$or", "$nor"]), vec(inner.clone(), 1..4))
                .prop_map(|(operator, parts)| json!({ operator: parts })),
            1 => inner.clone().prop_map(|part| json!({ "$not": part })),
            // The entries of several in one object.
            2 => vec(inner, 1..4).prop_map(|parts| {
                let entries = parts.into_iter().filter_map(|part| part.as_object().cloned()).flatten();
                Value::Object(entries.collect::<Map<_, _>>())
            }),
        ]
    })
}

/// The same filter, made with the functions.
fn made(filter: &Value) -> Filter {
    let parts = |value: &Value| value.as_array().unwrap().iter().map(made).collect::<Vec<_>>();
    let entries = filter.as_object().unwrap().iter().map(|(key, value)| match key.as_str() {
        "$and" => parts(value).into_iter().reduce(Filter::and).unwrap(),
        "$or" => parts(value).into_iter().reduce(Filter::or).unwrap(),
        "$nor" => parts(value).into_iter().map(|part| !part).reduce(Filter::and).unwrap(),
        "$not" => !made(value),
        "$ids" => Filter::ids(value.as_array().unwrap().iter().map(|id| id.as_str().unwrap())),
        field => made_field(field, value),
    });
    entries.reduce(Filter::and).unwrap_or_else(|| Filter::all([]))
}

fn made_field(field: &str, value: &Value) -> Filter {
    let Some(operators) = value.as_object() else { return Filter::eq(field, value.clone()) };
    let parts = operators.iter().map(|(operator, value)| match operator.as_str() {
        "$eq" => Filter::eq(field, value.clone()),
        "$ne" => Filter::ne(field, value.clone()),
        "$gt" => Filter::gt(field, value.clone()),
        "$gte" => Filter::gte(field, value.clone()),
        "$lt" => Filter::lt(field, value.clone()),
        "$lte" => Filter::lte(field, value.clone()),
        "$in" => Filter::one_of(field, value.as_array().unwrap().clone()),
        "$nin" => !Filter::one_of(field, value.as_array().unwrap().clone()),
        "$all" => Filter::has_all(field, value.as_array().unwrap().clone()),
        "$size" => Filter::size(field, value.as_u64().unwrap() as usize),
        "$regex" => Filter::starts_with(field, &value.as_str().unwrap()[1..]),
        "$exists" if value == true => Filter::exists(field),
        "$exists" => !Filter::exists(field),
        _ => !made_field(field, value),
    });
    parts.reduce(Filter::and).unwrap()
}

/// Any JSON, often with operators in valid and invalid places.
fn anything() -> impl Strategy<Value = Value> {
    let key = prop_oneof![
        1 => field(),
        3 => select([&super::super::error::ON_FIELDS[..], &super::super::error::ON_FILTERS, &["$x"]].concat()),
    ];
    let anything = scalar().prop_recursive(5, 24, 3, move |inner| {
        prop_oneof![
            vec(inner.clone(), 0..3).prop_map(Value::Array),
            vec((key.clone(), inner), 0..3).prop_map(|entries| {
                Value::Object(entries.into_iter().map(|(key, value)| (key.to_owned(), value)).collect())
            }),
        ]
    });
    prop_oneof![anything, filter()]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1024))]

    #[test]
    fn agrees_with_the_naive_evaluator(
        json in filter(),
        documents in vec((select(&IDS[..]), metadata()), 1..6),
    ) {
        let filter = read(&json);
        prop_assert_eq!(&made(&json), &filter);
        let negated = !filter.clone();
        for (id, metadata) in &documents {
            let expected = naive::matches(&json, id, metadata.as_ref());
            prop_assert_eq!(filter.matches(id, metadata.as_ref()), expected, "{} {:?} {:?}", json, id, metadata);
            prop_assert_eq!(negated.matches(id, metadata.as_ref()), !expected);
            let stored = metadata.as_ref().map_or(vec![], |value| serde_json::to_vec(value).unwrap());
            prop_assert_eq!(filter.matches_bytes(id, &stored).unwrap(), expected);
        }
    }

    /// Each document has two rows, apart from each other.
    #[test]
    fn lists_say_the_same_as_metadata(json in filter(), documents in vec(metadata(), 0..80)) {
        let (filter, count) = (read(&json), documents.len());
        let mut builder = ListBuilder::new(2 * count, count, 0);
        for (head, metadata) in (0..).zip(&documents) {
            let stored = metadata.as_ref().map_or(vec![], |value| serde_json::to_vec(value).unwrap());
            builder.add(head, &stored);
        }
        let rows_of = |head: u32, out: &mut Vec<u32>| out.extend([head, head + count as u32]);
        let built = builder.build(&rows_of);
        let id = |place: usize| IDS.get(place).copied().unwrap_or("z");
        let rows_of_id = |id: &str| {
            let place = IDS.iter().position(|own| *own == id).filter(|place| *place < count);
            Some(place.map_or(vec![], |place| vec![place as u32, (place + count) as u32]))
        };
        let answer = filter.answer(&built.read(2 * count), &rows_of_id).unwrap();
        for (place, metadata) in documents.iter().enumerate() {
            let expected = filter.matches(id(place), metadata.as_ref());
            for row in [place, place + count] {
                prop_assert!(!bits::has(&answer.passing, row) || expected, "{} {:?}", json, metadata);
                prop_assert!(bits::has(&answer.possible, row) || !expected, "{} {:?}", json, metadata);
            }
        }
        prop_assert!(bits::rows(&answer.possible).all(|row| (row as usize) < 2 * count));
    }

    #[test]
    fn no_match_is_outside_the_candidates(json in filter(), metadata in metadata()) {
        let filter = read(&json);
        if let Some(ids) = filter.candidate_ids() {
            prop_assert!(ids.is_sorted_by(|a, b| a < b));
            for id in IDS {
                prop_assert!(ids.contains(&id) || !filter.matches(id, metadata.as_ref()), "{json} {id:?}");
            }
        }
    }

    #[test]
    fn reading_never_panics_and_what_is_written_reads_back(json in anything()) {
        match Filter::from_json(&json) {
            Ok(filter) => {
                let written = filter.to_json();
                prop_assert_eq!(Filter::from_json(&written), Ok(filter.clone()), "{} {}", json, written);
                prop_assert_eq!(filter.to_string().parse(), Ok(filter));
            }
            Err(error) => prop_assert!(!error.to_string().is_empty()),
        }
    }
}

#[test]
fn the_random_cases_are_worth_testing() {
    use proptest::{strategy::ValueTree, test_runner::TestRunner};

    let mut runner = TestRunner::deterministic();
    let (mut held, mut confined) = (0, 0);
    for _ in 0..1_000 {
        let (filter, metadata) = (filter(), metadata()).new_tree(&mut runner).unwrap().current();
        held += usize::from(naive::matches(&filter, "a", metadata.as_ref()));
        confined += usize::from(read(&filter).candidate_ids().is_some());
    }
    assert!((200..800).contains(&held) && confined > 50, "{held} match, {confined} confine the ids");
}
