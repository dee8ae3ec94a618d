//! `ehi judge`, `ehi judgments` and `ehi questions`: the questions of an index, and judgments of its answers.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use ehi::data::{JudgmentFormat, read_judgments, write_judgments};
use ehi::{Fused, Judgment, Recorded};
use serde::Serialize;
use serde_json::json;

use crate::arguments::{one_of, open, since_1970, time};
use crate::failure::Failure;
use crate::hits::say_notes;
use crate::insert::origin;
use crate::opening::open_read_only;
use crate::printing;
use crate::store::{ReportArgs, WriteArgs};
use crate::text::{acts, counted, escaped};

pub const FORMATS: [(&str, JudgmentFormat); 3] =
    [("tsv", JudgmentFormat::Tsv), ("csv", JudgmentFormat::Csv), ("jsonl", JudgmentFormat::JsonLines)];
const SECONDS_OF_A_DAY: f64 = 86_400.0;

#[derive(clap::Args)]
#[group(id = "judged", required = true, multiple = false, args = ["question", "file", "before"])]
pub struct Args {
    #[command(flatten)]
    write: WriteArgs,
    /// The question as it was asked
    question: Option<String>,
    /// Id of the document; without it, `--forget` removes all judgments of the question
    #[arg(required_unless_present_any = ["forget", "file", "before"])]
    id: Option<String>,
    /// 1 and more: it answers the question; 0 and less: it does not
    #[arg(long, default_value_t = 1, allow_negative_numbers = true, conflicts_with_all = ["file", "forget"])]
    grade: i32,
    /// How much the judgment counts, above 0 and at most 1: 1 for a person's judgment, less for a click
    #[arg(long, default_value_t = 1.0, conflicts_with_all = ["file", "forget"])]
    weight: f64,
    /// Store the judgments of a file: question, id, grade, weight and time (seconds since 1970), of which the
    /// last three may be missing; `-` reads standard input
    #[arg(long, value_name = "FILE", conflicts_with = "forget")]
    file: Option<PathBuf>,
    /// Form of the file; by the ending of its name, or its content, if absent
    #[arg(long, requires = "file", value_parser = one_of(FORMATS))]
    format: Option<JudgmentFormat>,
    /// Remove judgments: that of this question and document, all of this question, or all before a time
    #[arg(long)]
    forget: bool,
    /// Remove all judgments made before a date (2026-01-31, from midnight UTC), or seconds since 1970
    #[arg(long, value_name = "DATE", requires = "forget", value_parser = since_1970)]
    before: Option<u64>,
}

#[derive(clap::Args)]
pub struct ListArgs {
    #[command(flatten)]
    write: WriteArgs,
    /// Print them in a form that `ehi judge --file` reads
    #[arg(long, conflicts_with = "json", value_parser = one_of(FORMATS))]
    format: Option<JudgmentFormat>,
    /// From now on, let judgments count half after so many days; `off`: they do not age
    #[arg(long, value_name = "DAYS", conflicts_with_all = ["json", "format"], value_parser = half_life)]
    half_life: Option<HalfLife>,
}

/// The half-life of judgments, if they age.
#[derive(Clone, Copy)]
struct HalfLife(Option<Duration>);

fn half_life(text: &str) -> Result<HalfLife, String> {
    match text.trim() {
        "off" => Ok(HalfLife(None)),
        days => {
            let time = time(days, "days", SECONDS_OF_A_DAY).map_err(|error| error + ", or off")?;
            Ok(HalfLife(Some(time)))
        }
    }
}

fn in_days(time: Duration) -> f64 {
    time.as_secs_f64() / SECONDS_OF_A_DAY
}

/// Judgments for one command alone.
#[derive(clap::Args)]
pub struct PairsArgs {
    /// Judgments in addition to those that the index holds, as `ehi judge --file` reads them; they are not
    /// stored
    #[arg(long, value_name = "FILE")]
    pairs: Option<PathBuf>,
    /// Form of that file; by the ending of its name, or its content, if absent
    #[arg(long, requires = "pairs", value_parser = one_of(FORMATS))]
    format: Option<JudgmentFormat>,
}

