//! Searches by vector with a filter that is new each time, against one that is repeated and against none.
//!
//!     cargo bench --bench filters -- BUNDLE VECTORS [tree]
//!
//! `VECTORS` is a folder as the example `embed` writes it, or a number: so many are drawn around 1,000
//! centres. Documents have a year, a language (9:1), a price, three of 1,000 tags by Zipf, one of 10,000
//! tenants, and a name of a third as many as there are documents. With `tree`, the index makes a tree of
//! 1,000 leaves for the vectors and measures its recall. Prints the time of insertion, the bytes of documents
//! with and without metadata, and per filter the share of documents that it lets through, the median and the
//! 99th percentile in microseconds, and the share of filtered exact search's hits found; then the times of
//! counts and facets.

use std::collections::HashSet;
use std::path::Path;
use std::time::Instant;

use ehi::learn::TuneOptions;
use ehi::{Bundle, Document, Filter, Index, SearchRequest};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde_json::json;

const CENTRES: usize = 1_000;
const TAGS: usize = 1_000;
const TENANTS: usize = 10_000;
const ROUNDS: usize = 200;

type Make = fn(&mut ChaCha8Rng, usize) -> Filter;

/// Filters by how many documents pass, each with another value every time.
const FILTERS: [(&str, Make); 10] = [
    ("price, 90%", |rng, _| Filter::lt("price", 900.0 + rng.random_range(0.0..1.0))),
    ("price, 50%", |rng, _| Filter::gte("price", 500.0 + rng.random_range(0.0..1.0))),
    ("price, 10%", |rng, _| {
        let from = rng.random_range(0.0..900.0);
        Filter::gte("price", from).and(Filter::lt("price", from + 100.0))
    }),
    ("year, 2%", |rng, _| Filter::eq("year", rng.random_range(1970..2020))),
    ("price, 1%", |rng, _| {
        let from = rng.random_range(0.0..990.0);
        Filter::gte("price", from).and(Filter::lt("price", from + 10.0))
    }),
    ("three fields", |rng, _| {
        let from = rng.random_range(1970..2010);
        let years = Filter::gte("year", from).and(Filter::lt("year", from + 10));
        years.and(Filter::eq("lang", "en")).and(Filter::lt("price", rng.random_range(400.0..600.0)))
    }),
    ("price, 0.1%", |rng, _| {
        let from = rng.random_range(0.0..999.0);
        Filter::gte("price", from).and(Filter::lt("price", from + 1.0))
    }),
    ("two tags", |rng, _| Filter::has_all("tags", [tag(rng), tag(rng)])),
    ("a tenant", |rng, _| Filter::eq("tenant", rng.random_range(0..TENANTS))),
    ("a name", |rng, count| Filter::eq("name", name(rng.random_range(0..count / 3)))),
];

fn name(number: usize) -> String {
    format!("name {number}")
}

fn metadata(rng: &mut ChaCha8Rng, count: usize) -> serde_json::Value {
    let tags = [tag(rng), tag(rng), tag(rng)];
    let (year, price) = (rng.random_range(1970..2020), rng.random_range(0.0..1_000.0));
    let lang = if rng.random_range(0..10) == 0 { "de" } else { "en" };
    let (name, tenant) = (name(rng.random_range(0..count / 3)), rng.random_range(0..TENANTS));
    json!({ "year": year, "lang": lang, "price": price, "tags": tags, "name": name, "tenant": tenant })
}

fn tag(rng: &mut ChaCha8Rng) -> String {
    format!("tag {}", (TAGS as f64).powf(rng.random_range(0.0..1.0)) as usize)
}

enum Vectors {
    /// Their number, and the centres around which they are drawn.
    Drawn(usize, Vec<Vec<f32>>),
    /// Those of documents and of questions, joined.
    Given([Vec<f32>; 2]),
}

impl Vectors {
    fn count(&self, dim: usize) -> usize {
        match self {
            Self::Drawn(count, _) => *count,
            Self::Given([documents, _]) => documents.len() / dim,
        }
    }

    fn document(&self, rng: &mut ChaCha8Rng, number: usize, dim: usize) -> Vec<f32> {
        match self {
            Self::Drawn(_, centres) => near(rng, &centres[number % CENTRES]),
            Self::Given([documents, _]) => documents[number * dim..][..dim].to_vec(),
        }
    }

    fn question(&self, rng: &mut ChaCha8Rng, number: usize, dim: usize) -> Vec<f32> {
        match self {
            Self::Drawn(_, centres) => near(rng, &centres[number * 7 % CENTRES]),
            Self::Given([_, questions]) => questions[number * dim..][..dim].to_vec(),
        }
    }
}

