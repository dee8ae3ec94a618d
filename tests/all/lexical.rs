//! Searches by words, and by words and embeddings together.

use std::collections::{BTreeMap, HashSet};
use std::fs;
use std::ops::ControlFlow;

use crate::support::{DOCUMENTS, Shape, bundle, copy_directory, document, documents, filled, id};
use ehi::FEWEST_FUSION_QUESTIONS;
use ehi::model::Role;
use ehi::search::DEFAULT_ALPHA;
use ehi::store::StoreError;
use ehi::{
    Analyzer, Bundle, Document, Error, Filter, Fusion, Hit, Index, InputError, Judgment, Language,
    SearchRequest, SearchResult, no_progress,
};
use serde_json::json;

const SHAPE: Shape = Shape { height: 2 };

/// The tokens of a text as the encoder reads them, without the two special ones at the ends.
fn tokens(bundle: &Bundle, text: &str) -> Vec<u32> {
    let ids = bundle.model().encoder().unwrap().tokenize(text, Role::Document).unwrap();
    ids[1..ids.len() - 1].to_vec()
}

/// BM25 of every document, by its definition and in f64: Lucene's variant, as computed by bm25s.
fn bm25(bundle: &Bundle, texts: &[(String, String)], question: &str) -> BTreeMap<String, f64> {
    let (k1, b) = (1.2, 0.75);
    let all: Vec<Vec<u32>> = texts.iter().map(|(_, text)| tokens(bundle, text)).collect();
    let count = all.len() as f64;
    let average = all.iter().map(|own| own.len() as f64).sum::<f64>() / count;
    let mut scores = BTreeMap::new();
    for term in tokens(bundle, question) {
        let holding = all.iter().filter(|own| own.contains(&term)).count() as f64;
        let idf = (1.0 + (count - holding + 0.5) / (holding + 0.5)).ln();
        for ((id, _), own) in texts.iter().zip(&all) {
            let tf = own.iter().filter(|token| **token == term).count() as f64;
            if tf > 0.0 {
                let norm = k1 * (1.0 - b + b * own.len() as f64 / average);
                *scores.entry(id.clone()).or_insert(0.0) += idf * tf / (tf + norm);
            }
        }
    }
    scores
}

fn text_of(document: &Document) -> (String, String) {
    (document.id.clone(), document.embedding_text().into_owned())
}

#[track_caller]
fn assert_scores(index: &Index, texts: &[(String, String)], question: &str) {
    let expected = bm25(&index.bundle(), texts, question);
    let found = index.search_with(question, &SearchRequest::lexical().k(texts.len())).unwrap();
    assert_eq!(found.len(), expected.len(), "{question}");
    for hit in &found {
        assert!((f64::from(hit.score) - expected[&hit.id]).abs() < 1e-4, "{question}: {}", hit.id);
        assert_eq!(hit.scores.lexical, Some(hit.score));
        assert_eq!((hit.scores.dense, hit.scores.dense_rank), (None, None));
    }
    assert!(found.hits.is_sorted_by(|a, b| a.score >= b.score));
}

const QUESTIONS: [&str; 6] =
    ["cell and gene 17", "the tree of the index", "virus virus protein", "what is a query for", "7", "leaf."];

#[test]
fn scores_are_those_of_the_definition_wherever_rows_lie() {
    let (dir, index) = filled(SHAPE, 0);
    let mut texts: Vec<_> = (0..DOCUMENTS).map(|n| text_of(&document(n))).collect();
    index.insert_batch((0..DOCUMENTS).map(document)).unwrap();
    let all = |index: &Index, texts: &[_]| QUESTIONS.iter().for_each(|q| assert_scores(index, texts, q));
    all(&index, &texts);
    index.flush().unwrap();
    all(&index, &texts);
    // Sealed rows and rows in memory, in several parts.
    for n in DOCUMENTS..DOCUMENTS + 30 {
        index.insert(document(n)).unwrap();
        texts.push(text_of(&document(n)));
    }
    all(&index, &texts);
    // After a crash, the log has documents, and their terms follow from their texts.
    let copy = dir.path().join("copy");
    copy_directory(index.path(), &copy);
    let _ = fs::remove_file(copy.join("LOCK"));
    all(&Index::open(&copy).unwrap(), &texts);
    index.compact().unwrap();
    all(&index, &texts);
    assert!(index.verify().unwrap().is_sound());
    assert!(index.verify().unwrap().term_postings > DOCUMENTS as u64);
    drop(index);
    all(&Index::open_read_only(dir.path().join("index")).unwrap(), &texts);
}

