//! `ehi recover`

use std::io::Write;

use ehi::store::{Entries, Notice};
use serde::Serialize;

use crate::failure::Failure;
use crate::printing;
use crate::store::WriteArgs;

/// What was brought back from the log.
#[derive(Serialize)]
struct Recovered {
    commits: u64,
    /// Documents that the commits stored.
    recovered: u64,
    /// Judgments that other commits stored.
    judgments: u64,
    /// Documents of the index now.
    documents: usize,
}

/// Opening for writing reads the log; flushing makes what it held last.
pub fn run(args: &WriteArgs, out: &mut dyn Write) -> Result<(), Failure> {
    let WriteArgs { report: args, wait } = args;
    let index = wait.open(&args.index)?;
    let notices = index.notices();
    let taken_over = |entries| {
        let found = notices.iter().find_map(|notice| match notice {
            Notice::TakenOver { commits, count, of } if *of == entries => Some((*commits, *count)),
            _ => None,
        });
        found.unwrap_or_default()
    };
    let (commits, recovered) = taken_over(Entries::Documents);
    let (_, judgments) = taken_over(Entries::Judgments);
    index.flush()?;
    let documents = index.len();
    if args.json {
        return printing::json(out, &Recovered { commits, recovered, judgments, documents });
    }
    if judgments > 0 {
        writeln!(out, "{judgments} judgments brought back from their log and flushed")
            .map_err(Failure::Output)?;
    }
    if commits == 0 {
        return writeln!(out, "nothing waits in the log; the index has {documents} documents")
            .map_err(Failure::Output);
    }
    writeln!(
        out,
        "{recovered} documents in {commits} commits brought back from the log and flushed; the index has {documents} \
         documents"
    )
    .map_err(Failure::Output)
}
