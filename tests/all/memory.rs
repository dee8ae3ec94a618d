//! Judgments change the next search of the same question and, once learned, of near ones.

use std::fs;
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::support::{Shape, document, filled, id};
use ehi::search::{Fusion, Reach};
use ehi::{Filter, Hit, Index, Judgment, SearchRequest, SearchResult};

const SHAPE: Shape = Shape { height: 1 };
const QUESTION: &str = "gene protein 31";
/// Far from the best by any score.
const FAR: usize = 77;

fn modes() -> [SearchRequest; 5] {
    let hybrid = [Fusion::Learned, Fusion::Rrf { k: 60.0 }].map(SearchRequest::hybrid);
    let [learned, rrf] = hybrid;
    [SearchRequest::dense(), SearchRequest::lexical(), SearchRequest::default(), learned, rrf]
}

fn ask(index: &Index, request: &SearchRequest) -> SearchResult {
    index.search_with(QUESTION, request).unwrap()
}

fn place(result: &SearchResult, place: usize) -> Option<usize> {
    result.iter().position(|hit| hit.id == id(place))
}

fn ranking(result: &SearchResult) -> Vec<(String, u32)> {
    result.iter().map(|hit| (hit.id.clone(), hit.score.to_bits())).collect()
}

#[test]
fn a_judgment_moves_its_document_at_once_and_taken_back_moves_nothing() {
    let (_dir, index) = filled(SHAPE, 100);
    let before = modes().map(|request| ranking(&ask(&index, &request)));
    assert!(before.iter().flatten().all(|(found, _)| *found != id(FAR)));
    // Loaded by the searches above; another spelling is the same question.
    index.record("Gene, protein 31?", &id(FAR), 1).unwrap();
    for (request, before) in modes().into_iter().zip(&before) {
        let found = ask(&index, &request);
        let best: &Hit = &found.hits[0];
        assert_eq!(best.id, id(FAR), "{request:?}");
        let judged = best.judged.as_ref().unwrap();
        assert_eq!((&*judged.question, judged.similarity, judged.grade), ("Gene, protein 31?", 1.0, 1));
        assert!(best.scores.memory.unwrap() > 0.0);
        // The others keep their scores.
        let others: Vec<_> = ranking(&found)[1..].to_vec();
        assert_eq!(others, before[..others.len()]);
        assert_eq!(&ranking(&ask(&index, &request.clone().no_memory())), before);
    }
    // A document that does not answer falls; a click moves less than a judgment.
    let dense = SearchRequest::dense();
    let best = before[0][0].0.clone();
    index.record(QUESTION, &best, 0).unwrap();
    assert!(ask(&index, &dense).iter().all(|hit| hit.id != best || hit.scores.memory.unwrap() < 0.0));
    // It is not among the hits now, and an explanation says why.
    for request in modes().map(|request| request.k(3)) {
        let explained = index.explain(QUESTION, &request, false).unwrap();
        assert!(explained.hits.iter().all(|own| own.hit.id != best), "{request:?}");
        let [moved] = &*explained.moved else { panic!("{:?}", explained.moved) };
        let judged = moved.judged.as_ref().unwrap();
        assert_eq!((&*moved.id, &*judged.question, judged.grade), (&*best, QUESTION, 0));
        assert!(moved.moved < -1.0 && judged.moved == moved.moved && judged.is_noticeable());
        assert!(index.explain(QUESTION, &request.no_memory(), false).unwrap().moved.is_empty());
    }
    let click = Judgment::new(QUESTION, id(FAR + 1), 1).with_weight(0.1);
    index.record_all([click]).unwrap();
    let clicked = ask(&index, &SearchRequest::hybrid(Fusion::Learned).k(100));
    assert!(place(&clicked, FAR) == Some(0) && place(&clicked, FAR + 1) > Some(0));

    let all = index.judgments().unwrap();
    index.forget(all.iter().map(|own| (&*own.question, &*own.id))).unwrap();
    assert_eq!(modes().map(|request| ranking(&ask(&index, &request))), before);
}

/// Files below a folder that contain these bytes.
fn holding(folder: &Path, bytes: &[u8]) -> Vec<String> {
    let mut found = Vec::new();
    for path in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
        match path.is_dir() {
            true => found.extend(holding(&path, bytes)),
            false if fs::read(&path).unwrap().windows(bytes.len()).any(|own| own == bytes) => {
                found.push(path.file_name().unwrap().to_str().unwrap().to_owned());
            }
            false => {}
        }
    }
    found
}

