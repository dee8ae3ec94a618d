//! Search with an embedding as the query: routing, scanning and fetching, without the encoder. The visited
//! fraction of each setting is printed with its name.
//!
//!     cargo bench --bench scan

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use ehi::model::Role;
use ehi::{Index, SearchRequest};

mod scifact;

const K: usize = 10;
const QUERIES: usize = 64;

fn search_vector(c: &mut Criterion) {
    let index = scifact::index();
    let texts = scifact::queries(QUERIES);
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    let bundle = index.bundle();
    let encoder = bundle.model().encoder().unwrap();
    let rows = encoder.embed(&texts, Role::Query).expect("the queries embed");
    let vectors: Vec<&[f32]> = rows.chunks_exact(encoder.dim()).collect();

    let leaves = index.bundle().model().indexer().shape().leaves() as usize;
    let powers = std::iter::successors(Some(1), |beam| Some(beam * 2));
    let mut group = c.benchmark_group("search_vector");
    for beam in powers.take_while(|&beam| beam < leaves).chain([leaves]) {
        measure(&mut group, &index, &vectors, &format!("beam {beam}"), &SearchRequest::dense().beam(beam));
    }
    measure(&mut group, &index, &vectors, "exact", &SearchRequest::dense().exact());
    group.finish();
}

fn measure(
    group: &mut criterion::BenchmarkGroup<'_, criterion::measurement::WallTime>,
    index: &Index,
    vectors: &[&[f32]],
    name: &str,
    request: &SearchRequest,
) {
    let request = request.clone().k(K);
    let run = |vector: &[f32]| index.search_with(vector, &request).expect("the search succeeds");
    let visited: f64 = vectors.iter().map(|vector| run(vector).stats.visited_fraction).sum();
    let name = format!("{name}, {:.1}% visited", 100.0 * visited / vectors.len() as f64);
    group.throughput(Throughput::Elements(vectors.len() as u64));
    group.bench_function(BenchmarkId::from_parameter(name), |b| {
        b.iter(|| vectors.iter().map(|vector| run(vector).len()).sum::<usize>());
    });
}

criterion_group!(benches, search_vector);
criterion_main!(benches);
