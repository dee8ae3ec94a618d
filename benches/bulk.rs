//! Bulk input of vectors: rate, memory, size on disk, and time to open.
//!
//!     cargo bench --bench bulk -- VECTORS DIM INDEX [DOCUMENTS]
//!
//! VECTORS is a file of f32, `[documents, DIM]`; `benches/peers/bulk.py` writes one and compares this program
//! with other engines. INDEX is a directory to be created. The tree has 1,024 leaves; its training does not
//! matter here. Prints one JSON object.
//!
//!     cargo bench --bench bulk -- halve DATASET DIRECTORY
//!
//! stores the documents of a BEIR folder, deletes every second one, compacts, and compares the size with that
//! of an index of only the others. The embeddings are noise: only their size matters.

use std::fs::{self, File};
use std::io::{BufReader, Read};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use ehi::data::Dataset;
use ehi::train::{TrainConfig, Trainer, TrainingSet};
use ehi::{Bundle, Document, Index, Judgment, SearchRequest};

#[path = "../tests/all/support/mod.rs"]
mod support;

const LEAVES: u32 = 1024;
/// Leaves of a search after opening.
const BEAM: usize = 16;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|argument| argument != "--bench").collect();
    if let [halve, dataset, directory] = arguments.as_slice()
        && halve == "halve"
    {
        return halved(Path::new(dataset), Path::new(directory));
    }
    let [vectors, dim, target, documents @ ..] = arguments.as_slice() else {
        println!("not run: needs a file of vectors, see benches/peers/bulk.py");
        return;
    };
    let dim: usize = dim.parse().expect("DIM is a number");
    let file = File::open(vectors).expect("the vectors open");
    let all = file.metadata().expect("the file has a length").len() as usize / (4 * dim);
    let count = documents.first().map_or(all, |n| n.parse().expect("DOCUMENTS is a number"));
    let bundle = bundle(dim);
    let target = Path::new(target);
    let index = Index::create(target, &bundle).expect("the index is made");

    let peak = Peak::watch();
    let before = anonymous_bytes();
    let started = Instant::now();
    let mut input = BufReader::with_capacity(1 << 20, file);
    let mut bytes = vec![0u8; 4 * dim];
    let rows = (0..count).map(|number| {
        input.read_exact(&mut bytes).expect("the file holds as many vectors");
        let vector = bytes.chunks_exact(4).map(|x| f32::from_le_bytes([x[0], x[1], x[2], x[3]])).collect();
        (Document::new(number.to_string(), "", ""), vector)
    });
    let summary = index.insert_vectors(rows).expect("the vectors are stored");
    assert_eq!(summary.inserted, count);
    index.flush().expect("the index is flushed");
    let insert = started.elapsed();
    let started = Instant::now();
    index.compact().expect("the index is compacted");
    let compact = started.elapsed();
    let peak = peak.stop().saturating_sub(before);
    let sizes = index.stats().expect("the index has sizes").bytes;
    drop(index);

    // The model is counted separately: its size does not depend on the number of documents.
    let time = |open: &dyn Fn()| {
        let started = Instant::now();
        open();
        started.elapsed().as_secs_f64() * 1e3
    };
    let open_index = || drop(Index::open(target).expect("the index opens"));
    let open_model = || drop(Bundle::open(target.join("models/1/model")).expect("the model opens"));
    let opened = |cold: bool| {
        let mut times: Vec<f64> = (0..9)
            .map(|_| {
                if cold {
                    drop_caches();
                    // Reads the model back in, so that only the store is cold.
                    open_model();
                }
                time(&open_index) - time(&open_model)
            })
            .collect();
        times.sort_by(f64::total_cmp);
        times[times.len() / 2]
    };
    // A cold search reads from the disk only what it needs; the memory figure is what it leaves behind.
    let query: Vec<f32> = (0..dim).map(|place| ((place * 37 % 101) as f32 - 50.0) / 50.0).collect();
    let search = |index: &Index| {
        drop(
            index.search_with(&query, &SearchRequest::dense().k(10).beam(BEAM)).expect("the search succeeds"),
        )
    };
    let first_query = |cold: bool| {
        let mut taken: Vec<(f64, u64, u64)> = (0..9)
            .map(|_| {
                if cold {
                    drop_caches();
                    open_model();
                }
                let index = Index::open(target).expect("the index opens");
                let before = (resident_bytes("RssAnon:"), resident_bytes("RssFile:"));
                let first = time(&|| search(&index));
                let grown = |name, before: u64| resident_bytes(name).saturating_sub(before);
                (first, grown("RssAnon:", before.0), grown("RssFile:", before.1))
            })
            .collect();
        taken.sort_by(|a, b| a.0.total_cmp(&b.0));
        taken[taken.len() / 2]
    };
    let (cold_query, cold_anonymous, cold_mapped) = first_query(true);
    let (warm_query, ..) = first_query(false);
    println!(
        "{}",
        serde_json::json!({
            "engine": "ehi",
            "documents": count,
            "insert_seconds": insert.as_secs_f64(),
            "vectors_per_second": count as f64 / insert.as_secs_f64(),
            "compact_seconds": compact.as_secs_f64(),
            "vector_bytes": sizes.vectors,
            "document_bytes": sizes.documents,
            "peak_anonymous_bytes": peak,
            "open_warm_ms_without_model": opened(false),
            "open_cold_ms_without_model": opened(true),
            "first_query_cold_ms": cold_query,
            "first_query_warm_ms": warm_query,
            "first_query_anonymous_bytes": cold_anonymous,
            "first_query_mapped_bytes": cold_mapped,
        })
    );
}

