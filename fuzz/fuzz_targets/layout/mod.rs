//! A dataset whose files all have the same content.

use std::fs;

use ehi::data::Dataset;

pub fn read(bytes: &[u8], files: &[&str]) {
    let dir = std::env::temp_dir().join(format!("ehi-fuzz-{}", std::process::id()));
    fs::create_dir_all(&dir).expect("a temporary folder can be made");
    for file in files {
        fs::write(dir.join(file), bytes).expect("a temporary file can be written");
    }
    let dataset = Dataset::open(&dir).expect("the folder is there");
    let dir = dir.display().to_string();
    for document in dataset.corpus().expect("the file is there").take(10_000) {
        match document {
            Ok(document) => assert!(!document.id.is_empty()),
            Err(error) => assert!(error.to_string().contains(&dir)),
        }
    }
    for query in dataset.queries().expect("the folder can be listed").take(10_000) {
        match query {
            Ok(query) => assert!(!query.id.is_empty()),
            Err(error) => assert!(error.to_string().contains(&dir)),
        }
    }
    for split in dataset.splits().expect("the folder can be listed") {
        match dataset.qrels(&split) {
            Ok(qrels) => assert!(qrels.iter().all(|(query, judged)| !query.is_empty() && !judged.is_empty())),
            Err(error) => assert!(error.to_string().contains(&dir)),
        }
    }
}
