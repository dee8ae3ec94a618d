//! One search over several indexes of one model has the same results as a single index, bit for bit.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::sync::Arc;

use ehi::learn::TuneOptions;
use ehi::model::Role;
use ehi::search::{JudgedQuestions, MovedDocument, TermStatistics, fuse_candidates, plain_question};
use ehi::{
    Bundle, Document, Error, Filter, Fusion, Hit, Index, InputError, Judgment, LeafId, Question, RankBy,
    RecalledJudgment, SearchRequest, SearchResult,
};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::support::{Shape, bundle, filled};

const DOCUMENTS: usize = 400;
const SHAPE: Shape = Shape { height: 2 };
/// Candidates of a hybrid search by either score.
const DEPTH: usize = 48;

const SCIFACT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../examples/data/scifact");

/// Abstracts, every fourth one also under a second id, and some texts repeated: equal scores are common.
fn corpus() -> Vec<Document> {
    let file = flate2::read::GzDecoder::new(File::open(Path::new(SCIFACT).join("corpus.jsonl.gz")).unwrap());
    let lines = BufReader::new(file).lines().take(DOCUMENTS);
    let mut documents: Vec<Document> = Vec::new();
    for (place, line) in lines.enumerate() {
        let line: Value = serde_json::from_str(&line.unwrap()).unwrap();
        let text = |name: &str| line[name].as_str().unwrap().chars().take(300).collect::<String>();
        // The order of ids differs from that of the places.
        let number = place * 7919 % 1000;
        let document = |id: String| {
            Document::new(id, text("title"), text("text")).with_metadata(json!({ "place": place }))
        };
        documents.push(document(format!("d{number:03}")));
        if place % 4 == 0 {
            documents.push(document(format!("c{number:03}")));
        }
        if place % 8 == 0 {
            let same = Document::new(format!("s{number:03}"), "", "A protein of the cell.");
            documents.push(same.with_metadata(json!({ "place": place })));
        }
    }
    documents
}

fn questions() -> Vec<String> {
    let file = BufReader::new(File::open(Path::new(SCIFACT).join("queries.jsonl")).unwrap());
    let text = |line: std::io::Result<String>| {
        let line: Value = serde_json::from_str(&line.unwrap()).unwrap();
        line["text"].as_str().unwrap().to_owned()
    };
    let mut questions: Vec<String> = file.lines().take(40).map(text).collect();
    questions.extend(
        ["protein", "+cell protein", "-cancer cells", "\"the cell\"", "+gene -cell expression"]
            .map(String::from),
    );
    questions
}

struct Shards {
    _dir: TempDir,
    model: Bundle,
    single: Index,
    shards: Vec<Index>,
    statistics: Arc<TermStatistics>,
}

impl Shards {
    fn new(count: usize) -> Self {
        let (dir, model) = (TempDir::new().unwrap(), bundle(SHAPE));
        let documents = corpus();
        let texts: Vec<_> = documents.iter().map(|document| document.embedding_text().into_owned()).collect();
        let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
        let encoder = model.model().encoder().unwrap();
        let rows = encoder.embed(&texts, Role::Document).unwrap();
        let rows: Vec<Vec<f32>> = rows.chunks_exact(encoder.dim()).map(<[f32]>::to_vec).collect();
        let index = |name: String| Index::create(dir.path().join(name), &model).unwrap();
        let single = index("single".to_owned());
        let shards: Vec<Index> = (0..count).map(|shard| index(format!("shard-{shard}"))).collect();
        // In segments and in memory.
        let all: Vec<_> = documents.into_iter().zip(rows).collect();
        let (first, rest) = all.split_at(all.len() / 2);
        for half in [first, rest] {
            single.insert_vectors(half.iter().cloned()).unwrap();
            for (shard, index) in shards.iter().enumerate() {
                let own = half.iter().enumerate().filter(|(place, _)| place % count == shard);
                index.insert_vectors(own.map(|(_, pair)| pair.clone())).unwrap();
            }
            if half.len() == first.len() {
                single.flush().unwrap();
                shards.iter().for_each(|index| index.flush().unwrap());
            }
        }
        let mut statistics = shards[0].term_statistics().unwrap();
        for index in &shards[1..] {
            statistics.add(&index.term_statistics().unwrap()).unwrap();
        }
        Self { _dir: dir, model, single, shards, statistics: Arc::new(statistics) }
    }

