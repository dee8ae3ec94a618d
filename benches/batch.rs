//! Searches of a batch compared with single searches: `cargo bench --bench batch`.
//!
//! 60,000 random vectors around 400 centres in the tree of `models/scifact-minilm`, 1,000 queries, k = 10.
//! Prints microseconds per query, medians of five alternating rounds.

use std::time::Instant;

use ehi::{Bundle, Document, Index, SearchRequest};

const DOCUMENTS: usize = 60_000;
const CENTRES: usize = 400;
const QUERIES: usize = 1000;
const ROUNDS: usize = 5;

fn main() {
    let bundle = Bundle::open("models/scifact-minilm").expect("the bundle of this repository");
    let dir = tempfile::tempdir().expect("a folder");
    let index = Index::create(dir.path().join("index"), &bundle).expect("an index");
    let dim = bundle.model().encoder().dim();
    let mut state = 1u64;
    let mut random = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 40) as f32 / (1 << 23) as f32 - 1.0
    };
    let centres: Vec<Vec<f32>> = (0..CENTRES).map(|_| (0..dim).map(|_| random()).collect()).collect();
    let mut near =
        |n: usize| -> Vec<f32> { centres[n % CENTRES].iter().map(|x| x + 0.7 * random()).collect() };
    for first in (0..DOCUMENTS).step_by(5000) {
        let documents = first..first + 5000;
        let rows = documents.map(|n| (Document::new(format!("d{n}"), "title", "text"), near(n * 7919)));
        index.insert_vectors(rows.collect::<Vec<_>>()).expect("they are stored");
    }
    index.compact().expect("compacted");
    let queries: Vec<Vec<f32>> = (0..QUERIES).map(|n| near(n * 31)).collect();
    println!("beam  batch  µs a query  alone, one thread");
    for (beam, size) in [4, 16, 64].into_iter().flat_map(|beam| [10, 1000].map(|size| (beam, size))) {
        let (mut batches, mut singles) = (Vec::new(), Vec::new());
        for _ in 0..ROUNDS {
            let started = Instant::now();
            for queries in queries.chunks(size) {
                index.search_many(queries, &SearchRequest::dense().k(10).beam(beam)).expect("answers");
            }
            batches.push(started.elapsed().as_secs_f64() * 1e6 / QUERIES as f64);
            let started = Instant::now();
            for query in &queries {
                index.search_with(query, &SearchRequest::dense().k(10).beam(beam)).expect("an answer");
            }
            singles.push(started.elapsed().as_secs_f64() * 1e6 / QUERIES as f64);
        }
        println!("{beam:>4}  {size:>5}  {:>10.1}  {:>17.1}", median(batches), median(singles));
    }
}

fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}
