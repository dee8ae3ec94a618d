//! `vectors.f16`: a header, then one row of little-endian f16 per document ever stored.

use std::path::{Path, PathBuf};

use half::f16;

use super::{
    error::{Damage, Operation, Result, StoreError},
    io::{Backend, BackendFile, OpenMode},
    layout::{DTYPE_F16, ELEMENT_BYTES, FORMAT_VERSION, STORE_ID_BYTES, names, vectors::*},
    manifest::{Manifest, StoreId, check_version},
    mmap::Mapping,
};

/// Checksum of the rows behind the last full block, carried from commit to commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Tail {
    /// All rows, the full blocks' included.
    pub(super) rows: u32,
    /// CRC-32 of the rows since the last block boundary; 0 where there are none.
    pub(super) crc: u32,
}

/// A block that became full, and its checksum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FullBlock {
    pub(super) number: u32,
    pub(super) crc: u32,
}

impl Tail {
    pub(super) const EMPTY: Self = Self { rows: 0, crc: 0 };

    /// Full blocks before the tail.
    pub(super) fn full_blocks(self) -> u32 {
        self.rows / BLOCK_ROWS
    }

    /// The tail after appending `matrix`, and the blocks that became full by it.
    pub(super) fn extend(mut self, matrix: &[u8], stride: usize) -> (Self, Vec<FullBlock>) {
        let mut full = Vec::new();
        let mut rest = matrix;
        while !rest.is_empty() {
            let room = (BLOCK_ROWS - self.rows % BLOCK_ROWS) as usize;
            let (now, later) = rest.split_at(rest.len().min(room * stride));
            let mut hasher = crc32fast::Hasher::new_with_initial(self.crc);
            hasher.update(now);
            self.rows += (now.len() / stride) as u32;
            self.crc = hasher.finalize();
            if self.rows.is_multiple_of(BLOCK_ROWS) {
                full.push(FullBlock { number: self.rows / BLOCK_ROWS - 1, crc: self.crc });
                self.crc = 0;
            }
            rest = later;
        }
        (self, full)
    }
}

/// The open file, owned by the writer.
pub(super) struct VectorFile {
    file: Box<dyn BackendFile>,
    path: PathBuf,
    stride: usize,
    len: u64,
    mapping: Mapping,
}

impl VectorFile {
    /// Makes the file with its header and makes both durable; the directory is the caller's.
    pub(super) fn create(backend: &dyn Backend, dir: &Path, manifest: &Manifest) -> Result<()> {
        let path = dir.join(names::VECTORS);
        let io = |operation| StoreError::io(&path, operation);
        let file = backend.open(&path, OpenMode::Replace).map_err(io(Operation::Create))?;
        let header = encode_header(manifest.config.dim, manifest.store_id);
        file.write_at(&header, 0).map_err(io(Operation::Write))?;
        file.sync_all().map_err(io(Operation::Sync))
    }

    /// Opens the file and checks it against the manifest and the committed row count.
    pub(super) fn open(backend: &dyn Backend, dir: &Path, manifest: &Manifest, rows: u32) -> Result<Self> {
        let path = dir.join(names::VECTORS);
        let io = |operation| StoreError::io(&path, operation);
        let file = backend.open(&path, OpenMode::ReadWrite).map_err(|source| {
            if source.kind() == std::io::ErrorKind::NotFound {
                corrupt(Damage::Missing { what: "the file" })
            } else {
                io(Operation::Open)(source)
            }
        })?;
        let stride = manifest.config.dim as usize * ELEMENT_BYTES;
        let needed = HEADER_BYTES as u64 + u64::from(rows) * stride as u64;
        let len = file.len().map_err(io(Operation::Read))?;
        if len < needed {
            return Err(corrupt(Damage::TooShort { needed, found: len }));
        }
        let mut header = [0; HEADER_BYTES];
        file.read_at(&mut header, 0).map_err(io(Operation::Read))?;
        check_header(&header, manifest.config.dim, manifest.store_id)?;
        let mapping = Mapping::new(file.as_file(), len).map_err(io(Operation::Map))?;
        Ok(Self { file, path, stride, len, mapping })
    }

    pub(super) fn mapping(&self) -> &Mapping {
        &self.mapping
    }

    /// Bytes of one row.
    pub(super) fn stride(&self) -> usize {
        self.stride
    }

    /// Writes rows behind the committed ones, over whatever is there, and maps the file
    /// anew where it grew. Nothing is durable or visible yet; a failure leaves garbage
    /// behind the committed rows, which the next append overwrites.
    pub(super) fn append(&mut self, committed_rows: u32, matrix: &[u8]) -> Result<()> {
        let offset = HEADER_BYTES as u64 + u64::from(committed_rows) * self.stride as u64;
        let end = offset + matrix.len() as u64;
        if end > self.len {
            let step = self.len.clamp(GROW_AT_LEAST_BYTES, GROW_AT_MOST_BYTES);
            let len = end.max(self.len + step);
            self.file.grow(len).map_err(StoreError::io(&self.path, Operation::Grow))?;
            let mapping = Mapping::new(self.file.as_file(), len);
            self.mapping = mapping.map_err(StoreError::io(&self.path, Operation::Map))?;
            self.len = len;
        }
        self.file.write_at(matrix, offset).map_err(StoreError::io(&self.path, Operation::Write))
    }

