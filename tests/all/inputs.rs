//! Files as found in practice, well-formed and malformed, each with the resulting documents or error.

use std::fs;
use std::io::{Cursor, Read, Write};

use std::process::Stdio;

use crate::program::{Flow, Ran, command, text};
use ehi::Document;
use ehi::data::{DataError, DataErrorKind, Format, Input};
use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::{Value, json};

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn zstd(bytes: &[u8]) -> Vec<u8> {
    ruzstd::encoding::compress_to_vec(bytes, ruzstd::encoding::CompressionLevel::Fastest)
}

fn read(input: &Input, bytes: impl Into<Vec<u8>>) -> Result<Vec<Document>, DataError> {
    input.read(Cursor::new(bytes.into()), "in")?.collect()
}

/// Id, title, text and metadata, with null for none.
fn document((id, title, text, metadata): (&str, &str, &str, Value)) -> Document {
    let document = Document::new(id, title, text);
    if metadata.is_null() { document } else { document.with_metadata(metadata) }
}

fn named() -> Input {
    Input::new().id("key").title("head").text(["body", "more"])
}

type Good = (Input, &'static str, Vec<(&'static str, &'static str, &'static str, Value)>);

fn well_formed() -> Vec<Good> {
    let plain = Input::new;
    let ab = || vec![("a", "", "x", Value::Null), ("b", "", "y", Value::Null)];
    vec![
        // BEIR's lines, and those of an export: `metadata` alone may be any value. No other key is lost.
        (
            plain(),
            "{\"_id\":\"a\",\"title\":\"T\",\"text\":\"x\",\"metadata\":{\"y\":[1]},\"other\":1}\n\n\
             {\"_id\":\"b\",\"title\":null,\"text\":\"\",\"metadata\":\"m\"}\n{\"_id\":\"c\",\"text\":\"z\",\"metadata\":{}}",
            vec![
                ("a", "T", "x", json!({"y": [1], "other": 1})),
                ("b", "", "", json!("m")),
                ("c", "", "z", json!({})),
            ],
        ),
        // Without `_id`: all other fields are metadata.
        (
            plain(),
            "{\"id\":7,\"text\":\"x\",\"year\":2020,\"none\":null}\n{\"id\":-7,\"text\":\"y\"}\n",
            vec![("7", "", "x", json!({"year": 2020, "none": null})), ("-7", "", "y", Value::Null)],
        ),
        (
            plain(),
            "{\"_id\":18446744073709551615,\"text\":1.5}",
            vec![("18446744073709551615", "", "1.5", Value::Null)],
        ),
        (plain(), "\u{feff}{\"id\":\"a\",\"text\":\"x\"}\r\n{\"id\":\"b\",\"text\":\"y\"}\r\n", ab()),
        // Custom names, several text fields, and the members of `metadata`.
        (
            named(),
            "{\"key\":1,\"head\":\"T\",\"body\":\"x\",\"more\":\"y\",\"metadata\":{\"a\":1},\"b\":2}\n\
             {\"key\":2,\"more\":\"y\"}\n{\"key\":3,\"body\":\"\",\"more\":\"y\"}",
            vec![
                ("1", "T", "x\n\ny", json!({"a": 1, "b": 2})),
                ("2", "", "y", Value::Null),
                ("3", "", "y", Value::Null),
            ],
        ),
        (
            named().metadata(["b", "absent"]),
            "{\"key\":1,\"body\":\"x\",\"a\":1,\"b\":{\"c\":[true]}}",
            vec![("1", "", "x", json!({"b": {"c": [true]}}))],
        ),
        (named().metadata([""; 0]), "{\"key\":1,\"body\":\"x\",\"a\":1}", vec![("1", "", "x", Value::Null)]),
        // Arrays of objects.
        (plain(), "[]", vec![]),
        (plain(), " [ ] \n", vec![]),
        (plain(), "[{\"id\":\"a\",\"text\":\"x\"},{\"id\":\"b\",\"text\":\"y\"}]", ab()),
        (
            plain(),
            "\u{feff}[\n  {\n    \"id\": \"a\",\n    \"text\": \"]}\\\"{[\",\n    \"n\": [{}]\n  }\n  ,\n  {\"id\": \"b\", \"text\": \"y\"}\n]\n",
            vec![("a", "", "]}\"{[", json!({"n": [{}]})), ("b", "", "y", Value::Null)],
        ),
        (
            plain().format(Format::Json),
            "[{\"_id\":\"a\",\"text\":\"x\",\"other\":1}]",
            vec![("a", "", "x", json!({"other": 1}))],
        ),
        // CSV.
        (plain(), "id,text\na,x\nb,y\n", ab()),
        (plain(), "\u{feff}\"ID\";Text\r\na;x\r\n\r\nb;y", ab()),
        (plain(), "\n\ntext,id\nx,a\ny,b\n", ab()),
        (
            plain(),
            "id,title,text,year,zip,ratio,ok,empty\na,\"T, \"\"q\"\"\",\"x\ny\",2020,01234,1.50,true,\nb,,y,-7,+1,0.5,TRUE,\n",
            vec![
                ("a", "T, \"q\"", "x\ny", json!({"year": 2020, "zip": "01234", "ratio": 1.5, "ok": "true"})),
                ("b", "", "y", json!({"year": -7, "zip": "+1", "ratio": 0.5, "ok": "TRUE"})),
            ],
        ),
        (
            plain().cells_as_text(true),
            "id,text,year\n007,x,2020\n",
            vec![("007", "", "x", json!({"year": "2020"}))],
        ),
        // The numbers that pandas writes have no name.
        (
            Input::new().id("column 1"),
            ",text\n0,x\n1,y\n",
            vec![("0", "", "x", Value::Null), ("1", "", "y", Value::Null)],
        ),
        (
            named().metadata(["n"]),
            "key,head,body,more,n,m\n1,T,x,,1e3,5\n2,,,y,NaN,\n",
            vec![("1", "T", "x", json!({"n": "1e3"})), ("2", "", "y", json!({"n": "NaN"}))],
        ),
        (plain().format(Format::Csv), "id\ttext\na\t\"x\"\nb\ty\n", ab()),
        (plain(), "id,text\n", vec![]),
        (plain(), "", vec![]),
        (plain(), "\n \n", vec![]),
        (plain().format(Format::Csv), "", vec![]),
        // TSV without quotes around its cells.
        (
            plain(),
            "id\ttext\tn\na\t\"x\t1\nb\ty, z; \"q\"\t\n",
            vec![("a", "", "\"x", json!({"n": 1})), ("b", "", "y, z; \"q\"", Value::Null)],
        ),
        (plain().format(Format::Tsv).text(["id,text"]).id("k"), "id,text\tk\nx\ta\ny\tb\n", ab()),
        // A shop's export: prices, a version and a code, which are not such numbers.
        (
            plain().id("sku").text(["name", "details"]),
            "sku;name;details;Price €;version;code\nt-1;Tea;Green, loose;12.50;1.2.0;1e5\nt-2;Cup;;18.00;;007\n",
            vec![
                (
                    "t-1",
                    "",
                    "Tea\n\nGreen, loose",
                    json!({"Price €": 12.5, "version": "1.2.0", "code": "1e5"}),
                ),
                ("t-2", "", "Cup", json!({"Price €": 18.0, "code": "007"})),
            ],
        ),
        // Fields in two roles, one of them by default.
        (
            plain().text(["text", "id"]).metadata(["title", "text", "absent"]),
            "{\"id\":\"a\",\"title\":\"T\",\"text\":\"x\",\"other\":1}\n",
            vec![("a", "T", "x\n\na", json!({"title": "T", "text": "x"}))],
        ),
        (
            plain().text(["text", "title", "id"]).metadata(["id", "title", "year"]),
            "id,title,text,year\n7,T,x,2020\n",
            vec![("7", "T", "x\n\nT\n\n7", json!({"id": "7", "title": "T", "year": 2020}))],
        ),
        (
            plain().id("name").title("name").text(["name", "more"]),
            "{\"name\":\"n\",\"more\":\"m\",\"other\":1}\n",
            vec![("n", "n", "n\n\nm", json!({"other": 1}))],
        ),
        // Titles without a text.
        (
            plain(),
            "{\"_id\":\"a\",\"title\":\"T\"}\n{\"_id\":\"b\",\"title\":\"U\",\"text\":null}\n\
             {\"_id\":\"c\",\"title\":\"V\",\"more\":1}\n{\"_id\":\"d\",\"text\":\"x\"}\n",
            vec![
                ("a", "T", "", Value::Null),
                ("b", "U", "", Value::Null),
                ("c", "V", "", json!({"more": 1})),
                ("d", "", "x", Value::Null),
            ],
        ),
        // A database's export: an `_id` and more.
        (
            plain(),
            "{\"_id\":\"a\",\"text\":\"x\",\"lang\":\"en\",\"tags\":[\"t\"]}\n{\"_id\":\"b\",\"text\":\"y\"}\n",
            vec![("a", "", "x", json!({"lang": "en", "tags": ["t"]})), ("b", "", "y", Value::Null)],
        ),
        // Our own export, with one member of the metadata selected.
        (
            plain().metadata(["price"]),
            "{\"_id\":\"a\",\"text\":\"x\",\"metadata\":{\"price\":1,\"other\":2}}\n{\"_id\":\"b\",\"text\":\"y\"}\n",
            vec![("a", "", "x", json!({"price": 1})), ("b", "", "y", Value::Null)],
        ),
        // A response of an API: an array over several lines.
        (
            plain().id("uuid").text(["body"]),
            "[\n  {\n    \"uuid\": \"a\",\n    \"body\": \"x\"\n  },\n  {\n    \"uuid\": \"b\",\n    \"body\": \"y\"\n  }\n]\n",
            ab(),
        ),
        (
            plain().hashed_ids().format(Format::Csv),
            "text\nx\n",
            vec![("b190c841d315c0e6aa1c86357b5ee4f6", "", "x", Value::Null)],
        ),
        (plain(), "ID,Text\r\na,x\r\nb,y\r\n", ab()),
        (plain().text(["a, b"]), "id,\"a, b\"\na,x\nb,y\n", ab()),
    ]
}