    fn encode(&self, question: &str) -> Vec<f32> {
        self.model
            .model()
            .encoder()
            .unwrap()
            .embed(&[plain_question(question).as_str()], Role::Query)
            .unwrap()
    }

    fn leaves(&self, vector: &[f32], beam: usize) -> Vec<LeafId> {
        self.model.route(vector, beam).unwrap().into_iter().map(|routed| routed.leaf).collect()
    }

    /// The best of all shards, equal scores by id.
    fn merged(&self, k: usize, search: impl Fn(&Index) -> SearchResult) -> Vec<(String, u32)> {
        let mut hits: Vec<Hit> = self.shards.iter().flat_map(|index| search(index).hits).collect();
        hits.sort_by(|a, b| b.score.total_cmp(&a.score).then_with(|| a.id.cmp(&b.id)));
        hits.truncate(k);
        bits(&hits)
    }
}

fn bits(hits: &[Hit]) -> Vec<(String, u32)> {
    hits.iter().map(|hit| (hit.id.clone(), hit.score.to_bits())).collect()
}

#[test]
fn several_indexes_answer_as_one() {
    for count in [1, 3, 8] {
        let shards = Shards::new(count);
        assert_eq!(*shards.statistics, shards.single.term_statistics().unwrap());
        let filter = Filter::lt("place", 200);
        let mut ties = 0;
        for question in questions() {
            let vector = shards.encode(&question);
            for (k, beam) in [(1, 1), (10, 3), (37, 5), (100, usize::MAX)] {
                let leaves = shards.leaves(&vector, beam);
                let request = SearchRequest::dense().k(k).codes(false);
                let single = |request| shards.single.search_with(&vector, &request).unwrap();
                let one = bits(&single(request.clone().beam(beam)).hits);
                ties += one.windows(2).filter(|pair| pair[0].1 == pair[1].1).count();
                assert!(
                    one.windows(2).all(|pair| pair[0].1 != pair[1].1 || pair[0].0 < pair[1].0),
                    "{one:?}"
                );
                let dense = |index: &Index| {
                    index
                        .search_with(&vector, &SearchRequest::dense().k(k).codes(false).leaves(&leaves))
                        .unwrap()
                };
                assert_eq!(shards.merged(k, dense), one, "{count} {k} {beam} {question}");
                assert_eq!(bits(&single(request.clone().leaves(&leaves)).hits), one);

                let given = request.leaves(&leaves).filter(&filter);
                let filtered = single(given.clone());
                let dense = |index: &Index| index.search_with(&vector, &given).unwrap();
                assert_eq!(shards.merged(k, dense), bits(&filtered.hits), "{count} {k} {beam} {question}");

                let exact =
                    |index: &Index| index.search_with(&vector, &SearchRequest::dense().k(k).exact()).unwrap();
                assert_eq!(
                    shards.merged(k, exact),
                    bits(&exact(&shards.single).hits),
                    "{count} {k} {question}"
                );

                let words = |index: &Index| {
                    index
                        .search_with(&question, &SearchRequest::lexical().k(k).statistics(&shards.statistics))
                        .unwrap()
                };
                let one = shards.single.search_with(&question, &SearchRequest::lexical().k(k)).unwrap();
                assert_eq!(shards.merged(k, words), bits(&one.hits), "{count} {k} {question}");
                for fusion in [Fusion::Convex(0.6), Fusion::Rrf { k: 60.0 }] {
                    let request = SearchRequest::hybrid(fusion).k(k).codes(false).beam(beam);
                    let asked = Question::Encoded(&question, &vector);
                    let one = shards.single.search_with(asked, &request).unwrap();
                    let request = SearchRequest::hybrid(fusion).k(k).codes(false).leaves(&leaves);
                    let joined = shards.fused(asked, &request, &[]);
                    let joined: Vec<_> = joined.into_iter().map(|(id, score, ..)| (id, score)).collect();
                    assert_eq!(joined, bits(&one.hits), "{count} {k} {beam} {question} {fusion:?}");
                }
            }
        }
        assert!(ties > 100, "{ties}");
    }
}

