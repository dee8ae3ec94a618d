//! The commands of README and of the pages, as written there, with a small model and dataset in place of
//! those that they name.

use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

use ehi::Index;
use flate2::Compression;
use flate2::write::GzEncoder;
use tempfile::TempDir;

use crate::program::SHAPE;
use crate::support::{DOCUMENTS, Shape, base_model, bundle, dataset, documents};

/// Other commands on the pages: builds, and what `.ci/run` or `scripts/` run.
const RUN_ELSEWHERE: [&str; 9] = [
    // It runs until it is ended: `explore.rs`.
    "ehi explore ",
    "cargo run --release -p ehi-examples --example scifact",
    "cargo run --release --bin ehi -- ",
    "cargo install --path cli",
    "cargo install ehi-cli",
    "cargo doc --open",
    "scripts/test",
    "scripts/fetch-base-model",
    "target/peers/bin/",
];

/// Of the model in the hub's cache.
const COMMIT: &str = "0123456789abcdef0123456789abcdef01234567";

/// The commands in a page's shell blocks.
fn commands(page: &str) -> Vec<String> {
    let text = fs::read_to_string(crate::support::root().join(page)).unwrap();
    let (mut found, mut is_shell) = (Vec::new(), false);
    for line in text.lines() {
        match line {
            "```sh" => is_shell = true,
            "```" => is_shell = false,
            command if is_shell && !command.is_empty() => found.push(command.to_owned()),
            _ => {}
        }
    }
    found
}

/// A folder with small versions of the files that the pages name.
fn folder() -> TempDir {
    let dir = TempDir::new().unwrap();
    let make = |name: &str| fs::create_dir_all(dir.path().join(name)).unwrap();
    ["models", "target", "examples/data/scifact"].into_iter().for_each(make);
    symlink(bundle(SHAPE).path(), dir.path().join("models/scifact-minilm")).unwrap();
    // Another model, for a change to it.
    symlink(bundle(Shape::of_height(1)).path(), dir.path().join("my-bundle")).unwrap();
    symlink(base_model(), dir.path().join("target/base-model")).unwrap();
    symlink(dataset(), dir.path().join("my-data")).unwrap();
    // As a download leaves it.
    let cached = "hub/models--sentence-transformers--all-MiniLM-L6-v2";
    ["snapshots", "refs"].iter().for_each(|name| make(&format!("{cached}/{name}")));
    fs::write(dir.path().join(cached).join("refs/main"), COMMIT).unwrap();
    symlink(base_model(), dir.path().join(cached).join("snapshots").join(COMMIT)).unwrap();
    let data = dir.path().join("examples/data/scifact");
    for name in ["queries.jsonl", "qrels"] {
        symlink(dataset().join(name), data.join(name)).unwrap();
    }
    let corpus = File::create(data.join("corpus.jsonl.gz")).unwrap();
    let mut corpus = GzEncoder::new(corpus, Compression::fast());
    corpus.write_all(&fs::read(dataset().join("corpus.jsonl")).unwrap()).unwrap();
    corpus.finish().unwrap();
    symlink(dataset().join("corpus.jsonl"), dir.path().join("corpus.jsonl")).unwrap();
    products(dir.path());
    dir
}

/// A table, pairs over it, and a folder of notes.
fn products(dir: &Path) {
    let (mut table, mut pairs) =
        ("sku,name,summary,details,price\n".to_owned(), "question,id,grade\n".to_owned());
    for document in documents(DOCUMENTS) {
        let (id, text) = (&document.id, &document.text);
        table += &format!("{id},\"{}\",{text},\"more, of it\",7\n", document.title);
        pairs += &format!("{},{id},1\n", text.split(' ').take(4).collect::<Vec<_>>().join(" "));
    }
    fs::write(dir.join("products.csv"), table).unwrap();
    fs::write(dir.join("pairs.csv"), pairs).unwrap();
    fs::create_dir(dir.join("my-notes")).unwrap();
    fs::write(dir.join("my-notes/tea.md"), "# Tea\n\nSteep it.\n").unwrap();
}

/// Runs the commands of a page in order; returns how many there were.
#[track_caller]
fn run(dir: &Path, page: &str) -> usize {
    let program = Path::new(env!("CARGO_BIN_EXE_ehi")).parent().unwrap();
    let path = format!("{}:{}", program.display(), std::env::var("PATH").unwrap());
    let mut count = 0;
    for command in commands(page) {
        if RUN_ELSEWHERE.iter().any(|known| command.starts_with(known)) {
            continue;
        }
        let mut shell = Command::new("bash");
        shell.args(["-euo", "pipefail", "-c", &command]).current_dir(dir);
        shell.env("PATH", &path).env_remove("RUST_LOG").env_remove("EHI_INDEX");
        shell.env("HF_HUB_CACHE", dir.join("hub")).env("HF_HUB_OFFLINE", "1");
        let output = shell.output().unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        assert!(output.status.success(), "{page}: {command}\n{}", text(&output.stderr));
        assert!(!output.stdout.is_empty() || !output.stderr.is_empty(), "{page}: {command} prints nothing");
        count += 1;
    }
    count
}

#[test]
fn commands_of_readme_run() {
    assert!(run(folder().path(), "README.md") >= 4);
}

/// With the pages themselves as the folder of notes.
#[test]
fn the_tutorial_does_what_it_says() {
    let dir = folder();
    symlink(crate::support::root().join("docs"), dir.path().join("docs")).unwrap();
    assert_eq!(run(dir.path(), "docs/tutorial.md"), 10);
    let index = Index::open_read_only(dir.path().join("notes-index")).unwrap();
    let result = index.search("can two programs write to an index", 3, 1).unwrap();
    assert_eq!(result.hits[0].id, "operate.md");
    assert!(result.hits[0].judged.is_some());
}

#[test]
fn commands_about_search_and_operation_run() {
    let dir = folder();
    assert!(run(dir.path(), "docs/search.md") >= 10);
    assert!(run(dir.path(), "docs/operate.md") >= 6);
}

#[test]
fn commands_about_tuning_run() {
    assert!(run(folder().path(), "docs/tuning.md") >= 6);
}

#[test]
fn commands_about_learning_run() {
    assert!(run(folder().path(), "docs/learning.md") >= 10);
}

#[test]
fn commands_about_inputs_run() {
    assert!(run(folder().path(), "docs/inputs.md") >= 6);
}

#[test]
fn commands_about_training_run() {
    let dir = folder();
    fs::remove_file(dir.path().join("my-bundle")).unwrap();
    assert!(run(dir.path(), "docs/training.md") >= 1);
}
