//! `ehi search`

use std::io::{self, BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ehi::search::{QuestionWords, Signs, Snippet};
use ehi::{Error, Hit, Index, RankedBy, SearchRequest, SearchResult, SearchStats};
use serde::Serialize;

use crate::arguments::{self, finite};
use crate::failure::Failure;
use crate::hits;
use crate::open;
use crate::opening::PrecisionArgs;
use crate::printing;
use crate::query::{QueryArgs, asked};
use crate::store::ReportArgs;
use crate::text::counted;

/// Default number of reranked hits.
pub const RERANK_DEPTH: usize = 50;
/// Most questions of a file that are answered together.
const QUESTIONS_AT_ONCE: usize = 256;
/// Bytes of a file that are read at once.
const BYTES_AT_ONCE: usize = 64 << 10;
/// Most bytes of a line with a question.
const MOST_QUESTION_BYTES: u64 = 1 << 20;
/// Bytes shown of a line that is refused.
const SHOWN_BYTES: usize = 200;

#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    report: ReportArgs,
    #[command(flatten)]
    options: QueryArgs,
    /// Score every document, without the tree
    #[arg(long, conflicts_with_all = ["beam", "recall"])]
    exact: bool,
    /// Have the best hits read again, together with the question, by the cross-encoder in this folder
    #[cfg_attr(feature = "hub", doc = "(or of this name)")]
    #[arg(long, value_name = "DIR")]
    rerank: Option<PathBuf>,
    /// Hits that it reads
    #[arg(long, value_name = "N", default_value_t = RERANK_DEPTH, requires = "rerank")]
    rerank_depth: usize,
    /// Print the ids of the hits without their titles and texts
    #[arg(long)]
    ids_only: bool,
    /// Leave out the first N hits, for the next page of a search. Beyond hit 48 of a hybrid search, pages may
    /// repeat or skip hits
    #[arg(long, value_name = "N", default_value_t = 0, conflicts_with = "group_by")]
    offset: usize,
    /// Leave out those of the -n hits that are less similar to the question (`dense` in --json), or with
    /// --mode lexical and --rerank have a lower score. Hits that judgments raise stay
    #[arg(long, value_name = "SCORE", value_parser = finite, allow_negative_numbers = true)]
    threshold: Option<f64>,
    /// Open the file of hit N: at its line in the editor that VISUAL or EDITOR names, or HTML, PDF, office
    /// files and e-mail with the desktop's program
    #[arg(long, value_name = "N", conflicts_with_all = ["json", "questions", "ids_only"],
        value_parser = clap::value_parser!(u32).range(1..))]
    open: Option<u32>,
    /// Answer the questions in this file, one a line, as JSON lines; `-` is standard input, where each line
    /// is answered as it comes
    #[arg(long, value_name = "FILE", conflicts_with_all = ["question", "vector"])]
    questions: Option<PathBuf>,
    #[command(flatten)]
    precision: PrecisionArgs,
    /// The question, of one or several words. `+word` must be in a hit, `-word` must not, and `"a phrase"`
    /// must; with `--mode dense` these signs mean nothing. Quote a question that has signs, and put `--`
    /// before one that begins with `-`
    #[arg(required_unless_present_any = ["questions", "vector"], value_name = "QUESTION")]
    question: Vec<String>,
}

/// The answer to a line of `--questions`.
#[derive(Serialize)]
struct Answer<'a> {
    question: &'a str,
    #[serde(flatten)]
    result: Option<Shown<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

/// A result as JSON, with a snippet of each hit.
#[derive(Serialize)]
struct Shown<'a> {
    request: &'a SearchRequest,
    ranked_by: &'a RankedBy,
    signs: &'a Signs,
    notes: &'a [String],
    hits: Vec<ShownHit<'a>>,
    stats: &'a SearchStats,
}

#[derive(Serialize)]
struct ShownHit<'a> {
    #[serde(flatten)]
    hit: &'a Hit,
    /// Null without the text.
    snippet: Option<Snippet>,
}

impl<'a> Shown<'a> {
    fn of(question: &str, result: &'a SearchResult) -> Self {
        let SearchResult { request, ranked_by, signs, notes, hits, stats, .. } = result;
        let words = QuestionWords::of(question);
        let shown = |hit: &'a Hit| {
            let snippet = Some(hit.snippet(&words, hits::SHOWN)).filter(|snippet| snippet.end > 0);
            ShownHit { hit, snippet }
        };
        Self { request, ranked_by, signs, notes, hits: hits.iter().map(shown).collect(), stats }
    }
}

pub fn run(args: &Args, out: &mut dyn Write) -> Result<(), Failure> {
    let index = args.precision.open_read_only(&args.report.index)?;
    let mut request = args.options.request()?;
    request.k = request.k.saturating_add(if request.k > 0 { args.offset } else { 0 });
    if args.exact {
        request = request.exact();
    }
    request.ids_only = args.ids_only;
    if let Some(dir) = &args.rerank {
        request = request.rerank(&Arc::new(args.precision.open_reranker(dir)?), args.rerank_depth);
    }
    if let Some(file) = &args.questions {
        return answer_all(args, &index, &request, file, out);
    }
    let question = args.question.join(" ");
    let vector = args.options.vector()?;
    let result = index.search_with(asked(&question, vector.as_deref()), &request)?;
    let result = args.shown(&index, result);
    if let Some(number) = args.open {
        let Some(hit) =
            (number as usize).checked_sub(args.offset + 1).and_then(|place| result.hits.get(place))
        else {
            let hits = counted(result.len(), "hit");
            return Err(Failure::Usage(format!(
                "hit {number} is not among the {hits} found; `-n` finds more"
            )));
        };
        return open::hit(hit, &QuestionWords::of(&question));
    }
    if args.report.json {
        printing::json(out, &Shown::of(&question, &result))
    } else {
        hits::write_hits(out, &index, &question, &result, args.offset).map_err(Failure::Output)?;
        hits::say_notes(&result.notes);
        Ok(())
    }
}

