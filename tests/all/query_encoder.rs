//! Query encoders: created by training and by `distil`, and how searches use them.

use std::fs;

use crate::program::{ehi, text};
use crate::support::{Shape, WIDTH, bundle, copy_directory, corpus_lines, dataset, documents, filled, id};
use ehi::data::Dataset;
use ehi::train::{self, DistilOptions, QueryEncoderChoice, TrainError, TrainingSet};
use ehi::{
    Bundle, Error, Filter, Index, InputError, Judgment, Progress, QueryEncoder, SearchRequest, Stage,
    no_progress,
};
use serde_json::Value;
use std::ops::ControlFlow;
use tempfile::TempDir;

const SHAPE: Shape = Shape { height: 1 };
const STORED: usize = 120;
const QUESTION: &str = "tree leaf index search";

/// Options of a short run.
fn short() -> DistilOptions {
    DistilOptions { passes: 2, ..DistilOptions::default() }
}

/// A copy of a small bundle, without a query encoder.
fn copied(dir: &TempDir) -> Bundle {
    let path = dir.path().join("bundle");
    copy_directory(bundle(SHAPE).path(), &path);
    let copied = Bundle::open(path).unwrap();
    let none = DistilOptions { query_encoder: QueryEncoderChoice::None, ..DistilOptions::default() };
    let set = TrainingSet::read(&Dataset::open(dataset()).unwrap(), 0.2).unwrap();
    assert!(train::distil(&copied, &set, &none, &mut no_progress).unwrap().is_none());
    copied
}

/// An index whose model has a query encoder.
fn with_fast() -> (TempDir, Index) {
    let (dir, index) = filled(SHAPE, STORED);
    index.distil(&short()).unwrap().unwrap();
    (dir, index)
}

/// A question that the fast encoder reads itself.
fn sure(index: &Index) -> String {
    let texts = documents(STORED).into_iter().map(|document| document.text);
    let is_sure = |text: &String| {
        let found = index.search_with(text, &SearchRequest::dense().encoder(QueryEncoder::Fast)).unwrap();
        found.stats.encoder == Some(QueryEncoder::Fast)
    };
    texts.into_iter().find(is_sure).expect("it is sure of most texts")
}

#[test]
fn training_and_distil_give_a_bundle_one_and_take_it_away() {
    let trained = bundle(SHAPE).query_encoder().expect("training makes one");
    assert!(trained.texts > 100 && trained.documents == STORED && trained.tree.is_some(), "{trained:?}");

    let dir = tempfile::tempdir().unwrap();
    let bundle = copied(&dir);
    let (path, hash) = (bundle.path().to_owned(), bundle.hash());
    let manifest = || -> Value { serde_json::from_slice(&fs::read(path.join("ehi.json")).unwrap()).unwrap() };
    assert!(manifest().get("query_encoder").is_none());
    let format = manifest()["format_version"].clone();
    let set = TrainingSet::read(&Dataset::open(dataset()).unwrap(), 0.2).unwrap();
    let report = train::distil(&bundle, &set, &short(), &mut no_progress).unwrap().unwrap();
    assert_eq!((report.passes, report.questions), (2, set.queries().0));
    assert_eq!(report.held_out_questions, set.queries().1);
    assert!(report.full.is_some() && report.fast.is_some() && report.difference.is_some());
    assert_eq!(manifest()["format_version"], format, "readable by versions that know no query encoder");
    assert!(manifest().get("query_encoder").is_some());
    let opened = Bundle::open(&path).unwrap();
    assert_eq!((opened.hash(), opened.query_encoder()), (hash, Some(report.clone())));
    assert_eq!(bundle.query_encoder(), Some(report));

    // The same seed gives the same one.
    let file = || {
        fs::read_dir(&path).unwrap().find_map(|entry| {
            let name = entry.unwrap().file_name().into_string().unwrap();
            name.starts_with("query-").then_some(name)
        })
    };
    let first = file().unwrap();
    train::distil(&bundle, &set, &short(), &mut no_progress).unwrap();
    assert_eq!(file().as_ref(), Some(&first));
    train::distil(&bundle, &set, &DistilOptions { seed: 1, ..short() }, &mut no_progress).unwrap();
    assert_ne!(file().unwrap(), first);
}

