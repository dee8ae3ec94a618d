//! Recovery of commits that an earlier handle left in the log.

use std::path::Path;

use super::{
    Entries, Notice, Result, Store, StoreError,
    error::{Damage, Operation},
    layout::names,
    lock,
    log::{self, Frame, Log, Scan, Tail},
    manifest::Manifest,
    version::Version,
};
use crate::{disk::Backend, ids::Generation};

/// Contents of a log, and the number of documents in its commits.
pub(super) struct Waiting {
    pub(super) scan: Scan,
    pub(super) documents: u64,
}

/// Evidence that another manifest existed, and an older one was put back or that of another store was put in
/// its place: its copy, which is written after it, or a segment with a number that no crash leaves. Nothing
/// may be removed then.
pub(super) fn evidence_of_later(
    backend: &dyn Backend,
    dir: &Path,
    manifest: &Manifest,
) -> Option<StoreError> {
    let copy = Manifest::read_named(backend, dir, names::MANIFEST_COPY).ok();
    if let Some(copy) = copy.filter(|copy| manifest.is_superseded(backend, dir, copy)) {
        let (expected, found) = (copy.generation.0, manifest.generation.0);
        let detail = match copy.store_id == manifest.store_id {
            true => Damage::Disagreement { what: "its generation, by its copy", expected, found },
            false => Damage::Foreign,
        };
        return Some(StoreError::corrupt(names::MANIFEST, detail));
    }
    let mut unnamed = manifest.orphans(backend, dir).into_iter();
    unnamed.find(|name| name.segment > manifest.next_segment).map(|name| {
        let what = "a segment of a later manifest, number";
        StoreError::corrupt(name.to_string(), Damage::Stray { what, number: name.segment })
    })
}

/// Our files that a manifest does not need, relative to the store; `log`: whether its log is in use.
pub(super) fn unused(
    backend: &dyn Backend,
    dir: &Path,
    manifest: &Manifest,
    log: bool,
) -> Result<Vec<String>> {
    let mut unused: Vec<String> =
        manifest.orphans(backend, dir).into_iter().map(|name| name.to_string()).collect();
    let logs = log::bases(backend, dir)?.into_iter();
    let old = |base: &Generation| *base < manifest.generation || *base == manifest.generation && !log;
    unused.extend(logs.filter(old).map(log::name));
    unused.extend(log::provisional(backend, dir)?);
    Ok(unused)
}

/// The state with the commits of the log, the log to continue, and notices about its end.
///
/// # Errors
///
/// [`StoreError::Corrupt`] for a log that only a repair may change; damage of sealed files; failures of
/// reading and of writing. The log then stays as it is.
pub(super) fn recover(
    backend: &dyn Backend,
    dir: &Path,
    manifest: &Manifest,
    state: Version,
) -> Result<(Version, Option<Log>, Vec<Notice>)> {
    let bases = log::bases(backend, dir)?;
    bases.iter().try_for_each(|base| check_base(*base, manifest))?;
    if !bases.contains(&manifest.generation) {
        return Ok((state, None, Vec::new()));
    }
    let place = manifest.log();
    let (mut replayed, mut documents) = (state, 0);
    let found = log::scan(backend, dir, place, &mut |frame, commit| {
        if frame.is_behind {
            return Ok(());
        }
        let undecodable = || {
            let detail = Damage::Undecodable { what: "the commit at offset", number: frame.offset };
            StoreError::corrupt(log::name(place.base), detail)
        };
        let passages = manifest.config.passages.is_some();
        let commit = log::decode(commit, passages).ok_or_else(undecodable)?;
        commit.check(&manifest.config).map_err(|_| undecodable())?;
        documents += commit.puts.len() as u64;
        // It looks up ids in sealed files, so it can fail on their damage.
        replayed = replayed.apply(&manifest.config, &commit)?.0;
        // After a repair, a commit may change nothing because an earlier one was lost.
        replayed.generation = frame.generation;
        Ok(())
    })?;
    found.check()?;
    let mut notices = Vec::new();
    if found.commits > 0 {
        notices.push(Notice::TakenOver { commits: found.commits, count: documents, of: Entries::Documents });
    }
    notices.extend(notice_of(&found));
    let log = Log::resume(backend, dir, &found)?;
    Ok((replayed, Some(log), notices))
}

/// Refuses a log of a later manifest: either the manifest was put back, or the log belongs elsewhere.
pub(super) fn check_base(base: Generation, manifest: &Manifest) -> Result<()> {
    if base <= manifest.generation {
        return Ok(());
    }
    let (what, expected) = ("the generation that it comes after", manifest.generation.0);
    let detail = Damage::Disagreement { what, expected, found: base.0 };
    Err(StoreError::corrupt(log::name(base), detail))
}

/// The commits waiting in the log of a manifest; `None` without a log.
pub(super) fn waiting(backend: &dyn Backend, dir: &Path, manifest: &Manifest) -> Result<Option<Waiting>> {
    if !log::bases(backend, dir)?.contains(&manifest.generation) {
        return Ok(None);
    }
    let mut documents = 0;
    let mut count = |frame: Frame, commit: &[u8]| {
        documents += if frame.is_behind { 0 } else { log::puts_in(commit).into() };
        Ok(())
    };
    match log::scan(backend, dir, manifest.log(), &mut count) {
        Ok(scan) => Ok(Some(Waiting { scan, documents })),
        // A writer flushed in the meantime.
        Err(StoreError::Io { operation: Operation::Open, source, .. })
            if source.kind() == std::io::ErrorKind::NotFound =>
        {
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

impl Store {
    /// A read-only handle's notice of commits that it does not show.
    pub(super) fn waiting_notice(&self, waiting: &Waiting) -> Option<Notice> {
        let Waiting { scan, documents } = waiting;
        if let Tail::Damaged { detail, .. } = &scan.tail {
            return Some(Notice::DamagedLog { file: log::name(scan.place.base), damage: detail.clone() });
        }
        let waits = || Notice::Waiting {
            commits: scan.commits,
            count: *documents,
            of: Entries::Documents,
            writer: lock::live_holder(&self.dir),
        };
        (scan.commits > 0).then(waits)
    }
}

/// The notice for the end of a log, if it needs one.
pub(super) fn notice_of(scan: &Scan) -> Option<Notice> {
    let file = log::name(scan.place.base);
    match &scan.tail {
        Tail::Clean | Tail::Damaged { .. } => None,
        Tail::Torn { bytes } => Some(Notice::TornLog { file, offset: scan.end, bytes: *bytes }),
        Tail::Header => Some(Notice::DamagedHeader { file }),
        Tail::Cut => Some(Notice::TornLog { file, offset: scan.end, bytes: 0 }),
        Tail::Lost { commits } => {
            Some(Notice::LostInPowerFailure { file, offset: scan.end, commits: *commits })
        }
    }
}
