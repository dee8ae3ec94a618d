//! An index through its public interface: random sequences of operations compared with a map and brute force,
//! and writers killed during a change of model.

use std::collections::{BTreeMap, HashSet};
use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};
use std::time::Duration;
use std::{env, thread};

use crate::support::{Shape, bundle, copy_directory, document, documents, filled, id};
use ehi::learn::TuneOptions;
use ehi::{Bundle, Document, Filter, Index, SearchRequest};
use half::f16;
use proptest::prelude::*;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde_json::json;

const SHAPE: Shape = Shape { height: 2 };
const OTHER: Shape = Shape { height: 1 };

/// Seeds of the documents, by id.
type Model = BTreeMap<String, u16>;

#[derive(Clone, Debug)]
enum Step {
    Insert(Vec<(u8, u16)>),
    Delete(Vec<u8>),
    Flush,
    Compact,
    Rebuild,
    Reopen,
    /// Opens a copy of the directory, as left by a killed process.
    Kill,
    /// Refreshes the read-only handle.
    Refresh,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => prop::collection::vec((0u8..40, any::<u16>()), 0..12).prop_map(Step::Insert),
        3 => prop::collection::vec(0u8..44, 0..8).prop_map(Step::Delete),
        2 => Just(Step::Flush),
        1 => Just(Step::Compact),
        1 => Just(Step::Rebuild),
        1 => Just(Step::Reopen),
        1 => Just(Step::Kill),
        3 => Just(Step::Refresh),
    ]
}

fn name(id: u8) -> String {
    format!("d{id}")
}

/// `[dim]` f32, uniform in a cube; different for each seed.
fn vector(seed: u16, dim: usize) -> Vec<f32> {
    let mut random = ChaCha8Rng::seed_from_u64(seed.into());
    (0..dim).map(|_| random.random_range(-1.0..1.0)).collect()
}

fn stored(id: &str, seed: u16) -> Document {
    Document::new(id, format!("title {seed}"), "text")
        .with_metadata(json!({ "seed": seed, "odd": seed % 2 == 1 }))
}

fn norm(row: impl IntoIterator<Item = f64>) -> f64 {
    row.into_iter().map(|x| x * x).sum::<f64>().sqrt()
}

/// The unit row in its stored form: each value of the f32 as the nearest f16; if its norm is then above 1,
/// the first values that grew become the next f16 toward zero, until it is at most 1.
fn stored_row(row: &[f32]) -> Vec<f64> {
    let length = norm(row.iter().copied().map(f64::from));
    // By way of f32, which can round to another f16 than f64 does.
    let unit: Vec<f32> = row.iter().map(|&x| (f64::from(x) / length) as f32).collect();
    let mut row: Vec<f16> = unit.iter().copied().map(f16::from_f32).collect();
    for (place, x) in unit.iter().enumerate() {
        if norm(row.iter().copied().map(f64::from)) > 1.0 && f32::from(row[place]).abs() >= x.abs() {
            row[place] = f16::from_bits(row[place].to_bits() - 1);
        }
    }
    row.into_iter().map(f64::from).collect()
}

/// Cosines of a query with the stored documents, in f16.
fn scores(model: &Model, query: &[f32], pass: impl Fn(u16) -> bool) -> BTreeMap<String, f64> {
    let query_norm = norm(query.iter().copied().map(f64::from));
    let passing = model.iter().filter(|(_, seed)| pass(**seed));
    let scored = passing.map(|(id, seed)| {
        let row = stored_row(&vector(*seed, query.len()));
        let dot: f64 = row.iter().zip(query).map(|(x, &q)| x * f64::from(q) / query_norm).sum();
        (id.clone(), dot)
    });
    scored.collect()
}

/// The contents match the model; searches by every leaf, and with a filter, match brute force.
fn check(index: &Index, model: &Model, question: u16) -> Result<(), TestCaseError> {
    prop_assert_eq!(index.len(), model.len());
    let found: Vec<Document> = index.iter().map(Result::unwrap).collect();
    let expected: Vec<Document> = model.iter().map(|(id, seed)| stored(id, *seed)).collect();
    prop_assert_eq!(found, expected);
    let query = vector(question, index.bundle().model().dim());
    let odd = Filter::eq("odd", true);
    for (filter, k, beam) in [(None, 5, 16), (None, 100, 16), (Some(&odd), 5, 2), (Some(&odd), 100, 1)] {
        let mut request = SearchRequest::dense().k(k).beam(beam);
        if let Some(filter) = filter {
            request = request.filter(filter);
        }
        let result = index.search_with(&query, &request).unwrap();
        let scores = scores(model, &query, |seed| filter.is_none() || seed % 2 == 1);
        prop_assert_eq!(result.len(), k.min(scores.len()));
        for hit in &result {
            let expected = scores.get(&hit.id).copied().unwrap_or(f64::NAN);
            prop_assert!((f64::from(hit.score) - expected).abs() < 1e-5, "{}: {expected}", hit.id);
        }
        if filter.is_none() {
            let mut best: Vec<f64> = scores.into_values().collect();
            best.sort_by(|a, b| b.total_cmp(a));
            for (hit, best) in result.iter().zip(best) {
                prop_assert!((f64::from(hit.score) - best).abs() < 1e-5, "{}: {best} is missing", hit.id);
            }
        }
    }
    let report = index.verify().unwrap();
    prop_assert!(report.is_sound(), "{:?}", report.problems);
    Ok(())
}

