//! Rounds of searching for `benches/peers/search.py`, which runs this program and its peers in turns.
//!
//!     cargo bench --bench vectors -- BUNDLE EMBEDDED K INDEX [plain] [parallel] [ids]
//!
//! `EMBEDDED` is a folder written by the example `embed`, `INDEX` the path of the index, created if absent;
//! with `plain` searches ignore its codes, with `parallel` each uses all threads, and with `ids` hits have
//! only their ids. The first line printed describes its creation. Then each line of standard input is a beam;
//! all queries are searched with it, one after another on this thread, and the seconds, the hits of each and
//! means of the rest are printed as JSON.

use std::path::Path;
use std::time::{Duration, Instant};

use ehi::{Bundle, Index, SearchRequest};
use serde_json::json;

mod embedded;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|argument| argument != "--bench").collect();
    let [bundle, embedded, k, path, options @ ..] = arguments.as_slice() else {
        println!("not run: see the head of benches/vectors.rs");
        return;
    };
    let k: usize = k.parse().expect("K is a number");
    let asked = |name: &str| options.iter().any(|option| option == name);
    let (codes, parallel, ids_only) = (!asked("plain"), asked("parallel"), asked("ids"));
    let folder = Path::new(embedded);
    let bundle = Bundle::open(bundle).expect("the bundle opens");
    let dim = bundle.model().dim();
    let started = Instant::now();
    let index = match Path::new(path).exists() {
        true => Index::open_read_only(path).expect("the index opens"),
        false => {
            let rows = embedded::rows(&folder.join("documents.f32"), dim);
            embedded::fill(path, &bundle, embedded::numbered(), rows)
        }
    };
    println!("{}", json!({ "build_seconds": started.elapsed().as_secs_f64() }));

    let queries: Vec<Vec<f32>> = embedded::rows(&folder.join("queries.f32"), dim).collect();
    for line in std::io::stdin().lines() {
        let beam = line.expect("a line").trim().parse().expect("a beam");
        let started = Instant::now();
        let results: Vec<(ehi::SearchStats, Vec<String>)> = queries
            .iter()
            .map(|query| {
                let request = SearchRequest::dense().k(k).beam(beam).codes(codes);
                let request = SearchRequest { parallel, ids_only, ..request };
                let result = index.search_with(query, &request).expect("the search succeeds");
                // The hits' documents were read, and are dropped here.
                (result.stats, result.hits.into_iter().map(|hit| hit.id).collect::<Vec<String>>())
            })
            .collect();
        let seconds = started.elapsed().as_secs_f64();
        let mean = |of: &dyn Fn(&ehi::SearchStats) -> Duration| {
            results.iter().map(|(stats, _)| 1e6 * of(stats).as_secs_f64()).sum::<f64>() / results.len() as f64
        };
        let stages = json!({
            "route": mean(&|took| took.beam), "scan": mean(&|took| took.scan), "fetch": mean(&|took| took.fetch),
        });
        let read: usize = results.iter().map(|(stats, _)| stats.embeddings_read).sum();
        let read = read as f64 / results.len() as f64;
        let visited: usize = results.iter().map(|(stats, _)| stats.documents_visited).sum();
        let visited = visited as f64 / results.len() as f64 / index.len() as f64;
        let found: Vec<Vec<u32>> = results
            .iter()
            .map(|(_, ids)| ids.iter().map(|id| id.parse().expect("a number")).collect())
            .collect();
        println!(
            "{}",
            json!({ "seconds": seconds, "found": found, "visited": visited, "read": read, "stages_us": stages })
        );
    }
}
