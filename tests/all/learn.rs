//! Judgments, the log of questions, and learning from both.

use std::cell::{Cell, RefCell};
use std::collections::HashSet;
use std::fs;
use std::ops::ControlFlow;
use std::path::Path;
use std::time::Duration;

use crate::program::{ehi, text};
use crate::support::{Shape, base_model, bundle, copy_directory, documents, filled, id};
use ehi::calibrate::{FEWEST_QUESTIONS, QuestionSource};
use ehi::learn::{Decision, LearnOptions, TuneOptions};
use ehi::store::StoreError;
use ehi::train::{TrainConfig, TrainError, is_held_out};
use ehi::{
    Bundle, Error, FEWEST_FUSION_QUESTIONS, Index, InputError, Judgment, Progress, SearchRequest, Stage,
    no_progress,
};
use tempfile::TempDir;

const SHAPE: Shape = Shape { height: 2 };
/// Documents by subject: the one of document `n` is `n % SUBJECTS`.
const SUBJECTS: usize = 6;
const STORED: usize = 120;
const QUESTIONS: usize = 240;

/// What two handles must agree on: question, id, grade and weight.
fn known(index: &Index) -> Vec<(String, String, i32, f64)> {
    let judgments = index.judgments().unwrap();
    judgments.into_iter().map(|j| (j.question, j.id, j.grade, j.weight)).collect()
}

fn row(question: &str, id: &str, grade: i32) -> (String, String, i32, f64) {
    (question.to_owned(), id.to_owned(), grade, 1.0)
}

#[test]
fn judgments_outlive_whatever_happens_to_the_model() {
    let (dir, index) = filled(SHAPE, 12);
    let path = dir.path().join("index");
    assert!(index.judgments().unwrap().is_empty() && !path.join("judgments").exists());
    assert_eq!(index.judgments_of("what is a tree?", ["a", "b"]).unwrap(), [None, None]);
    assert_eq!(index.forget([("a", "b")]).unwrap(), 0);
    assert_eq!((index.half_life().unwrap(), index.forget_where(|_| true).unwrap()), (None, 0));
    index.set_half_life(None).unwrap();
    let zero = index.set_half_life(Some(Duration::ZERO));
    assert!(matches!(zero, Err(Error::Input(InputError::OutOfRange { .. }))), "{zero:?}");
    assert!(!path.join("judgments").exists(), "nothing is written without need");

    assert!(index.record("what is a tree?", &id(0), 1).unwrap());
    assert!(!index.record("what is a tree?", &id(0), 2).unwrap(), "it takes the place of the first");
    let recorded = index
        .record_all([
            Judgment::new("what is a tree?", "not yet there", 1),
            Judgment::new("how far?", id(1), 0),
            Judgment::new("what is a tree?", id(0), -1),
        ])
        .unwrap();
    assert_eq!((recorded.added, recorded.replaced, recorded.without_document), (2, 1, 1));
    let expected = [
        row("how far?", &id(1), 0),
        row("what is a tree?", &id(0), -1),
        row("what is a tree?", "not yet there", 1),
    ];
    assert_eq!(known(&index), expected);
    assert_eq!(index.len(), 12, "they are no documents");

    let half_life = Some(Duration::new(86_400, 5));
    index.set_half_life(half_life).unwrap();
    assert_eq!((index.half_life().unwrap(), known(&index)), (half_life, expected.to_vec()));

    let reader = Index::open_read_only(&path).unwrap();
    assert!(reader.judgments().unwrap().is_empty(), "not flushed");
    index.flush().unwrap();
    assert_eq!(known(&reader), expected);
    for handle in [&index, &reader] {
        let all = handle.judgments().unwrap();
        let ids = ["not yet there", "absent", &id(1), &id(0)];
        let own = handle.judgments_of("what is a tree?", ids).unwrap();
        assert_eq!(own, [Some(all[2].clone()), None, None, Some(all[1].clone())]);
        assert_eq!(handle.judgments_of("how far", ids).unwrap(), [const { None }; 4]);
    }
    assert_eq!(reader.half_life().unwrap(), half_life);
    assert!(matches!(reader.record("a", "b", 1), Err(Error::Store(_))));
    assert!(matches!(reader.set_half_life(None), Err(Error::Store(_))));
    assert!(matches!(reader.forget_where(|_| true), Err(Error::Store(_))));
    drop(reader);

    let copy = dir.path().join("copy");
    index.snapshot(&copy).unwrap();
    index.reencode(&bundle(Shape::of_height(1))).unwrap();
    assert_eq!((known(&index), index.half_life().unwrap()), (expected.to_vec(), half_life));
    index.rollback().unwrap();
    index.compact().unwrap();
    assert!(index.stats().unwrap().bytes.judgments > 0);
    assert!(index.verify().unwrap().is_sound());
    assert_eq!(index.forget([("how far?", id(1).as_str()), ("how far?", "d")]).unwrap(), 1);
    drop(index);
    let index = Index::open(&path).unwrap();
    assert_eq!((known(&index), index.half_life().unwrap()), (expected[1..].to_vec(), half_life));
    index.set_half_life(None).unwrap();
    assert_eq!((known(&index), index.half_life().unwrap()), (expected[1..].to_vec(), None));
    let copied = Index::open_read_only(&copy).unwrap();
    assert_eq!((known(&copied), copied.half_life().unwrap()), (expected.to_vec(), half_life));
    assert!(copied.verify().unwrap().is_sound());
}

