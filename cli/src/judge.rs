//! `ehi judge`, `ehi judgments` and `ehi questions`: the questions of an index, and judgments of its answers.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use ehi::data::{JudgmentFormat, read_judgments, write_judgments};
use ehi::store::StoreError;
use ehi::{Fused, Judgment, Recorded, Standing};
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
/// The longest half-life: longer ones look like another unit.
const MOST_DAYS: f64 = 36_500.0;

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
    #[arg(long, default_value_t = 1, allow_negative_numbers = true, value_parser = grade, conflicts_with_all = ["file", "forget"])]
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
    #[arg(long, value_name = "DAYS", allow_negative_numbers = true, conflicts_with_all = ["json", "format"], value_parser = half_life)]
    half_life: Option<HalfLife>,
}

/// The half-life of judgments, if they age.
#[derive(Clone, Copy)]
struct HalfLife(Option<Duration>);

fn half_life(text: &str) -> Result<HalfLife, String> {
    match text.trim() {
        "off" => Ok(HalfLife(None)),
        days => {
            let time = time(days, "days", SECONDS_OF_A_DAY).ok();
            let time = time.filter(|time| !time.is_zero() && in_days(*time) <= MOST_DAYS);
            let expected =
                || format!("expected days, above 0 and at most {MOST_DAYS} (a hundred years), or off");
            Ok(HalfLife(Some(time.ok_or_else(expected)?)))
        }
    }
}

fn grade(text: &str) -> Result<i32, String> {
    let expected = "expected a whole number: 1 and more if it answers, 0 and less if it does not";
    text.trim().parse().map_err(|_| expected.to_owned())
}

pub fn in_days(time: Duration) -> f64 {
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

/// A judgment, and what it counts for.
#[derive(Serialize)]
struct Listed<'a> {
    #[serde(flatten)]
    judgment: &'a Judgment,
    #[serde(flatten)]
    standing: Standing,
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
        let words = if forgotten == 1 { "its words" } else { "their words" };
        return printing::report(out, *json, &json!({ "forgotten": forgotten }), |out| match forgotten {
            0 => writeln!(out, "{removed} removed"),
            _ => writeln!(out, "{removed} removed; {words} may be in the files until `ehi compact`"),
        });
    }
    let (judgments, notes) = match (read, &args.question, &args.id) {
        (Some(read), ..) => read,
        (None, Some(question), Some(id)) => {
            (vec![Judgment::new(question, id, args.grade).with_weight(args.weight)], Vec::new())
        }
        _ => (Vec::new(), Vec::new()),
    };
    let recorded = index.record_all(judgments.iter().cloned());
    let recorded = recorded.map_err(|error| match index.judgments() {
        Ok(all) => unstored(&all, &judgments, error),
        Err(_) => error.into(),
    })?;
    index.flush()?;
    let stored = Stored { recorded, notes, fused: index.finish_fit() };
    let all = index.judgments()?.len();
    let mut unheld = judgments.iter().filter(|own| index.contains(&own.id).is_ok_and(|is_held| !is_held));
    let unheld = if recorded.without_document == 1 { unheld.next() } else { None };
    printing::report(out, *json, &stored, |out| {
        write_recorded(out, stored.recorded, all, unheld)?;
        match stored.fused.as_ref().filter(|fused| fused.fusion.is_some()) {
            Some(fused) => writeln!(out, "{}", fused.sentence),
            None => Ok(()),
        }
    })
}

