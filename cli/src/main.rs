//! The `ehi` command line: arguments in, calls of the public API, text or JSON out.

mod arguments;
mod bars;
mod calibrate;
mod describe;
mod distil;
mod documents;
mod eval;
mod evaluation;
mod explain;
#[cfg(feature = "explore")]
mod explore;
mod facets;
mod failure;
mod fields;
mod fuse;
mod generate;
mod health;
#[cfg(any(feature = "explore", feature = "mcp"))]
mod held;
mod hits;
mod insert;
mod interrupt;
mod judge;
mod learn;
mod leaves;
mod log;
mod long;
#[cfg(feature = "mcp")]
mod mcp;
mod model;
mod models;
mod open;
mod opening;
mod plain;
mod printing;
mod query;
mod repair;
mod restart;
mod search;
mod store;
mod text;
mod train;
mod train_reranker;
mod training;
mod tune;
mod vector;
mod version;
mod watch;

use std::env;
use std::io::{self, Write};
use std::process::ExitCode;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};

use failure::Failure;
use plain::Plain;
use text::{escaped, one_line};

/// Exit status for wrong arguments, as in clap.
const USAGE: u8 = 2;

/// Examples for the help, one a line, each in the help of the command that it calls.
const EXAMPLES: &str = include_str!("examples.txt");

/// A document store whose search index is learned together with its text encoder.
#[derive(Parser)]
#[command(name = "ehi", version, about, max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Train encoder and tree on a dataset's corpus, queries and train judgments
    Train(train::Args),
    /// Train a reranker on questions and the documents that answer them, and say whether it is of use
    TrainReranker(train_reranker::Args),
    /// Make an empty index with its own copy of a model, trained or not
    Create(store::CreateArgs),
    /// Say what a model does to a text: prompts, tokens, pooling, dimensions
    Model(describe::Args),
    /// Insert folders of files, or documents from JSON, CSV, TSV or a dataset; a document replaces the one
    /// with its id
    Insert(insert::Args),
    /// Insert the text files of folders, and follow their changes until Ctrl-C
    Watch(watch::Args),
    /// Find the documents that answer a question
    Search(search::Args),
    /// Find them, and say which leaves were reached, why, and what came from where
    Explain(explain::Args),
    /// Open a page in the browser to search the index, look into it and teach it
    #[cfg(feature = "explore")]
    Explore(explore::Args),
    /// What each leaf is about: distinctive words, typical documents, questions
    Leaves(leaves::Args),
    /// Whether the index is whole, and its tree still fits what is stored
    Health(store::ReportArgs),
    /// Print a document as a JSON line
    Get(documents::GetArgs),
    /// Print the ids of all documents, or of those that pass a filter
    Ids(documents::IdsArgs),
    /// Print the number of documents, or of those that pass a filter
    Count(documents::ListArgs),
    /// Print the values of fields of the metadata, with the number of documents that have each
    Facets(facets::Args),
    /// Print all documents, or those that pass a filter, as JSON lines that `insert` reads
    Export(documents::ListArgs),
    /// Delete a document, those that pass a filter, or those whose ids are in a file
    Delete(documents::DeleteArgs),
    /// Write the index anew, as small and fast as it can be, without what was deleted
    Compact(store::CompactArgs),
    /// Make a tree for what is stored, without labels and without encoding anything again
    Tune(tune::Args),
    /// Measure how many leaves a search needs to find what exact search finds
    Calibrate(calibrate::Args),
    /// Tell the index that a document answers a question, or does not
    Judge(judge::Args),
    /// Print what the index was told
    Judgments(judge::ListArgs),
    /// Print the questions that were written down, or begin or end that
    Questions(judge::QuestionsArgs),
    /// Train on the judgments, and change over to the result if it is better on judged questions set aside
    Learn(learn::Args),
    /// Make a small query encoder that gives what the full one gives, at a fraction of the cost
    Distil(distil::Args),
    /// Learn how much embeddings and words count in a search, and whether words help, from judged questions
    Fuse(fuse::Args),
    /// Copy the index as of its last flush into another directory, sharing its files where it can (for a
    /// backup, copy that to another disk)
    Snapshot(store::SnapshotArgs),
    /// Bring back what a writer that was cut off had stored and not flushed, and flush it
    Recover(store::WriteArgs),
    /// Bring a damaged index back to what can be read of it, also where it does not open
    Repair(repair::Args),
    /// Encode every document with another model and change over to it; the old one is kept
    Reencode(model::ReencodeArgs),
    /// Return to the model before the last change
    Rollback(store::WriteArgs),
    /// Give back the space of the model before the last change
    DropPrevious(store::WriteArgs),
    /// Sizes, counts and the load of the leaves
    Stats(store::ReportArgs),
    /// Read the whole index and check every checksum and invariant
    Verify(store::ReportArgs),
    /// Measure quality against documents visited on a dataset
    Eval(eval::Args),
    /// Serve the index to agents and editors by the Model Context Protocol, on standard input and output
    #[cfg(feature = "mcp")]
    Mcp(mcp::Args),
    /// Print completions for a shell
    Completions(generate::CompletionsArgs),
    /// Write the manual pages of all commands into a folder
    Man(generate::ManArgs),
}

