//! Evaluations of small indexes, and the figures of a report in addition to the means.

use std::collections::HashMap;
use std::fs;
use std::num::NonZeroUsize;
use std::path::Path;

use crate::support::{self, DOCUMENTS, Shape, bundle, filled};
use ehi::data::{Dataset, read_documents};
use ehi::eval::{EvalOptions, EvalReport, Metric, RelevanceLevel, evaluate};
use ehi::{Document, Error, Index, InputError};
use serde_json::Value;

const SHAPE: Shape = Shape { height: 2 };

fn k(value: usize) -> NonZeroUsize {
    NonZeroUsize::new(value).unwrap()
}

fn measure(index: &Index, dataset: &Dataset, options: &EvalOptions) -> EvalReport {
    evaluate(index, dataset, "test", options, &mut ehi::no_progress).unwrap().0
}

fn small() -> Dataset {
    Dataset::open(support::dataset()).unwrap()
}

fn near(a: f64, b: f64) -> bool {
    (a - b).abs() < 1e-12
}

#[test]
fn the_baseline_is_compared_at_several_numbers_of_lists() {
    let (_dir, index) = filled(SHAPE, DOCUMENTS);
    let options = EvalOptions {
        baseline: Some(vec![8, 16, 40, 8]),
        at: vec![0.0, 0.05, 0.2, 1.0],
        at_work: vec![0.3, 50.0],
        ..EvalOptions::default()
    };
    let report = measure(&index, &small(), &options);
    assert_eq!(report.lists(), [8, 16, 40]);
    let probes = |lists| {
        let of = report.ivf.iter().filter(move |p| p.lists == lists);
        of.map(|p| p.nprobe).collect::<Vec<_>>()
    };
    assert_eq!(probes(8), [1, 2, 4, 8]);
    assert_eq!(probes(40), [1, 2, 4, 8, 16, 32, 40]);
    let metric = Metric::Recall(k(10));
    for lists in report.lists() {
        let of: Vec<_> = report.ivf.iter().filter(|p| p.lists == lists).collect();
        assert!(of.windows(2).all(|pair| pair[0].visited_fraction < pair[1].visited_fraction));
        let last = of.last().unwrap();
        assert_eq!(last.visited_fraction, 1.0);
        for (metric, value) in last.quality.iter() {
            assert!(near(value, report.exact.get(metric).unwrap()), "{metric}, {lists} lists");
        }
        // A dot product for each centroid.
        let routing = lists as f64 / DOCUMENTS as f64;
        assert!(of.iter().all(|p| near(p.work_fraction, p.visited_fraction + routing)));
    }

    assert_eq!(report.at.iter().map(|at| at.fraction).collect::<Vec<_>>(), options.at);
    for at in &report.at {
        let values = at.ivf.iter().filter_map(|lists| lists.quality.as_ref()?.get(metric));
        let best = values.max_by(f64::total_cmp);
        assert_eq!(at.ivf_best.as_ref().and_then(|quality| quality.get(metric)), best);
        assert_eq!(at.exact, report.exact);
    }
    // Nothing was measured below the smallest beam and one probe.
    assert!(report.at[0].tree.is_none() && report.at[0].ivf_best.is_none());
    assert_eq!(report.at[3].tree.as_ref(), Some(&report.exact));
    // In this tree of few documents, routing costs more than scoring them all.
    let dear = &report.at_work[1];
    assert!(dear.tree.is_none() && dear.ivf_best.is_none() && dear.ivf.iter().all(|l| l.quality.is_none()));
    assert!(report.at_work[0].ivf_best.is_some());
}

#[test]
fn the_figures_of_queries_explain_the_means() {
    let (dir, index) = filled(SHAPE, DOCUMENTS);
    let p2 = Metric::Precision(k(2));
    let options = EvalOptions {
        baseline: Some(vec![8]),
        metrics: vec![p2, Metric::Recall(k(10)), Metric::Recall(k(110))],
        ..EvalOptions::default()
    };
    let (report, run) = evaluate(&index, &small(), "test", &options, &mut ehi::no_progress).unwrap();
    assert!(run.iter().all(|(_, results)| results.len() == 110), "the deepest metric wants 110");
    let qrels = small().qrels("test").unwrap();
    let per_query = &report.per_query;
    assert_eq!((per_query.queries.len(), per_query.asked), (10, 10));
    assert_eq!(per_query.metrics.len(), Metric::STANDARD.len() + 2);

    let path = dir.path().join("queries.jsonl");
    per_query.write(fs::File::create(&path).unwrap()).unwrap();
    let text = fs::read_to_string(&path).unwrap();
    let rows: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(rows.len(), 10 * per_query.settings.len());
    let beam: Vec<&Value> = rows.iter().filter(|r| r["engine"] == "tree" && r["beam"] == 2).collect();
    let recall: f64 = beam.iter().map(|row| row["recall@10"].as_f64().unwrap()).sum();
    assert!(near(recall / 10.0, report.points[1].quality.get(Metric::Recall(k(10))).unwrap()));
    let visited: f64 = beam.iter().map(|row| row["visited_fraction"].as_f64().unwrap()).sum();
    assert!(near(visited / 10.0, report.points[1].visited_fraction));
    for metric in &per_query.metrics {
        let exact = rows.iter().filter(|row| row["engine"] == "exact");
        for (row, query) in exact.zip(&per_query.queries) {
            let (_, results) = run.iter().find(|(own, _)| own == query).unwrap();
            let ids: Vec<&str> = results.iter().map(|result| result.id.as_str()).collect();
            let expected = metric.of_query(&ids, qrels.get(query).unwrap(), RelevanceLevel::default());
            assert!(near(row[metric.to_string()].as_f64().unwrap(), expected), "{metric} of {query}");
        }
    }
    assert!(rows.iter().any(|row| row["engine"] == "ivf" && row["lists"] == 8 && row["nprobe"] == 1));
}