#[test]
fn what_is_replaced_or_deleted_is_not_found() {
    let (_dir, index) = filled(SHAPE, 60);
    index.insert(Document::new("new", "", "zebra quagga")).unwrap();
    index.flush().unwrap();
    let found = |index: &Index| -> Vec<String> {
        index
            .search_with("quagga", &SearchRequest::lexical())
            .unwrap()
            .hits
            .into_iter()
            .map(|hit| hit.id)
            .collect()
    };
    assert_eq!(found(&index), ["new"]);
    index.insert(Document::new("new", "", "nothing of it")).unwrap();
    assert!(found(&index).is_empty());
    index.insert(Document::new("other", "quagga", "")).unwrap();
    assert_eq!(found(&index), ["other"]);
    index.delete("other").unwrap();
    assert!(found(&index).is_empty());
    index.compact().unwrap();
    assert!(found(&index).is_empty());
    // Statistics cover the remaining rows.
    let texts: Vec<_> = index.iter().map(|document| text_of(&document.unwrap())).collect();
    assert_scores(&index, &texts, "tree and cell");
}

fn ids(result: &SearchResult) -> Vec<&str> {
    result.iter().map(|hit| hit.id.as_str()).collect()
}

#[test]
fn signs_mean_what_they_mean_in_any_search_box() {
    let (_dir, index) = filled(SHAPE, 0);
    let texts = [
        ("a", "the tree has a leaf"),
        ("b", "the tree has a level"),
        ("c", "a leaf is near the tree"),
        ("d", "treeless space"),
        ("e", "cancer cell and gene"),
    ];
    index.insert_batch(texts.map(|(id, text)| Document::new(id, "", text))).unwrap();
    let found = |question: &str| -> HashSet<String> {
        let result = index.search_with(question, &SearchRequest::lexical()).unwrap();
        result.hits.into_iter().map(|hit| hit.id).collect()
    };
    let set = |ids: &[&str]| ids.iter().map(|id| (*id).to_owned()).collect::<HashSet<_>>();
    assert_eq!(found("tree"), found("tree ?"));
    assert_eq!(found("+leaf tree"), set(&["a", "c"]));
    assert_eq!(found("tree -leaf"), found("tree").difference(&set(&["a", "c"])).cloned().collect());
    assert_eq!(found("\"tree has\""), set(&["a", "b"]));
    assert_eq!(found("tree -\"tree has\""), found("tree").difference(&set(&["a", "b"])).cloned().collect());
    assert_eq!(found("+leaf +level"), set(&[]));
    // Punctuation has no meaning anywhere.
    for question in ["+leaf, tree", "+leaf. tree!", "(+leaf) +leaf?", "\u{201c}leaf.\u{201d}"] {
        assert_eq!(found(question), set(&["a", "c"]), "{question}");
    }
    index.insert(Document::new("g", "", "space, gene; cell.")).unwrap();
    assert_eq!(found("\"space gene (cell)\""), set(&["g"]));
    assert!(found("?").is_empty() && found("...").is_empty());
    assert_eq!(found("+leaf \".\" -\"?!\" tree"), set(&["a", "c"]));
    index.delete("g").unwrap();
    // A required or excluded word is a whole one.
    assert!(!found("+tree").contains("d"));
    assert!(found("space -tree").contains("d"));
    // Characters unknown to the tokenizer are searched literally.
    index.insert(Document::new("f", "", "only \u{732b} here \u{1F600}")).unwrap();
    assert!(found("only").contains("f") && !found("only -\u{732b}").contains("f"));
    assert!(!found("only -\"\u{1F600}\"").contains("f") && found("\"only \u{732b}\"").contains("f"));
    assert!(found("\"only \u{9f20}\"").is_empty());
    // A word unknown to the tokenizer still separates its neighbours.
    index.insert(Document::new("h", "", "gene \u{1F600} level")).unwrap();
    assert!(found("+gene +level").contains("h") && !found("\"gene level\"").contains("h"));
    index.delete("h").unwrap();
    let signs: String = (0..40).map(|n| format!("-w{n} ")).collect();
    let too_many = index.search_with(&format!("tree {signs}"), &SearchRequest::lexical());
    assert!(matches!(too_many, Err(Error::Input(InputError::TooManySigned { most: 32 }))));
    assert!(found(&format!("tree {}", "-leaf ".repeat(5000))).contains("b"));
    // Other signs neither fail nor mean anything.
    for question in ["tree -", "tree + leaf", "state-of-the-art tree", "\"tree", "C++ tree", "tree - leaf"] {
        assert!(found(question).contains("a"), "{question}");
    }
    // The same for hybrid searches.
    let both = index.search_with("+leaf tree", &SearchRequest::hybrid(Fusion::Convex(0.5))).unwrap();
    assert_eq!(both.iter().map(|hit| hit.id.clone()).collect::<HashSet<_>>(), set(&["a", "c"]));
    let both = index.search_with("tree -leaf", &SearchRequest::hybrid(Fusion::Rrf { k: 60.0 })).unwrap();
    assert!(!both.is_empty() && both.iter().all(|hit| hit.id != "a" && hit.id != "c"));
}

