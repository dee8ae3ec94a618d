//! Embeds a dataset's corpus and the judged queries of a split, for experiments outside of ehi.
//!
//! ```text
//! cargo run --release --example embed -- MODEL DATA SPLIT OUT [PRECISION]
//! ```
//!
//! `MODEL` is a bundle or a base model, `DATA` a folder in the BEIR layout, `PRECISION` f32 or int8. `OUT`
//! gets `documents.f32` and `queries.f32` (rows of unit norm, little-endian, without a header) and
//! `dataset.json`: the width, the ids of the queries and their relevant rows.

use std::collections::HashMap;
use std::error::Error;
use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::Path;

use ehi::data::Dataset;
use ehi::model::{Encoder, EncoderPrecision, LoadOptions, Role};

/// Texts encoded at a time, so that a large corpus is not held in memory twice.
const TEXTS_PER_BLOCK: usize = 1024;

fn main() {
    if let Err(error) = run() {
        eprintln!("embed: {error}");
        std::process::exit(1);
    }
}

fn run() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [model, data, split, out, precision @ ..] = arguments.as_slice() else {
        return Err("usage: embed MODEL DATA SPLIT OUT [PRECISION]".into());
    };
    let out = Path::new(out);
    fs::create_dir_all(out)?;
    let precision = precision.first().map_or(Ok(EncoderPrecision::F32), |given| given.parse())?;
    let encoder = LoadOptions::new().encoder_precision(precision).encoder(model)?;
    let dataset = Dataset::open(data)?;

    let mut rows = HashMap::new();
    let mut texts = Vec::new();
    for document in dataset.corpus()? {
        let document = document?;
        rows.insert(document.id.clone(), rows.len());
        texts.push(document.embedding_text().into_owned());
    }
    write_rows(&encoder, &texts, Role::Document, &out.join("documents.f32"))?;

    let qrels = dataset.qrels(split)?;
    let (mut texts, mut queries) = (Vec::new(), Vec::new());
    for query in dataset.queries()? {
        let query = query?;
        if let Some((_, judged)) = qrels.iter().find(|(id, _)| *id == query.id) {
            let relevant: Vec<usize> = judged
                .iter()
                .filter(|(_, grade)| **grade > 0)
                .filter_map(|(id, _)| rows.get(id).copied())
                .collect();
            queries.push(serde_json::json!({ "id": query.id, "relevant": relevant }));
            texts.push(query.text);
        }
    }
    write_rows(&encoder, &texts, Role::Query, &out.join("queries.f32"))?;
    let about = serde_json::json!({ "dim": encoder.dim(), "documents": rows.len(), "queries": queries });
    Ok(fs::write(out.join("dataset.json"), serde_json::to_vec(&about)?)?)
}

/// Writes the rows of the texts.
fn write_rows(encoder: &Encoder, texts: &[String], role: Role, path: &Path) -> Result<(), Box<dyn Error>> {
    let mut file = BufWriter::new(File::create(path)?);
    for block in texts.chunks(TEXTS_PER_BLOCK) {
        let block: Vec<&str> = block.iter().map(String::as_str).collect();
        for row in encoder.embed(&block, role)?.chunks_exact(encoder.dim()) {
            let norm = row.iter().map(|x| x * x).sum::<f32>().sqrt();
            for x in row {
                file.write_all(&(x / norm).to_le_bytes())?;
            }
        }
    }
    Ok(file.flush()?)
}
