//! `ehi health` and `ehi verify`

use std::fmt::Display;
use std::io::{self, Write};

use ehi::health::{Health, RoutingHealth};
use ehi::store::VerifyReport;
use serde::Serialize;

use crate::failure::{Failure, WARNED};
use crate::long::{self, AS_BEFORE};
use crate::opening::open_read_only;
use crate::printing;
use crate::store::ReportArgs;
use crate::text::{counted, escaped};

/// The figures, the advice as sentences, and the result of a check of the whole index.
#[derive(Serialize)]
struct Report {
    /// `None` if damage prevents measuring it.
    health: Option<Health>,
    words: Vec<String>,
    sound: bool,
    problem_count: u64,
    warning_count: usize,
}

pub fn health(args: &ReportArgs, out: &mut dyn Write) -> Result<(), Failure> {
    let index = open_read_only(&args.index)?;
    let checked = long::run(AS_BEFORE, |on_progress| index.with_progress(on_progress).verify())?;
    let health = match index.health() {
        Ok(health) => Some(health),
        Err(_) if !checked.is_sound() => None,
        Err(error) => return Err(error.into()),
    };
    let advice = health.iter().flat_map(|health| &health.advice);
    let report = Report {
        words: advice.map(ToString::to_string).collect(),
        sound: checked.is_sound(),
        problem_count: checked.problem_count,
        warning_count: checked.warnings.len(),
        health,
    };
    printing::report(out, args.json, &report, |out| {
        if let Some(health) = &report.health {
            write_health(out, health)?;
        }
        write_verdict(out, &report)
    })?;
    match checked.is_sound() {
        true => Ok(()),
        false => Err(Failure::damaged(&args.index, checked.problem_count)),
    }
}

fn write_health(out: &mut dyn Write, health: &Health) -> io::Result<()> {
    writeln!(out, "documents      {}", health.documents)?;
    if health.leaves == 1 {
        return writeln!(out, "tree           none: searches score every document");
    }
    let largest = health.largest_leaf.map_or_else(String::new, |largest| {
        format!("; the largest is {} with {}", largest.leaf.0, counted(largest.documents, "document"))
    });
    writeln!(out, "leaves         {}, {} empty{largest}", health.leaves, health.empty_leaves)?;
    let trained = health.trained_skew.map_or_else(String::new, |own| format!(" ({own:.2} in training)"));
    writeln!(
        out,
        "load           {:.1} expected documents per leaf, {:.2} times even{trained}",
        health.expected_documents_per_leaf, health.skew
    )?;
    write_routing(out, "new documents", &health.documents_routing)?;
    write_routing(out, "queries", &health.queries_routing)?;
    let (documents, queries) = (&health.documents_routing, &health.queries_routing);
    if documents.reference.is_none() && queries.reference.is_none() {
        writeln!(out, "no reference is known: the model was trained before routing was recorded")?;
    }
    for advice in &health.advice {
        writeln!(out, "advice: {}", escaped(&advice.to_string()))?;
    }
    for remedy in &health.remedies {
        writeln!(out, "remedy: {remedy}")?;
    }
    Ok(())
}

fn write_verdict(out: &mut dyn Write, report: &Report) -> io::Result<()> {
    let Report { words: advice, sound, problem_count, warning_count, .. } = report;
    match (*sound, *warning_count) {
        (false, _) => {
            writeln!(out, "damaged: {}; `ehi verify` lists them", counted(*problem_count, "problem"))
        }
        (true, 0) if advice.is_empty() => writeln!(out, "nothing stands out"),
        (true, 0) => Ok(()),
        (true, warnings) => {
            writeln!(out, "sound, with {}; `ehi verify` lists them", counted(warnings, "warning"))
        }
    }
}

fn write_routing(out: &mut dyn Write, name: &str, routing: &RoutingHealth) -> io::Result<()> {
    let Some(recent) = &routing.recent else {
        return writeln!(out, "{name:<14} none");
    };
    write!(
        out,
        "{name:<14} the newest {}: entropy {:.2} nats, most probable leaf {:.2}",
        recent.rows, recent.mean_entropy, recent.mean_top_probability
    )?;
    if let Some(trained) = &routing.reference {
        write!(out, "; in training {:.2} nats, {:.2}", trained.mean_entropy, trained.mean_top_probability)?;
    }
    if let Some((shift, chance)) = routing.shift.zip(routing.shift_by_chance) {
        // With few documents the estimate can exceed 1.
        let (shift, chance) = (shift * 100.0, chance.min(1.0) * 100.0);
        write!(out, "; {shift:.0}% go to other leaves ({chance:.0}% by chance)")?;
    }
    writeln!(out)
}