fn hybrid() -> SearchRequest {
    SearchRequest::hybrid(Fusion::Convex(0.6))
}

#[test]
fn a_hybrid_search_joins_both_scores_of_every_candidate() {
    let (_dir, index) = filled(SHAPE, DOCUMENTS);
    let texts: Vec<_> = (0..DOCUMENTS).map(|n| text_of(&document(n))).collect();
    for question in QUESTIONS {
        // With so few documents, all are candidates.
        let dense = index.search_with(question, &SearchRequest::dense().exact().k(DOCUMENTS)).unwrap();
        let words = bm25(&index.bundle(), &texts, question);
        let dense: BTreeMap<&str, f32> = dense.iter().map(|hit| (hit.id.as_str(), hit.score)).collect();
        let found = index.search_with(question, &hybrid().k(DOCUMENTS)).unwrap();
        assert_eq!(found.len(), DOCUMENTS);
        let bound = |of: fn(f32, f32) -> f32, start| dense.values().copied().fold(start, of);
        let (low, high) = (bound(f32::min, f32::INFINITY), bound(f32::max, f32::NEG_INFINITY));
        let most = words.values().copied().fold(0.0, f64::max);
        for hit in &found {
            let by_words = words.get(&hit.id).copied().unwrap_or(0.0);
            let scaled = f64::from(dense[hit.id.as_str()] - low) / f64::from(high - low);
            let expected = 0.6 * scaled + 0.4 * if most > 0.0 { by_words / most } else { 0.0 };
            assert!((f64::from(hit.score) - expected).abs() < 1e-4, "{question}: {} {expected}", hit.score);
            assert!((hit.scores.dense.unwrap() - dense[hit.id.as_str()]).abs() < 1e-5);
            assert_eq!(hit.scores.lexical_rank.is_some(), by_words > 0.0);
        }
        // Candidates are the same for up to 48 hits.
        let fewer = index.search_with(question, &hybrid().k(5)).unwrap();
        assert_eq!(ids(&index.search_with(question, &hybrid().k(48)).unwrap())[..5], ids(&fewer)[..]);
        // At either end of the weight, it equals one of the two.
        let alone = index.search_with(question, &SearchRequest::hybrid(Fusion::Convex(1.0))).unwrap();
        assert_eq!(
            ids(&alone),
            ids(&index.search_with(question, &SearchRequest::dense().exact()).unwrap()),
            "{question}"
        );
    }
}