#[test]
fn well_formed_files_are_read() {
    for (input, text, expected) in well_formed() {
        let expected: Vec<Document> = expected.into_iter().map(document).collect();
        let whole = read(&input, text).unwrap_or_else(|error| panic!("{text}: {error}"));
        assert_eq!(whole, expected, "{text}");
        // Compressed, compressed in parts, and byte by byte.
        let (first, second) = text.as_bytes().split_at(text.len() / 2);
        for packed in [
            gzip(text.as_bytes()),
            zstd(text.as_bytes()),
            [gzip(first), gzip(second)].concat(),
            [zstd(first), b"\x50\x2a\x4d\x18\x03\0\0\0xyz".to_vec(), zstd(second)].concat(),
        ] {
            assert_eq!(read(&input, packed).unwrap(), expected, "{text}");
        }
        let slow = Slow(text.as_bytes().to_vec().into());
        let found = input.read(slow, "in").unwrap().collect::<Result<Vec<_>, _>>();
        assert_eq!(found.unwrap(), expected, "{text}");
    }
    assert!(well_formed().len() >= 30);
}

/// A pipe that delivers a byte at a time.
struct Slow(std::collections::VecDeque<u8>);

impl Read for Slow {
    fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
        let Some(byte) = self.0.pop_front() else { return Ok(0) };
        into[0] = byte;
        Ok(1)
    }
}

