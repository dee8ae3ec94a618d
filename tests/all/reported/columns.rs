//! Parquet and Arrow: times, decimals, infinite numbers, and large rows.

use std::fs::{self, File};
use std::path::Path;
use std::sync::Arc;

use arrow_array::builder::{ListBuilder, StringDictionaryBuilder};
use arrow_array::types::Int32Type;
use arrow_array::{
    ArrayRef, Decimal128Array, DictionaryArray, Float64Array, Int32Array, RecordBatch, StringArray,
    Time64MicrosecondArray, TimestampMicrosecondArray, TimestampNanosecondArray,
};
use arrow_ipc::writer::{FileWriter, StreamWriter};
use arrow_schema::Schema;
use ehi::Document;
use ehi::data::{Input, Note};
use parquet::arrow::ArrowWriter;
use parquet::basic::{BrotliLevel, Compression, Encoding, GzipLevel};
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use serde_json::{Value, json};

use crate::program::{Flow, text};

/// 2024-01-05T10:00:00Z in seconds.
const TEN: i64 = 1_704_448_800;

fn batch(columns: Vec<(&str, ArrayRef)>) -> RecordBatch {
    RecordBatch::try_from_iter_with_nullable(columns.into_iter().map(|(name, array)| (name, array, true)))
        .unwrap()
}

fn write(file: &Path, batch: &RecordBatch, properties: WriterProperties) {
    let mut writer =
        ArrowWriter::try_new(File::create(file).unwrap(), batch.schema(), Some(properties)).unwrap();
    writer.write(batch).unwrap();
    writer.close().unwrap();
}

/// The batch as a Parquet file, an Arrow file and an Arrow stream.
fn each_form(dir: &Path, batch: &RecordBatch, mut check: impl FnMut(&Path)) {
    let file = dir.join("rows");
    write(&file, batch, WriterProperties::default());
    check(&file);
    let schema: &Schema = &batch.schema();
    let mut writer = FileWriter::try_new(File::create(&file).unwrap(), schema).unwrap();
    writer.write(batch).and_then(|()| writer.finish()).unwrap();
    check(&file);
    let mut writer = StreamWriter::try_new(File::create(&file).unwrap(), schema).unwrap();
    writer.write(batch).and_then(|()| writer.finish()).unwrap();
    check(&file);
}

/// The metadata of each row, and the notes on the file.
fn read(file: &Path) -> (Vec<Value>, Vec<Note>) {
    let mut documents = Input::new().open(file).unwrap();
    let rows: Result<Vec<Document>, _> = documents.by_ref().collect();
    let rows = rows.unwrap().into_iter().map(|document| document.metadata.unwrap_or_default());
    (rows.collect(), documents.notes())
}