impl PairsArgs {
    /// The judgments of the file; none without one.
    pub fn read(&self) -> Result<Vec<Judgment>, Failure> {
        let pairs = self.pairs.as_deref().map(|path| read(path, self.format)).transpose()?;
        Ok(pairs.unwrap_or_default().0)
    }
}

/// The stored judgments, and notes on their file.
#[derive(Serialize)]
struct Stored {
    #[serde(flatten)]
    recorded: Recorded,
    notes: Vec<String>,
    /// Of the weights that were learned meanwhile, if they were.
    fused: Option<Fused>,
}

/// A judgment, and whether the index holds its document.
#[derive(Serialize)]
struct Listed<'a> {
    #[serde(flatten)]
    judgment: &'a Judgment,
    has_document: bool,
    /// What is left of its weight.
    left: f64,
    /// In days.
    half_life: Option<f64>,
}

pub fn run(args: &Args, out: &mut dyn Write) -> Result<(), Failure> {
    let WriteArgs { report: ReportArgs { index: path, json }, wait } = &args.write;
    // Before the index is opened for writing: standard input may take long.
    let read = args.file.as_deref().map(|file| read(file, args.format)).transpose()?;
    let index = wait.open(path)?;
    if args.forget {
        let forgotten = index.forget_where(|own| {
            args.question.as_ref().is_none_or(|question| own.question == *question)
                && args.id.as_ref().is_none_or(|id| own.id == *id)
                && args.before.is_none_or(|before| own.time < before)
        })?;
        index.flush()?;
        if forgotten == 0 && args.question.is_some() && !json {
            return Err(Failure::NotJudged { id: args.id.clone() });
        }
        let removed = counted(forgotten, "judgment");
        return printing::report(out, *json, &json!({ "forgotten": forgotten }), |out| match forgotten {
            0 => writeln!(out, "{removed} removed"),
            _ => writeln!(out, "{removed} removed; the bytes stay in the files until `ehi compact`"),
        });
    }
    let (judgments, notes) = match (read, &args.question, &args.id) {
        (Some(read), ..) => read,
        (None, Some(question), Some(id)) => {
            (vec![Judgment::new(question, id, args.grade).with_weight(args.weight)], Vec::new())
        }
        _ => (Vec::new(), Vec::new()),
    };
    let recorded = index.record_all(judgments)?;
    index.flush()?;
    let stored = Stored { recorded, notes, fused: index.finish_fit() };
    let all = index.judgments()?.len();
    printing::report(out, *json, &stored, |out| {
        write_recorded(out, stored.recorded, all)?;
        match stored.fused.as_ref().filter(|fused| fused.fusion.is_some()) {
            Some(fused) => writeln!(out, "{}", fused.sentence),
            None => Ok(()),
        }
    })
}

pub fn list(args: &ListArgs, out: &mut dyn Write) -> Result<(), Failure> {
    let WriteArgs { report: ReportArgs { index: path, json }, wait } = &args.write;
    if let Some(HalfLife(half_life)) = args.half_life {
        let index = wait.open(path)?;
        index.set_half_life(half_life)?;
        index.flush()?;
        return write_half_life(out, half_life).map_err(Failure::Output);
    }
    let index = open_read_only(path)?;
    let (judgments, half_life) = (index.judgments()?, index.half_life()?);
    if let Some(format) = args.format {
        return export(out, &judgments, format);
    }
    for judgment in &judgments {
        let (has_document, left) = (index.contains(&judgment.id)?, judgment.weight_left(half_life));
        if *json {
            printing::json(out, &Listed { judgment, has_document, left, half_life: half_life.map(in_days) })?;
            continue;
        }
        let now =
            std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default().as_secs();
        let days = now.saturating_sub(judgment.time) / SECONDS_OF_A_DAY as u64;
        let mark = if has_document { "" } else { "  (no such document)" };
        let left = if half_life.is_some() { format!("  left {left:<5.3}") } else { String::new() };
        let (grade, weight) = (judgment.grade, judgment.weight);
        let (question, id) = (escaped(&judgment.question), escaped(&judgment.id));
        writeln!(out, "{grade:>3}  weight {weight:<5}{left} {days:>5} days  {id}{mark}  {question}")
            .map_err(Failure::Output)?;
    }
    if judgments.is_empty() && !json {
        writeln!(out, "no judgments").map_err(Failure::Output)?;
    }
    match half_life.is_some() && !json {
        true => write_half_life(out, half_life).map_err(Failure::Output),
        false => Ok(()),
    }
}

