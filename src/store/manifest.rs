//! `MANIFEST`: the configuration of an index, and the files of its newest sealed generation. Its rename into
//! place is the commit point of everything durable.

use std::{collections::HashSet, path::Path, sync::Arc};

use super::{
    config::StoreConfig,
    error::{Damage, Operation, Result, StoreError},
    files,
    header::{self, StoreId, unique_id},
    layout::{DTYPE_F16, limits::EXPIRES_BYTES, manifest::*, names},
    log::LogPlace,
    sealed::{Seal, SealedFolder, SealedName},
    segment::{Segment, SegmentFiles},
    tombstones::{TombstoneFile, Tombstones},
};
use crate::disk::{Backend, OpenMode};
use crate::ids::{Generation, ModelHash};
use crate::passages::Passages;

/// A generation: the configuration of the index, and the files that it consists of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Manifest {
    pub(super) config: StoreConfig,
    pub(super) store_id: StoreId,
    pub(super) generation: Generation,
    /// Greater than the number of any segment so far.
    pub(super) next_segment: u64,
    /// In row order.
    pub(super) segments: Vec<SegmentEntry>,
}

/// The files of a segment, and its dead rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SegmentEntry {
    pub(super) files: SegmentFiles,
    /// `None` if no row is dead.
    pub(super) tombstones: Option<TombstoneFile>,
}

impl Manifest {
    /// An empty index.
    pub(super) fn empty(config: &StoreConfig) -> Self {
        Self {
            config: config.clone(),
            store_id: unique_id(),
            generation: Generation(0),
            next_segment: 0,
            segments: Vec::new(),
        }
    }