fn ids(count: usize) -> [(&'static str, ArrayRef); 2] {
    let ids = StringArray::from_iter_values((0..count).map(|id| format!("r{id}")));
    let text = StringArray::from_iter_values((0..count).map(|id| format!("apples {id}")));
    [("id", Arc::new(ids)), ("text", Arc::new(text))]
}

/// apache/arrow#37110: times with and without fractions of a second are ordered chronologically.
#[test]
fn times_are_in_the_order_of_the_clock() {
    let micros = |fraction: i64| Some(TEN * 1_000_000 + fraction);
    let times = vec![micros(0), micros(500_000), micros(1), None];
    let utc = TimestampMicrosecondArray::from(times.clone()).with_timezone("UTC");
    let nanos = TimestampNanosecondArray::from_iter(times.iter().map(|time| time.map(|time| time * 1_000)));
    let of_day =
        Time64MicrosecondArray::from_iter(times.iter().map(|time| time.map(|time| time % 86_400_000_000)));
    let mut columns = ids(4).to_vec();
    columns.push(("at", Arc::new(utc)));
    columns.push(("local", Arc::new(nanos)));
    columns.push(("of_day", Arc::new(of_day)));
    let flow = Flow::new();
    each_form(flow.path("").as_path(), &batch(columns), |file| {
        let (rows, _) = read(file);
        assert_eq!(rows[1]["at"], "2024-01-05T10:00:00.500000Z");
        assert_eq!(rows[2]["local"], "2024-01-05T10:00:00.000001000");
        assert_eq!(rows[0]["of_day"], "10:00:00.000000");
        assert_eq!(rows[3], json!({ "at": null, "local": null, "of_day": null }));
        flow.run("insert", &[text(file)]).ok();
        for (filter, expected) in [
            (r#"{"at": {"$gt": "2024-01-05T10:00:00Z"}}"#, "r1\nr2\n"),
            (r#"{"at": {"$gte": "2024-01-05T10:00:00Z"}}"#, "r0\nr1\nr2\n"),
            (r#"{"at": "2024-01-05T10:00:00Z"}"#, "r0\n"),
            (r#"{"at": {"$in": ["2024-01-05T10:00:00.5Z", "x"]}}"#, "r1\n"),
            (r#"{"at": {"$lt": "2024-01-05T10:00:00.4Z"}}"#, "r0\nr2\n"),
            (r#"{"local": {"$gt": "2024-01-05T10:00:00"}}"#, "r1\nr2\n"),
        ] {
            assert_eq!(flow.run("ids", &["--filter", filter]).ok(), expected, "{filter}");
        }
    });
}

/// chroma-core/chroma#7751, apache/orc#1866: decimals compare as numbers if a number can represent all of
/// their digits; otherwise the whole column is text, with a note.
#[test]
fn decimals_are_numbers_or_all_of_them_text() {
    let decimals = |values: Vec<Option<i128>>, digits, scale| -> ArrayRef {
        Arc::new(Decimal128Array::from(values).with_precision_and_scale(digits, scale).unwrap())
    };
    let mut columns = ids(4).to_vec();
    columns.push(("price", decimals(vec![Some(999), Some(1_000), Some(10_050), None], 10, 2)));
    // As databases write whole numbers.
    columns.push(("count", decimals(vec![Some(1), Some(i128::from(i64::MAX)), None, Some(-7)], 38, 0)));
    columns.push(("exact", decimals(vec![Some(5), Some(1_129_999_999_999_999), None, Some(0)], 38, 15)));
    columns.push(("wide", decimals(vec![Some(15), Some(12_345_678_901_234_567_891), None, Some(10)], 38, 1)));
    let flow = Flow::new();
    each_form(flow.path("").as_path(), &batch(columns), |file| {
        let (rows, notes) = read(file);
        assert_eq!(rows[0], json!({ "price": 9.99, "count": 1, "exact": 5e-15, "wide": "1.5" }));
        assert_eq!(
            rows[1],
            json!({
                "price": 10, "count": i64::MAX, "exact": 1.129999999999999,
                "wide": "1234567890123456789.1"
            })
        );
        assert_eq!(rows[3], json!({ "price": null, "count": -7, "exact": 0, "wide": "1.0" }));
        assert_eq!((notes.len(), notes[0].text_column.as_deref()), (1, Some("wide")));
        assert!(notes[0].to_string().ends_with("the first in row 2"), "{}", notes[0]);
        let ran = flow.run("insert", &[text(file)]);
        assert!(
            ran.err.contains("the decimals of the column `wide` are text: 1 of them has more digits"),
            "{}",
            ran.err
        );
        let found = flow.run("ids", &["--filter", r#"{"price": {"$gt": 9.995, "$lt": 100.6}}"#]).ok();
        assert_eq!(found, "r1\nr2\n");
    });
    // An id, a title or a text keeps the zeros of a decimal.
    let mut columns = ids(2).to_vec();
    columns[0].1 = decimals(vec![Some(100), Some(250)], 5, 2);
    let file = flow.path("ids");
    write(&file, &batch(columns), WriterProperties::default());
    let ids: Vec<String> = Input::new().open(&file).unwrap().map(|document| document.unwrap().id).collect();
    assert_eq!(ids, ["1.00", "2.50"]);
}

/// apache/arrow#37110's sibling for numbers: JSON has no infinity, so infinite values are left out, counted,
/// and named.
#[test]
fn infinity_is_named_where_it_is_left_out() {
    let numbers = vec![Some(1.5), Some(f64::NAN), Some(f64::INFINITY), Some(f64::NEG_INFINITY)];
    let mut columns = ids(4).to_vec();
    columns.push(("score", Arc::new(Float64Array::from(numbers))));
    let flow = Flow::new();
    each_form(flow.path("").as_path(), &batch(columns), |file| {
        let (rows, notes) = read(file);
        assert_eq!(rows[2], json!({ "score": null }));
        assert!(notes[0].to_string().contains("column `score`, the first in row 3"), "{}", notes[0]);
        assert_eq!(notes[0].left_out, 2);
        let ran = flow.run("insert", &[text(file)]);
        assert!(ran.err.contains("2 infinite values are left out of the column `score`"), "{}", ran.err);
        assert!(ran.out.contains("; not read: 2 values; "), "{}", ran.out);
        assert_eq!(flow.run("insert", &["--json", text(file)]).json()["not_read"]["values"], 2);
    });
}

/// Properties of a small file of large texts.
fn packed(codec: Compression) -> WriterProperties {
    WriterProperties::builder()
        .set_compression(codec)
        .set_dictionary_page_size_limit(256 << 20)
        .set_statistics_enabled(EnabledStatistics::None)
        .build()
}

/// apache/arrow-rs#7243: many rows of one long text, stored once in the file.
#[test]
fn many_rows_of_one_long_text_are_read() {
    let (rows, bytes) = (256, 10 << 20);
    let text = StringArray::from_iter_values(["apple ".repeat(bytes / 6)]);
    let text = DictionaryArray::new(Int32Array::from(vec![0; rows]), Arc::new(text));
    let mut columns = ids(rows).to_vec();
    columns[1].1 = Arc::new(text);
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("rows.parquet");
    write(&file, &batch(columns), packed(Compression::BROTLI(BrotliLevel::default())));
    assert!(fs::metadata(&file).unwrap().len() < 10_000);
    let read = Input::new().open(&file).unwrap();
    assert_eq!(read.map(|document| document.unwrap().text.len()).sum::<usize>(), rows * (bytes / 6 * 6));
}

/// apache/arrow-rs#7973: individually large rows, in every codec, and delta-encoded.
#[test]
fn large_rows_are_read_a_few_at_a_time() {
    let rows = 24;
    let long = |row: usize| format!("{row}{}", "x".repeat(if row % 8 == 7 { 20 << 20 } else { 10 }));
    let mut columns = ids(rows).to_vec();
    columns[1].1 = Arc::new(StringArray::from_iter_values((0..rows).map(long)));
    columns.push(("n", Arc::new(Int32Array::from_iter_values(0..rows as i32))));
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("rows.parquet");
    let plain = |codec| WriterProperties::builder().set_compression(codec).set_dictionary_enabled(false);
    for properties in [
        plain(Compression::SNAPPY),
        plain(Compression::GZIP(GzipLevel::default())),
        plain(Compression::LZ4_RAW),
        plain(Compression::SNAPPY).set_encoding(Encoding::DELTA_BYTE_ARRAY),
        plain(Compression::SNAPPY).set_encoding(Encoding::DELTA_LENGTH_BYTE_ARRAY),
    ] {
        let properties = properties.set_column_encoding("n".into(), Encoding::PLAIN).build();
        write(&file, &batch(columns.clone()), properties);
        for (row, document) in Input::new().open(&file).unwrap().enumerate() {
            let document = document.unwrap();
            assert!(document.text == long(row) && document.metadata == Some(json!({ "n": row })), "{row}");
        }
    }
}

/// A list that repeats one long text is refused before it takes the memory of all repetitions.
#[test]
fn a_row_that_unpacks_to_too_much_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("rows.parquet");
    let long = "x".repeat(10 << 20);
    let mut list = ListBuilder::new(StringDictionaryBuilder::<Int32Type>::new());
    for _ in 0..30 {
        list.values().append_value(&long);
    }
    list.append(true);
    let list = list.finish();
    let mut columns = ids(1).to_vec();
    columns.push(("tags", Arc::new(list)));
    write(&file, &batch(columns), packed(Compression::BROTLI(BrotliLevel::default())));
    let error = Input::new().open(&file).unwrap().next().unwrap().unwrap_err().to_string();
    assert!(error.contains("the column `tags` is too large: more than 268435456 bytes in a row"), "{error}");
}
