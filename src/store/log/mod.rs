//! The log of unsealed commits: one append-only file for each memtable.
//!
//! A commit is one frame, written before it is acknowledged. The file `log/G.log` holds the commits after
//! generation G, which is that of the manifest; a flush seals them and makes the file obsolete. So an
//! acknowledged commit may exist only in the log, which is therefore read strictly:
//!
//! - The log ends at its last whole frame. Whatever a crash left of a following frame was never acknowledged.
//! - Bytes that are not a whole frame *before* a whole one are damage: an error that names file and offset.
//!   The one exception is a power failure, after which unsynced frames may be missing in any combination;
//!   these carried no promise. It is recognised by the boot that each frame names, and by the offset up to
//!   which the file was known to be durable.
//!
//! `docs/format.md` describes every byte.

mod append;
mod codec;
mod frame;
mod scan;
#[cfg(test)]
mod tests;

use std::path::Path;

pub(super) use append::{Log, Room};
pub(super) use codec::{decode, encode, puts_in};
pub(super) use frame::LogPlace;
pub(super) use scan::{Frame, Scan, Tail, scan};

use super::{Result, files, layout::names};
use crate::{disk::Backend, ids::Generation};

/// The path of the log after a generation, relative to the store.
pub(super) fn name(base: Generation) -> String {
    format!("{}/{:08}.log", names::LOG, base.0)
}

/// The generation that precedes the log with this name; `None` for a foreign name.
pub(super) fn base_of(name: &str) -> Option<Generation> {
    let digits = name.strip_suffix(".log")?;
    let base = digits.bytes().all(|byte| byte.is_ascii_digit()).then(|| digits.parse().ok())?.map(Generation);
    // Each number has only one valid name.
    base.filter(|base| self::name(*base).ends_with(&format!("/{name}")))
}

/// Unfinished logs of interrupted repairs, relative to the store.
pub(super) fn provisional(backend: &dyn Backend, dir: &Path) -> Result<Vec<String>> {
    let ours = |name: &str| name.strip_suffix(".new").is_some_and(|name| base_of(name).is_some());
    let found = files::list(backend, &dir.join(names::LOG))?.into_iter().filter(|name| ours(name));
    Ok(found.map(|name| format!("{}/{name}", names::LOG)).collect())
}

/// The generations that have a log in a store, ascending.
pub(super) fn bases(backend: &dyn Backend, dir: &Path) -> Result<Vec<Generation>> {
    let mut bases: Vec<Generation> =
        files::list(backend, &dir.join(names::LOG))?.iter().filter_map(|name| base_of(name)).collect();
    bases.sort_unstable();
    Ok(bases)
}
