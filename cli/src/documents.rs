//! `ehi get`, `ids`, `count`, `export` and `delete`: the documents of an index.

use std::collections::HashSet;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Write};
use std::path::{Path, PathBuf};

use ehi::{Document, Filter, Index};
use serde::Serialize;
use serde_json::Value;

use crate::arguments::filter;
use crate::escape::escaped;
use crate::failure::Failure;
use crate::hits::say_notes;
use crate::opening::{WaitArgs, open_read_only};
use crate::printing;

/// Ids deleted in one commit.
const GROUP: usize = 10_000;

#[derive(clap::Args)]
pub struct GetArgs {
    /// Directory of the index
    #[arg(long, env = "EHI_INDEX", value_name = "DIR")]
    index: PathBuf,
    /// The document's id
    id: String,
}

#[derive(clap::Args)]
pub struct ListArgs {
    /// Directory of the index
    #[arg(long, env = "EHI_INDEX", value_name = "DIR")]
    index: PathBuf,
    /// Only the documents whose metadata pass, for instance {"year": {"$gte": 2010}}; @FILE reads it from a
    /// file, - from standard input
    #[arg(long, value_name = "JSON", value_parser = filter)]
    filter: Option<Filter>,
}

#[derive(clap::Args)]
pub struct IdsArgs {
    #[command(flatten)]
    list: ListArgs,
    /// Print each id as a JSON string
    #[arg(long)]
    json: bool,
}

#[derive(clap::Args)]
#[group(id = "chosen", required = true, multiple = false, args = ["id", "filter", "ids_from"])]
pub struct DeleteArgs {
    /// Directory of the index
    #[arg(long, env = "EHI_INDEX", value_name = "DIR")]
    index: PathBuf,
    /// The document's id
    id: Option<String>,
    /// Delete the documents whose metadata pass, for instance {"lang": "en"}; @FILE reads it from a file, -
    /// from standard input
    #[arg(long, value_name = "JSON", value_parser = filter)]
    filter: Option<Filter>,
    /// Delete the documents whose ids are in a file, one a line; `-` reads standard input
    #[arg(long, value_name = "FILE")]
    ids_from: Option<PathBuf>,
    #[command(flatten)]
    wait: WaitArgs,
}

/// A document with the keys of a BEIR corpus line, in their usual order; `ehi insert` reads it back.
#[derive(Serialize)]
struct BeirLine<'a> {
    _id: &'a str,
    title: &'a str,
    text: &'a str,
    metadata: Option<&'a Value>,
}

pub fn get(args: &GetArgs, out: &mut dyn Write) -> Result<(), Failure> {
    let document = open_read_only(&args.index)?.get(&args.id)?;
    print(out, &document.ok_or_else(|| absent(&args.index, &args.id))?)
}

pub fn ids(args: &IdsArgs, out: &mut dyn Write) -> Result<(), Failure> {
    args.list.each(&mut |document| match args.json {
        true => printing::json(out, &document.id),
        false => writeln!(out, "{}", escaped(&document.id)).map_err(Failure::Output),
    })
}

pub fn count(args: &ListArgs, out: &mut dyn Write) -> Result<(), Failure> {
    let mut count = 0u64;
    if args.filter.is_some() {
        args.each(&mut |_| {
            count += 1;
            Ok(())
        })?;
    } else {
        count = open_read_only(&args.index)?.len() as u64;
    }
    writeln!(out, "{count}").map_err(Failure::Output)
}

pub fn export(args: &ListArgs, out: &mut dyn Write) -> Result<(), Failure> {
    let mut without_text = 0u64;
    args.each(&mut |document| {
        without_text += u64::from(document.is_empty());
        print(out, &document)
    })?;
    if without_text > 0 {
        tracing::warn!(
            documents = without_text,
            "some documents have an embedding and no text: embeddings are not exported, so `ehi insert` refuses \
             these; `ehi snapshot` copies them"
        );
    }
    Ok(())
}

pub fn delete(args: &DeleteArgs, out: &mut dyn Write) -> Result<(), Failure> {
    let index = args.wait.open(&args.index)?;
    let (mut asked, mut deleted) = (0, 0);
    let mut group = Vec::new();
    let mut give = |id: Option<String>| -> Result<(), Failure> {
        let last = id.is_none();
        group.extend(id);
        if group.len() >= GROUP || last {
            asked += group.len();
            deleted += index.delete_batch(group.drain(..))?;
        }
        Ok(())
    };
    if let Some(path) = &args.ids_from {
        let mut known = HashSet::new();
        for (number, line) in lines(path)?.enumerate() {
            let line = line.map_err(|source| Failure::File { action: "read", path: path.clone(), source })?;
            let id = if number == 0 { line.trim_start_matches('\u{feff}') } else { &line };
            // A repeated id has already been deleted.
            if !id.is_empty() && known.insert(id.to_owned()) {
                give(Some(id.to_owned()))?;
            }
        }
    }
    if let Some(filter) = &args.filter {
        each(&index, Some(filter), &mut |document| give(Some(document.id)))?;
    }
    if let Some(id) = &args.id {
        give(Some(id.clone()))?;
    }
    give(None)?;
    index.flush()?;
    let left = index.len();
    match &args.id {
        Some(id) if deleted == 0 => Err(absent(&args.index, id)),
        Some(id) => writeln!(out, "deleted {}, {left} documents left", escaped(id)).map_err(Failure::Output),
        None => {
            let unknown = asked - deleted;
            let unknown = match unknown {
                0 => String::new(),
                1 => ", 1 id without a document".to_owned(),
                more => format!(", {more} ids without a document"),
            };
            let documents = if deleted == 1 { "document" } else { "documents" };
            writeln!(out, "deleted {deleted} {documents}{unknown}, {left} left").map_err(Failure::Output)
        }
    }
}

impl ListArgs {
    /// The documents that pass, in the byte order of their ids.
    fn each(&self, visit: &mut dyn FnMut(Document) -> Result<(), Failure>) -> Result<(), Failure> {
        each(&open_read_only(&self.index)?, self.filter.as_ref(), visit)
    }
}

/// The documents that pass a filter, in the byte order of their ids. If none does, explains on standard error
/// as far as the fields tell.
fn each(
    index: &Index,
    filter: Option<&Filter>,
    visit: &mut dyn FnMut(Document) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let mut has_passed = false;
    for document in index.iter() {
        let document = document?;
        if filter.is_none_or(|filter| filter.matches(&document.id, document.metadata.as_ref())) {
            has_passed = true;
            visit(document)?;
        }
    }
    if let Some(filter) = filter.filter(|_| !has_passed) {
        say_notes(&index.why_nothing_passes(filter)?);
    }
    Ok(())
}

fn print(out: &mut dyn Write, document: &Document) -> Result<(), Failure> {
    let Document { id, title, text, metadata, .. } = document;
    printing::json(out, &BeirLine { _id: id, title, text, metadata: metadata.as_ref() })
}

fn lines(path: &Path) -> Result<Box<dyn Iterator<Item = io::Result<String>>>, Failure> {
    if path == Path::new("-") {
        return Ok(Box::new(io::stdin().lines()));
    }
    let open = |source| Failure::File { action: "open", path: path.to_owned(), source };
    Ok(Box::new(BufReader::new(File::open(path).map_err(open)?).lines()))
}

fn absent(index: &Path, id: &str) -> Failure {
    Failure::Usage(format!("{} has no document `{}`", printing::path(index), escaped(id)))
}
