//! The cost of a search by words, and of a hybrid one, compared with one by embeddings: medians and 99th
//! percentiles over real questions, on one thread, without encoding.
//!
//!     cargo bench --bench words -- INDEX QUERIES
//!
//! INDEX is the directory of an index with words, QUERIES a file of BEIR query lines. The modes alternate, so
//! that noise of the machine affects each alike. With `--lexical`, for `benches/peers/words.py`: prints as
//! JSON the times of searches by words alone, for 10 and for 100 hits.
//!
//!     cargo bench --bench words -- make INDEX OUT COUNT
//!
//! makes an index of many documents for the first command: each is three sentences of different documents of
//! INDEX, with an embedding near one of 10,000 random centres.

use std::time::{Duration, Instant};

use ehi::{Document, Fusion, Index, SearchRequest, SearchStats};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// Maximum number of questions.
const QUESTIONS: usize = 500;
const ROUNDS: usize = 3;
/// For an index made here: centres of embeddings, and documents inserted together.
const CENTRES: usize = 10_000;
const GROUP: usize = 10_000;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    // cargo adds `--bench`.
    let arguments: Vec<String> = std::env::args().skip(1).filter(|argument| argument != "--bench").collect();
    let (path, queries, alone) = match &arguments[..] {
        [path, queries] => (path, queries, false),
        [path, queries, option] if option == "--lexical" => (path, queries, true),
        [make, path, out, count] if make == "make" => return make_index(path, out, count.parse()?),
        _ => {
            println!("give an index and a file of queries: cargo bench --bench words -- INDEX QUERIES");
            return Ok(());
        }
    };
    let index = Index::open_read_only(path)?;
    let mut questions = Vec::new();
    for line in std::fs::read_to_string(queries)?.lines().take(QUESTIONS) {
        let line: serde_json::Value = serde_json::from_str(line)?;
        questions.push(line["text"].as_str().unwrap_or_default().to_owned());
    }
    if alone {
        for k in [10, 100] {
            let mut micros = Vec::new();
            for question in &questions {
                let stats = index.search_with(question, &SearchRequest::lexical().k(k))?.stats;
                micros.push(stats.lexical.as_secs_f64() * 1e6);
            }
            println!("{}", serde_json::json!({ "k": k, "micros": micros }));
        }
        return Ok(());
    }
    println!("{} documents, {} questions, {ROUNDS} rounds; microseconds", index.len(), questions.len());
    println!("{:<16} {:>8} {:>8} {:>8}  postings", "", "median", "p99", "encode");
    let modes = [
        ("dense, 10", SearchRequest::dense()),
        ("dense, 100", SearchRequest::dense().k(100)),
        ("lexical, 10", SearchRequest::lexical()),
        ("lexical, 100", SearchRequest::lexical().k(100)),
        ("hybrid, 10", SearchRequest::hybrid(Fusion::Learned)),
    ];
    let mut times: Vec<Vec<Sample>> = vec![Vec::new(); modes.len()];
    for _ in 0..ROUNDS {
        for question in &questions {
            for (own, (_, request)) in times.iter_mut().zip(&modes) {
                let started = Instant::now();
                let result = index.search_with(question, request)?;
                own.push(Sample { all: started.elapsed(), stats: result.stats });
            }
        }
    }
    for (own, (name, _)) in times.iter().zip(&modes) {
        let figures = |of: fn(&Sample) -> Duration| {
            let mut all: Vec<f64> = own.iter().map(|sample| of(sample).as_secs_f64() * 1e6).collect();
            all.sort_by(f64::total_cmp);
            (all[all.len() / 2], all[all.len() * 99 / 100])
        };
        let (median, p99) = figures(|sample| sample.all.saturating_sub(sample.stats.encode));
        let (encode, _) = figures(|sample| sample.stats.encode);
        let postings: usize = own.iter().map(|sample| sample.stats.postings_scored).sum();
        println!("{name:<16} {median:>8.0} {p99:>8.0} {encode:>8.0}  {}", postings / own.len().max(1));
    }
    Ok(())
}

fn make_index(path: &str, out: &str, count: usize) -> Result<(), Box<dyn std::error::Error>> {
    let source = Index::open_read_only(path)?;
    let (bundle, mut sentences) = (source.bundle(), Vec::new());
    for document in source.iter() {
        sentences.extend(document?.text.split_inclusive(". ").map(str::to_owned));
    }
    let dim = bundle.model().dim();
    let mut rng = ChaCha8Rng::seed_from_u64(0);
    let centres: Vec<f32> = (0..CENTRES * dim).map(|_| rng.random_range(-1.0..1.0)).collect();
    let index = Index::create(out, &bundle)?;
    for start in (0..count).step_by(GROUP) {
        let mut group = Vec::with_capacity(GROUP);
        for number in start..(start + GROUP).min(count) {
            let text: String =
                (0..3).map(|_| sentences[rng.random_range(0..sentences.len())].as_str()).collect();
            let centre = &centres[rng.random_range(0..CENTRES) * dim..][..dim];
            let row = centre.iter().map(|x| x + rng.random_range(-0.5..0.5)).collect::<Vec<f32>>();
            group.push((Document::new(number.to_string(), "", text), row));
        }
        index.insert_vectors(group)?;
    }
    index.compact()?;
    let bytes = index.stats()?.bytes;
    println!("{count} documents, {} bytes of words for each", bytes.terms / count.max(1) as u64);
    Ok(())
}

#[derive(Clone)]
struct Sample {
    all: Duration,
    stats: SearchStats,
}