/// Adds to a failed write how many of the given judgments are among those stored, which are ordered by
/// question and id.
fn unstored(all: &[Judgment], given: &[Judgment], error: ehi::Error) -> Failure {
    let ehi::Error::Store(source @ StoreError::Io { .. }) = error else { return error.into() };
    let place =
        |own: &Judgment| all.binary_search_by(|one| (&one.question, &one.id).cmp(&(&own.question, &own.id)));
    let is_stored = |own: &&Judgment| place(own).is_ok_and(|place| all[place] == **own);
    Failure::UnstoredJudgments { source, stored: given.iter().filter(is_stored).count(), given: given.len() }
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
    let standings = index.standings(&judgments)?;
    for (judgment, &standing) in judgments.iter().zip(&standings) {
        if *json {
            printing::json(out, &Listed { judgment, standing, half_life: half_life.map(in_days) })?;
            continue;
        }
        let now =
            std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default().as_secs();
        let days = now.saturating_sub(judgment.time) / SECONDS_OF_A_DAY as u64;
        let marks = marks(standing).join(", ");
        let mark = if marks.is_empty() { marks } else { format!("  ({marks})") };
        let left = half_life.map_or_else(String::new, |_| format!("  left {:<5.3}", standing.left));
        let (grade, weight) = (judgment.grade, judgment.weight);
        let (question, id) = (escaped(&judgment.question), escaped(&judgment.id));
        writeln!(out, "{grade:>3}  weight {weight:<5}{left} {days:>5} days  {id}{mark}  {question}")
            .map_err(Failure::Output)?;
    }
    if *json {
        return Ok(());
    }
    if judgments.is_empty() {
        writeln!(out, "no judgments").map_err(Failure::Output)?;
    }
    write_standings(out, &standings).map_err(Failure::Output)?;
    match half_life {
        Some(_) => write_half_life(out, half_life).map_err(Failure::Output),
        None => Ok(()),
    }
}

const ABSENT: &str = "no such document";
const TOO_OLD: &str = "too old";
const STALE: &str = "document replaced since";
const CONTRADICTED: &str = "opposite judgment in another spelling";

/// Why a judgment does not count in full.
fn marks(of: Standing) -> Vec<&'static str> {
    let marks = [
        (!of.has_document, ABSENT),
        (of.left == 0.0, TOO_OLD),
        (of.stale, STALE),
        (of.contradicted && of.has_document, CONTRADICTED),
    ];
    marks.into_iter().filter(|(is_so, _)| *is_so).map(|(_, mark)| mark).collect()
}

/// How many judgments do not count in full, and why.
fn write_standings(out: &mut dyn Write, standings: &[Standing]) -> io::Result<()> {
    let is_none = |of: &Standing| !of.has_document || of.left == 0.0;
    let all = standings.len();
    for (said, is_none_at_all, remedies) in [
        ("do not count", true, [(ABSENT, ""), (TOO_OLD, "")]),
        (
            "count less",
            false,
            [
                (STALE, " (half, until judged again)"),
                (CONTRADICTED, " (`ehi judge --forget` takes one back)"),
            ],
        ),
    ] {
        let these: Vec<_> = standings.iter().filter(|of| is_none(of) == is_none_at_all).collect();
        let reasons = remedies.map(|(mark, remedy)| {
            let count = these.iter().filter(|of| marks(***of).contains(&mark)).count();
            (count > 0).then(|| format!("{count} {mark}{remedy}"))
        });
        let reasons: Vec<String> = reasons.into_iter().flatten().collect();
        let count = these.iter().filter(|of| !marks(***of).is_empty()).count();
        if count > 0 {
            writeln!(out, "{count} of {all} {said}: {}", reasons.join(", "))?;
        }
    }
    Ok(())
}

fn write_half_life(out: &mut dyn Write, half_life: Option<Duration>) -> io::Result<()> {
    writeln!(out, "{}", aging(half_life.map(in_days)))
}

/// How judgments age, by their half-life in days.
pub fn aging(days: Option<f64>) -> String {
    match days {
        Some(1.0) => "a judgment counts half after 1 day".to_owned(),
        Some(days) => format!("a judgment counts half after {days} days"),
        None => "judgments do not age".to_owned(),
    }
}