#[test]
fn what_cannot_be_distilled_is_refused_and_changes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let bundle = copied(&dir);
    let set = TrainingSet::read(&Dataset::open(dataset()).unwrap(), 0.2).unwrap();
    let refused =
        |options: DistilOptions| train::distil(&bundle, &set, &options, &mut no_progress).unwrap_err();
    let train = |error: Error| match error {
        Error::Train(error) => error,
        other => panic!("{other}"),
    };
    assert!(matches!(train(refused(DistilOptions { passes: 0, ..short() })), TrainError::Config { .. }));
    assert!(matches!(train(refused(DistilOptions { texts: 99, ..short() })), TrainError::Config { .. }));
    let none = DistilOptions { query_encoder: QueryEncoderChoice::None, ..short() };
    assert!(matches!(train(refused(none)), TrainError::NothingToDistil));
    let pairs = vec![Judgment::new("what?", "not there", 1)];
    assert!(matches!(train(refused(DistilOptions { pairs, ..short() })), TrainError::Unknown { .. }));
    let empty = DistilOptions { questions: vec![" ".to_owned()], ..short() };
    assert!(matches!(refused(empty), Error::Input(InputError::EmptyQuery)));
    let cancelled = train::distil(&bundle, &set, &short(), &mut |progress: Progress| match progress.stage {
        Stage::Distil => ControlFlow::Break(()),
        _ => ControlFlow::Continue(()),
    });
    assert!(matches!(cancelled, Err(Error::Cancelled)));
    assert!(bundle.query_encoder().is_none());

    let (_dir, index) = filled(SHAPE, 12);
    let few = index.distil(&short()).unwrap_err();
    assert!(matches!(few, Error::Train(TrainError::TooFewTexts { .. })), "{few}");
    let reader = Index::open_read_only(index.path()).unwrap();
    assert!(matches!(reader.distil(&short()), Err(Error::Store(_))));
}

#[test]
fn an_index_learns_from_what_it_holds_and_keeps_it() {
    let (dir, index) = filled(SHAPE, STORED);
    let judgments = (0..60).map(|n| Judgment::new(documents(STORED)[n].text.clone() + " what", id(n), 1));
    index.record_all(judgments).unwrap();
    let mut stages = Vec::new();
    let report = index
        .with_progress(|progress| {
            stages.push(progress.stage);
            ControlFlow::Continue(())
        })
        .distil(&short())
        .unwrap()
        .unwrap();
    assert!(!stages.contains(&Stage::Insert), "no document is encoded again");
    assert!(report.questions > 0 && report.held_out_questions > 0, "{report:?}");
    assert_eq!(report.documents, STORED);
    assert_eq!(index.query_encoder(), Some(report.clone()));
    // A tree tuned for the same encoder keeps it.
    let options = ehi::learn::TuneOptions { always: true, passes: Some(1), ..Default::default() };
    assert!(index.tune(&options).unwrap().change.is_some());
    let kept = index.query_encoder().expect("it is the encoder's, not the tree's");
    assert_eq!((kept.texts, kept.tree), (report.texts, None));
    drop(index);
    let index = Index::open(dir.path().join("index")).unwrap();
    assert_eq!(index.query_encoder(), Some(kept));
    let fast = index.search_with(QUESTION, &SearchRequest::dense().encoder(QueryEncoder::Fast)).unwrap();
    assert_eq!(fast.len(), 10);
    // A model with another encoder brings its own, or none.
    assert!(index.verify().unwrap().is_sound());
}

