//! Run files as `trec_eval` reads them, and its means.

use std::collections::BTreeMap;

use ehi::data::Qrels;
use ehi::eval::{Metric, RelevanceLevel};

/// Scores and ids by query, in the order of `trec_eval`: by score, then by id, both largest first.
pub type Run = BTreeMap<String, Vec<(f32, String)>>;

/// Ranks of the file are ignored.
pub fn read_run(text: &str) -> Run {
    let mut run = Run::new();
    for line in text.lines() {
        let [query, _, id, _, score, _] = line.split_whitespace().collect::<Vec<_>>()[..] else {
            panic!("{line}")
        };
        run.entry(query.to_owned()).or_default().push((score.parse().unwrap(), id.to_owned()));
    }
    for results in run.values_mut() {
        results.sort_by(|a, b| b.0.partial_cmp(&a.0).unwrap().then_with(|| b.1.cmp(&a.1)));
    }
    run
}

/// The ids of a query's results.
pub fn ids(results: &[(f32, String)]) -> Vec<&str> {
    results.iter().map(|(_, id)| id.as_str()).collect()
}

/// The mean over all judged queries: one without results counts 0, as with `-c` of `trec_eval`.
pub fn mean(metric: Metric, run: &Run, qrels: &Qrels, level: RelevanceLevel) -> f64 {
    let value = |(query, results): (&String, &Vec<(f32, String)>)| {
        qrels.get(query).map_or(0.0, |judged| metric.of_query(&ids(results), judged, level))
    };
    run.iter().map(value).sum::<f64>() / qrels.len() as f64
}