    /// Makes everything written so far durable.
    pub(super) fn sync(&self) -> Result<()> {
        self.file.sync_data().map_err(StoreError::io(&self.path, Operation::Sync))
    }
}

/// The bytes of full block `block`, or of the tail where `block` is the one behind the last.
pub(super) fn block_bytes(matrix: &[f16], dim: usize, block: u32) -> &[u8] {
    let elements = BLOCK_ROWS as usize * dim;
    let start = (block as usize * elements).min(matrix.len());
    let end = (start + elements).min(matrix.len());
    bytemuck::cast_slice(&matrix[start..end])
}

fn corrupt(detail: Damage) -> StoreError {
    StoreError::corrupt(names::VECTORS, detail)
}

fn encode_header(dim: u32, store_id: StoreId) -> [u8; HEADER_BYTES] {
    let mut bytes = [0; HEADER_BYTES];
    bytes[AT_MAGIC].copy_from_slice(&MAGIC);
    bytes[AT_VERSION].copy_from_slice(&FORMAT_VERSION.to_le_bytes());
    bytes[AT_DIM].copy_from_slice(&dim.to_le_bytes());
    bytes[AT_DTYPE].copy_from_slice(&[DTYPE_F16]);
    bytes[AT_STORE_ID].copy_from_slice(&store_id.0);
    let crc = crc32fast::hash(&bytes[..AT_CRC.start]);
    bytes[AT_CRC].copy_from_slice(&crc.to_le_bytes());
    bytes
}

fn check_header(bytes: &[u8; HEADER_BYTES], dim: u32, store_id: StoreId) -> Result<()> {
    if bytes[AT_MAGIC] != MAGIC {
        return Err(corrupt(Damage::Magic));
    }
    let u32_at = |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
    if crc32fast::hash(&bytes[..AT_CRC.start]) != u32_at(AT_CRC.start) {
        return Err(corrupt(Damage::Checksum { what: "the header", number: 0 }));
    }
    check_version(names::VECTORS, u32_at(AT_VERSION.start))?;
    let found: &[u8] = &bytes[AT_STORE_ID];
    debug_assert_eq!(found.len(), STORE_ID_BYTES);
    if found != store_id.0 {
        return Err(corrupt(Damage::Foreign));
    }
    let disagreement = |what, expected: u32, found: u32| {
        let (expected, found) = (expected.into(), found.into());
        corrupt(Damage::Disagreement { what, expected, found })
    };
    let found = u32_at(AT_DIM.start);
    if found != dim {
        return Err(disagreement("dim", dim, found));
    }
    let found = bytes[AT_DTYPE.start];
    if found != DTYPE_F16 {
        return Err(disagreement("dtype", DTYPE_F16.into(), found.into()));
    }
    if let Some(byte) = bytes[AT_PAD].iter().chain(&bytes[AT_RESERVED]).find(|byte| **byte != 0) {
        return Err(corrupt(Damage::Field { field: "reserved byte", found: (*byte).into() }));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn header_round_trips_at_the_documented_offsets() {
        let id = StoreId([9; 16]);
        let bytes = encode_header(384, id);
        check_header(&bytes, 384, id).unwrap();
        assert_eq!(bytes[..8], *b"\x8aehv\r\n\x1a\n");
        assert_eq!(bytes[8..12], 1u32.to_le_bytes());
        assert_eq!(bytes[12..16], 384u32.to_le_bytes());
        assert_eq!(bytes[16..24], [1, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(bytes[24..40], [9; 16]);
        assert_eq!(bytes[40..4092], [0; 4052]);
        assert_eq!(bytes[4092..], crc32fast::hash(&bytes[..4092]).to_le_bytes());
        assert!(check_header(&bytes, 385, id).is_err());
        assert!(matches!(
            check_header(&bytes, 384, StoreId([8; 16])),
            Err(StoreError::Corrupt { detail: Damage::Foreign, .. })
        ));
    }

    #[test]
    fn every_flipped_byte_of_the_header_is_refused() {
        let bytes = encode_header(384, StoreId([9; 16]));
        for at in 0..HEADER_BYTES {
            let mut flipped = bytes;
            flipped[at] ^= 0x10;
            let error = check_header(&flipped, 384, StoreId([9; 16])).unwrap_err();
            assert!(matches!(error, StoreError::Corrupt { file: names::VECTORS, .. }));
        }
    }

    #[test]
    fn checksums_do_not_depend_on_how_rows_arrive() {
        let stride = 6;
        let matrix: Vec<u8> = (0..stride * 700).map(|n| (n * 31 % 251) as u8).collect();
        let whole = Tail::EMPTY.extend(&matrix, stride);
        assert_eq!(whole.1.len(), 2);
        assert_eq!(whole.1[1].crc, crc32fast::hash(&matrix[256 * stride..512 * stride]));
        assert_eq!(whole.0.crc, crc32fast::hash(&matrix[512 * stride..]));
        for rows in [1, 3, 255, 256, 257, 511] {
            let (mut tail, mut full) = (Tail::EMPTY, Vec::new());
            for part in matrix.chunks(rows * stride) {
                let (next, blocks) = tail.extend(part, stride);
                tail = next;
                full.extend(blocks);
            }
            assert_eq!((tail, full), whole, "{rows} rows at a time");
        }
    }
}
