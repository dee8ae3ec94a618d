//! The side in Rust of `benches/rates.py`, which starts it and compares: for each line of its input, what the
//! line asks for is done and timed.
//!
//! `vectors N` and `texts N` search N times and answer with the median in nanoseconds; `add N` stores N
//! documents in a new index and answers with seconds of the clock and of the processors; `rate N` searches
//! with N threads for half a second and answers with searches a second.

use std::error::Error;
use std::io::BufRead;
use std::panic::resume_unwind;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use ehi::{Bundle, Document, Index, SearchRequest};

fn main() -> Result<(), Box<dyn Error>> {
    let mut given = std::env::args().skip(1).map(PathBuf::from);
    let mut next = || given.next().ok_or("usage: rates INDEX MODEL FOLDER");
    let (index, model, folder) = (next()?, next()?, next()?);
    let index = Index::open_read_only(index)?;
    let bundle = Bundle::open(model)?;
    let rows = rows(&folder.join("queries.f32"), bundle.model().encoder().dim())?;
    let texts = lines(&folder.join("queries.txt"))?;
    let documents = lines(&folder.join("documents.txt"))?;
    for (turn, line) in std::io::stdin().lock().lines().enumerate() {
        let line = line?;
        let (what, count) = line.split_once(' ').ok_or("a word and a number")?;
        let count: usize = count.parse()?;
        match what {
            "vectors" => println!("{}", median(count, |at| vectors(&index, &rows[at % rows.len()]))?),
            "texts" => println!("{}", median(count, |at| asked(&index, &texts[at % texts.len()]))?),
            "rate" => println!("{}", rate(&index, &rows, count)?),
            "add" => {
                let own = Index::create(folder.join(format!("rust-{turn}")), &bundle)?;
                let documents: Vec<_> = documents.iter().take(count).enumerate().collect();
                let documents =
                    documents.into_iter().map(|(at, text)| Document::new(at.to_string(), "", text));
                let (clock, processors) = (Instant::now(), processor_seconds()?);
                own.insert_batch(documents.collect::<Vec<_>>())?;
                println!("{} {}", clock.elapsed().as_secs_f64(), processor_seconds()? - processors);
            }
            _ => return Err(format!("`{what}` is not known").into()),
        }
    }
    Ok(())
}

fn vectors(index: &Index, row: &[f32]) -> ehi::Result<usize> {
    Ok(index.search_with(row, &SearchRequest::dense().k(10).beam(8))?.len())
}

fn rate(index: &Index, rows: &[Vec<f32>], threads: usize) -> ehi::Result<f64> {
    let begun = Instant::now();
    let work = || -> ehi::Result<usize> {
        let mut count = 0;
        while begun.elapsed() < Duration::from_millis(500) {
            vectors(index, &rows[count % rows.len()])?;
            count += 1;
        }
        Ok(count)
    };
    let counts: ehi::Result<Vec<usize>> = std::thread::scope(|scope| {
        let running: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        running.into_iter().map(|thread| thread.join().unwrap_or_else(|panic| resume_unwind(panic))).collect()
    });
    Ok(counts?.iter().sum::<usize>() as f64 / begun.elapsed().as_secs_f64())
}

fn asked(index: &Index, text: &str) -> ehi::Result<usize> {
    Ok(index.search_with(text, &SearchRequest::default().k(10).beam(8))?.len())
}

fn median(count: usize, mut search: impl FnMut(usize) -> ehi::Result<usize>) -> Result<u128, Box<dyn Error>> {
    let mut times = Vec::with_capacity(count);
    for at in 0..count {
        let begun = Instant::now();
        let found = search(at)?;
        times.push(begun.elapsed().as_nanos());
        if found == 0 {
            return Err("a search found nothing".into());
        }
    }
    times.sort_unstable();
    Ok(times[count / 2])
}

/// Of all threads, in user and system mode.
fn processor_seconds() -> Result<f64, Box<dyn Error>> {
    let stat = std::fs::read_to_string("/proc/self/stat")?;
    let (_, fields) = stat.rsplit_once(") ").ok_or("no fields")?;
    let fields: Vec<&str> = fields.split(' ').collect();
    // Hundredths of a second on Linux.
    Ok((fields[11].parse::<f64>()? + fields[12].parse::<f64>()?) / 100.0)
}

fn rows(path: &Path, dim: usize) -> Result<Vec<Vec<f32>>, Box<dyn Error>> {
    let bytes = std::fs::read(path)?;
    let values: Vec<f32> =
        bytes.chunks_exact(4).map(|four| f32::from_le_bytes([four[0], four[1], four[2], four[3]])).collect();
    Ok(values.chunks_exact(dim).map(<[f32]>::to_vec).collect())
}

fn lines(path: &Path) -> Result<Vec<String>, Box<dyn Error>> {
    Ok(std::fs::read_to_string(path)?.lines().map(str::to_owned).collect())
}
