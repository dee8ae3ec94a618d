//! The API in a few lines: five documents, two questions, one trained model.
//!
//! ```text
//! cargo run --release --example quickstart
//! ```

use std::path::Path;

use ehi::{Bundle, Document, Index};

fn main() {
    if let Err(error) = run() {
        eprintln!("quickstart: {error}");
        std::process::exit(1);
    }
}

fn run() -> Result<(), ehi::Error> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap_or(Path::new("."));
    let directory = root.join("target/quickstart-index");
    if directory.join("CURRENT").exists() {
        // From an earlier run.
        std::fs::remove_dir_all(&directory).expect("target/ is ours to clear");
    }

    let bundle = Bundle::open(root.join("models/scifact-minilm"))?;
    let index = Index::create(&directory, &bundle)?;
    index.insert_batch([
        Document::new(
            "vitamin-d",
            "Vitamin D and bone",
            "Calcium absorption and bone mineral density fall with serum vitamin D.",
        ),
        Document::new(
            "h-pylori",
            "Helicobacter pylori",
            "A bacterium of the stomach that causes most peptic ulcers.",
        ),
        Document::new("statins", "Statins", "Lower LDL cholesterol and with it the risk of a heart attack."),
        Document::new("crispr", "CRISPR-Cas9", "An enzyme that cuts DNA where a guide RNA leads it."),
        Document::new("aspirin", "Aspirin", "Inhibits cyclooxygenase, and so platelets and fever.")
            .with_metadata(serde_json::json!({ "class": "NSAID", "year": 1899 })),
    ])?;

    for question in ["What leads to stomach ulcers?", "a drug against blood clots"] {
        println!("{question}");
        let result = index.search(question, 2, 40)?; // hits, leaves to visit
        for hit in &result {
            println!("  {:.3}  {}: {}", hit.score, hit.document.title, hit.document.text);
            if let Some(metadata) = &hit.document.metadata {
                println!("         {metadata}");
            }
        }
        println!("  {} of {} documents scored", result.stats.documents_visited, index.len());
    }

    index.delete("statins")?;
    index.flush()?;
    for id in ["statins", "crispr"] {
        match index.get(id)? {
            Some(document) => println!("{id} is there: {}", document.title),
            None => println!("{id} is gone"),
        }
    }
    Ok(())
}
