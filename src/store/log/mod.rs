//! The log of commits that are not sealed yet: one append-only file for each memtable.
//!
//! A commit is one frame, written before it is acknowledged. The file `log/G.log` holds the commits that come
//! after generation G, which is that of the manifest; a flush seals them and makes the file obsolete. So the
//! log is the one place where an acknowledged commit may be, and it is read strictly:
//!
//! - The log ends at its last whole frame. What a crash left of the frame behind it was never acknowledged.
//! - Bytes that are no whole frame *before* a whole one are damage: an error that names file and offset. The
//!   one exception is a power failure, after which unsynced frames may be missing in any combination; nothing
//!   was promised of these. It is told apart by the start of the operating system that each frame names, and
//!   by how far the file was known to be durable.
//!
//! `docs/format.md` has every byte.

mod append;
mod codec;
mod frame;
mod scan;
#[cfg(test)]
mod tests;

use std::path::Path;

pub(super) use append::{Log, Room};
pub(super) use codec::{decode, encode, puts_in};
pub(super) use frame::Place;
#[cfg(feature = "fuzzing")]
pub(super) use scan::Frame;
pub(super) use scan::{Scan, Tail, scan};

use super::{Result, files, layout::names};
use crate::{
    disk::{Backend, Kind},
    ids::Generation,
};

/// Where the log that comes after a generation is, relative to the store.
pub(super) fn name(base: Generation) -> String {
    format!("{}/{:08}.log", names::LOG, base.0)
}

/// The generation that a log of this name comes after; `None` for a name that is not ours.
pub(super) fn base_of(name: &str) -> Option<Generation> {
    let digits = name.strip_suffix(".log")?;
    let base = digits.bytes().all(|byte| byte.is_ascii_digit()).then(|| digits.parse().ok())?.map(Generation);
    // One name for each number.
    base.filter(|base| self::name(*base).ends_with(&format!("/{name}")))
}

/// Logs that a repair was writing when it was cut off, relative to the store.
pub(super) fn provisional(backend: &dyn Backend, dir: &Path) -> Result<Vec<String>> {
    let ours = |name: &str| name.strip_suffix(".new").is_some_and(|name| base_of(name).is_some());
    let found = list(backend, dir)?.into_iter().filter(|name| ours(name));
    Ok(found.map(|name| format!("{}/{name}", names::LOG)).collect())
}

/// The generations that logs in a store come after, ascending.
pub(super) fn bases(backend: &dyn Backend, dir: &Path) -> Result<Vec<Generation>> {
    let mut bases: Vec<Generation> = list(backend, dir)?.iter().filter_map(|name| base_of(name)).collect();
    bases.sort_unstable();
    Ok(bases)
}

/// The names in the directory of the logs.
fn list(backend: &dyn Backend, dir: &Path) -> Result<Vec<String>> {
    let path = dir.join(names::LOG);
    match files::kind(backend, &path)? {
        Some(Kind::Directory) => files::list(backend, &path),
        _ => Ok(Vec::new()),
    }
}
