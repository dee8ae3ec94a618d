//! The type of a column in the metadata: numbers or booleans if all cells are, otherwise text.

use serde_json::{Number, Value};

use crate::data::note::{Note, counted};
use crate::data::rows::Rows;

/// Characters of a cell that a note shows.
const MOST_SHOWN: usize = 40;

/// The kind of a cell.
#[derive(Clone, Copy, Debug, PartialEq)]
enum CellKind {
    Number,
    Boolean,
    Text,
}

/// For each column, whether it is metadata whose cells in all rows that follow are numbers, or booleans, or
/// empty. Stops at an error, which the reading of the rows reports.
pub(super) fn typed_columns(rows: &mut Rows, uses: &[Option<bool>]) -> Vec<bool> {
    let mut kinds = vec![None; uses.len()];
    let mut open: Vec<usize> = (0..uses.len()).filter(|place| uses[*place] == Some(true)).collect();
    while !open.is_empty() && matches!(rows.advance(), Ok(true)) {
        if rows.len() != uses.len() {
            continue;
        }
        open.retain(|&place| {
            let cell = std::str::from_utf8(rows.cell(place)).unwrap_or_default();
            let of_cell = kind(cell);
            cell.is_empty() || of_cell != CellKind::Text && *kinds[place].get_or_insert(of_cell) == of_cell
        });
    }
    let is_typed = |place: usize| open.contains(&place) && kinds[place].is_some();
    (0..uses.len()).map(is_typed).collect()
}

/// The kind of a cell that is not empty.
fn kind(cell: &str) -> CellKind {
    match cell {
        "true" | "false" => CellKind::Boolean,
        _ if number(cell).is_some() => CellKind::Number,
        _ => CellKind::Text,
    }
}

/// A cell that reads as JSON writes a number or a boolean is one: `7`, `-0.5`, `12.50`, `true`, but not
/// `007`, `+7`, `1e5` or `TRUE`, which may be something else, nor a number that would lose digits.
pub(super) fn typed(cell: &str) -> Value {
    match cell {
        "true" => Value::Bool(true),
        "false" => Value::Bool(false),
        _ => number(cell).map_or_else(|| Value::String(cell.to_owned()), Value::Number),
    }
}

fn number(cell: &str) -> Option<Number> {
    let digits = cell.strip_prefix('-').unwrap_or(cell);
    if !digits.starts_with(|first: char| first.is_ascii_digit()) {
        return None;
    }
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, "0"));
    let is_plain = !fraction.is_empty()
        && [whole, fraction].iter().all(|part| part.bytes().all(|byte| byte.is_ascii_digit()))
        && (whole == "0" || !whole.starts_with('0'))
        && cell != "-0"
        && (cell.contains('.') || cell.parse::<i64>().is_ok());
    is_plain.then(|| exact(cell)).flatten()
}

/// A decimal number without an exponent as metadata: a number if one holds all of its digits, otherwise text.
pub fn decimal(text: &str) -> Value {
    exact(without_zeros(text)).map_or_else(|| text.into(), Value::Number)
}

/// A decimal number without an exponent, if an integer of 64 bits or a double holds all of its digits.
pub(super) fn exact(decimal: &str) -> Option<Number> {
    let whole = decimal.parse::<i64>().map(Number::from);
    if let Ok(whole) = whole.or_else(|_| decimal.parse::<u64>().map(Number::from)) {
        return Some(whole);
    }
    let number: f64 = decimal.parse().ok()?;
    // Without an exponent; all digits of a whole number, and the fewest that tell apart other numbers.
    let written = if decimal.contains('.') { number.to_string() } else { format!("{number:.0}") };
    (written == without_zeros(decimal)).then(|| Number::from_f64(number)).flatten()
}

/// A decimal number without trailing zeros of its fraction.
pub(in crate::data) fn without_zeros(decimal: &str) -> &str {
    match decimal.contains('.') {
        true => decimal.trim_end_matches('0').trim_end_matches('.'),
        false => decimal,
    }
}

/// Counts the kinds of a column's cells.
#[derive(Clone, Default)]
pub(super) struct Tally {
    /// By [`CellKind`].
    counts: [u64; 3],
    /// The first cell of text, with its line.
    other: Option<(String, u64)>,
}

impl Tally {
    /// Counts a cell that is not empty.
    pub fn count(&mut self, cell: &str, line: u64) {
        let kind = kind(cell);
        self.counts[kind as usize] += 1;
        if kind == CellKind::Text && self.other.is_none() {
            let end = if cell.chars().nth(MOST_SHOWN).is_some() { "…" } else { "" };
            self.other = Some((cell.chars().take(MOST_SHOWN).chain(end.chars()).collect(), line));
        }
    }

    /// All cells that were counted.
    pub fn cells(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// A note if the cells are of different kinds.
    pub fn note(&self, column: &str) -> Option<Note> {
        let cells = self.cells();
        if self.counts.contains(&cells) {
            return None;
        }
        let [numbers, booleans, _] = self.counts;
        let kinds = [
            (numbers, counted(numbers, "reads as a number", "read as numbers")),
            (booleans, counted(booleans, "reads as a boolean", "read as booleans")),
        ];
        let kinds: Vec<String> =
            kinds.into_iter().filter(|(count, _)| *count > 0).map(|(_, said)| said).collect();
        let other = self.other.as_ref().map(|(cell, line)| format!(", but not `{cell}` in line {line}"));
        let (kinds, other) = (kinds.join(" and "), other.unwrap_or_default());
        let message = format!("the column `{column}` is text: of its {cells} cells {kinds}{other}");
        Some(Note::about_text(message, column))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn cells_become_numbers_where_no_digit_is_lost() {
        for (cell, number) in [
            ("7", json!(7)),
            ("0", json!(0)),
            ("-7", json!(-7)),
            ("12.50", json!(12.5)),
            ("18.00", json!(18.0)),
            ("-0.10", json!(-0.1)),
            ("0.5", json!(0.5)),
            ("999999999999999999", json!(999_999_999_999_999_999_i64)),
            ("-9223372036854775808", json!(i64::MIN)),
        ] {
            assert_eq!((typed(cell), kind(cell)), (number, CellKind::Number), "{cell}");
        }
        for text in [
            "007",
            "+7",
            "-0",
            "1e5",
            "1.",
            ".5",
            "1.2.3",
            "12345678901234567890123",
            "0.12345678901234567890",
            "00.50",
            "7-",
            "-",
            "",
            "TRUE",
        ] {
            assert_eq!((typed(text), kind(text)), (json!(text), CellKind::Text), "{text}");
        }
        assert_eq!((typed("true"), kind("false")), (json!(true), CellKind::Boolean));
    }
}