#[test]
fn what_is_forgotten_moves_nothing_and_is_in_no_file_after_compaction() {
    let (dir, index) = filled(SHAPE, 100);
    let path = dir.path().join("index");
    let request = SearchRequest::dense();
    let before = ranking(&ask(&index, &request));
    let spelling = "Gene, PROTEIN 31?";
    let told = "is Mrs Unforgettable ill?";
    let mut judgments: Vec<Judgment> = [spelling, QUESTION].map(|own| Judgment::new(own, id(FAR), 1)).into();
    judgments.extend([1, 2, 3].map(|n| Judgment::new(told, id(n), 1).at(n as u64)));
    index.record_all(judgments).unwrap();
    index.flush().unwrap();
    index.record(told, &id(4), 1).unwrap();
    assert!(place(&index.search_with(told, &request).unwrap(), 4) < Some(4));
    assert!(holding(&path, b"Unforgettable").len() > 1, "in a segment and in the log");

    let forget = |question: &str| index.forget_where(|own| own.question == question).unwrap();
    assert_eq!(index.forget_where(|own| own.time < 3).unwrap(), 2);
    assert_eq!((forget(told), forget(told)), (2, 0));
    // Another spelling has its own judgment.
    assert_eq!((forget(spelling), place(&ask(&index, &request), FAR)), (1, Some(0)));
    assert_eq!((forget(QUESTION), ranking(&ask(&index, &request))), (1, before));
    assert!(index.search_with(told, &request).unwrap().iter().all(|hit| hit.judged.is_none()));
    assert!(!holding(&path, b"Unforgettable").is_empty());
    index.compact().unwrap();
    assert_eq!(holding(&path, b"Unforgettable"), Vec::<String>::new());
    assert!(index.judgments().unwrap().is_empty() && index.verify().unwrap().is_sound());
}

#[test]
fn judgments_age_by_the_half_life_of_their_index() {
    let (dir, index) = filled(SHAPE, 100);
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    let day = Duration::from_secs(86_400);
    let judged = |place: usize, days: u64| Judgment::new(QUESTION, id(place), 1).at(now - days * 86_400);
    index.record_all([judged(FAR, 1), judged(FAR + 1, 6), judged(FAR + 2, 7)]).unwrap();
    let request = SearchRequest::dense().k(100);
    let moved = |index: &Index| {
        let found = ask(index, &request);
        [0, 1, 2].map(|more| found.hits[place(&found, FAR + more).unwrap()].scores.memory.unwrap_or(0.0))
    };
    let all = ranking(&ask(&index, &request));
    let [whole, same, _] = moved(&index);
    assert_eq!((whole > 0.0, same), (true, whole));
    let aged = |moved: [f32; 3]| {
        let shares = moved.map(|own| own / whole);
        (shares[0] - 0.5).abs() < 1e-3 && (shares[1] - 1.0 / 64.0).abs() < 1e-4 && moved[2] == 0.0
    };
    index.set_half_life(Some(day)).unwrap();
    assert!(aged(moved(&index)), "{:?} {whole}", moved(&index));
    let later = index.search_with("another question", &request).unwrap();
    assert!(later.iter().all(|hit| hit.judged.is_none()));
    index.flush().unwrap();
    let path = dir.path().join("index");
    let reader = Index::open_read_only(&path).unwrap();
    assert!(aged(moved(&reader)));
    index.set_half_life(None).unwrap();
    index.flush().unwrap();
    assert_eq!(ranking(&ask(&index, &request)), all);
    assert!(aged(moved(&reader)), "until it is refreshed");
    reader.refresh().unwrap();
    assert_eq!(ranking(&ask(&reader, &request)), all);
}

