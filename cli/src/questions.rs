//! `ehi questions`: the log of what the index was asked.

use std::io::Write;

use crate::arguments::one_of;
use crate::escape::escaped;
use crate::failure::Failure;
use crate::opening::open_read_only;
use crate::printing;
use crate::store::{ReportArgs, WriteArgs};

#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    write: WriteArgs,
    /// Write every question down from now on, or stop and delete what was written
    #[arg(long, conflicts_with = "json", value_parser = one_of([("on", true), ("off", false)]))]
    log: Option<bool>,
}

pub fn run(args: &Args, out: &mut dyn Write) -> Result<(), Failure> {
    let WriteArgs { report: ReportArgs { index: path, json }, wait } = &args.write;
    if let Some(on) = args.log {
        let index = wait.builder().lazy_encoder(true).open(path)?;
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
