//! Random tables and random JSON.

use std::io::Cursor;

use ehi::Document;
use ehi::data::{DataError, Input, Note};
use rand::seq::SliceRandom;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde_json::{Map, Value, json};

use super::{Source, missing, sources};

/// Composes sources, reads each as a stream, and looks for its words; `compose` returns how many records are
/// invalid.
fn hold(compose: impl Fn(&mut Source<ChaCha8Rng>) -> (Input, usize)) {
    for seed in 0..sources() {
        let mut source = Source::new(ChaCha8Rng::seed_from_u64(seed));
        let (input, wrong) = compose(&mut source);
        let mut read = input.read(Cursor::new(source.text.clone()), "in").unwrap_or_else(|error| {
            panic!("seed {seed}: {error}\n{}", source.text);
        });
        let all: Vec<Result<Document, DataError>> = read.by_ref().collect();
        let refused: Vec<String> =
            all.iter().filter_map(|read| Some(read.as_ref().err()?.to_string())).collect();
        assert_eq!(refused.len(), wrong, "seed {seed}: {refused:?}\n{}", source.text);
        let documents: Vec<Document> = all.into_iter().filter_map(Result::ok).collect();
        // A column without values is in no document: it is named.
        let said: Vec<String> = read.notes().iter().map(Note::to_string).collect();
        let mut gone = missing(source.seen.iter().map(String::as_str), &documents);
        gone.retain(|word| !said.iter().any(|note| note.contains(&format!("`{word}`"))));
        assert!(gone.is_empty(), "seed {seed}: {gone:?} of\n{}\n{documents:#?}\n{said:?}", source.text);
    }
}

#[test]
fn every_word_of_a_table_is_in_its_documents() {
    hold(|source| {
        let sign = source.one_of(&[',', ',', ';', '|', '\t']);
        let end = source.one_of(&["\n", "\n", "\r\n"]);
        let quoting = source.one_of(&[Quotes::WhereNeeded, Quotes::Everywhere, Quotes::AtRandom]);
        let mut names = vec!["id".to_owned(), "text".to_owned()];
        if source.random.random() {
            names.push("title".to_owned());
        }
        for _ in 0..source.random.random_range(0..5) {
            let name = source.word();
            names.push(name);
        }
        names.shuffle(&mut source.random);
        let start = source.one_of(&["", "", "\u{feff}", "\r\n\n"]);
        source.add(start);
        if source.random.random_range(0..8) == 0 {
            source.add(&format!("sep={sign}{end}"));
        }
        let head: Vec<String> = names.iter().map(|name| quoting.around(source, name, sign)).collect();
        source.add(&(head.join(&sign.to_string()) + end));
        // For each column, the kind of most of its cells.
        let kinds: Vec<usize> = names.iter().map(|_| source.random.random_range(0..5)).collect();
        let mut wrong = 0;
        for row in 0..source.random.random_range(0..12) {
            // A row that lacks a cell, which is refused. The first rows determine the separator.
            if row > 3 && source.random.random_range(0..20) == 0 {
                let short: Vec<String> = (1..names.len()).map(|_| source.unseen()).collect();
                source.add(&(short.join(&sign.to_string()) + end));
                wrong += 1;
                continue;
            }
            let cells: Vec<String> = names
                .iter()
                .zip(&kinds)
                .map(|(name, kind)| {
                    let cell = cell(source, name, *kind, sign);
                    quoting.around(source, &cell, sign)
                })
                .collect();
            source.add(&(cells.join(&sign.to_string()) + end));
            if source.random.random_range(0..10) == 0 {
                source.add(end);
            }
        }
        if wrong == 0 && source.random.random() {
            let text = source.text.trim_end_matches(['\r', '\n']).len();
            source.text.truncate(text);
        }
        (Input::new().cells_as_text(source.random.random_range(0..4) == 0), wrong)
    });
}

#[derive(Clone, Copy)]
enum Quotes {
    WhereNeeded,
    Everywhere,
    AtRandom,
}

impl Quotes {
    fn around<R: Rng>(self, source: &mut Source<R>, cell: &str, sign: char) -> String {
        let is_needed = cell.contains([sign, '"', '\n', '\r']);
        let is_quoted = match self {
            Self::WhereNeeded => is_needed,
            Self::Everywhere => true,
            Self::AtRandom => is_needed || source.random.random(),
        };
        if is_quoted { format!("\"{}\"", cell.replace('"', "\"\"")) } else { cell.to_owned() }
    }
}

/// A new number, whose digits occur nowhere else.
fn number<R: Rng>(source: &mut Source<R>) -> usize {
    source.count += 1;
    source.count + 1_000_000
}