fn near(rng: &mut ChaCha8Rng, centre: &[f32]) -> Vec<f32> {
    centre.iter().map(|x| x + rng.random_range(-0.7..0.7)).collect()
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|argument| argument != "--bench").collect();
    let (bundle, vectors, with_tree) = match arguments.as_slice() {
        [bundle, vectors] => (bundle, vectors, false),
        [bundle, vectors, tree] if tree == "tree" => (bundle, vectors, true),
        _ => {
            println!("not run: see the head of benches/filters.rs");
            return;
        }
    };
    let bundle = Bundle::from_encoder(bundle).expect("the model loads");
    let dim = bundle.model().dim();
    let mut rng = ChaCha8Rng::seed_from_u64(1);
    let vectors = match vectors.parse() {
        Ok(count) => {
            let centre = |_| (0..dim).map(|_| rng.random_range(-1.0..1.0)).collect();
            Vectors::Drawn(count, (0..CENTRES).map(centre).collect())
        }
        Err(_) => {
            let read = |name: &str| {
                let bytes =
                    std::fs::read(Path::new(vectors).join(name)).expect("a folder of the example embed");
                bytes.as_chunks().0.iter().map(|&bytes| f32::from_le_bytes(bytes)).collect()
            };
            Vectors::Given([read("documents.f32"), read("queries.f32")])
        }
    };
    let count = vectors.count(dim);
    let dir = tempfile::tempdir().expect("a folder");
    let fill = |name: &str, with: bool| {
        let mut rng = ChaCha8Rng::seed_from_u64(2);
        let index = Index::create(dir.path().join(name), &bundle).expect("an index");
        let started = Instant::now();
        let mut documents = (0..count).map(|number| {
            let document = Document::new(format!("{number:08}"), "", "");
            let metadata = metadata(&mut rng, count);
            let own = vectors.document(&mut rng, number, dim);
            (if with { document.with_metadata(metadata) } else { document }, own)
        });
        loop {
            let group: Vec<_> = documents.by_ref().take(10_000).collect();
            if group.is_empty() {
                break;
            }
            index.insert_vectors(group).expect("documents are stored");
        }
        index.flush().expect("a flush");
        let bytes = index.stats().expect("sizes").bytes;
        println!(
            "{name}: {:.1} s, {} bytes",
            started.elapsed().as_secs_f64(),
            bytes.vectors + bytes.documents
        );
        index
    };
    drop(fill("without metadata", false));
    let index = fill("with metadata", true);
    if with_tree {
        let started = Instant::now();
        let options = TuneOptions {
            leaves: Some(CENTRES as u32),
            passes: Some(4),
            always: true,
            ..TuneOptions::default()
        };
        let tuned = index.tune(&options).expect("a tree");
        let curve = index.calibrate(&[]).expect("a curve");
        let point = curve.reaching(0.95, 10).expect("a number of leaves");
        let (leaves, beam, visited) = (tuned.leaves, point.beam, point.visited);
        println!(
            "a tree of {leaves} leaves, {beam} of them visited with {:.1}% of the documents: {:.0} s",
            100.0 * visited,
            started.elapsed().as_secs_f64()
        );
    }
    let questions: Vec<Vec<f32>> =
        (0..ROUNDS).map(|number| vectors.question(&mut rng, number, dim)).collect();
    let time = |request: &SearchRequest, question: &Vec<f32>| {
        let started = Instant::now();
        let result = index.search_with(question, request).expect("a search");
        (started.elapsed().as_secs_f64() * 1e6, result)
    };
    let show = |name: &str, share: f64, mut times: Vec<f64>, recall: f64| {
        times.sort_by(f64::total_cmp);
        let at = |share: f64| times[((times.len() - 1) as f64 * share) as usize];
        println!("{name:24} {:7.3}%  {:9.0} {:9.0}  {recall:.4}", 100.0 * share, at(0.5), at(0.99));
    };
    println!("{:24} {:>8}  {:>9} {:>9}  recall", "filter", "passes", "median us", "p99 us");
    let none = SearchRequest::dense();
    let plain: Vec<f64> = questions.iter().map(|question| time(&none, question).0).collect();
    show("none", 1.0, plain, 1.0);
    for (name, make) in FILTERS {
        let (mut new, mut again, mut found, mut all) = (Vec::new(), Vec::new(), 0, 0);
        let share = {
            let one = make(&mut ChaCha8Rng::seed_from_u64(3), count);
            let passing = index.iter().flatten().filter(|own| one.matches(&own.id, own.metadata.as_ref()));
            passing.count() as f64 / count as f64
        };
        let mut results = Vec::new();
        for question in &questions {
            let request = SearchRequest::dense().filter(&make(&mut rng, count));
            let (took, result) = time(&request, question);
            new.push(took);
            again.push(time(&request, question).0);
            results.push((question, request, result));
        }
        // Afterwards, as an exact search leaves nothing else in the processor's caches.
        for (question, request, result) in results {
            let exact: HashSet<String> =
                time(&request.exact(), question).1.into_iter().map(|hit| hit.id).collect();
            all += exact.len();
            found += result.iter().filter(|hit| exact.contains(&hit.id)).count();
        }
        show(name, share, new, found as f64 / all.max(1) as f64);
        show("  again", share, again, 1.0);
    }
    let timed = |name: &str, run: &mut dyn FnMut(&mut ChaCha8Rng)| {
        let mut rng = ChaCha8Rng::seed_from_u64(9);
        let mut times: Vec<f64> = (0..ROUNDS)
            .map(|_| {
                let started = Instant::now();
                run(&mut rng);
                started.elapsed().as_secs_f64() * 1e6
            })
            .collect();
        let first = times[0];
        times.sort_by(f64::total_cmp);
        println!(
            "{name:40} {:9.0} {:9.0}, the first {first:.0}",
            times[ROUNDS / 2],
            times[ROUNDS * 99 / 100]
        );
    };
    for (name, make) in FILTERS {
        timed(&format!("count, {name}"), &mut |rng| {
            index.count_where(&make(rng, count)).expect("a count");
        });
    }
    let facets = |name: &str, fields: &[&str], filter: Option<Make>| {
        timed(name, &mut |rng| {
            let filter = filter.map(|make| make(rng, count));
            index.facets(fields.iter().copied(), filter.as_ref(), 10).expect("facets");
        });
    };
    facets("facets, lang and year", &["lang", "year"], None);
    facets("facets, lang and year, price 50%", &["lang", "year"], Some(FILTERS[1].1));
    facets("facets, tags, price 50%", &["tags"], Some(FILTERS[1].1));
    facets("facets, name", &["name"], None);
    facets("facets, name, price 50%", &["name"], Some(FILTERS[1].1));
}
