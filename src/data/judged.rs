//! Judgments in files: tab-separated, comma-separated, or JSON lines.

use std::io::{self, Read, Write};

use serde::de::Error;
use serde_json::Value;

use super::error::{DataError, DataErrorKind, Place};
use super::input::{StreamKind, TableLayout, first_line, record, refused, sniff, without_zeros};
use super::lines::{Line, Lines};
use super::quotes::Quotes;
use super::rows::Rows;
use super::unpack::Unpacked;
use super::{Format, Note};
use crate::judgment::Judgment;

/// The format of judgments.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum JudgmentFormat {
    /// Columns between tabs, without quotes: a question that holds a tab or a line feed cannot be written.
    Tsv,
    /// Columns between commas, with quotes where needed (RFC 4180).
    Csv,
    /// One JSON object per line.
    JsonLines,
}

const COLUMNS: [&str; 5] = ["question", "id", "grade", "weight", "time"];
const A_GRADE: &str = "a grade; a grade is a whole number of 32 bits";
const A_WEIGHT: &str = "a weight; a weight is a number above 0, 1 at most";
const A_TIME: &str =
    "a time in seconds since 1970, at most a day ahead; empty it to store that of the import";
const ROW: &str = "question, id, and if there are more grade, weight, time";

impl JudgmentFormat {
    /// From the extension of a file's name: `tsv`, `csv`, `jsonl` or `ndjson`, with or without `.gz`.
    pub fn of_name(name: &str) -> Option<Self> {
        let (_, ending) = name.strip_suffix(".gz").unwrap_or(name).rsplit_once('.')?;
        match ending.to_ascii_lowercase().as_str() {
            "tsv" => Some(Self::Tsv),
            "csv" => Some(Self::Csv),
            "jsonl" | "ndjson" => Some(Self::JsonLines),
            _ => None,
        }
    }
}

/// Reads judgments. Defaults are a grade of 1, a weight of 1 and the current time.
///
/// Columns are question, id, grade, weight and time, and the last three may be missing. A first row with
/// these names, in upper or lower case, may give another order; other names are an error. JSON lines have
/// them as fields. Any of them may be compressed with gzip or zstd. `name` is the name of the stream in
/// errors. [`Index::record_all`](crate::Index::record_all) decides whether a judgment can be stored. Without
/// a `format`, the extension of the name or the content decides: JSON lines begin with a brace, TSV has a tab
/// in its first row, and the delimiter of CSV is detected from the first rows.
///
/// Quotes around the cells of TSV are removed if the file was written with them, as in
/// [`Input`](super::Input); with [`JudgmentFormat::Tsv`] as the `format` they are ordinary characters. The
/// notes give the number of cells.
///
/// # Errors
/// [`DataErrorKind::Format`] if the format cannot be detected, [`DataErrorKind::Column`] for unknown names,
/// [`DataErrorKind::Row`], [`DataErrorKind::Field`], [`DataErrorKind::Json`] and [`DataErrorKind::Encoding`]
/// for a judgment that cannot be used, and the errors of reading. The first error ends the reading.
pub fn read_judgments(
    reader: impl Read + Send + 'static,
    name: impl Into<String>,
    format: impl Into<Option<JudgmentFormat>>,
) -> Result<(Vec<Judgment>, Vec<Note>), DataError> {
    let (name, given) = (name.into(), format.into());
    let by_name = JudgmentFormat::of_name(&name);
    let mut stream = Unpacked::new(reader, name);
    let fits = |columns: &[String]| (2..=COLUMNS.len()).contains(&columns.len());
    let tabs = TableLayout::told(b'\t');
    let commas = |delimiter| TableLayout { delimiter, quotes: Some(Quotes::Around(0)) };
    let layout = match given.or(by_name) {
        Some(JudgmentFormat::Tsv) if given.is_some() => {
            Some(TableLayout { quotes: Some(Quotes::Literal), ..tabs })
        }
        Some(JudgmentFormat::Tsv) => Some(tabs),
        Some(JudgmentFormat::Csv) => Some(commas(None)),
        Some(JudgmentFormat::JsonLines) => None,
        None => match sniff(&mut stream, &fits)? {
            StreamKind::Empty => return Ok((Vec::new(), Vec::new())),
            StreamKind::Known(Format::JsonLines) => None,
            // A question may have more commas than its row has tabs.
            StreamKind::Table(sign)
                if sign == b'\t' || first_line(&mut stream, usize::MAX)?.contains('\t') =>
            {
                Some(tabs)
            }
            StreamKind::Table(sign) => Some(commas(Some(sign))),
            kind => return Err(refused(kind, &mut stream)),
        },
    };
    let Some(layout) = layout else { return Ok((read_json(Lines::of(stream))?, Vec::new())) };
    let (delimiter, quotes, stream, _) = layout.of_stream(stream, None, &fits)?;
    let rows = Rows::new(stream, delimiter, quotes != Quotes::Literal);
    let (found, kept) = read_table(rows, quotes)?;
    Ok((found, quotes.note(kept).into_iter().collect()))
}

