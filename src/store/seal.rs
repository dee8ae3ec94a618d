//! Bringing generations to disk: sealing what is fresh, merging segments, and compaction.
//!
//! # The commit point
//!
//! 1. The fresh documents, and those of the segments that are to be merged with them, are written to the
//!    two files of a new segment, and both are synced.
//! 2. For each other segment with rows that died since, a new file of dead rows is written and synced.
//! 3. The directory `segments` is synced: the names of steps 1 and 2 last.
//! 4. `MANIFEST.new`, which names the files, is written and synced.
//! 5. It is renamed to `MANIFEST`. **Commit point**: before it the old generation is what a crash
//!    leaves, after it the new one. No file of the old one was touched.
//! 6. The directory of the index is synced: now the generation lasts.
//! 7. Files that no manifest names any more are removed, and the journal begins anew.
//!
//! A write that fails changes nothing, since only new files are written. After a failed sync in any
//! step nobody knows what is on disk, and the handle refuses writes from then on.

use std::{collections::HashSet, path::Path, sync::Arc};

use super::{
    JournalState, Result, Store, StoreError, Writer,
    dead::{DeadFile, DeadRows},
    error::Operation,
    journal::Journal,
    layout::names,
    manifest::{Manifest, Models, SegmentEntry},
    part::{Part, Place},
    reroute::{Rerouted, Route},
    segment::{self, Codes, Member, NewSegment, Segment, Source},
    state::State,
};
use crate::disk::Backend;

/// A segment is merged with what comes after it once that is at least half as large.
const MERGE_RATIO: u32 = 2;
/// A segment is written anew once one in this many of its rows is dead.
const DEAD_SHARE: u32 = 4;

/// Called after each document; an error ends the call.
pub(crate) type Tick<'a> = &'a mut dyn FnMut() -> Result<()>;

impl Store {
    /// Makes all commits so far durable.
    ///
    /// # Durability
    ///
    /// What was committed before survives a power failure once this has returned, and read-only handles
    /// see it after their next [`Store::refresh`]. With [`Durability::None`](super::Durability::None) the files are
    /// written but not synced.
    ///
    /// # Errors
    ///
    /// After a failed write the call may be repeated. A failed sync poisons the handle: open the index
    /// again to find out what is there.
    pub fn flush(&self) -> Result<()> {
        let mut writer = self.lock_writer()?;
        if self.is_sealed(&writer) { Ok(()) } else { self.seal(&mut writer, &self.state()) }
    }

    /// Writes all documents to one new segment, in the order in which searches read them, and
    /// gives back the space of the dead ones. Readers go on meanwhile; writers wait.
    ///
    /// # Durability
    ///
    /// As [`Store::flush`]. No byte of a deleted document is left in the directory of the index.
    ///
    /// # Errors
    ///
    /// As [`Store::flush`], and what `tick` answers; then nothing has changed. Where a file that holds what was deleted cannot
    /// be removed, that is the error, and the documents are compact.
    pub fn compact(&self, tick: Tick<'_>) -> Result<()> {
        let mut writer = self.lock_writer()?;
        let state = self.state();
        let compact = self.is_sealed(&writer) && state.parts().len() <= 1 && state.live() == state.rows();
        if !compact {
            let all = vec![true; state.parts().len()];
            self.replace(&mut writer, &state, &all, None, tick)?;
        }
        // A journal keeps what it forgets until it is removed.
        writer.journal = JournalState::Broken;
        // A crash may have left files that should be gone.
        self.forget(&mut writer)?;
        let segments = self.dir.join(names::SEGMENTS);
        for dir in [&segments, &self.dir] {
            let synced = self.backend.sync_directory(dir);
            self.poison_if_sync(synced.map_err(StoreError::io(dir, Operation::Sync)))?;
        }
        Ok(())
    }

    /// As [`Store::compact`], with all documents put in the leaves that `route` says.
    ///
    /// # Errors
    ///
    /// As [`Store::compact`], and [`StoreError::LeafCount`], [`StoreError::LeafOutOfRange`] or
    /// [`StoreError::DuplicateLeaf`] for what cannot be stored.
    pub fn rebuild_postings(&self, route: Route<'_>, tick: Tick<'_>) -> Result<()> {
        let mut writer = self.lock_writer()?;
        let state = self.state();
        let all = vec![true; state.parts().len()];
        self.replace(&mut writer, &state, &all, Some(route), tick)
    }