#[test]
fn every_option_of_embeddings_works_beside_words() {
    let (_dir, index) = filled(SHAPE, DOCUMENTS);
    let filter: Filter = r#"{"place": {"$lt": 40}}"#.parse().unwrap();
    let question = QUESTIONS[0];
    let all = index.search_with(question, &hybrid().k(DOCUMENTS).filter(&filter)).unwrap();
    let passing = |hit: &Hit| {
        index.search_with(question, &SearchRequest::lexical().filter(&filter).k(DOCUMENTS)).is_ok_and(
            |words| words.iter().any(|other| other.id == hit.id) || hit.scores.lexical == Some(0.0),
        )
    };
    assert!(!all.is_empty() && all.iter().all(passing));
    for request in
        [hybrid().beam(16), hybrid().exact(), hybrid().recall(0.9), hybrid().codes(true), hybrid().parallel()]
    {
        let found = index.search_with(question, &request.k(DOCUMENTS).filter(&filter)).unwrap();
        assert_eq!(ids(&found), ids(&all));
    }
    let batch = index.search_many(&QUESTIONS, &SearchRequest::hybrid(Fusion::Convex(0.6))).unwrap();
    for (question, found) in QUESTIONS.iter().zip(&batch) {
        assert_eq!(ids(found), ids(&index.search_with(question, &hybrid()).unwrap()));
    }
    let batch = index.search_many(&QUESTIONS, &SearchRequest::lexical()).unwrap();
    for (question, found) in QUESTIONS.iter().zip(&batch) {
        assert_eq!(ids(found), ids(&index.search_with(question, &SearchRequest::lexical()).unwrap()));
    }
    let explained = index.explain(question, &hybrid(), false).unwrap();
    for hit in &explained.hits {
        let sum: f32 = hit.terms.iter().map(|term| term.weight).sum();
        assert!((sum - hit.hit.scores.lexical.unwrap()).abs() < 1e-4, "{:?}", hit.terms);
    }
    assert!(explained.hits.iter().any(|hit| hit.terms.iter().any(|term| term.term == "cell")));
    // Exact search reports the same two scores of a document as the search itself.
    let explained = index.explain(question, &hybrid().exact(), true).unwrap();
    for (exact, hit) in explained.exact.unwrap().iter().zip(&explained.hits) {
        assert_eq!((&exact.hit.id, exact.hit.scores), (&hit.hit.id, hit.hit.scores));
    }
    assert!(
        index
            .explain(question, &SearchRequest::dense(), false)
            .unwrap()
            .hits
            .iter()
            .all(|hit| hit.terms.is_empty())
    );
}

#[track_caller]
fn refused<T: std::fmt::Debug>(result: ehi::Result<T>) -> InputError {
    match result {
        Err(Error::Input(error)) => error,
        other => panic!("{other:?}"),
    }
}

#[test]
fn bad_input_is_an_error_and_odd_input_an_answer() {
    let (_dir, index) = filled(SHAPE, 60);
    let lexical = |question: &str| index.search_with(question, &SearchRequest::lexical());
    for question in ["-tree", "-tree -\"a leaf\"", " -cell "] {
        assert_eq!(refused(lexical(question)), InputError::OnlyExclusions, "{question}");
        assert_eq!(refused(index.search_with(question, &hybrid())), InputError::OnlyExclusions);
    }
    assert_eq!(refused(lexical("  ")), InputError::EmptyQuery);
    assert_eq!(refused(index.search_with(&[1.0; 128], &SearchRequest::lexical())), InputError::NoWords);
    assert_eq!(refused(index.search_with(&[1.0; 128], &hybrid())), InputError::NoWords);
    let conflicts = [
        index.search_with("tree", &SearchRequest::lexical().beam(3)),
        index.search_with("tree", &SearchRequest::lexical().exact()),
        index.search_with("tree", &SearchRequest::lexical().recall(0.9)),
        index.search_with("tree", &SearchRequest::lexical().codes(true)),
        index.search_with("tree", &SearchRequest::lexical().parallel()),
    ];
    for result in conflicts {
        assert!(matches!(refused(result), InputError::Conflict { options: ["lexical", _] }));
    }
    assert!(matches!(
        refused(index.search_with("tree", &SearchRequest::dense().bm25(1.0, 0.5))),
        InputError::Conflict { options: ["dense", "bm25"] }
    ));
    for (k1, b) in [(-1.0, 0.5), (f32::NAN, 0.5), (1.0, 1.5)] {
        let bad = index.search_with("tree", &SearchRequest::lexical().bm25(k1, b));
        assert!(matches!(refused(bad), InputError::OutOfRange { .. }));
    }
    for fusion in [Fusion::Convex(1.1), Fusion::Rrf { k: -1.0 }] {
        assert!(matches!(
            refused(index.search_with("tree", &SearchRequest::hybrid(fusion))),
            InputError::OutOfRange { .. }
        ));
    }
    // Only stop words, words in no document, other scripts, very many words, only signs.
    assert!(!lexical("the of and to").unwrap().is_empty());
    assert!(lexical("\u{1F600}\u{1F600}").unwrap().is_empty());
    let many = (0..100_000).map(|n| format!("cell{n} ")).collect::<String>();
    assert!(!lexical(&many).unwrap().is_empty());
    for question in
        ["\u{645}\u{631}\u{62d}\u{628}\u{627}", "\u{4f60}\u{597d}", "+", "\"\"", "\u{0}", "+\"", "--"]
    {
        let found = lexical(question).unwrap();
        assert!(found.len() <= 10, "{question}");
        assert_eq!(index.search_with(question, &hybrid()).unwrap().len(), 10, "{question}");
    }
    // An empty index, and one of documents without any text.
    let (_dir, empty) = filled(SHAPE, 0);
    assert!(empty.search_with("tree", &SearchRequest::lexical()).unwrap().is_empty());
    empty.insert_vectors([(Document::new("v", "", ""), vec![1.0; 128])]).unwrap();
    assert!(empty.search_with("tree", &SearchRequest::lexical()).unwrap().is_empty());
    assert_eq!(empty.search_with("tree", &hybrid()).unwrap().len(), 1);
}

