//! `ehi completions` and `ehi man`: generates shell completions and manual pages from the command line.

use std::fs;
use std::io::{self, Write};
use std::path::PathBuf;

use clap_complete::Shell;

use crate::failure::Failure;
use crate::printing;

#[derive(clap::Args)]
pub struct CompletionsArgs {
    /// The shell
    shell: Shell,
}

#[derive(clap::Args)]
pub struct ManArgs {
    /// Folder of the pages; made where it is missing
    #[arg(value_name = "DIR")]
    target: PathBuf,
}

pub fn completions(args: &CompletionsArgs, mut command: clap::Command) -> Result<(), Failure> {
    // Into memory first: the generator panics on write errors.
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut command, "ehi", &mut script);
    // Unescaped: it contains no data.
    io::stdout().write_all(&script).map_err(Failure::Output)
}

pub fn man(args: &ManArgs, command: clap::Command, out: &mut dyn Write) -> Result<(), Failure> {
    let failed = |source| Failure::File { action: "write to", path: args.target.clone(), source };
    fs::create_dir_all(&args.target).map_err(failed)?;
    clap_mangen::generate_to(command, &args.target).map_err(failed)?;
    writeln!(out, "{}: ehi.1 and a page for each command", printing::path(&args.target))
        .map_err(Failure::Output)
}