pub fn verify(args: &ReportArgs, out: &mut dyn Write) -> Result<(), Failure> {
    let index = open_read_only(&args.index)?;
    let report = long::run(AS_BEFORE, |on_progress| index.with_progress(on_progress).verify())?;
    let warnings = &report.warnings;
    let printed = printing::report(out, args.json, &report, |out| write_checked(out, &report, warnings));
    // The status is the verdict, even if the report cannot be printed.
    verdict_of(args, &report, warnings.len()).and(printed)
}

/// Damage and warnings as an exit status.
fn verdict_of(args: &ReportArgs, report: &VerifyReport, warnings: usize) -> Result<(), Failure> {
    match (report.is_sound(), warnings) {
        (false, _) => Err(Failure::damaged(&args.index, report.problem_count)),
        (true, 0) => Ok(()),
        (true, warnings) => {
            let verdict = format!("sound, with {}", counted(warnings, "warning"));
            Err(Failure::Checked { index: args.index.clone(), verdict, status: WARNED })
        }
    }
}

fn write_checked(out: &mut dyn Write, report: &VerifyReport, warnings: &[impl Display]) -> io::Result<()> {
    let problems = report.problems.iter().map(|problem| format!("{}: {}", problem.file, problem.damage));
    write_section(out, "problems", problems)?;
    write_section(out, "warnings", warnings.iter().map(ToString::to_string))?;
    let (verdict, read) = if report.is_sound() { ("sound", "") } else { ("damaged", " read") };
    writeln!(
        out,
        "{verdict}: {}{read} ({} bytes), {}, {} bytes of files checked",
        counted(report.documents, "document"),
        report.payload_bytes,
        counted(report.postings, "posting"),
        report.file_bytes
    )
}

/// A list with a heading; nothing if empty.
fn write_section(out: &mut dyn Write, head: &str, lines: impl Iterator<Item = String>) -> io::Result<()> {
    for (place, line) in lines.enumerate() {
        if place == 0 {
            writeln!(out, "{head}")?;
        }
        writeln!(out, "  {}", escaped(&line))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::process::ExitCode;

    use ehi::store::{Damage, Problem};
    use serde_json::json;

    use super::*;

    fn damaged() -> VerifyReport {
        let mut report = VerifyReport::default();
        let damage = Damage::Missing { what: "the end\u{1b}[2J" };
        report.problems.push(Problem { file: "segments/00000001.vectors".into(), damage });
        report.problem_count = 1;
        report
    }

    fn text(report: &VerifyReport, warnings: &[&str]) -> String {
        let mut out = Vec::new();
        write_checked(&mut out, report, warnings).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn problems_and_warnings_have_sections_of_their_own() {
        let counts = "0 documents (0 bytes), 0 postings, 0 bytes of files checked\n";
        let sound = VerifyReport::default();
        assert_eq!(text(&sound, &[]), format!("sound: {counts}"));
        assert_eq!(text(&sound, &["a\u{9b}", "b"]), format!("warnings\n  a\\u{{9b}}\n  b\nsound: {counts}"));
        let problem = "problems\n  segments/00000001.vectors: the end\\u{1b}[2J is missing\n";
        assert_eq!(
            text(&damaged(), &["b"]),
            format!("{problem}warnings\n  b\ndamaged: {}", counts.replace("documents", "documents read"))
        );
        let json = serde_json::to_value(damaged()).unwrap();
        assert_eq!((&json["sound"], &json["warnings"]), (&json!(false), &json!([])));
        assert_eq!(json["problems"][0]["damage"], json!("the end\u{1b}[2J is missing"));
    }

    #[test]
    fn the_status_tells_damage_from_warnings() {
        let args = ReportArgs { index: "x".into(), json: false };
        let sound = VerifyReport::default();
        assert!(verdict_of(&args, &sound, 0).is_ok());
        for (report, warnings, status) in [(&damaged(), 0, 1), (&damaged(), 2, 1), (&sound, 2, 3)] {
            assert_eq!(verdict_of(&args, report, warnings).unwrap_err().status(), ExitCode::from(status));
        }
        assert_eq!(verdict_of(&args, &sound, 2).unwrap_err().line(), "x is sound, with 2 warnings");
    }
}
