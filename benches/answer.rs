//! Questions in, hits out, for `benches/peers/answer.py`, which runs this program and its peers in turns.
//!
//!     cargo bench --bench answer -- INDEX QUESTIONS K f32|int8|fast[+words] [BUNDLE EMBEDDED DATA]
//!
//! If INDEX does not exist, it is made of the documents of DATA, a BEIR folder, with their embeddings in
//! EMBEDDED, a folder written by the example `embed`. `QUESTIONS` has one question per line. The first line
//! printed says that the index is open. `fast` reads questions with the query encoder, `+words` also searches
//! by words. Then each line of standard input is a beam, or `auto` for the default reach; every question is
//! searched with it, one after another, and the seconds of each, the hits' ids and the mean times by step are
//! printed as JSON.

use std::path::Path;
use std::time::{Duration, Instant};

use ehi::data::Dataset;
use ehi::model::EncoderPrecision;
use ehi::{Bundle, Fusion, Index, QueryEncoder, RankBy, SearchRequest};
use serde_json::json;

mod embedded;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|argument| argument != "--bench").collect();
    let [index, questions, k, precision, source @ ..] = arguments.as_slice() else {
        println!("not run: see the head of benches/answer.rs");
        return;
    };
    let k: usize = k.parse().expect("K is a number");
    let (encoder, words) = match precision.strip_suffix("+words") {
        Some(encoder) => (encoder, true),
        None => (precision.as_str(), false),
    };
    let (precision, encoder) = match encoder {
        "fast" => (EncoderPrecision::F32, QueryEncoder::Fast),
        _ => (encoder.parse().expect("f32, int8 or fast"), QueryEncoder::Full),
    };
    if let [bundle, folder, data] = source
        && !Path::new(index).exists()
    {
        fill(index, bundle, Path::new(folder), data);
    }
    let started = Instant::now();
    let index = Index::builder().encoder_precision(precision).open_read_only(index).expect("the index opens");
    let questions = std::fs::read_to_string(questions).expect("the questions are readable");
    println!("{}", json!({ "open_seconds": started.elapsed().as_secs_f64() }));
    for line in std::io::stdin().lines() {
        let line = line.expect("a line");
        let beam: Option<usize> = (line.trim() != "auto").then(|| line.trim().parse().expect("a beam"));
        let (mut seconds, mut found) = (Vec::new(), Vec::new());
        let mut stages = [Duration::ZERO; 5];
        for question in questions.lines() {
            let started = Instant::now();
            let mode = if words { RankBy::Hybrid(Fusion::Learned) } else { RankBy::Dense };
            let mut request = SearchRequest::of(mode).k(k).encoder(encoder);
            if let Some(beam) = beam {
                request = request.beam(beam);
            }
            let result = index.search_with(question, &request).expect("the search succeeds");
            seconds.push(started.elapsed().as_secs_f64());
            let took = &result.stats;
            let own = [took.encode, took.beam, took.scan, took.fetch, took.lexical];
            stages.iter_mut().zip(own).for_each(|(sum, own)| *sum += own);
            found.push(result.iter().map(|hit| hit.id.clone()).collect::<Vec<_>>());
        }
        let [encode, route, scan, fetch, words] =
            stages.map(|sum| 1e3 * sum.as_secs_f64() / seconds.len() as f64);
        let stages =
            json!({ "encode": encode, "route": route, "scan": scan, "fetch": fetch, "words": words });
        println!("{}", json!({ "seconds": seconds, "found": found, "stages_ms": stages }));
    }
}

fn fill(index: &str, bundle: &str, folder: &Path, data: &str) {
    let bundle = Bundle::open(bundle).expect("the bundle opens");
    let rows = embedded::rows(&folder.join("documents.f32"), bundle.model().dim());
    let corpus = Dataset::open(data).and_then(|data| data.corpus()).expect("the corpus opens");
    embedded::fill(index, &bundle, corpus.map(|document| document.expect("a document")), rows);
}