#[test]
fn an_index_made_without_gets_posting_lists_later() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("index");
    let index = Index::builder().analyzer(None).create(&path, &bundle(SHAPE)).unwrap();
    index.insert_batch(documents(80)).unwrap();
    assert!(!index.is_lexical() && index.stats().unwrap().bytes.terms == 0);
    let refused = |index: &Index| {
        let lexical = index.search_with("tree", &SearchRequest::lexical());
        assert!(matches!(lexical, Err(Error::Store(StoreError::NotLexical))));
        let both = index.search_with("tree", &hybrid());
        assert!(matches!(both, Err(Error::Store(StoreError::NotLexical))));
        assert!(matches!(index.fuse(&[]), Err(Error::Store(StoreError::NotLexical))));
    };
    index.flush().unwrap();
    refused(&index);
    index.insert_batch((80..DOCUMENTS).map(document)).unwrap();
    let reader = Index::open_read_only(&path).unwrap();
    index.make_lexical(Analyzer::Tokens).unwrap();
    assert!(index.is_lexical() && index.verify().unwrap().is_sound());
    let texts: Vec<_> = (0..DOCUMENTS).map(|n| text_of(&document(n))).collect();
    assert_scores(&index, &texts, QUESTIONS[0]);
    assert!(reader.refresh().unwrap() && reader.is_lexical());
    assert_scores(&reader, &texts, QUESTIONS[0]);
    // It stays that way, with later inserts and with another model.
    index.insert(document(DOCUMENTS)).unwrap();
    index.flush().unwrap();
    let texts: Vec<_> = (0..=DOCUMENTS).map(|n| text_of(&document(n))).collect();
    assert_scores(&index, &texts, QUESTIONS[0]);
    index.reencode(&bundle(Shape::of_height(1))).unwrap();
    assert!(index.is_lexical());
    assert_scores(&index, &texts, QUESTIONS[0]);
    drop((index, reader));
    let opened = Index::builder().analyzer(None).open(&path);
    assert!(matches!(opened, Err(Error::Input(InputError::InapplicableOption { option: "analyzer", .. }))));
    assert!(Index::builder().analyzer(Analyzer::Tokens).open(&path).is_ok());
}

