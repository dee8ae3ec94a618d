//! `ehi verify`

use std::fmt::Display;
use std::io::{self, Write};

use ehi::store::VerifyReport;

use crate::failure::{Failure, WARNED};
use crate::long::{self, AS_BEFORE};
use crate::opening::open_read_only;
use crate::printing::{self, counted};
use crate::store::ReportArgs;
use crate::text::escaped;

pub fn run(args: &ReportArgs, out: &mut dyn Write) -> Result<(), Failure> {
    let index = open_read_only(&args.index)?;
    let report = long::run(AS_BEFORE, |on_progress| index.with_progress(on_progress).verify())?;
    let warnings = &report.warnings;
    let printed = printing::report(out, args.json, &report, |out| write_text(out, &report, warnings));
    // The status is the verdict, even if the report cannot be printed.
    verdict(args, &report, warnings.len()).and(printed)
}

/// Damage and warnings as an exit status.
fn verdict(args: &ReportArgs, report: &VerifyReport, warnings: usize) -> Result<(), Failure> {
    match (report.is_sound(), warnings) {
        (false, _) => Err(Failure::damaged(&args.index, report.problem_count)),
        (true, 0) => Ok(()),
        (true, warnings) => {
            let verdict = format!("sound, with {warnings} warnings");
            Err(Failure::Checked { index: args.index.clone(), verdict, status: WARNED })
        }
    }
}

fn write_text(out: &mut dyn Write, report: &VerifyReport, warnings: &[impl Display]) -> io::Result<()> {
    let problems = report.problems.iter().map(|problem| format!("{}: {}", problem.file, problem.damage));
    write_section(out, "problems", problems)?;
    write_section(out, "warnings", warnings.iter().map(ToString::to_string))?;
    let (verdict, read) = if report.is_sound() { ("sound", "") } else { ("damaged", " read") };
    writeln!(
        out,
        "{verdict}: {}{read} ({} bytes), {} postings, {} bytes of files checked",
        counted(report.documents, "document"),
        report.payload_bytes,
        report.postings,
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
        write_text(&mut out, report, warnings).unwrap();
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
        assert!(verdict(&args, &sound, 0).is_ok());
        for (report, warnings, status) in [(&damaged(), 0, 1), (&damaged(), 2, 1), (&sound, 2, 3)] {
            assert_eq!(verdict(&args, report, warnings).unwrap_err().status(), ExitCode::from(status));
        }
        assert_eq!(verdict(&args, &sound, 2).unwrap_err().line(), "x is sound, with 2 warnings");
    }
}
