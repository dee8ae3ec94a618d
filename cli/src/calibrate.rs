//! `ehi calibrate`

use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use ehi::Index;
use ehi::calibrate::{QuestionSource, RecallCurve};
use ehi::data::read_queries;
use ehi::search::{DEFAULT_RECALL, MOST_EXACT_DOCUMENTS};

use crate::failure::Failure;
use crate::long::{self, AS_BEFORE};
use crate::printing;
use crate::store::WriteArgs;
use crate::text::counted;

/// Recalls that are printed.
const TOLD: [f64; 3] = [0.90, DEFAULT_RECALL, 0.99];

#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    write: WriteArgs,
    /// Questions to measure with, as BEIR query lines, plain or gzip. If absent those that were logged or
    /// judged, or where these are few some made from documents
    #[arg(long, value_name = "FILE")]
    queries: Option<PathBuf>,
}

pub fn run(args: &Args, out: &mut dyn Write) -> Result<(), Failure> {
    let questions = args.queries.as_deref().map(questions).transpose()?;
    let questions = questions.unwrap_or_default();
    args.write.run(
        out,
        AS_BEFORE,
        |index, on_progress| index.with_progress(on_progress).calibrate(&questions),
        |out, index, curve| write_curve(out, curve, index.embeddings()),
    )
}

/// The questions of a file, at least one and none empty.
pub fn questions(path: &Path) -> Result<Vec<String>, Failure> {
    let file = File::open(path).map_err(Failure::file("open", path))?;
    let queries = read_queries(file, printing::path(path));
    let questions: Vec<String> =
        queries.map(|query| query.map(|query| query.text)).collect::<Result<_, _>>()?;
    let name = printing::path(path);
    if questions.is_empty() {
        return Err(Failure::Usage(format!("{name} holds no question")));
    }
    match questions.iter().position(|question| question.trim().is_empty()) {
        Some(place) => Err(Failure::Usage(format!("question {} of {name} is empty", place + 1))),
        None => Ok(questions),
    }
}

/// Measures after an insert, if searches need it. The documents are stored even if that fails.
pub fn after_insert(index: &Index) {
    if !index.needs_calibration() {
        return;
    }
    match long::run(AS_BEFORE, |on_progress| index.with_progress(on_progress).calibrate(&[])) {
        Ok(_) | Err(Failure::Stopped { .. }) => {}
        Err(error) => {
            tracing::warn!(error = %error.line(), "it was not measured how many leaves a search needs");
        }
    }
}

/// A line for each depth and each printed share; `embeddings` are those of the index.
pub fn write_curve(out: &mut dyn Write, curve: &RecallCurve, embeddings: usize) -> io::Result<()> {
    let questions = match curve.source {
        QuestionSource::Documents => counted(curve.questions, "question") + " made from documents",
        QuestionSource::Asked => counted(curve.questions, "logged or judged question"),
        _ => counted(curve.questions, "given question"),
    };
    let documents = counted(curve.documents, "document");
    writeln!(out, "recall         measured on {questions}, with {documents}")?;
    if embeddings <= MOST_EXACT_DOCUMENTS {
        let most = MOST_EXACT_DOCUMENTS;
        writeln!(out, "  not used yet: up to {most} embeddings are all scored where no --beam is given")?;
    }
    for depth in &curve.depths {
        for recall in TOLD {
            match curve.reaching(recall, depth.depth) {
                Some(point) => writeln!(
                    out,
                    "  {recall:.2} of the {} best: {}, {:.1}% of the documents; measured {:.3} ± {:.3}",
                    depth.depth,
                    counted(point.beam, "leaf"),
                    point.visited * 100.0,
                    point.recall,
                    point.standard_error,
                )?,
                None => writeln!(out, "  {recall:.2} of the {} best: every document", depth.depth)?,
            }
        }
    }
    Ok(())
}
