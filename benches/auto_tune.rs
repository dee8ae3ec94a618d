//! The time of one insert while an index tunes itself concurrently, and the bytes written per byte inserted.
//!
//!     cargo bench --bench auto_tune -- INDEX DOCUMENTS
//!
//! INDEX supplies the model and the texts. Documents are inserted one by one, with embeddings near one of
//! 1,000 random centres, twice: into an index that tunes itself (`Index::auto_tune`, which checks every
//! second here), and into one that does not. Prints median, 99th percentile and maximum of an insert in
//! milliseconds, the bytes that the process wrote (`/proc/self/io`) over the bytes of embeddings and texts,
//! and the final number of leaves.

use std::fs;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ehi::learn::AutoTuneOptions;
use ehi::{Document, Index};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

const CENTRES: usize = 1_000;
/// Between two inserts: a stream, not a bulk load.
const PAUSE: Duration = Duration::from_millis(2);

fn main() -> Result<(), Box<dyn std::error::Error>> {
    // cargo adds `--bench`.
    let arguments: Vec<String> = std::env::args().skip(1).filter(|argument| argument != "--bench").collect();
    let [path, count] = &arguments[..] else {
        println!("give an index and a number of documents: cargo bench --bench auto_tune -- INDEX DOCUMENTS");
        return Ok(());
    };
    let source = Index::open_read_only(path)?;
    let texts = source.iter().map(|document| Ok(document?.text)).collect::<ehi::Result<Vec<_>>>()?;
    for tunes in [true, false] {
        run(&source, &texts, count.parse()?, tunes)?;
    }
    Ok(())
}

fn run(
    source: &Index,
    texts: &[String],
    count: usize,
    tunes: bool,
) -> Result<(), Box<dyn std::error::Error>> {
    let dir = tempfile::tempdir()?;
    let index = Arc::new(Index::create(dir.path().join("index"), &source.bundle())?);
    let interval = Duration::from_secs(1);
    let tuning = match tunes {
        true => Some(index.auto_tune(AutoTuneOptions { interval, ..AutoTuneOptions::default() })?),
        false => None,
    };
    let dim = source.bundle().model().dim();
    let mut rng = ChaCha8Rng::seed_from_u64(0);
    let centres: Vec<f32> = (0..CENTRES * dim).map(|_| rng.random_range(-1.0..1.0)).collect();
    let (mut millis, mut inserted, before) = (Vec::with_capacity(count), 0, written()?);
    for number in 0..count {
        let text = &texts[number % texts.len()];
        let centre = &centres[rng.random_range(0..CENTRES) * dim..][..dim];
        let row: Vec<f32> = centre.iter().map(|x| x + rng.random_range(-0.5..0.5)).collect();
        inserted += (text.len() + 2 * dim) as u64;
        let document = Document::new(number.to_string(), "", text.as_str());
        let started = Instant::now();
        index.insert_vectors([(document, row)])?;
        millis.push(started.elapsed().as_secs_f64() * 1e3);
        std::thread::sleep(PAUSE);
    }
    index.flush()?;
    drop(tuning);
    let leaves = index.bundle().model().indexer().shape().leaves();
    millis.sort_by(f64::total_cmp);
    println!(
        "{count} documents, tunes itself: {tunes}; insert {:.2} ms median, {:.2} p99, {:.0} at most; {:.1} bytes \
         written for each; {leaves} leaves",
        millis[count / 2],
        millis[count * 99 / 100],
        millis[count - 1],
        (written()? - before) as f64 / inserted as f64,
    );
    Ok(())
}

/// Bytes written by this process, from `/proc`.
fn written() -> Result<u64, Box<dyn std::error::Error>> {
    let io = fs::read_to_string("/proc/self/io")?;
    let line = io.lines().find_map(|line| line.strip_prefix("wchar: ")).ok_or("no wchar in /proc/self/io")?;
    Ok(line.trim().parse()?)
}
