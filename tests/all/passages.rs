//! Long documents: what is cut off, and documents with passages.

use std::collections::{BTreeMap, HashSet};
use std::fs;

use ehi::data::Dataset;
use ehi::eval::{EvalOptions, Metric, evaluate};
use ehi::explain::Explanation;
use ehi::learn::{Decision, LearnOptions, TuneOptions};
use ehi::model::Role;
use ehi::train::{DistilOptions, is_held_out};
use ehi::{
    Analyzer, BadPassages, Bundle, Document, Error, Filter, Fusion, Hit, Index, InputError, Judgment,
    Language, Passages, SearchRequest, SearchResult,
};
use serde_json::json;
use tempfile::TempDir;

use crate::program::{Flow, ehi, text};
use crate::support::{self, Shape, base_model, bundle, config, corpus_lines, documents};

/// Tokens of title and text that the fixture's encoder reads: 48 except for two special ones.
const READ: usize = 46;

fn of_words(id: &str, title: &str, words: usize) -> Document {
    Document::new(id, title, vec!["leaf"; words].join(" "))
}

#[test]
fn an_insert_says_which_texts_were_cut() {
    for analyzer in [Some(Analyzer::Tokens), Some(Analyzer::Stems(Language::English)), None] {
        let dir = tempfile::tempdir().unwrap();
        let index = Index::builder()
            .analyzer(analyzer)
            .create(dir.path().join("index"), &bundle(Shape::of_height(1)))
            .unwrap();
        let whole = [of_words("a", "", READ), of_words("b", "leaf word", READ - 2), of_words("c", "x", 0)];
        let summary = index.insert_batch(whole).unwrap();
        assert_eq!(summary.cut, Default::default(), "{analyzer:?}");
        // A word outside the vocabulary is a token too.
        let unknown = Document::new("f", "", "\u{4e00} ".repeat(READ + 4));
        let cut = [of_words("d", "", READ + 1), of_words("e", "leaf word", 300), unknown];
        let summary = index.insert_batch(cut).unwrap().cut;
        assert_eq!((summary.documents, summary.longest), (3, 302), "{analyzer:?}");
        assert_eq!(summary.tokens, 47 + 302 + 50);
        assert_eq!(summary.tokens_cut, 1 + 302 - 46 + 4);
        // Two groups are counted together.
        let many = (0..300).map(|n| of_words(&format!("n{n}"), "", READ + 1));
        assert_eq!(index.insert_batch(many).unwrap().cut.documents, 300);
    }
}

#[test]
fn the_program_says_what_was_cut() {
    let flow = Flow::with(&["--whole"]);
    let file = flow.path("long.jsonl");
    let mut all = documents(3);
    fs::write(&file, corpus_lines(&all)).unwrap();
    assert_eq!(flow.run("insert", &[text(&file)]).ok().lines().count(), 1);
    all.extend([of_words("d", "", 92), of_words("e", "", 92)]);
    fs::write(&file, corpus_lines(&all)).unwrap();
    let said = flow.run("insert", &[text(&file)]).ok();
    let last = said.lines().last().unwrap();
    let says = "warning: 2 texts are longer than the 48 tokens that the model reads (the longest has 92), so \
                searches by meaning miss 50% of their tokens; to search all of a text, copy the documents into an \
                index created without `--whole`";
    assert_eq!(last, says);
}

/// Documents of the tests.
const STORED: usize = 60;
const QUESTIONS: [&str; 4] = ["tree leaf", "gene protein virus", "the of and", "what 17"];

/// A document with a part for each of its subjects, which contains the numbers of other documents.
fn long(place: usize) -> Document {
    let sentence = |n: usize| {
        let text = support::document(place * 7 + n * 5).text;
        format!("{}{}.", text[..1].to_uppercase(), &text[1..])
    };
    let paragraphs = (0..1 + place % 4).map(|n| format!("{} {}", sentence(2 * n), sentence(2 * n + 1)));
    let title = if place.is_multiple_of(5) { String::new() } else { format!("title {place}") };
    Document::new(support::id(place), title, paragraphs.collect::<Vec<_>>().join("\n\n"))
        .with_metadata(json!({ "place": place }))
}