fn write_half_life(out: &mut dyn Write, half_life: Option<Duration>) -> io::Result<()> {
    match half_life.map(in_days) {
        Some(1.0) => writeln!(out, "a judgment counts half after 1 day"),
        Some(days) => writeln!(out, "a judgment counts half after {days} days"),
        None => writeln!(out, "judgments do not age"),
    }
}

fn export(out: &mut dyn Write, judgments: &[Judgment], format: JudgmentFormat) -> Result<(), Failure> {
    if format == JudgmentFormat::JsonLines {
        return judgments.iter().try_for_each(|judgment| printing::json(out, judgment));
    }
    // Standard output would escape them.
    let is_csv = format == JudgmentFormat::Csv;
    let hidden = |text: &str| text.chars().any(|c| acts(c) && !(is_csv && c == '\n'));
    if let Some(found) = judgments.iter().find(|judgment| hidden(&judgment.question) || hidden(&judgment.id))
    {
        return Err(Failure::Usage(format!(
            "the judgment of `{}` holds control characters, which only `--format jsonl` can print",
            escaped(&found.question)
        )));
    }
    write_judgments(out, judgments, format).map_err(Failure::Output)
}

/// The judgments of a file, or of standard input, and notes on them, which are also printed on standard
/// error. Without a format, the ending of the name or the content decides.
pub fn read(path: &Path, format: Option<JudgmentFormat>) -> Result<(Vec<Judgment>, Vec<String>), Failure> {
    let name = origin::name(path);
    let file = open(path).map_err(Failure::file("open", path))?;
    let (judgments, notes) = read_judgments(file, &*name, format)?;
    let notes: Vec<String> = notes.iter().map(|note| format!("{name}: {note}")).collect();
    say_notes(&notes);
    Ok((judgments, notes))
}

fn write_recorded(out: &mut dyn Write, recorded: Recorded, all: usize) -> io::Result<()> {
    let Recorded { added, replaced, repeated, without_document, .. } = recorded;
    let added = counted(added, "judgment");
    let repeated = match repeated {
        0 => String::new(),
        more => format!("; {more} not stored, because a later line has the same question and id"),
    };
    let unheld = match without_document {
        0 => String::new(),
        more => format!("; {more} of documents that the index does not hold, to count once it does"),
    };
    writeln!(out, "{added} added, {replaced} replaced, {all} in all{repeated}{unheld}")
}

#[derive(clap::Args)]
pub struct QuestionsArgs {
    #[command(flatten)]
    write: WriteArgs,
    /// Write every question down from now on, or stop and delete what was written
    #[arg(long, conflicts_with = "json", value_parser = one_of([("on", true), ("off", false)]))]
    log: Option<bool>,
}

pub fn questions(args: &QuestionsArgs, out: &mut dyn Write) -> Result<(), Failure> {
    let WriteArgs { report: ReportArgs { index: path, json }, wait } = &args.write;
    if let Some(on) = args.log {
        let index = wait.open(path)?;
        index.log_questions(on)?;
        let done = match on {
            true => "questions are written down from now on, in the file QUESTIONS of the index",
            false => "questions are no longer written down; those that were are deleted",
        };
        return writeln!(out, "{done}").map_err(Failure::Output);
    }
    let index = open_read_only(path)?;
    for logged in index.logged_questions()? {
        match json {
            true => printing::json(out, &logged)?,
            false => writeln!(out, "{}", escaped(&logged.question)).map_err(Failure::Output)?,
        }
    }
    if !index.logs_questions() && !json {
        writeln!(out, "questions are not written down; `--log on` begins it").map_err(Failure::Output)?;
    }
    Ok(())
}
