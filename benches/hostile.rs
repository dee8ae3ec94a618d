//! The kernel's count of peak memory when inserting corpora that are large in an unfortunate way.
//!
//!     cargo bench --bench hostile -- KIND
//!
//! Kinds: `none` (only the model), `chinese` and `hyphens` (one document of 20 MiB without white space),
//! `many` (1,000 documents of 200 KB in one call), `gzip` (a small file of 1,000 documents of 1.5 MB, read
//! and inserted in parts of 32 MiB). The model is the bundle in `models/scifact-minilm`.
//! `scripts/hostile-memory` runs all of them, each in a separate process. Prints one JSON object: `peak_mib`
//! is memory of the process itself, sampled every few milliseconds; `with_files_mib` also counts pages of
//! mapped files, which the kernel reclaims when needed.

use std::fs::{self, File};
use std::io::{BufReader, Write};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use ehi::data::read_documents;
use ehi::{Document, Index};
use flate2::{Compression, write::GzEncoder};
use serde_json::json;

mod scifact;

/// The most memory found so far.
static PEAK_KIB: AtomicU64 = AtomicU64::new(0);
/// Bytes of text that a careful caller inserts at once.
const PART: usize = 32 << 20;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|argument| argument != "--bench").collect();
    let [kind] = arguments.as_slice() else {
        println!("not run: see the head of benches/hostile.rs");
        return;
    };
    thread::spawn(watch_peak);
    let directory = tempfile::tempdir().expect("a directory is made");
    let packed = directory.path().join("corpus.jsonl.gz");
    if kind == "gzip" {
        write_packed(&packed);
    }
    let bundle = scifact::bundle();
    let index = Index::create(directory.path().join("index"), &bundle).expect("the index is made");
    let started = Instant::now();
    let one = |unit: &str| [Document::new("giant", "a title", unit.repeat((20 << 20) / unit.len()))];
    match kind.as_str() {
        "none" => {}
        "chinese" => insert(&index, one("\u{597d}")),
        "hyphens" => insert(&index, one("-")),
        "many" => insert(&index, (0..1000).map(|n| Document::new(n.to_string(), "", words(n, 200_000)))),
        "gzip" => {
            let file = File::open(&packed).expect("the file opens");
            let (mut part, mut bytes) = (Vec::new(), 0);
            for document in read_documents(BufReader::new(file), "corpus.jsonl.gz") {
                let document = document.expect("the file reads");
                bytes += document.text.len();
                part.push(document);
                if bytes >= PART {
                    insert(&index, part.split_off(0));
                    bytes = 0;
                }
            }
            insert(&index, part);
        }
        other => panic!("no kind `{other}`"),
    }
    index.flush().expect("it is on disk");
    let seconds = started.elapsed().as_secs_f64();
    println!(
        "{}",
        json!({
            "kind": kind, "documents": index.len(), "seconds": seconds,
            "peak_mib": PEAK_KIB.load(Ordering::Relaxed) / 1024, "with_files_mib": kib("VmHWM") / 1024,
        })
    );
}

fn insert(index: &Index, documents: impl IntoIterator<Item = Document>) {
    index.insert_batch(documents).expect("the documents are stored");
}

fn words(number: usize, bytes: usize) -> String {
    format!("document {number} has some words and more of them ").repeat(bytes / 40)[..bytes].to_owned()
}

fn write_packed(path: &Path) {
    let mut file = GzEncoder::new(File::create(path).expect("a file is made"), Compression::default());
    for number in 0..1000 {
        let line = json!({ "_id": number.to_string(), "text": words(number, 1_500_000) });
        writeln!(file, "{line}").expect("it is written");
    }
    file.finish().expect("it is written");
}

/// A field of the process's memory counts, in KiB; 0 if the kernel does not report it.
fn kib(field: &str) -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
    line.and_then(|line| line.trim().trim_end_matches("kB").trim().parse().ok()).unwrap_or(0)
}

/// Runs until the process ends.
fn watch_peak() {
    loop {
        PEAK_KIB.fetch_max(kib("RssAnon"), Ordering::Relaxed);
        thread::sleep(Duration::from_millis(3));
    }
}