/// Id, bits of the score, what judgments added, and the question judged.
type Found = (String, u32, Option<f32>, Option<RecalledJudgment>);

impl Shards {
    fn fused(&self, asked: Question<'_>, request: &SearchRequest, moved: &[MovedDocument]) -> Vec<Found> {
        let k = request.k;
        let is_deep = !moved.is_empty() || matches!(request.mode, RankBy::Hybrid(_));
        let mut depth = if is_deep { DEPTH.max(k) } else { k };
        loop {
            let (mut all, mut signs, mut documents) = (Vec::new(), false, 0);
            for index in &self.shards {
                let request = match request.mode {
                    RankBy::Dense => request.clone(),
                    _ => request.clone().statistics(&self.statistics),
                };
                let own = index.candidates(asked, depth, moved, &request).unwrap();
                (signs, documents) = (own.has_signs, documents + own.documents);
                all.extend(own.candidates);
            }
            // All of them, to see whether there are enough.
            let fused = fuse_candidates(all, depth, request.mode, usize::MAX, moved).unwrap();
            let is_hybrid = matches!(request.mode, RankBy::Hybrid(_));
            if !is_hybrid || fused.len() >= k || !signs || depth >= documents {
                let judged = |id: &str| moved.iter().find(|own| own.id == id)?.judged.clone();
                let found = fused.into_iter().take(k).map(|hit| {
                    let judged = judged(&hit.id).filter(|_| hit.scores.memory.is_some());
                    (hit.id, hit.score.to_bits(), hit.scores.memory, judged)
                });
                return found.collect();
            }
            depth *= 4;
        }
    }
}

#[test]
fn judgments_count_in_several_indexes_as_in_one() {
    let shards = Shards::new(3);
    for index in shards.shards.iter().chain([&shards.single]) {
        index.delete("d000").unwrap();
    }
    let (mut judgments, mut outside) = (Vec::new(), Vec::new());
    // Fewer than with which an index learns by itself how much near questions count.
    let questions: Vec<String> = questions().into_iter().skip(10).collect();
    for question in &questions {
        let all = SearchRequest::dense().exact().k(400);
        let ranked = shards.single.search_with(&shards.encode(question), &all).unwrap().hits;
        let id = |place: usize| ranked[place].id.clone();
        let spelt = format!("{}?!", question.to_uppercase());
        judgments.push(Judgment::new(question, id(0), 0));
        judgments.push(Judgment::new(question, id(1), -1).with_weight(0.2));
        // Both at once.
        judgments.push(Judgment::new(question, id(2), 3));
        judgments.push(Judgment::new(&spelt, id(2), 0));
        judgments.push(Judgment::new(question, id(399), 3).with_weight(0.4));
        judgments.push(Judgment::new(&spelt, id(399), 1).with_weight(0.3));
        judgments.extend(["none", "d000"].map(|id| Judgment::new(question, id, 1)));
        judgments.push(Judgment::new(question, id(300), -1));
        judgments.push(Judgment::new(question, id(300), 3));
        outside.push(id(300));
    }
    shards.single.record_all(judgments.clone()).unwrap();
    let judged = JudgedQuestions::new(&judgments).unwrap();
    assert!(judged.documents("another question").is_empty());
    let modes = [Fusion::Convex(0.6), Fusion::Rrf { k: 60.0 }].map(RankBy::Hybrid);
    let (mut added, mut nowhere) = (0, 0);
    for (question, outside) in questions.iter().zip(outside) {
        let (vector, moved) = (shards.encode(question), judged.documents(question));
        assert_eq!(moved.len(), 7, "{question}");
        let asked = Question::Encoded(question, &vector);
        for mode in modes.into_iter().chain([RankBy::Dense, RankBy::Lexical]) {
            for (k, beam) in [(5, 1), (60, 3), (5, usize::MAX)] {
                for filter in [None, Some(Filter::lt("place", 200))] {
                    let mut request = SearchRequest::of(mode).k(k);
                    if mode != RankBy::Lexical {
                        request = request.codes(false).leaves(&shards.leaves(&vector, beam));
                    }
                    request.filter = filter.map(Arc::new);
                    let mut of_one = request.clone();
                    of_one.statistics = (mode != RankBy::Dense).then(|| Arc::clone(&shards.statistics));
                    let one = shards.single.search_with(asked, &of_one).unwrap().hits;
                    let one: Vec<Found> = one
                        .into_iter()
                        .map(|hit| (hit.id, hit.score.to_bits(), hit.scores.memory, hit.judged))
                        .collect();
                    let several = shards.fused(asked, &request, &moved);
                    assert_eq!(several, one, "{question} {mode:?} {k} {beam} {:?}", request.filter);
                    added += one.iter().filter(|hit| hit.2.is_some()).count();
                    let is_free = request.filter.is_none() && mode == RankBy::Dense;
                    nowhere += usize::from(is_free && one.iter().all(|hit| hit.0 != outside));
                    // Without judgments.
                    let one = shards.single.search_with(asked, &of_one.no_memory()).unwrap().hits;
                    let several = shards.fused(asked, &request, &[]);
                    let several: Vec<_> = several.into_iter().map(|(id, score, ..)| (id, score)).collect();
                    assert_eq!(several, bits(&one), "{question} {mode:?} {k} {beam}");
                }
            }
        }
    }
    assert_eq!(nowhere, 0);
    assert!(added > 900, "{added}");
    let refused = shards.single.candidates("a", 5, &[], &SearchRequest::default());
    assert!(matches!(&refused, Err(Error::Input(InputError::InapplicableOption { .. }))), "{refused:?}");
    assert!(fuse_candidates([], 5, RankBy::Best, 5, &[]).is_err());
    assert!(JudgedQuestions::new(&[Judgment::new(" ", "a", 1)]).is_err());
}

