//! Parquet and Arrow files, written by pyarrow and polars (`tests/fixtures/columns/make.py`).

use std::fs::{self, File};
use std::io::{Cursor, Write};
use std::path::PathBuf;
use std::sync::Arc;

use arrow_array::{ArrayRef, Date32Array, RecordBatch, StringArray, TimestampSecondArray};
use ehi::Document;
use ehi::data::{DataError, Format, Input};
use flate2::Compression;
use flate2::write::GzEncoder;
use parquet::arrow::ArrowWriter;
use serde_json::{Value, json};

use crate::program::{Flow, text};

const ROWS: usize = 300;

fn path(name: &str) -> PathBuf {
    crate::support::root().to_owned().join("tests/fixtures/columns").join(name)
}

fn named() -> Input {
    Input::new().id("key").title("head").text(["body"])
}

fn read(input: &Input, name: &str) -> Result<Vec<Document>, DataError> {
    input.open(path(name))?.collect()
}

/// A day of 2020, counted from 0.
fn day(number: usize) -> String {
    let (mut month, mut left) = (1, number);
    for days in [31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31] {
        if left < days {
            break;
        }
        left -= days;
        month += 1;
    }
    format!("2020-{month:02}-{:02}", left + 1)
}

fn row(number: usize, whole: bool) -> Document {
    let title = if number.is_multiple_of(3) { String::new() } else { format!("title {}", number % 7) };
    let mut metadata = json!({ "year": 2000 + number % 5 });
    if whole {
        let tags = [json!("a"), Value::Null][..number % 3].to_vec();
        let own = json!({
            "small": number as f64 / 10.0,
            "ok": number.is_multiple_of(2),
            "day": day(number),
            // In milliseconds.
            "at": format!("2020-01-01T12:00:{:02}.000Z", number % 60),
            "tags": tags,
            "place": { "x": number, "y": null },
            "kind": format!("k{}", number % 3),
        });
        metadata.as_object_mut().unwrap().extend(own.as_object().unwrap().clone());
        let is_whole = number.is_multiple_of(100);
        metadata["cost"] = if is_whole { json!(number / 100) } else { json!(number as f64 / 100.0) };
        // NaN is null, as pandas means it.
        metadata["price"] = if number % 2 == 1 { json!(number as f64 / 4.0) } else { Value::Null };
    }
    Document::new(number.to_string(), title, format!("leaf {number} é")).with_metadata(metadata)
}

#[test]
fn columns_of_every_codec_and_type_are_read() {
    let whole: Vec<Document> = (0..ROWS).map(|number| row(number, true)).collect();
    let simple: Vec<Document> = (0..ROWS).map(|number| row(number, false)).collect();
    for name in ["none", "snappy", "gzip", "brotli", "lz4", "zstd", "zstd-v2"] {
        assert!(read(&named(), &format!("{name}.parquet")).unwrap() == whole, "{name}");
    }
    for name in ["file.arrow", "stream.arrow"] {
        assert_eq!(read(&named(), name).unwrap(), whole, "{name}");
        assert_eq!(read(&named().metadata(["year"]), name).unwrap(), simple, "{name}");
    }
    for name in ["polars.parquet", "lz4.arrow"] {
        assert_eq!(read(&named(), name).unwrap(), simple, "{name}");
    }
    assert_eq!(read(&named().metadata(["year"]), "zstd.parquet").unwrap(), simple);
    assert_eq!(read(&named().format(Format::Parquet), "none.parquet").unwrap(), whole);
    assert!(read(&Input::new(), "empty.parquet").unwrap().is_empty());
    let documents = read(&Input::new().metadata([""; 0]), "binary.parquet").unwrap();
    assert_eq!(documents, [Document::new("a", "", "x")]);

    // As a stream, and compressed as a whole.
    for name in ["snappy.parquet", "file.arrow", "stream.arrow"] {
        let stream = named().read(File::open(path(name)).unwrap(), "in").unwrap();
        assert_eq!(stream.collect::<Result<Vec<_>, _>>().unwrap(), whole, "{name}");
        let mut packed = GzEncoder::new(Vec::new(), Compression::fast());
        packed.write_all(&fs::read(path(name)).unwrap()).unwrap();
        let packed = named().read(Cursor::new(packed.finish().unwrap()), "in").unwrap();
        assert_eq!(packed.count(), ROWS, "{name}");
    }
    let mut documents = named().open(path("zstd.parquet")).unwrap();
    documents.by_ref().take(150).for_each(|document| assert!(document.is_ok()));
    let bytes = fs::metadata(path("zstd.parquet")).unwrap().len();
    assert_eq!((documents.line(), documents.position()), (150, bytes / 2));
}

