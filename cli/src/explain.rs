//! `ehi explain`

use std::io::{self, Write};
use std::path::PathBuf;
use std::time::Duration;

use ehi::explain::{ExactHit, ExplainedHit, Explanation};
use ehi::{Index, RankedBy};

use crate::beginning::line_of;
use crate::escape::escaped;
use crate::failure::Failure;
use crate::hits::{say_notes, unit, write_signs};
use crate::printing;
use crate::query::QueryArgs;

#[derive(clap::Args)]
pub struct Args {
    /// Directory of the index
    #[arg(long, env = "EHI_INDEX", value_name = "DIR")]
    index: PathBuf,
    #[command(flatten)]
    options: QueryArgs,
    /// Compare with exact search, which scores every document
    #[arg(long)]
    exact: bool,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    /// The question
    query: String,
}

pub fn run(args: &Args, out: &mut dyn Write) -> Result<(), Failure> {
    // Loads the encoder too, so that loading does not count as encoding.
    let index = Index::open_read_only(&args.index)?;
    let explanation = index.explain(&args.query, &args.options.request()?, args.exact)?;
    if args.json {
        printing::json(out, &explanation)
    } else {
        write_explanation(out, &index, &explanation).map_err(Failure::Output)?;
        say_notes(&explanation.notes);
        Ok(())
    }
}

fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

fn write_explanation(out: &mut dyn Write, index: &Index, explanation: &Explanation) -> io::Result<()> {
    let all = index.bundle().model().indexer().shape().leaves();
    write_signs(out, &explanation.signs)?;
    match explanation.entropy {
        Some(entropy) => writeln!(
            out,
            "{} of {all} leaves reached; entropy of the choice {entropy:.2} nats (at most {:.2})",
            explanation.leaves.len(),
            f64::from(all).ln(),
        )?,
        None if explanation.ranked_by == RankedBy::Lexical => {
            writeln!(out, "by words alone, without embeddings and tree")?;
        }
        None => writeln!(out, "all documents that may be hits were scored, without the tree")?,
    }
    if !explanation.leaves.is_empty() {
        writeln!(out, "    leaf  probability  documents  by level")?;
    }
    for leaf in &explanation.leaves {
        let steps: Vec<String> = leaf
            .path
            .iter()
            .zip(&leaf.level_probabilities)
            .map(|(child, probability)| format!("{child}: {probability:.4}"))
            .collect();
        writeln!(
            out,
            "{:>8}  {:>11.4}  {:>9}  {}",
            leaf.leaf.0,
            leaf.probability,
            leaf.documents,
            steps.join(", ")
        )?;
    }
    writeln!(out, "\n   score      leaf  exact rank  document")?;
    for found in &explanation.hits {
        let rank = found.exact_rank.map_or_else(|| "-".to_owned(), |rank| rank.to_string());
        let document = document(&found.hit);
        writeln!(out, "{:>8.4}  {:>8}  {rank:>10}  {document}", found.hit.score, found.hit.leaf.0)?;
        if !found.terms.is_empty() {
            write_words(out, found)?;
        }
    }
    let is_hit = |id: &str| explanation.hits.iter().any(|found| found.hit.id == id);
    // Words may have found a document in a leaf that was not visited.
    let missed = |found: &&ExactHit| !found.visited && !is_hit(&found.hit.id);
    for missed in explanation.exact.iter().flatten().filter(missed) {
        writeln!(
            out,
            "not reached: {} (score {:.4}), in leaf {} with probability {:.4}",
            document(&missed.hit),
            missed.hit.score,
            missed.hit.leaf.0,
            missed.leaf_probability,
        )?;
    }
    let stats = &explanation.stats;
    writeln!(
        out,
        "\n{} of {} {} scored ({:.1}%), {:.1}% with routing; encode {:.2} ms, beam {:.2} ms, \
         scan {:.2} ms, words {:.2} ms, fetch {:.2} ms",
        stats.documents_visited,
        index.embeddings(),
        unit(index),
        stats.visited_fraction * 100.0,
        stats.work_fraction * 100.0,
        ms(stats.encode),
        ms(stats.beam),
        ms(stats.scan),
        ms(stats.lexical),
        ms(stats.fetch),
    )
}

/// Both scores of a hit, and the words it shares with the question.
fn write_words(out: &mut dyn Write, found: &ExplainedHit) -> io::Result<()> {
    let scores = found.hit.scores;
    let part = |name: &str, score: Option<f32>, rank: Option<usize>| match (score, rank) {
        (Some(score), Some(rank)) => format!("{name} {score:.4} (rank {rank}), "),
        (Some(score), None) => format!("{name} {score:.4}, "),
        _ => String::new(),
    };
    let terms = found.terms.iter().map(|term| format!("{} {:.2}", escaped(&term.term), term.weight));
    let terms: Vec<String> = terms.collect();
    writeln!(
        out,
        "          {}{}{}",
        part("embeddings", scores.dense, scores.dense_rank),
        part("words", scores.lexical, scores.lexical_rank),
        terms.join(", ")
    )
}

fn document(hit: &ehi::Hit) -> String {
    format!("{}  {}", escaped(&hit.id), line_of(&hit.document.title))
}
