//! `MANIFEST`: the configuration of an index, and the files of its newest sealed generation. Its rename into
//! place is the commit point of everything durable.

use std::{
    hash::{BuildHasher, Hasher, RandomState},
    path::Path,
    sync::Arc,
    time::SystemTime,
};

use super::{
    error::{Damage, Operation, Result, StoreError},
    files,
    layout::{DTYPE_F16, FORMAT_VERSION, STORE_ID_BYTES, limits, manifest::*, names, u32_at, u64_at},
    sealed::Seal,
    segment::SegmentFiles,
    tombstones::{TombstoneFile, Tombstones},
};
use crate::disk::{Backend, OpenMode};
use crate::ids::{Generation, ModelHash};
use crate::passages::Passages;
use crate::scan::Similarity;

/// The configuration of an index: fixed at creation, bound to the model that made its embeddings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoreConfig {
    /// Elements of an embedding, 1 to 65536.
    pub dim: u32,
    /// B in the paper: children of a node of the tree; 1 without a tree.
    pub branching_factor: u32,
    /// H in the paper: levels of the tree, at least 1. The tree has B^H leaves, at most 2^32.
    pub height: u32,
    /// The similarity, as a code that the store keeps but does not interpret.
    pub similarity: u8,
    /// Hash of the model bundle; stored here, compared by the index.
    pub model_hash: ModelHash,
    /// The kind of terms, as a code that the store keeps but does not interpret; 0 if rows have no posting
    /// lists of terms.
    pub terms: u8,
    /// If set, documents have a row for each passage.
    pub passages: Option<Passages>,
}

impl StoreConfig {
    /// Number of leaves of the tree, B^H.
    pub fn leaves(&self) -> u64 {
        u64::from(self.branching_factor).saturating_pow(self.height)
    }

    /// Whether rows have posting lists of terms.
    pub fn is_lexical(&self) -> bool {
        self.terms != 0
    }

    /// How documents are ranked.
    pub fn similarity(&self) -> Result<Similarity> {
        let detail = Damage::Field { field: "similarity", found: self.similarity.into() };
        Similarity::from_code(self.similarity).ok_or(StoreError::corrupt(names::MANIFEST, detail))
    }

    pub(super) fn check(&self) -> Result<()> {
        let within = |field, found: u64, least: u64, most: u64| {
            if (least..=most).contains(&found) {
                Ok(())
            } else {
                Err(StoreError::InvalidConfig { field, found, least, most })
            }
        };
        within("dim", self.dim.into(), 1, limits::DIM.into())?;
        within("branching_factor", self.branching_factor.into(), 1, u32::MAX.into())?;
        // A tree of one leaf has one level.
        let most = if self.branching_factor == 1 { 1 } else { 32 };
        within("height", self.height.into(), 1, most)?;
        within("number of leaves", self.leaves(), 1, limits::LEAVES)
    }
}

/// Ties the files of one index together, so that a file copied in from another one is noticed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct StoreId(pub(super) [u8; STORE_ID_BYTES]);

