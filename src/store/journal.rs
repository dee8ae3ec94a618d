//! Commits that are not sealed yet, in sled, so that the end of the process does not lose them.
//!
//! This is the only module that knows sled, and nothing rests on it: what was promised to last is in
//! sealed files. sled 0.34.7 does not sync when it flushes and panics on some damaged files, so a
//! journal is believed as far as its checksums go, and one that cannot be read is set aside.
//!
//! | Key | Value |
//! |---|---|
//! | `B` | store id (16), generation that the commits come after (8), checksum of both (4) |
//! | `c` number (8, BE) chunk (4, BE) | bytes of a commit |
//!
//! The bytes of a commit are its length (8), its checksum (4), and the batch as [`encode`] lays it out. The checksum covers where
//! the commit belongs too, so that one which sled brings back from before a restart is not taken for another.

use std::{
    fs, io,
    ops::Deref,
    panic::{AssertUnwindSafe, catch_unwind},
    path::{Path, PathBuf},
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use half::f16;

use super::{
    batch::{CheckedBatch, CheckedPut},
    error::{Damage, Operation, Result, StoreError},
    layout::{CRC_BYTES, journal::*, limits, names},
    manifest::StoreId,
};
use crate::ids::{Generation, LeafId};

/// Memory sled keeps pages in; it is exceeded for short whiles.
const CACHE_BYTES: u64 = 16 << 20;
/// How often sled's thread writes out its buffer and collects garbage.
const FLUSH_EVERY_MS: u64 = 500;
/// How long to wait for sled's own lock, which a dropped handle gives back a little late.
/// Ours is taken by then, so nobody else can rightfully hold it.
const LOCK_PATIENCE: Duration = Duration::from_secs(5);

/// The open journal.
pub(super) struct Journal {
    tree: Tree,
    path: PathBuf,
    /// Where the next commit belongs.
    next: Position,
}

/// Where a commit belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Position {
    pub(super) store_id: StoreId,
    /// The generation that the journal comes after.
    pub(super) base: Generation,
    pub(super) number: u64,
}

/// What an earlier handle left.
pub(super) struct Recovered {
    pub(super) journal: Journal,
    /// The commits in their order; `None` where they come after an older generation than the manifest's, so that what
    /// they did is sealed.
    pub(super) commits: Option<Vec<CheckedBatch>>,
    /// Why those after them cannot be read, if there are any.
    pub(super) cut: Option<StoreError>,
}

/// sled's handle, whose last step may panic too: it syncs, and takes failing for impossible.
struct Tree(Option<sled::Db>);

impl Deref for Tree {
    type Target = sled::Db;

    fn deref(&self) -> &sled::Db {
        #[expect(clippy::expect_used, reason = "it is taken in drop and nowhere else")]
        self.0.as_ref().expect("there until it is dropped")
    }
}

impl Drop for Tree {
    fn drop(&mut self) {
        let tree = self.0.take();
        if catch_unwind(AssertUnwindSafe(|| drop(tree))).is_err() {
            // What it could not write was never promised.
            tracing::warn!("the journal could not be closed");
        }
    }
}

impl Journal {
    /// Whether there is one in `dir`.
    pub(super) fn exists(dir: &Path) -> bool {
        dir.join(names::DOCUMENTS).is_dir()
    }

    /// Opens the journal, makes it where it is missing, and empties it.
    pub(super) fn begin(dir: &Path, store_id: StoreId, base: Generation) -> Result<Self> {
        let mut journal = Self::open(dir, Position { store_id, base, number: 0 })?;
        journal.restart(base)?;
        Ok(journal)
    }