/// The small dataset with its own lines and judgments.
fn edited(dir: &Path, queries: &str, judgments: &str) -> Dataset {
    fs::create_dir_all(dir.join("qrels")).unwrap();
    for name in ["corpus.jsonl", "queries.jsonl"] {
        fs::copy(support::dataset().join(name), dir.join(name)).unwrap();
    }
    let path = dir.join("queries.jsonl");
    fs::write(&path, fs::read_to_string(&path).unwrap() + queries).unwrap();
    fs::write(dir.join("qrels/test.tsv"), judgments).unwrap();
    Dataset::open(dir).unwrap()
}

/// They counted as 0 in the means while the report left them out of its number of queries.
#[test]
fn queries_without_a_text_are_counted_and_reported() {
    let (dir, index) = filled(SHAPE, DOCUMENTS);
    let judgments = "q3\tdoc-0009\t1\nabsent-1\tdoc-0000\t1\nabsent-2\tnowhere\t1\n";
    // A repeated query is asked once.
    let queries = "{\"_id\": \"q3\", \"text\": \"another text\"}\n";
    let dataset = edited(&dir.path().join("data"), queries, judgments);
    let report = measure(&index, &dataset, &EvalOptions::default());
    assert_eq!((report.queries, report.missing_queries), (3, 2));
    assert_eq!(report.missing_documents, 0, "only of queries that are asked");
    assert_eq!(report.exact.get(Metric::Recall(k(100))), Some(1.0 / 3.0));
    assert_eq!(report.per_query.queries, ["q3", "absent-1", "absent-2"]);
    assert_eq!(report.points.last().unwrap().visited_fraction, 1.0, "costs are of what was asked");

    let judgments = "q3\tdoc-0009\t1\nq3\tnowhere\t1\nq4\tnowhere\t1\n";
    let dataset = edited(&dir.path().join("other"), "", judgments);
    let report = measure(&index, &dataset, &EvalOptions::default());
    assert_eq!((report.queries, report.missing_queries, report.missing_documents), (2, 0, 1));
    assert_eq!(report.exact.get(Metric::Recall(k(100))), Some(0.25));
}

#[test]
fn a_relevance_level_decides_what_counts() {
    let (dir, index) = filled(SHAPE, DOCUMENTS);
    let judgments = "q3\tdoc-0009\t1\nq3\tdoc-0015\t3\nq4\tdoc-0012\t2\n";
    let dataset = edited(&dir.path().join("data"), "", judgments);
    let at = |level| {
        let relevance_level = RelevanceLevel(level);
        measure(&index, &dataset, &EvalOptions { relevance_level, ..EvalOptions::default() })
    };
    let (one, two, four) = (at(1), at(2), at(4));
    assert_eq!((one.relevance_level, two.relevance_level), (1, 2));
    let ndcg = Metric::Ndcg(k(10));
    assert!(one.exact.get(ndcg).unwrap() > 0.0);
    assert_eq!(one.exact.get(ndcg), four.exact.get(ndcg), "gains are the grades");
    let recall = Metric::Recall(k(100));
    assert_eq!((one.exact.get(recall), two.exact.get(recall)), (Some(1.0), Some(1.0)));
    assert_eq!(four.exact.get(recall), Some(0.0));
    // The document with the lower grade ranks high, because its query quotes its start.
    let precision = Metric::Precision(k(5));
    assert!(two.exact.get(precision) < one.exact.get(precision), "{:?} {:?}", two.exact, one.exact);
}

