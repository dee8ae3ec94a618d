//! Writes generations to disk: sealing fresh documents, merging segments, and compaction.
//!
//! The steps of a flush and its commit point are in docs/format.md, "Commit protocol"; functions name them by
//! the numbers there.
//!
//! A failed write changes nothing, since only new files are written, and these are removed. After a failed
//! sync in any step, the state on disk is unknown, and the handle refuses writes from then on. If the disk is
//! full, the reserve is freed and the documents in memory are sealed without merging.

use std::sync::{Arc, atomic::Ordering};

use super::{
    Result, Store, StoreConfig, StoreError, Writer,
    error::Operation,
    files,
    layout::names,
    manifest::{Manifest, SegmentEntry},
    part::VersionPart,
    recovery,
    reroute::{Route, rerouted},
    rows::{Member, RowSource},
    segment::{self, Codes, NewSegment, Segment},
    tombstones::TombstoneFile,
    version::Version,
};
use crate::ids::ModelHash;

/// A segment is merged with the following ones once those have more than half as many documents.
const MERGE_RATIO: u32 = 2;
/// A segment is rewritten once one in this many of its rows is dead.
const DEAD_SHARE: u32 = 4;

/// What is recomputed for rewritten documents.
#[derive(Clone, Copy, Default)]
struct Rewrite<'a> {
    /// Recomputes their leaves.
    route: Option<Route<'a>>,
    /// The configuration that the index has from then on, if another one.
    config: Option<&'a StoreConfig>,
}

/// Called after each document; an error ends the call.
pub(crate) type Tick<'a> = &'a mut dyn FnMut() -> Result<()>;

impl Store {
    /// Makes all commits so far durable.
    ///
    /// # Durability
    ///
    /// Earlier commits survive a power failure once this has returned, and read-only handles see them after
    /// their next [`Store::refresh`]. With [`Durability::None`](super::Durability::None) the files are
    /// written but not synced.
    ///
    /// # Errors
    ///
    /// After a failed write, the call may be repeated. A failed sync poisons the handle: reopen the index to
    /// find out its state.
    pub fn flush(&self) -> Result<()> {
        let mut writer = self.lock_writer()?;
        if self.is_sealed(&writer) {
            return Ok(());
        }
        let sealed = self.seal(&mut writer, &self.state());
        sealed.map_err(|error| self.with_numbers(&writer, error, 0))
    }

    /// Writes all documents to one new segment, in the order in which searches read them, and frees the space
    /// of the dead ones. Readers continue in the meantime; writers wait.
    ///
    /// # Durability
    ///
    /// As [`Store::flush`]. No byte of a deleted document is left in the directory of the index.
    ///
    /// # Errors
    ///
    /// As [`Store::flush`], and errors of `tick`; then nothing has changed. If a file with deleted data
    /// cannot be removed, that is the error, and the documents are compact.
    pub fn compact(&self, tick: Tick<'_>) -> Result<()> {
        let mut writer = self.lock_writer()?;
        let state = self.state();
        let _span = compaction("compact", &state).entered();
        let compact = self.is_sealed(&writer) && state.parts.len() <= 1 && state.live_rows == state.rows;
        if !compact {
            let all = vec![true; state.parts.len()];
            let replaced = self.replace(&mut writer, &state, &all, Rewrite::default(), tick);
            replaced.map_err(|error| self.with_numbers(&writer, error, 0))?;
        }
        // A crash may have left files that should have been removed.
        self.collect_garbage(&mut writer)?;
        let segments = self.dir.join(names::SEGMENTS);
        for dir in [&segments, &self.dir] {
            self.health.note(files::sync(&*self.backend, dir))?;
        }
        Ok(())
    }

