//! `ehi explain`

use std::io::{self, Write};

use ehi::explain::{ExactHit, ExplainedHit, Explanation, ReachedLeaf};
use ehi::search::MovedDocument;
use ehi::{Index, RankedBy};

use crate::failure::Failure;
use crate::hits::{judgment_line, say_notes, write_cost, write_judgment, write_signs};
use crate::printing;
use crate::query::{QueryArgs, asked};
use crate::store::ReportArgs;
use crate::text::{escaped, line_of};

#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    report: ReportArgs,
    #[command(flatten)]
    options: QueryArgs,
    /// Compare with exact search, which scores every document
    #[arg(long)]
    exact: bool,
    /// The question, of one or several words
    #[arg(required_unless_present = "vector", value_name = "QUESTION")]
    question: Vec<String>,
}

pub fn run(args: &Args, out: &mut dyn Write) -> Result<(), Failure> {
    // Loads the encoder too, so that loading does not count as encoding.
    let index = Index::open_read_only(&args.report.index)?;
    let (question, vector) = (args.question.join(" "), args.options.vector()?);
    let asked = asked(&question, vector.as_deref());
    let explanation = index.explain(asked, &args.options.request()?, args.exact)?;
    if args.report.json {
        printing::json(out, &explanation)
    } else {
        write_explanation(out, &index, &explanation).map_err(Failure::Output)?;
        say_notes(&explanation.notes);
        Ok(())
    }
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
    for ReachedLeaf { leaf, path, level_probabilities, probability, documents, .. } in &explanation.leaves {
        let steps = path.iter().zip(level_probabilities);
        let steps: Vec<String> = steps.map(|(child, share)| format!("{child}: {share:.4}")).collect();
        writeln!(out, "{:>8}  {probability:>11.4}  {documents:>9}  {}", leaf.0, steps.join(", "))?;
    }
    writeln!(out, "\n   score      leaf  exact rank  document")?;
    for found in &explanation.hits {
        let rank = found.exact_rank.map_or_else(|| "-".to_owned(), |rank| rank.to_string());
        let document = document(&found.hit);
        writeln!(out, "{:>8.4}  {:>8}  {rank:>10}  {document}", found.hit.score, found.hit.leaf.0)?;
        if !found.terms.is_empty() {
            write_words(out, found)?;
        }
        write_judgment(out, &found.hit, "          ")?;
    }
    for MovedDocument { id, judged, .. } in &explanation.moved {
        if let Some(judged) = judged.as_ref().filter(|judged| judged.is_noticeable()) {
            writeln!(out, "not a hit: {}  {}", escaped(id), judgment_line(judged))?;
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
    writeln!(out)?;
    write_cost(out, index, explanation.ranked_by, &explanation.stats)
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
