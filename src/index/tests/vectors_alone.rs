//! Indexes without an encoder: embeddings of the caller, and texts that are searched by words.

use std::fs;

use super::*;
use crate::index::DocumentUpdate;
use crate::index::search::{Question, RankedBy};
use crate::model::{MANIFEST_FILE, ModelError};
use crate::{Analyzer, Language, Similarity};

pub(super) const DIM: usize = 8;

/// Documents around eight directions; `n` lies at the direction `n % 8`.
pub(super) fn embedded(documents: usize) -> impl Iterator<Item = (Document, Vec<f32>)> {
    (0..documents).map(|n| {
        let vector = (0..DIM)
            .map(|i| if i == n % DIM { 1.0 } else { ((n * n * 31 + n * i * 17) % 997) as f32 / 4_000.0 });
        let text = format!("The boats of harbour {n} are leaking");
        (Document::new(format!("d{n}"), format!("Harbour {n}"), text), vector.collect())
    })
}

pub(super) fn made(documents: usize) -> (tempfile::TempDir, Index) {
    let dir = in_memory().unwrap();
    let index = Index::create(dir.path().join("index"), &Bundle::for_vectors(DIM).unwrap()).unwrap();
    let summary = index.insert_vectors(embedded(documents)).unwrap();
    assert_eq!(summary.inserted, documents);
    (dir, index)
}

/// A tree with so many leaves, taken in any case.
#[cfg(feature = "train")]
pub(super) fn into(leaves: u32) -> crate::learn::TuneOptions {
    crate::learn::TuneOptions { leaves: Some(leaves), passes: Some(2), always: true, ..Default::default() }
}

pub(super) fn ids(index: &Index, question: Question<'_>, request: &SearchRequest) -> Vec<String> {
    let result = index.search_with(question, request).unwrap();
    result.hits.iter().map(|hit| hit.id.clone()).collect()
}

#[test]
fn vectors_are_searched_and_so_are_words_and_both_together() {
    let (dir, index) = made(40);
    let request = SearchRequest::default().k(3);
    let check = |index: &Index| {
        let near = embedded(40).nth(13).unwrap().1;
        assert_eq!(ids(index, Question::Vector(&near), &request)[0], "d13");
        let by_words = index.search_with("leaked harbour 27", &request).unwrap();
        assert_eq!(by_words.hits[0].id, "d27");
        assert_eq!(by_words.ranked_by, RankedBy::Lexical);
        let both = index.search_with(Question::Encoded("harbour 13", &near), &request).unwrap();
        assert_eq!(both.hits[0].id, "d13");
        assert!(matches!(both.ranked_by, RankedBy::Hybrid { .. }));
        assert_eq!(index.analyzer(), Some(Analyzer::Stems(Language::English)));
        assert_eq!(index.bundle().model().dim(), DIM);
        assert!(index.verify().unwrap().problems.is_empty());
    };
    check(&index);
    index.compact().unwrap();
    check(&index);
    index.snapshot(dir.path().join("copy")).unwrap();
    drop(index);
    check(&Index::open(dir.path().join("index")).unwrap());
    check(&Index::open_read_only(dir.path().join("copy")).unwrap());
}

#[test]
fn what_needs_an_encoder_says_so_and_changes_nothing() {
    let (dir, index) = made(20);
    let no_encoder = |result: Result<()>| match result {
        Err(Error::Input(InputError::NoEncoder)) => {}
        other => panic!("{other:?}"),
    };
    no_encoder(index.insert(Document::new("a", "", "text")).map(drop));
    no_encoder(index.insert_batch([Document::new("a", "", "text")]).map(drop));
    no_encoder(index.search("harbour", 10, 8).map(drop));
    no_encoder(index.search_with("harbour", &SearchRequest::dense()).map(drop));
    let update = DocumentUpdate { text: Some("other".to_owned()), ..DocumentUpdate::default() };
    no_encoder(index.update("d1", &update).map(drop));
    let bundles = Bundles::new();
    let with_encoder = Index::create(dir.path().join("other"), &bundles.a).unwrap();
    no_encoder(with_encoder.reencode(&Bundle::for_vectors(DIM).unwrap()).map(drop));
    // A search by words has no leaves to visit.
    let found = index.search_with("harbour", &SearchRequest::default().beam(2));
    assert!(
        matches!(found, Err(Error::Input(InputError::InapplicableOption { option: "beam", .. }))),
        "{found:?}"
    );
    assert_eq!((index.len(), with_encoder.len()), (20, 0));
    // Metadata needs no encoder.
    let metadata = serde_json::Map::from_iter([("seen".to_owned(), json!(true))]);
    index.update("d1", &DocumentUpdate { metadata, ..DocumentUpdate::default() }).unwrap();
    assert_eq!(index.get("d1").unwrap().unwrap().metadata, Some(json!({ "seen": true })));
}