fn create(shape: Shape, passages: (u32, u32)) -> (TempDir, Index) {
    let dir = tempfile::tempdir().unwrap();
    let builder = Index::builder().passages(passages.0, passages.1);
    let index = builder.create(dir.path().join("index"), &bundle(shape)).unwrap();
    (dir, index)
}

/// Some documents sealed, some in memory, one replaced by a shorter one and some deleted.
fn index(shape: Shape) -> (TempDir, Index, BTreeMap<String, Document>) {
    let (dir, index) = create(shape, (20, 6));
    let mut all: BTreeMap<String, Document> = BTreeMap::new();
    let mut insert = |some: Vec<Document>| {
        all.extend(some.iter().map(|document| (document.id.clone(), document.clone())));
        let summary = index.insert_all_or_none(some).unwrap();
        assert!(summary.passages > summary.inserted && summary.cut == Default::default(), "{summary:?}");
    };
    insert((0..STORED).map(long).collect());
    index.flush().unwrap();
    insert((STORED..STORED + 12).map(long).collect());
    let replaced = [Document { id: support::id(7), ..long(4) }, Document { id: support::id(8), ..long(3) }];
    insert(replaced.to_vec());
    for id in (0..STORED).step_by(17).map(support::id) {
        assert!(index.delete(&id).unwrap());
        all.remove(&id);
    }
    assert_eq!((index.len(), index.passages()), (all.len(), Passages::new(20, 6).ok()));
    assert!(index.embeddings() > 2 * index.len());
    (dir, index, all)
}

/// The score of each document's best passage, embedded separately.
fn scores(bundle: &Bundle, all: &BTreeMap<String, Document>, hits: &[Hit], question: &str) -> Vec<f32> {
    let encoder = bundle.model().encoder().unwrap();
    let query = encoder.embed(&[question], Role::Query).unwrap();
    hits.iter()
        .map(|hit| {
            let document = &all[&hit.id];
            let passage = &hit.passages[0];
            let part = &document.text[passage.start..passage.end];
            let text = match document.title.as_str() {
                "" => part.to_owned(),
                title => format!("{title} {part}"),
            };
            let row = encoder.embed(&[text.as_str()], Role::Document).unwrap();
            let norm = |row: &[f32]| row.iter().map(|x| x * x).sum::<f32>().sqrt();
            let product: f32 = row.iter().zip(&query).map(|(a, b)| a * b).sum();
            product / norm(&row) / norm(&query)
        })
        .collect()
}

type Found = Vec<(String, u32, Vec<(usize, usize)>)>;

/// Hits with their scores and passages.
fn found(result: &SearchResult) -> Found {
    let of = |hit: &Hit| {
        let passages = hit.passages.iter().map(|passage| (passage.start, passage.end)).collect();
        (hit.id.clone(), hit.score.to_bits(), passages)
    };
    let mut found: Found = result.iter().map(of).collect();
    // Equal scores are ordered by row.
    found.sort_by(|a, b| f32::from_bits(b.1).total_cmp(&f32::from_bits(a.1)).then(a.0.cmp(&b.0)));
    found
}

