//! Shared by the tests of files: a folder with them, and the resulting documents.

use std::fs;

use ehi::Document;
use ehi::data::Folder;

/// The documents of a folder with these files.
pub fn documents(files: &[(&str, &str)]) -> Vec<Document> {
    let dir = tempfile::tempdir().unwrap();
    for (name, content) in files {
        let path = dir.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }
    Folder::open(dir.path()).unwrap().documents().map(Result::unwrap).collect()
}

/// The document of one file.
pub fn document(name: &str, content: &str) -> Document {
    documents(&[(name, content)]).pop().unwrap()
}