#[test]
fn options_that_need_an_encoder_are_refused() {
    let (dir, bundle) = (in_memory().unwrap(), Bundle::for_vectors(DIM).unwrap());
    let create = |builder: IndexBuilder| builder.create(dir.path().join("index"), &bundle).map(drop);
    for (builder, refused) in [
        (Index::builder().passages(50, 10), "passages"),
        (Index::builder().sized_passages(), "passages"),
        (Index::builder().analyzer(Analyzer::Tokens), "tokens"),
    ] {
        let error = create(builder).unwrap_err();
        let is_meant =
            matches!(error, Error::Input(InputError::InapplicableOption { option, .. }) if option == refused);
        assert!(is_meant, "{error}");
    }
    for dim in [0, 65_537] {
        assert!(matches!(Bundle::for_vectors(dim), Err(InputError::OutOfRange { .. })));
    }
    let wordless = Index::builder().analyzer(None).similarity(Similarity::DotProduct);
    let index = wordless.create(dir.path().join("index"), &bundle).unwrap();
    index.insert_vectors(embedded(20)).unwrap();
    let found = index.search_with("harbour", &SearchRequest::default());
    assert!(matches!(found, Err(Error::Input(InputError::NoEncoder))), "{found:?}");
    assert!(matches!(
        index.make_lexical(Analyzer::Tokens),
        Err(Error::Input(InputError::InapplicableOption { option: "tokens", .. }))
    ));
    index.make_lexical(Analyzer::Stems(Language::English)).unwrap();
    let request = SearchRequest::lexical();
    assert_eq!(ids(&index, Question::Text("harbour 7"), &request)[0], "d7");
}

#[test]
fn a_judged_question_counts_when_it_is_asked_again() {
    let (_dir, index) = made(20);
    let request = SearchRequest::default().k(3);
    assert_eq!(ids(&index, Question::Text("harbour 3"), &request)[0], "d3");
    for _ in 0..3 {
        index.record("harbour 3", "d5", 1).unwrap();
    }
    assert_eq!(ids(&index, Question::Text("harbour 3"), &request)[0], "d5");
    index.compact().unwrap();
    assert_eq!(ids(&index, Question::Text("harbour 3"), &request)[0], "d5");
}

#[cfg(feature = "train")]
#[test]
fn a_tree_is_made_of_the_vectors_alone_and_undone() {
    use crate::learn::TuneOptions;

    let (dir, index) = made(400);
    let before = index.bundle().hash();
    let nearest = |index: &Index| {
        let near = embedded(400).nth(77).unwrap().1;
        ids(index, Question::Vector(&near), &SearchRequest::default().k(5).exact())
    };
    let exact = nearest(&index);
    let asked = TuneOptions { questions: vec!["a text".to_owned()], ..TuneOptions::default() };
    assert!(matches!(index.tune(&asked), Err(Error::Input(InputError::NoEncoder))));
    assert_eq!(index.tune(&into(8)).unwrap().leaves, 8);
    assert!(index.bundle().has_tree());
    assert_eq!(nearest(&index), exact);
    index.calibrate(&[]).unwrap();
    let near = embedded(400).nth(77).unwrap().1;
    assert_eq!(ids(&index, Question::Vector(&near), &SearchRequest::default().k(1).beam(1)), ["d77"]);
    index.insert_vectors(embedded(410).skip(400)).unwrap();
    drop(index);
    let index = Index::open(dir.path().join("index")).unwrap();
    assert!(index.verify().unwrap().problems.is_empty());
    index.rollback().unwrap();
    assert_eq!((index.bundle().hash(), index.len(), nearest(&index)), (before, 410, exact));
}

#[test]
fn an_encoder_can_be_given_later() {
    let (_dir, index) = made(20);
    let (bundles, before) = (Bundles::new(), index.bundle().hash());
    index.reencode(&bundles.a).unwrap();
    assert_eq!(index.bundle().hash(), bundles.a.hash());
    index.rollback().unwrap();
    assert_eq!((index.bundle().hash(), index.len()), (before, 20));
    index.reencode(&bundles.a).unwrap();
    let metadata = serde_json::Map::from_iter([("seen".to_owned(), json!(true))]);
    index.update("d7", &DocumentUpdate { metadata, ..DocumentUpdate::default() }).unwrap();
    index.insert(Document::new("new", "", "gene")).unwrap();
    let text = DocumentUpdate { text: Some("another text".to_owned()), ..DocumentUpdate::default() };
    index.update("d3", &text).unwrap();
    // Their vectors are not known.
    match index.rollback() {
        Err(Error::Input(error @ InputError::WithoutVector { documents: 2, .. })) => {
            let said = error.to_string();
            assert!(said.contains("\"new\", \"d3\"") && said.contains("ehi export"), "{said}");
        }
        other => panic!("{other:?}"),
    }
    assert_eq!((index.bundle().hash(), index.len()), (bundles.a.hash(), 21));
    index.delete_batch(["new", "d3"]).unwrap();
    // One with new metadata has its vector still.
    let change = index.rollback().unwrap();
    assert_eq!((index.bundle().hash(), index.len(), change.encoded), (before, 19, 0));
    assert_eq!(index.get("d7").unwrap().unwrap().metadata, Some(json!({ "seen": true })));
    let near = embedded(20).nth(7).unwrap().1;
    assert_eq!(ids(&index, Question::Vector(&near), &SearchRequest::default().k(1)), ["d7"]);
}