fn main() -> ExitCode {
    let cli = match command().try_get_matches().and_then(|given| Cli::from_arg_matches(&given)) {
        Ok(cli) => cli,
        Err(error) => return refuse(&error),
    };
    log::start();
    // Not locked: servers write on other threads.
    let mut out = Plain::stdout();
    let result = run(cli.command, &mut out).and_then(|()| out.flush().map_err(Failure::Output));
    match result {
        Ok(()) => ExitCode::SUCCESS,
        // The reader has closed the pipe, as in `ehi search ... | head -1`.
        Err(Failure::Output(error)) if error.kind() == io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(failure) => {
            complain(&failure.line());
            failure.status()
        }
    }
}

/// The command line, with the examples of each command in its help.
fn command() -> clap::Command {
    Cli::command().long_version(version::long()).mut_subcommands(|command| {
        let call = format!("ehi {} ", command.get_name());
        let own: Vec<&str> = EXAMPLES.lines().filter(|line| line.contains(&call)).collect();
        match own.len() {
            0 => command,
            1 => command.after_help(format!("Example:\n  {}", own[0])),
            _ => command.after_help(format!("Examples:\n  {}", own.join("\n  "))),
        }
    })
}

fn run(command: Command, out: &mut dyn Write) -> Result<(), Failure> {
    match command {
        Command::Train(args) => train::run(&args, out),
        Command::TrainReranker(args) => train_reranker::run(&args, out),
        Command::Create(args) => store::create(&args, out),
        Command::Model(args) => describe::run(&args, out),
        Command::Insert(args) => insert::run(&args, out),
        Command::Watch(args) => watch::run(&args, out),
        Command::Search(args) => search::run(&args, out),
        Command::Explain(args) => explain::run(&args, out),
        #[cfg(feature = "explore")]
        Command::Explore(args) => explore::run(&args, out),
        Command::Leaves(args) => leaves::run(&args, out),
        Command::Health(args) => health::health(&args, out),
        Command::Get(args) => documents::get(&args, out),
        Command::Ids(args) => documents::ids(&args, out),
        Command::Count(args) => documents::count(&args, out),
        Command::Facets(args) => facets::run(&args, out),
        Command::Export(args) => documents::export(&args, out),
        Command::Delete(args) => documents::delete(&args, out),
        Command::Compact(args) => store::compact(&args, out),
        Command::Tune(args) => tune::run(&args, out),
        Command::Calibrate(args) => calibrate::run(&args, out),
        Command::Judge(args) => judge::run(&args, out),
        Command::Judgments(args) => judge::list(&args, out),
        Command::Questions(args) => judge::questions(&args, out),
        Command::Learn(args) => learn::run(&args, out),
        Command::Distil(args) => distil::run(&args, out),
        Command::Fuse(args) => fuse::run(&args, out),
        Command::Snapshot(args) => store::snapshot(&args, out),
        Command::Recover(args) => store::recover(&args, out),
        Command::Repair(args) => repair::run(&args, out),
        Command::Reencode(args) => model::reencode(&args, out),
        Command::Rollback(args) => model::rollback(&args, out),
        Command::DropPrevious(args) => model::drop_previous(&args, out),
        Command::Stats(args) => store::stats(&args, out),
        Command::Verify(args) => health::verify(&args, out),
        Command::Eval(args) => eval::run(&args, out),
        #[cfg(feature = "mcp")]
        Command::Mcp(args) => mcp::run(&args),
        Command::Completions(args) => generate::completions(&args, self::command()),
        Command::Man(args) => generate::man(&args, self::command(), out),
    }
}