impl StoreId {
    /// Unique, not secret: the standard library's randomly keyed hash of time and process.
    pub(super) fn unique() -> Self {
        let mut id = [0; STORE_ID_BYTES];
        for half in id.chunks_exact_mut(8) {
            let mut hasher = RandomState::new().build_hasher();
            let since_epoch = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
            hasher.write_u128(since_epoch.map_or(0, |d| d.as_nanos()));
            hasher.write_u32(std::process::id());
            half.copy_from_slice(&hasher.finish().to_le_bytes());
        }
        Self(id)
    }
}

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
            store_id: StoreId::unique(),
            generation: Generation(0),
            next_segment: 0,
            segments: Vec::new(),
        }
    }

    /// Names of all segment files, relative to the index.
    pub(super) fn files(&self) -> impl Iterator<Item = String> + '_ {
        self.segments.iter().flat_map(SegmentEntry::file_names)
    }

    pub(super) fn encode(&self) -> Vec<u8> {
        let config = &self.config;
        let entries: Vec<u8> = self.segments.iter().flat_map(SegmentEntry::encode).collect();
        let mut bytes = vec![0; HEAD_BYTES];
        bytes[AT_MAGIC].copy_from_slice(&MAGIC);
        bytes[AT_VERSION].copy_from_slice(&FORMAT_VERSION.to_le_bytes());
        bytes[AT_DIM].copy_from_slice(&config.dim.to_le_bytes());
        bytes[AT_DTYPE].copy_from_slice(&[DTYPE_F16]);
        bytes[AT_SIMILARITY].copy_from_slice(&[config.similarity]);
        bytes[AT_LEXICAL].copy_from_slice(&[config.terms]);
        bytes[AT_BRANCHING].copy_from_slice(&config.branching_factor.to_le_bytes());
        bytes[AT_HEIGHT].copy_from_slice(&config.height.to_le_bytes());
        bytes[AT_MODEL_HASH].copy_from_slice(&config.model_hash.0);
        bytes[AT_STORE_ID].copy_from_slice(&self.store_id.0);
        bytes[AT_GENERATION].copy_from_slice(&self.generation.0.to_le_bytes());
        bytes[AT_NEXT_SEGMENT].copy_from_slice(&self.next_segment.to_le_bytes());
        bytes[AT_SEGMENTS].copy_from_slice(&(self.segments.len() as u32).to_le_bytes());
        bytes[AT_ENTRIES_CRC].copy_from_slice(&crc32fast::hash(&entries).to_le_bytes());
        if let Some(passages) = config.passages {
            bytes[AT_PASSAGE_TOKENS].copy_from_slice(&passages.tokens.to_le_bytes());
            bytes[AT_OVERLAP].copy_from_slice(&passages.overlap.to_le_bytes());
        }
        let crc = crc32fast::hash(&bytes[..AT_CRC.start]);
        bytes[AT_CRC].copy_from_slice(&crc.to_le_bytes());
        bytes.extend(entries);
        bytes
    }

    pub(super) fn decode(bytes: &[u8]) -> Result<Self> {
        let corrupt = |detail| StoreError::corrupt(names::MANIFEST, detail);
        let found = bytes.len() as u64;
        let Some((head, entries)) = bytes.split_first_chunk::<HEAD_BYTES>() else {
            return Err(corrupt(Damage::TooShort { needed: HEAD_BYTES as u64, found }));
        };
        if head[AT_MAGIC] != MAGIC {
            return Err(corrupt(Damage::Magic));
        }
        // Checked before the version: the checksum's position never moves, so a damaged version is reported
        // as damage.
        if crc32fast::hash(&head[..AT_CRC.start]) != u32_at(head, AT_CRC.start) {
            return Err(corrupt(Damage::Checksum { what: "the head", number: 0 }));
        }
        check_version(names::MANIFEST, u32_at(head, AT_VERSION.start))?;
        let field = |field, found: u64| corrupt(Damage::Field { field, found });
        let dtype = head[AT_DTYPE.start];
        if dtype != DTYPE_F16 {
            return Err(field("dtype", dtype.into()));
        }
        if let Some(&byte) =
            [AT_PAD, AT_UNUSED, AT_ZEROS, AT_RESERVED].into_iter().flat_map(|at| &head[at]).find(|b| **b != 0)
        {
            return Err(field("reserved byte", byte.into()));
        }
        let mut model_hash = [0; 32];
        model_hash.copy_from_slice(&head[AT_MODEL_HASH]);
        let mut store_id = [0; STORE_ID_BYTES];
        store_id.copy_from_slice(&head[AT_STORE_ID]);
        let passages = match (u32_at(head, AT_PASSAGE_TOKENS.start), u32_at(head, AT_OVERLAP.start)) {
            (0, 0) => None,
            (tokens, overlap) => {
                let sound = Passages::new(tokens, overlap);
                Some(sound.map_err(|_| field("tokens of a passage", tokens.into()))?)
            }
        };
        let config = StoreConfig {
            dim: u32_at(head, AT_DIM.start),
            branching_factor: u32_at(head, AT_BRANCHING.start),
            height: u32_at(head, AT_HEIGHT.start),
            similarity: head[AT_SIMILARITY.start],
            model_hash: ModelHash(model_hash),
            terms: head[AT_LEXICAL.start],
            passages,
        };
        config.check().map_err(|error| match error {
            StoreError::InvalidConfig { field: name, found, .. } => field(name, found),
            other => other,
        })?;
        let expected = HEAD_BYTES as u64 + u64::from(u32_at(head, AT_SEGMENTS.start)) * ENTRY_BYTES as u64;
        if found != expected {
            return Err(corrupt(Damage::Disagreement { what: "its length", expected, found }));
        }
        if crc32fast::hash(entries) != u32_at(head, AT_ENTRIES_CRC.start) {
            return Err(corrupt(Damage::Checksum { what: "the segments", number: 0 }));
        }
        let next_segment = u64_at(head, AT_NEXT_SEGMENT.start);
        let mut segments = Vec::with_capacity(entries.len() / ENTRY_BYTES);
        let mut rows = 0u64;
        for entry in entries.as_chunks::<ENTRY_BYTES>().0 {
            let entry = SegmentEntry::decode(entry).map_err(corrupt)?;
            let number = entry.files.number;
            let twice = segments.iter().any(|other: &SegmentEntry| other.files.number == number);
            if number >= next_segment || twice {
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
            store_id: StoreId(store_id),
            generation: Generation(u64_at(head, AT_GENERATION.start)),
            next_segment,
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
        let most = HEAD_BYTES as u64 + MOST_SEGMENTS * ENTRY_BYTES as u64;
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
    pub(super) fn read_tombstones(
        &self,
        backend: &dyn Backend,
        dir: &Path,
        store_id: StoreId,
        damaged: bool,
    ) -> Result<Arc<Tombstones>> {
        let SegmentFiles { number, rows, .. } = self.files;
        let read = |file: TombstoneFile| file.read(backend, dir, store_id, number, rows, damaged);
        self.tombstones.map_or_else(|| Ok(Arc::default()), read)
    }

    /// Names of its files, relative to the index.
    pub(super) fn file_names(&self) -> impl Iterator<Item = String> + use<> {
        let number = self.files.number;
        let tombstones = self.tombstones.map(|file| TombstoneFile::name(number, file.generation));
        [SegmentFiles::vectors_name(number), SegmentFiles::documents_name(number)]
            .into_iter()
            .chain(tombstones)
    }

    fn encode(&self) -> [u8; ENTRY_BYTES] {
        let SegmentFiles { number, rows, vectors, documents } = self.files;
        let mut bytes = [0; ENTRY_BYTES];
        bytes[AT_NUMBER].copy_from_slice(&number.to_le_bytes());
        bytes[AT_ROWS].copy_from_slice(&rows.to_le_bytes());
        bytes[AT_VECTORS_LEN].copy_from_slice(&vectors.len.to_le_bytes());
        bytes[AT_VECTORS_CRC].copy_from_slice(&vectors.crc.to_le_bytes());
        bytes[AT_DOCUMENTS_LEN].copy_from_slice(&documents.len.to_le_bytes());
        bytes[AT_DOCUMENTS_CRC].copy_from_slice(&documents.crc.to_le_bytes());
        if let Some(tombstones) = self.tombstones {
            bytes[AT_DEAD].copy_from_slice(&tombstones.count.to_le_bytes());
            bytes[AT_DEAD_GENERATION].copy_from_slice(&tombstones.generation.0.to_le_bytes());
            bytes[AT_DEAD_LEN].copy_from_slice(&tombstones.seal.len.to_le_bytes());
            bytes[AT_DEAD_CRC].copy_from_slice(&tombstones.seal.crc.to_le_bytes());
        }
        bytes
    }

    fn decode(bytes: &[u8; ENTRY_BYTES]) -> Result<Self, Damage> {
        let seal = |len: usize, crc: usize| Seal { len: u64_at(bytes, len), crc: u32_at(bytes, crc) };
        let files = SegmentFiles {
            number: u64_at(bytes, AT_NUMBER.start),
            rows: u32_at(bytes, AT_ROWS.start),
            vectors: seal(AT_VECTORS_LEN.start, AT_VECTORS_CRC.start),
            documents: seal(AT_DOCUMENTS_LEN.start, AT_DOCUMENTS_CRC.start),
        };
        let count = u32_at(bytes, AT_DEAD.start);
        if count > files.rows {
            return Err(Damage::Field { field: "the number of dead rows", found: count.into() });
        }
        let tombstones = (count > 0).then(|| TombstoneFile {
            generation: Generation(u64_at(bytes, AT_DEAD_GENERATION.start)),
            count,
            seal: seal(AT_DEAD_LEN.start, AT_DEAD_CRC.start),
        });
        Ok(Self { files, tombstones })
    }
}

/// Refuses a version that this crate does not read, with its number.
pub(crate) fn check_version(file: &str, found: u32) -> Result<()> {
    match found {
        FORMAT_VERSION => Ok(()),
        _ => Err(StoreError::UnsupportedVersion { file: file.to_owned().into(), found }),
    }
}

/// Sixteen unique bytes.
pub(crate) fn unique_id() -> [u8; STORE_ID_BYTES] {
    StoreId::unique().0
}

#[cfg(test)]
mod tests;
