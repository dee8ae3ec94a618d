//! CSV and TSV: separators, quotes, and which cells become numbers.

use std::fs;
use std::io::Cursor;

use ehi::Document;
use ehi::data::{Input, Note};
use serde_json::{Value, json};

use crate::program::{Flow, Ran, text};

/// The documents of a table, and the notes on it.
fn read(input: &Input, table: &str) -> (Vec<Document>, Vec<Note>) {
    let mut documents = input.read(Cursor::new(table.to_owned()), "in").unwrap();
    let read: Result<Vec<_>, _> = documents.by_ref().collect();
    (read.unwrap(), documents.notes())
}

fn metadata(input: &Input, table: &str) -> Vec<Value> {
    let (documents, _) = read(input, table);
    documents.into_iter().map(|document| document.metadata.unwrap_or_default()).collect()
}

fn insert(table: &str, rest: &[&str]) -> (Flow, Ran) {
    let flow = Flow::new();
    let file = flow.path("table.csv");
    fs::write(&file, table).unwrap();
    let ran = flow.run("insert", &[rest, &[text(&file)]].concat());
    (flow, ran)
}

const ZIP: &str = "id,text,zip,version,flag,amount\n1,clock shop in Boston,02134,1.9,TRUE,\"1,200\"\n\
                   2,clock shop in Beverly Hills,90210,1.10,FALSE,300\n3,clock shop in Denver,80202,1.10.1,TRUE,45\n";