    /// Seals what is not yet sealed, and then says which store is to serve the index from now on.
    ///
    /// # Durability
    ///
    /// As [`Store::flush`].
    ///
    /// # Errors
    ///
    /// As [`Store::flush`]; then nothing has changed.
    pub(crate) fn point_to(&self, models: Models) -> Result<()> {
        let mut writer = self.lock_writer()?;
        if !self.is_sealed(&writer) {
            self.seal(&mut writer, &self.state())?;
        }
        let manifest = Manifest { models: models.counted(&writer.manifest), ..writer.manifest.clone() };
        self.make_current(&manifest)?;
        writer.manifest = manifest;
        Ok(())
    }

    /// Gives up all documents of this store, which another one serves by now, and says so.
    ///
    /// # Durability
    ///
    /// As [`Store::flush`].
    ///
    /// # Errors
    ///
    /// As [`Store::flush`]; then nothing has changed.
    pub(crate) fn give_up(&self, models: Models) -> Result<()> {
        let mut writer = self.lock_writer()?;
        let generation = self.state().generation.next();
        let models = models.counted(&writer.manifest);
        let manifest = Manifest { models, generation, segments: Vec::new(), ..writer.manifest.clone() };
        self.make_current(&manifest)?;
        self.publish(State::new(generation, Vec::new())?);
        writer.manifest = manifest;
        // Said where it happens.
        let _ = self.forget(&mut writer);
        Ok(())
    }

    /// Whether the manifest has all commits.
    pub(super) fn is_sealed(&self, writer: &Writer) -> bool {
        writer.manifest.generation == self.state().generation
    }

    /// Seals the fresh documents of a generation, merging as it becomes due, and publishes it.
    pub(super) fn seal(&self, writer: &mut Writer, state: &State) -> Result<()> {
        let due = due(state.parts());
        self.replace(writer, state, &due, None, &mut || Ok(()))
    }

    /// Makes the next manifest: the parts marked in `merged` become one segment.
    fn replace(
        &self,
        writer: &mut Writer,
        state: &State,
        merged: &[bool],
        route: Option<Route<'_>>,
        tick: Tick<'_>,
    ) -> Result<()> {
        let mut manifest = Manifest {
            generation: state.generation,
            next_segment: writer.manifest.next_segment + 1,
            segments: Vec::new(),
            ..writer.manifest.clone()
        };
        let built = self.build(state, merged, writer.manifest.next_segment, route, tick)?;
        let mut parts = Vec::new();
        for (part, _) in state.parts().iter().zip(merged).filter(|(_, merged)| !**merged) {
            let Place::Sealed(segment) = &part.place else { continue };
            let dead = self.dead_file(&writer.manifest, segment, &part.dead, state)?;
            manifest.segments.push(SegmentEntry { files: segment.files(), dead });
            parts.push(part.clone());
        }
        if let Some(segment) = built {
            manifest.segments.push(SegmentEntry { files: segment.files(), dead: None });
            parts.push(Part::sealed(segment, Arc::default()));
        }
        let next = State::new(state.generation, parts)?;
        self.make_current(&manifest)?;
        self.publish(next);
        writer.manifest = manifest;
        // Said where it happens.
        let _ = self.forget(writer);
        Ok(())
    }

