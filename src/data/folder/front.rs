//! Front matter: a block of names and values at the very start of a Markdown file.

use serde_json::{Map, Value};

use super::yaml;

/// The most bytes of a block; a larger one is text.
const MOST_BYTES: usize = 1 << 20;

/// The start of a Markdown file.
#[derive(Debug, PartialEq)]
pub(super) enum Front<'a> {
    /// Markdown, without front matter.
    Absent,
    /// Fields, followed by Markdown. `is_untitled`: the title is null, so that the document has none. A blank
    /// title does not count.
    Read { fields: Map<String, Value>, is_untitled: bool, rest: &'a str },
    /// A malformed block of YAML or TOML.
    Malformed { block: &'a str, rest: &'a str, why: String },
}

impl<'a> Front<'a> {
    /// The front matter of a file: YAML between two lines of `---`, where the second may be `...`, or TOML
    /// between two lines of `+++`. The first of them is the first line of the file. A block whose first line
    /// is blank, or that has values without names, is Markdown between two horizontal rules.
    pub fn of(file: &'a str) -> Self {
        let Some((block, rest, read)) = split(file) else { return Self::Absent };
        let is_large = block.len() > MOST_BYTES;
        let fields = if is_large { Err(format!("more than {MOST_BYTES} bytes")) } else { read(block) };
        match fields {
            Ok(Value::Object(fields)) => {
                let none =
                    |line: &str| line.strip_prefix("title:").is_some_and(|value| !value.trim().is_empty());
                let is_untitled = fields.get("title") == Some(&Value::Null) && block.lines().any(none);
                Self::Read { fields, is_untitled, rest }
            }
            // An empty block. A block with only comments may be Markdown headings.
            Ok(Value::Null) if block.trim().is_empty() => {
                Self::Read { fields: Map::new(), is_untitled: false, rest }
            }
            Ok(_) => Self::Absent,
            Err(why) => Self::Malformed { block, rest, why },
        }
    }
}

/// Whether a file begins with blank lines before an apparent front matter.
pub(super) fn is_late(file: &str) -> bool {
    let rest = file.trim_start();
    let blank = &file[..file.len() - rest.len()];
    blank.ends_with('\n') && matches!(Front::of(rest), Front::Read { fields, .. } if !fields.is_empty())
}

/// Reads a block as JSON.
type ReadBlock = fn(&str) -> Result<Value, String>;

/// The block between its two lines, the rest of the file, and how the block is read.
fn split(file: &str) -> Option<(&str, &str, ReadBlock)> {
    let (first, inside) = file.split_once('\n')?;
    let (ends, read): (&[&str], ReadBlock) = match first.trim_end() {
        "---" => (&["---", "..."], yaml),
        "+++" => (&["+++"], toml),
        _ => return None,
    };
    let mut start = 0;
    for line in inside.split_inclusive('\n') {
        let end = start + line.len();
        if ends.contains(&line.trim_end()) {
            return Some((&inside[..start], &inside[end..], read));
        }
        if start == 0 && line.trim().is_empty() {
            return None;
        }
        start = end;
    }
    None
}

fn yaml(block: &str) -> Result<Value, String> {
    yaml::parse(block).map_err(|why| match why.contains("mapping values are not allowed") {
        true => why + "; put a value with a colon in quotes",
        false => why,
    })
}

fn toml(block: &str) -> Result<Value, String> {
    let table: toml::Table = block.parse().map_err(|error: toml::de::Error| error.message().to_owned())?;
    Ok(json(toml::Value::Table(table)))
}

/// Times, and numbers that JSON lacks, become text.
fn json(value: toml::Value) -> Value {
    use toml::Value as Toml;
    match value {
        Toml::String(text) => Value::String(text),
        Toml::Integer(number) => number.into(),
        Toml::Float(number) => match serde_json::Number::from_f64(number) {
            Some(number) => Value::Number(number),
            None => Value::String(number.to_string().to_lowercase()),
        },
        Toml::Boolean(value) => Value::Bool(value),
        Toml::Datetime(time) => Value::String(time.to_string()),
        Toml::Array(values) => values.into_iter().map(json).collect(),
        Toml::Table(fields) => fields.into_iter().map(|(name, value)| (name, json(value))).collect(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn read(file: &str, expected: &Value, after: &str) {
        let fields = expected.as_object().unwrap().clone();
        assert_eq!(Front::of(file), Front::Read { fields, is_untitled: false, rest: after }, "{file}");
    }

    #[test]
    fn front_matter_is_the_block_at_the_start() {
        read("---\na: 1\n---\nrest\n---\n", &json!({ "a": 1 }), "rest\n---\n");
        read("---\r\na: b\r\n---\r\nrest", &json!({ "a": "b" }), "rest");
        read("--- \na: b\n...\n", &json!({ "a": "b" }), "");
        read("---\n---\nrest", &json!({}), "rest");
        read("---\na: |\n  x\n\n  ---\n---", &json!({ "a": "x\n\n---\n" }), "");
        let toml = "+++\nt = 'x'\nd = 2024-01-05\nn = [1, 1.5, inf, nan]\n[a.b]\nc = true\n+++\nrest";
        let expected =
            json!({ "t": "x", "d": "2024-01-05", "n": [1, 1.5, "inf", "nan"], "a": { "b": { "c": true } } });
        read(toml, &expected, "rest");
        for file in [
            "",
            "---",
            "---\n",
            "---\na: 1\n",
            "\n---\na: 1\n---\n",
            "text\n---\na: 1\n---\n",
            "---\n\na: 1\n---\n",
            "----\na: 1\n----\n",
            "--- a\na: 1\n---\n",
            "---\nThe zeppelin was approved.\n---\n",
            "---\n# Heading\n---\n",
            "---\n- a\n- b\n---\n",
        ] {
            assert_eq!(Front::of(file), Front::Absent, "{file}");
        }
    }

    #[test]
    fn a_mistake_is_told() {
        for (file, expected) in [
            ("---\ntitle: a: b\n---\nrest", "line 2"),
            ("---\ntitle: a: b\n---\nrest", "; put a value with a colon in quotes"),
            ("---\na: 1\na: 2\n---\nrest", "the name `a` appears twice"),
            ("---\n**A firm**\n---\nrest", "line 2"),
            ("---\na: {{ b }}\n---\nrest", ""),
            ("+++\na = 1\na = 2\n+++\nrest", "duplicate key"),
        ] {
            match Front::of(file) {
                Front::Malformed { block, rest, why } => {
                    assert_eq!((&file[4..4 + block.len()], rest), (block, "rest"));
                    assert!(why.contains(expected), "{file}: {why}");
                }
                other => panic!("{file}: {other:?}"),
            }
        }
        let large = format!("---\na: {}\n---\n", "x".repeat(MOST_BYTES));
        assert!(matches!(Front::of(&large), Front::Malformed { .. }));
    }
}