fn read_json(mut lines: Lines) -> Result<Vec<Judgment>, DataError> {
    let mut found = Vec::new();
    while let Some(line) = lines.next_line() {
        let Line { at, text } = line?;
        let mut record = record(text).map_err(|source| at.json(source))?;
        let mut cells = [const { None }; COLUMNS.len()];
        for (cell, column) in cells.iter_mut().zip(COLUMNS) {
            *cell = match record.remove(column) {
                None | Some(Value::Null) => None,
                Some(Value::String(text)) => Some(text),
                Some(Value::Number(number)) if column != "id" || !number.is_f64() => Some(number.to_string()),
                Some(other) => return Err(wrong(at, &other.to_string(), "a string or a number")),
            };
        }
        if let Some((name, _)) = record.into_iter().next() {
            return Err(at.json(serde_json::Error::custom(format!("unknown field `{name}`"))));
        }
        found.push(judgment(at, cells.each_ref().map(|cell| cell.as_deref()))?);
    }
    Ok(found)
}

/// The judgment in a row of known columns.
fn judgment(at: Place<'_>, cells: [Option<&str>; 5]) -> Result<Judgment, DataError> {
    let [question, id, grade, weight, time] = cells.map(|cell| cell.filter(|cell| !cell.trim().is_empty()));
    let question = question.ok_or_else(|| at.missing("question"))?;
    let mut judgment = Judgment::new(question, id.ok_or_else(|| at.missing("id"))?, 1);
    if let Some(grade) = grade {
        // Other tools write whole numbers as `1.0`.
        let digits = without_zeros(grade.trim());
        judgment.grade = digits.parse().map_err(|_| wrong(at, grade.trim(), A_GRADE))?;
    }
    if let Some(weight) = weight {
        let parsed = weight.trim().parse().ok().filter(|weight| *weight > 0.0 && *weight <= 1.0);
        judgment.weight = parsed.ok_or_else(|| wrong(at, weight, A_WEIGHT))?;
    }
    if let Some(time) = time {
        judgment.time = time.trim().parse().map_err(|_| wrong(at, time, A_TIME))?;
        judgment.check_time().map_err(|_| wrong(at, time, A_TIME))?;
    }
    Ok(judgment)
}

/// The judgments of rows, and how many cells begin and end with quotes that are kept.
fn read_table(mut rows: Rows, quotes: Quotes) -> Result<(Vec<Judgment>, u64), DataError> {
    let mut places = [Some(0), Some(1), Some(2), Some(3), Some(4)];
    let (mut found, mut kept) = (Vec::new(), 0);
    let mut is_first = true;
    while rows.advance()? {
        let at = rows.place();
        let column = |place: usize| {
            COLUMNS.get(place).copied().map_or_else(|| format!("column {}", place + 1), str::to_owned)
        };
        let cells = (0..rows.len()).map(|place| rows.text(place, || column(place)));
        let cells: Vec<&str> = cells.collect::<Result<_, _>>()?;
        kept += cells.iter().filter(|cell| quotes.keeps(cell)).count() as u64;
        if std::mem::take(&mut is_first)
            && let Some(names) = names(&cells)
        {
            places = columns(&names, at)?;
            continue;
        }
        if !(2..=COLUMNS.len()).contains(&cells.len()) {
            let message = format!("{} columns instead of {ROW}", cells.len());
            return Err(at.error(DataErrorKind::Row, message));
        }
        let cells = places.map(|place| cells.get(place?).copied());
        if let Some(id) = cells[1].filter(|id| id.contains(['\n', '\r'])) {
            // As with an unclosed quote.
            return Err(wrong(at, id, "an id: it has an end of line"));
        }
        found.push(judgment(at, cells)?);
    }
    Ok((found, kept))
}

