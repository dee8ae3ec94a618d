//! Our metrics compared with recorded output of `trec_eval`; see `fixtures/trec_eval/make.py`.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::num::NonZeroUsize;

use crate::support::runs::{Run, ids, mean, read_run};
use ehi::data::Qrels;
use ehi::eval::{Metric, RelevanceLevel};
use serde::Deserialize;

/// Both sides add doubles; a sum of 100 terms differs in the last digits at most.
const TOLERANCE: f64 = 1e-9;

#[derive(Deserialize)]
struct Expected {
    cutoffs: Vec<usize>,
    judged_queries: usize,
    levels: Vec<Level>,
}

#[derive(Deserialize)]
struct Level {
    level: i32,
    mean: BTreeMap<String, f64>,
    queries: BTreeMap<String, BTreeMap<String, f64>>,
}

fn open(name: &str) -> File {
    let folder = crate::support::root().to_owned().join("tests/fixtures/trec_eval");
    File::open(folder.join(name)).unwrap()
}

fn fixture() -> (Run, Qrels, Expected) {
    let run = read_run(&std::io::read_to_string(open("run.txt")).unwrap());
    let qrels = Qrels::read_trec(open("qrels.txt"), "qrels.txt").unwrap();
    let expected = serde_json::from_reader(open("expected.json")).unwrap();
    (run, qrels, expected)
}

#[test]
fn metrics_agree_with_trec_eval() {
    let (run, qrels, expected) = fixture();
    assert_eq!(qrels.len(), expected.judged_queries);
    let mut compared = 0;
    for recorded in &expected.levels {
        let level = RelevanceLevel(recorded.level);
        for &k in &expected.cutoffs {
            let k = NonZeroUsize::new(k).unwrap();
            for metric in [Metric::Recall(k), Metric::Precision(k), Metric::Mrr(k), Metric::Ndcg(k)] {
                let name = metric.to_string();
                for (query, values) in &recorded.queries {
                    let judged = qrels.get(query).unwrap();
                    let got = metric.of_query(&ids(&run[query]), judged, level);
                    let expected = values[&name];
                    assert!(
                        (got - expected).abs() <= TOLERANCE,
                        "{name} of {query} at level {level:?}: {got}, not {expected}"
                    );
                    compared += 1;
                }
                let (got, expected) = (mean(metric, &run, &qrels, level), recorded.mean[&name]);
                assert!(
                    (got - expected).abs() <= TOLERANCE,
                    "mean {name} at level {level:?}: {got}, not {expected}"
                );
            }
        }
    }
    // 40 queries except one without results and one without judgments.
    assert_eq!(compared, 38 * 2 * expected.cutoffs.len() * 4);
}

/// The fixture would prove little about ties without ties that matter.
#[test]
fn the_order_of_ties_matters_in_the_fixture() {
    let (run, qrels, expected) = fixture();
    let k = NonZeroUsize::new(10).unwrap();
    let mut different = 0;
    for query in expected.levels[0].queries.keys() {
        let mut results = run[query].clone();
        results.sort_by(|a, b| b.0.total_cmp(&a.0).then_with(|| a.1.cmp(&b.1)));
        let judged = qrels.get(query).unwrap();
        let other = Metric::Ndcg(k).of_query(&ids(&results), judged, RelevanceLevel::default());
        different += usize::from((other - expected.levels[0].queries[query]["ndcg@10"]).abs() > 1e-3);
    }
    assert!(different >= 8, "{different} queries");
}

/// Grades 1 to 3 of TREC DL 2019 with a ranking by BM25; see `fixtures/datasets/make.py`.
#[test]
fn graded_judgments_agree_with_trec_eval_at_every_level() {
    #[derive(Deserialize)]
    struct Recorded {
        levels: Vec<Mean>,
    }
    #[derive(Deserialize)]
    struct Mean {
        level: i32,
        mean: BTreeMap<String, f64>,
    }
    let folder = crate::support::root().to_owned().join("tests/fixtures/datasets/dl19");
    let open = |name: &str| File::open(folder.join(name)).unwrap();
    let mut text = String::new();
    flate2::read::GzDecoder::new(open("run.txt.gz")).read_to_string(&mut text).unwrap();
    let run = read_run(&text);
    let qrels = Qrels::read_trec(open("qrels.txt.gz"), "qrels").unwrap();
    let recorded: Recorded = serde_json::from_reader(open("expected.json")).unwrap();
    assert_eq!((qrels.len(), run.len()), (12, 11));
    assert_eq!(recorded.levels.iter().map(|l| l.level).collect::<Vec<_>>(), [1, 2, 3]);
    let mut compared = 0;
    for Mean { level, mean: means } in &recorded.levels {
        for (name, expected) in means {
            let metric: Metric = name.parse().unwrap();
            let got = mean(metric, &run, &qrels, RelevanceLevel(*level));
            assert!((got - expected).abs() <= TOLERANCE, "{name} at level {level}: {got}, not {expected}");
            compared += 1;
        }
    }
    assert_eq!(compared, 3 * 20);
    // The level must matter, or the test proves nothing about it.
    assert!(recorded.levels[0].mean["recall@10"] < recorded.levels[2].mean["recall@10"]);
    assert!(recorded.levels[0].mean["precision@10"] > recorded.levels[2].mean["precision@10"]);
}
