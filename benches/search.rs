//! Text in, hits out: the cost of the encoder, and of a whole search with it.
//!
//!     cargo bench --bench search

use criterion::{Criterion, SamplingMode, Throughput, criterion_group, criterion_main};
use ehi::model::Role;
use ehi::search::DEFAULT_K;

mod scifact;

const DOCUMENTS: usize = 64;
const QUERIES: usize = 64;

fn encoder(c: &mut Criterion) {
    let bundle = scifact::bundle();
    let encoder = bundle.model().encoder().unwrap();
    let documents = scifact::documents(DOCUMENTS);
    let documents: Vec<_> = documents.iter().map(|document| document.embedding_text()).collect();
    let documents: Vec<&str> = documents.iter().map(AsRef::as_ref).collect();
    let queries = scifact::queries(QUERIES);
    let queries: Vec<&str> = queries.iter().map(String::as_str).collect();

    let mut group = c.benchmark_group("encoder");
    group.sample_size(10).sampling_mode(SamplingMode::Flat);
    group.throughput(Throughput::Elements(documents.len() as u64));
    group.bench_function("documents", |b| b.iter(|| encoder.embed(&documents, Role::Document)));
    group.throughput(Throughput::Elements(queries.len() as u64));
    group.bench_function("queries in one batch", |b| b.iter(|| encoder.embed(&queries, Role::Query)));
    group.bench_function("queries one by one", |b| {
        b.iter(|| queries.iter().all(|query| encoder.embed(&[query], Role::Query).is_ok()));
    });
    group.finish();
}

fn search(c: &mut Criterion) {
    let index = scifact::index();
    let queries = scifact::queries(QUERIES);
    let mut next = queries.iter().cycle();
    c.bench_function("search, one query", |b| {
        b.iter(|| {
            let query = next.next().expect("a cycle has no end");
            index.search(query, DEFAULT_K, 8).expect("the search succeeds").len()
        });
    });
}

criterion_group!(benches, encoder, search);
criterion_main!(benches);