/// A cell of a column; `kind` is that of most of its cells.
fn cell<R: Rng>(source: &mut Source<R>, name: &str, kind: usize, sign: char) -> String {
    if name == "id" {
        return source.unseen();
    }
    if name == "text" {
        return format!(
            "{}{}{}",
            source.words(3),
            source.one_of(&[" ", ", ", "; ", " | ", "\n", " \"", "\t"]),
            { source.words(3) }
        );
    }
    let number = number(source);
    let numbered = |source: &mut Source<R>, text: String| {
        source.seen.push(number.to_string());
        text
    };
    match source.random.random_range(0..12) {
        0 => String::new(),
        1 => source.words(3),
        2 => format!("{}{sign}{}", source.word(), source.word()),
        3 => format!("{} \"{}\"", source.word(), source.word()),
        4 => format!("{}\n{}", source.word(), source.word()),
        5 => numbered(source, format!("0{number}")).replacen('0', "0-", 1),
        _ => match kind {
            0 => numbered(source, number.to_string()),
            1 => numbered(source, format!("-{number}.5")),
            2 => source.one_of(&["true", "false"]).to_owned(),
            3 => source.word(),
            _ => String::new(),
        },
    }
}

#[test]
fn every_word_of_json_is_in_its_documents() {
    hold(|source| {
        let is_array = source.random.random();
        let mut records = Vec::new();
        let mut wrong = 0;
        for _ in 0..source.random.random_range(0..8) {
            if source.random.random_range(0..12) == 0 {
                wrong += 1;
                records.push(mistaken(source));
            } else {
                records.push(record(source));
            }
        }
        let text = match is_array {
            true => format!("[\n{}\n]\n", records.join(source.one_of(&[",", ",\n", " ,\r\n\n"]))),
            false => records.join(source.one_of(&["\n", "\n\n", "\r\n"])),
        };
        source.add(&text);
        (Input::new(), wrong)
    });
}

/// A valid object, on one line.
fn record<R: Rng>(source: &mut Source<R>) -> String {
    let mut object = Map::new();
    let id = source.one_of(&["id", "_id"]);
    object.insert(id.to_owned(), source.unseen().into());
    let text = match source.random.random_range(0..5) {
        0 => {
            let number = number(source);
            source.seen.push(number.to_string());
            number.into()
        }
        1 => format!("{}\n\"{}\" \u{2028}{}", source.words(2), source.word(), source.word()).into(),
        _ => source.words(6).into(),
    };
    object.insert("text".to_owned(), text);
    match source.random.random_range(0..4) {
        0 => drop(object.insert("title".to_owned(), source.words(3).into())),
        1 => drop(object.insert("title".to_owned(), Value::Null)),
        _ => {}
    }
    for _ in 0..source.random.random_range(0..4) {
        let name = source.word();
        let value = value(source, 3);
        object.insert(name, value);
    }
    match source.random.random_range(0..5) {
        0 => drop(object.insert("metadata".to_owned(), Value::Null)),
        1 => drop(object.insert("metadata".to_owned(), json!({}))),
        2 => {
            let members: Map<String, Value> = (0..2).map(|_| (source.word(), value(source, 2))).collect();
            object.insert("metadata".to_owned(), members.into());
        }
        3 => drop(object.insert("metadata".to_owned(), source.words(2).into())),
        _ => {}
    }
    Value::from(object).to_string()
}

fn value<R: Rng>(source: &mut Source<R>, levels: usize) -> Value {
    match source.random.random_range(0..if levels > 0 { 8 } else { 5 }) {
        0 => Value::Null,
        1 => source.random.random::<bool>().into(),
        2 => {
            let number = number(source);
            source.seen.push(number.to_string());
            if source.random.random() { number.into() } else { (number as f64 + 0.5).into() }
        }
        3 | 4 => source.words(3).into(),
        5 => (0..source.random.random_range(0..4)).map(|_| value(source, levels - 1)).collect(),
        _ => {
            let count = source.random.random_range(0..4);
            let members: Map<String, Value> =
                (0..count).map(|_| (source.word(), value(source, levels - 1))).collect();
            members.into()
        }
    }
}

/// An invalid object, on its own line.
fn mistaken<R: Rng>(source: &mut Source<R>) -> String {
    let (one, two, three) = (source.unseen(), source.unseen(), source.unseen());
    match source.random.random_range(0..4) {
        0 => format!(r#"{{"id": "{one}", "text": "{two}", "{three}": 1, "{three}": 2}}"#),
        1 => format!(r#"{{"id": "{one}", "text": "{two}", "x": [{{"{three}": 1, "{three}": 2}}]}}"#),
        2 => format!(r#"{{"id": "{one}", "text": ["{two}"]}}"#),
        _ => format!(r#"{{"id": "{one}", "{two}": "{three}"}}"#),
    }
}
