//! tantivy in `benches/peers/words.py`: `words-tantivy DOCUMENTS QUERIES DIRECTORY`.
//!
//! Both files have a line of token ids for each text. Prints the build time and the bytes on disk, and then,
//! for each number of hits read from standard input, the microseconds of each query: scores and addresses of
//! the best, without stored fields.

use std::fs;
use std::io::{BufRead, BufReader};
use std::time::Instant;

use tantivy::collector::TopDocs;
use tantivy::query::{BooleanQuery, Occur, Query, TermQuery};
use tantivy::schema::{IndexRecordOption, Schema, TextFieldIndexing, TextOptions};
use tantivy::tokenizer::{TextAnalyzer, WhitespaceTokenizer};
use tantivy::{Index, ReloadPolicy, TantivyDocument, Term};

fn main() -> tantivy::Result<()> {
    let arguments: Vec<String> = std::env::args().collect();
    let mut schema = Schema::builder();
    let indexing = TextFieldIndexing::default()
        .set_tokenizer("ids")
        .set_index_option(IndexRecordOption::WithFreqs);
    let text = schema.add_text_field("text", TextOptions::default().set_indexing_options(indexing));
    let _ = fs::remove_dir_all(&arguments[3]);
    fs::create_dir_all(&arguments[3])?;
    let index = Index::create_in_dir(&arguments[3], schema.build())?;
    index.tokenizers().register("ids", TextAnalyzer::from(WhitespaceTokenizer::default()));
    let started = Instant::now();
    let mut writer = index.writer_with_num_threads(1, 1 << 30)?;
    for line in BufReader::new(fs::File::open(&arguments[1])?).lines() {
        let mut document = TantivyDocument::default();
        document.add_text(text, line?);
        writer.add_document(document)?;
    }
    writer.commit()?;
    let segments = index.searchable_segment_ids()?;
    if segments.len() > 1 {
        writer.merge(&segments).wait()?;
    }
    writer.wait_merging_threads()?;
    let seconds = started.elapsed().as_secs_f64();
    let bytes: u64 = fs::read_dir(&arguments[3])?.flatten().filter_map(|e| e.metadata().ok()).map(|m| m.len()).sum();
    println!("{}", serde_json::json!({ "build_seconds": seconds, "bytes": bytes }));

    let reader = index.reader_builder().reload_policy(ReloadPolicy::Manual).try_into()?;
    let searcher = reader.searcher();
    let queries: Vec<Vec<String>> = fs::read_to_string(&arguments[2])?
        .lines()
        .map(|line| line.split_whitespace().map(str::to_owned).collect())
        .collect();
    for line in std::io::stdin().lines() {
        let k: usize = line?.trim().parse().expect("a number of hits");
        let mut micros = Vec::new();
        for query in &queries {
            let started = Instant::now();
            let terms = query.iter().map(|id| {
                let term = Term::from_field_text(text, id);
                let query = TermQuery::new(term, IndexRecordOption::WithFreqs);
                (Occur::Should, Box::new(query) as Box<dyn Query>)
            });
            let found = searcher.search(&BooleanQuery::new(terms.collect()), &TopDocs::with_limit(k).order_by_score())?;
            micros.push(started.elapsed().as_secs_f64() * 1e6);
            assert!(found.len() <= k);
        }
        println!("{}", serde_json::json!(micros));
    }
    Ok(())
}