impl Args {
    /// Without the hits of `--offset` and `--threshold`, and with a note if none is left.
    fn shown(&self, index: &Index, mut result: SearchResult) -> SearchResult {
        let found = result.len();
        let mut hits: Vec<Hit> = result.hits.drain(..).skip(self.offset).collect();
        let note = if found == 0 {
            self.options.note_on_none(index).map(str::to_owned)
        } else if hits.is_empty() {
            let are = if found == 1 { "is" } else { "are" };
            Some(format!("there {are} only {}", counted(found, "hit")))
        } else {
            self.threshold.and_then(|least| self.leave_out(least, &mut hits))
        };
        result.notes.extend(note);
        result.hits = hits;
        result
    }

    /// Leaves out hits below the threshold, and says so if these are all.
    fn leave_out(&self, least: f64, hits: &mut Vec<Hit>) -> Option<String> {
        // A reranker does not read hits beyond its depth.
        let is_read = |hit: &Hit| self.rerank.is_none() || hit.rerank_score.is_some();
        let highest = hits.iter().filter(|hit| is_read(hit)).map(hits::compared).max_by(f32::total_cmp);
        let (count, by) = (counted(hits.len(), "hit"), hits.iter().find_map(|hit| hit.scores.dense));
        let is_confirmed =
            |hit: &Hit| hit.judged.as_ref().is_some_and(|own| own.is_noticeable() && own.moved > 0.0);
        hits.retain(|hit| is_read(hit) && hits::compared(hit) >= least as f32 || is_confirmed(hit));
        if !hits.is_empty() {
            return None;
        }
        let place = if self.offset > 0 { format!(" after --offset {}", self.offset) } else { String::new() };
        let what = if by.is_some() && self.rerank.is_none() { "similarity" } else { "score" };
        let why = match highest {
            Some(highest) => format!("the highest {what} is {}", hits::floored(highest, 4)),
            None => "the reranker reads hits up to --rerank-depth".to_owned(),
        };
        Some(format!("--threshold {least} leaves out all {count}{place}; {why}"))
    }
}

/// The next line of a file; as an error, the beginning of one that cannot be a question, as far as it can be
/// read. `None` at the end.
fn next_line(lines: &mut impl BufRead) -> io::Result<Option<Result<String, String>>> {
    let mut line = Vec::new();
    if lines.by_ref().take(MOST_QUESTION_BYTES).read_until(b'\n', &mut line)? == 0 {
        return Ok(None);
    }
    let is_whole = line.len() < MOST_QUESTION_BYTES as usize || line.ends_with(b"\n");
    if !is_whole {
        lines.skip_until(b'\n')?;
    }
    let line = match String::from_utf8(line) {
        Ok(line) if is_whole => return Ok(Some(Ok(line))),
        Ok(line) => line.into_bytes(),
        Err(error) => error.into_bytes(),
    };
    let beginning = String::from_utf8_lossy(&line[..line.len().min(SHOWN_BYTES)]);
    Ok(Some(Err(beginning.trim().to_owned())))
}

/// Prints the answers to the lines of a file. A question that cannot be answered is an answer with an error.
fn answer_all(
    args: &Args,
    index: &Index,
    request: &SearchRequest,
    file: &Path,
    out: &mut dyn Write,
) -> Result<(), Failure> {
    let opened = arguments::open(file).map_err(Failure::file("open", file))?;
    let mut lines = BufReader::with_capacity(BYTES_AT_ONCE, opened);
    let (mut is_first, mut refused) = (true, 0_usize);
    while let Some(line) = next_line(&mut lines).map_err(Failure::file("read", file))? {
        let mut questions = vec![line];
        // A program may wait for the answer to its line before it writes another one.
        while questions.len() < QUESTIONS_AT_ONCE && lines.buffer().contains(&b'\n') {
            questions.extend(next_line(&mut lines).map_err(Failure::file("read", file))?);
        }
        if std::mem::take(&mut is_first)
            && let [Ok(first), ..] = &mut questions[..]
        {
            *first = first.trim_start_matches('\u{feff}').to_owned();
        }
        questions.retain(|line| line.as_ref().map_or(true, |question| !question.trim().is_empty()));
        // The program may run for long.
        index.refresh()?;
        let read = || questions.iter().flatten().map(|question| question.trim());
        let together = index.search_many(read(), request);
        // One of them failed: which one?
        let each = || read().map(|question| index.search_with(question, request)).collect();
        let results: Vec<_> = together.map_or_else(|_| each(), |all| all.into_iter().map(Ok).collect());
        let mut results = results.into_iter();
        for line in &questions {
            let (question, result) = match line {
                Ok(question) => (question.trim(), results.next()),
                Err(unreadable) => (unreadable.as_str(), None),
            };
            let (result, error) = match result {
                Some(Ok(result)) => (Some(args.shown(index, result)), None),
                Some(Err(error @ Error::Input(_))) => (None, Some(Failure::from(error).line())),
                Some(Err(error)) => return Err(error.into()),
                None => (None, Some(format!("not UTF-8, or longer than {MOST_QUESTION_BYTES} bytes"))),
            };
            refused += usize::from(error.is_some());
            let result = result.as_ref().map(|result| Shown::of(question, result));
            printing::json(out, &Answer { question, result, error })?;
        }
        out.flush().map_err(Failure::Output)?;
    }
    match refused {
        0 => Ok(()),
        _ => Err(Failure::Usage(format!(
            "{} could not be answered; the output has the reason beside each",
            counted(refused, "question")
        ))),
    }
}
