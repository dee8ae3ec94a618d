//! Random Parquet.

use std::fs::File;
use std::sync::Arc;

use arrow_array::builder::{Int64Builder, ListBuilder, StringBuilder, StringDictionaryBuilder};
use arrow_array::types::Int32Type;
use arrow_array::{
    Array, ArrayRef, BooleanArray, Decimal128Array, Float64Array, RecordBatch, StringArray, StructArray,
};
use arrow_schema::Field;
use ehi::Document;
use ehi::data::Input;
use parquet::arrow::ArrowWriter;
use parquet::basic::{BrotliLevel, Compression, Encoding, GzipLevel};
use parquet::file::properties::{WriterProperties, WriterVersion};
use rand::seq::SliceRandom;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::{Source, missing, sources};

#[test]
fn every_word_of_parquet_is_in_its_documents() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("rows.parquet");
    for seed in 0..sources() {
        let mut source = Source::new(ChaCha8Rng::seed_from_u64(seed));
        let infinite = write(&mut source, &file);
        let mut read = Input::new().open(&file).unwrap();
        let documents: Result<Vec<Document>, _> = read.by_ref().collect();
        let documents = documents.unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        let gone = missing(source.seen.iter().map(String::as_str), &documents);
        assert!(gone.is_empty(), "seed {seed}: {gone:?} of {documents:#?}");
        let left_out: u64 = read.notes().iter().map(|note| note.left_out).sum();
        assert_eq!(left_out, infinite, "seed {seed}: {:?}", read.notes());
    }
}

/// Writes a file; returns how many of its values are infinite.
fn write(source: &mut Source<ChaCha8Rng>, file: &std::path::Path) -> u64 {
    let rows = source.random.random_range(1..40);
    let ids = StringArray::from_iter_values((0..rows).map(|_| source.unseen()));
    let texts = StringArray::from_iter_values((0..rows).map(|_| source.words(8)));
    let mut columns: Vec<(String, ArrayRef)> =
        vec![("id".to_owned(), Arc::new(ids)), ("text".to_owned(), Arc::new(texts))];
    let mut infinite = 0;
    for _ in 0..source.random.random_range(0..6) {
        let name = source.word();
        let (column, without_end) = column(source, rows);
        columns.push((name, column));
        infinite += without_end;
    }
    columns.shuffle(&mut source.random);
    let fields = columns.into_iter().map(|(name, column)| (name, column, true));
    let batch = RecordBatch::try_from_iter_with_nullable(fields).unwrap();
    let codec = match source.random.random_range(0..6) {
        0 => Compression::SNAPPY,
        1 => Compression::GZIP(GzipLevel::default()),
        2 => Compression::BROTLI(BrotliLevel::try_new(1).unwrap()),
        3 => Compression::LZ4_RAW,
        _ => Compression::UNCOMPRESSED,
    };
    let version = source.one_of(&[WriterVersion::PARQUET_1_0, WriterVersion::PARQUET_2_0]);
    let encoding =
        source.one_of(&[Encoding::PLAIN, Encoding::DELTA_BYTE_ARRAY, Encoding::DELTA_LENGTH_BYTE_ARRAY]);
    let properties = WriterProperties::builder()
        .set_compression(codec)
        .set_writer_version(version)
        .set_dictionary_enabled(source.random.random())
        .set_column_encoding("text".into(), encoding)
        .set_max_row_group_row_count(Some(source.one_of(&[3, 10, 1_000])))
        .set_data_page_row_count_limit(source.one_of(&[1, 4, 1_000]))
        .build();
    let mut writer =
        ArrowWriter::try_new(File::create(file).unwrap(), batch.schema(), Some(properties)).unwrap();
    writer.write(&batch).unwrap();
    writer.close().unwrap();
    infinite
}

/// A column of some type, and how many of its values are infinite.
fn column<R: Rng>(source: &mut Source<R>, rows: usize) -> (ArrayRef, u64) {
    let is_there: Vec<bool> = (0..rows).map(|_| source.random.random_range(0..5) > 0).collect();
    let number = |source: &mut Source<R>| {
        source.count += 1;
        let number = source.count as i64 + 1_000_000;
        source.seen.push(number.to_string());
        number
    };
    let mut infinite = 0;
    let column: ArrayRef = match source.random.random_range(0..8) {
        0 => Arc::new(StringArray::from_iter(is_there.iter().map(|is| is.then(|| source.words(3))))),
        1 => {
            let mut texts = StringDictionaryBuilder::<Int32Type>::new();
            let known: Vec<String> = (0..3).map(|_| source.unseen()).collect();
            for _ in 0..rows {
                let text = &known[source.random.random_range(0..3)];
                source.seen.push(text.clone());
                texts.append_value(text);
            }
            Arc::new(texts.finish())
        }
        2 => {
            let mut lists = ListBuilder::new(StringBuilder::new());
            for is in &is_there {
                for _ in 0..source.random.random_range(0..4) {
                    let text = is.then(|| source.words(2));
                    lists.values().append_option(text);
                }
                lists.append(true);
            }
            Arc::new(lists.finish())
        }
        3 => {
            let texts: ArrayRef = Arc::new(StringArray::from_iter_values((0..rows).map(|_| source.word())));
            let mut numbers = Int64Builder::new();
            is_there.iter().for_each(|is| numbers.append_option(is.then(|| number(source))));
            let numbers: ArrayRef = Arc::new(numbers.finish());
            let field =
                |name: String, of: &ArrayRef| Arc::new(Field::new(name, of.data_type().clone(), true));
            let fields = [(field(source.word(), &texts), texts), (field(source.word(), &numbers), numbers)];
            Arc::new(StructArray::from(fields.to_vec()))
        }
        4 => {
            let mut numbers = Int64Builder::new();
            is_there.iter().for_each(|is| numbers.append_option(is.then(|| number(source))));
            Arc::new(numbers.finish())
        }
        5 => Arc::new(Float64Array::from_iter(is_there.iter().map(|is| {
            let value = match source.random.random_range(0..6) {
                0 => f64::INFINITY,
                1 => f64::NEG_INFINITY,
                2 => f64::NAN,
                _ => return is.then(|| number(source) as f64 + 0.5),
            };
            infinite += u64::from(*is && value.is_infinite());
            is.then_some(value)
        }))),
        6 => {
            let digits = source.one_of(&[15, 38]);
            let values = is_there.iter().map(|is| is.then(|| i128::from(number(source)) * 100 + 25));
            let values: Vec<Option<i128>> = values.collect();
            Arc::new(Decimal128Array::from(values).with_precision_and_scale(digits, 2).unwrap())
        }
        _ => Arc::new(BooleanArray::from_iter(is_there.iter().map(|is| is.then_some(true)))),
    };
    (column, infinite)
}
