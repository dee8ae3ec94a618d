//! YAML as JSON, with values as written.

use granit_parser::{Event, Options, Parser, ScalarStyle, ScanError, Span};
use serde_json::{Map, Value};

/// The deepest nesting, far from the end of the stack.
const MOST_DEPTH: usize = 32;
/// The most values of a document.
const MOST_VALUES: usize = 50_000;

/// The first document of a text, whose first line is numbered 2 because `---` precedes it.
///
/// A plain scalar is a number only if JSON would write it the same way, so that `007`, `1.10` and
/// `2024-01-05` stay text; it is a boolean or null as in the core schema of YAML 1.2, so that `no` stays
/// text. The name of a field is the text of its scalar. Aliases are not supported.
///
/// # Errors
/// The problem and its line: malformed YAML, a repeated name, a list or an object as a name, an alias, or too
/// many values.
pub(super) fn parse(text: &str) -> Result<Value, String> {
    let mut options = Options::default();
    options.flow_nesting_limit = MOST_DEPTH;
    options.block_nesting_limit = MOST_DEPTH;
    let mut reader = Reader { events: Parser::new_from_str_with_options(text, options), line: 0, values: 0 };
    let mut whole = Value::Null;
    loop {
        match reader.next()? {
            Event::DocumentEnd | Event::StreamEnd => return Ok(whole),
            event @ (Event::Scalar(..)
            | Event::SequenceStart(..)
            | Event::MappingStart(..)
            | Event::Alias(_)) => {
                whole = reader.value(event)?;
            }
            _ => {}
        }
    }
}

struct Reader<I> {
    events: I,
    /// The line of the last event.
    line: usize,
    values: usize,
}

impl<'a, I: Iterator<Item = Result<(Event<'a>, Span), ScanError>>> Reader<I> {
    fn next(&mut self) -> Result<Event<'a>, String> {
        match self.events.next() {
            Some(Ok((event, span))) => {
                self.line = span.start.line();
                Ok(event)
            }
            Some(Err(error)) => {
                self.line = error.marker().line();
                Err(self.wrong(&error.info()))
            }
            None => Ok(Event::StreamEnd),
        }
    }

    fn wrong(&self, what: &str) -> String {
        format!("line {}: {what}", self.line + 1)
    }

    /// The value that begins with an event.
    fn value(&mut self, event: Event<'a>) -> Result<Value, String> {
        self.values += 1;
        if self.values > MOST_VALUES {
            return Err(self.wrong(&format!("more than {MOST_VALUES} values")));
        }
        match event {
            Event::Scalar(value, style, _, tag) => Ok(match style {
                ScalarStyle::Plain if tag.is_none_or(|tag| tag.suffix() != "str") => plain(&value),
                _ => Value::String(value.into_owned()),
            }),
            Event::SequenceStart(..) => {
                let mut values = Vec::new();
                loop {
                    match self.next()? {
                        Event::SequenceEnd => return Ok(Value::Array(values)),
                        event => values.push(self.value(event)?),
                    }
                }
            }
            Event::MappingStart(..) => {
                let mut fields = Map::new();
                loop {
                    let name = match self.next()? {
                        Event::MappingEnd => return Ok(Value::Object(fields)),
                        Event::Scalar(name, ..) => name.into_owned(),
                        _ => {
                            return Err(
                                self.wrong("expected text as a name, found a list, an object or an alias")
                            );
                        }
                    };
                    if fields.contains_key(&name) {
                        return Err(self.wrong(&format!("the name `{name}` appears twice")));
                    }
                    let event = self.next()?;
                    fields.insert(name, self.value(event)?);
                }
            }
            Event::Alias(_) => Err(self.wrong("aliases are not supported; write the value again")),
            _ => Err(self.wrong("a value is missing")),
        }
    }
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
            ("a: &a {x: 1}\ne: {<<: f}\n", json!({ "a": { "x": 1 }, "e": { "<<": "f" } })),
            ("# only a comment\n", Value::Null),
            ("text", json!("text")),
        ] {
            assert_eq!(parse(text), Ok(expected), "{text}");
        }
    }

    #[test]
    fn mistakes_and_aliases_are_refused() {
        let deep = format!("a: {}1{}", "[".repeat(10_000), "]".repeat(10_000));
        let blocks: String = (0..1000).map(|n| format!("{}a:\n", " ".repeat(n))).collect();
        for (text, why) in [
            ("a: b: c", "line 2"),
            ("a: 1\na: 2", "line 3: the name `a` appears twice"),
            ("[a]: 1", "expected text as a name"),
            ("a: *x", "line 2"),
            ("a: &x [1]\nb: *x", "line 3: aliases are not supported"),
            (&*deep, ""),
            (&*blocks, ""),
            (&*format!("a: [{}]", "1,".repeat(MOST_VALUES)), "more than"),
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.contains(why), "{error}");
        }
    }
}