#[test]
fn every_option_works_with_either_encoder() {
    let (_dir, index) = with_fast();
    let question = &*sure(&index);
    let filter: Filter = r#"{"n": {"$lt": 60}}"#.parse().unwrap();
    type Option = fn(SearchRequest) -> SearchRequest;
    let options: [(&str, Option); 6] = [
        ("none", |query| query),
        ("beam", |query| query.beam(2)),
        ("exact", |query| query.exact()),
        ("codes", |query| query.exact().codes(true)),
        ("parallel", |query| query.parallel()),
        ("recall", |query| query.recall(0.9)),
    ];
    for encoder in [QueryEncoder::Fast, QueryEncoder::Full] {
        let vector = {
            // The embedding used by an encoder is that of a search with it.
            let result =
                index.search_with(question, &SearchRequest::dense().encoder(encoder).exact()).unwrap();
            assert!(
                matches!(result.stats.encoder, Some(by) if by == encoder || encoder == QueryEncoder::Fast)
            );
            result
        };
        for (name, option) in options {
            for filter in [None, Some(&filter)] {
                let mut request = option(SearchRequest::dense()).encoder(encoder);
                if let Some(filter) = filter {
                    request = request.filter(filter);
                }
                let found = index.search_with(question, &request).unwrap();
                if filter.is_none() && name != "beam" {
                    assert_eq!(found.hits, vector.hits, "{name}");
                }
                let slim = index.search_with(question, &request.clone().ids_only()).unwrap();
                let pairs = found.hits.iter().zip(&slim.hits);
                for (hit, slim) in pairs {
                    assert_eq!((&hit.id, hit.score, hit.leaf), (&slim.id, slim.score, slim.leaf), "{name}");
                    assert!(slim.document.text.is_empty() && slim.document.id == hit.id);
                    assert!(slim.document.title.is_empty() && slim.document.metadata.is_none());
                }
                assert_eq!(found.len(), slim.len());
                let explained = index.explain(question, &request, false).unwrap();
                let hits: Vec<_> = explained.hits.iter().map(|hit| &hit.hit).collect();
                assert_eq!(hits, found.hits.iter().collect::<Vec<_>>(), "{name}");
            }
        }
        let questions = [question, "cell gene virus", "what?", "zq"];
        let batch = index.search_many(&questions, &SearchRequest::dense().encoder(encoder).k(5)).unwrap();
        for (question, result) in questions.iter().zip(batch) {
            let single = index.search_with(question, &SearchRequest::dense().encoder(encoder).k(5)).unwrap();
            assert_eq!(
                (&result.hits, result.stats.encoder),
                (&single.hits, single.stats.encoder),
                "{question}"
            );
        }
    }
}

#[test]
fn options_that_cannot_apply_are_errors() {
    let (_dir, index) = with_fast();
    let vector = [0.5; WIDTH];
    let input = |error: Error| match error {
        Error::Input(error) => error,
        other => panic!("{other}"),
    };
    for encoder in [QueryEncoder::Fast, QueryEncoder::Full] {
        let error = input(index.search_with(&vector, &SearchRequest::dense().encoder(encoder)).unwrap_err());
        assert!(matches!(error, InputError::InapplicableOption { option: "encoder", .. }), "{error}");
        let error =
            input(index.search_with(QUESTION, &SearchRequest::lexical().encoder(encoder)).unwrap_err());
        assert!(matches!(error, InputError::Conflict { options: ["lexical", "encoder"] }), "{error}");
    }
    index.distil(&DistilOptions { query_encoder: QueryEncoderChoice::None, ..Default::default() }).unwrap();
    let error = index.search_with(QUESTION, &SearchRequest::dense().encoder(QueryEncoder::Fast)).unwrap_err();
    assert!(matches!(input(error), InputError::NoQueryEncoder));
}