    fn open(dir: &Path, next: Position) -> Result<Self> {
        let path = dir.join(names::DOCUMENTS);
        let config =
            sled::Config::new().path(&path).cache_capacity(CACHE_BYTES).flush_every_ms(Some(FLUSH_EVERY_MS));
        let started = Instant::now();
        loop {
            match guarded(&path, Operation::Open, || config.open()) {
                Err(StoreError::Io { source, .. })
                    if is_lock_failure(&source) && started.elapsed() < LOCK_PATIENCE =>
                {
                    thread::sleep(Duration::from_millis(5));
                }
                Err(StoreError::Io { source, .. }) if is_lock_failure(&source) => {
                    return Err(StoreError::Locked { path: dir.to_owned(), holder: None });
                }
                other => return Ok(Self { tree: Tree(Some(other?)), path, next }),
            }
        }
    }

    /// Forgets all commits; those to come are after `base`.
    pub(super) fn restart(&mut self, base: Generation) -> Result<()> {
        let mut batch = sled::Batch::default();
        let keys: Vec<sled::IVec> =
            guarded(&self.path, Operation::Read, || self.tree.iter().keys().collect())?;
        keys.into_iter().for_each(|key| batch.remove(key));
        let mut value = [self.next.store_id.0.as_slice(), &base.0.to_le_bytes()].concat();
        value.extend(crc32fast::hash(&value).to_le_bytes());
        batch.insert(&[BASE], value);
        guarded(&self.path, Operation::Apply, || self.tree.apply_batch(batch))?;
        self.next = Position { base, number: 0, ..self.next };
        Ok(())
    }

    /// Adds a commit, whole or, as a crash leaves it, not at all.
    pub(super) fn add(&mut self, checked: &CheckedBatch) -> Result<()> {
        let bytes = encode(checked, self.next);
        let mut batch = sled::Batch::default();
        for (chunk, bytes) in (0..).zip(bytes.chunks(limits::CHUNK_BYTES)) {
            batch.insert(&key(self.next.number, chunk), bytes);
        }
        guarded(&self.path, Operation::Apply, || self.tree.apply_batch(batch))?;
        self.next.number += 1;
        Ok(())
    }

    /// What an earlier handle left, as far as it can be read, and the journal to go on with.
    pub(super) fn recover(dir: &Path, store_id: StoreId, base: Generation) -> Result<Recovered> {
        let mut journal = Self::open(dir, Position { store_id, base, number: 0 })?;
        let found = guarded(&journal.path, Operation::Read, || journal.tree.get([BASE]))?;
        let found = found.as_deref().and_then(|value| {
            let (bytes, crc) = value.split_last_chunk::<CRC_BYTES>()?;
            let (id, after) = bytes.split_last_chunk::<8>()?;
            (crc32fast::hash(bytes).to_le_bytes() == *crc).then(|| (id, u64::from_le_bytes(*after)))
        });
        let what = "the generation that the journal comes after";
        match found {
            None => return Err(corrupt(Damage::Missing { what })),
            Some((id, _)) if id != store_id.0 => return Err(corrupt(Damage::Foreign)),
            Some((_, after)) if after < base.0 => {
                return Ok(Recovered { journal, commits: None, cut: None });
            }
            Some((_, found)) if found > base.0 => {
                return Err(corrupt(Damage::Disagreement { what, expected: base.0, found }));
            }
            Some(_) => {}
        }
        let mut commits = Vec::new();
        let cut = loop {
            let what = "commit";
            match journal.commit(journal.next.number) {
                Ok(None) => break None,
                Ok(Some(bytes)) => match decode(&bytes, journal.next) {
                    Some(commit) => commits.push(commit),
                    None => break Some(corrupt(Damage::Undecodable { what, number: journal.next.number })),
                },
                Err(error) => break Some(error),
            }
            journal.next.number += 1;
        };
        Ok(Recovered { journal, commits: Some(commits), cut })
    }

    /// The bytes of a commit; `None` where there is none of this number.
    fn commit(&self, number: u64) -> Result<Option<Vec<u8>>> {
        let mut bytes = Vec::new();
        let prefix = &key(number, 0)[..9];
        let mut entries = self.tree.scan_prefix(prefix);
        let mut next = || guarded(&self.path, Operation::Read, || entries.next().transpose());
        for expected in 0.. {
            let Some((found, chunk)) = next()? else { break };
            if *found != key(number, expected) {
                return Err(corrupt(Damage::Missing { what: "a chunk of a commit" }));
            }
            bytes.extend_from_slice(&chunk);
        }
        Ok((!bytes.is_empty()).then_some(bytes))
    }

