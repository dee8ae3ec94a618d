//! `ehi recover`

use std::io::Write;

use serde_json::json;

use crate::failure::Failure;
use crate::printing;
use crate::store::WriteArgs;

/// Opening for writing reads the log; flushing makes what it held last.
pub fn run(args: &WriteArgs, out: &mut dyn Write) -> Result<(), Failure> {
    let WriteArgs { report: args, wait } = args;
    let index = wait.open(&args.index)?;
    let recovered = index.stats()?.fresh_documents;
    index.flush()?;
    let documents = index.len();
    if args.json {
        return printing::json(out, &json!({ "recovered": recovered, "documents": documents }));
    }
    writeln!(
        out,
        "{recovered} documents brought back from the log and flushed; the index has {documents} documents"
    )
    .map_err(Failure::Output)
}
