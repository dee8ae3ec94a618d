//! `MANIFEST`: what an index is, fixed when it is created. Its rename into place is what
//! makes a directory an index.

use std::{
    hash::{BuildHasher, Hasher, RandomState},
    path::Path,
    time::SystemTime,
};

use super::{
    error::{Damage, Operation, Result, StoreError},
    io::{Backend, OpenMode},
    layout::{
        DTYPE_F16, FORMAT_VERSION, OLDEST_READABLE_VERSION, STORE_ID_BYTES, limits, manifest::*, names,
    },
};

/// What an index is: fixed at creation, bound to the model that made its embeddings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoreConfig {
    /// Elements of an embedding, 1 to 65536.
    pub dim: u32,
    /// B in the paper: children of a node of the tree, at least 2.
    pub branching_factor: u32,
    /// H in the paper: levels of the tree, at least 1. The tree has B^H leaves, at most 2^32.
    pub height: u32,
    /// Most leaves one document is put in (d2l in the paper), 1 to 512.
    pub leaves_per_document: u32,
    /// The similarity, as a code the store keeps but does not interpret.
    pub similarity: u8,
    /// Hash of the model bundle; the store keeps it, the index compares it.
    pub model_hash: [u8; 32],
}

impl StoreConfig {
    /// Number of leaves of the tree, B^H.
    pub fn leaves(&self) -> u64 {
        u64::from(self.branching_factor).saturating_pow(self.height)
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
        within("branching_factor", self.branching_factor.into(), 2, u32::MAX.into())?;
        within("height", self.height.into(), 1, 32)?;
        within("number of leaves", self.leaves(), 1, limits::LEAVES)?;
        within(
            "leaves_per_document",
            self.leaves_per_document.into(),
            1,
            self.leaves().min(limits::LEAVES_PER_DOCUMENT.into()),
        )
    }
}

/// Ties the files of one index together, so that a file copied in from another is noticed.
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

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Manifest {
    pub(super) config: StoreConfig,
    pub(super) store_id: StoreId,
}

impl Manifest {
    pub(super) fn encode(&self) -> [u8; BYTES] {
        let config = &self.config;
        let mut bytes = [0; BYTES];
        bytes[AT_MAGIC].copy_from_slice(&MAGIC);
        bytes[AT_VERSION].copy_from_slice(&FORMAT_VERSION.to_le_bytes());
        bytes[AT_DIM].copy_from_slice(&config.dim.to_le_bytes());
        bytes[AT_DTYPE].copy_from_slice(&[DTYPE_F16]);
        bytes[AT_SIMILARITY].copy_from_slice(&[config.similarity]);
        bytes[AT_BRANCHING].copy_from_slice(&config.branching_factor.to_le_bytes());
        bytes[AT_HEIGHT].copy_from_slice(&config.height.to_le_bytes());
        bytes[AT_LEAVES_PER_DOCUMENT].copy_from_slice(&config.leaves_per_document.to_le_bytes());
        bytes[AT_MODEL_HASH].copy_from_slice(&config.model_hash);
        bytes[AT_STORE_ID].copy_from_slice(&self.store_id.0);
        let crc = crc32fast::hash(&bytes[..AT_CRC.start]);
        bytes[AT_CRC].copy_from_slice(&crc.to_le_bytes());
        bytes
    }

    pub(super) fn decode(bytes: &[u8; BYTES]) -> Result<Self> {
        let corrupt = |detail| StoreError::corrupt(names::MANIFEST, detail);
        if bytes[AT_MAGIC] != MAGIC {
            return Err(corrupt(Damage::Magic));
        }
        // Before the version: its place never moves, so a damaged version is seen as damage.
        if crc32fast::hash(&bytes[..AT_CRC.start]) != u32_at(bytes, AT_CRC.start) {
            return Err(corrupt(Damage::Checksum { what: "the file", number: 0 }));
        }
        let version = u32_at(bytes, AT_VERSION.start);
        check_version(names::MANIFEST, version)?;
        let field = |field, found: u8| corrupt(Damage::Field { field, found: found.into() });
        let dtype = bytes[AT_DTYPE.start];
        if dtype != DTYPE_F16 {
            return Err(field("dtype", dtype));
        }
        if let Some(&byte) = bytes[AT_PAD].iter().chain(&bytes[AT_RESERVED]).find(|b| **b != 0) {
            return Err(field("reserved byte", byte));
        }
        let mut model_hash = [0; 32];
        model_hash.copy_from_slice(&bytes[AT_MODEL_HASH]);
        let mut store_id = [0; STORE_ID_BYTES];
        store_id.copy_from_slice(&bytes[AT_STORE_ID]);
        let config = StoreConfig {
            dim: u32_at(bytes, AT_DIM.start),
            branching_factor: u32_at(bytes, AT_BRANCHING.start),
            height: u32_at(bytes, AT_HEIGHT.start),
            leaves_per_document: u32_at(bytes, AT_LEAVES_PER_DOCUMENT.start),
            similarity: bytes[AT_SIMILARITY.start],
            model_hash,
        };
        config.check().map_err(|error| match error {
            StoreError::InvalidConfig { field, found, .. } => corrupt(Damage::Field { field, found }),
            other => other,
        })?;
        Ok(Self { config, store_id: StoreId(store_id) })
    }