#[test]
fn a_hit_is_a_document_with_its_best_passage() {
    let shape = Shape { height: 2 };
    let (_dir, index, all) = index(shape);
    for question in QUESTIONS {
        let everything =
            index.search_with(question, &SearchRequest::dense().k(all.len()).exact().passages(99)).unwrap();
        // Every document once, with every passage.
        let ids: HashSet<&str> = everything.iter().map(|hit| hit.id.as_str()).collect();
        assert_eq!((everything.len(), ids.len()), (all.len(), all.len()));
        let passages: usize = everything.iter().map(|hit| hit.passages.len()).sum();
        assert_eq!(passages, index.embeddings());
        for hit in &everything {
            assert_eq!(hit.document, all[&hit.id]);
            let best = &hit.passages[0];
            assert!((hit.score, hit.leaf) == (best.score, best.leaf), "{hit:?}");
            assert!(hit.passages.windows(2).all(|pair| pair[0].score >= pair[1].score));
            assert_eq!(hit.passage_text(), &hit.document.text[best.start..best.end]);
            // All of the text is in one of them.
            let mut covered = vec![false; hit.document.text.len()];
            hit.passages.iter().for_each(|own| covered[own.start..own.end].fill(true));
            let bytes = hit.document.text.bytes().zip(covered);
            assert!(bytes.into_iter().all(|(byte, covered)| covered || byte.is_ascii_whitespace()));
        }
        let apart = scores(&index.bundle(), &all, &everything.hits, question);
        for (hit, apart) in everything.iter().zip(apart) {
            assert!((hit.score - apart).abs() < 2e-3, "{} {apart}", hit.score);
        }
        assert!(everything.hits.windows(2).all(|pair| pair[0].score >= pair[1].score));
        // The best k of them, however they are searched.
        for k in [1, 3, 10, 40] {
            let best: Found = found(&everything)[..k].to_vec();
            let best: Vec<_> = best.into_iter().map(|(id, score, own)| (id, score, own[0])).collect();
            let check = |request: SearchRequest| {
                let result = index.search_with(question, &request).unwrap();
                let own = found(&result).into_iter().map(|(id, score, own)| (id, score, own[0]));
                assert_eq!(own.collect::<Vec<_>>(), best, "{question} {k}");
                result
            };
            let query = || SearchRequest::dense().k(k);
            check(query().exact());
            check(query().exact().parallel());
            check(query());
            let full = check(query().beam(usize::MAX));
            assert_eq!(full.stats.documents_visited, index.embeddings());
            assert!(full.stats.exhausted && full.stats.visited_fraction == 1.0);
            check(query().beam(usize::MAX).codes(false).parallel());
            // Scaled to the candidates, and in the same order.
            let hybrid = SearchRequest::hybrid(Fusion::Convex(1.0)).k(k).exact();
            let hybrid = index.search_with(question, &hybrid).unwrap();
            let dense = index.search_with(question, &query().exact()).unwrap();
            let scores = |result: &SearchResult| -> Vec<f32> {
                result.iter().map(|hit| hit.scores.dense.unwrap()).collect()
            };
            assert_eq!(scores(&hybrid), scores(&dense));
        }
    }
}

#[test]
fn filters_and_beams_find_documents() {
    let shape = Shape { height: 2 };
    let (_dir, index, all) = index(shape);
    let few = Filter::lt("place", 9);
    let ids = Filter::ids([3, 4, 5, 999].map(support::id));
    for question in QUESTIONS {
        for (filter, passing) in [
            (&few, all.values().filter(|d| d.metadata.as_ref().unwrap()["place"].as_u64() < Some(9)).count()),
            (&ids, 3),
        ] {
            // There are k hits whenever that many documents pass.
            for k in [2, passing, 50] {
                let hits =
                    index.search_with(question, &SearchRequest::dense().k(k).beam(1).filter(filter)).unwrap();
                let different: HashSet<&str> = hits.iter().map(|hit| hit.id.as_str()).collect();
                assert_eq!((hits.len(), different.len()), (k.min(passing), k.min(passing)));
                let exact =
                    index.search_with(question, &SearchRequest::dense().k(k).exact().filter(filter)).unwrap();
                let full = index
                    .search_with(question, &SearchRequest::dense().k(k).beam(usize::MAX).filter(filter))
                    .unwrap();
                assert_eq!(found(&exact), found(&full));
            }
        }
        // With a beam, only what is in its leaves.
        let hits = index.search_with(question, &SearchRequest::dense().k(5).beam(3).passages(9)).unwrap();
        let explained: Explanation =
            index.explain(question, &SearchRequest::dense().k(5).beam(3).passages(9), false).unwrap();
        let reached: Vec<_> = explained.leaves.iter().map(|leaf| leaf.leaf).collect();
        assert_eq!(reached.len(), 3);
        for (hit, explained) in hits.iter().zip(&explained.hits) {
            assert_eq!(hit, &explained.hit);
            assert!(hit.passages.iter().all(|passage| reached.contains(&passage.leaf)));
        }
        let against = index.explain(question, &SearchRequest::dense().k(5).beam(3), true).unwrap();
        let exact = index.search_with(question, &SearchRequest::dense().k(all.len()).exact()).unwrap();
        for hit in &against.hits {
            let rank = exact.iter().position(|other| other.id == hit.hit.id).unwrap() + 1;
            // Of equal scores either may come first.
            assert!(hit.exact_rank.unwrap().abs_diff(rank) < 3, "{rank} {:?}", hit.exact_rank);
        }
        let counted: usize = explained.leaves.iter().map(|leaf| leaf.documents).sum();
        assert_eq!(counted, explained.stats.documents_visited);
    }
}

