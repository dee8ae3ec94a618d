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

fn assert_error(error: &DataError, kind: DataErrorKind, line: u64, says: &str) {
    assert_eq!((error.kind(), error.line()), (kind, Some(line)), "{error}");
    assert!(error.to_string().contains(says), "{error}");
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
    let error = got[1].as_ref().unwrap_err();
    assert_error(error, DataErrorKind::Encoding, 3, "not UTF-8 from byte 19 of the line");
    assert_error(got[2].as_ref().unwrap_err(), DataErrorKind::Json, 4, "");
    assert_eq!(got[3].as_ref().unwrap().id, "4");
    assert_eq!((error.name(), error.to_string().starts_with("in:3:")), ("in", true));
}

#[test]
fn records_of_the_wrong_form_are_typed_errors() {
    for (raw, missing) in
        [(r#"{"text":"t"}"#, "_id"), (r#"{"_id":null,"text":"t"}"#, "_id"), (r#"{"_id":"1"}"#, "text")]
    {
        let says = format!("the field `{missing}` is missing or null");
        assert_error(&document_error(raw), DataErrorKind::Field, 1, &says);
    }
    let error = document_error(r#"{"_id":"","text":"t"}"#);
    assert_error(&error, DataErrorKind::Field, 1, "the field `_id` is empty");
    for raw in [r#"{"_id":7.5,"text":"t"}"#, r#"{"_id":"1","text":["t"]}"#] {
        assert_error(&document_error(raw), DataErrorKind::Field, 1, "expected a string or ");
    }
    for raw in [r#"{"_id":"1","_id":"2","text":"t"}"#, r#"{"_id":"1","text":"t"} x"#, r#"[1]"#, "null"] {
        assert_error(&document_error(raw), DataErrorKind::Json, 1, "");
    }
    let deep = format!(r#"{{"_id":"1","text":"t","metadata":{}"#, "[".repeat(100_000));
    assert_error(&document_error(deep), DataErrorKind::Json, 1, "");
}

#[test]
fn queries_have_the_same_rules() {
    let raw = "{\"_id\":\"q\",\"text\":\"t\",\"metadata\":{\"x\":1}}\n{\"_id\":\"\",\"text\":\"\"}\n{}";
    let got: Vec<_> = read_queries(raw.as_bytes(), "in").collect();
    let expected = DatasetQuery { id: "q".to_owned(), text: "t".to_owned() };
    assert_eq!(got[0].as_ref().unwrap(), &expected);
    assert_error(got[1].as_ref().unwrap_err(), DataErrorKind::Field, 2, "`_id` is empty");
    assert_error(got[2].as_ref().unwrap_err(), DataErrorKind::Field, 3, "`_id` is missing");
    assert_eq!(got.len(), 3);
}

/// Reads all lines with a limit; texts with their numbers, and the error if there was one.
fn lines(bytes: Vec<u8>, limit: usize) -> (Vec<(u64, String)>, Option<DataError>) {
    let mut lines = Lines::new(Cursor::new(bytes), "in");
    lines.limit = limit;
    let mut found = Vec::new();
    while let Some(line) = lines.next_line() {
        match line {
            Ok(line) => found.push((line.at.line, line.text.to_owned())),
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
            assert_error(&error.unwrap(), DataErrorKind::TooLarge, 2, "longer than 4 bytes");
        }
    }
}

#[test]
fn every_truncation_of_gzip_is_an_error_naming_the_file() {
    let raw: String = (0..40).map(|n| format!("line {n} {}\n", n * n * 7919)).collect();
    let packed = gzip(raw.as_bytes());
    for length in 2..packed.len() {
        let (found, error) = lines(packed[..length].to_vec(), 100);
        let error = error.unwrap_or_else(|| panic!("cut at {length} of {}", packed.len()));
        assert_eq!((error.kind(), error.name()), (DataErrorKind::CutOff, "in"), "{length}: {error}");
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
        assert_eq!(error.map(|error| error.kind()), Some(DataErrorKind::Damaged));
    }
}

/// A reader that returns one byte at a time, then fails.
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
        assert_eq!(error.kind(), DataErrorKind::Read, "{error}");
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
    assert_eq!((with.len(), with.is_empty()), (2, false));
    let order: Vec<&str> = with.iter().map(|(query, _)| query).collect();
    assert_eq!(order, ["q1", "q2"]);
    let first = with.get("q1").unwrap();
    assert_eq!(first.get("d1"), Some(&-1));
    assert_eq!(first.get("d2"), Some(&2));
    assert!(with.get("q2").is_some() && with.get("q3").is_none());
    assert!(qrels("query-id\tcorpus-id\tscore\n").unwrap().is_empty());
}

#[test]
fn judgments_of_the_wrong_form_are_typed_errors() {
    use DataErrorKind::{Conflict, Field, Row};
    let cases = [
        ("q\td\t1\nq\td\n", Row, 2, "2 columns instead of query-id, corpus-id, score"),
        ("q\t0\td\t1\n", Row, 1, "4 columns"),
        ("q d 1\n", Row, 1, "1 columns"),
        ("q\td\t1.5\n", Field, 1, "`1.5`"),
        ("q\td\t1\nq\td\tscore\n", Field, 2, "`score`"),
        ("q\td\t1\n\td\t1\n", Field, 2, "`query-id` is empty"),
        ("q\t\t1\n", Field, 1, "`corpus-id` is empty"),
        ("q\td\t1\nq\te\t1\nq\td\t2\n", Conflict, 3, "have score 1 above and 2 here"),
    ];
    for (text, kind, line, says) in cases {
        let error = qrels(text).unwrap_err();
        assert_error(&error, kind, line, says);
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

    let dataset = Dataset::open(dir.path()).unwrap();
    let documents: Vec<Document> = dataset.corpus().unwrap().map(Result::unwrap).collect();
    let first = Document::new("d1", "A", "a").with_metadata(json!({"y": 1, "lang": "en"}));
    assert_eq!(documents, [first, Document::new("d2", "", "b")]);
    // As when the file is read directly.
    let by_file: Vec<Document> =
        Input::new().open(dir.path().join("corpus.jsonl")).unwrap().map(Result::unwrap).collect();
    assert_eq!(documents, by_file);
    assert_eq!(dataset.queries().unwrap().count(), 1);
    assert_eq!(dataset.splits().unwrap(), ["test", "train"]);
    assert_eq!(dataset.qrels("test").unwrap().len(), 1, "the plain file comes first");
    assert_eq!(dataset.qrels("train").unwrap().len(), 1);
    for unknown in ["dev", "", "../secret", "README.md"] {
        let error = dataset.qrels(unknown).unwrap_err();
        assert_eq!(error.kind(), DataErrorKind::Missing);
        assert!(error.to_string().ends_with(&format!("no split `{unknown}`; found: test, train")), "{error}");
    }
}

#[test]
fn missing_files_are_named() {
    let dir = tempfile::tempdir().unwrap();
    let dataset = Dataset::open(dir.path()).unwrap();
    let error = dataset.corpus().err().unwrap();
    assert!(error.kind() == DataErrorKind::Missing && error.name().ends_with("corpus.jsonl"), "{error}");
    let error = dataset.queries().err().unwrap();
    assert!(error.kind() == DataErrorKind::Missing && error.name().ends_with("queries.jsonl"), "{error}");
    assert!(dataset.splits().unwrap().is_empty());
    assert_eq!(dataset.qrels("test").unwrap_err().kind(), DataErrorKind::Missing);

    write(dir.path(), "file", "");
    for path in ["file", "absent"] {
        let error = Dataset::open(dir.path().join(path)).unwrap_err();
        assert!(error.to_string().contains("not a directory"), "{error}");
    }
    fs::create_dir(dir.path().join("corpus.jsonl")).unwrap();
    let failed = match dataset.corpus() {
        Ok(mut documents) => documents.next().unwrap().unwrap_err(),
        Err(error) => error,
    };
    assert!(matches!(failed.kind(), DataErrorKind::Read | DataErrorKind::Open), "{failed}");
}

#[test]
fn iterators_can_cross_threads() {
    fn assert_send<T: Send>() {}
    assert_send::<Documents>();
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
