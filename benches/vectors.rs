//! Rounds of searching for `benches/peers/search.py`, which starts this program and its peers and gives them turns.
//!
//!     cargo bench --bench vectors -- BUNDLE EMBEDDED K INDEX
//!
//! `EMBEDDED` is a folder of the example `embed`, `INDEX` where the index is made. The first line printed says what
//! making it took. Then each line of standard input is a beam; all queries are searched for with it, one after another
//! on this thread, and the seconds and the hits of each are printed as JSON.

use std::fs;
use std::path::Path;
use std::time::Instant;

use ehi::{Bundle, Document, Index};
use serde_json::json;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|argument| argument != "--bench").collect();
    let [bundle, embedded, k, index] = arguments.as_slice() else {
        println!("not run: see the head of benches/vectors.rs");
        return;
    };
    let k: usize = k.parse().expect("K is a number");
    let bundle = Bundle::open(bundle).expect("the bundle opens");
    let dim = bundle.model().encoder().dim();
    let [documents, queries] =
        ["documents.f32", "queries.f32"].map(|name| rows(&Path::new(embedded).join(name)));
    let started = Instant::now();
    let index = Index::create(index, &bundle).expect("the index is made");
    let given = documents.chunks_exact(dim).enumerate();
    let given = given.map(|(number, row)| (Document::new(number.to_string(), "", ""), row.to_vec()));
    index.insert_vectors(given).expect("the vectors are stored");
    index.compact().expect("the index is compacted");
    println!("{}", json!({ "build_seconds": started.elapsed().as_secs_f64() }));
    for line in std::io::stdin().lines() {
        let beam = line.expect("a line").trim().parse().expect("a beam");
        let started = Instant::now();
        let results: Vec<_> = queries
            .chunks_exact(dim)
            .map(|query| index.search_vector(query, k, beam).expect("the search succeeds"))
            .collect();
        let seconds = started.elapsed().as_secs_f64();
        let visited: usize = results.iter().map(|result| result.stats.documents_visited).sum();
        let found: Vec<Vec<u32>> = results
            .iter()
            .map(|result| result.iter().map(|hit| hit.id.parse().expect("a number")).collect())
            .collect();
        let visited = visited as f64 / results.len() as f64 / index.len() as f64;
        println!("{}", json!({ "seconds": seconds, "found": found, "visited": visited }));
    }
}

fn rows(path: &Path) -> Vec<f32> {
    let bytes = fs::read(path).expect("the embeddings are readable");
    let (values, _) = bytes.as_chunks::<4>();
    values.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect()
}