#[test]
fn words_are_of_documents_and_point_to_passages() {
    let shape = Shape { height: 2 };
    let (dir, index, all) = index(shape);
    let whole = Index::create(dir.path().join("whole"), &bundle(shape)).unwrap();
    whole.insert_batch(all.values().cloned()).unwrap();
    // Dead rows count in the statistics until they are merged away.
    index.compact().unwrap();
    whole.compact().unwrap();
    for question in ["tree leaf", "+gene virus", "what -how"] {
        let own = index.search_with(question, &SearchRequest::lexical().k(20)).unwrap();
        let others = whole.search_with(question, &SearchRequest::lexical().k(20)).unwrap();
        let scores = |result: &SearchResult| {
            let mut scores: Vec<_> = result.iter().map(|hit| (hit.score.to_bits(), hit.id.clone())).collect();
            scores.sort();
            scores
        };
        // Statistics and scores are those of documents.
        assert_eq!(scores(&own), scores(&others), "{question}");
        for hit in &own {
            assert!(hit.passages.len() == 1 && hit.passages[0].score > 0.0, "{hit:?}");
        }
        let hybrid =
            index.search_with(question, &SearchRequest::hybrid(Fusion::Convex(0.4)).k(20).exact()).unwrap();
        let different: HashSet<&str> = hybrid.iter().map(|hit| hit.id.as_str()).collect();
        assert_eq!(different.len(), hybrid.len());
        let narrow =
            index.search_with(question, &SearchRequest::hybrid(Fusion::Convex(0.4)).k(20).beam(1)).unwrap();
        let all = SearchRequest::dense().k(99).exact().passages(99);
        let exact = index.search_many(&[question], &all).unwrap().remove(0);
        for hit in hybrid.iter().chain(&narrow) {
            // A document's score is that of its best passage, however it was found.
            if let Some(best) = exact.iter().find(|other| other.id == hit.id)
                && !question.contains(['+', '-'])
            {
                assert_eq!(hit.scores.dense, Some(best.score));
                // Words count for which of them is shown.
                let [shown] = &hit.passages[..] else { panic!("{hit:?}") };
                assert!(best.passages.contains(shown), "{shown:?} of {best:?}");
            }
        }
    }
    let unusual = Document::new("unusual", "", format!("{}\n\nProtein zzz zzz.", long(3).text));
    index.insert(unusual).unwrap();
    let hit = index.search_with("zzz", &SearchRequest::lexical()).unwrap().hits.remove(0);
    assert!(hit.id == "unusual" && hit.passage_text().contains("zzz zzz"), "{}", hit.passage_text());
    for question in ["+zzz level near tree", "zzz"] {
        let result = index.search_with(question, &SearchRequest::hybrid(Fusion::Convex(0.4))).unwrap();
        let hit = result.iter().find(|hit| hit.id == "unusual").unwrap();
        assert!(hit.passage_text().contains("zzz zzz"), "{question}: {}", hit.passage_text());
    }
}

