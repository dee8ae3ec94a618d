//! arroy in `benches/peers/search.py`: `search-arroy EMBEDDED DIM K DIRECTORY`, like `benches/vectors.rs`.

use std::io::{BufReader, Read};
use std::num::NonZeroUsize;
use std::path::Path;
use std::time::Instant;

use arroy::distances::Cosine;
use arroy::{Database, Reader, Result, Writer};
use heed::{CommitOrAbort, EnvOpenOptions};
use rand::SeedableRng;
use rand::rngs::StdRng;

/// Numbers of nodes to search: arroy's own parameter.
const STEPS: [usize; 8] = [500, 1_000, 2_000, 4_000, 8_000, 16_000, 32_000, 64_000];

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().collect();
    let (embedded, directory) = (Path::new(&arguments[1]), Path::new(&arguments[4]));
    let (dim, k): (usize, usize) = (arguments[2].parse().unwrap(), arguments[3].parse().unwrap());
    std::fs::create_dir_all(directory).unwrap();
    // SAFETY: no other process uses the directory.
    let env = unsafe { EnvOpenOptions::new().map_size(64 << 30).open(directory) }?;
    let db: Database<Cosine> = env
        .create_databases_and_commit(env.write_txn()?, |dbo, wtxn| -> heed::Result<_> {
            dbo.create_database(wtxn, None).map(CommitOrAbort::<_, ()>::Commit)
        })?
        .unwrap_commit();
    let started = Instant::now();
    let mut wtxn = env.write_txn()?;
    let writer = Writer::<Cosine>::new(db, 0, dim);
    let file = std::fs::File::open(embedded.join("documents.f32")).unwrap();
    let documents = file.metadata().unwrap().len() as usize / (4 * dim);
    let mut input = BufReader::with_capacity(1 << 20, file);
    let mut bytes = vec![0u8; 4 * dim];
    for item in 0..documents {
        input.read_exact(&mut bytes).unwrap();
        writer.add_item(&mut wtxn, item as u32, &row(&bytes))?;
    }
    writer.builder(&mut StdRng::seed_from_u64(42)).build(&mut wtxn)?;
    wtxn.commit()?;
    println!("{}", serde_json::json!({ "build_seconds": started.elapsed().as_secs_f64(), "steps": STEPS }));

    let queries = std::fs::read(embedded.join("queries.f32")).unwrap();
    let queries: Vec<Vec<f32>> = queries.chunks_exact(4 * dim).map(row).collect();
    let rtxn = env.read_txn()?;
    let reader = Reader::<Cosine>::open(&rtxn, 0, db)?;
    for line in std::io::stdin().lines() {
        let nodes: NonZeroUsize = line.unwrap().trim().parse().unwrap();
        let started = Instant::now();
        let mut found = Vec::new();
        for query in &queries {
            let hits = reader.nns(k).search_k(nodes).by_vector(&rtxn, query)?;
            found.push(hits);
        }
        let seconds = started.elapsed().as_secs_f64();
        let found: Vec<Vec<u32>> = found.iter().map(|hits| hits.iter().map(|hit| hit.0).collect()).collect();
        println!("{}", serde_json::json!({ "seconds": seconds, "found": found }));
    }
    Ok(())
}

fn row(bytes: &[u8]) -> Vec<f32> {
    bytes.chunks_exact(4).map(|x| f32::from_le_bytes([x[0], x[1], x[2], x[3]])).collect()
}
