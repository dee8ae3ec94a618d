//! `ehi reencode`, `rollback` and `drop-previous`: change of model.

use std::io::Write;
use std::path::PathBuf;

use ehi::{Error, Index, ModelChange, OnProgress};
use serde_json::json;

use crate::failure::Failure;
use crate::long::AS_BEFORE;
use crate::models::{self, EncoderArgs};
use crate::opening::{CacheArgs, OwnModelArgs};
use crate::printing;
use crate::store::{ReportArgs, WriteArgs};
use crate::text::counted;

#[derive(clap::Args)]
pub struct ReencodeArgs {
    #[command(flatten)]
    write: WriteArgs,
    /// The bundle to change to, or an encoder in the sentence-transformers layout
    #[cfg_attr(feature = "hub", doc = "(or the name of one to fetch)")]
    #[arg(long, value_name = "MODEL")]
    model: PathBuf,
    #[command(flatten)]
    encoder: EncoderArgs,
    #[command(flatten)]
    own: OwnModelArgs,
    #[command(flatten)]
    cache: CacheArgs,
}

pub fn reencode(args: &ReencodeArgs, out: &mut dyn Write) -> Result<(), Failure> {
    let bundle = models::open(&args.model, &args.encoder)?;
    let WriteArgs { report, wait } = &args.write;
    let index = args.cache.of(wait.builder()).own_model(args.own.own_model).open(&report.index)?;
    change(index, report, out, |index, on_progress| index.with_progress(on_progress).reencode(&bundle))
}

pub fn rollback(args: &WriteArgs, out: &mut dyn Write) -> Result<(), Failure> {
    let WriteArgs { report, wait } = args;
    let index = wait.open(&report.index)?;
    change(index, report, out, |index, on_progress| index.with_progress(on_progress).rollback())
}

pub fn drop_previous(args: &WriteArgs, out: &mut dyn Write) -> Result<(), Failure> {
    let WriteArgs { report: args, wait } = args;
    let index = wait.open(&args.index)?;
    let before = index.stats()?.bytes.other_models;
    let dropped = index.drop_previous_model()?;
    let freed = before.saturating_sub(index.stats()?.bytes.other_models);
    let said = match (dropped, freed) {
        (true, _) => "the previous model and its embeddings are removed",
        (false, 0) => "there is no previous model",
        (false, _) => "there is no previous model; the remains of an interrupted change of model are removed",
    };
    let report = json!({ "dropped": dropped, "freed_bytes": freed });
    printing::report(out, args.json, &report, |out| writeln!(out, "{said}; {} freed", counted(freed, "byte")))
}

fn tree(index: &Index) -> String {
    let bundle = index.bundle();
    match bundle.has_tree() {
        true => format!("with a tree of {}", counted(bundle.model().indexer().shape().leaves(), "leaf")),
        false => "without a tree".to_owned(),
    }
}

fn change(
    index: Index,
    args: &ReportArgs,
    out: &mut dyn Write,
    run: impl FnOnce(&Index, &mut OnProgress<'_>) -> Result<ModelChange, Error>,
) -> Result<(), Failure> {
    args.run(index, out, AS_BEFORE, run, |out, index, change| {
        let ModelChange { from, to, documents, encoded, routed, .. } = change;
        let done = match (encoded, routed) {
            (0, 0) => "none of their texts changed since this model was last in use".to_owned(),
            (_, 0) => format!("{encoded} of them encoded again"),
            _ => format!("{routed} of them routed again without being encoded"),
        };
        writeln!(
            out,
            "{}, {done}; the index now uses model {:.12}, {}, in place of {:.12}\n\
             `ehi rollback` returns to the previous model; `ehi drop-previous` removes it and frees its space",
            counted(*documents, "document"),
            to.to_string(),
            tree(index),
            from.to_string(),
        )
    })
}
