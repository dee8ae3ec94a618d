//! Rounds of searching for `benches/peers/search.py`, which starts this program and its peers and gives them turns.
//!
//!     cargo bench --bench vectors -- BUNDLE EMBEDDED K INDEX [plain]
//!
//! `EMBEDDED` is a folder of the example `embed`, `INDEX` where the index is, made if absent; with `plain` searches pass
//! by its codes. The first line printed says what making it took. Then each line of standard input is a beam; all queries are searched
//! for with it, one after another on this thread, and the seconds, the hits of each and
//! means of the rest are printed as JSON.

use std::fs::{self, File};
use std::io::{BufReader, Read};
use std::path::Path;
use std::time::{Duration, Instant};

use ehi::{Bundle, Document, Index};
use serde_json::json;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|argument| argument != "--bench").collect();
    let [bundle, embedded, k, path, plain @ ..] = arguments.as_slice() else {
        println!("not run: see the head of benches/vectors.rs");
        return;
    };
    let k: usize = k.parse().expect("K is a number");
    let codes = plain.is_empty();
    let embedded = Path::new(embedded);
    let bundle = Bundle::open(bundle).expect("the bundle opens");
    let dim = bundle.model().encoder().dim();
    let started = Instant::now();
    let index = match Path::new(path).exists() {
        true => Index::open_read_only(path).expect("the index opens"),
        false => build(&bundle, &embedded.join("documents.f32"), path),
    };
    println!("{}", json!({ "build_seconds": started.elapsed().as_secs_f64() }));

    let queries = fs::read(embedded.join("queries.f32")).expect("the queries are readable");
    let queries: Vec<Vec<f32>> = queries.chunks_exact(4 * dim).map(row).collect();
    for line in std::io::stdin().lines() {
        let beam = line.expect("a line").trim().parse().expect("a beam");
        let started = Instant::now();
        let results: Vec<_> = queries
            .iter()
            .map(|query| {
                let search = index.query_vector(query).k(k).beam(beam).codes(codes);
                search.run().expect("the search succeeds")
            })
            .collect();
        let seconds = started.elapsed().as_secs_f64();
        let mean = |of: &dyn Fn(&ehi::SearchStats) -> Duration| {
            results.iter().map(|result| 1e6 * of(&result.stats).as_secs_f64()).sum::<f64>()
                / results.len() as f64
        };
        let stages = json!({
            "route": mean(&|took| took.beam), "scan": mean(&|took| took.scan), "fetch": mean(&|took| took.fetch),
        });
        let read: usize = results.iter().map(|result| result.stats.embeddings_read).sum();
        let read = read as f64 / results.len() as f64;
        let visited: usize = results.iter().map(|result| result.stats.documents_visited).sum();
        let visited = visited as f64 / results.len() as f64 / index.len() as f64;
        let found: Vec<Vec<u32>> = results
            .iter()
            .map(|result| result.iter().map(|hit| hit.id.parse().expect("a number")).collect())
            .collect();
        println!(
            "{}",
            json!({ "seconds": seconds, "found": found, "visited": visited, "read": read, "stages_us": stages })
        );
    }
}

fn build(bundle: &Bundle, documents: &Path, path: &str) -> Index {
    let index = Index::create(path, bundle).expect("the index is made");
    let mut bytes = vec![0; 4 * bundle.model().encoder().dim()];
    let file = File::open(documents).expect("the embeddings open");
    let rows = file.metadata().expect("the file has a length").len() as usize / bytes.len();
    let mut input = BufReader::with_capacity(1 << 20, file);
    let given = (0..rows).map(|number| {
        input.read_exact(&mut bytes).expect("the file holds whole rows");
        (Document::new(number.to_string(), "", ""), row(&bytes))
    });
    index.insert_vectors(given).expect("the vectors are stored");
    index.compact().expect("the index is compacted");
    index
}

fn row(bytes: &[u8]) -> Vec<f32> {
    let (values, _) = bytes.as_chunks::<4>();
    values.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect()
}