#[test]
fn an_existing_index_is_opened_by_its_width() {
    let (dir, index) = made(400);
    #[cfg(feature = "train")]
    {
        index.tune(&into(8)).unwrap();
    }
    drop(index);
    let open = |dim| Index::open_or_create(dir.path().join("index"), &Bundle::for_vectors(dim).unwrap());
    assert_eq!(open(DIM).unwrap().len(), 400);
    match open(DIM + 1) {
        Err(Error::Input(InputError::WidthMismatch { index: DIM, given: 9 })) => {}
        other => panic!("{other:?}"),
    }
    open(DIM).unwrap().reencode(&Bundles::new().a).unwrap();
    let with_encoder = open(DIM);
    assert!(
        matches!(with_encoder, Err(Error::Input(InputError::InapplicableOption { option: "dim", .. }))),
        "{with_encoder:?}"
    );
}

#[test]
fn a_vector_of_zeros_is_like_any_other_unless_angles_are_compared() {
    for similarity in [Similarity::DotProduct, Similarity::Manhattan, Similarity::Cosine] {
        let dir = in_memory().unwrap();
        let builder = Index::builder().similarity(similarity);
        let index = builder.create(dir.path().join("index"), &Bundle::for_vectors(DIM).unwrap()).unwrap();
        index.insert_vectors(embedded(50)).unwrap();
        // Its scores could be infinite, and differences of them no numbers.
        let huge = index.search_with(&[3e38; DIM], &SearchRequest::default());
        let is_refused = matches!(huge, Err(Error::Input(InputError::BadVector)));
        assert_eq!(is_refused, similarity != Similarity::Cosine);
        let zeros = vec![0.0; DIM];
        let zero = (Document::new("zero", "", ""), zeros.clone());
        let stored = index.insert_vectors([zero]).unwrap().inserted;
        let nearest = index.search_with(&*zeros, &SearchRequest::default().k(1));
        if similarity == Similarity::Cosine {
            assert_eq!(stored, 0);
            assert!(matches!(nearest, Err(Error::Input(InputError::BadVector))));
            continue;
        }
        assert_eq!(stored, 1);
        if similarity == Similarity::Manhattan {
            assert_eq!(nearest.unwrap().hits[0].id, "zero");
        }
        #[cfg(feature = "train")]
        {
            index.tune(&into(4)).unwrap();
            index.calibrate(&[]).unwrap();
        }
        index.compact().unwrap();
        assert!(index.verify().unwrap().problems.is_empty());
        assert_eq!(index.vectors(["zero"]).unwrap(), [vec![zeros]]);
    }
}

#[test]
fn forged_models_without_an_encoder_are_refused() {
    let (_dir, index) = made(1);
    let folder = index.serving().store.path().join(disk::names::BUNDLE);
    let sound = fs::read_to_string(folder.join(MANIFEST_FILE)).unwrap();
    let other = in_memory().unwrap();
    let open = |from: &str, to: &str| {
        assert!(sound.contains(from), "{sound}");
        fs::write(other.path().join(MANIFEST_FILE), sound.replace(from, to)).unwrap();
        Bundle::open(other.path())
    };
    assert!(open("\"dim\"", "\"dim\"").is_ok());
    for (from, to) in [
        ("\"dim\": 8", "\"dim\": 0"),
        ("\"dim\": 8", "\"dim\": 4294967295"),
        ("\"files\": {}", "\"files\": {\"tokenizer.json\": \"00\"}"),
        ("\"files\": {}", "\"files\": {\"../x\": \"00\"}"),
        ("\"height\": 1", "\"height\": 2"),
        ("\"branching_factor\": 1", "\"branching_factor\": 9"),
        ("\"has_encoder\": false", "\"has_encoder\": true"),
    ] {
        let opened = open(from, to);
        assert!(matches!(opened, Err(ModelError::BadSetting { .. })), "{to}: {opened:?}");
    }
}
