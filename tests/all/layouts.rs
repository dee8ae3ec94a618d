//! Datasets in the layouts of MS MARCO and of extreme classification; the samples are real, see
//! `fixtures/datasets/make.py`.

use std::collections::{BTreeSet, HashSet};
use std::fs;
use std::path::PathBuf;

use ehi::data::{DataError, DataErrorKind, Dataset};

fn fixture(name: &str) -> PathBuf {
    crate::support::root().join("tests/fixtures/datasets").join(name)
}

fn ids(dataset: &Dataset) -> (Vec<String>, Vec<String>) {
    let documents = dataset.corpus().unwrap().map(|document| document.unwrap().id).collect();
    (documents, dataset.queries().unwrap().map(|query| query.unwrap().id).collect())
}

fn assert_at(error: &DataError, kind: DataErrorKind, line: u64, says: &str) {
    assert_eq!((error.kind(), error.line()), (kind, Some(line)), "{error}");
    assert!(error.to_string().contains(says), "{error}");
}

/// Every judgment must name an existing document and query.
fn assert_whole(dataset: &Dataset) {
    let (documents, queries) = ids(dataset);
    let (documents, queries): (HashSet<_>, HashSet<_>) =
        (documents.into_iter().collect(), queries.into_iter().collect());
    let mut judged = BTreeSet::new();
    for split in dataset.splits().unwrap() {
        for (query, judgments) in dataset.qrels(&split).unwrap().iter() {
            assert!(queries.contains(query), "{split}: {query}");
            assert!(judgments.keys().all(|id| documents.contains(id)), "{split}: {query}");
            judged.insert(query.to_owned());
        }
    }
    assert_eq!(judged.len(), queries.len());
}

#[test]
fn layouts_are_told_apart_by_their_files() {
    let open = |name| Dataset::open(fixture(name)).unwrap();
    let first = |dataset: &Dataset| dataset.corpus().unwrap().next().unwrap().unwrap();
    assert!(first(&open("msmarco")).title.is_empty());
    assert_eq!(open("extreme").splits().unwrap(), ["test", "train"]);
    let root = crate::support::root();
    let scifact = Dataset::open(root.join("examples/data/scifact")).unwrap();
    assert!(!first(&scifact).title.is_empty());
    assert_eq!(scifact.dir(), root.join("examples/data/scifact"));

    // An unknown layout is taken for BEIR, whose missing files are then named.
    let empty = tempfile::tempdir().unwrap();
    let error = Dataset::open(empty.path()).unwrap().corpus().err().unwrap();
    assert!(error.kind() == DataErrorKind::Missing && error.name().ends_with("corpus.jsonl"), "{error}");
    let absent = empty.path().join("absent");
    let error = Dataset::open(&absent).unwrap_err();
    assert!(error.to_string().contains("not a directory"), "{error}");
}

#[test]
fn ms_marco_is_read_as_it_is_distributed() {
    let dataset = Dataset::open(fixture("msmarco")).unwrap();
    let (documents, queries) = ids(&dataset);
    assert_eq!((documents.len(), queries.len()), (30, 20));
    assert_eq!(dataset.splits().unwrap(), ["dev.small", "train"]);
    assert_whole(&dataset);

    let train = dataset.qrels("train").unwrap();
    assert_eq!(train.get("118457").unwrap()["7068493"], 1);
    let bona_fides = dataset.queries().unwrap().map(Result::unwrap).find(|q| q.id == "118457").unwrap();
    assert_eq!(bona_fides.text, "define bona fides");
    let passage = dataset.corpus().unwrap().map(Result::unwrap).find(|d| d.id == "7068493").unwrap();
    assert!(passage.title.is_empty() && passage.text.contains("bona fides"), "{}", passage.text);
    let error = dataset.qrels("test").unwrap_err().to_string();
    assert!(error.ends_with("no split `test`; found: dev.small, train"), "{error}");
    // A split's name is not a path.
    assert_eq!(dataset.qrels("../train").unwrap_err().kind(), DataErrorKind::Missing);
}