#[test]
fn odd_questions_are_answered_and_long_ones_cut() {
    let (_dir, index) = with_fast();
    let long = "tree leaf ".repeat(5_000);
    for question in
        ["x", "tree", "\u{5fc3}\u{810f}\u{75c5}", "Krankenhaus \u{fc}berf\u{fc}llt", "?!", "zzzzqq \0", &long]
    {
        let found =
            index.search_with(question, &SearchRequest::dense().encoder(QueryEncoder::Fast).k(3)).unwrap();
        assert_eq!(found.len(), 3, "{question:.20}");
        assert!(found.hits.iter().all(|hit| hit.score.is_finite()));
    }
    let blank = index.search_with("  ", &SearchRequest::dense().encoder(QueryEncoder::Fast));
    assert!(matches!(blank, Err(Error::Input(InputError::EmptyQuery))));
}

#[test]
fn fusion_is_learned_for_both_encoders() {
    let (_dir, index) = with_fast();
    let texts = documents(STORED);
    let question = |n: usize| format!("{} {n}", texts[n % STORED].text);
    let pairs: Vec<Judgment> =
        (0..2 * STORED + 60).map(|n| Judgment::new(question(n), id(n % STORED), 1)).collect();
    let fused = index.fuse(&pairs).unwrap().fusion.unwrap();
    let fast = fused.fast.as_ref().expect("there is a fast encoder");
    assert!(fast.questions >= 40 && fast.questions < fused.questions / 2, "on those that distil sets aside");
    assert_eq!(fast.fast, None);
    let reader = Index::open_read_only(index.path()).unwrap();
    assert_eq!(reader.fusion(), Some(fused));
    // Another query encoder, another weight.
    index.distil(&DistilOptions { seed: 9, ..short() }).unwrap();
    assert!(index.fusion().unwrap().fast.is_none());
}

#[test]
fn the_program_distils_searches_and_evaluates() {
    let dir = tempfile::tempdir().unwrap();
    let bundle = copied(&dir);
    let (model, data) = (text(bundle.path()).to_owned(), text(dataset()).to_owned());
    let said = ehi(["distil", "--model", &model, "--data", &data, "--passes", "2"]).ok();
    assert!(said.contains("a query encoder of") && said.contains("searches use the"), "{said}");
    let (index, corpus) = (dir.path().join("index"), dir.path().join("corpus.jsonl"));
    fs::write(&corpus, corpus_lines(&documents(STORED))).unwrap();
    let index = text(&index);
    ehi(["create", "--index", index, "--model", &model]).ok();
    ehi(["insert", "--index", index, text(&corpus)]).ok();
    let question = &*sure(&Index::open_read_only(index).unwrap());
    for encoder in ["fast", "full"] {
        let json = ehi(["search", "--index", index, "--json", "--encoder", encoder, question]).ok();
        let json: Value = serde_json::from_str(&json).unwrap();
        assert_eq!(json["stats"]["encoder"], encoder, "{json}");
        let said =
            ehi(["eval", "--index", index, "--data", &data, "--encoder", encoder, "--beams", "all"]).ok();
        assert_eq!(said.contains("read by the fast encoder"), encoder == "fast", "{said}");
    }
    let said = ehi(["distil", "--index", index, "--passes", "1", "--json"]).ok();
    let report: Value = serde_json::from_str(&said).unwrap();
    assert_eq!(report["documents"], STORED);
    let said = ehi(["distil", "--index", index, "--query-encoder", "none"]).ok();
    assert!(said.contains("the query encoder is removed"), "{said}");
    for (arguments, line) in [
        (vec!["search", "--index", index, "--encoder", "fast", question], "`ehi distil` makes one"),
        (vec!["search", "--index", index, "--encoder", "slow", question], "fast or full"),
        (
            vec!["distil", "--index", index, "--query-encoder", "none", "--passes", "3"],
            "takes no options of its training",
        ),
        (vec!["distil", "--model", &model], "--data"),
        (vec!["distil", "--index", index, "--data", &data], "--data"),
        (vec!["distil"], "required"),
    ] {
        let refused = ehi(&arguments);
        assert!(refused.code != Some(0) && refused.err.contains(line), "{arguments:?}: {}", refused.err);
    }
}