    /// The files of all segments.
    pub(super) fn files(&self) -> impl Iterator<Item = SealedName> + '_ {
        self.segments.iter().flat_map(SegmentEntry::files)
    }

    /// Sealed files in the directory that this manifest does not name.
    pub(super) fn orphans(&self, backend: &dyn Backend, dir: &Path) -> Vec<SealedName> {
        let entries = backend.list(&dir.join(names::SEGMENTS)).unwrap_or_default();
        let named: HashSet<SealedName> = self.files().collect();
        let ours = entries.iter().filter_map(|name| SealedName::parse(name.to_str()?));
        ours.filter(|name| !named.contains(name)).collect()
    }

    /// Where its files are.
    pub(super) fn folder<'a>(&self, backend: &'a dyn Backend, dir: &'a Path) -> SealedFolder<'a> {
        SealedFolder { backend, dir, store_id: self.store_id }
    }

    /// How many of its segments are there, judging by the lengths and ends of their files.
    pub(super) fn opening(&self, backend: &dyn Backend, dir: &Path) -> usize {
        let folder = self.folder(backend, dir);
        let opens = |entry: &&SegmentEntry| {
            Segment::open(folder, self.config.dim, entry.files, false).is_ok()
                && entry.read_tombstones(folder, false).is_ok()
        };
        self.segments.iter().filter(opens).count()
    }

    /// Whether its copy is of a later generation or, if one of both is of another store, is the one whose
    /// segments are there.
    pub(super) fn is_superseded(&self, backend: &dyn Backend, dir: &Path, copy: &Self) -> bool {
        match copy.store_id == self.store_id {
            true => copy.generation > self.generation,
            false => copy.opening(backend, dir) > self.opening(backend, dir),
        }
    }

    /// The place of its log.
    pub(super) fn log(&self) -> LogPlace {
        LogPlace { store_id: self.store_id, base: self.generation }
    }

    pub(super) fn encode(&self) -> Vec<u8> {
        let config = &self.config;
        let entries: Vec<ManifestEntry> = self.segments.iter().map(SegmentEntry::encode).collect();
        let expires = config.expires.as_deref().unwrap_or_default().as_bytes();
        let rest = [bytemuck::cast_slice(&entries), expires].concat();
        let blank: ManifestHead = bytemuck::Zeroable::zeroed();
        let head = ManifestHead {
            dim: config.dim,
            dtype: DTYPE_F16,
            similarity: config.similarity,
            terms: config.terms,
            branching_factor: config.branching_factor,
            height: config.height,
            model_hash: config.model_hash.0,
            store_id: self.store_id,
            generation: self.generation.0,
            next_segment: self.next_segment,
            segments: self.segments.len() as u32,
            entries_crc: crc32fast::hash(&rest),
            expires_len: expires.len() as u32,
            passage_tokens: config.passages.map_or(0, |passages| passages.tokens),
            overlap: config.passages.map_or(0, |passages| passages.overlap),
            ..blank
        };
        [bytemuck::bytes_of(&header::sign(head, MAGIC)), &rest].concat()
    }

    pub(super) fn decode(bytes: &[u8]) -> Result<Self> {
        let corrupt = |detail| StoreError::corrupt(names::MANIFEST, detail);
        let found = bytes.len() as u64;
        let Some((head, rest)) = bytes.split_at_checked(HEAD_BYTES) else {
            return Err(corrupt(Damage::TooShort { needed: HEAD_BYTES as u64, found }));
        };
        let head: ManifestHead = header::read(names::MANIFEST, head, MAGIC)?;
        let field = |field, found: u64| corrupt(Damage::Field { field, found });
        if head.dtype != DTYPE_F16 {
            return Err(field("dtype", head.dtype.into()));
        }
        let mut zeros = [head.pad].into_iter().chain(head.unused).chain(head.reserved);
        if let Some(byte) = zeros.find(|byte| *byte != 0) {
            return Err(field("reserved byte", byte.into()));
        }
        let passages = match (head.passage_tokens, head.overlap) {
            (0, 0) => None,
            (tokens, overlap) => {
                let sound = Passages::new(tokens, overlap);
                Some(sound.map_err(|_| field("tokens of a passage", tokens.into()))?)
            }
        };
        let entry_bytes = u64::from(head.segments) * ENTRY_BYTES as u64;
        let expected = HEAD_BYTES as u64 + entry_bytes + u64::from(head.expires_len);
        if found != expected {
            return Err(corrupt(Damage::Disagreement { what: "its length", expected, found }));
        }
        if crc32fast::hash(rest) != head.entries_crc {
            return Err(corrupt(Damage::Checksum { what: "the segments", number: 0 }));
        }
        let (entries, expires) = rest.split_at(entry_bytes as usize);
        let expires = String::from_utf8(expires.to_vec());
        let expires = expires.map_err(|_| field("the field of expiry", head.expires_len.into()))?;
        let expires = Some(expires).filter(|field| !field.is_empty());
        let config = StoreConfig {
            dim: head.dim,
            branching_factor: head.branching_factor,
            height: head.height,
            similarity: head.similarity,
            model_hash: ModelHash(head.model_hash),
            terms: head.terms,
            passages,
            expires,
        };
        config.check().map_err(|error| match error {
            StoreError::InvalidConfig { field: name, found, .. } => field(name, found),
            other => other,
        })?;
        let mut segments: Vec<SegmentEntry> = Vec::with_capacity(entries.len() / ENTRY_BYTES);
        let mut rows = 0u64;
        for entry in entries.chunks_exact(ENTRY_BYTES) {
            let entry = SegmentEntry::decode(bytemuck::pod_read_unaligned(entry)).map_err(corrupt)?;
            let number = entry.files.number;
            if number >= head.next_segment || segments.iter().any(|other| other.files.number == number) {
                return Err(field("the number of a segment", number));
            }
            rows += u64::from(entry.files.rows);
            segments.push(entry);
        }
        if rows > u32::MAX.into() {
            return Err(field("the number of rows", rows));
        }
        Ok(Self {
            config,
            store_id: head.store_id,
            generation: Generation(head.generation),
            next_segment: head.next_segment,
            segments,
        })
    }

    /// Writes the copy that repair falls back on. Only after the manifest is published: until the directory
    /// is synced, a power failure may leave neither the previous copy nor this one.
    pub(super) fn write_copy(&self, backend: &dyn Backend, dir: &Path) {
        if let Err(error) = files::write(backend, &dir.join(names::MANIFEST_COPY), &self.encode()) {
            tracing::warn!(index = %dir.display(), %error, "could not write a copy of the manifest");
            let _ = backend.remove(&dir.join(names::MANIFEST_COPY));
        }
    }

    /// For a published manifest: ensures that its copy matches, and removes any unpublished manifest, which a
    /// crash may leave, and repair would believe.
    pub(super) fn renew_copy(&self, backend: &dyn Backend, dir: &Path) {
        let copied = Self::read_named(backend, dir, names::MANIFEST_COPY);
        let unpublished = dir.join(names::MANIFEST_NEW);
        if unpublished.exists()
            && let Err(error) = backend.remove(&unpublished)
        {
            tracing::warn!(index = %dir.display(), %error, "could not remove an unpublished manifest");
        }
        if !copied.is_ok_and(|copy| copy == *self) {
            self.write_copy(backend, dir);
        }
    }

    /// Writes the manifest under its provisional name and makes it durable.
    pub(super) fn write_provisional(&self, backend: &dyn Backend, dir: &Path) -> Result<()> {
        files::write(backend, &dir.join(names::MANIFEST_NEW), &self.encode())
    }

    /// Renames the provisional manifest into place. The commit point of everything; durable once this has
    /// returned.
    pub(super) fn publish(backend: &dyn Backend, dir: &Path) -> Result<()> {
        files::rename(backend, &dir.join(names::MANIFEST_NEW), &dir.join(names::MANIFEST))
    }

    pub(super) fn read(backend: &dyn Backend, dir: &Path) -> Result<Self> {
        Self::read_named(backend, dir, names::MANIFEST)
    }

    /// As [`Self::read`], for a copy.
    pub(super) fn read_named(backend: &dyn Backend, dir: &Path, name: &str) -> Result<Self> {
        let path = dir.join(name);
        let io = |operation| StoreError::io(&path, operation);
        let file = backend.open(&path, OpenMode::Read).map_err(io(Operation::Open))?;
        let found = file.len().map_err(io(Operation::Read))?;
        // A damaged length must not cause a large allocation.
        let most = HEAD_BYTES as u64 + MOST_SEGMENTS * ENTRY_BYTES as u64 + EXPIRES_BYTES as u64;
        if found > most {
            let detail = Damage::Disagreement { what: "its length", expected: most, found };
            return Err(StoreError::corrupt(names::MANIFEST, detail));
        }
        let mut bytes = vec![0; found as usize];
        file.read_at(&mut bytes, 0).map_err(io(Operation::Read))?;
        Self::decode(&bytes)
    }
}

