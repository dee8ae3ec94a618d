//! YAML as JSON, with every value as it was written.

use std::collections::HashMap;

use granit_parser::{Event, Options, Parser, ScalarStyle};
use serde_json::{Map, Value};

/// The deepest nesting, far from the end of the stack.
const MOST_DEPTH: usize = 32;
/// The most values of a document, with those that aliases stand for.
const MOST_VALUES: usize = 50_000;

/// The field of an object whose value has more fields of it.
const MERGED: &str = "<<";

/// The first document of a text, the first line of which is called line 2: `---` is before it.
///
/// A plain scalar is a number only where JSON would write it so, so that `007`, `1.10` and `2024-01-05` stay
/// text; it is a boolean or null as the core schema of YAML 1.2 has it, so that `no` stays text. The name of
/// a field is the text of its scalar.
///
/// # Errors
/// What is wrong, and on which line: a mistake, a name that comes twice, a list or an object as a name, too
/// many values.
pub(super) fn parse(text: &str) -> Result<Value, String> {
    let mut options = Options::default();
    options.flow_nesting_limit = MOST_DEPTH;
    options.block_nesting_limit = MOST_DEPTH;
    let mut builder = Builder::default();
    for event in Parser::new_from_str_with_options(text, options) {
        let (event, span) = event.map_err(|error| at(error.marker().line(), &error.info()))?;
        let at = |what: String| at(span.start.line(), &what);
        match event {
            Event::Scalar(value, style, anchor, tag) => {
                let is_text = tag.is_some_and(|tag| tag.suffix() == "str");
                let node = match style {
                    ScalarStyle::Plain if !is_text => plain(&value),
                    _ => Value::String(value.clone().into_owned()),
                };
                builder.value(node, Some(&value), anchor, 1).map_err(at)?;
            }
            Event::SequenceStart(_, anchor, _) => builder.open.push(Open::list(anchor)),
            Event::MappingStart(_, anchor, _) => builder.open.push(Open::object(anchor)),
            Event::SequenceEnd | Event::MappingEnd => builder.close().map_err(at)?,
            Event::Alias(anchor) => builder.alias(anchor).map_err(at)?,
            Event::DocumentEnd => break,
            _ => {}
        }
    }
    Ok(builder.whole.unwrap_or_default())
}

fn at(line: usize, what: &str) -> String {
    format!("line {}: {what}", line + 1)
}

/// The value of a scalar without quotes.
fn plain(text: &str) -> Value {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => Value::Null,
        "true" | "True" | "TRUE" => Value::Bool(true),
        "false" | "False" | "FALSE" => Value::Bool(false),
        _ => match serde_json::from_str::<serde_json::Number>(text) {
            Ok(number) if number.to_string() == text => Value::Number(number),
            _ => Value::String(text.to_owned()),
        },
    }
}

#[derive(Default)]
struct Builder {
    open: Vec<Open>,
    whole: Option<Value>,
    anchors: HashMap<usize, Value>,
    values: usize,
}

/// A list or an object whose end has not been read.
struct Open {
    value: Value,
    /// The name of an object's next value.
    name: Option<String>,
    anchor: usize,
}

impl Open {
    fn list(anchor: usize) -> Self {
        Self { value: Value::Array(Vec::new()), name: None, anchor }
    }

    fn object(anchor: usize) -> Self {
        Self { value: Value::Object(Map::new()), name: None, anchor }
    }
}

impl Builder {
    /// Takes a value, of which `text` is known where it is a scalar, and which is `more` values that are not
    /// counted yet.
    fn value(&mut self, value: Value, text: Option<&str>, anchor: usize, more: usize) -> Result<(), String> {
        self.values += more;
        if self.values > MOST_VALUES {
            return Err(format!("more than {MOST_VALUES} values"));
        }
        if anchor > 0 {
            self.anchors.insert(anchor, value.clone());
        }
        let Some(open) = self.open.last_mut() else {
            self.whole = Some(value);
            return Ok(());
        };
        match (&mut open.value, open.name.take()) {
            (Value::Array(values), _) => values.push(value),
            (Value::Object(fields), None) => {
                let name = text.ok_or("a list or an object as a name")?;
                if fields.contains_key(name) {
                    return Err(format!("`{name}` is there twice"));
                }
                open.name = Some(name.to_owned());
            }
            (Value::Object(fields), Some(name)) => {
                fields.insert(name, value);
            }
            _ => {}
        }
        Ok(())
    }

    fn close(&mut self) -> Result<(), String> {
        let Some(Open { value, anchor, .. }) = self.open.pop() else { return Ok(()) };
        let value = match value {
            Value::Object(fields) => Value::Object(merged(fields)),
            list => list,
        };
        // Its members are counted already.
        self.value(value, None, anchor, 1)
    }

