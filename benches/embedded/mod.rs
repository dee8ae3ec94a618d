//! Vectors in a folder written by the example `embed`, and indexes of them, shared by the benches.

use std::fs::File;
use std::io::{BufReader, Read};
use std::path::Path;

use ehi::{Bundle, Document, Index};

/// The rows of a file, `[n, dim]` f32, one after another.
pub fn rows(path: &Path, dim: usize) -> impl Iterator<Item = Vec<f32>> + use<> {
    let mut bytes = vec![0; 4 * dim];
    let file = File::open(path).expect("the embeddings open");
    let count = file.metadata().expect("the file has a length").len() as usize / bytes.len();
    let mut input = BufReader::with_capacity(1 << 20, file);
    (0..count).map(move |_| {
        input.read_exact(&mut bytes).expect("the file holds whole rows");
        let (values, _) = bytes.as_chunks::<4>();
        values.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect()
    })
}

/// Documents without text, numbered from 0.
#[allow(dead_code, reason = "each bench compiles this module and uses a part of it")]
pub fn numbered() -> impl Iterator<Item = Document> {
    (0usize..).map(|number| Document::new(number.to_string(), "", ""))
}

/// A compacted index of documents with these embeddings.
pub fn fill(
    path: impl AsRef<Path>,
    bundle: &Bundle,
    documents: impl Iterator<Item = Document>,
    rows: impl Iterator<Item = Vec<f32>>,
) -> Index {
    let index = Index::create(path, bundle).expect("the index is made");
    // The rows end; the numbers need not.
    let given = rows.zip(documents).map(|(row, document)| (document, row));
    index.insert_vectors(given).expect("the vectors are stored");
    index.compact().expect("the index is compacted");
    index
}
