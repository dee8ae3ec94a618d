//! Bulk input of vectors into hannoy: `bulk-hannoy VECTORS DIM DIRECTORY DOCUMENTS`. Prints one JSON object.

use std::io::{BufReader, Read};
use std::time::Instant;

use hannoy::{Database, Result, Writer, distances::Cosine};
use heed::{CommitOrAbort, EnvOpenOptions};
use rand::SeedableRng;
use rand::rngs::StdRng;

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().collect();
    let (dim, count): (usize, u32) = (arguments[2].parse().unwrap(), arguments[4].parse().unwrap());
    std::fs::create_dir_all(&arguments[3]).unwrap();
    // SAFETY: no other process uses the directory.
    let env = unsafe { EnvOpenOptions::new().map_size(64 << 30).open(&arguments[3]) }?;
    let db: Database<Cosine> = env
        .create_databases_and_commit(env.write_txn()?, |dbo, wtxn| -> heed::Result<_> {
            dbo.create_database(wtxn, None).map(CommitOrAbort::<_, ()>::Commit)
        })?
        .unwrap_commit();
    let started = Instant::now();
    let mut wtxn = env.write_txn()?;
    let writer = Writer::<Cosine>::new(db, 0, dim);
    let mut input = BufReader::with_capacity(1 << 20, std::fs::File::open(&arguments[1]).unwrap());
    let mut bytes = vec![0u8; 4 * dim];
    for item in 0..count {
        input.read_exact(&mut bytes).unwrap();
        let vector: Vec<f32> = bytes.chunks_exact(4).map(|x| f32::from_le_bytes([x[0], x[1], x[2], x[3]])).collect();
        writer.add_item(&mut wtxn, item, &vector)?;
    }
    let stored = started.elapsed().as_secs_f64();
    writer.builder(&mut StdRng::seed_from_u64(42)).ef_construction(100).build::<16, 32>(&mut wtxn)?;
    wtxn.commit()?;
    let all = started.elapsed().as_secs_f64();
    println!(
        "{}",
        serde_json::json!({
            "engine": "hannoy", "documents": count, "store_seconds": stored, "insert_seconds": all,
            "vectors_per_second": f64::from(count) / all,
        })
    );
    Ok(())
}