#[test]
fn given_leaves_exclude_what_says_how_far() {
    let (_dir, index) = filled(SHAPE, 60);
    let vector = index.bundle().model().encoder().unwrap().embed(&["tree leaf"], Role::Query).unwrap();
    let leaves = [LeafId(0), LeafId(1), LeafId(0)];
    let refused = index.search_with("tree", &SearchRequest::lexical().leaves(&leaves));
    let expected = InputError::Conflict { options: ["lexical", "leaves"] };
    assert!(matches!(&refused, Err(Error::Input(error)) if *error == expected), "{refused:?}");
    let tree = SHAPE.leaves() as u32;
    let refused = index.search_with(&vector, &SearchRequest::dense().leaves(&[LeafId(tree)]));
    let expected = InputError::UnknownLeaf { leaf: tree, leaves: tree };
    assert!(matches!(&refused, Err(Error::Input(error)) if *error == expected), "{refused:?}");
    let refused = index.search_with(&vector, &SearchRequest::dense().leaves(&[]));
    assert!(matches!(&refused, Err(Error::Input(InputError::OutOfRange { .. }))), "{refused:?}");
    let request = SearchRequest::dense().leaves(&leaves);
    let refused = index.explain(&vector, &request, false);
    assert!(matches!(refused, Err(Error::Input(InputError::InapplicableOption { .. }))));
    // A leaf given twice is visited once.
    let found = index.search_with(&vector, &request.k(60)).unwrap();
    assert_eq!(found.stats.leaves_visited, 2);
    assert_eq!(found.stats.documents_visited, found.hits.len());
    assert!(found.hits.iter().all(|hit| leaves.contains(&hit.leaf)));
}