    /// Closes the journal and removes it: nothing in it is needed.
    pub(super) fn remove(self, dir: &Path) -> Result<()> {
        drop(self.tree);
        Self::clear(dir)
    }

    /// Removes the files of a journal.
    pub(super) fn clear(dir: &Path) -> Result<()> {
        let path = dir.join(names::DOCUMENTS);
        match fs::remove_dir_all(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(StoreError::io(path, Operation::Remove)(error))
            }
            _ => Ok(()),
        }
    }

    /// Gives an unreadable journal a name under which nobody looks for it, and says which.
    pub(super) fn set_aside(dir: &Path) -> Result<PathBuf> {
        let from = dir.join(names::DOCUMENTS);
        let free = |number: &u32| dir.join(format!("{}.unreadable-{number}", names::DOCUMENTS));
        let to = (1..).map(|number| free(&number)).find(|path| !path.exists());
        let to = to.unwrap_or_else(|| free(&0));
        fs::rename(&from, &to).map_err(StoreError::io(&from, Operation::Rename))?;
        Ok(to)
    }
}

fn key(commit: u64, chunk: u32) -> [u8; 13] {
    let mut key = [COMMIT; 13];
    key[1..9].copy_from_slice(&commit.to_be_bytes());
    key[9..].copy_from_slice(&chunk.to_be_bytes());
    key
}

/// Numbers are little-endian u32; a field of bytes is its length and the bytes.
///
/// Number of puts, then of each: id, payload, metadata, number of leaves and the leaves, number of
/// elements and the elements; number of deletes, then their ids.
pub(super) fn encode(batch: &CheckedBatch, position: Position) -> Vec<u8> {
    let mut bytes = vec![0; PREFIX_BYTES];
    number(&mut bytes, batch.puts.len());
    for put in &batch.puts {
        for field in [put.id.as_bytes(), &put.payload, &put.metadata] {
            number(&mut bytes, field.len());
            bytes.extend_from_slice(field);
        }
        number(&mut bytes, put.leaves.len());
        put.leaves.iter().for_each(|leaf| bytes.extend_from_slice(&leaf.0.to_le_bytes()));
        number(&mut bytes, put.embedding.len());
        bytes.extend_from_slice(bytemuck::cast_slice(&put.embedding));
    }
    number(&mut bytes, batch.deletes.len());
    for id in &batch.deletes {
        number(&mut bytes, id.len());
        bytes.extend_from_slice(id.as_bytes());
    }
    let (len, crc) = (bytes.len() as u64, position.checksum(&bytes[PREFIX_BYTES..]));
    bytes[..8].copy_from_slice(&len.to_le_bytes());
    bytes[8..PREFIX_BYTES].copy_from_slice(&crc.to_le_bytes());
    bytes
}

fn number(bytes: &mut Vec<u8>, number: usize) {
    // Limits of ids, payloads, leaves, dimensions and batches are all far below.
    bytes.extend_from_slice(&(number as u32).to_le_bytes());
}

impl Position {
    /// Of a commit that belongs here.
    pub(super) fn checksum(self, batch: &[u8]) -> u32 {
        let mut hasher = crc32fast::Hasher::new();
        hasher.update(&self.store_id.0);
        hasher.update(&self.base.0.to_le_bytes());
        hasher.update(&self.number.to_le_bytes());
        hasher.update(batch);
        hasher.finalize()
    }
}