/// Help and version as clap prints them; anything else as one line.
fn refuse(error: &clap::Error) -> ExitCode {
    match error.kind() {
        ErrorKind::DisplayHelp
        | ErrorKind::DisplayVersion
        | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            // A closed pipe is not an error when printing help.
            let _ = error.print();
            if error.use_stderr() { ExitCode::from(USAGE) } else { ExitCode::SUCCESS }
        }
        _ => {
            let said = escaped(&refusal(&error.to_string()));
            let given: Vec<String> = env::args().skip(1).collect();
            let tip = if begins_with_dash(error, &given) { DASH } else { "" };
            complain(&format!("{said}{tip} (see `ehi {}--help`)", subcommand(&given)));
            ExitCode::from(USAGE)
        }
    }
}

/// The command given, if any, and a space.
fn subcommand(given: &[String]) -> String {
    let named = given.first().filter(|name| Cli::command().find_subcommand(name).is_some());
    named.map_or_else(String::new, |name| format!("{name} "))
}

/// Whether an error may be about a question such as `-mice infection`, which clap reads as an option `-m`, or
/// as `-n` with a value.
fn begins_with_dash(error: &clap::Error, given: &[String]) -> bool {
    let said = |kind| match error.get(kind) {
        Some(ContextValue::String(text)) => text.as_str(),
        _ => "",
    };
    let value = said(ContextKind::InvalidValue);
    match error.kind() {
        ErrorKind::UnknownArgument if error.get(ContextKind::SuggestedArg).is_none() => {
            let found = said(ContextKind::InvalidArg);
            found.starts_with('-') && (!found.starts_with("--") || found.contains(char::is_whitespace))
        }
        ErrorKind::ValueValidation | ErrorKind::InvalidValue => {
            let is_short = |text: &str| text.len() == 2 && text.starts_with('-') && text != "--";
            let before = |text: &String| text.strip_suffix(value).is_some_and(is_short);
            !value.is_empty() && given.iter().any(before)
        }
        _ => false,
    }
}

/// What helps where an argument was read as an option.
const DASH: &str = "; put `--` before a question or a name that begins with `-`";

/// clap's error and suggestions, without usage.
fn refusal(whole: &str) -> String {
    let (mut said, mut tips) = (String::new(), String::new());
    for (place, paragraph) in whole.split("\n\n").enumerate() {
        if place == 0 {
            let text = paragraph.trim_start_matches("error: ");
            said = one_line(&text.replace("invalid digit found in string", "expected a whole number"));
        // That to pass `--limit` as a value would mislead most; see `DASH`.
        } else if paragraph.trim_start().starts_with(TIP) && !paragraph.contains(" as a value, ") {
            tips = one_line(paragraph).replace(TIP, ";");
        }
    }
    said + &tips
}

/// Prefix of clap's suggestions.
const TIP: &str = "tip:";

/// Prints one line on standard error, if that is open.
fn complain(line: &str) {
    let _ = writeln!(io::stderr(), "ehi: {line}");
}