#[test]
fn statistics_are_for_words_of_their_own() {
    let (_dir, index) = filled(SHAPE, 60);
    let statistics = Arc::new(index.term_statistics().unwrap());
    let refused = index.search_with("tree", &SearchRequest::dense().statistics(&statistics));
    let expected = InputError::Conflict { options: ["dense", "statistics"] };
    assert!(matches!(&refused, Err(Error::Input(error)) if *error == expected), "{refused:?}");
    let dir = TempDir::new().unwrap();
    let model = index.bundle();
    let stems = Index::builder().analyzer(ehi::Analyzer::Stems(ehi::Language::English));
    let stems = stems.create(dir.path().join("stems"), &model).unwrap();
    stems.insert(Document::new("a", "", "trees and leaves")).unwrap();
    let refused = stems.search_with("tree", &SearchRequest::lexical().statistics(&statistics));
    assert!(matches!(&refused, Err(Error::Input(InputError::OtherTerms(..)))), "{refused:?}");
    let refused = stems.term_statistics().unwrap().add(&statistics);
    assert!(refused.is_err_and(|refused| refused.to_string().starts_with("the statistics are of ")));
    // Those of an index are what it uses anyway.
    let own = index.search_with("tree leaf", &SearchRequest::lexical()).unwrap().hits;
    assert_eq!(
        index.search_with("tree leaf", &SearchRequest::lexical().statistics(&statistics)).unwrap().hits,
        own
    );
}

/// Ids of equal documents in a different order, among enough rows that a walk finds them, and among so few
/// that their ids are compared.
#[test]
fn ties_at_the_last_place_go_to_the_least_ids() {
    let model = bundle(SHAPE);
    let dir = TempDir::new().unwrap();
    for (name, same, others) in [("many", 200, 10), ("few", 7, 300)] {
        let index = Index::create(dir.path().join(name), &model).unwrap();
        let id = |place: usize| format!("{:03}", place * 37 % same);
        let equal = (0..same).map(|place| Document::new(id(place), "", "one protein of the cell"));
        index.insert_batch(equal).unwrap();
        index.flush().unwrap();
        index
            .insert_batch((0..others).map(|n| Document::new(format!("x{n}"), "", format!("leaf {n}"))))
            .unwrap();
        for k in [1, 3, 5] {
            let expected: Vec<String> = (0..k).map(|n| format!("{n:03}")).collect();
            let question = "one protein of the cell";
            let mut found = BTreeMap::new();
            found.insert("exact", index.search_with(question, &SearchRequest::dense().k(k).exact()).unwrap());
            found.insert(
                "codes",
                index.search_with(question, &SearchRequest::dense().k(k).exact().codes(true)).unwrap(),
            );
            found.insert(
                "tree",
                index.search_with(question, &SearchRequest::dense().k(k).beam(SHAPE.leaves())).unwrap(),
            );
            found.insert("words", index.search_with(question, &SearchRequest::lexical().k(k)).unwrap());
            found.insert(
                "hybrid",
                index.search_with(question, &SearchRequest::hybrid(Fusion::Convex(0.5)).k(k)).unwrap(),
            );
            found.insert(
                "rrf",
                index.search_with(question, &SearchRequest::hybrid(Fusion::Rrf { k: 60.0 }).k(k)).unwrap(),
            );
            for (mode, found) in found {
                let ids: Vec<String> = found.hits.into_iter().map(|hit| hit.id).collect();
                assert_eq!(ids, expected, "{name} {mode}");
            }
        }
    }
}

#[test]
fn a_tree_is_made_beside_an_index() {
    let (dir, index) = filled(SHAPE, 200);
    let output = dir.path().join("tree");
    let options = TuneOptions { leaves: Some(30), passes: Some(2), ..TuneOptions::default() };
    let tuned = index.make_tree(&output, &options).unwrap();
    assert_eq!((tuned.leaves, tuned.change.is_none()), (30, true));
    let made = Bundle::open(&output).unwrap();
    assert_eq!(made.model().indexer().shape().leaves(), 30);
    assert!(made.has_encoder_of(&index.bundle()) && made.hash() != index.bundle().hash());
    let refused = index.make_tree(dir.path().join("other"), &TuneOptions { always: true, ..options });
    assert!(matches!(&refused, Err(Error::Input(InputError::InapplicableOption { .. }))), "{refused:?}");
}