type Bad = (Input, Vec<u8>, &'static str);

fn malformed() -> Vec<Bad> {
    let plain = Input::new;
    let of = |input: Input, text: &str, error| (input, text.as_bytes().to_vec(), error);
    let json = |text: &str, error| (Input::new(), text.as_bytes().to_vec(), error);
    let packed = gzip(b"id,text\na,x\n");
    let frame = zstd(&b"id,text\na,x\n".repeat(100));
    let mut damaged = frame.clone();
    let last = damaged.len() - 1;
    damaged[last] ^= 1;
    let mut damaged_gzip = packed.clone();
    let at = damaged_gzip.len() - 8;
    damaged_gzip[at] ^= 1;
    let mut tar = vec![b'a'; 257];
    tar.extend(b"ustar\0");
    tar.push(b'\n');
    let latin = |text: &str| text.chars().map(|c| u8::try_from(u32::from(c)).unwrap()).collect::<Vec<u8>>();
    vec![
        // Files of another format.
        #[cfg(not(feature = "parquet"))]
        json(
            "PAR1\u{15}",
            "in: this build does not read the format parquet, which takes the feature `parquet`",
        ),
        #[cfg(feature = "parquet")]
        json("PAR1\u{15}", "in: Parquet file too small. Size is 5 but need 8"),
        json("%PDF-1.7\n", "in: this is a PDF document, which is not read; convert it to text"),
        json(
            "PK\u{3}\u{4}",
            "in: this is a ZIP archive or an office document, which is not read; give a .docx,",
        ),
        json("SQLite format 3\0", "in: this is an SQLite database, which is not read; export a table as CSV"),
        json("BZh9", "in: this is compressed with bzip2, which is not read; compress it with gzip or zstd"),
        (plain(), b"\xfd7zXZ\0".to_vec(), "in: this is compressed with xz, which is not read; "),
        (
            plain(),
            b"\xff\xfei\0d\0".to_vec(),
            "in: this is text in UTF-16, which is not read; convert it to UTF-8",
        ),
        (plain(), gzip(&packed), "in: this is compressed with gzip twice, which is not read; unpack it once"),
        (plain(), tar, "in: this is a tar archive, which is not read; unpack it and give the files in it"),
        json(
            "Some notes\nof mine\n",
            "in: it begins with `Some notes`, which is neither JSON nor a row of names between commas, semicolons, \
             tabs or bars; `--delimiter` names another sign between cells, and `--format` the kind of file",
        ),
        json("\"quoted\"\n", "in: it begins with `\"quoted\"`, which is neither"),
        json("null\n", "in: it begins with `null`, which is neither"),
        // Options.
        of(plain().text(["a", "b", "a"]), "", "the field `a` is named twice for the text; name it once"),
        of(plain().metadata(["a", "a"]), "", "the field `a` is named twice for the metadata; name it once"),
        of(
            plain().cells_as_text(true),
            "{}",
            "in: text cells do not apply to the format jsonl; leave them out",
        ),
        of(plain().delimiter('|'), "{}", "in: delimiters do not apply to the format jsonl; leave them out"),
        of(plain().delimiter(';').format(Format::Tsv), "", "in: delimiters do not apply to the format tsv"),
        of(plain().delimiter('"'), "", "'\"' cannot separate cells; a delimiter is an ASCII character"),
        of(plain().delimiter('→'), "", "'→' cannot separate cells"),
        of(
            plain().format(Format::Json).cells_as_text(true),
            "",
            "in: text cells do not apply to the format json",
        ),
        // Packing.
        (plain(), packed[..packed.len() - 9].to_vec(), "in: the gzip stream is cut off in line "),
        (plain(), damaged_gzip, "in: the gzip stream is damaged near line "),
        (plain(), frame[..frame.len() / 2].to_vec(), "in: the zstd stream is cut off in line "),
        (plain(), damaged, "in: the zstd stream is damaged near line "),
        (plain(), b"\x28\xb5\x2f\xfd\0\0\0\0".to_vec(), "in: the zstd stream is "),
        (plain(), b"\x28\xb5\x2f\xfd".to_vec(), "in: the zstd stream is cut off in line "),
        // JSON lines.
        json(
            "{}",
            "in:1: there is no id: the field `_id` is missing or null; fields found: none; `--id` names another one",
        ),
        json(
            "{\"id\":1,\"text\":\"x\"}\n{\"key\":1,\"text\":\"x\"}",
            "in:2: there is no id: the field `_id` is missing or null; fields found: key, text; `--id` names another one",
        ),
        json(
            "{\"_id\":\"a\",\"body\":\"x\"}",
            "in:1: there is no text: the field `text` is missing or null; fields found: _id, body; `--text`",
        ),
        json("{\"_id\":\"a\",\"text\":null}", "in:1: there is no text: the field `text` is missing or null"),
        // A title alone is enough once the name of the text is known to be right.
        json(
            "{\"_id\":\"a\",\"title\":\"T\",\"body\":\"x\"}",
            "in:1: there is no text: the field `text` is missing or null; fields found: _id, body, title; ",
        ),
        of(
            named(),
            "{\"key\":1}",
            "in:1: there is no text: the fields `body`, `more` are missing or null; fields found: key; ",
        ),
        of(
            named(),
            "{\"key\":null,\"body\":\"x\"}",
            "in:1: there is no id: the field `key` is missing or null; fields found: body, key",
        ),
        json(
            "{\"_id\":1.5,\"text\":\"x\"}",
            "in:1: expected a string or an integer in the field `_id`, found a number that is not an integer of 64 bits",
        ),
        json(
            "{\"_id\":[1],\"text\":\"x\"}",
            "in:1: expected a string or an integer in the field `_id`, found an array",
        ),
        json(
            "{\"_id\":\"\",\"text\":\"x\"}",
            "in:1: the field `_id` is empty; every id needs at least one character",
        ),
        json(
            "{\"id\":true,\"text\":\"x\"}",
            "in:1: expected a string or an integer in the field `id`, found a boolean",
        ),
        json(
            "{\"id\":1,\"text\":[\"x\"]}",
            "in:1: expected a string or a number in the field `text`, found an array",
        ),
        json(
            "{\"id\":1,\"text\":\"x\",\"title\":{}}",
            "in:1: expected a string or a number in the field `title`, found an object",
        ),
        json(
            "{\"id\":1,\"text\":false}",
            "in:1: expected a string or a number in the field `text`, found a boolean",
        ),
        json(
            "{\"id\":1,\"text\":\"x\",\"a\":1,\"metadata\":{\"a\":2}}",
            "in:1: `a` is a field and a member of the field `metadata`; rename one",
        ),
        json("{\"id\":1,\"id\":2,\"text\":\"x\"}", "in:1: not a JSON object of the expected form"),
        json(
            "[{\"id\":1,\"text\":\"x\",\"a\":{\"b\":[{\"c\":1,\"c\":1}]}}]",
            "in:1: not a JSON object of the",
        ),
        json("{\"id\":1,\n\"text\":\"x\"}", "in:1: not a JSON object of the expected form"),
        json("{\"id\":1,\"text\":\"x\"} x", "in:1: not a JSON object of the expected form"),
        json("{\"id\":1,\"text\":\"x\"}\n[1]", "in:2: not a JSON object of the expected form"),
        (
            plain(),
            b"{\"id\":1,\"text\":\"x\"}\n{\"id\":2,\"text\":\"\xff\"}".to_vec(),
            "in:2: not UTF-8 from byte 16 of the line",
        ),
        of(plain().format(Format::JsonLines), "id,text\n", "in:1: not a JSON object of the expected form"),
        // Arrays.
        json("[", "in:1: expected an object in an array of objects, found the end"),
        json("[1]", "in:1: expected an object in an array of objects, found `1`"),
        json(
            "[\n{\"id\":1,\"text\":\"x\"}\n{",
            "in:3: expected `,` or `]` in an array of objects, found `{`",
        ),
        json("[{\"id\":1,\"text\":\"x\"},\n]", "in:2: expected an object in an array of objects, found `]`"),
        json("[{\"id\":1,\"text\":\"x\"}", "in:1: expected `,` or `]` in an array of objects, found the end"),
        json("[{\"id\":1,\"text\":\"x\"}\n] x", "in:2: expected the end in an array of objects, found `x`"),
        json("[\n{\"id\":1,", "in:2: expected the end of the object in an array of objects, found the end"),
        json("[\n{\"id\":1,\n\"text\":x}]", "in:3: not a JSON object of the expected form"),
        json(
            "[\n\n{\"id\":1}]",
            "in:3: there is no text: the field `text` is missing or null; fields found: id; `--text` names",
        ),
        (plain(), b"[{\"id\":1,\n\"text\":\"\xe9\"}]".to_vec(), "in:2: not UTF-8 from byte 8 of the line"),
        of(
            plain().format(Format::Json),
            "{\"id\":1}",
            "in:1: expected `[` in an array of objects, found `{`",
        ),
        // CSV and TSV.
        json(
            "question,answer\n",
            "in: no column `id` for the id; columns found: question, answer; `--id` names another one, `--hash-ids` makes ids",
        ),
        json(
            "id,body\n",
            "in: no column `text` for the text; columns found: id, body; `--text` names another one",
        ),
        of(named(), "key,head,body\n", "in: no column `more` for the text; columns found: key, head, body; "),
        of(
            named(),
            "key,body,more\n",
            "in: no column `head` for the title; columns found: key, body, more; ",
        ),
        of(
            plain().metadata(["n"]),
            "id,text\n",
            "in: no column `n` for the metadata; columns found: id, text; ",
        ),
        of(plain().id("ID"), "id,text\n", "in: no column `ID` for the id; columns found: id, text; "),
        json("id,text,text\n", "in:1: two columns are called `text`; columns before: id, text"),
        json("id,text\n\na,x\nb\n", "in:4: 1 cells for 2 columns; columns found: id, text"),
        json("id,text\r\na,x\r\nb,y,z\r\n", "in:3: 3 cells for 2 columns; columns found: id, text"),
        json("id,text\n,x\n", "in:2: the field `id` is empty; every id needs at least one character"),
        json("id,text\na,\"x\ny\nz\n", "in:2: a quote in the row that begins here is not closed"),
        json("id,\"text\na,x\n", "in:1: a quote in the row that begins here is not closed"),
        (
            plain(),
            latin("id,text\na,x\nb,caf\u{e9}\n"),
            "in:3: the column `text` is not UTF-8; convert the file",
        ),
        (plain(), latin("id,text,caf\u{e9}\n"), "in:1: the column `column 3` is not UTF-8; convert the file"),
        json("7\tsome text\n8\tother text\n", "in: no column `id` for the id; columns found: 7, some text; "),
        json("id\ttext\na\tx\ty\n", "in:2: 3 cells for 2 columns; columns found: id, text"),
        of(plain().format(Format::Csv), "text\nx\n", "in: no column `id` for the id; columns found: text; "),
    ]
}

#[test]
fn malformed_files_are_errors_that_say_where_and_what() {
    let mut wrong = Vec::new();
    for (input, bytes, expected) in malformed() {
        let shown = String::from_utf8_lossy(&bytes).into_owned();
        match read(&input, bytes) {
            Err(error) if error.to_string().starts_with(expected) => {}
            read => wrong.push(format!("{shown}\n  {expected}\n  {:?}", read.map_err(|e| e.to_string()))),
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(malformed().len() >= 60);
}

/// An error in one record comes after those before it, and before those after it.
#[test]
fn reading_goes_on_behind_a_bad_record() {
    let bad = [
        "{\"id\":\"a\",\"text\":\"x\"}\n{\"id\":\"b\"}\n{\"id\":\"c\",\"text\":\"z\"}\n",
        "[{\"id\":\"a\",\"text\":\"x\"},{\"id\":\"b\"},{\"id\":\"c\",\"text\":\"z\"}]",
        "id,text\na,x\nb\nc,z\n",
    ];
    for text in bad {
        let mut documents = Input::new().read(Cursor::new(text), "in").unwrap();
        let found: Vec<_> = documents.by_ref().map(|document| document.map(|d| d.id)).collect();
        assert!(matches!(&found[..], [Ok(a), Err(_), Ok(c)] if a == "a" && c == "c"), "{text}");
        // A row with the wrong number of cells may have lost its quotes.
        let of_one = found[1].as_ref().is_err_and(DataError::is_of_one_record);
        assert_eq!(of_one, !text.starts_with("id,"), "{text}");
        assert_eq!(documents.position(), text.len() as u64);
        assert!(documents.next().is_none());
    }
}

/// The program refuses such a record and stores the others, unless it is the first one of JSON.
#[test]
fn a_record_with_a_bad_value_is_refused_and_the_others_are_stored() {
    let cases = [
        (
            "lines.jsonl",
            "{\"id\":1,\"text\":\"x\"}\n{\"id\":[],\"text\":\"y\"}\n{\"id\":3}\n{\"id\":4,\"text\":\"z\"}\n",
            [2, 3],
        ),
        (
            "array.json",
            "[{\"id\":1,\"text\":\"x\"},\n{\"id\":2,\"text\":true},\n{\"text\":\"y\"},\n{\"id\":4,\"text\":\"z\"}]",
            [2, 3],
        ),
        ("table.csv", "id,text\n1,x\n,y\n\"\",z\n4,z\n", [3, 4]),
    ];
    for (name, content, lines) in cases {
        let flow = Flow::new();
        let file = flow.path(name);
        fs::write(&file, content).unwrap();
        let ran = flow.run("insert", &["--json", text(&file)]);
        let said: Vec<&str> = ran.err.lines().collect();
        let [first, second, end] = said[..] else { panic!("{name}: {}", ran.err) };
        for (line, refused) in lines.into_iter().zip([first, second]) {
            assert!(refused.starts_with(&format!("refused: {}:{line}: ", text(&file))), "{refused}");
        }
        assert_eq!((ran.code, end), (Some(1), "ehi: 2 of 4 documents refused, 2 stored"), "{name}");
        let summary: Value = serde_json::from_str(&ran.out).unwrap();
        let of = |field: &str| summary[field].as_u64().unwrap();
        assert_eq!((of("inserted"), of("refused"), of("not_stored")), (2, 2, 0), "{name}");
    }
    let flow = Flow::new();
    let file = flow.path("names.jsonl");
    fs::write(&file, "{\"key\":1,\"text\":\"x\"}\n{\"key\":2,\"text\":\"y\"}\n").unwrap();
    let line = flow.run("insert", &[text(&file)]).failure();
    assert!(line.contains("names.jsonl:1: there is no id"), "{line}");
}

#[test]
fn a_failing_reader_is_an_error_at_any_byte() {
    struct Failing(Slow);
    impl Read for Failing {
        fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
            match self.0.read(into)? {
                0 => Err(std::io::Error::other("unplugged")),
                read => Ok(read),
            }
        }
    }
    let texts =
        ["{\"id\":\"a\",\"text\":\"x\"}\n", "[{\"id\":\"a\",\"text\":\"x\"}]\n", "id,text\na,\"x\"\n"];
    for text in texts {
        for end in 0..=text.len() {
            let failing = Failing(Slow(text.as_bytes()[..end].to_vec().into()));
            let error = match Input::new().read(failing, "pipe") {
                Ok(mut documents) => {
                    let error = documents.find_map(Result::err).unwrap_or_else(|| panic!("{end} of {text}"));
                    assert!(documents.next().is_none_or(|next| next.is_err()), "{end} of {text}");
                    error
                }
                Err(error) => error,
            };
            assert_eq!(error.kind(), DataErrorKind::Read, "{end} of {text}: {error}");
        }
    }
}

/// Through the program: a pipe, gzip and zstd on standard input, names of fields, and positions of errors.
#[test]
fn the_program_reads_tables_from_files_and_pipes() {
    let flow = Flow::new();
    let table = "key,head,body,year\n7,Tea,Steep it.,2020\n8,,Drink it.,2021\n";
    let from_pipe = |bytes: &[u8], rest: &[&str]| {
        let arguments =
            ["insert", "--index", &flow.index(), "--id", "key", "--title", "head", "--text", "body"];
        let mut child = command()
            .args(arguments.iter().chain(rest))
            .arg("-")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        // The program may have ended at the first bytes.
        let _ = child.stdin.take().unwrap().write_all(bytes);
        Ran::of(child.wait_with_output().unwrap())
    };
    for (round, bytes) in
        [table.as_bytes().to_vec(), gzip(table.as_bytes()), zstd(table.as_bytes())].iter().enumerate()
    {
        let said = from_pipe(bytes, &[]).ok();
        let counts = if round == 0 { "2 inserted, 0 replaced" } else { "0 inserted, 2 replaced" };
        assert_eq!(said, format!("{counts}; the index has 2 documents\n"));
    }
    let get = |id: &str| flow.run("get", &[id]).json();
    assert_eq!(
        get("7"),
        json!({"_id": "7", "title": "Tea", "text": "Steep it.", "metadata": {"year": 2020}})
    );
    from_pipe(table.as_bytes(), &["--metadata", "", "--format", "csv"]).ok();
    assert_eq!(get("8")["metadata"], Value::Null);
    from_pipe(table.as_bytes(), &["--metadata", "year", "--cells-as-text"]).ok();
    assert_eq!(get("8")["metadata"], json!({"year": "2021"}));

    let ran = from_pipe(b"key,head,body\n9,,x\n10,,y\n11,\n", &[]);
    assert_eq!(ran.line(), "ehi: <stdin>:4: 2 cells for 3 columns; columns found: key, head, body");
    let says = "2 inserted, 0 replaced, 1 read but not stored, and reading stopped there; 2 of the 2 stored are on disk; the index has 4";
    assert!(ran.out.starts_with(says), "{}", ran.out);
    let ran = from_pipe(b"id,text\n9,x\n", &[]);
    let line = "ehi: <stdin>: no column `key` for the id; columns found: id, text; `--id` names another one, \
                `--hash-ids` makes ids";
    assert_eq!(ran.line(), line);
    assert!(ran.out.starts_with("0 inserted, 0 replaced; "), "{}", ran.out);
    let line = from_pipe(b"%PDF-1.4", &[]).failure();
    assert_eq!(line, "ehi: <stdin>: this is a PDF document, which is not read; convert it to text");

    // The output of an index can be read back.
    let exported = flow.run("export", &[]).ok();
    let array = format!("[{}]", exported.trim_end().replace('\n', ","));
    let file = flow.path("exported.json");
    std::fs::write(&file, array).unwrap();
    assert!(flow.run("insert", &[text(&file)]).ok().starts_with("0 inserted, 4 replaced"));
    assert_eq!(flow.run("export", &[]).ok(), exported);
}

/// A table from a stream is read twice, so it is buffered on disk: lack of space is an error. A small one
/// needs none.
#[test]
fn a_stream_that_cannot_be_kept_is_an_error() {
    let flow = Flow::new();
    let rows = |count: usize| -> String {
        let row = |n: usize| format!("{n},{},{n}\n", "leaf ".repeat(20_000));
        std::iter::once("id,text,code\n".to_owned()).chain((0..count).map(row)).collect()
    };
    for (count, is_kept) in [(3, true), (80, false)] {
        let mut child = command()
            .args(["insert", "--index", &flow.index(), "-"])
            .env("TMPDIR", "/no/such/folder")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let _ = child.stdin.take().unwrap().write_all(rows(count).as_bytes());
        let ran = Ran::of(child.wait_with_output().unwrap());
        let says = "/no/such/folder cannot hold the copy";
        assert_eq!((ran.code, ran.err.contains(says)), (Some(i32::from(!is_kept)), !is_kept), "{}", ran.err);
        assert_eq!(ran.err.contains("set TMPDIR"), !is_kept, "{}", ran.err);
    }
}

/// Ids for documents without one, names with commas, and names that no record has.
#[test]
fn documents_without_ids_and_odd_names() {
    let flow = Flow::new();
    let file = flow.path("faq.csv");
    fs::write(&file, "question,\"Answer, long\",price\nhow?,so,12.50\nwhy?,because,7\n").unwrap();
    let insert = |rest: &[&str]| {
        let fields = ["--hash-ids", "--title", "question", "--text", "Answer\\, long"];
        flow.run("insert", &[&fields, rest, &[text(&file)]].concat())
    };
    assert_eq!(insert(&[]).ok(), "2 inserted, 0 replaced; the index has 2 documents\n");
    assert_eq!(insert(&[]).ok(), "0 inserted, 2 replaced; the index has 2 documents\n");
    let found = flow.run("search", &["--json", "--filter", "{\"price\": {\"$lt\": 20}}", "so"]).json();
    assert_eq!(found["hits"].as_array().unwrap().len(), 2);
    let id = found["hits"][0]["id"].as_str().unwrap().to_owned();
    assert!(id.len() == 32 && id.bytes().all(|byte| byte.is_ascii_hexdigit()), "{id}");
    let ran = flow.run("insert", &["--hash-ids", "--id", "question", text(&file)]);
    assert_ne!(ran.code, Some(0));
    let ran = flow.run("insert", &["--hash-ids", "--text", "Answer, long", text(&file)]);
    assert!(ran.line().contains("question, \"Answer, long\", price"), "{}", ran.err);
    // A filter on a missing field, and a beam that finds nothing, are reported.
    let ran = flow.run("search", &["--filter", "{\"prise\": 1}", "so"]);
    assert!(ran.err.contains("note: no document has the field `prise`"), "{}", ran.err);

    let lines = flow.path("lines.jsonl");
    fs::write(&lines, "{\"id\": 1, \"text\": \"x\", \"year\": 2020}\n{\"id\": 2, \"text\": \"y\"}\n")
        .unwrap();
    let ran = flow.run("insert", &["--title", "titel", "--metadata", "year,yaer", text(&lines)]);
    assert!(ran.err.contains("has the field `titel`"), "{}", ran.err);
    assert!(ran.err.contains("has the field `yaer`"), "{}", ran.err);
    assert!(!ran.err.contains("`year`") && ran.code == Some(0), "{}", ran.err);
    fs::write(&lines, "{\n  \"id\": 1\n}\n").unwrap();
    assert!(flow.run("insert", &[text(&lines)]).line().contains("on one line (`jq -c .`"));
}
