//! The shipped bundle and corpus, shared by the benches.

use std::path::{Path, PathBuf};

use ehi::data::Dataset;
use ehi::{Bundle, Document, Index};

/// A path inside the repository.
pub fn in_repository(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

/// The bundle that ships in `models/`.
pub fn bundle() -> Bundle {
    Bundle::open(in_repository("models/scifact-minilm")).expect("the shipped bundle opens")
}

/// The SciFact dataset that ships in `examples/data`.
pub fn dataset() -> Dataset {
    Dataset::open(in_repository("examples/data/scifact")).expect("the shipped dataset is there")
}

/// The first documents of the corpus.
pub fn documents(count: usize) -> Vec<Document> {
    let corpus = dataset().corpus().expect("the corpus opens");
    corpus.take(count).collect::<Result<_, _>>().expect("the corpus reads")
}

/// Texts of the first queries.
#[allow(dead_code, reason = "each bench compiles this module and uses a part of it")]
pub fn queries(count: usize) -> Vec<String> {
    let queries = dataset().queries().expect("the queries open");
    queries.take(count).map(|query| query.expect("the queries read").text).collect()
}

/// An index of the whole corpus; encoded once per bundle and kept in the target directory.
#[allow(dead_code, reason = "each bench compiles this module and uses a part of it")]
pub fn index() -> Index {
    let bundle = bundle();
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("bench-{}", bundle.hash()));
    if let Ok(index) = Index::open(&path)
        && index.len() == documents(usize::MAX).len()
    {
        return index;
    }
    if path.exists() {
        std::fs::remove_dir_all(&path).expect("an index left half filled is removed");
    }
    eprintln!("encoding the corpus into {} (once)", path.display());
    let index = Index::create(&path, &bundle).expect("an index can be made");
    index.insert_batch(documents(usize::MAX)).expect("the corpus is stored");
    index.flush().expect("the index is flushed");
    index
}