/// Documents of one index, copied into several and back.
#[test]
fn documents_are_taken_over_with_their_embeddings() {
    let shards = Shards::new(3);
    let dir = TempDir::new().unwrap();
    let merged = Index::create(dir.path().join("merged"), &shards.model).unwrap();
    merged.insert(Document::new("d000", "", "in the way")).unwrap();
    for shard in &shards.shards {
        let ids = shard.ids().unwrap();
        assert!(ids.is_sorted() && ids.len() == shard.len());
        let unknown = ids.iter().map(String::as_str).chain(["none"]);
        assert_eq!(merged.insert_from(shard, unknown).unwrap(), shard.len());
    }
    merged.compact().unwrap();
    assert_eq!(merged.ids().unwrap(), shards.single.ids().unwrap());
    assert_eq!(merged.get("d000").unwrap(), shards.single.get("d000").unwrap());
    assert_eq!(merged.term_statistics().unwrap(), *shards.statistics);
    assert!(merged.verify().unwrap().is_sound());
    for question in questions() {
        let vector = shards.encode(&question);
        let found = |index: &Index| {
            let beam =
                index.search_with(&vector, &SearchRequest::dense().k(40).codes(false).beam(3)).unwrap();
            let words = index.search_with(&question, &SearchRequest::lexical().k(40)).unwrap();
            [bits(&beam.hits), bits(&words.hits)]
        };
        assert_eq!(found(&merged), found(&shards.single), "{question}");
    }
    // From a reader too, and other documents are not copied.
    shards.single.flush().unwrap();
    let reader = Index::open_read_only(shards.single.path()).unwrap();
    let some = Index::create(dir.path().join("some"), &shards.model).unwrap();
    assert_eq!(some.insert_from(&reader, ["d000", "none", "s000"]).unwrap(), 2);
    assert_eq!(some.ids().unwrap(), ["d000", "s000"]);
}

#[test]
fn another_tree_of_the_encoder_routes_anew_and_another_encoder_is_refused() {
    let (dir, index) = filled(SHAPE, 60);
    // The encoder of a bundle without training layers of it is that of its base.
    let other = bundle(Shape { height: 1 });
    assert!(other.has_encoder_of(&index.bundle()));
    let target = Index::create(dir.path().join("other"), &other).unwrap();
    assert_eq!(target.insert_from(&index, index.ids().unwrap()).unwrap(), 60);
    assert!(target.verify().unwrap().is_sound());
    let expected = Index::create(dir.path().join("expected"), &index.bundle()).unwrap();
    expected.insert_from(&index, index.ids().unwrap()).unwrap();
    expected.reencode(&other).unwrap();
    let leaf_sizes = |index: &Index| index.stats().unwrap().leaf_sizes;
    assert_eq!(leaf_sizes(&target), leaf_sizes(&expected));
    let scifact = Bundle::open(concat!(env!("CARGO_MANIFEST_DIR"), "/../models/scifact-minilm")).unwrap();
    let strange = Index::create(dir.path().join("strange"), &scifact).unwrap();
    let refused = strange.insert_from(&index, index.ids().unwrap());
    assert!(matches!(&refused, Err(Error::Input(InputError::ModelMismatch { .. }))), "{refused:?}");
    assert!(strange.is_empty());
    let with_passages =
        |name: &str| Index::builder().passages(8, 2).create(dir.path().join(name), &index.bundle()).unwrap();
    let passages = with_passages("passages");
    let refused = passages.insert_from(&index, index.ids().unwrap());
    assert!(matches!(&refused, Err(Error::Input(InputError::NeedsTexts { .. }))), "{refused:?}");
    let long = "leaf tree branch root stem bark twig bud seed soil rain sun";
    passages.insert(Document::new("a", "", long)).unwrap();
    let refused = index.insert_from(&passages, ["a"]);
    assert!(matches!(&refused, Err(Error::Input(InputError::PassagesMismatch { .. }))), "{refused:?}");
    let again = with_passages("again");
    assert_eq!(again.insert_from(&passages, ["a"]).unwrap(), 1);
    assert_eq!(again.embeddings(), passages.embeddings());
    assert!(again.embeddings() > 1);
}