/// Inverse of [`encode`].
pub(super) fn decode(bytes: &[u8], position: Position) -> Option<CheckedBatch> {
    let (prefix, mut rest) = bytes.split_first_chunk::<PREFIX_BYTES>()?;
    let (len, crc) = prefix.split_first_chunk::<8>()?;
    if u64::from_le_bytes(*len) != bytes.len() as u64 || *crc != position.checksum(rest).to_le_bytes() {
        return None;
    }
    let rest = &mut rest;
    let puts = (0..take_number(rest)?).map(|_| take_put(rest).map(Arc::new)).collect::<Option<_>>()?;
    let deletes = (0..take_number(rest)?).map(|_| take_text(rest)).collect::<Option<_>>()?;
    rest.is_empty().then_some(CheckedBatch { puts, deletes })
}

fn take_put(rest: &mut &[u8]) -> Option<CheckedPut> {
    let id = take_text(rest)?.into();
    let payload = take_bytes(rest)?.to_vec();
    let metadata = take_bytes(rest)?.to_vec();
    let leaves = (0..take_number(rest)?).map(|_| take_number(rest).map(LeafId)).collect::<Option<_>>()?;
    let elements = take_number(rest)? as usize;
    let embedding = take(rest, elements.checked_mul(2)?)?;
    let element = |bytes: &[u8; 2]| f16::from_le_bytes(*bytes);
    let embedding = embedding.as_chunks::<2>().0.iter().map(element).collect();
    Some(CheckedPut { id, payload, metadata, embedding, leaves })
}

fn take_text(rest: &mut &[u8]) -> Option<String> {
    String::from_utf8(take_bytes(rest)?.to_vec()).ok()
}

fn take_bytes<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let len = take_number(rest)? as usize;
    take(rest, len)
}

fn take_number(rest: &mut &[u8]) -> Option<u32> {
    let (number, others) = rest.split_first_chunk::<4>()?;
    *rest = others;
    Some(u32::from_le_bytes(*number))
}

fn take<'a>(rest: &mut &'a [u8], len: usize) -> Option<&'a [u8]> {
    let (bytes, others) = rest.split_at_checked(len)?;
    *rest = others;
    Some(bytes)
}

fn corrupt(detail: Damage) -> StoreError {
    StoreError::corrupt(names::DOCUMENTS, detail)
}

/// sled gives its lock failure no kind of its own.
fn is_lock_failure(error: &io::Error) -> bool {
    error.to_string().contains("could not acquire lock")
}

