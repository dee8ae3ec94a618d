//! Readers against files with one thing wrong at a time.

use std::fs;
use std::io::{Cursor, Write};
use std::path::Path;

use flate2::Compression;
use flate2::write::GzEncoder;
use proptest::prelude::*;
use serde_json::json;

use super::lines::Lines;
use super::*;
use crate::document::Document;

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn documents(bytes: impl Into<Vec<u8>>) -> Vec<Result<Document, DataError>> {
    read_documents(Cursor::new(bytes.into()), "in").collect()
}

fn good_documents(bytes: impl Into<Vec<u8>>) -> Vec<Document> {
    documents(bytes).into_iter().map(Result::unwrap).collect()
}

fn document_error(bytes: impl Into<Vec<u8>>) -> DataError {
    let mut all = documents(bytes);
    assert_eq!(all.len(), 1, "{all:?}");
    all.remove(0).unwrap_err()
}

fn write(dir: &Path, name: &str, bytes: impl AsRef<[u8]>) {
    let path = dir.join(name);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, bytes).unwrap();
}

#[test]
fn only_line_feeds_split_lines() {
    let text = "a\u{2028}b\u{2029}c\u{85}d\u{0b}e\u{0c}f";
    let raw = "{\"_id\":\"1\",\"text\":\"a\u{2028}b\u{2029}c\u{85}d\\u000be\\u000cf\"}\r\n\
               \n   \r\n\t\n{\"_id\":\"2\",\"title\":null,\"text\":\"x\\r\\ny\"}";
    let got = good_documents(raw);
    assert_eq!(got, [Document::new("1", "", text), Document::new("2", "", "x\r\ny")]);
}

#[test]
fn metadata_is_kept_unless_it_says_nothing() {
    let got = good_documents(
        r#"{"_id":"1","title":"T","text":"","metadata":{"year":2020,"a":[1,null]},"other":7}
{"_id":"2","text":"t","metadata":{}}
{"_id":"3","text":"t","metadata":null}
{"_id":"4","text":"t"}
"#,
    );
    let expected =
        Document::new("1", "T", "").with_metadata(json!({"year": 2020, "a": [1, null], "other": 7}));
    assert_eq!(got[0], expected);
    assert_eq!(got[1].metadata, Some(json!({})));
    assert!(got[2..].iter().all(|document| document.metadata.is_none()));
}

#[test]
fn byte_order_mark_and_empty_input() {
    let got = good_documents("\u{feff}{\"_id\":\"1\",\"text\":\"t\"}\n");
    assert_eq!(got, [Document::new("1", "", "t")]);
    for nothing in ["", "\n", "\r\n\n  \n"] {
        assert!(documents(nothing).is_empty());
    }
}

#[test]
fn gzip_is_recognised_by_its_bytes() {
    let raw = "{\"_id\":\"1\",\"text\":\"one\"}\n{\"_id\":\"2\",\"text\":\"two\"}\n";
    assert_eq!(good_documents(gzip(raw.as_bytes())), good_documents(raw));
    // Two gzip members in a row are one file, as with `cat a.gz b.gz`.
    let (first, second) = raw.as_bytes().split_at(30);
    let joined = [gzip(first), gzip(second)].concat();
    assert_eq!(good_documents(joined), good_documents(raw));
}

#[test]
fn a_bad_line_is_named_and_the_next_one_still_read() {
    let mut raw = b"{\"_id\":\"1\",\"text\":\"t\"}\n\n".to_vec();
    raw.extend(b"{\"_id\":\"2\",\"text\":\"\xff\"}\n");
    raw.extend(b"{\"_id\":\"3\",\"text\":\n");
    raw.extend(b"{\"_id\":\"4\",\"text\":\"t\"}\n");
    let got = documents(raw);
    assert_eq!(got.len(), 4);
    assert_eq!(got[0].as_ref().unwrap().id, "1");
    let expected_name = "in";
    match &got[1] {
        Err(DataError::InvalidUtf8 { name, line: 3, valid_up_to: 19 }) if name == expected_name => {}
        other => panic!("{other:?}"),
    }
    match &got[2] {
        Err(DataError::Json { name, line: 4, .. }) if name == expected_name => {}
        other => panic!("{other:?}"),
    }
    assert_eq!(got[3].as_ref().unwrap().id, "4");
    assert!(got[1].as_ref().unwrap_err().to_string().starts_with("in:3:"));
}

