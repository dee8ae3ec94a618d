//! The tables of `docs/training.md` compared with the code, so that neither drifts from the other.

use std::collections::BTreeMap;

use ehi::train::{Preset, TrainConfig};
use serde_json::Value;

/// Cells of every table row of the page, without backticks.
fn rows() -> Vec<Vec<String>> {
    let page = crate::support::root().join("docs/training.md");
    let page = std::fs::read_to_string(page).unwrap();
    page.lines()
        .filter_map(|line| line.strip_prefix("| ")?.strip_suffix(" |"))
        .map(|line| line.split(" | ").map(|cell| cell.trim().replace('`', "")).collect())
        .collect()
}

/// Leaves of a configuration by their dotted names.
fn fields(config: &TrainConfig) -> BTreeMap<String, Value> {
    fn collect(prefix: &str, value: &Value, into: &mut BTreeMap<String, Value>) {
        match value {
            Value::Object(fields) => {
                for (name, value) in fields {
                    let name = if prefix.is_empty() { name.clone() } else { format!("{prefix}.{name}") };
                    collect(&name, value, into);
                }
            }
            value => {
                into.insert(prefix.to_owned(), value.clone());
            }
        }
    }
    let mut found = BTreeMap::new();
    collect("", &serde_json::to_value(config).unwrap(), &mut found);
    found
}

fn same(cell: &str, value: &Value) -> bool {
    match value {
        Value::String(text) => cell == text,
        Value::Bool(value) => cell == value.to_string(),
        Value::Null => cell == "by rule",
        number => cell.replace(',', "").parse::<f64>().ok() == number.as_f64(),
    }
}

#[test]
fn every_field_is_documented_with_its_default() {
    let rows = rows();
    for (name, value) in fields(&TrainConfig::default()) {
        let row = rows.iter().find(|row| row[0] == name);
        let row = row.unwrap_or_else(|| panic!("docs/training.md has no row for {name}"));
        assert!(same(&row[1], &value), "docs/training.md gives {name} as {}, the code as {value}", row[1]);
    }
}

#[test]
fn presets_are_documented_with_their_values() {
    let rows = rows();
    let columns =
        ["schedule.batch_size", "tree.branching_factor", "encoder.learning_rate", "tree.learning_rate"];
    for (name, preset) in [
        ("scifact", Preset::SciFact),
        ("fiqa", Preset::Fiqa),
        ("msmarco", Preset::MsMarco),
        ("nq320k", Preset::Nq320k),
    ] {
        let fields = fields(&TrainConfig::preset(preset));
        let row = rows.iter().find(|row| row[0] == name);
        let row = row.unwrap_or_else(|| panic!("docs/training.md has no row for preset {name}"));
        for (column, cell) in columns.iter().zip(&row[1..]) {
            assert!(same(cell, &fields[*column]), "preset {name}, {column}: {cell} and {}", fields[*column]);
        }
        let weights: Vec<&str> = row[5].split(", ").collect();
        let names = ["siamese", "indexing", "intra_leaf"];
        assert_eq!(weights.len(), names.len());
        for (part, cell) in names.iter().zip(weights) {
            assert!(same(cell, &fields[&format!("losses.weights.{part}")]), "preset {name}, {part}: {cell}");
        }
    }
}