/// Runs a call into sled; its errors become ours and its panics, which damaged files
/// cause, become errors too.
fn guarded<T>(path: &Path, operation: Operation, call: impl FnOnce() -> sled::Result<T>) -> Result<T> {
    // Sound to go on: after an error from here the journal is not used again.
    match catch_unwind(AssertUnwindSafe(call)) {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(sled::Error::Io(source))) => Err(StoreError::io(path, operation)(source)),
        Ok(Err(error @ sled::Error::Corruption { .. })) => {
            Err(corrupt(Damage::Engine { report: error.to_string() }))
        }
        Ok(Err(error)) => Err(StoreError::Database { operation, source: error.into() }),
        Err(panic) => {
            let report = panic
                .downcast_ref::<String>()
                .cloned()
                .or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()))
                .unwrap_or_else(|| "it stopped without a message".to_owned());
            Err(corrupt(Damage::Engine { report }))
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::store::layout::STORE_ID_BYTES;

    const STORE: StoreId = StoreId([3; STORE_ID_BYTES]);

    fn batch(number: u32) -> CheckedBatch {
        let put = |place: u32| CheckedPut {
            id: format!("id-{number}-{place}").into(),
            payload: vec![b'x'; (number * 1000 + place) as usize],
            metadata: vec![b'y'; place as usize],
            embedding: [0.5, -1.0, place as f32].map(f16::from_f32).to_vec(),
            leaves: (0..=place).map(LeafId).collect(),
        };
        CheckedBatch {
            puts: (0..number).map(|place| Arc::new(put(place))).collect(),
            deletes: (0..3).map(|n| format!("gone-{n}")).collect(),
        }
    }

    #[test]
    fn commits_come_back_in_order_until_they_are_sealed() {
        let dir = tempfile::tempdir().unwrap();
        let mut journal = Journal::begin(dir.path(), STORE, Generation(4)).unwrap();
        (0..12).for_each(|number| journal.add(&batch(number)).unwrap());
        drop(journal);
        for _ in 0..2 {
            let found = Journal::recover(dir.path(), STORE, Generation(4)).unwrap();
            assert_eq!(found.commits.unwrap(), (0..12).map(batch).collect::<Vec<_>>());
            assert!(found.cut.is_none());
        }
        // Sealed into generation 16: what is here happened already.
        assert_eq!(Journal::recover(dir.path(), STORE, Generation(16)).unwrap().commits, None);
        // Another index's, or from before a manifest that was put back: not to be believed.
        assert!(Journal::recover(dir.path(), StoreId([4; 16]), Generation(4)).is_err());
        assert!(Journal::recover(dir.path(), STORE, Generation(3)).is_err());
        let mut journal = Journal::recover(dir.path(), STORE, Generation(4)).unwrap().journal;
        journal.add(&batch(3)).unwrap();
        journal.restart(Generation(17)).unwrap();
        journal.add(&batch(2)).unwrap();
        drop(journal);
        let found = Journal::recover(dir.path(), STORE, Generation(17)).unwrap();
        assert_eq!(found.commits.unwrap(), [batch(2)]);
        found.journal.remove(dir.path()).unwrap();
        assert!(!Journal::exists(dir.path()));
    }

    #[test]
    fn a_commit_that_does_not_belong_ends_what_is_believed() {
        let dir = tempfile::tempdir().unwrap();
        let mut journal = Journal::begin(dir.path(), STORE, Generation(4)).unwrap();
        (0..3).for_each(|number| journal.add(&batch(number)).unwrap());
        // As if sled had lost that the fourth one of an earlier time was removed.
        let stale = encode(&batch(1), Position { base: Generation(2), number: 3, ..journal.next });
        for (chunk, bytes) in (0..).zip(stale.chunks(limits::CHUNK_BYTES)) {
            journal.tree.insert(key(3, chunk), bytes).unwrap();
        }
        drop(journal);
        let found = Journal::recover(dir.path(), STORE, Generation(4)).unwrap();
        assert_eq!(found.commits.unwrap(), (0..3).map(batch).collect::<Vec<_>>());
        assert!(matches!(
            found.cut,
            Some(StoreError::Corrupt { detail: Damage::Undecodable { number: 3, .. }, .. })
        ));
    }

    #[test]
    fn garbage_is_an_error_and_can_be_set_aside() {
        let dir = tempfile::tempdir().unwrap();
        let mut journal = Journal::begin(dir.path(), STORE, Generation(4)).unwrap();
        journal.add(&batch(5)).unwrap();
        drop(journal);
        let log = dir.path().join(names::DOCUMENTS).join("db");
        let mut bytes = fs::read(&log).unwrap();
        bytes.iter_mut().for_each(|byte| *byte ^= 0x5a);
        fs::write(&log, bytes).unwrap();
        assert!(Journal::recover(dir.path(), STORE, Generation(4)).is_err());
        let aside = Journal::set_aside(dir.path()).unwrap();
        assert!(aside.join("db").exists() && !Journal::exists(dir.path()));
    }

    proptest! {
        #[test]
        fn damaged_commits_are_refused(number in 0u32..4, at in any::<prop::sample::Index>(), bit in 0u8..8, cut in any::<bool>()) {
            let position = Position { store_id: STORE, base: Generation(4), number: 9 };
            let mut bytes = encode(&batch(number), position);
            let at = at.index(bytes.len());
            if cut {
                bytes.truncate(at);
            } else {
                bytes[at] ^= 1 << bit;
            }
            prop_assert!(decode(&bytes, position).is_none());
            let bytes = encode(&batch(number), position);
            for other in [Position { number: 8, ..position }, Position { base: Generation(5), ..position }] {
                prop_assert!(decode(&bytes, other).is_none());
            }
            prop_assert_eq!(decode(&bytes, position), Some(batch(number)));
        }
    }
}