#[test]
fn what_cannot_be_read_is_said() {
    let at = |name: &str| path(name).display().to_string();
    for (input, name, expected) in [
        (
            Input::new(),
            "names.parquet",
            ": no column `id` for the id; columns found: question, answer; `--id`",
        ),
        (named(), "binary.parquet", ": no column `key` for the id; columns found: id, text, raw; "),
        (
            Input::new(),
            "binary.parquet",
            ":1: the column `raw` is of the type Binary, which is not read; name the columns to read with `--metadata`",
        ),
        (
            Input::new(),
            "float-id.parquet",
            ":1: expected a string or an integer in the field `id`, found a number that is not an integer",
        ),
        (
            Input::new(),
            "null-id.parquet",
            ":2: there is no id: the field `id` is missing or null; fields found: id, text",
        ),
        (named(), "zstd.arrow", ":1: "),
        (named().format(Format::Arrow), "none.parquet", ": "),
        (named().format(Format::Parquet), "file.arrow", ": Invalid Parquet file. Corrupt footer"),
        (
            named().cells_as_text(true),
            "none.parquet",
            ": text cells do not apply to the format parquet; leave",
        ),
        (named().metadata(["key", "key"]), "none.parquet", ""),
    ] {
        let error = read(&input, name).unwrap_err().to_string();
        let start = if expected.is_empty() { "the field `key` is named twice".to_owned() } else { at(name) };
        assert!(error.starts_with(&format!("{start}{expected}")), "{error}");
    }
    let error = read(&named(), "zstd.arrow").unwrap_err().to_string();
    assert!(error.contains("zstd"), "{error}");
}

#[test]
fn a_row_with_a_value_that_has_no_text_is_refused() {
    let flow = Flow::new();
    let file = flow.path("days.parquet");
    let strings = |values: [Option<&str>; 4]| -> ArrayRef { Arc::new(StringArray::from(values.to_vec())) };
    let columns: [(&str, ArrayRef); 4] = [
        ("id", strings([Some("a"), Some("b"), Some("c"), Some("d")])),
        ("text", strings([Some("leaf"), Some("leaf"), None, Some("leaf")])),
        ("day", Arc::new(Date32Array::from(vec![0, i32::MAX, 1, 2]))),
        ("at", Arc::new(TimestampSecondArray::from(vec![i64::MAX, 0, 0, 0]))),
    ];
    let batch = RecordBatch::try_from_iter_with_nullable(columns.map(|(name, column)| (name, column, true)));
    let batch = batch.unwrap();
    let mut writer = ArrowWriter::try_new(File::create(&file).unwrap(), batch.schema(), None).unwrap();
    writer.write(&batch).unwrap();
    writer.close().unwrap();
    let ran = flow.run("insert", &[text(&file)]);
    let lines: Vec<&str> = ran.err.lines().collect();
    let expected = [
        ":1: the column `at` is not convertible to text: ",
        ":2: the column `day` is not convertible to text: ",
        ":3: there is no text: the field `text` is missing or null",
    ];
    for (line, expected) in lines.iter().zip(expected) {
        assert!(line.starts_with(&format!("refused: {}{expected}", text(&file))), "{line}");
    }
    assert_eq!(lines[3..], ["ehi: 3 of 4 documents refused, 1 stored"]);
    assert_eq!(ran.out, "1 inserted, 0 replaced, 3 refused; the index has 1 document\n");
}

/// A damaged file is an error or reads as something else, and never panics.
#[test]
fn damaged_files_do_no_harm() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("damaged");
    for name in
        ["snappy.parquet", "zstd.parquet", "zstd-v2.parquet", "polars.parquet", "file.arrow", "stream.arrow"]
    {
        let whole = fs::read(path(name)).unwrap();
        let mut state = 7u64;
        for round in 0..150 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let place = (state >> 33) as usize % whole.len();
            let mut bytes = whole.clone();
            match round % 3 {
                0 => bytes.truncate(place),
                // The footer, and the start, more often than by chance.
                1 => bytes[whole.len() - 1 - place % 600.min(whole.len())] ^= 1 << (state % 8),
                _ => bytes[place] ^= 1 << (state % 8),
            }
            fs::write(&file, &bytes).unwrap();
            let Ok(documents) = named().open(&file) else { continue };
            let _ = documents.take(2 * ROWS).count();
        }
    }
}

#[test]
fn the_program_inserts_columns() {
    let flow = Flow::new();
    let said = flow.run(
        "insert",
        &["--id", "key", "--text", "body", "--metadata", "year,tags", text(&path("polars.parquet"))],
    );
    assert!(
        said.failure().contains("no column `tags` for the metadata; columns found: key, head, body, year")
    );
    let file = path("zstd.parquet");
    let arguments = ["--id", "key", "--text", "body", "--metadata", "year,tags", text(&file)];
    let said = flow.run("insert", &arguments).ok();
    assert_eq!(said, "300 inserted, 0 replaced; the index has 300 documents\n");
    let document = flow.run("get", &["8"]).json();
    assert_eq!(document["metadata"], json!({ "year": 2003, "tags": ["a", null] }));
}