    /// As [`Store::compact`], with all documents put in the leaves returned by `route`.
    ///
    /// # Errors
    ///
    /// As [`Store::compact`], and [`StoreError::BadRows`] for leaves that cannot be stored.
    pub fn rebuild_postings(&self, route: Route<'_>, tick: Tick<'_>) -> Result<()> {
        let rewrite = Rewrite { route: Some(route), ..Rewrite::default() };
        self.rewrite_all("rebuild_postings", &mut *self.lock_writer()?, rewrite, tick)
    }

    /// As [`Self::rebuild_postings`], with the leaves of another model with the same encoder, to which the
    /// store belongs from then on. Ends the handle, which has the old configuration.
    ///
    /// # Errors
    ///
    /// As [`Self::rebuild_postings`].
    pub fn replace_tree(
        self,
        model_hash: ModelHash,
        (branching_factor, height): (u32, u32),
        route: Route<'_>,
        tick: Tick<'_>,
    ) -> Result<()> {
        let mut writer = self.lock_writer()?;
        let own = writer.manifest.config.clone();
        let config = StoreConfig { model_hash, branching_factor, height, ..own };
        let rewrite = Rewrite { route: Some(route), config: Some(&config) };
        self.rewrite_all("replace_tree", &mut writer, rewrite, tick)
    }

    /// Rewrites the documents of all parts.
    fn rewrite_all(
        &self,
        call: &'static str,
        writer: &mut Writer,
        rewrite: Rewrite<'_>,
        tick: Tick<'_>,
    ) -> Result<()> {
        let state = self.state();
        let _span = compaction(call, &state).entered();
        self.replace(writer, &state, &vec![true; state.parts.len()], rewrite, tick)
    }

    /// As [`Store::compact`], with posting lists of terms of this kind, which all rows have from then on. The
    /// store must have none, or lists of this kind.
    ///
    /// # Errors
    ///
    /// As [`Store::compact`], and [`StoreError::Terms`].
    pub fn make_lexical(&self, terms: u8, tick: Tick<'_>) -> Result<()> {
        // Held until the handle has the new terms: a flush in between would write a segment without them.
        let mut writer = self.lock_writer()?;
        if self.lexer_of(terms).is_none() || ![0, terms].contains(&self.terms()) {
            return Err(StoreError::no_lexer());
        }
        let config = StoreConfig { terms, ..writer.manifest.config.clone() };
        let rewrite = Rewrite { config: Some(&config), ..Rewrite::default() };
        self.rewrite_all("make_lexical", &mut writer, rewrite, tick)?;
        self.terms.store(terms, Ordering::Release);
        Ok(())
    }

    /// Whether the manifest covers all commits.
    pub(super) fn is_sealed(&self, writer: &Writer) -> bool {
        writer.manifest.generation == self.state().generation
    }

    /// Seals the fresh documents of a generation, merging if due, and publishes it. On a full disk nothing is
    /// merged, and the reserve is used.
    pub(super) fn seal(&self, writer: &mut Writer, state: &Version) -> Result<()> {
        let (generation, documents) = (state.generation.0, state.memtable_documents());
        let _span = tracing::info_span!("flush", generation, documents).entered();
        let due = due(&state.parts);
        match self.replace(writer, state, &due, Rewrite::default(), &mut || Ok(())) {
            Err(error) if error.is_out_of_space() && self.health.check_writes().is_ok() => {
                writer.reserve.release();
                let memtable: Vec<bool> = state.parts.iter().map(|part| part.segment().is_none()).collect();
                self.replace(writer, state, &memtable, Rewrite::default(), &mut || Ok(())).inspect_err(|_| {
                    // For the next attempt.
                    let _ = writer.reserve.ensure(&*self.backend, state);
                })
            }
            sealed => sealed,
        }
    }

    /// As [`Self::try_replace`]; a failure leaves no file behind.
    fn replace(
        &self,
        writer: &mut Writer,
        state: &Version,
        merged: &[bool],
        rewrite: Rewrite<'_>,
        tick: Tick<'_>,
    ) -> Result<()> {
        self.fence(writer)?;
        let replaced = self.try_replace(writer, state, merged, rewrite, tick);
        // Requires that the state on disk is known.
        if replaced.is_err() && self.health.check_writes().is_ok() {
            let _ = self.backend.remove(&self.dir.join(names::MANIFEST_NEW));
            let _ = self.remove_orphans(writer);
        }
        replaced
    }