#[test]
fn an_index_with_passages_keeps_them() {
    let shape = Shape { height: 2 };
    let (dir, index, all) = index(shape);
    let answers = |index: &Index| -> Vec<Found> {
        QUESTIONS
            .map(|question| {
                found(&index.search_with(question, &SearchRequest::dense().k(9).exact().passages(3)).unwrap())
            })
            .into()
    };
    let before = answers(&index);
    let holds = |index: &Index| {
        let stored: BTreeMap<_, _> = index.iter().map(|d| d.unwrap()).map(|d| (d.id.clone(), d)).collect();
        assert_eq!(stored, all);
        let report = index.verify().unwrap();
        assert!(report.is_sound() && report.documents as usize == all.len(), "{report:?}");
    };
    holds(&index);
    index.compact().unwrap();
    holds(&index);
    assert_eq!(answers(&index), before);
    index.snapshot(dir.path().join("copy")).unwrap();
    drop(index);
    let path = dir.path().join("index");
    for path in [&path, &dir.path().join("copy")] {
        let reader = Index::builder().passages(20, 6).open_read_only(path).unwrap();
        holds(&reader);
        assert_eq!(answers(&reader), before);
    }
    // To another tree with the same encoder, which keeps the embeddings, and back.
    let index = Index::open(&path).unwrap();
    let embeddings = index.embeddings();
    let change = index.reencode(&bundle(Shape { height: 1 })).unwrap();
    assert_eq!((change.routed, change.documents), (all.len(), all.len()));
    assert_eq!((index.embeddings(), index.passages()), (embeddings, Passages::new(20, 6).ok()));
    holds(&index);
    assert_eq!(answers(&index), before);
    index.insert(long(99)).unwrap();
    index.rollback().unwrap();
    index.delete(&support::id(99)).unwrap();
    holds(&index);
    assert_eq!(answers(&index), before);
    let leaves = index.leaves(&Default::default()).unwrap();
    assert_eq!(leaves.iter().map(|leaf| leaf.documents).sum::<usize>(), embeddings);
    index.calibrate(&[]).unwrap();
    index.health().unwrap();
}

#[test]
fn what_passages_have_no_use_for_is_an_error() {
    let shape = Shape::of_height(1);
    let dir = tempfile::tempdir().unwrap();
    let create = |tokens, overlap| {
        Index::builder().passages(tokens, overlap).create(dir.path().join("none"), &bundle(shape)).map(drop)
    };
    // The encoder reads 46.
    for (tokens, overlap, most) in [(47, 0, 46), (7, 0, 8192), (20, 11, 8192), (9000, 0, 8192)] {
        match create(tokens, overlap) {
            Err(Error::Input(InputError::BadPassages(BadPassages { found, most: said, .. }))) => {
                assert_eq!((found, said), (format!("{tokens}/{overlap}"), most));
            }
            other => panic!("{other:?}"),
        }
        assert!(!dir.path().join("none").join("CURRENT").exists());
    }
    create(46, 0).unwrap();
    let whole = Index::create(dir.path().join("whole"), &bundle(shape)).unwrap();
    whole.insert(long(1)).unwrap();
    let refused = whole.search_with("tree", &SearchRequest::dense().passages(2));
    assert!(matches!(refused, Err(Error::Input(InputError::InapplicableOption { option: "passages", .. }))));
    assert!(whole.search_with("tree", &SearchRequest::dense()).unwrap().hits[0].passages.is_empty());
    drop(whole);
    let open =
        |name: &str, tokens| Index::builder().passages(tokens, 0).open(dir.path().join(name)).map(drop);
    let index = |error| match error {
        Err(Error::Input(InputError::PassagesMismatch { index, .. })) => index,
        other => panic!("{other:?}"),
    };
    assert_eq!((index(open("whole", 20)), index(open("none", 20))), (None, Passages::new(46, 0).ok()));
    open("none", 46).unwrap();
    let whole = Index::builder().whole_documents().open(dir.path().join("none"));
    assert!(matches!(whole, Err(Error::Input(InputError::InapplicableOption { .. }))));
    Index::builder().whole_documents().open(dir.path().join("whole")).unwrap();
    let apart = Index::open(dir.path().join("none")).unwrap();
    // A document inserted with its vector has one passage.
    let given = vec![1.0; support::WIDTH];
    let summary = apart.insert_vectors([(long(1), given.clone())]).unwrap();
    assert_eq!((summary.inserted, summary.passages), (1, 1));
    let hits = apart.search_with(&given[..], &SearchRequest::dense().exact()).unwrap();
    let [passage] = &hits.hits[0].passages[..] else { panic!("{hits:?}") };
    assert_eq!((passage.start, passage.end), (0, long(1).text.len()));
    assert!(apart.verify().unwrap().is_sound());
    apart.delete(&long(1).id).unwrap();
    // A title alone, and one that leaves no room for a passage.
    let title = "leaf ".repeat(200);
    apart.insert_batch([Document::new("t", "tree", ""), Document::new("long", title, long(3).text)]).unwrap();
    let hits = apart.search_with("tree", &SearchRequest::dense().passages(99).exact()).unwrap();
    let of = |id: &str| &hits.iter().find(|hit| hit.id == id).unwrap().passages;
    assert_eq!((of("t").len(), (of("t")[0].start, of("t")[0].end)), (1, (0, 0)));
    assert!(of("long").len() > 2, "{:?}", of("long"));
}

