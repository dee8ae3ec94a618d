//! What codes save, and what they lose: scan time, embeddings read and recall compared with the plain scan of
//! the same leaves, on real embeddings.
//!
//!     cargo run --release --example embed -- ENCODER DATASET SPLIT EMBEDDED
//!     cargo bench --bench codes -- BUNDLE EMBEDDED [K]
//!
//! The tree is that of BUNDLE, the embeddings and queries those of EMBEDDED. Both ways of scanning alternate;
//! times are medians of five rounds, on one thread, and of the scan alone: routing and reading the documents
//! are the same for both.

use std::path::Path;
use std::time::Duration;

use ehi::{Bundle, Index, SearchRequest};

mod embedded;

const ROUNDS: usize = 5;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|argument| argument != "--bench").collect();
    let [bundle, embedded, k @ ..] = arguments.as_slice() else {
        println!("not run: needs a bundle and a folder of embeddings, see the head of benches/codes.rs");
        return;
    };
    let k: usize = k.first().map_or(10, |k| k.parse().expect("K is a number"));
    let bundle = Bundle::open(bundle).expect("the bundle opens");
    let dim = bundle.model().dim();
    let rows = |name| embedded::rows(&Path::new(embedded).join(name), dim);
    let queries: Vec<f32> = rows("queries.f32").flatten().collect();
    let dir = tempfile::tempdir().expect("a directory for the index");
    let index =
        embedded::fill(dir.path().join("index"), &bundle, embedded::numbered(), rows("documents.f32"));

    println!("{} documents of {dim} dimensions, {} queries, k = {k}", index.len(), queries.len() / dim);
    println!("| Beam | Visited | Plain, us | Codes, us | Ratio | Embeddings read | Recall@{k} |");
    println!("|---|---|---|---|---|---|---|");
    let leaves = bundle.model().indexer().shape().leaves() as usize;
    let mut beam = 4;
    while beam < leaves {
        measure(&index, &queries, k, beam);
        beam *= 2;
    }
}

/// Both ways over all queries, alternating.
fn measure(index: &Index, queries: &[f32], k: usize, beam: usize) {
    let dim = index.bundle().model().dim();
    let count = (queries.len() / dim) as f64;
    let mut times = [Vec::new(), Vec::new()];
    let (mut visited, mut read, mut found, mut wanted) = (0, 0, 0, 0);
    for round in 0..ROUNDS {
        let mut totals = [Duration::ZERO; 2];
        for query in queries.chunks_exact(dim) {
            let results = [false, true].map(|codes| {
                let run = index.search_with(query, &SearchRequest::dense().k(k).beam(beam).codes(codes));
                run.expect("the search succeeds")
            });
            for (total, result) in totals.iter_mut().zip(&results) {
                *total += result.stats.scan;
            }
            if round == 0 {
                let [plain, coded] = &results;
                visited += coded.stats.documents_visited;
                read += coded.stats.embeddings_read;
                wanted += plain.len();
                found += coded.iter().filter(|hit| plain.iter().any(|other| other.id == hit.id)).count();
            }
        }
        for (times, total) in times.iter_mut().zip(totals) {
            times.push(total.as_secs_f64() * 1e6 / count);
        }
    }
    let [plain, coded] = times.map(|mut times| {
        times.sort_by(f64::total_cmp);
        times[ROUNDS / 2]
    });
    println!(
        "| {beam} | {:.0} | {plain:.1} | {coded:.1} | {:.2} | {:.1}% | {:.4} |",
        visited as f64 / count,
        plain / coded,
        100.0 * read as f64 / visited as f64,
        found as f64 / wanted as f64,
    );
}