#[test]
fn stemmed_words_are_found_in_every_form() {
    let english = Analyzer::Stems(Language::English);
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("index");
    let index = Index::builder().analyzer(english).create(&path, &bundle(SHAPE)).unwrap();
    assert_eq!((index.analyzer(), index.stats().unwrap().analyzer), (Some(english), Some(english)));
    let texts = [
        ("a", "A LEAKING pipe, and leaks of oil."),
        ("b", "generously leaked documents"),
        ("c", "the pipe is sound; pipes are not \u{1F600} here"),
    ];
    index.insert_batch(texts.map(|(id, text)| Document::new(id, "", text))).unwrap();
    let found = |index: &Index, question: &str| -> HashSet<String> {
        let result = index.search_with(question, &SearchRequest::lexical()).unwrap();
        result.hits.into_iter().map(|hit| hit.id).collect()
    };
    let set = |ids: &[&str]| ids.iter().map(|id| (*id).to_owned()).collect::<HashSet<_>>();
    let check = |index: &Index| {
        assert_eq!(found(index, "leak?"), set(&["a", "b"]));
        assert_eq!(found(index, "+leaks pipe"), set(&["a", "b"]));
        assert_eq!(found(index, "pipe -leak"), set(&["c"]));
        assert_eq!(found(index, "\"leak pipes\""), set(&["a"]));
        assert_eq!(found(index, "\"pipe leak\""), set(&[]));
        assert!(found(index, "unheard ?").is_empty());
    };
    check(&index);
    index.flush().unwrap();
    check(&index);
    let explained =
        index.explain("Leaks in a Pipe", &SearchRequest::hybrid(Fusion::Convex(0.5)), false).unwrap();
    let terms = explained.hits.iter().flat_map(|hit| &hit.terms).map(|term| term.term.as_str());
    let terms: HashSet<&str> = terms.collect();
    assert!(terms.contains("Leaks") && terms.contains("Pipe"), "{terms:?}");
    assert!(index.verify().unwrap().is_sound());
    // With every change of model, in copies, and after recovery from a log.
    index.reencode(&bundle(Shape::of_height(1))).unwrap();
    check(&index);
    let copy = dir.path().join("copy");
    index.snapshot(&copy).unwrap();
    check(&Index::open_read_only(&copy).unwrap());
    index.insert(Document::new("d", "", "one that leaks")).unwrap();
    let cut = dir.path().join("cut");
    copy_directory(index.path(), &cut);
    let _ = fs::remove_file(cut.join("LOCK"));
    assert!(found(&Index::open(&cut).unwrap(), "leaking").contains("d"));
    index.delete("d").unwrap();
    // Another analyzer is refused, the same one compacts the index.
    let other = refused(index.make_lexical(Analyzer::Tokens));
    assert_eq!(other, InputError::AnalyzerMismatch { index: english, given: Analyzer::Tokens });
    index.make_lexical(english).unwrap();
    check(&index);
    drop(index);
    let other = Index::builder().analyzer(Analyzer::Tokens).open(&path);
    assert!(matches!(other, Err(Error::Input(InputError::AnalyzerMismatch { .. }))));
    check(&Index::builder().analyzer(english).open(&path).unwrap());
    // Added later, for existing documents; a read-only handle sees it.
    let path = dir.path().join("later");
    let index = Index::builder().analyzer(None).create(&path, &bundle(SHAPE)).unwrap();
    index.insert_batch(texts.map(|(id, text)| Document::new(id, "", text))).unwrap();
    index.flush().unwrap();
    let reader = Index::open_read_only(&path).unwrap();
    index.make_lexical(english).unwrap();
    check(&index);
    assert!(reader.refresh().unwrap());
    check(&reader);
}

#[test]
fn words_that_were_added_stay_with_every_change_of_model() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("index");
    let index = Index::builder().analyzer(None).create(&path, &bundle(SHAPE)).unwrap();
    index.insert_batch(documents(DOCUMENTS)).unwrap();
    let texts: Vec<_> = (0..DOCUMENTS).map(|n| text_of(&document(n))).collect();
    // A change that started without words, and is continued.
    let other = bundle(Shape::of_height(1));
    let cut = index.with_progress(|_| ControlFlow::Break(()));
    assert!(matches!(cut.reencode(&other), Err(Error::Cancelled)));
    index.make_lexical(Analyzer::Tokens).unwrap();
    index.reencode(&other).unwrap();
    assert!(index.is_lexical() && index.verify().unwrap().is_sound());
    assert_scores(&index, &texts, QUESTIONS[0]);
    // A kept model from before the index had words.
    let index = Index::builder().analyzer(None).create(dir.path().join("kept"), &bundle(SHAPE)).unwrap();
    index.insert_batch(documents(DOCUMENTS)).unwrap();
    index.reencode(&other).unwrap();
    index.make_lexical(Analyzer::Tokens).unwrap();
    index.rollback().unwrap();
    assert!(index.is_lexical() && index.verify().unwrap().is_sound());
    assert_scores(&index, &texts, QUESTIONS[0]);
}

/// Judgments decided by words: for each question the document that shares the most of its words.
fn by_words(count: usize) -> Vec<Judgment> {
    (0..count).map(|n| Judgment::new(format!("{} {n}", document(n).title), id(n), 1)).collect()
}