/// The last of `states` that the index may be showing.
fn locate(index: &Index, states: &[Model], question: u16) -> Option<usize> {
    states.iter().rposition(|model| check(index, model, question).is_ok())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, max_shrink_iters: 100, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn an_index_is_a_map_with_a_search(steps in prop::collection::vec((step(), any::<u16>()), 1..20)) {
        let mut dir = tempfile::tempdir().unwrap();
        let path = |dir: &tempfile::TempDir| dir.path().join("index");
        let mut index = Index::create(path(&dir), &bundle(SHAPE)).unwrap();
        let dim = index.bundle().model().dim();
        let mut reader = Index::open_read_only(path(&dir)).unwrap();
        // All states, the last one promised as durable, and the one shown by the reader.
        let (mut history, mut flushed, mut shown) = (vec![Model::new()], 0, 0);
        for (step, question) in steps {
            let mut model = history[history.len() - 1].clone();
            let (mut promised, mut looks) = (false, false);
            match step {
                Step::Insert(documents) => {
                    let documents: Vec<(String, u16)> =
                        documents.into_iter().map(|(id, seed)| (name(id), seed)).collect();
                    let given = documents.iter().map(|(id, seed)| (stored(id, *seed), vector(*seed, dim)));
                    index.insert_vectors(given).unwrap();
                    model.extend(documents);
                }
                Step::Delete(ids) => {
                    let before = model.len();
                    model.retain(|id, _| !ids.iter().any(|gone| name(*gone) == *id));
                    let deleted = index.delete_batch(ids.into_iter().map(name)).unwrap();
                    prop_assert_eq!(deleted, before - model.len());
                }
                Step::Flush => {
                    index.flush().unwrap();
                    promised = true;
                }
                Step::Compact => {
                    index.compact().unwrap();
                    promised = true;
                }
                Step::Rebuild => index.rebuild_postings().unwrap(),
                Step::Reopen => {
                    drop(index);
                    index = Index::open(path(&dir)).unwrap();
                }
                Step::Kill => {
                    let image = tempfile::tempdir().unwrap();
                    copy_directory(dir.path(), image.path());
                    drop((index, reader));
                    dir = image;
                    index = Index::open(path(&dir)).unwrap();
                    reader = Index::open_read_only(path(&dir)).unwrap();
                    let found = locate(&index, &history[flushed..], question);
                    prop_assert!(found.is_some(), "none of the {} states since the last flush", history.len() - flushed);
                    history.truncate(flushed + found.unwrap_or_default() + 1);
                    model.clone_from(&history[history.len() - 1]);
                    (shown, looks) = (flushed, true);
                }
                Step::Refresh => {
                    reader.refresh().unwrap();
                    looks = true;
                }
            }
            check(&index, &model, question)?;
            history.push(model);
            if promised {
                flushed = history.len() - 1;
            }
            if looks {
                let from = shown.max(flushed);
                let found = locate(&reader, &history[from..], question);
                prop_assert!(found.is_some(), "the reader shows none of {} states", history.len() - from);
                shown = from + found.unwrap_or_default();
            }
            check(&reader, &history[shown], question)?;
        }
    }
}

const TASK: &str = "EHI_TEST_CHANGES";
/// Enough for a change of model to take a while.
const STORED: usize = 60;

fn say(line: std::fmt::Arguments<'_>) {
    // Bypasses the test harness and its buffers: the parent must see it before the next step.
    let mut out = std::io::stdout().lock();
    // The harness leaves a line unfinished before the first one.
    writeln!(out, "\n@{line}").unwrap();
    out.flush().unwrap();
}