fn halved(dataset: &Path, directory: &Path) {
    let bundle = bundle(768);
    let dataset = Dataset::open(dataset).expect("the dataset opens");
    let all: Vec<Document> =
        dataset.corpus().expect("it has a corpus").map(|document| document.expect("a document")).collect();
    let noise = |number: usize| {
        let mut state = number as u64;
        let next = |_| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 40) as f32 / (1 << 24) as f32 - 0.5
        };
        (0..768).map(next).collect::<Vec<f32>>()
    };
    let numbered = || all.iter().cloned().enumerate();
    let sealed = |index: &Index| {
        let bytes = index.stats().expect("the index has sizes").bytes;
        bytes.vectors + bytes.documents + bytes.dead_rows
    };
    let whole = Index::create(directory.join("whole"), &bundle).expect("the index is made");
    whole.insert_vectors(numbered().map(|(n, document)| (document, noise(n)))).expect("they are stored");
    whole.flush().expect("the index is flushed");
    let before = sealed(&whole);
    let gone = numbered().filter(|(n, _)| n % 2 == 0).map(|(_, document)| document.id);
    let deleted = whole.delete_batch(gone).expect("they are deleted");
    whole.compact().expect("the index is compacted");
    let fresh = Index::create(directory.join("fresh"), &bundle).expect("the index is made");
    let kept = numbered().filter(|(n, _)| n % 2 == 1);
    fresh.insert_vectors(kept.map(|(n, document)| (document, noise(n)))).expect("they are stored");
    fresh.flush().expect("the index is flushed");
    let (after, fresh) = (sealed(&whole), sealed(&fresh));
    println!(
        "{}",
        serde_json::json!({
            "documents": all.len(), "deleted": deleted, "bytes_before": before, "bytes_after": after,
            "bytes_of_a_fresh_build": fresh, "ratio": after as f64 / fresh as f64,
        })
    );
}

/// A bundle of this width, created once.
fn bundle(dim: usize) -> Bundle {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("target");
    let path = root.join(format!("bulk-bundle-{dim}"));
    if let Ok(bundle) = Bundle::open(&path) {
        return bundle;
    }
    assert_eq!(dim, 768, "the encoder at hand has 768 dimensions");
    let subject = |n: u32| format!("tree {n} leaf {} search {}", n % 37, n % 101);
    let documents: Vec<Document> =
        (0..LEAVES + 100).map(|n| Document::new(n.to_string(), "", subject(n))).collect();
    let judgments: Vec<Judgment> = (0..200).map(|n| Judgment::new(subject(n), n.to_string(), 1)).collect();
    let mut config = TrainConfig::default();
    config.tree.branching_factor = Some(LEAVES);
    config.schedule.epochs = 1;
    config.encoder.trainable_layers = 0;
    config.schedule.indexer_epochs = 0;
    let set = TrainingSet::from_judgments(documents, &judgments, config.dev_fraction);
    let set = set.expect("the judgments are sound");
    let _ = fs::remove_dir_all(&path);
    Trainer::builder()
        .base(support::full_base_model())
        .output(&path)
        .config(config)
        .fit(&set)
        .expect("it trains")
        .bundle
}

/// The highest anonymous memory seen; the system can reclaim mapped files.
struct Peak {
    thread: std::thread::JoinHandle<()>,
    done: Arc<AtomicBool>,
    most: Arc<AtomicU64>,
}

impl Peak {
    fn watch() -> Self {
        let (done, most) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let (seen, ended) = (Arc::clone(&most), Arc::clone(&done));
        let thread = std::thread::spawn(move || {
            while !ended.load(Ordering::Acquire) {
                seen.fetch_max(anonymous_bytes(), Ordering::Relaxed);
                std::thread::sleep(Duration::from_millis(5));
            }
        });
        Self { thread, done, most }
    }

    fn stop(self) -> u64 {
        self.done.store(true, Ordering::Release);
        self.thread.join().expect("the watcher does not panic");
        self.most.load(Ordering::Relaxed)
    }
}

fn anonymous_bytes() -> u64 {
    resident_bytes("RssAnon:")
}

/// The value of a field of /proc/self/status.
fn resident_bytes(name: &str) -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix(name));
    let kib = line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<u64>().ok());
    kib.unwrap_or(0) * 1024
}

/// Needs root; without it, the times are warm ones.
fn drop_caches() {
    let _ = std::process::Command::new("sync").status();
    let _ = fs::write("/proc/sys/vm/drop_caches", "3");
}