#[test]
fn exclusions_leave_as_many_hits_as_there_are() {
    let (_dir, index) = filled(SHAPE, 0);
    // The embeddings of many are similar, and all but a few contain the excluded word.
    let text =
        |n: usize| if n.is_multiple_of(50) { format!("gene protein {n}") } else { format!("gene virus {n}") };
    index.insert_batch((0..600).map(|n| Document::new(id(n), "", text(n)))).unwrap();
    let found = index.search_with("gene virus -virus", &SearchRequest::hybrid(Fusion::Convex(0.5)).k(12));
    // Every required word is also excluded.
    assert_eq!(found.unwrap().len(), 12);
}

#[test]
fn a_default_search_is_none_of_words_where_there_are_none() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("index");
    let index = Index::builder().analyzer(None).create(&path, &bundle(SHAPE)).unwrap();
    index.insert_batch(documents(80)).unwrap();
    assert_eq!(index.search_with("tree -leaf", &SearchRequest::default()).unwrap().len(), 10);
    // Words added since are also added to the first model; what was learned stays with the other one.
    index.reencode(&bundle(Shape::of_height(1))).unwrap();
    index.make_lexical(Analyzer::Tokens).unwrap();
    index.fuse(&by_words(80)).unwrap();
    for learned in [false, true] {
        index.rollback().unwrap();
        assert_eq!((index.is_lexical(), index.fusion().is_some()), (true, learned));
    }
    // Signs mean the same in a default search as in the others, whether words help or not.
    let learned = |question: &str| index.search_with(question, &SearchRequest::default());
    let hybrid = index.search_with("+tree -leaf", &SearchRequest::hybrid(Fusion::Learned)).unwrap();
    assert_eq!(ids(&learned("+tree -leaf").unwrap()), ids(&hybrid));
    assert!(learned("+nothing").unwrap().is_empty());
    // Signs that cannot be honoured are text, with a note.
    let many: String = (0..40).map(|n| format!("+w{n} ")).collect();
    for text in ["-tree", &many] {
        let found = learned(text).unwrap();
        assert!(found.len() == 10 && found.signs.ignored, "{text}");
    }
    // Before the first flush, and without documents, it has no words either.
    let empty = Index::builder().analyzer(None).create(dir.path().join("empty"), &bundle(SHAPE)).unwrap();
    assert!(matches!(
        empty.search_with("tree", &SearchRequest::lexical()),
        Err(Error::Store(StoreError::NotLexical))
    ));
    empty.insert(document(1)).unwrap();
    assert!(matches!(
        empty.search_with("tree", &SearchRequest::lexical()),
        Err(Error::Store(StoreError::NotLexical))
    ));
}

#[test]
fn the_weight_is_learned_and_kept() {
    let (dir, index) = filled(SHAPE, DOCUMENTS);
    let few = index.fuse(&by_words(FEWEST_FUSION_QUESTIONS - 1)).unwrap();
    assert_eq!((few.questions, few.fusion), (FEWEST_FUSION_QUESTIONS - 1, None));
    assert_eq!(index.fusion(), None);
    // Without a learned weight, the default one, also by default.
    let found = |request: SearchRequest| index.search_with("tree", &request).unwrap();
    let expected = found(SearchRequest::hybrid(Fusion::Convex(DEFAULT_ALPHA)));
    assert_eq!(ids(&found(SearchRequest::hybrid(Fusion::Learned))), ids(&expected));
    assert_eq!(ids(&found(SearchRequest::default())), ids(&expected));
    assert_ne!(ids(&found(SearchRequest::dense())), ids(&expected));

    // Spelling variants are one question.
    let spelled = (0..80)
        .map(|n| Judgment::new(format!("the tree{}", " ?".repeat(n)), id(n % 3), 1))
        .collect::<Vec<_>>();
    assert_eq!(index.fuse(&spelled).unwrap().questions, 1);
    index.record_all(by_words(80)).unwrap();
    let fused = index.fuse(&[]).unwrap();
    let fusion = fused.fusion.unwrap();
    assert_eq!((fused.questions, fusion.questions, fusion.weights.len()), (80, 80, 21));
    assert_eq!(index.fusion(), Some(fusion.clone()));
    if fusion.words_help {
        assert!(fusion.p_value < 0.05 && fusion.hybrid > fusion.dense);
        assert!(fusion.weights[(fusion.alpha * 20.0).round() as usize] > fusion.dense);
    } else {
        assert_eq!(fusion.alpha, 1.0);
    }
    let learned = index.search_with("tree", &SearchRequest::hybrid(Fusion::Learned)).unwrap();
    let given = index.search_with("tree", &SearchRequest::hybrid(Fusion::Convex(fusion.alpha))).unwrap();
    assert_eq!(ids(&learned), ids(&given));

    // It is durable, and included in a copy; a model with another encoder does not have it, one with the same
    // encoder does.
    let copy = dir.path().join("copy");
    index.snapshot(&copy).unwrap();
    assert_eq!(Index::open(&copy).unwrap().fusion(), Some(fusion.clone()));
    drop(index);
    let path = dir.path().join("index");
    let index = Index::open(&path).unwrap();
    assert_eq!(index.fusion(), Some(fusion.clone()));
    index.reencode(&bundle(Shape::of_height(1))).unwrap();
    // The tree changes, and so does the query encoder of the bundle.
    assert_eq!(index.fusion().map(|own| (own.alpha, own.weights)), Some((fusion.alpha, fusion.weights)));
    assert_eq!(index.fusion().unwrap().fast, None);
    drop(index);
    // A damaged one is ignored, with a notice.
    let file = fs::read_dir(path.join("models")).unwrap().flatten().find_map(|model| {
        let file = model.path().join("MEASURED");
        (file.exists() && model.file_name() != "1").then_some(file)
    });
    fs::write(file.unwrap(), "what is this").unwrap();
    let index = Index::open(&path).unwrap();
    assert_eq!(index.fusion(), None);
    let report = index.verify().unwrap();
    assert!(report.is_sound() && report.warnings[0].to_string().contains("MEASURED is damaged"));
}