    /// A segment of the live rows of the parts marked; none where there are no such rows.
    fn build(
        &self,
        state: &State,
        merged: &[bool],
        number: u64,
        route: Option<Route<'_>>,
        tick: Tick<'_>,
    ) -> Result<Option<Segment>> {
        let chosen: Vec<&Part> =
            state.parts().iter().zip(merged).filter(|(_, merged)| **merged).map(|(part, _)| part).collect();
        let rerouted: Option<Vec<Rerouted<'_>>> = match route {
            None => None,
            Some(route) => {
                let parts = chosen.iter().map(|part| Rerouted::new(part, &self.config, route));
                Some(parts.collect::<Result<_>>()?)
            }
        };
        let sources: Vec<&dyn Source> = match &rerouted {
            None => chosen.iter().map(|part| part.source()).collect(),
            Some(rerouted) => rerouted.iter().map(|part| part as &dyn Source).collect(),
        };
        let members: Vec<Member> = (0..)
            .zip(&chosen)
            .flat_map(|(source, part)| part.live_rows().map(move |row| Member { source, row }))
            .collect();
        if members.is_empty() {
            return Ok(None);
        }
        let codes = Codes::wanted(&self.config, &self.options);
        let segment = NewSegment { store_id: self.store_id, number, codes };
        let built = segment::build(&*self.backend, &self.dir, segment, &sources, members, tick);
        let built = self.poison_if_sync(built)?;
        let dim = self.config().dim;
        Segment::open(&*self.backend, &self.dir, self.store_id, dim, built).map(Some)
    }

    /// The file of a segment's dead rows: the one there is, or a new one.
    fn dead_file(
        &self,
        manifest: &Manifest,
        segment: &Segment,
        dead: &DeadRows,
        state: &State,
    ) -> Result<Option<DeadFile>> {
        let number = segment.files().number;
        let now = manifest.segments.iter().find(|entry| entry.files.number == number);
        let now = now.and_then(|entry| entry.dead);
        // Rows only ever die, so equal counts mean equal sets.
        if now.map_or(0, |file| file.count) == dead.count() {
            return Ok(now);
        }
        let file = DeadFile::write(&*self.backend, &self.dir, self.store_id, number, state.generation, dead);
        self.poison_if_sync(file).map(Some)
    }

    /// Steps 3 to 6.
    fn make_current(&self, manifest: &Manifest) -> Result<()> {
        let segments = self.dir.join(names::SEGMENTS);
        let synced = self.backend.sync_directory(&segments);
        self.poison_if_sync(synced.map_err(StoreError::io(&segments, Operation::Sync)))?;
        self.poison_if_sync(manifest.prepare(&*self.backend, &self.dir))?;
        // Whatever goes wrong here, which manifest is on disk is not known.
        Manifest::publish(&*self.backend, &self.dir).inspect_err(|_| self.health.refuse_writes())
    }

    /// Step 7. Failures are of no consequence but for space and for what should be gone; the first one is returned.
    fn forget(&self, writer: &mut Writer) -> Result<()> {
        let generation = writer.manifest.generation;
        let (restarted, journal) = match std::mem::replace(&mut writer.journal, JournalState::None) {
            JournalState::Open(mut journal) => match journal.restart(generation) {
                Ok(()) => (Ok(()), JournalState::Open(journal)),
                failed => (failed, JournalState::Broken),
            },
            JournalState::Broken => match Journal::clear(&self.dir) {
                Ok(()) => (Ok(()), JournalState::None),
                failed => (failed, JournalState::Broken),
            },
            JournalState::None => (Ok(()), JournalState::None),
        };
        writer.journal = journal;
        let mut first = restarted.inspect_err(|error| {
            tracing::warn!(index = %self.dir.display(), %error, "the journal could not begin anew");
        });
        let named: HashSet<String> = writer.manifest.files().collect();
        for name in strays(&*self.backend, &self.dir, &named) {
            let path = self.dir.join(&name);
            if let Err(error) = self.backend.remove(&path) {
                tracing::warn!(index = %self.dir.display(), file = %name, %error, "could not remove");
                first = first.and(Err(StoreError::io(path, Operation::Remove)(error)));
            }
        }
        first
    }

    /// A failed sync poisons the handle; any other failure leaves it as it is.
    fn poison_if_sync<T>(&self, result: Result<T>) -> Result<T> {
        result.inspect_err(|error| {
            if matches!(error, StoreError::Io { operation: Operation::Sync, .. }) {
                self.health.refuse_writes();
            }
        })
    }
}

/// Files in `segments` with names of ours that are not among those named.
pub(super) fn strays(backend: &dyn Backend, dir: &Path, named: &HashSet<String>) -> Vec<String> {
    let entries = backend.list(&dir.join(names::SEGMENTS)).unwrap_or_default();
    let ours = |name: &str| {
        let mut parts = name.split('.');
        let number =
            parts.next().is_some_and(|part| part.len() >= 8 && part.bytes().all(|b| b.is_ascii_digit()));
        number && matches!(parts.next_back(), Some("vectors" | "documents" | "dead"))
    };
    entries
        .into_iter()
        .filter_map(|name| name.into_string().ok())
        .filter(|name| ours(name))
        .map(|name| format!("{}/{name}", names::SEGMENTS))
        .filter(|name| !named.contains(name))
        .collect()
}

/// Which parts go into the next segment: the fresh ones, the sealed ones before them for as long as those
/// are not much larger, and those with many dead rows.
fn due(parts: &[Part]) -> Vec<bool> {
    let mut merged = vec![false; parts.len()];
    let mut rows = 0u32;
    let mut open = true;
    for (place, part) in parts.iter().enumerate().rev() {
        let live = part.live();
        match part.place {
            Place::Fresh(_) => merged[place] = true,
            Place::Sealed(_) => {
                open &= live < rows.saturating_mul(MERGE_RATIO);
                merged[place] = open || part.dead.count() > part.rows() / DEAD_SHARE;
            }
        }
        if merged[place] {
            rows = rows.saturating_add(live);
        }
    }
    merged
}