/// Not a test: the process that the next test kills. Changes the model back and forth, and makes trees, while
/// documents and judgments are written.
#[test]
fn child() {
    let Ok(task) = env::var(TASK) else { return };
    let places: Vec<&str> = task.lines().collect();
    let index = Index::open(places[0]).unwrap();
    let bundles = [1, 2].map(|n| Bundle::open(places[n]).unwrap());
    // A failure must end the process, not just one thread.
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        hook(panic);
        std::process::exit(1);
    }));
    say(format_args!("open"));
    thread::scope(|scope| {
        scope.spawn(|| {
            for number in index.len().. {
                say(format_args!("try {}", number + 1));
                index.record(&format!("q{}", number % 50), &id(number), 1).unwrap();
                index.insert(document(number)).unwrap();
                if number % 4 == 0 {
                    index.flush().unwrap();
                    say(format_args!("done {}", number + 1));
                }
                thread::sleep(Duration::from_millis(20));
            }
        });
        for round in 1.. {
            if round % 4 == 0 {
                let options = TuneOptions {
                    passes: Some(1),
                    leaves: Some(5),
                    always: true,
                    seed: round,
                    ..TuneOptions::default()
                };
                index.tune(&options).unwrap();
                say(format_args!("tuned"));
                continue;
            }
            let other = bundles.iter().find(|bundle| bundle.hash() != index.bundle().hash()).unwrap();
            match index.previous_model().unwrap() {
                Some(_) if index.len().is_multiple_of(3) => drop(index.drop_previous_model().unwrap()),
                Some(_) => drop(index.rollback().unwrap()),
                None => drop(index.reencode(other).unwrap()),
            }
            say(format_args!("changed"));
        }
    });
}

/// `EHI_KILLS` is the number of kills; the documented long run has 100.
#[test]
fn a_killed_change_of_model_loses_nothing() {
    let kills: u64 = env::var("EHI_KILLS").ok().and_then(|n| n.parse().ok()).unwrap_or(3);
    let mut random = ChaCha8Rng::seed_from_u64(12);
    let (mut changes, mut tunings, mut half_way) = (0, 0, 0);
    let mut at = None;
    for kill in 0..kills {
        let (dir, path, mut done) = at.take().unwrap_or_else(|| {
            let (dir, index) = filled(SHAPE, STORED);
            index.flush().unwrap();
            let path = index.path().to_owned();
            (dir, path, STORED)
        });
        let mut tried = done;
        let bundles = [bundle(SHAPE), bundle(OTHER)].map(|bundle| bundle.path().display().to_string());
        let mut child = Command::new(env::current_exe().unwrap())
            .args(["--exact", "durability::child", "--nocapture", "--test-threads=1"])
            .env(TASK, format!("{}\n{}", path.display(), bundles.join("\n")))
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut take = |line: &str| {
            if let Some(number) = line.strip_prefix("@try ") {
                tried = tried.max(number.parse().unwrap());
            } else if let Some(number) = line.strip_prefix("@done ") {
                done = done.max(number.parse().unwrap());
            }
            changes += u64::from(line == "@changed");
            tunings += u64::from(line == "@tuned");
        };
        let opened = lines.by_ref().map(Result::unwrap).find(|line| line == "@open");
        assert!(opened.is_some(), "kill {kill}: the child did not open the index");
        thread::sleep(Duration::from_millis(random.random_range(0..1200)));
        assert_eq!(child.try_wait().unwrap(), None, "kill {kill}: the child ended by itself");
        child.kill().unwrap();
        child.wait().unwrap();
        lines.map_while(Result::ok).for_each(|line| take(&line));

        let index = Index::open(&path).unwrap_or_else(|error| panic!("kill {kill}: {error}"));
        let hash = index.bundle().hash();
        let models = [bundle(SHAPE), bundle(OTHER)];
        assert!(models.iter().any(|model| model.has_encoder_of(&index.bundle())), "kill {kill}");
        let left = index.len();
        assert!((done..=tried).contains(&left), "kill {kill}: {left} documents, of {done} to {tried}");
        let mut expected = documents(left);
        expected.sort_by(|a, b| a.id.cmp(&b.id));
        assert_eq!(index.iter().map(Result::unwrap).collect::<Vec<_>>(), expected, "kill {kill}");
        // A judgment comes before its document.
        let judged: HashSet<String> = index.judgments().unwrap().into_iter().map(|j| j.id).collect();
        let all = |count| (STORED..count).map(id).collect::<HashSet<String>>();
        assert!(judged == all(left) || judged == all(left + 1), "kill {kill}: {judged:?}, {left}");
        let report = index.verify().unwrap();
        assert!(report.is_sound(), "kill {kill}: {:?}", report.problems);
        // Unfinished work can be completed.
        half_way += usize::from(index.previous_model().unwrap().is_none());
        if kill % 3 == 2 {
            let target = if hash == bundle(SHAPE).hash() { OTHER } else { SHAPE };
            index.reencode(&bundle(target)).unwrap();
            assert_eq!((index.len(), index.bundle().hash()), (left, bundle(target).hash()));
            assert!(index.verify().unwrap().is_sound(), "kill {kill}");
        }
        index.flush().unwrap();
        if left < 400 {
            at = Some((dir, path, left));
        }
    }
    println!("{kills} kills, {changes} changes of model, {tunings} trees; {half_way} left one model alone");
}