/// Bytes of a file covered by one checksum.
const PAGE: usize = 64 << 10;

#[test]
fn damaged_posting_lists_are_found_and_made_again() {
    let (dir, index) = filled(SHAPE, 0);
    let words =
        |n: usize| -> String { (0..6).map(|m| format!("{} ", (n * 7919 + m * m * 31) % 9973)).collect() };
    let all = (0..20_000).map(|n| Document::new(id(n), "", words(n)));
    index
        .insert_vectors(all.clone().enumerate().map(|(n, document)| (document, vec![n as f32 + 1.0; 128])))
        .unwrap();
    index.compact().unwrap();
    // Enough for pages of their own: a page is damaged as a whole.
    assert!(index.stats().unwrap().bytes.terms > 2 * (64 << 10));
    let before = index.search_with("17 3919", &SearchRequest::lexical().k(300)).unwrap();
    let begins = index.stats().unwrap().bytes.terms as usize;
    drop(index);
    let path = dir.path().join("index");
    let segments = path.join("models/1/segments");
    let file = fs::read_dir(segments).unwrap().flatten().map(|entry| entry.path());
    let file =
        file.into_iter().find(|path| path.extension().is_some_and(|kind| kind == "documents")).unwrap();
    let mut bytes = fs::read(&file).unwrap();
    // The last section before the checksums is of terms. They begin on a page of their own.
    let first = (bytes.len() - begins).next_multiple_of(PAGE) - PAGE;
    for at in [bytes.len() - 4000, first + 5] {
        bytes[at] ^= 1;
    }
    fs::write(&file, bytes).unwrap();
    let damaged = Index::open_read_only(&path).unwrap();
    assert!(!damaged.verify().unwrap().is_sound());
    drop(damaged);
    let report = Index::repair(&path, &ehi::RepairOptions::default(), &mut no_progress).unwrap();
    assert_eq!((report.lost, report.documents), (0, 20_000));
    let index = Index::open(&path).unwrap();
    assert!(index.verify().unwrap().is_sound());
    let after = index.search_with("17 3919", &SearchRequest::lexical().k(300)).unwrap();
    assert!(!after.is_empty());
    assert_eq!(after.hits, before.hits);
}

#[test]
fn a_text_longer_than_the_encoder_reads_is_found_by_its_last_word() {
    let (_dir, index) = filled(SHAPE, 20);
    let long = format!("{} quagga", "tree leaf level ".repeat(20_000));
    index.insert(Document::new("long", "", long).with_metadata(json!({ "n": 1 }))).unwrap();
    assert_eq!(ids(&index.search_with("quagga", &SearchRequest::lexical()).unwrap()), ["long"]);
    index.flush().unwrap();
    assert_eq!(ids(&index.search_with("+quagga -cell", &SearchRequest::lexical()).unwrap()), ["long"]);
}