fn export(out: &mut dyn Write, judgments: &[Judgment], format: JudgmentFormat) -> Result<(), Failure> {
    // Behind the row of names, if there is one.
    say_notes(ahead(judgments, if format == JudgmentFormat::JsonLines { 1 } else { 2 }).as_slice());
    if format == JudgmentFormat::JsonLines {
        return judgments.iter().try_for_each(|judgment| printing::json(out, judgment));
    }
    // Standard output would escape them.
    let is_csv = format == JudgmentFormat::Csv;
    let hidden = |judgment: &&Judgment| {
        // `ehi judge` takes an end of line in an id for an unclosed quote.
        judgment.question.chars().any(|c| acts(c) && !(is_csv && c == '\n')) || judgment.id.chars().any(acts)
    };
    if let Some(found) = judgments.iter().find(hidden) {
        return Err(Failure::Usage(format!(
            "the judgment of `{}` and `{}` holds control characters, which only `--format jsonl` can print",
            escaped(&found.question),
            escaped(&found.id)
        )));
    }
    write_judgments(out, judgments, format).map_err(Failure::Output)
}

/// Which exported judgments cannot be read again; `first` is the number of the first one's row.
fn ahead(judgments: &[Judgment], first: usize) -> Option<String> {
    let now = Judgment::new("", "", 1).time;
    let is_ahead = |own: &Judgment| own.time > now + SECONDS_OF_A_DAY as u64;
    let mut rows = judgments.iter().enumerate().filter(|(_, own)| is_ahead(own)).map(|(row, _)| row + first);
    let (row, more) = (rows.next()?, rows.count());
    let others = if more > 0 { format!(" and in {more} more") } else { String::new() };
    Some(format!(
        "the time in row {row}{others} is more than a day ahead, which `ehi judge --file` refuses; empty the \
         time there, and the judgment gets that of the import"
    ))
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

/// `unheld` is the judgment of a document that the index does not hold, if it is the only one.
fn write_recorded(
    out: &mut dyn Write,
    recorded: Recorded,
    all: usize,
    unheld: Option<&Judgment>,
) -> io::Result<()> {
    let Recorded { added, replaced, repeated, without_document, .. } = recorded;
    let added = counted(added, "judgment");
    let repeated = match repeated {
        0 => String::new(),
        more => format!("; {more} not stored, because a later line has the same question and id"),
    };
    let unheld = match (without_document, unheld) {
        (0, _) => String::new(),
        (_, Some(Judgment { id, .. })) => {
            format!("; no document has the id `{}` yet; the judgment counts once one has", escaped(id))
        }
        (more, None) => format!("; {more} of documents that the index does not hold yet count once it does"),
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

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use ehi::store::Operation;

    use super::*;

    #[test]
    fn times_that_cannot_be_read_again_are_named_by_their_rows() {
        let now = Judgment::new("q", "d", 1);
        let later = now.clone().at(now.time + 100_000);
        assert_eq!(ahead(&[now.clone(), now.clone()], 2), None);
        let one = ahead(&[now.clone(), later.clone()], 2).unwrap();
        assert!(
            one.starts_with("the time in row 3 is more than a day ahead") && one.contains("; empty the time")
        );
        let two = ahead(&[later.clone(), now, later], 1).unwrap();
        assert!(two.starts_with("the time in row 1 and in 1 more is"));
    }

    #[test]
    fn a_failed_write_says_how_many_judgments_are_stored() {
        let (path, operation) = (PathBuf::from("log"), Operation::Write);
        let source = StoreError::Io { path, operation, source: io::ErrorKind::StorageFull.into() };
        let all = [Judgment::new("a", "d", 1), Judgment::new("b", "d", 1)];
        let given = [all[1].clone(), Judgment::new("c", "d", 1), all[0].clone().at(7)];
        let said = unstored(&all, &given, source.into()).line();
        assert!(said.contains("; stored: 1 of 3 judgments; ") && !said.contains("document"), "{said}");
    }
}