#[test]
fn the_program_makes_and_shows_passages() {
    let flow = Flow::with(&["--passages", "20/6"]);
    let file = flow.path("long.jsonl");
    let all: Vec<Document> = (0..30).map(long).collect();
    fs::write(&file, corpus_lines(&all)).unwrap();
    let said = flow.run("insert", &[text(&file)]).ok();
    assert!(said.contains(" passages; the index has 30 documents\n") && said.lines().count() == 1, "{said}");
    let said = flow.run("stats", &[]).ok();
    assert!(said.contains("of 20/6 tokens, each with its embedding"), "{said}");
    let said = flow.run("search", &["--k", "3", "--passages", "2", "tree leaf"]).ok();
    assert!(said.matches("     bytes ").count() >= 4 && said.contains(" passages ("), "{said}");
    let found = flow.run("search", &["--json", "--mode", "lexical", "tree leaf"]).json();
    let hit = &found["hits"][0];
    let [start, end] = ["start", "end"].map(|at| hit["passages"][0][at].as_u64().unwrap() as usize);
    assert!(!hit["text"].as_str().unwrap()[start..end].is_empty());
    let found = flow.run("search", &["--json", "--passages", "0", "tree leaf"]).json();
    assert_eq!(found["hits"][0]["passages"], json!([]));
    for bad in ["20/11", "7", "x", "20/"] {
        let ran = ehi(["create", "--index", &flow.index(), "--model", "none", "--passages", bad]);
        let says =
            format!("passages of `{bad}` are not possible: write TOKENS/OVERLAP, such as 200/40, with 8 to");
        assert!(ran.code == Some(2) && ran.line().contains(&says), "{bad}: {}", ran.err);
    }
    assert!(Flow::with(&["--passages", "20"]).run("stats", &[]).ok().contains(" of 20/4 tokens"));
}

/// A question for each document, in the words of one of its passages.
fn questions(index: &Index, all: &BTreeMap<String, Document>) -> Vec<Judgment> {
    let passage = |document: &Document| {
        let found = index.search_with("leaf", &SearchRequest::dense().exact().k(999).passages(99)).unwrap();
        let hit = found.hits.into_iter().find(|hit| hit.id == document.id).unwrap();
        let last = hit.passages.iter().max_by_key(|passage| passage.start).unwrap();
        document.text[last.start..last.end].to_owned()
    };
    let words = |text: String| text.split(' ').skip(1).take(5).collect::<Vec<_>>().join(" ");
    all.values().map(|document| Judgment::new(words(passage(document)), &document.id, 1)).collect()
}