/// Position of each known column in a row of names.
fn columns(names: &[String], at: Place<'_>) -> Result<[Option<usize>; 5], DataError> {
    let places = COLUMNS.map(|column| names.iter().position(|name| name == column));
    let is_wrong =
        |place: &usize| !COLUMNS.contains(&&*names[*place]) || names[..*place].contains(&names[*place]);
    let wrong = (0..names.len()).find(is_wrong).or(places[..2].contains(&None).then_some(0));
    let Some(unknown) = wrong.map(|place| &names[place]) else { return Ok(places) };
    let message = format!(
        "`{unknown}` in what looks like a row of names; the columns are called question, id, grade, weight, \
         time, the first two of which must be there; columns found: {}",
        names.join(", ")
    );
    Err(at.error(DataErrorKind::Column, message))
}

fn wrong(at: Place<'_>, found: &str, expected: &str) -> DataError {
    at.error(DataErrorKind::Field, format!("`{found}` is not {expected}"))
}

/// Column names, our own and those of other tools: a first row with one of them among its first two cells is
/// a row of names.
const KNOWN: &str = "question query q query_text query_id query-id queryid qid \
    id doc doc_id doc-id docid document document_id document-id corpus_id corpus-id pid passage passage_id \
    answer answer_id rel grade weight time";

/// The names in a first row, in lower case; `None` for a row that is a judgment. In a row of names one of the
/// first two is known, and none is a number or several words.
fn names(cells: &[&str]) -> Option<Vec<String>> {
    let name = |cell: &&str| cell.trim().trim_start_matches('#').trim().to_lowercase();
    let names: Vec<String> = cells.iter().map(name).collect();
    let known = |name: &String| KNOWN.split(' ').any(|known| known == name);
    let is_name = |name: &String| name.parse::<f64>().is_err() && !name.contains(char::is_whitespace);
    let are_names = names.len() > 1 && names.iter().take(2).any(known) && names.iter().all(is_name);
    are_names.then_some(names)
}