#[test]
fn a_lower_grade_and_a_judgment_of_an_earlier_text_count_less() {
    let (dir, index) = filled(SHAPE, 100);
    let judged = |place: usize, grade| Judgment::new(QUESTION, id(place), grade);
    index.record_all([judged(FAR, 3), judged(FAR + 1, 1), judged(FAR + 2, -1)]).unwrap();
    let request = SearchRequest::dense().k(100);
    let found = |index: &Index, place: usize| {
        let hits = ask(index, &request).hits;
        let hit = hits.into_iter().find(|hit| hit.id == id(place)).unwrap();
        (hit.scores.memory.unwrap(), hit.judged.unwrap().stale)
    };
    let (whole, _) = found(&index, FAR);
    assert!((found(&index, FAR + 1).0 / whole - 1.0 / 3.0).abs() < 1e-4);
    // A document that is not there has no part in it.
    index.record("Gene, protein 31?", "absent", i32::MAX).unwrap();
    assert_eq!(found(&index, FAR).0, whole);
    assert!((found(&index, FAR + 2).0 / whole + 1.0).abs() < 1e-4);
    // Metadata is not what was judged.
    let same = document(FAR).with_metadata(serde_json::json!({ "read": true }));
    index.insert(same).unwrap();
    assert_eq!(found(&index, FAR), (whole, false));
    let mut other = document(FAR);
    other.text.push_str(" and more");
    index.insert(other).unwrap();
    let halved = |index: &Index| {
        let (moved, stale) = found(index, FAR);
        stale && (moved / whole - 0.5).abs() < 0.05
    };
    assert!(halved(&index));
    let (_copy_dir, copy) = filled(SHAPE, 100);
    copy.record_all(index.judgments().unwrap()).unwrap();
    assert_eq!(found(&copy, FAR), (whole, false), "the text that was judged");
    index.compact().unwrap();
    index.flush().unwrap();
    assert!(halved(&index) && halved(&Index::open_read_only(dir.path().join("index")).unwrap()));
    index.record_all([judged(FAR, 3)]).unwrap();
    assert!(!found(&index, FAR).1);
}