#[test]
fn options_that_make_no_sense_are_refused() {
    let (_dir, index) = filled(SHAPE, 20);
    let refused = |options: EvalOptions| {
        evaluate(&index, &small(), "test", &options, &mut ehi::no_progress).unwrap_err()
    };
    let error = refused(EvalOptions { beams: vec![0], ..EvalOptions::default() });
    assert!(matches!(error, Error::Input(InputError::OutOfRange { .. })), "{error}");
    for bad in [-0.5, f64::NAN, f64::INFINITY] {
        for error in [
            refused(EvalOptions { at: vec![bad], ..EvalOptions::default() }),
            refused(EvalOptions { at_work: vec![0.5, bad], ..EvalOptions::default() }),
        ] {
            assert!(matches!(error, Error::Input(InputError::OutOfRange { .. })), "{error}");
        }
    }
    let ivf = vec![4, 0];
    let error = refused(EvalOptions { baseline: Some(ivf), ..EvalOptions::default() });
    assert!(matches!(error, Error::Input(InputError::OutOfRange { .. })), "{error}");
}

#[test]
fn an_index_without_a_judged_document_is_not_evaluated() {
    let (_dir, index) = filled(SHAPE, 0);
    let options = EvalOptions { baseline: Some(Vec::new()), ..EvalOptions::default() };
    let refused = evaluate(&index, &small(), "test", &options, &mut ehi::no_progress);
    match refused.unwrap_err() {
        ehi::Error::Input(ehi::InputError::NothingJudged { split, documents }) => {
            assert!(split == "test" && documents > 0);
        }
        other => panic!("{other}"),
    }
}

#[test]
fn a_split_without_a_query_to_ask_is_not_evaluated() {
    let (_dir, index) = filled(SHAPE, DOCUMENTS);
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    support::copy_directory(support::dataset(), &data);
    std::fs::write(data.join("queries.jsonl"), "").unwrap();
    let dataset = Dataset::open(&data).unwrap();
    let refused = evaluate(&index, &dataset, "test", &EvalOptions::default(), &mut ehi::no_progress);
    match refused.unwrap_err() {
        ehi::Error::Input(ehi::InputError::NothingAsked { split, queries }) => {
            assert!(split == "test" && queries > 0);
        }
        other => panic!("{other}"),
    }
}

/// Real titles and passages in the layouts of their datasets.
#[test]
fn every_layout_can_be_evaluated_on() {
    let root = crate::support::root().join("tests/fixtures/datasets");
    for (name, split, queries) in [("msmarco", "dev.small", 10), ("extreme", "test", 8)] {
        let dataset = Dataset::open(root.join(name)).unwrap();
        let dir = tempfile::tempdir().unwrap();
        let index = Index::create(dir.path(), &bundle(SHAPE)).unwrap();
        let documents: Vec<Document> = dataset.corpus().unwrap().map(Result::unwrap).collect();
        index.insert_batch(documents).unwrap();
        let options = EvalOptions::default();
        let (report, _) = evaluate(&index, &dataset, split, &options, &mut ehi::no_progress).unwrap();
        assert_eq!((report.queries, report.missing_queries, report.missing_documents), (queries, 0, 0));
        assert_eq!(report.exact.get(Metric::Recall(k(100))), Some(1.0), "{name}: all are returned");
        assert_eq!(report.points.last().unwrap().quality, report.exact);
    }
}

/// The same dataset in BEIR's layout and in MS MARCO's has the same figures.
#[test]
fn the_layout_does_not_change_the_figures() {
    let (dir, index) = filled(SHAPE, DOCUMENTS);
    let table = dir.path().join("tsv");
    fs::create_dir(&table).unwrap();
    let corpus = fs::File::open(support::dataset().join("corpus.jsonl")).unwrap();
    let rows = read_documents(corpus, "corpus").map(|d| d.map(|d| format!("{}\t{}\n", d.id, d.text)));
    fs::write(table.join("collection.tsv"), rows.collect::<Result<String, _>>().unwrap()).unwrap();
    let texts: HashMap<String, String> =
        small().queries().unwrap().map(|q| q.map(|q| (q.id, q.text))).collect::<Result<_, _>>().unwrap();
    let qrels = small().qrels("test").unwrap();
    let (mut queries, mut rows) = (String::new(), String::new());
    for (query, judged) in qrels.iter() {
        queries += &format!("{query}\t{}\n", texts[query]);
        rows.extend(judged.iter().map(|(id, grade)| format!("{query}\t0\t{id}\t{grade}\n")));
    }
    fs::write(table.join("queries.test.tsv"), queries).unwrap();
    fs::write(table.join("qrels.test.tsv"), rows).unwrap();
    let options = EvalOptions { beams: vec![1, 4], ..EvalOptions::default() };
    let beir = measure(&index, &small(), &options);
    let tsv = measure(&index, &Dataset::open(table).unwrap(), &options);
    assert_eq!(tsv.points.len(), 2);
    for (a, b) in beir.points.iter().zip(&tsv.points) {
        for ((metric, a), (_, b)) in a.quality.iter().zip(b.quality.iter()) {
            assert!(near(a, b), "{metric}");
        }
    }
}
