//! `ehi get`, `ids`, `count`, `export` and `delete`: the documents of an index.

use std::collections::BTreeSet;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use ehi::store::EncodedBy;
use ehi::{Document, Filter, Index, Outline, Similarity};
use serde::Serialize;
use serde_json::Value;

use crate::arguments::{filter, open};
use crate::failure::Failure;
use crate::hits::say_notes;
use crate::opening::{WaitArgs, open_read_only};
use crate::printing;
use crate::text::{counted, escaped};

/// Ids deleted in one commit.
const GROUP: usize = 10_000;
/// Documents read at once.
const READ: usize = 256;

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
    #[serde(skip_serializing_if = "Outline::is_empty")]
    _outline: &'a Outline,
    /// In an index without an encoder, which could not make it again; see [`vector::EXPORTED`].
    #[serde(skip_serializing_if = "Option::is_none")]
    _vector: Option<&'a [f32]>,
}

pub fn get(args: &GetArgs, out: &mut dyn Write) -> Result<(), Failure> {
    let document = open_read_only(&args.index)?.get(&args.id)?;
    print(out, &document.ok_or_else(|| absent(&args.index, &args.id))?, None)
}

pub fn ids(args: &IdsArgs, out: &mut dyn Write) -> Result<(), Failure> {
    let index = open_read_only(&args.list.index)?;
    let ids = match &args.list.filter {
        Some(filter) => ids_where(&index, filter)?,
        None => index.ids()?,
    };
    ids.iter().try_for_each(|id| match args.json {
        true => printing::json(out, id),
        false => writeln!(out, "{}", escaped(id)).map_err(Failure::Output),
    })
}

pub fn count(args: &ListArgs, out: &mut dyn Write) -> Result<(), Failure> {
    let index = open_read_only(&args.index)?;
    let count = match &args.filter {
        Some(filter) => index.count_where(filter)?,
        None => index.len(),
    };
    if let Some(filter) = args.filter.as_ref().filter(|_| count == 0) {
        say_notes(&index.why_nothing_passes(filter)?);
    }
    writeln!(out, "{count}").map_err(Failure::Output)
}

pub fn export(args: &ListArgs, out: &mut dyn Write) -> Result<(), Failure> {
    let index = open_read_only(&args.index)?;
    let has_encoder = index.bundle().model().has_encoder();
    // What a repair put in the place of lost ones.
    let of_lost: f32 = if index.similarity() == Similarity::Manhattan { 65_504.0 } else { -0.0 };
    let is_lost = |vector: &[f32]| vector.iter().all(|x| x.to_bits() == of_lost.to_bits());
    let (mut without_text, mut lost) = (0u64, 0u64);
    let mut write = |documents: Vec<Document>| -> Result<(), Failure> {
        let ids = documents.iter().map(|document| &document.id);
        let vectors = if has_encoder { Vec::new() } else { index.vectors(ids)? };
        let mut vectors = vectors.iter().map(|rows| rows.first().map(Vec::as_slice));
        documents.iter().try_for_each(|document| {
            without_text += u64::from(document.is_empty());
            let vector = vectors.next().flatten();
            lost += u64::from(vector.is_some_and(is_lost));
            print(out, document, vector.filter(|vector| !is_lost(vector)))
        })
    };
    match &args.filter {
        None => {
            let mut all = index.iter();
            loop {
                let group: Vec<Document> = all.by_ref().take(READ).collect::<Result<_, _>>()?;
                if group.is_empty() {
                    break;
                }
                write(group)?;
            }
        }
        Some(filter) => {
            for ids in ids_where(&index, filter)?.chunks(READ) {
                write(index.get_many(ids)?.into_iter().flatten().collect())?;
            }
        }
    }
    if !has_encoder {
        if lost > 0 {
            tracing::warn!(
                documents = lost,
                "some documents lost their vectors to damage and are exported without them; add vectors to these \
                 lines before `ehi insert`"
            );
        }
        return Ok(());
    }
    if without_text > 0 {
        tracing::warn!(
            documents = without_text,
            "some documents have an embedding and no text: embeddings are not exported, so `ehi insert` refuses \
             these; `ehi snapshot` copies them"
        );
    } else if index.stats()?.encoded_by.contains(&EncodedBy::Given) {
        tracing::warn!(
            "embeddings of some documents were given: they are not exported, and `ehi insert` makes them of the \
             texts; `ehi snapshot` copies them"
        );
    }
    Ok(())
}

pub fn delete(args: &DeleteArgs, out: &mut dyn Write) -> Result<(), Failure> {
    let index = args.wait.open(&args.index)?;
    let mut ids: Vec<String> = args.id.iter().cloned().collect();
    if let Some(path) = &args.ids_from {
        let read = open(path).and_then(io::read_to_string).map_err(Failure::file("open", path))?;
        // A repeated id is deleted once.
        let known: BTreeSet<&str> = read.trim_start_matches('\u{feff}').lines().collect();
        ids = known.into_iter().filter(|id| !id.is_empty()).map(str::to_owned).collect();
    }
    let mut deleted = 0;
    if let Some(filter) = &args.filter {
        deleted = index.delete_where(filter)?;
        if deleted == 0 {
            say_notes(&index.why_nothing_passes(filter)?);
        }
    }
    for group in ids.chunks(GROUP) {
        deleted += index.delete_batch(group)?;
    }
    index.flush()?;
    let left = index.len();
    match &args.id {
        Some(id) if deleted == 0 => Err(absent(&args.index, id)),
        Some(id) => writeln!(out, "deleted {}, {} left", escaped(id), counted(left, "document"))
            .map_err(Failure::Output),
        None => {
            let unknown = match ids.len().saturating_sub(deleted) {
                0 => String::new(),
                unknown => format!(", {} without a document", counted(unknown, "id")),
            };
            let deleted = counted(deleted, "document");
            writeln!(out, "deleted {deleted}{unknown}, {left} left").map_err(Failure::Output)
        }
    }
}

/// The ids of the documents that pass a filter. If none does, explains on standard error as far as the fields
/// tell.
fn ids_where(index: &Index, filter: &Filter) -> Result<Vec<String>, Failure> {
    let ids = index.ids_where(filter)?;
    if ids.is_empty() {
        say_notes(&index.why_nothing_passes(filter)?);
    }
    Ok(ids)
}

fn print(out: &mut dyn Write, document: &Document, vector: Option<&[f32]>) -> Result<(), Failure> {
    let Document { id, title, text, metadata, outline } = document;
    printing::json(
        out,
        &BeirLine { _id: id, title, text, metadata: metadata.as_ref(), _outline: outline, _vector: vector },
    )
}

fn absent(index: &Path, id: &str) -> Failure {
    Failure::Usage(format!("{} has no document `{}`", printing::path(index), escaped(id)))
}