/// Far more segments than merging ever leaves.
const MOST_SEGMENTS: u64 = 1 << 16;

impl SegmentEntry {
    /// Its dead rows; `damaged` as in [`SealedFile::open`](super::sealed::SealedFile::open).
    pub(super) fn read_tombstones(&self, folder: SealedFolder<'_>, damaged: bool) -> Result<Arc<Tombstones>> {
        let SegmentFiles { number, rows, .. } = self.files;
        let read = |file: TombstoneFile| file.read(folder, number, rows, damaged);
        Ok(Arc::new(self.tombstones.map_or_else(|| Ok(Tombstones::default()), read)?))
    }

    /// Its files.
    pub(super) fn files(&self) -> impl Iterator<Item = SealedName> + use<> {
        let dead = self.tombstones.map(|dead| dead.name(self.files.number));
        self.files.names().into_iter().chain(dead)
    }

    fn encode(&self) -> ManifestEntry {
        let SegmentFiles { number, rows, vectors, documents } = self.files;
        let dead = self.tombstones;
        let seal = dead.map_or(Seal { len: 0, crc: 0 }, |dead| dead.seal);
        ManifestEntry {
            number,
            rows,
            dead: dead.map_or(0, |dead| dead.count),
            vectors_len: vectors.len,
            vectors_crc: vectors.crc,
            documents_crc: documents.crc,
            documents_len: documents.len,
            dead_generation: dead.map_or(0, |dead| dead.generation.0),
            dead_len: seal.len,
            dead_crc: seal.crc,
            reserved: [0; 4],
        }
    }

    fn decode(entry: ManifestEntry) -> Result<Self, Damage> {
        let files = SegmentFiles {
            number: entry.number,
            rows: entry.rows,
            vectors: Seal { len: entry.vectors_len, crc: entry.vectors_crc },
            documents: Seal { len: entry.documents_len, crc: entry.documents_crc },
        };
        if entry.dead > entry.rows {
            return Err(Damage::Field { field: "the number of dead rows", found: entry.dead.into() });
        }
        let tombstones = (entry.dead > 0).then_some(TombstoneFile {
            generation: Generation(entry.dead_generation),
            count: entry.dead,
            seal: Seal { len: entry.dead_len, crc: entry.dead_crc },
        });
        Ok(Self { files, tombstones })
    }
}

#[cfg(test)]
mod tests;