#[test]
fn records_of_the_wrong_form_are_typed_errors() {
    for (raw, missing) in
        [(r#"{"text":"t"}"#, "_id"), (r#"{"_id":null,"text":"t"}"#, "_id"), (r#"{"_id":"1"}"#, "text")]
    {
        let error = document_error(raw);
        assert!(
            matches!(&error, DataError::NoField { line: 1, wanted, .. } if wanted == missing),
            "{raw}: {error}"
        );
    }
    let error = document_error(r#"{"_id":"","text":"t"}"#);
    assert!(matches!(&error, DataError::NoId { line: 1, field, .. } if field == "_id"), "{error}");
    for raw in [r#"{"_id":7.5,"text":"t"}"#, r#"{"_id":"1","text":["t"]}"#] {
        let error = document_error(raw);
        assert!(matches!(error, DataError::FieldKind { line: 1, .. }), "{raw}: {error}");
    }
    for raw in [r#"{"_id":"1","_id":"2","text":"t"}"#, r#"{"_id":"1","text":"t"} x"#, r#"[1]"#, "null"] {
        let error = document_error(raw);
        assert!(matches!(error, DataError::Json { line: 1, .. }), "{raw}: {error}");
    }
    let deep = format!(r#"{{"_id":"1","text":"t","metadata":{}"#, "[".repeat(100_000));
    assert!(matches!(document_error(deep), DataError::Json { .. }));
}

#[test]
fn queries_have_the_same_rules() {
    let raw = "{\"_id\":\"q\",\"text\":\"t\",\"metadata\":{\"x\":1}}\n{\"_id\":\"\",\"text\":\"\"}\n{}";
    let got: Vec<_> = read_queries(raw.as_bytes(), "in").collect();
    let expected = Query { id: "q".to_owned(), text: "t".to_owned() };
    assert_eq!(got[0].as_ref().unwrap(), &expected);
    assert!(matches!(got[1], Err(DataError::EmptyId { line: 2, .. })));
    assert!(matches!(got[2], Err(DataError::MissingField { line: 3, field: "_id", .. })));
    assert_eq!(got.len(), 3);
}

/// Reads all lines with a limit; texts with their numbers, and the error if there was one.
fn lines(bytes: Vec<u8>, limit: usize) -> (Vec<(u64, String)>, Option<DataError>) {
    let mut lines = Lines::with_limit(Cursor::new(bytes), "in", limit);
    let mut found = Vec::new();
    while let Some(line) = lines.next_line() {
        match line {
            Ok(line) => found.push((line.number, line.text.to_owned())),
            Err(error) => {
                assert!(lines.next_line().is_none(), "nothing may follow {error}");
                return (found, Some(error));
            }
        }
    }
    (found, None)
}

#[test]
fn lines_up_to_the_limit_are_read_and_longer_ones_refused() {
    for packed in [false, true] {
        let pack = |text: &str| match packed {
            true => gzip(text.as_bytes()),
            false => text.as_bytes().to_vec(),
        };
        let (found, error) = lines(pack("1234\n\n123\n1234"), 4);
        assert!(error.is_none(), "{error:?}");
        let numbers: Vec<u64> = found.iter().map(|(number, _)| *number).collect();
        assert_eq!(numbers, [1, 3, 4]);
        for long in ["1234\n12345\n1\n", "1234\n12345"] {
            let (found, error) = lines(pack(long), 4);
            assert_eq!(found.len(), 1);
            assert!(matches!(error, Some(DataError::LineTooLong { line: 2, limit: 4, .. })), "{error:?}");
        }
    }
}

#[test]
fn every_truncation_of_gzip_is_an_error_naming_the_file() {
    let raw: String = (0..40).map(|n| format!("line {n} {}\n", n * n * 7919)).collect();
    let packed = gzip(raw.as_bytes());
    for length in 2..packed.len() {
        let (found, error) = lines(packed[..length].to_vec(), 100);
        match &error {
            Some(DataError::TruncatedGzip { name, .. }) => assert_eq!(name, "in"),
            other => panic!("cut at {length} of {}: {other:?}", packed.len()),
        }
        for (number, text) in found {
            assert_eq!(Some(text.as_str()), raw.lines().nth(number as usize - 1));
        }
    }
    assert!(lines(packed, 100).1.is_none());
}

#[test]
fn damaged_gzip_is_an_error() {
    let mut checksum = gzip(b"some text\n");
    let at = checksum.len() - 8;
    checksum[at] ^= 1;
    let mut method = gzip(b"some text\n");
    method[2] = 0;
    let trailing = [gzip(b"some text\n"), b"not gzip at all".to_vec()].concat();
    for bytes in [checksum, method, trailing] {
        let (_, error) = lines(bytes, 100);
        assert!(matches!(error, Some(DataError::CorruptGzip { .. })), "{error:?}");
    }
}

/// A reader that gives one byte at a time, then fails.
struct Failing(Vec<u8>);

impl std::io::Read for Failing {
    fn read(&mut self, to: &mut [u8]) -> std::io::Result<usize> {
        if self.0.is_empty() {
            return Err(std::io::Error::other("unplugged"));
        }
        to[0] = self.0.remove(0);
        Ok(1)
    }
}

#[test]
fn a_failing_reader_ends_the_stream_with_its_error() {
    for start in ["", "{", "{\"_id\":\"1\",\"text\":\"t\"}\n{\"_id\""] {
        let complete = start.matches('\n').count();
        let mut stream = read_documents(Failing(start.as_bytes().to_vec()), "pipe");
        for _ in 0..complete {
            assert!(stream.next().unwrap().is_ok());
        }
        let error = stream.next().unwrap().unwrap_err();
        assert!(matches!(error, DataError::Read { .. }), "{error}");
        assert!(error.to_string().starts_with("pipe:"), "{error}");
        assert!(stream.next().is_none());
    }
}

fn qrels(text: &str) -> Result<Qrels, DataError> {
    Qrels::read(Cursor::new(text.to_owned().into_bytes()), "in")
}

#[test]
fn judgments_are_read_with_and_without_a_header() {
    let rows = "q2\td1\t0\r\nq1\td2\t2\nq1\td1\t-1\n\nq1\td1\t-1\n";
    let with = qrels(&format!("query-id\tcorpus-id\tscore\r\n{rows}")).unwrap();
    assert_eq!(with, qrels(rows).unwrap());
    assert_eq!(with, qrels(&format!("\n\nQuery-Id\tCorpus-Id\tScore\n{rows}")).unwrap());
    assert_eq!((with.len(), with.judgments(), with.is_empty()), (2, 3, false));
    let order: Vec<&str> = with.iter().map(|(query, _)| query).collect();
    assert_eq!(order, ["q1", "q2"]);
    let first = with.get("q1").unwrap();
    assert_eq!(first.get("d1"), Some(&-1));
    assert_eq!(first.get("d2"), Some(&2));
    assert!(with.contains("q2") && with.get("q3").is_none());
    assert!(qrels("query-id\tcorpus-id\tscore\n").unwrap().is_empty());
}

#[test]
fn judgments_of_the_wrong_form_are_typed_errors() {
    type Check = fn(&DataError) -> bool;
    let cases: [(&str, Check); 8] = [
        ("q\td\t1\nq\td\n", |e| matches!(e, DataError::Columns { line: 2, got: 2, .. })),
        ("q\t0\td\t1\n", |e| matches!(e, DataError::Columns { line: 1, got: 4, .. })),
        ("q d 1\n", |e| matches!(e, DataError::Columns { line: 1, got: 1, .. })),
        ("q\td\t1.5\n", |e| matches!(e, DataError::QrelsScore { line: 1, got, .. } if got == "1.5")),
        ("q\td\t1\nq\td\tscore\n", |e| matches!(e, DataError::QrelsScore { line: 2, .. })),
        ("q\td\t1\n\td\t1\n", |e| matches!(e, DataError::EmptyId { line: 2, field: "query-id", .. })),
        ("q\t\t1\n", |e| matches!(e, DataError::EmptyId { line: 1, field: "corpus-id", .. })),
        ("q\td\t1\nq\te\t1\nq\td\t2\n", |e| {
            matches!(e, DataError::ConflictingJudgment { line: 3, first: 1, second: 2, .. })
        }),
    ];
    for (text, check) in cases {
        let error = qrels(text).unwrap_err();
        assert!(check(&error), "{text:?}: {error}");
        assert!(error.to_string().starts_with("in:"), "{error}");
    }
}

#[test]
fn a_dataset_is_read_plain_and_packed() {
    let dir = tempfile::tempdir().unwrap();
    let corpus = "{\"_id\":\"d1\",\"title\":\"A\",\"text\":\"a\",\"metadata\":{\"y\":1},\"lang\":\"en\"}\n\
                  {\"_id\":\"d2\",\"text\":\"b\"}\n";
    // Packed under a plain name, plain under a packed name: the bytes decide.
    write(dir.path(), "corpus.jsonl", gzip(corpus.as_bytes()));
    write(dir.path(), "queries.jsonl.gz", "{\"_id\":\"q\",\"text\":\"t\"}\n");
    write(dir.path(), "qrels/train.tsv", "query-id\tcorpus-id\tscore\nq\td1\t1\n");
    write(dir.path(), "qrels/test.tsv.gz", gzip(b"q\td1\t1\nq\td2\t3\n"));
    write(dir.path(), "qrels/test.tsv", "q\td1\t1\n");
    write(dir.path(), "qrels/README.md", "not a split");
    write(dir.path(), "qrels/.tsv", "not a split");
    write(dir.path(), "secret.tsv", "q\td1\t1\n");

    let dataset = BeirDataset::open(dir.path()).unwrap();
    let documents: Vec<Document> = dataset.corpus().unwrap().map(Result::unwrap).collect();
    let first = Document::new("d1", "A", "a").with_metadata(json!({"y": 1, "lang": "en"}));
    assert_eq!(documents, [first, Document::new("d2", "", "b")]);
    // As the file is read by itself.
    let by_file: Vec<Document> =
        Input::new().open(dir.path().join("corpus.jsonl")).unwrap().map(Result::unwrap).collect();
    assert_eq!(documents, by_file);
    assert_eq!(dataset.queries().unwrap().count(), 1);
    assert_eq!(dataset.splits().unwrap(), ["test", "train"]);
    assert_eq!(dataset.qrels("test").unwrap().judgments(), 1, "the plain file comes first");
    assert_eq!(dataset.qrels("train").unwrap().len(), 1);
    for unknown in ["dev", "", "../secret", "README.md"] {
        match dataset.qrels(unknown).unwrap_err() {
            DataError::UnknownSplit { split, known, .. } => {
                assert_eq!((split.as_str(), known.len()), (unknown, 2));
            }
            other => panic!("{other}"),
        }
    }
}

#[test]
fn missing_files_are_named() {
    let dir = tempfile::tempdir().unwrap();
    let dataset = BeirDataset::open(dir.path()).unwrap();
    let error = dataset.corpus().err().unwrap();
    assert!(matches!(&error, DataError::MissingFile { path } if path.ends_with("corpus.jsonl")));
    let error = dataset.queries().err().unwrap();
    assert!(matches!(&error, DataError::MissingFile { path } if path.ends_with("queries.jsonl")));
    assert!(dataset.splits().unwrap().is_empty());
    assert!(matches!(dataset.qrels("test"), Err(DataError::UnknownSplit { .. })));

    write(dir.path(), "file", "");
    for path in ["file", "absent"] {
        let error = BeirDataset::open(dir.path().join(path)).unwrap_err();
        assert!(matches!(error, DataError::NotADirectory { .. }), "{error}");
    }
    fs::create_dir(dir.path().join("corpus.jsonl")).unwrap();
    let failed = match dataset.corpus() {
        Ok(mut documents) => documents.next().unwrap().unwrap_err(),
        Err(error) => error,
    };
    assert!(matches!(failed, DataError::Read { .. } | DataError::Open { .. }), "{failed}");
}

#[test]
fn iterators_can_cross_threads() {
    fn assert_send<T: Send>() {}
    assert_send::<Documents>();
    assert_send::<Queries>();
    assert_send::<DataError>();
}

proptest! {
    #[test]
    fn documents_survive_the_round_trip(
        texts in prop::collection::vec((any::<String>(), any::<String>()), 0..8),
        packed in any::<bool>(),
        ending in prop::sample::select(vec!["\n", "\r\n", "\n\n"]),
    ) {
        let expected: Vec<Document> = texts
            .iter()
            .enumerate()
            .map(|(n, (title, text))| Document::new(format!("{n}"), title, text))
            .collect();
        let raw: String = expected
            .iter()
            .map(|d| json!({"_id": d.id, "title": d.title, "text": d.text}).to_string() + ending)
            .collect();
        let bytes = if packed { gzip(raw.as_bytes()) } else { raw.into_bytes() };
        prop_assert_eq!(good_documents(bytes), expected);
    }

    #[test]
    fn any_bytes_end_without_a_panic(
        bytes in prop::collection::vec(any::<u8>(), 0..300),
        packed in any::<bool>(),
    ) {
        let head: &[u8] = if packed { &[0x1f, 0x8b, 8, 0] } else { &[] };
        let bytes = [head, &bytes].concat();
        let most = bytes.iter().filter(|byte| **byte == b'\n').count() + 2;
        if !packed {
            prop_assert!(documents(bytes.clone()).len() <= most);
        }
        let _ = Qrels::read(Cursor::new(bytes), "in");
    }
}