/// brimdata/super#2315: a column of codes, some of which begin with a zero, has a single kind of value, and
/// is named.
#[test]
fn a_column_of_codes_is_text_as_a_whole() {
    let (flow, ran) = insert(ZIP, &[]);
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    for column in [
        "`zip` is text: of its 3 cells 2 read as numbers, but not `02134` in line 2",
        "`version`",
        "`amount`",
    ] {
        assert!(ran.err.contains(column), "{}", ran.err);
    }
    assert!(!ran.err.contains("`flag`"), "{}", ran.err);
    let says = "3 inserted, 0 replaced; text because of some cells: zip, version, amount; the index has 3 documents\n";
    assert_eq!(ran.out, says);
    for (filter, ids) in [
        (r#"{"zip": "90210"}"#, "2\n"),
        (r#"{"zip": {"$in": ["02134", "90210"]}}"#, "1\n2\n"),
        (r#"{"version": "1.10"}"#, "2\n"),
    ] {
        assert_eq!(flow.run("ids", &["--filter", filter]).ok(), ids, "{filter}");
    }
}

/// pandas-dev/pandas#13746: also a single kind if the only non-numeric cell comes after thousands of numbers,
/// from a file and from a stream that is longer than the buffer in memory.
#[test]
fn a_column_is_told_by_its_last_cell_too() {
    let mut table = "id,text,code,year\n".to_owned();
    let long = "leaf ".repeat(1_000);
    for row in 0..2_000 {
        table += &format!("{row},{long},{row},2020\n");
    }
    table += "last,x,A7,2021\n";
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("table.csv");
    fs::write(&file, &table).unwrap();
    let from_file = Input::new().open(&file).unwrap();
    let from_stream = Input::new().read(Cursor::new(table.clone()), "in").unwrap();
    for mut documents in [from_file, from_stream] {
        let first = documents.next().unwrap().unwrap();
        assert_eq!(first.metadata, Some(json!({"code": "0", "year": 2020})));
        assert_eq!(documents.by_ref().map(Result::unwrap).last().unwrap().id, "last");
        assert_eq!(documents.position(), table.len() as u64);
        let notes = documents.notes();
        assert_eq!((notes.len(), notes[0].text_column.as_deref()), (1, Some("code")));
        let said = "of its 2001 cells 2000 read as numbers, but not `A7` in line 2002";
        assert!(notes[0].to_string().ends_with(said), "{}", notes[0]);
    }
}

/// wireservice/csvkit#977: a way to keep columns from being converted at all.
#[test]
fn cells_stay_text_where_that_is_asked_for() {
    let input = Input::new().cells_as_text(true);
    let (documents, notes) = read(&input, ZIP);
    assert_eq!(documents[1].metadata.as_ref().unwrap()["amount"], "300");
    assert!(notes.is_empty());
}

/// PapaParse#600: a sign in column names, or in the text, is not mistaken for the separator.
#[test]
fn what_separates_cells_is_told_by_the_rows() {
    let semicolons = "sku;name (100 characters or less, required);text (long, with line ends, required);images \
                      (separated by commas, required)\n1;Pump;A pump for coolant;a.jpg\n2;Lamp;A lamp for tomatoes;b.jpg\n";
    let input = Input::new().id("sku").text(["text (long, with line ends, required)"]);
    let (documents, _) = read(&input, semicolons);
    assert_eq!((documents[1].id.as_str(), documents[1].text.as_str()), ("2", "A lamp for tomatoes"));

    let (documents, _) = read(&Input::new(), "id|text\n1|A pump\n2|A lamp\n");
    assert_eq!(documents[1].text, "A lamp");
    let (documents, _) =
        read(&Input::new(), "sep=;\r\nid;text\r\n1;A pump for coolant, blue\r\n2;A lamp, red\r\n");
    assert_eq!(documents[0].text, "A pump for coolant, blue");
    let prose = "id,\"text; in parts; of three; or four\",x\n1,A pump,2\n";
    let (documents, _) = read(&Input::new().text(["text; in parts; of three; or four"]), prose);
    assert_eq!(documents[0].metadata, Some(json!({"x": 2})));
}

/// The same for a sign that no program would guess: an option sets it, and the errors lead to the option.
#[test]
fn a_delimiter_can_be_given() {
    let (_, ran) = insert("id:text\n1:A pump\n", &[]);
    assert!(ran.line().contains("`--delimiter` names another sign between cells"), "{}", ran.err);
    let (flow, ran) = insert("id:text\n1:A pump\n", &["--delimiter", ":"]);
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    assert_eq!(flow.run("get", &["1"]).json()["text"], "A pump");
    // A comma in the names would win otherwise.
    let (_, ran) = insert("a,b:text\n1,2:A pump\n", &["--id", "a,b"]);
    assert!(ran.line().contains("no column `a,b`"), "{}", ran.err);
    let (flow, ran) = insert("a,b:text\n1,2:A pump\n", &["--id", "a,b", "--delimiter", ":"]);
    assert_eq!((ran.code, flow.run("ids", &[]).ok().as_str()), (Some(0), "1,2\n"));
    for (sign, code) in [("::", 2), ("\"", 1)] {
        let (_, ran) = insert("id:text\n1:A pump\n", &["--delimiter", sign]);
        assert_eq!(ran.code, Some(code), "{}", ran.err);
    }
    let (_, ran) = insert("{\"id\": 1, \"text\": \"x\"}\n", &["--delimiter", ";"]);
    assert!(ran.line().contains("delimiters do not apply to the format jsonl"), "{}", ran.err);
}

const EXCEL: &str = "id\ttitle\ttext\tauthor\r\n1\tPumps\t\"A pump, blue, for 5\"\" pipes\"\t\"Smith, John\"\r\n\
                     2\tLamps\tA lamp\tRoe\r\n";
const LITERAL: &str = "id\ttext\n1\t5'9\" tall\n2\t\"quoted\" at the start only\n";

/// univocity-parsers#208: quotes around TSV cells are removed if the file was written with them.
#[test]
fn quotes_in_tsv_are_read_as_they_were_written() {
    let (documents, notes) = read(&Input::new(), EXCEL);
    assert_eq!(documents[0].text, "A pump, blue, for 5\" pipes");
    assert_eq!(documents[0].metadata, Some(json!({"author": "Smith, John"})));
    assert!(notes[0].to_string().starts_with("2 cells are in quotes, which are taken off"), "{}", notes[0]);
    let (documents, notes) = read(&Input::new(), LITERAL);
    assert_eq!(documents[0].text, "5'9\" tall");
    assert_eq!(documents[1].text, "\"quoted\" at the start only");
    assert!(notes.is_empty());

    let (_, ran) = insert(EXCEL, &[]);
    assert!(
        ran.err.contains("2 cells are in quotes, which are taken off; `--format tsv` keeps them"),
        "{}",
        ran.err
    );
    let (flow, ran) = insert(EXCEL, &["--format", "tsv"]);
    assert!(
        ran.err.contains("2 cells are in quotes, which are kept; `--format csv` takes them off"),
        "{}",
        ran.err
    );
    assert_eq!(flow.run("get", &["1"]).json()["metadata"]["author"], "\"Smith, John\"");
    // A cell with a line break in it, far from the start.
    let long = format!("{}{}", "1\tx\n".repeat(100_000), "2\t\"two\nlines\"\n");
    let (documents, _) = read(&Input::new(), &format!("id\ttext\n{long}"));
    assert_eq!((documents.len(), documents[100_000].text.as_str()), (100_001, "two\nlines"));
}

/// harelba/q#199: numbers that would lose digits, and numbers formatted for people, stay as they are.
#[test]
fn no_digit_of_a_number_is_lost() {
    let table = "id,text,big,money,share,code\n1,x,12345678901234567890,\"1,200\",5%,1e4\n2,y,7,300,6%,001\n";
    let found = metadata(&Input::new(), table);
    let first = json!({"big": "12345678901234567890", "money": "1,200", "share": "5%", "code": "1e4"});
    assert_eq!(found[0], first);
    assert_eq!(found[1], json!({"big": "7", "money": "300", "share": "6%", "code": "001"}));
}

/// JuliaData/CSV.jl#88: integers and fractions in one column are all numbers.
#[test]
fn integers_and_fractions_are_one_kind() {
    let found = metadata(&Input::new(), "id,text,n\n1,x,7\n2,y,7096.5\n");
    assert_eq!(found, [json!({"n": 7}), json!({"n": 7096.5})]);
}

/// python/cpython#119123, python/cpython#97611, AndreaBozzo/dataprof#423: commas within cells, quotes that
/// begin with a tab, and line ends in quotes are not misread.
#[test]
fn cells_do_not_mislead_about_what_separates_them() {
    let lists = "id;has_data;cost;group;text\n1;False;62.25;['345'];a\n2;False;46.50;['112', '112'];b\n\
                 3;False;1.00;['765', '766', '767'];c\n";
    assert_eq!(metadata(&Input::new(), lists)[1]["group"], "['112', '112']");
    let (documents, _) =
        read(&Input::new().id("Surname").text(["Year"]), "Surname;Name;Year\n\"\tDoe;Jane\"\t;x;1971\n");
    assert_eq!((documents[0].id.as_str(), documents[0].text.as_str()), ("\tDoe;Jane\t", "1971"));
    let lines =
        "id,text\n1,\"line one; or\nline two; or\nthree\"\n2,normal\n3,\"has \"\"quotes\"\" inside\"\n";
    let (documents, _) = read(&Input::new(), lines);
    assert_eq!((documents.len(), documents[0].text.as_str()), (3, "line one; or\nline two; or\nthree"));
}