    fn alias(&mut self, anchor: usize) -> Result<(), String> {
        let value = self.anchors.get(&anchor).ok_or("an alias inside of what it stands for")?;
        let more = count(value);
        // Before the copy is made.
        if self.values + more > MOST_VALUES || self.open.len() + depth(value) > MOST_DEPTH {
            return Err("aliases that stand for too much".to_owned());
        }
        let value = value.clone();
        let text = value.as_str().map(str::to_owned);
        self.value(value, text.as_deref(), 0, more)
    }
}

/// An object with the fields of those that its field `<<` names, as YAML 1.1 has it: its own come first, and
/// then those of the first object.
fn merged(mut fields: Map<String, Value>) -> Map<String, Value> {
    let bases = match fields.remove(MERGED) {
        Some(base @ Value::Object(_)) => vec![base],
        Some(Value::Array(bases)) if bases.iter().all(Value::is_object) => bases,
        Some(other) => {
            fields.insert(MERGED.to_owned(), other);
            return fields;
        }
        None => return fields,
    };
    for base in bases {
        if let Value::Object(base) = base {
            for (name, value) in base {
                fields.entry(name).or_insert(value);
            }
        }
    }
    fields
}

/// A value and all in it.
fn count(value: &Value) -> usize {
    1 + match value {
        Value::Array(values) => values.iter().map(count).sum(),
        Value::Object(fields) => fields.values().map(count).sum(),
        _ => 0,
    }
}

fn depth(value: &Value) -> usize {
    match value {
        Value::Array(values) => 1 + values.iter().map(depth).max().unwrap_or_default(),
        Value::Object(fields) => 1 + fields.values().map(depth).max().unwrap_or_default(),
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn values_are_as_written() {
        for (text, expected) in [
            ("a: >-\n  x\n  y\nb: |\n  z\nc: 'it''s'\n", json!({ "a": "x y", "b": "z\n", "c": "it's" })),
            ("a: 1\nb: -0.5\nc: 007\nd: 1.10\ne: 2024-01-05\nf: 1e5\ng: 0x1F\nh: 12:30\n", {
                json!({ "a": 1, "b": -0.5, "c": "007", "d": "1.10", "e": "2024-01-05", "f": "1e5", "g": "0x1F",
                        "h": "12:30" })
            }),
            ("a: no\nb: True\nc: ~\nd:\ne: ''\nf: !!str 1\n", {
                json!({ "a": "no", "b": true, "c": null, "d": null, "e": "", "f": "1" })
            }),
            ("1: a\ntrue: b\n? c\n: d\n", json!({ "1": "a", "true": "b", "c": "d" })),
            ("a: [x, {y: z}]\nb:\n- 1\n- - 2\n", json!({ "a": ["x", { "y": "z" }], "b": [1, [2]] })),
            ("a: &x [1]\nb: *x\nc: &y k\n*y : 2\n", json!({ "a": [1], "b": [1], "c": "k", "k": 2 })),
            (
                "a: &a {x: 1, y: 2}\nb: &b {y: 3, z: 4}\nc:\n  <<: *a\n  x: 5\nd:\n  z: 6\n  <<: [*a, *b]\ne: {<<: f}\n",
                json!({ "a": { "x": 1, "y": 2 }, "b": { "y": 3, "z": 4 }, "c": { "x": 5, "y": 2 },
                        "d": { "x": 1, "y": 2, "z": 6 }, "e": { "<<": "f" } }),
            ),
            ("# only a comment\n", Value::Null),
            ("text", json!("text")),
        ] {
            assert_eq!(parse(text), Ok(expected), "{text}");
        }
    }

    #[test]
    fn mistakes_and_bombs_are_refused() {
        let bomb: String = (1..30).map(|n| format!("a{n}: &a{n} [*a{}, *a{}]\n", n - 1, n - 1)).collect();
        let deep = format!("a: {}1{}", "[".repeat(10_000), "]".repeat(10_000));
        let blocks: String = (0..1000).map(|n| format!("{}a:\n", " ".repeat(n))).collect();
        for (text, why) in [
            ("a: b: c", "line 2"),
            ("a: 1\na: 2", "line 3: `a` is there twice"),
            ("[a]: 1", "as a name"),
            ("a: *x", "line 2"),
            ("a: &x [*x]", "an alias inside"),
            (&*format!("a0: &a0 1\n{bomb}"), "too much"),
            (&*deep, ""),
            (&*blocks, ""),
            (&*format!("a: [{}]", "1,".repeat(MOST_VALUES)), "more than"),
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.contains(why), "{error}");
        }
    }
}