#[test]
fn what_was_recorded_survives_a_handle_that_is_never_closed() {
    let (dir, index) = filled(SHAPE, 3);
    index.flush().unwrap();
    index.record("what?", &id(0), 1).unwrap();
    // As a kill leaves it: neither flushed nor dropped.
    let copy = dir.path().join("copy");
    copy_directory(&dir.path().join("index"), &copy);
    // The next writer recovers them, whatever it writes.
    let said = run(&copy, "recover", &[]).ok();
    assert!(said.starts_with("1 judgment brought back"), "{said}");
    assert_eq!(known(&Index::open_read_only(&copy).unwrap()), [row("what?", &id(0), 1)]);
    let index = Index::open(&copy).unwrap();
    assert_eq!(known(&index), [row("what?", &id(0), 1)]);
    assert!(index.verify().unwrap().is_sound());
}

#[test]
fn a_judgment_that_cannot_be_stored_stores_none() {
    let (_dir, index) = filled(SHAPE, 3);
    let refused = |judgment: Judgment| {
        let sound = Judgment::new("sound", "d", 1);
        match index.record_all([sound, judgment]) {
            Err(Error::Input(error)) => error,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(refused(Judgment::new(" \n", "d", 1)), InputError::EmptyQuery);
    assert_eq!(
        refused(Judgment::new("q", "d", 1).with_weight(1.5)),
        InputError::OutOfRange {
            what: "the weight of a judgment",
            found: 1.5,
            expected: "above 0 and at most 1"
        }
    );
    let tomorrow = Judgment::new("q", "d", 1).time + 90_000;
    let (what, expected) = ("the time of a judgment", "in seconds since 1970, at most a day ahead");
    let found = tomorrow as f64;
    let of_the_future = refused(Judgment::new("q", "d", 1).at(tomorrow));
    assert_eq!(of_the_future, InputError::OutOfRange { what, found, expected });
    assert!(matches!(refused(Judgment::new("q", "", 1)), InputError::InvalidId { found: 0, .. }));
    let long = "x".repeat(65 << 20);
    assert!(matches!(refused(Judgment::new(long, "d", 1)), InputError::DocumentTooLarge { .. }));
    assert!(index.judgments().unwrap().is_empty());
}

#[test]
fn damaged_judgments_are_found_and_repaired() {
    let (dir, index) = filled(SHAPE, 3);
    let path = dir.path().join("index");
    index.record_all((0..50).map(|n| Judgment::new(format!("question {n}"), id(n), 1))).unwrap();
    drop(index);
    // In another segment.
    let half_life = Some(Duration::MAX);
    Index::open(&path).unwrap().set_half_life(half_life).unwrap();
    let segment = path.join("judgments/segments/00000000.documents");
    let mut bytes = fs::read(&segment).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(&segment, &bytes).unwrap();
    let index = Index::open(&path).unwrap();
    assert_eq!(index.search("tree", 3, 16).unwrap().len(), 3, "documents are not concerned");
    let report = index.verify().unwrap();
    assert!(report.problems.iter().all(|problem| problem.file.starts_with("judgments/")), "{report:?}");
    assert!(!report.is_sound());
    drop(index);
    let report = Index::repair(&path, &ehi::RepairOptions::default(), &mut no_progress).unwrap();
    assert!(report.judgments_damaged && !report.was_sound() && report.lost == 0, "{report:?}");
    let index = Index::open(&path).unwrap();
    assert_eq!(index.judgments().unwrap().len() as u64 + report.lost_judgments, 50);
    assert_eq!(index.half_life().unwrap(), half_life);
    assert!(index.verify().unwrap().is_sound());
    drop(index);
    // Anything but a directory is damage, and never written through.
    let other = dir.path().join("other");
    fs::rename(path.join("judgments"), &other).unwrap();
    std::os::unix::fs::symlink(&other, path.join("judgments")).unwrap();
    let index = Index::open(&path).unwrap();
    assert!(index.record("a", "b", 1).is_err() && index.judgments().is_err());
    assert!(index.snapshot(dir.path().join("copy")).is_err());
    let report = index.verify().unwrap();
    assert!(report.problems.iter().any(|problem| problem.file == "judgments"), "{report:?}");
    drop(index);
    fs::remove_file(path.join("judgments")).unwrap();
    fs::rename(&other, path.join("judgments")).unwrap();
    // If nothing of it can be read, it is set aside.
    for name in ["MANIFEST", "MANIFEST.copy"] {
        fs::write(path.join("judgments").join(name), "nothing").unwrap();
    }
    assert!(Index::open(&path).unwrap().judgments().is_err());
    let report = Index::repair(&path, &ehi::RepairOptions::default(), &mut no_progress).unwrap();
    assert!(report.judgments_set_aside && !report.was_sound(), "{report:?}");
    let index = Index::open(&path).unwrap();
    assert!(index.judgments().unwrap().is_empty());
    assert!(index.record("a", "b", 1).unwrap());
    assert!(path.join("damaged/judgments").exists());
}

#[test]
fn questions_are_logged_where_that_is_wanted_alone() {
    let (dir, index) = filled(SHAPE, 12);
    let path = dir.path().join("index");
    index.search("before", 1, 1).unwrap();
    assert!(!index.logs_questions() && index.logged_questions().unwrap().is_empty());
    index.log_questions(true).unwrap();
    index.log_questions(true).unwrap();
    index.search("what is\na \"tree\"?", 1, 1).unwrap();
    index.search_many(&["leaf", "leaf"], &SearchRequest::dense().k(1).beam(1)).unwrap();
    index.search_with(&[1.0; crate::support::WIDTH], &SearchRequest::dense().k(1).beam(1)).unwrap();
    index.search_with("being typ", &SearchRequest::dense().unlogged()).unwrap();
    index.search_many(&["being typed", "as wel"], &SearchRequest::dense().unlogged()).unwrap();
    assert!(index.search(" ", 1, 1).is_err());
    index.flush().unwrap();
    let reader = Index::open_read_only(&path).unwrap();
    reader.search("read only", 1, 1).unwrap();
    let logged = || -> Vec<String> {
        index.logged_questions().unwrap().into_iter().map(|logged| logged.question).collect()
    };
    assert_eq!(logged(), ["what is\na \"tree\"?", "leaf", "leaf", "read only"]);
    // A torn line is skipped, and nothing after it is lost.
    let torn = fs::read(path.join("QUESTIONS")).unwrap();
    fs::write(path.join("QUESTIONS"), &torn[..torn.len() - 5]).unwrap();
    index.search("after", 1, 1).unwrap();
    assert_eq!(logged(), ["what is\na \"tree\"?", "leaf", "leaf", "after"]);
    index.snapshot(dir.path().join("copy")).unwrap();
    assert!(!dir.path().join("copy/QUESTIONS").exists());
    assert!(matches!(reader.log_questions(false), Err(Error::Store(_))));
    index.log_questions(false).unwrap();
    reader.search("gone", 1, 1).unwrap();
    assert!(logged().is_empty() && !path.join("QUESTIONS").exists());
    // Searches go on without a log that cannot be written to, with a warning for all of them.
    fs::create_dir(path.join("QUESTIONS")).unwrap();
    let file = dir.path().join("questions");
    fs::write(&file, "leaf\ntree\n").unwrap();
    let ran = run(&path, "search", &["--questions", text(&file)]);
    assert_eq!(ran.err.matches("ehi: warning: questions are not logged (").count(), 1, "{}", ran.err);
    assert_eq!(ran.ok().lines().count(), 2);
}

#[test]
fn questions_that_were_asked_or_judged_are_what_is_measured() {
    let (_dir, index) = filled(SHAPE, STORED);
    index.log_questions(true).unwrap();
    let source = || index.calibrate(&[]).unwrap().source;
    index.search_many(&["leaf"; FEWEST_QUESTIONS], &SearchRequest::dense().k(1).beam(1)).unwrap();
    assert_eq!(source(), QuestionSource::Documents, "one question, often");
    let texts: Vec<String> = (0..FEWEST_QUESTIONS / 2).map(|n| format!("leaf {n}")).collect();
    index.search_many(&texts, &SearchRequest::dense().k(1).beam(1)).unwrap();
    assert_eq!(source(), QuestionSource::Documents);
    index
        .record_all((0..FEWEST_QUESTIONS / 2).map(|n| Judgment::new(format!("gene {n}"), id(n), 1)))
        .unwrap();
    assert_eq!(source(), QuestionSource::Asked);
    let options = TuneOptions { passes: Some(1), always: true, ..TuneOptions::default() };
    assert!(index.tune(&options).unwrap().change.is_some());
}

/// Questions in the words of one subject, answered by documents of the next one: nothing that an encoder
/// knows without being taught.
fn judged(documents_of: impl Fn(usize) -> Vec<usize>) -> Vec<Judgment> {
    let questions = documents(QUESTIONS).into_iter().enumerate();
    let of_question = questions.flat_map(|(number, document)| {
        let words: Vec<&str> = document.text.split(' ').take(6).collect();
        let question = format!("{} {number}", words.join(" "));
        documents_of(number).into_iter().map(move |answer| Judgment::new(&question, id(answer), 1))
    });
    of_question.collect()
}

fn of_next_subject(number: usize) -> Vec<usize> {
    (0..STORED).filter(|document| document % SUBJECTS == (number + 1) % SUBJECTS).collect()
}

/// The CRC of zlib, bit by bit: numbers without a pattern.
fn crc32(bytes: &[u8]) -> u32 {
    let step = |crc: u32| if crc & 1 == 1 { 0xedb8_8320 ^ (crc >> 1) } else { crc >> 1 };
    !bytes.iter().fold(!0, |crc, byte| (0..8).fold(crc ^ u32::from(*byte), |crc, _| step(crc)))
}

fn options() -> LearnOptions {
    let mut config = TrainConfig::default();
    config.encoder.trainable_layers = 1;
    config.encoder.learning_rate = 1e-3;
    config.encoder.max_document_tokens = 16;
    config.encoder.max_query_tokens = 12;
    config.schedule.epochs = 8;
    config.schedule.pairs_per_epoch = 480;
    config.schedule.indexer_epochs = 1;
    config.distillation.sentences = 0;
    LearnOptions { config, ..LearnOptions::default() }
}

/// For what cannot be learned however long: one pass.
fn briefly() -> LearnOptions {
    let mut options = options();
    options.config.schedule.epochs = 1;
    options
}

fn untrained(count: usize) -> (TempDir, Index) {
    let dir = TempDir::new().unwrap();
    let index =
        Index::create(dir.path().join("index"), &Bundle::from_encoder(base_model()).unwrap()).unwrap();
    index.insert_batch(documents(count)).unwrap();
    (dir, index)
}

#[test]
fn an_index_learns_what_it_was_told() {
    let (dir, index) = untrained(STORED);
    index.record_all(judged(of_next_subject)).unwrap();
    index.record("of nothing", "absent", 1).unwrap();
    index.finish_fit();
    let before = index.bundle().hash();
    let mut seen = 0;
    let learned = index
        .with_progress(|_| {
            seen += 1;
            ControlFlow::Continue(())
        })
        .learn(&options())
        .unwrap();
    assert_eq!(learned.decision, Decision::Changed, "{learned:?}");
    assert!(seen > 10 && learned.sentence.contains("nDCG@10"), "{}", learned.sentence);
    assert_eq!(learned.without_document, 1);
    assert_eq!(learned.learned + learned.held_out, QUESTIONS);
    let questions: HashSet<String> = judged(of_next_subject).into_iter().map(|own| own.question).collect();
    let held_out = |question: &&String| is_held_out(&format!("{}?", question.to_uppercase()));
    assert_eq!(learned.held_out, questions.iter().filter(held_out).count());
    let (ndcg, with_memory) = (learned.ndcg_at_10.unwrap(), learned.with_memory.unwrap());
    assert!(ndcg.difference > 0.05, "{learned:?}");
    // Near questions have the same answers, so their judgments alone reach as far.
    assert!(with_memory.against > ndcg.against + 0.1, "{learned:?}");
    let steps = &learned.by_nearness;
    assert_eq!(steps.iter().map(|step| step.questions).sum::<usize>(), learned.held_out);
    let mean = steps.iter().map(|step| step.before_with_memory * step.questions as f64).sum::<f64>();
    assert!((mean / learned.held_out as f64 - with_memory.against).abs() < 1e-9, "{learned:?}");
    let change = learned.change.unwrap();
    assert_eq!((change.from, change.encoded), (before, STORED));
    assert_eq!(index.bundle().hash(), change.to);
    assert_eq!(index.fuse(&[]).unwrap().questions, learned.held_out);
    assert!(!dir.path().join("index/model.trained").exists());
    assert!(index.verify().unwrap().is_sound());

    // Nothing is new, so nothing is trained again, by this handle or another one.
    assert_eq!(index.learn(&options()).unwrap().decision, Decision::NothingNew);
    let judgments = index.judgments().unwrap().len();
    drop(index);
    let index = Index::open(dir.path().join("index")).unwrap();
    let again = index.learn(&options()).unwrap();
    assert_eq!((again.decision, again.change), (Decision::NothingNew, None));
    assert_eq!(index.judgments().unwrap().len(), judgments);
    // A model that was rolled back is not trained again.
    index.rollback().unwrap();
    assert_eq!(index.learn(&options()).unwrap().decision, Decision::NothingNew);
    assert_eq!(index.bundle().hash(), before);
}

#[test]
fn an_index_in_the_place_of_another_is_left_alone() {
    let (dir, index) = untrained(8);
    index.record("of nothing", &id(0), 1).unwrap();
    let (path, away) = (dir.path().join("index"), dir.path().join("away"));
    fs::rename(&path, &away).unwrap();
    Index::create(&path, &Bundle::from_encoder(base_model()).unwrap()).unwrap();
    // A file that another process trains there.
    let theirs = path.join("model.trained");
    fs::create_dir(&theirs).unwrap();
    fs::write(theirs.join("config.json"), "{}").unwrap();
    for refused in [
        index.learn(&options()).map(drop),
        index.tune(&TuneOptions::default()).map(drop),
        index.rollback().map(drop),
    ] {
        let is_refused =
            matches!(refused, Err(Error::Store(StoreError::Replaced { .. } | StoreError::Poisoned)));
        assert!(is_refused, "{refused:?}");
    }
    assert_eq!(fs::read_to_string(theirs.join("config.json")).unwrap(), "{}");
    assert!(Index::open(&path).unwrap().verify().unwrap().is_sound());
}

#[test]
fn somebody_may_decide_otherwise() {
    let (dir, index) = untrained(STORED);
    index.record_all(judged(of_next_subject)).unwrap();
    let before = index.bundle().hash();
    assert!(index.learnings().unwrap().is_empty());
    // A callback that cancels has not chosen: nothing is recorded, and the model can be learned again.
    let asked = Cell::new(false);
    let tell = |_| if asked.get() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) };
    let cancelled = index.with_progress(tell).learn_if(&briefly(), |_| {
        asked.set(true);
        false
    });
    assert!(asked.get() && matches!(cancelled, Err(Error::Cancelled)), "{cancelled:?}");
    assert!(index.learnings().unwrap().is_empty());
    // A change of model cancelled after the choice, which is reported at once, leaves nothing behind either.
    let (chosen, told) = (Cell::new(false), RefCell::new(Vec::new()));
    let tell = |progress: Progress| {
        if chosen.get() {
            told.borrow_mut().push((progress.stage, progress.done));
        }
        let stored = chosen.get() && progress.done > 0;
        if stored { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    };
    let cancelled = index.with_progress(tell).learn_if(&briefly(), |_| {
        chosen.set(true);
        true
    });
    assert!(matches!(cancelled, Err(Error::Cancelled)), "{cancelled:?}");
    let told = told.into_inner();
    assert_eq!(told[0].0, Stage::Evaluate, "{told:?}");
    assert_eq!(
        (index.bundle().hash(), fs::read_dir(dir.path().join("index/models")).unwrap().count()),
        (before, 1)
    );
    assert!(index.verify().unwrap().warnings.is_empty() && index.learnings().unwrap().is_empty());
    let mut measured = None;
    let left = index
        .with_progress(|_| ControlFlow::Continue(()))
        .learn_if(&options(), |learned| {
            // Nothing else can train in the meantime, and everything else continues.
            assert!(matches!(index.learn(&options()), Err(Error::Input(InputError::ChangeUnderWay))));
            index.record("meanwhile", &id(0), 1).unwrap();
            measured = Some(learned.clone());
            false
        })
        .unwrap();
    let measured = measured.unwrap();
    assert_eq!((measured.decision, measured.change), (Decision::Changed, None));
    assert!(measured.sentence.contains("nDCG@10"), "{}", measured.sentence);
    assert_eq!((left.decision, left.change, index.bundle().hash()), (Decision::Left, None, before));
    assert!(left.sentence.ends_with("the index is as before."), "{}", left.sentence);
    // The held-out questions that it would have answered better are named, best first.
    assert!(left.better.len() > 5 && left.better.is_sorted_by_key(|own| own.before - own.after), "{left:?}");
    assert!(left.better.iter().all(|own| own.after > own.before), "{left:?}");
    assert!(left.worse.iter().all(|own| own.after < own.before), "{left:?}");
    let noted = index.learnings().unwrap();
    assert_eq!(noted.len(), 1);
    assert_eq!((noted[0].decision, &noted[0].sentence), (Decision::Left, &left.sentence));
    // Its encoder has not learned, so all questions say how much words and judgments count.
    assert_eq!(index.fuse(&[]).unwrap().questions, QUESTIONS + 1);
    assert_eq!(index.judgments().unwrap().len(), judged(of_next_subject).len() + 1, "a note is no judgment");

    let (dir, index) = untrained(STORED);
    let all = judged(|number| vec![crc32(&[number as u8, 7]) as usize % STORED]);
    let (held_out, pairs): (Vec<_>, _) = all.into_iter().partition(|own| is_held_out(&own.question));
    index.record_all(held_out).unwrap();
    let before = index.bundle().hash();
    let index_path = dir.path().join("index");
    let options = LearnOptions { pairs, ..briefly() };
    let chosen = index.with_progress(|_| ControlFlow::Continue(())).learn_if(&options, |_| true).unwrap();
    // Questions that are set aside recall none of each other, however near they are.
    let step = &chosen.by_nearness[0];
    assert_eq!(
        (chosen.by_nearness.len(), step.from, step.questions),
        (1, 0.0, chosen.held_out),
        "{chosen:?}"
    );
    assert_eq!(chosen.with_memory, chosen.ndcg_at_10);
    assert_eq!(chosen.decision, Decision::Chosen, "{}", chosen.sentence);
    assert_eq!(index.bundle().hash(), chosen.change.unwrap().to);
    index.rollback().unwrap();
    assert_eq!(index.bundle().hash(), before);
    index.flush().unwrap();
    let reader = Index::open_read_only(&index_path).unwrap();
    assert_eq!(reader.learnings().unwrap()[0].decision, Decision::Chosen);
}

/// What is learned from one spelling must not be measured with another.
#[test]
fn spellings_of_a_question_are_one_question() {
    let (_dir, index) = untrained(STORED);
    let any = |number: usize| vec![crc32(&[number as u8, 8]) as usize % STORED];
    for judgment in judged(any) {
        let question = judgment.question.to_uppercase();
        index.record_all([judgment.clone(), Judgment::new(format!("{question} ?"), judgment.id, 1)]).unwrap();
    }
    let learned = index.learn(&briefly()).unwrap();
    assert_eq!(learned.learned + learned.held_out, QUESTIONS);
    assert_ne!(learned.decision, Decision::Changed, "{}", learned.sentence);
}

#[test]
fn weights_that_cannot_be_learned_again_are_taken_over() {
    let (_dir, index) = untrained(STORED);
    index.record_all(judged(of_next_subject).into_iter().take(150 * STORED / SUBJECTS)).unwrap();
    let weights = index.fuse(&[]).unwrap().fusion.unwrap();
    assert!(weights.memory.as_ref().is_some_and(|memory| memory.weight > 0.0), "{weights:?}");
    let learned = index.learn(&LearnOptions { accept: true, ..briefly() }).unwrap();
    assert!((20..FEWEST_FUSION_QUESTIONS).contains(&learned.held_out), "{learned:?}");
    assert!(learned.change.is_some() && learned.fusion.is_none(), "{learned:?}");
    let mut taken_over = index.fusion().unwrap();
    assert!(taken_over.sentence().ends_with("; learned with the model before"), "{}", taken_over.sentence());
    taken_over.of_previous_model = false;
    assert_eq!(taken_over, weights);
    // Both models are measured with them.
    let (without, with) = (learned.ndcg_at_10.unwrap(), learned.with_memory.unwrap());
    assert!(with.against > without.against + 0.05 && with.value > without.value + 0.05, "{learned:?}");
    index.rollback().unwrap();
    assert_eq!(index.fusion(), Some(weights));
}

#[test]
fn wrong_judgments_change_nothing() {
    let (dir, index) = untrained(STORED);
    // The same number, of unrelated documents.
    let any = |number: usize| -> Vec<usize> {
        let drawn = (0..20).map(|n| crc32(&[number as u8, n]) as usize % STORED);
        drawn.collect()
    };
    index.record_all(judged(any)).unwrap();
    let before = index.bundle().hash();
    let learned = index.learn(&briefly()).unwrap();
    assert!(matches!(learned.decision, Decision::NoGain | Decision::Worse), "{}", learned.sentence);
    assert!(learned.sentence.ends_with("the index is as before."), "{}", learned.sentence);
    assert_eq!((learned.change, index.bundle().hash()), (None, before));
    assert!(!dir.path().join("index/model.trained").exists());
    assert_eq!(index.learn(&briefly()).unwrap().decision, Decision::NothingNew);
}

#[test]
fn what_cannot_be_learned_from_is_said() {
    let (_dir, index) = untrained(STORED);
    let none = index.learn(&options()).unwrap();
    assert_eq!((none.decision, none.pairs, none.held_out), (Decision::TooFew, 0, 0));
    let few = judged(of_next_subject).into_iter().take(300);
    let given = index.learn(&LearnOptions { pairs: few.collect(), ..options() }).unwrap();
    assert_eq!(given.decision, Decision::TooFew);
    assert!(given.sentence.contains("about 100"), "{}", given.sentence);
    assert!(index.judgments().unwrap().is_empty(), "pairs that are given are not stored");

    // All of them are too old to count.
    index.record_all(judged(of_next_subject).into_iter().map(|judgment| judgment.at(0))).unwrap();
    index.set_half_life(Some(Duration::from_secs(86_400))).unwrap();
    let aged = index.learn(&options()).unwrap();
    assert_eq!((aged.decision, aged.pairs), (Decision::TooFew, 0));
    index.set_half_life(None).unwrap();

    let mut other = options();
    other.config.dev_fraction = 0.5;
    assert!(matches!(
        index.learn(&other),
        Err(Error::Train(TrainError::Config { field: "dev_fraction", .. }))
    ));
    let bad = LearnOptions { pairs: vec![Judgment::new("", "d", 1)], ..options() };
    assert!(matches!(index.learn(&bad), Err(Error::Input(InputError::EmptyQuery))));

    let before = index.bundle().hash();
    let cancelled = index.with_progress(|_| ControlFlow::Break(())).learn(&options());
    assert!(matches!(cancelled, Err(Error::Cancelled)));
    assert_eq!(index.bundle().hash(), before);
    assert!(!index.path().join("model.trained").exists());
}

fn run(path: &Path, command: &str, arguments: &[&str]) -> crate::program::Ran {
    let index = ["--index".to_owned(), text(path).to_owned()];
    let arguments = arguments.iter().map(|argument| (*argument).to_owned());
    ehi([command.to_owned()].into_iter().chain(index).chain(arguments))
}

#[test]
fn the_program_judges_lists_and_learns() {
    let (dir, index) = untrained(12);
    drop(index);
    let path = dir.path().join("index");
    let yesterday = Judgment::new("q", "d", 1).time - 86_400;
    let said = run(&path, "judge", &["what is a tree?", &id(0)]).ok();
    assert_eq!(said, "1 judgment added, 0 replaced, 1 in all\n");
    let said = run(&path, "judge", &["what is a tree?", "absent", "--grade", "-1", "--weight", "0.5"]).ok();
    let end = "2 in all; no document has the id `absent` yet; the judgment counts once one has\n";
    assert!(said.ends_with(end), "{said}");
    let listed = run(&path, "judgments", &[]).ok();
    assert!(listed.contains("absent  (no such document)"), "{listed}");
    assert!(listed.ends_with("\n1 of 2 do not count: 1 no such document\n"), "{listed}");
    let json = run(&path, "judgments", &["--json"]).ok();
    let first: serde_json::Value = serde_json::from_str(json.lines().next().unwrap()).unwrap();
    assert_eq!(
        (&first["id"], &first["grade"], &first["has_document"]),
        (&"absent".into(), &(-1).into(), &false.into())
    );

    for format in ["tsv", "csv", "jsonl"] {
        let exported = run(&path, "judgments", &["--format", format]).ok();
        let file = dir.path().join(format!("judgments.{format}"));
        fs::write(&file, &exported).unwrap();
        let said = run(&path, "judge", &["--file", text(&file)]).ok();
        assert_eq!(said.split(';').next().unwrap(), "0 judgments added, 2 replaced, 2 in all");
        assert_eq!(run(&path, "judgments", &["--format", format]).ok(), exported, "they are as they were");
        let said = run(&path, "judge", &["--forget", "--before", "2999-12-31"]).ok();
        assert_eq!(said, "2 judgments removed; their words may be in the files until `ehi compact`\n");
        let stats = run(&path, "stats", &[]).ok();
        assert!(stats.contains("judgments      none; `ehi judge` adds them"), "{stats}");
        assert_eq!(run(&path, "judgments", &[]).ok(), "no judgments\n");
        let said = run(&path, "judge", &["--file", text(&file)]).ok();
        assert_eq!(said.split(';').next().unwrap(), "2 judgments added, 0 replaced, 2 in all");
        assert_eq!(run(&path, "judgments", &["--format", format]).ok(), exported, "with weight and time");
    }
    assert_eq!(run(&path, "judge", &["--forget", "--before", "2020-01-31"]).ok(), "0 judgments removed\n");
    for half_life in ["9", "8", "0.5"] {
        run(&path, "judgments", &["--half-life", half_life]).ok();
    }
    let stats = run(&path, "stats", &[]).ok();
    assert!(stats.contains("2 of 1 question; a judgment counts half after 0.5 days"), "{stats}");
    let said = run(&path, "judgments", &["--half-life", "0.5"]).ok();
    assert_eq!(said, "a judgment counts half after 0.5 days\n");
    let aged = dir.path().join("aged.jsonl");
    let line = |id: &str, weight: f64| {
        let judgment = Judgment::new("what is a tree?", id, 2).with_weight(weight).at(yesterday);
        serde_json::to_string(&judgment).unwrap() + "\n"
    };
    fs::write(&aged, line("aged", 1.0) + &line("aged", 0.8)).unwrap();
    let once = run(&path, "judge", &["--file", text(&aged)]).ok();
    assert!(
        once.starts_with("1 judgment added, 0 replaced, 3 in all; 1 not stored, because a later line"),
        "{once}"
    );
    let listed = run(&path, "judgments", &[]).ok();
    assert!(listed.lines().count() == 5 && listed.ends_with(&said), "{listed}");
    assert!(listed.contains("  2  weight 0.8    left 0.200     1 days  aged"), "{listed}");
    let json = run(&path, "judgments", &["--json"]).ok();
    let left =
        json.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap()["left"].as_f64());
    let left: Vec<f64> = left.map(Option::unwrap).collect();
    let is_left = |share: f64| left.iter().any(|left| (left - share).abs() < 1e-3);
    assert!(is_left(0.2) && is_left(1.0), "{left:?}");
    run(&path, "judge", &["--forget", "what is a tree?", "aged"]).ok();
    run(&path, "compact", &[]).ok();
    assert!(!run(&path, "compact", &[]).ok().contains("judgment"));
    assert_eq!(run(&path, "judgments", &["--half-life", "off"]).ok(), "judgments do not age\n");
    assert_eq!(run(&path, "judgments", &[]).ok().lines().count(), 3);
    for half_life in ["0", "-1", "never", "1e9", "1e300", "nan", ""] {
        let ran = run(&path, "judgments", &["--half-life", half_life]);
        let expected = "expected days, above 0 and at most 36500 (a hundred years), or off";
        assert!(ran.code == Some(2) && ran.err.contains(expected), "{}", ran.err);
    }
    // A repeated pair is one judgment, and quotes are those of the program that wrote the file.
    let twice = dir.path().join("twice.tsv");
    fs::write(&twice, "\"say \"\"hi\"\" now\"\tnone\t1\n\"say \"\"hi\"\" now\"\tnone\t2\n").unwrap();
    let ran = run(&path, "judge", &["--json", "--file", text(&twice)]);
    assert!(ran.err.contains("2 cells are in quotes, which are taken off"), "{}", ran.err);
    let json = ran.json();
    assert_eq!((&json["added"], &json["without_document"]), (&1.into(), &1.into()));
    assert!(json["notes"][0].as_str().unwrap().contains("twice.tsv: 2 cells are in quotes"), "{json}");
    let said = run(&path, "judge", &["say \"hi\" now", "--forget"]).ok();
    assert!(said.starts_with("1 judgment removed;"), "{said}");
    let said = run(&path, "judge", &["say \"hi\" now", "--forget"]).failure();
    assert!(said.contains("no judgment of that question is stored"), "{said}");
    let ran = run(&path, "judge", &["what?", "d", "--grade", "0.5"]);
    assert!(
        ran.err.contains("invalid value '0.5' for '--grade <GRADE>': expected a whole number"),
        "{}",
        ran.err
    );
    let unknown = dir.path().join("judgments.txt");
    fs::write(&unknown, "one column\n").unwrap();
    assert!(run(&path, "judge", &["--file", text(&unknown)]).failure().contains("--format"));
    fs::write(&unknown, "what is a tree?\tabsent\n").unwrap();
    assert!(run(&path, "judge", &["--file", text(&unknown)]).ok().contains("1 replaced"));
    // Nothing of a file is stored if one line is wrong.
    fs::write(&unknown, format!("what?\tearly\nwhat?\tlate\t1\t1\t{}\n", yesterday + 200_000)).unwrap();
    let said = run(&path, "judge", &["--file", text(&unknown)]).failure();
    assert!(said.contains("judgments.txt:2: `") && said.contains("at most a day ahead"), "{said}");
    assert!(!run(&path, "judgments", &[]).ok().contains("early"));
    // A judgment that moves next to nothing is named by `explain` alone.
    for (weight, is_named) in [("0.5", true), ("0.001", false)] {
        run(&path, "judge", &["what is a stone?", &id(3), "--weight", weight]).ok();
        let said = |command: &str| run(&path, command, &["what is a stone?"]).ok().contains(": judged ");
        assert_eq!((said("search"), said("explain")), (is_named, true), "{weight}");
    }
    let said = run(&path, "judge", &["what is a leaf?", &id(3), "--grade", "0"]).ok();
    assert!(said.contains("added"), "{said}");
    let said = run(&path, "explain", &["-k", "3", "what is a leaf?"]).ok();
    let expected =
        format!("not a hit: {}  lowered by 1.50 of the range of scores: judged 0 for `what is a", id(3));
    assert!(said.contains(&expected), "{said}");
    // Next to nothing is no reason.
    run(&path, "judge", &["what is a leaf?", &id(4), "--grade", "0", "--weight", "0.001"]).ok();
    let explain = ["-k", "1", "what is a leaf?"];
    assert_eq!(run(&path, "explain", &explain).ok().matches("not a hit").count(), 1);
    let json = run(&path, "explain", &["--json", "-k", "1", "what is a leaf?"]).json();
    assert_eq!(json["moved"].as_array().unwrap().len(), 2, "{json}");
    run(&path, "judge", &["--forget", "what is a leaf?"]).ok();
    run(&path, "judge", &["--forget", "what is a stone?"]).ok();
    let bad = dir.path().join("bad.tsv");
    fs::write(&bad, "a question\td\t1\nno id\n").unwrap();
    assert!(run(&path, "judge", &["--file", text(&bad)]).failure().contains("bad.tsv:2: 1 columns"));
    for refused in [
        &["what?"][..],
        &["--forget"],
        &["what?", "d", "--forget", "--grade", "2"],
        &["what?", "--forget", "--before", "2026-01-31"],
        &["--forget", "--before", "yesterday"],
        &["--before", "2026-01-31"],
    ] {
        assert_eq!(run(&path, "judge", refused).code, Some(2), "{refused:?}");
    }
    let said = run(&path, "judge", &["--before", "2026-01-31"]).err;
    assert!(
        said.starts_with(
            "ehi: the following required arguments were not provided: --forget (see `ehi judge --help`)"
        ),
        "{said}"
    );
    assert!(
        run(&path, "judge", &["what is a tree?", "absent", "--forget"])
            .ok()
            .starts_with("1 judgment removed")
    );
    assert!(
        run(&path, "judge", &["what is a tree?", "absent", "--forget"]).failure().contains("no judgment")
    );

    let said = run(&path, "learn", &[]).ok();
    assert!(
        said.contains("Too few questions are judged (1, of which ")
            && said.contains("training needs 20 set aside"),
        "{said}"
    );
    let json = run(&path, "learn", &["--json"]).json();
    assert_eq!(json["decision"], "too_few");

    assert!(run(&path, "questions", &[]).ok().contains("not written down"));
    run(&path, "questions", &["--log", "on"]).ok();
    run(&path, "search", &["what is\u{1b}a leaf?"]).ok();
    assert_eq!(run(&path, "questions", &[]).ok(), "what is\\u{1b}a leaf?\n");
    run(&path, "questions", &["--log", "off"]).ok();
    assert!(run(&path, "questions", &["--json"]).ok().is_empty());
}