#[test]
fn training_is_on_passages_and_judged_by_documents() {
    let shape = Shape { height: 2 };
    let (_dir, index, all) = index(shape);
    let embeddings = index.embeddings();
    let judged = questions(&index, &all);

    let fused = index.fuse(&judged).unwrap().fusion.unwrap();
    assert!(fused.questions > 50 && fused.dense > 0.0 && fused.lexical > 0.5, "{fused:?}");
    let config = config(shape);
    let learn = LearnOptions { pairs: judged.clone(), config, accept: true };
    let learned = index.learn(&learn).unwrap();
    assert!(learned.ndcg_at_10.unwrap().value > 0.0, "{learned:?}");
    assert_eq!((learned.change.unwrap().documents, index.embeddings()), (all.len(), embeddings));
    let distilled = index
        .distil(&DistilOptions { passes: 1, pairs: judged.clone(), ..DistilOptions::default() })
        .unwrap()
        .unwrap();
    assert_eq!(distilled.documents, embeddings);
    // After learning, words are weighted on the held-out questions.
    let aside = judged.iter().filter(|judged| is_held_out(&judged.question)).count();
    assert_eq!(index.fuse(&judged).unwrap().questions, aside);
    let tuned = index.tune(&TuneOptions { passes: Some(2), always: true, ..TuneOptions::default() }).unwrap();
    assert_eq!(tuned.documents, embeddings);
    let change = tuned.change.unwrap();
    assert_eq!((change.routed, change.encoded, index.embeddings()), (all.len(), 0, embeddings));
    let report = index.verify().unwrap();
    assert!(report.is_sound(), "{report:?}");

    // An evaluation counts documents: with the full beam it equals exact search.
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir(dir.path().join("qrels")).unwrap();
    fs::write(dir.path().join("corpus.jsonl"), "").unwrap();
    let lines = judged.iter().enumerate();
    let queries = lines.clone().map(|(n, judged)| json!({ "_id": n.to_string(), "text": judged.question }));
    fs::write(dir.path().join("queries.jsonl"), queries.map(|q| format!("{q}\n")).collect::<String>())
        .unwrap();
    let rows: String = lines.map(|(n, judged)| format!("{n}\t{}\t1\n", judged.id)).collect();
    fs::write(dir.path().join("qrels/test.tsv"), format!("query-id\tcorpus-id\tscore\n{rows}")).unwrap();
    let options = EvalOptions { baseline: Some(vec![4]), ..EvalOptions::default() };
    let dataset = Dataset::open(dir.path()).unwrap();
    let report = evaluate(&index, &dataset, "test", &options, &mut ehi::no_progress).unwrap().0;
    assert_eq!((report.documents, report.missing_documents), (all.len(), 0));
    let metric: Metric = "Recall@10".parse().unwrap();
    let mut found = 0;
    for judged in &judged {
        let hits = index
            .search_with(
                &judged.question,
                &SearchRequest::dense().k(10).exact().encoder(ehi::QueryEncoder::Full),
            )
            .unwrap();
        found += usize::from(hits.iter().any(|hit| hit.id == judged.id));
    }
    let expected = found as f64 / judged.len() as f64;
    assert!((report.exact.get(metric).unwrap() - expected).abs() < 1e-9 && expected > 0.3, "{expected}");
    let full = report.points.last().unwrap();
    assert_eq!((full.visited_fraction, full.quality.get(metric)), (1.0, report.exact.get(metric)));
    let lists = report.ivf.last().unwrap();
    assert_eq!((lists.visited_fraction, lists.quality.get(metric)), (1.0, report.exact.get(metric)));
}

#[test]
fn an_index_with_passages_learns_from_judgments() {
    let dir = tempfile::tempdir().unwrap();
    let model = Bundle::from_encoder(base_model()).unwrap();
    let index = Index::builder().passages(20, 0).create(dir.path().join("index"), &model).unwrap();
    index.insert_batch((0..150).map(long)).unwrap();
    let all: BTreeMap<String, Document> =
        (0..150).map(long).map(|document| (document.id.clone(), document)).collect();
    index.record_all(questions(&index, &all)).unwrap();
    let mut config = config(Shape::of_height(1));
    config.encoder.trainable_layers = 1;
    config.encoder.max_document_tokens = 40;
    config.dev_fraction = ehi::train::LEARN_HELD_OUT;
    let learned = index.learn(&LearnOptions { config, ..LearnOptions::default() }).unwrap();
    assert!(learned.learned > 60 && learned.held_out >= 20, "{learned:?}");
    assert!(learned.ndcg_at_10.is_some() && learned.decision != Decision::TooFew, "{learned:?}");
    assert_eq!(index.iter().count(), 150);
    assert!(index.verify().unwrap().is_sound());
}