    /// Builds the next manifest: the parts marked in `merged` become one segment.
    fn try_replace(
        &self,
        writer: &mut Writer,
        state: &Version,
        merged: &[bool],
        rewrite: Rewrite<'_>,
        tick: Tick<'_>,
    ) -> Result<()> {
        let mut manifest = Manifest {
            generation: state.generation,
            next_segment: writer.manifest.next_segment + 1,
            segments: Vec::new(),
            ..writer.manifest.clone()
        };
        if let Some(config) = rewrite.config {
            manifest.config = config.clone();
        }
        let built = self.build(state, merged, &manifest, rewrite, tick)?;
        let mut parts = Vec::new();
        for (part, _) in state.parts.iter().zip(merged).filter(|(_, merged)| !**merged) {
            let Some(segment) = part.segment() else { continue };
            let (files, mut part) = (segment.files(), part.clone());
            // Rows only ever die, so equal counts mean equal sets.
            if part.on_disk.map_or(0, |file| file.count) != part.tombstones.count() {
                let (folder, now) = (self.folder(), state.generation);
                let file = TombstoneFile::write(folder, files.number, now, &part.tombstones);
                part.on_disk = Some(self.health.note(file)?);
            }
            manifest.segments.push(SegmentEntry { files, tombstones: part.on_disk });
            parts.push(part);
        }
        if let Some(segment) = built {
            manifest.segments.push(SegmentEntry { files: segment.files(), tombstones: None });
            parts.push(VersionPart::sealed(Arc::new(segment), Arc::default(), None)?);
        }
        let next = Version::new(state.generation, parts)?;
        self.make_current(writer, manifest)?;
        self.publish(next);
        writer.durable = u64::from(state.live);
        // Logged where it happens.
        let _ = self.collect_garbage(writer);
        Ok(())
    }

    /// A segment of the live rows of the marked parts; `None` if there are none.
    fn build(
        &self,
        state: &Version,
        merged: &[bool],
        manifest: &Manifest,
        rewrite: Rewrite<'_>,
        tick: Tick<'_>,
    ) -> Result<Option<Segment>> {
        let chosen: Vec<&VersionPart> =
            state.parts.iter().zip(merged).filter(|(_, merged)| **merged).map(|(part, _)| part).collect();
        let rerouted = rewrite.route.map(|route| {
            let parts = chosen.iter().map(|part| rerouted(part, &manifest.config, route));
            parts.collect::<Result<Vec<_>>>()
        });
        let rerouted = rerouted.transpose()?;
        let found_anew = |member: &Member| {
            rerouted.as_ref().map(|parts| parts[member.source as usize][member.row as usize])
        };
        let sources: Vec<&dyn RowSource> = chosen.iter().map(|part| &***part as &dyn RowSource).collect();
        let members: Vec<Member> = (0..)
            .zip(&chosen)
            .flat_map(|(source, part)| part.live_rows().map(move |row| Member { source, row }))
            .collect();
        if members.is_empty() {
            return Ok(None);
        }
        let codes = Codes::wanted(&self.config, &self.options);
        let lexer = match manifest.config.terms {
            0 => None,
            terms => Some(self.lexer_of(terms).ok_or_else(StoreError::no_lexer)?),
        };
        let lexer = lexer.as_deref();
        let number = manifest.next_segment - 1;
        let segment =
            NewSegment { number, codes, lexer, expires: self.config.expires.as_deref(), leaf: &found_anew };
        let built = segment::build(self.folder(), segment, &sources, members, tick);
        let built = self.health.note(built)?;
        Segment::open(self.folder(), self.config.dim, built, false).map(Some)
    }

