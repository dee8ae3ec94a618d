//! The reader and the metrics on a whole dataset: SciFact, `examples/data/scifact`.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::num::NonZeroUsize;

use crate::support::runs::{Run, mean};
use ehi::Document;
use ehi::data::{Dataset, DatasetQuery, DevFraction, carve_dev};
use ehi::eval::{Metric, RelevanceLevel};

fn scifact() -> Dataset {
    let root = crate::support::root().to_owned();
    Dataset::open(root.join("examples/data/scifact")).unwrap()
}

fn read(dataset: &Dataset) -> (Vec<Document>, Vec<DatasetQuery>) {
    let documents = dataset.corpus().unwrap().map(Result::unwrap).collect();
    let queries = dataset.queries().unwrap().map(Result::unwrap).collect();
    (documents, queries)
}

#[test]
fn counts_are_those_of_the_dataset() {
    let dataset = scifact();
    let (documents, queries) = read(&dataset);
    assert_eq!((documents.len(), queries.len()), (5_183, 1_109));
    assert!(documents.iter().all(|document| document.metadata == Some(serde_json::json!({}))));
    let bytes: usize = documents.iter().map(|d| d.title.len() + d.text.len()).sum();
    assert!(bytes > 7_500_000, "{bytes}");

    let document_ids: HashSet<&str> = documents.iter().map(|d| d.id.as_str()).collect();
    let query_ids: HashSet<&str> = queries.iter().map(|q| q.id.as_str()).collect();
    assert_eq!((document_ids.len(), query_ids.len()), (5_183, 1_109));

    assert_eq!(dataset.splits().unwrap(), ["test", "train"]);
    for (split, rows, judged) in [("train", 919, 809), ("test", 339, 300)] {
        let qrels = dataset.qrels(split).unwrap();
        let judgments = qrels.iter().map(|(_, judged)| judged.len()).sum::<usize>();
        assert_eq!((judgments, qrels.len()), (rows, judged), "{split}");
        for (query, judgments) in qrels.iter() {
            assert!(query_ids.contains(query), "{query}");
            assert!(judgments.keys().all(|id| document_ids.contains(id.as_str())), "{query}");
        }
    }
}

/// The documented rule, applied here, must always pick the same queries.
#[test]
fn the_dev_split_is_fixed() {
    let train = scifact().qrels("train").unwrap();
    let (train, dev) = carve_dev(train, 0, DevFraction::new(0.1).unwrap());
    let first: Vec<&str> = dev.iter().map(|(query, _)| query).take(4).collect();
    assert_eq!((dev.len(), train.len()), (72, 737));
    assert_eq!(first, ["1000", "1040", "1042", "1054"]);
}

/// BM25 is simple enough to write twice: these are the figures of a separate implementation
/// (k1 = 0.9, b = 0.4, no stemming), and 0.665 is the published nDCG@10.
#[test]
fn a_lexical_search_reaches_its_known_figures() {
    let dataset = scifact();
    let (documents, queries) = read(&dataset);
    let qrels = dataset.qrels("test").unwrap();
    let index = Bm25::new(&documents);
    let mut run = Run::new();
    for query in queries.iter().filter(|query| qrels.get(&query.id).is_some()) {
        let found = index.search(&query.text, 100).into_iter();
        run.insert(query.id.clone(), found.map(|(document, score)| (score, document.to_owned())).collect());
    }
    assert_eq!(run.len(), 300);
    let k = |value| NonZeroUsize::new(value).unwrap();
    for (metric, expected) in [
        (Metric::Ndcg(k(10)), 0.663),
        (Metric::Recall(k(10)), 0.780),
        (Metric::Recall(k(100)), 0.886),
        (Metric::Mrr(k(10)), 0.632),
    ] {
        let got = mean(metric, &run, &qrels, RelevanceLevel::default());
        // The other implementation has different stop words.
        assert!((got - expected).abs() < 0.01, "{metric}: {got}, not {expected}");
    }
}

const STOP_WORDS: &str = "a an and are as at be but by for from has have if in into is it its no \
    not of on or such that the their then there these they this to was were which will with";

struct Bm25 {
    ids: Vec<String>,
    lengths: Vec<f32>,
    mean_length: f32,
    postings: HashMap<String, Vec<(usize, f32)>>,
}

impl Bm25 {
    fn new(documents: &[Document]) -> Self {
        let mut postings: HashMap<String, Vec<(usize, f32)>> = HashMap::new();
        let mut lengths = Vec::new();
        for (number, document) in documents.iter().enumerate() {
            let words = words(&format!("{} {}", document.title, document.text));
            lengths.push(words.len() as f32);
            let mut counts: BTreeMap<String, f32> = BTreeMap::new();
            for word in words {
                *counts.entry(word).or_default() += 1.0;
            }
            for (word, count) in counts {
                postings.entry(word).or_default().push((number, count));
            }
        }
        Self {
            ids: documents.iter().map(|document| document.id.clone()).collect(),
            mean_length: lengths.iter().sum::<f32>() / lengths.len() as f32,
            lengths,
            postings,
        }
    }

    fn search(&self, query: &str, k: usize) -> Vec<(&str, f32)> {
        let (k1, b) = (0.9, 0.4);
        let mut scores: BTreeMap<usize, f32> = BTreeMap::new();
        for word in words(query) {
            let Some(found) = self.postings.get(&word) else {
                continue;
            };
            let (all, some) = (self.ids.len() as f32, found.len() as f32);
            let weight = (1.0 + (all - some + 0.5) / (some + 0.5)).ln();
            for &(document, count) in found {
                let length = self.lengths[document] / self.mean_length;
                let saturated = count * (k1 + 1.0) / (count + k1 * (1.0 - b + b * length));
                *scores.entry(document).or_default() += weight * saturated;
            }
        }
        let mut ranked: Vec<(usize, f32)> = scores.into_iter().collect();
        ranked.sort_by(|a, b| b.1.total_cmp(&a.1));
        ranked.truncate(k);
        ranked.into_iter().map(|(n, score)| (self.ids[n].as_str(), score)).collect()
    }
}

fn words(text: &str) -> Vec<String> {
    text.to_lowercase()
        .split(|c: char| !c.is_ascii_alphanumeric())
        .filter(|word| !word.is_empty() && STOP_WORDS.split(' ').all(|stop| stop != *word))
        .map(str::to_owned)
        .collect()
}
