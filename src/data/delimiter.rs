//! Detects the delimiter of a table from its first rows.

use csv::{ByteRecord, ReaderBuilder};

/// Possible delimiters, the likeliest first.
const SIGNS: [u8; 4] = [b'\t', b',', b';', b'|'];
/// Rows examined.
const ROWS: usize = 100;
/// Start of a first line that names the delimiter.
const DECLARED: &[u8] = b"sep=";

/// The delimiter named by a first line such as `sep=;`, as written and read by Excel.
pub(super) fn declared(line: &[u8]) -> Option<u8> {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    let line = line.strip_prefix(b"\"").and_then(|line| line.strip_suffix(b"\"")).unwrap_or(line);
    let (start, rest) = line.split_at_checked(DECLARED.len())?;
    match rest {
        [sign]
            if start.eq_ignore_ascii_case(DECLARED) && sign.is_ascii() && !sign.is_ascii_alphanumeric() =>
        {
            Some(*sign)
        }
        _ => None,
    }
}

/// The delimiter of a table with this start; `None` if its first row is a single cell with every delimiter.
///
/// A first line that names the delimiter decides. Otherwise the delimiter that gives all, or most, rows the
/// same number of cells as the first is chosen; among several, one whose first row `fits` accepts, then the
/// one with the most cells.
pub(super) fn delimiter(head: &[u8], is_whole: bool, fits: &dyn Fn(&[String]) -> bool) -> Option<u8> {
    let head = without_blank_lines(head);
    let first = head.split_inclusive(|byte| *byte == b'\n').next().unwrap_or_default();
    if let Some(sign) = declared(first) {
        return Some(sign);
    }
    let mut best = None;
    for sign in SIGNS {
        let rank = rank(head, is_whole, sign, fits);
        if rank.is_some() && best.is_none_or(|(of_best, _)| rank > of_best) {
            best = Some((rank, sign));
        }
    }
    best.map(|(_, sign)| sign)
}

/// Rank of a delimiter, greater is better: whether all rows have the same number of cells, whether the names
/// fit, the share of the rows with as many cells as the first, and the number of cells.
fn rank(
    head: &[u8],
    is_whole: bool,
    sign: u8,
    fits: &dyn Fn(&[String]) -> bool,
) -> Option<(bool, bool, f64, usize)> {
    let mut names = None;
    let (mut rows, mut even) = (0, 0);
    let mut reader = ReaderBuilder::new().has_headers(false).flexible(true).delimiter(sign).from_reader(head);
    let mut row = ByteRecord::new();
    while rows < ROWS && reader.read_byte_record(&mut row).unwrap_or(false) {
        // The last row may continue after the head.
        if !is_whole && reader.position().byte() == head.len() as u64 {
            break;
        }
        let names = names.get_or_insert_with(|| {
            let text = |cell: &[u8]| String::from_utf8_lossy(cell).trim().to_owned();
            row.iter().map(text).collect::<Vec<String>>()
        });
        rows += 1;
        even += usize::from(row.len() == names.len());
    }
    let names = names.filter(|names| names.len() > 1)?;
    let share = even as f64 / rows as f64;
    Some((even == rows, fits(&names), share, names.len()))
}

fn without_blank_lines(mut head: &[u8]) -> &[u8] {
    // A line of tabs is a row of empty cells.
    while let Some(rest) = head.strip_prefix(b"\n").or_else(|| head.strip_prefix(b"\r\n")) {
        head = rest;
    }
    head
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(head: &str) -> Option<char> {
        let fits = |names: &[String]| names.iter().any(|name| name == "id");
        delimiter(head.as_bytes(), true, &fits).map(char::from)
    }

    #[test]
    fn signs_are_told_by_the_rows_and_not_by_the_names_alone() {
        for (head, sign) in [
            ("id,text\n", ','),
            ("\r\nid;text\n1;a, b\n2;c, d\n", ';'),
            ("sku;name (short, required);text (long, with lines, required)\n1;Pump;A pump\n", ';'),
            ("id|text\n1|A, pump\n", '|'),
            ("\tid\ttext\n0\t1\tx, y\n", '\t'),
            ("id,\"text; in parts; of three\",x\n1,A pump,2\n", ','),
            // Both separate evenly: the names decide, and then the number of cells.
            ("id;name, first\n1;Smith, John\n", ';'),
            ("one, two;three\nSmith, John;x\n", ','),
            ("id;text, or more\tof it; here\n", ';'),
            // A short row does not matter.
            ("id;name, given;text\n1;a, b;c\n2;d\n3;e, f;g\n", ';'),
            ("\"a\tb\",c\n", ','),
            ("sep=|\nid|text\n", '|'),
            ("\"SEP=;\"\r\nid,x;text\r\n", ';'),
            ("sep=\t\nid\ttext\n", '\t'),
        ] {
            assert_eq!(told(head), Some(sign), "{head:?}");
        }
        for head in ["", "text\n", "some words\nof mine\n", "\"quoted, text\"\n", "sep=xy\n1\n"] {
            assert_eq!(told(head), None, "{head:?}");
        }
    }

    #[test]
    fn a_row_that_goes_on_behind_the_head_does_not_count() {
        let head = b"id;text\n1;a\n2;\"b, c, d";
        assert_eq!(delimiter(head, false, &|_| true), Some(b';'));
        assert_eq!(delimiter(b"id;te", false, &|_| true), None);
    }
}
