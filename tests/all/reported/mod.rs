//! Tests after public bug reports, of other tools too: one file a kind, and each test names its thread.

#[cfg(feature = "mcp")]
mod agents;
#[cfg(feature = "parquet")]
mod columns;
mod evaluation;
mod files;
mod filters;
mod folders;
mod html;
mod markdown;
mod nulls;
mod tables;
mod upkeep;
mod words;

use std::fs;

use ehi::Document;
use ehi::data::Folder;

/// The documents of a folder with these files.
fn documents(files: &[(&str, &str)]) -> Vec<Document> {
    let dir = tempfile::tempdir().unwrap();
    for (name, content) in files {
        let path = dir.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }
    Folder::open(dir.path()).unwrap().documents().map(Result::unwrap).collect()
}

/// The document of one file.
fn document(name: &str, content: &str) -> Document {
    documents(&[(name, content)]).pop().unwrap()
}