    /// Checks that the directory is as this handle left it.
    ///
    /// # Errors
    ///
    /// [`StoreError::Replaced`]; then the handle refuses writes.
    fn fence(&self, writer: &Writer) -> Result<()> {
        let path = self.dir.join(names::MANIFEST);
        let check = || {
            self.lock.as_ref().map_or(Ok(()), |lock| lock.check())?;
            let found = self.backend.identity(&path).map_err(StoreError::io(&path, Operation::Read))?;
            let same = match Manifest::read(&*self.backend, &self.dir) {
                Ok(manifest) => manifest == writer.manifest,
                Err(StoreError::Corrupt { .. } | StoreError::UnsupportedVersion { .. }) => false,
                // Removed, or not a file any more.
                Err(_) if found.is_none() => false,
                Err(other) => return Err(other),
            };
            match same && found == writer.left {
                true => Ok(()),
                false => Err(StoreError::Replaced { path: path.clone() }),
            }
        };
        self.health.note(check())
    }

    /// Steps 3 to 8.
    fn make_current(&self, writer: &mut Writer, manifest: Manifest) -> Result<()> {
        let backend = &*self.backend;
        let segments = self.dir.join(names::SEGMENTS);
        self.health.note(files::sync(backend, &segments))?;
        self.health.note(manifest.write_provisional(backend, &self.dir))?;
        let provisional = self.dir.join(names::MANIFEST_NEW);
        let left = backend.identity(&provisional).map_err(StoreError::io(&provisional, Operation::Read))?;
        self.fence(writer)?;
        // After any failure here, it is unknown which manifest is on disk.
        Manifest::publish(backend, &self.dir).inspect_err(|_| self.health.refuse_writes())?;
        writer.left = left;
        manifest.write_copy(backend, &self.dir);
        writer.manifest = manifest;
        Ok(())
    }

    /// Step 9. Failures only matter for space and for data that should be gone; the first one is returned.
    fn collect_garbage(&self, writer: &mut Writer) -> Result<()> {
        writer.log = None;
        let removed = self.remove_orphans(writer);
        let state = self.state();
        writer.reserve.shrink(&state);
        if let Err(error) = writer.reserve.ensure(&*self.backend, &state) {
            tracing::warn!(index = %self.dir.display(), %error, "could not reserve disk space for the next flush");
        }
        removed
    }

    /// Removes our files that the manifest does not name, and logs of sealed commits.
    pub(super) fn remove_orphans(&self, writer: &Writer) -> Result<()> {
        let backend = &*self.backend;
        // The log of this generation is in use, unless it cannot have any commit.
        let unused = recovery::unused(backend, &self.dir, &writer.manifest, writer.log.is_some())?;
        let mut first = Ok(());
        for name in unused {
            let path = self.dir.join(&name);
            if let Err(error) = backend.remove(&path) {
                tracing::warn!(index = %self.dir.display(), file = %name, %error, "could not remove");
                first = first.and(Err(StoreError::io(path, Operation::Remove)(error)));
            }
        }
        first
    }
}

/// The tracing span of a call that rewrites all documents.
fn compaction(call: &'static str, state: &Version) -> tracing::Span {
    let (generation, documents, parts) = (state.generation.0, state.live, state.parts.len());
    tracing::info_span!("compaction", call, generation, documents, parts)
}

/// Which parts go into the next segment: the fresh ones, preceding sealed ones that are not much larger, and
/// those with many dead rows.
fn due(parts: &[VersionPart]) -> Vec<bool> {
    let mut merged = vec![false; parts.len()];
    let mut rows = 0u32;
    let mut open = true;
    for (place, part) in parts.iter().enumerate().rev() {
        let (live, sealed) = (part.live(), part.segment().is_some());
        open &= !sealed || live < rows.saturating_mul(MERGE_RATIO);
        merged[place] = !sealed || open || part.tombstones.count() > part.rows() / DEAD_SHARE;
        if merged[place] {
            rows = rows.saturating_add(live);
        }
    }
    merged
}