#[test]
fn the_program_says_which_judgments_count() {
    let (dir, index) = untrained(12);
    drop(index);
    let path = dir.path().join("index");
    for (question, id, more) in [
        ("what is a tree?", id(0), &[][..]),
        ("What is a tree", id(0), &["--grade", "0"][..]),
        ("what is a tree?", id(1), &[][..]),
        ("what is a leaf?", id(2), &[][..]),
        ("what is a leaf?", "absent".to_owned(), &[][..]),
    ] {
        run(&path, "judge", &[&[question, &*id][..], more].concat()).ok();
    }
    assert_eq!(run(&path, "judgments", &[]).ok().lines().count(), 7, "five, and two that sum up");
    let file = dir.path().join("other.jsonl");
    let other = serde_json::json!({ "_id": id(2), "title": "", "text": "another text of a leaf" });
    fs::write(&file, other.to_string()).unwrap();
    run(&path, "insert", &[text(&file)]).ok();
    let listed = run(&path, "judgments", &[]).ok();
    assert_eq!(listed.matches("  (opposite judgment in another spelling)  ").count(), 2, "{listed}");
    assert!(listed.contains(&format!("{}  (document replaced since)  what is a leaf?", id(2))), "{listed}");
    let expected = "1 of 5 do not count: 1 no such document\n3 of 5 count less: 1 document replaced since (half, \
                    until judged again), 2 opposite judgment in another spelling (`ehi judge --forget` takes one \
                    back)\n";
    assert!(listed.ends_with(expected), "{listed}");
    let json = run(&path, "judgments", &["--json"]).ok();
    let all: Vec<serde_json::Value> = json.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let count = |field: &str| all.iter().filter(|own| own[field] == true).count();
    assert_eq!((count("has_document"), count("stale"), count("contradicted")), (4, 1, 2), "{json}");
    // Of a document that is not a hit, too.
    run(&path, "judge", &["what is a leaf?", &id(3), "--grade", "0"]).ok();
    fs::write(&file, other.to_string().replace(&id(2), &id(3))).unwrap();
    run(&path, "insert", &[text(&file)]).ok();
    let said = run(&path, "explain", &["-k", "1", "what is a leaf?"]).ok();
    let not_a_hit =
        said.lines().find(|line| line.starts_with(&format!("not a hit: {}  lowered by 0.75", id(3))));
    assert!(not_a_hit.is_some_and(|line| line.contains("; the document was replaced since)")), "{said}");
}

#[test]
fn what_a_format_cannot_hold_is_refused_before_it_is_printed() {
    let (dir, index) = untrained(2);
    drop(index);
    let path = dir.path().join("index");
    let file = dir.path().join("judgments.jsonl");
    for id in ["a\u{7}b", "a\nb"] {
        let line = serde_json::json!({ "question": "q", "id": id }).to_string();
        fs::write(&file, &line).unwrap();
        run(&path, "judge", &["--file", text(&file)]).ok();
        for format in ["csv", "tsv"] {
            let said = run(&path, "judgments", &["--format", format]).failure();
            assert!(said.contains("`--format jsonl`"), "{said}");
        }
        fs::write(&file, run(&path, "judgments", &["--format", "jsonl"]).ok()).unwrap();
        assert!(
            run(&path, "judge", &["--file", text(&file)]).ok().starts_with("0 judgments added, 1 replaced")
        );
        run(&path, "judge", &["--forget", "q"]).ok();
    }
}