#[test]
fn memory_obeys_filters_reach_and_deletions() {
    let (_dir, index) = filled(SHAPE, 100);
    index.record(QUESTION, &id(FAR), 1).unwrap();
    let filter = |text: &str| SearchRequest::dense().filter(&text.parse::<Filter>().unwrap());
    assert_eq!(place(&ask(&index, &filter(r#"{"place": {"$gt": 70}}"#)), FAR), Some(0));
    assert_eq!(place(&ask(&index, &filter(r#"{"place": {"$lt": 70}}"#)), FAR), None);
    // Beyond the beam, too.
    for request in [SearchRequest::dense().beam(1), SearchRequest::dense().reach(Reach::Exact)] {
        assert_eq!(place(&ask(&index, &request), FAR), Some(0));
    }
    // A required word that the document lacks.
    let required = index.search_with("gene +protein 31", &SearchRequest::lexical()).unwrap();
    assert_eq!(place(&required, FAR), None);
    index.delete(&id(FAR)).unwrap();
    assert_eq!(place(&ask(&index, &SearchRequest::dense()), FAR), None);
    index.insert(document(FAR)).unwrap();
    assert_eq!(place(&ask(&index, &SearchRequest::dense()), FAR), Some(0));
    // Its row is another one now.
    for n in 0..50 {
        index.delete(&id(n)).unwrap();
    }
    assert_eq!(place(&ask(&index, &SearchRequest::dense()), FAR), Some(0));
    index.compact().unwrap();
    assert_eq!(place(&ask(&index, &SearchRequest::dense()), FAR), Some(0));
}

/// Questions that share their answers with a near one.
fn judged_twice() -> Vec<Judgment> {
    let question = |n: usize, more: &str| format!("{} {more}", document(n).text);
    let answer = |n: usize| id((n * 37 + 11) % 100);
    let both = (0..100).flat_map(|n| ["again", "once more"].map(|more| (question(n, more), answer(n))));
    both.map(|(question, answer)| Judgment::new(question, answer, 1)).collect()
}

#[test]
fn near_questions_count_as_learned_and_answers_survive_every_way_to_open() {
    let (dir, index) = filled(SHAPE, 100);
    index.record_all(judged_twice()).unwrap();
    let near = |n: usize| format!("{} yet", document(n).text);
    let found = |index: &Index| -> Vec<_> {
        (0..100).map(|n| ranking(&index.search_with(&*near(n), &SearchRequest::default()).unwrap())).collect()
    };
    let answered =
        |index: &Index| (0..100).filter(|&n| found(index)[n][0].0 == id((n * 37 + 11) % 100)).count();
    index.flush().unwrap();
    let path = dir.path().join("index");
    let reader = Index::open_read_only(&path).unwrap();
    found(&reader);
    // By itself, on a thread.
    let fused = index.finish_fit().unwrap();
    assert_eq!(index.fusion(), fused.fusion);
    let fusion = fused.fusion.unwrap();
    let memory = fusion.memory.as_ref().unwrap();
    // Without judgments is what both give, or embeddings alone where words do not help.
    assert_eq!(fusion.words_help, fusion.hybrid > fusion.dense);
    assert_eq!(memory.without, if fusion.words_help { fusion.hybrid } else { fusion.dense });
    assert!(memory.weight > 0.0 && memory.with > memory.without + 0.2 && memory.p_value < 0.01, "{memory:?}");
    assert_eq!(memory.by_nearness.iter().map(|own| own.questions).sum::<usize>(), fused.questions);
    let all = found(&index);
    let now = answered(&index);
    assert!(now > 50, "{now} {memory:?}");

    assert_eq!(found(&Index::open_read_only(&path).unwrap()), all);
    // The judgments are the same, and the weights are new.
    reader.refresh().unwrap();
    assert_eq!(found(&reader), all);
    // A judged question counts for near ones at once, and in its first spelling by order.
    let more = format!("{} and again", document(7).text);
    for question in [more.to_lowercase(), more.to_uppercase()] {
        index.record(&question, &id(18), 1).unwrap();
    }
    let all = found(&index);
    index.compact().unwrap();
    assert_eq!(found(&index), all);
    drop(index);
    let file = fs::read_dir(path.join("models")).unwrap().next().unwrap().unwrap().path().join("MEMORY");
    let stored = fs::read(&file).unwrap();
    assert_eq!(found(&Index::open(&path).unwrap()), all);
    // Torn, damaged, foreign or gone: the vectors are made again.
    let (mut flipped, mut foreign) = (stored.clone(), stored.clone());
    flipped[stored.len() / 2] ^= 1;
    foreign[9] ^= 1;
    for content in [&stored[..stored.len() / 2 + 5], &flipped, &foreign, &[]] {
        fs::write(&file, content).unwrap();
        assert_eq!(found(&Index::open(&path).unwrap()), all);
    }
    fs::remove_file(&file).unwrap();
    let index = Index::open(&path).unwrap();
    assert_eq!(found(&index), all);
    assert_eq!(fs::read(&file).unwrap().len(), stored.len());
    index.verify().unwrap();
    index.forget_where(|own| own.question.ends_with("again")).unwrap();
    index.compact().unwrap();
    assert_eq!(fs::read(&file).unwrap().len() - 16, (stored.len() - 16) / 201 * 101);
    index.forget_where(|_| true).unwrap();
    index.compact().unwrap();
    assert!(!file.exists());
}

#[test]
fn memory_that_misleads_is_not_used() {
    let (_dir, index) = filled(SHAPE, 100);
    // Each question is answered by its own document, and never by that of a near one.
    let judgments = (0..100).map(|n| Judgment::new(document(n).text, id(n), 1));
    index.record_all(judgments).unwrap();
    // The half-life is in the same store, and is no judgment.
    index.set_half_life(Some(Duration::from_secs(86_400))).unwrap();
    let fusion = index.fuse(&[]).unwrap().fusion.unwrap();
    assert_eq!(fusion.judgments, 100);
    let memory = fusion.memory.unwrap();
    assert_eq!(memory.weight, 0.0, "{memory:?}");
    assert_eq!(memory.without, if fusion.words_help { fusion.hybrid } else { fusion.dense });
}

#[test]
fn what_is_judged_during_searches_counts_as_if_it_had_been_judged_before() {
    let (dir, index) = filled(SHAPE, 100);
    let questions: Vec<String> = (0..200).map(|n| format!("{} so", document(n).text)).collect();
    let request = SearchRequest::dense();
    let answers = |index: &Index| -> Vec<_> {
        index.search_many(questions.iter().map(|own| &**own), &request).unwrap().iter().map(ranking).collect()
    };
    std::thread::scope(|scope| {
        let judging = scope.spawn(|| {
            for (n, question) in questions.iter().enumerate() {
                index.record(question, &id(n * 7 % 100), 1).unwrap();
                if n % 50 == 49 {
                    index.forget([(&**question, &*id(n * 7 % 100))]).unwrap();
                }
            }
        });
        while !judging.is_finished() {
            answers(&index);
        }
    });
    let found = answers(&index);
    index.compact().unwrap();
    assert_eq!(answers(&index), found);
    drop(index);
    assert_eq!(answers(&Index::open(dir.path().join("index")).unwrap()), found);
    assert_eq!((0..200).filter(|&n| found[n][0].0 == id(n * 7 % 100)).count(), 196);
}