/// Writes judgments with a row of names, or as JSON lines; [`read_judgments`] reads them back.
///
/// # Errors
/// Failures of writing; [`io::ErrorKind::InvalidInput`] for a question or an id that a tab-separated column
/// cannot hold.
pub fn write_judgments<'a>(
    mut out: impl Write,
    judgments: impl IntoIterator<Item = &'a Judgment>,
    format: JudgmentFormat,
) -> io::Result<()> {
    let rows = judgments.into_iter();
    match format {
        JudgmentFormat::JsonLines => {
            for row in rows {
                serde_json::to_writer(&mut out, row)?;
                out.write_all(b"\n")?;
            }
        }
        JudgmentFormat::Csv | JudgmentFormat::Tsv => {
            let (delimiter, quotes) = match format {
                JudgmentFormat::Csv => (b',', csv::QuoteStyle::Necessary),
                _ => (b'\t', csv::QuoteStyle::Never),
            };
            let mut writer = csv::WriterBuilder::new();
            let mut writer =
                writer.has_headers(false).delimiter(delimiter).quote_style(quotes).from_writer(&mut out);
            writer.write_record(COLUMNS)?;
            for row in rows {
                let Judgment { question, id, .. } = row;
                let has_end = |cell: &String| cell.contains(['\t', '\n', '\r']);
                if format == JudgmentFormat::Tsv && (has_end(question) || has_end(id)) {
                    let what = format!(
                        "{question:?} or {id:?} has a tab or an end of line; write CSV or JSON lines"
                    );
                    return Err(io::Error::new(io::ErrorKind::InvalidInput, what));
                }
                writer.serialize(row)?;
            }
            writer.flush()?;
        }
    }
    out.flush()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const FORMATS: [JudgmentFormat; 3] =
        [JudgmentFormat::Tsv, JudgmentFormat::Csv, JudgmentFormat::JsonLines];

    fn read(text: &str, format: JudgmentFormat) -> Result<Vec<Judgment>, DataError> {
        read_judgments(io::Cursor::new(text.to_owned()), "file", format).map(|(found, _)| found)
    }

    #[test]
    fn what_is_not_given_has_a_default() {
        for (format, text) in [
            (JudgmentFormat::Tsv, "what is tea?\td1\n\"quoted\" is kept\td2\t0.0\t0.5\t7\n"),
            (
                JudgmentFormat::Csv,
                "ID,Question,time,grade, weight\nd1,what is tea?,,,\nd2,\"\"\"quoted\"\" is kept\",7,0,0.5\n",
            ),
            (
                JudgmentFormat::JsonLines,
                "{\"question\": \"what is tea?\", \"id\": \"d1\"}\n\n{\"question\": \
                 \"\\\"quoted\\\" is kept\", \"id\": \"d2\", \"grade\": 0, \"weight\": 0.5, \"time\": 7}\n",
            ),
        ] {
            let found = read(text, format).unwrap();
            let first = Judgment::new("what is tea?", "d1", 1).at(found[0].time);
            let second = Judgment::new("\"quoted\" is kept", "d2", 0).with_weight(0.5).at(7);
            assert_eq!(found, [first, second], "{format:?}");
            assert!(found[0].time > 1_600_000_000);
        }
    }

    #[test]
    fn the_format_is_told_by_content() {
        for text in [
            "{\"question\": \"what, is tea?\", \"id\": 7}",
            "what, is, tea?\t7\n",
            "\"what, is, tea?\",7\n",
            "question,id\n\"what, is, tea?\",7\n",
            "question;id\n\"what, is, tea?\";7\n",
            "\u{feff}\nid\tquestion\n7\twhat, is, tea?\n",
        ] {
            let (found, _) = read_judgments(io::Cursor::new(text.to_owned()), "file", None).unwrap();
            let text = text.replace("what, is, tea?", "what, is tea?");
            assert_eq!((found.len(), found[0].id.as_str()), (1, "7"), "{text}");
            assert!(found[0].question.starts_with("what, is"), "{text}");
        }
        let error =
            |text: &'static str| read_judgments(text.as_bytes(), "file", None).unwrap_err().to_string();
        assert!(error("what is tea?\n").starts_with("file: it begins with `what is tea?`"));
        assert!(error("[{}]").starts_with("file: it begins with `["));
        assert!(read_judgments("".as_bytes(), "file", None).unwrap().0.is_empty());
    }

    #[test]
    fn quotes_of_tsv_are_read_as_they_were_written() {
        let written = "\"say \"\"hi\"\" now\"\td1\t1\n\"two\tcells\"\td2\t1\n";
        let literal = "5'9\" tall\td1\n\"quoted\" at the start\td2\n\"all of it\"\td3\n";
        let read = |text: &str, name, format: Option<JudgmentFormat>| {
            let read = read_judgments(io::Cursor::new(text.to_owned()), name, format).unwrap();
            (read.0.into_iter().map(|judgment| judgment.question).collect::<Vec<_>>(), read.1)
        };
        for name in ["file.tsv", "<stdin>"] {
            let (questions, notes) = read(written, name, None);
            assert_eq!(questions, ["say \"hi\" now", "two\tcells"]);
            assert!(notes[0].to_string().starts_with("2 cells are in quotes, which are taken off"));
            let (questions, notes) = read(literal, name, None);
            assert_eq!(questions, ["5'9\" tall", "\"quoted\" at the start", "\"all of it\""]);
            assert!(notes[0].to_string().starts_with("1 cell is in quotes, which are kept"));
        }
        let (questions, notes) = read("\"a\"\td1\n", "file.tsv", Some(JudgmentFormat::Tsv));
        assert_eq!((&*questions[0], notes.len()), ("\"a\"", 1));
    }

    #[test]
    fn a_bad_row_is_named_with_its_line() {
        for (format, text, expected) in [
            (JudgmentFormat::Tsv, "a\tb\nonly one\n", "file:2: 1 columns"),
            (JudgmentFormat::Tsv, "a\tb\tc\n", "file:1: `c` is not a grade; a grade is a whole number"),
            (JudgmentFormat::Tsv, "a\tb\t1.5\n", "file:1: `1.5` is not a grade; a grade is a whole number"),
            (JudgmentFormat::Tsv, "query\tdoc_id\na\tb\n", "file:1: `query` in what looks like"),
            (JudgmentFormat::Csv, "question,answer\na,b\n", "file:1: `answer` in what looks like"),
            (JudgmentFormat::Csv, "text,docid\na,b\n", "file:1: `text` in what looks like"),
            (JudgmentFormat::Csv, "question,id,id\na,b,c\n", "file:1: `id` in what looks like"),
            (JudgmentFormat::Csv, "question,id,user\na,b,c\n", "file:1: `user` in what looks like"),
            (
                JudgmentFormat::Tsv,
                "query-id\tcorpus-id\tscore\nq\td\t1\n",
                "file:1: `query-id` in what looks",
            ),
            (JudgmentFormat::Tsv, "id\tgrade\na\t1\n", "file:1: `id` in what looks like"),
            (JudgmentFormat::Tsv, "a\t\n", "file:1: the string field `id` is missing"),
            (
                JudgmentFormat::Csv,
                "a,b,1,much\n",
                "file:1: `much` is not a weight; a weight is a number above 0",
            ),
            (JudgmentFormat::Csv, "a,b,1,NaN\n", "file:1: `NaN` is not a weight"),
            (
                JudgmentFormat::Csv,
                "a,b,1,1,7\na,c,1,1,1700000000000\n",
                "file:2: `1700000000000` is not a time in seconds since 1970, at most a day ahead",
            ),
            (JudgmentFormat::Csv, "q1,\"b\nq2,c\n", "file:1: a quote in the row that begins here"),
            (JudgmentFormat::Csv, "q1,\"b\nc\"\n", "file:1: `b\nc` is not an id"),
            (JudgmentFormat::Tsv, " \tb\n", "file:1: the string field `question` is missing"),
            (
                JudgmentFormat::JsonLines,
                "{\"question\": \"a\", \"id\": \"b\", \"weight\": 2}",
                "file:1: `2` is not a weight",
            ),
            (JudgmentFormat::Csv, "a,b,1,1,1,1\n", "file:1: 6 columns"),
            (JudgmentFormat::JsonLines, "{\"question\": \"a\"}", "file:1: the string field `id` is missing"),
            (
                JudgmentFormat::JsonLines,
                "{\"question\": \"a\", \"id\": \"b\", \"gread\": 1}",
                "file:1: not a JSON object",
            ),
        ] {
            let error = read(text, format).unwrap_err().to_string();
            assert!(error.starts_with(expected), "{error}");
        }
    }

    #[test]
    fn tabs_are_refused_where_columns_end_by_them() {
        let error =
            write_judgments(Vec::new(), &[Judgment::new("a\tb", "d", 1)], JudgmentFormat::Tsv).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
    }

    proptest! {
        #[test]
        fn judgments_are_read_back(
            question in "[a-zé\"', ]{0,20}[a-z\"]",
            id in "[a-z0-9\",-]{1,9}",
            grade: i32,
            weight in 1e-6f64..1.0,
            time in 0u64..1_700_000_000,
        ) {
            let one = Judgment::new(question, id, grade).with_weight(weight).at(time);
            for format in FORMATS {
                let mut bytes = Vec::new();
                write_judgments(&mut bytes, [&one, &one], format).unwrap();
                let found = read(&String::from_utf8(bytes).unwrap(), format).unwrap();
                prop_assert_eq!(&found, &[one.clone(), one.clone()]);
            }
        }
    }
}