    /// Writes the manifest under its provisional name and makes it durable. From here on
    /// the directory counts as one where a create is under way.
    pub(super) fn write_provisional(&self, backend: &dyn Backend, dir: &Path) -> Result<()> {
        let path = dir.join(names::MANIFEST_NEW);
        let io = |operation| StoreError::io(&path, operation);
        let file = backend.open(&path, OpenMode::Replace).map_err(io(Operation::Create))?;
        file.write_at(&self.encode(), 0).map_err(io(Operation::Write))?;
        file.sync_all().map_err(io(Operation::Sync))?;
        backend.sync_directory(dir).map_err(StoreError::io(dir, Operation::Sync))
    }

    /// Renames the manifest into place. The commit point of a create.
    pub(super) fn publish(backend: &dyn Backend, dir: &Path) -> Result<()> {
        backend
            .rename(&dir.join(names::MANIFEST_NEW), &dir.join(names::MANIFEST))
            .map_err(StoreError::io(dir.join(names::MANIFEST), Operation::Rename))?;
        backend.sync_directory(dir).map_err(StoreError::io(dir, Operation::Sync))
    }

    pub(super) fn read(backend: &dyn Backend, dir: &Path) -> Result<Self> {
        let path = dir.join(names::MANIFEST);
        let io = |operation| StoreError::io(&path, operation);
        let file = backend.open(&path, OpenMode::Read).map_err(io(Operation::Open))?;
        let found = file.len().map_err(io(Operation::Read))?;
        let needed = BYTES as u64;
        if found < needed {
            return Err(StoreError::corrupt(names::MANIFEST, Damage::TooShort { needed, found }));
        }
        if found > needed {
            let detail = Damage::Disagreement { what: "its length", expected: needed, found };
            return Err(StoreError::corrupt(names::MANIFEST, detail));
        }
        let mut bytes = [0; BYTES];
        file.read_at(&mut bytes, 0).map_err(io(Operation::Read))?;
        Self::decode(&bytes)
    }
}

/// Refuses, by number, a version that this crate does not read.
pub(super) fn check_version(file: &'static str, found: u32) -> Result<()> {
    let (oldest, newest) = (OLDEST_READABLE_VERSION, FORMAT_VERSION);
    if (oldest..=newest).contains(&found) {
        return Ok(());
    }
    Err(StoreError::UnsupportedVersion { file, found, oldest, newest })
}

fn u32_at(bytes: &[u8; BYTES], at: usize) -> u32 {
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn manifest() -> Manifest {
        let config = StoreConfig {
            dim: 384,
            branching_factor: 40,
            height: 2,
            leaves_per_document: 3,
            similarity: 1,
            model_hash: [7; 32],
        };
        Manifest { config, store_id: StoreId::unique() }
    }

    #[test]
    fn round_trip_at_the_documented_offsets() {
        let manifest = manifest();
        let bytes = manifest.encode();
        assert_eq!(Manifest::decode(&bytes).unwrap(), manifest);
        // The numbers of docs/format.md, written out once.
        assert_eq!(bytes[..8], *b"\x89ehi\r\n\x1a\n");
        assert_eq!(bytes[8..12], 1u32.to_le_bytes());
        assert_eq!(bytes[12..16], 384u32.to_le_bytes());
        assert_eq!(bytes[16..20], [1, 1, 0, 0]);
        assert_eq!(bytes[20..24], 40u32.to_le_bytes());
        assert_eq!(bytes[24..28], 2u32.to_le_bytes());
        assert_eq!(bytes[28..32], 3u32.to_le_bytes());
        assert_eq!(bytes[32..64], [7; 32]);
        assert_eq!(bytes[64..80], manifest.store_id.0);
        assert_eq!(bytes[80..124], [0; 44]);
        assert_eq!(bytes[124..], crc32fast::hash(&bytes[..124]).to_le_bytes());
    }

    #[test]
    fn every_flipped_bit_is_refused() {
        let bytes = manifest().encode();
        for bit in 0..BYTES * 8 {
            let mut flipped = bytes;
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert!(matches!(
                Manifest::decode(&flipped),
                Err(StoreError::Corrupt { file: names::MANIFEST, .. })
            ));
        }
    }

    #[test]
    fn other_versions_are_refused_by_number() {
        for version in [0, FORMAT_VERSION + 1, u32::MAX] {
            let mut bytes = manifest().encode();
            bytes[AT_VERSION].copy_from_slice(&version.to_le_bytes());
            let crc = crc32fast::hash(&bytes[..AT_CRC.start]);
            bytes[AT_CRC].copy_from_slice(&crc.to_le_bytes());
            let Err(StoreError::UnsupportedVersion { found, .. }) = Manifest::decode(&bytes) else {
                panic!("version {version} was not refused");
            };
            assert_eq!(found, version);
        }
    }

    #[test]
    fn settings_out_of_range_are_refused_by_name() {
        let change = |change: fn(&mut StoreConfig)| {
            let mut config = manifest().config;
            change(&mut config);
            match config.check() {
                Err(StoreError::InvalidConfig { field, .. }) => field,
                other => panic!("{other:?}"),
            }
        };
        assert_eq!(change(|c| c.dim = 0), "dim");
        assert_eq!(change(|c| c.branching_factor = 1), "branching_factor");
        assert_eq!(change(|c| c.height = 0), "height");
        assert_eq!(change(|c| c.height = 32), "number of leaves");
        assert_eq!(change(|c| c.leaves_per_document = 0), "leaves_per_document");
        assert_eq!(change(|c| c.leaves_per_document = 1601), "leaves_per_document");
    }
}