#[test]
fn a_query_file_that_cannot_be_read_ends_the_queries() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("collection.tsv"), "1\ta passage\twith a tab\n2\t\n").unwrap();
    fs::write(dir.path().join("queries.a.tsv"), b"1\tone\nno tab\n\t nothing\n2\ttwo\n").unwrap();
    fs::write(dir.path().join("queries.b.tsv"), [0x1f, 0x8b, 1, 2, 3]).unwrap();
    fs::write(dir.path().join("queries.c.tsv"), "3\tthree\n").unwrap();
    fs::write(dir.path().join("qrels.x.tsv"), "1 0 1 1\n1 0 2\n").unwrap();
    let dataset = Dataset::open(dir.path()).unwrap();
    let texts: Vec<String> = dataset.corpus().unwrap().map(|d| d.unwrap().text).collect();
    assert_eq!(texts, ["a passage\twith a tab", ""]);

    let queries: Vec<_> = dataset.queries().unwrap().collect();
    assert_eq!(queries.len(), 5);
    assert_eq!(queries[0].as_ref().unwrap().text, "one");
    let error = queries[1].as_ref().unwrap_err();
    assert_at(error, DataErrorKind::Row, 2, "1 columns instead of id, text");
    let error = queries[2].as_ref().unwrap_err();
    assert_at(error, DataErrorKind::Field, 3, "`id` is empty");
    assert_eq!(queries[3].as_ref().unwrap().id, "2");
    assert!(queries[4].as_ref().unwrap_err().to_string().contains("queries.b.tsv"));
    let error = dataset.qrels("x").unwrap_err();
    assert_at(&error, DataErrorKind::Row, 2, "3 columns");
}

#[test]
fn labels_are_documents_and_points_are_queries() {
    let dataset = Dataset::open(fixture("extreme")).unwrap();
    let (documents, queries) = ids(&dataset);
    assert_eq!((documents.len(), queries.len()), (24, 24));
    assert_eq!(dataset.splits().unwrap(), ["test", "train"]);
    assert_whole(&dataset);

    let test = dataset.qrels("test").unwrap();
    assert_eq!((test.len(), test.iter().map(|(_, judged)| judged.len()).sum::<usize>()), (8, 12));
    // Places 8 and 9 of lbl.json.
    let targets: Vec<&String> = test.get("T16").unwrap().keys().collect();
    assert_eq!(targets, [&documents[8], &documents[9]]);
    let label = dataset.corpus().unwrap().next().unwrap().unwrap();
    assert!(!label.title.is_empty() && !label.text.is_empty());
    let point = dataset.queries().unwrap().map(Result::unwrap).find(|q| q.id == "T16").unwrap();
    assert_eq!(point.text, "Design and development of a 3-axis MRI-compatible force sensor");
    assert_eq!(dataset.qrels("dev").unwrap_err().kind(), DataErrorKind::Missing);
}

#[test]
fn targets_that_cannot_be_are_typed_errors() {
    use DataErrorKind::{Field, Json};
    let dir = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| fs::write(dir.path().join(name), text).unwrap();
    write("lbl.json", "{\"uid\":\"a\",\"title\":\"A\"}\n{\"uid\":\"b\",\"title\":\"B\"}\n");
    let dataset = Dataset::open(dir.path()).unwrap();
    for (text, kind, says) in [
        (r#"{"uid":"p","title":"t","target_ind":[2]}"#, Field, "the target 2 is not among the 2 labels"),
        (
            r#"{"uid":"p","target_ind":[0,1],"target_rel":[1.0]}"#,
            Field,
            "1 values of target_rel for 2 of target_ind",
        ),
        (r#"{"uid":"p","target_ind":[-1]}"#, Json, ""),
        (r#"{"uid":"p","target_ind":[18446744073709551615]}"#, Field, "is not among the 2 labels"),
        (r#"{"target_ind":[0]}"#, Field, "`uid` is missing"),
        (r#"{"uid":"","target_ind":[0]}"#, Field, "`uid` is empty"),
        ("[]", Json, ""),
    ] {
        write("trn.json", text);
        let error = dataset.qrels("train").unwrap_err();
        assert_at(&error, kind, 1, says);
        assert!(error.to_string().contains("trn.json:1: "), "{error}");
    }
    write("trn.json", "{\"uid\":\"p\",\"target_ind\":[0,1],\"target_rel\":[0.25,0]}\n{\"uid\":\"q\"}");
    let read = dataset.qrels("train").unwrap();
    assert_eq!(read.len(), 1);
    assert_eq!(read.get("p").unwrap().values().copied().collect::<Vec<_>>(), [1, 0]);
    write("lbl.json", r#"{"uid":7,"title":"Tea","content":"leaves","brand":"x"}"#);
    let label = dataset.corpus().unwrap().next().unwrap().unwrap();
    let expected = ehi::Document::new("7", "Tea", "leaves").with_metadata(serde_json::json!({"brand": "x"}));
    assert_eq!(label, expected);
    write("lbl.json", r#"{"uid":"a"}"#);
    let error = dataset.corpus().unwrap().next().unwrap().unwrap_err();
    assert_at(&error, Field, 1, "`title` is missing");
}

#[test]
fn every_layout_can_be_trained_on() {
    use ehi::train::TrainingSet;
    // No split of MS MARCO is called dev here, so some of the ten training queries are held out.
    for (name, queries) in [("msmarco", 10), ("extreme", 16)] {
        let set = TrainingSet::read(&Dataset::open(fixture(name)).unwrap(), 0.2).unwrap();
        let (train, dev) = set.queries();
        assert_eq!(train + dev, queries, "{name}");
    }
}
