//! `ehi recover`

use std::io::Write;

use ehi::store::{Entries, Notice};
use serde_json::json;

use crate::failure::Failure;
use crate::printing::{self, counted};
use crate::store::WriteArgs;

/// Opening for writing reads the log; a flush makes what it held durable.
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
    let report =
        json!({ "commits": commits, "recovered": recovered, "judgments": judgments, "documents": documents });
    printing::report(out, args.json, &report, |out| {
        if judgments > 0 {
            let judgments = counted(judgments, "judgment");
            writeln!(out, "{judgments} brought back from their log and flushed")?;
        }
        let documents = counted(documents, "document");
        if commits == 0 {
            return writeln!(out, "nothing waits in the log; the index has {documents}");
        }
        let (recovered, commits) = (counted(recovered, "document"), counted(commits, "commit"));
        writeln!(
            out,
            "{recovered} in {commits} brought back from the log and flushed; the index has {documents}"
        )
    })
}
