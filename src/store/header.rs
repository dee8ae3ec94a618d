//! What the headers of all files of a store have in common: magic and version first, a checksum last.

use std::{
    hash::{BuildHasher, Hasher, RandomState},
    time::SystemTime,
};

use super::{
    error::{Damage, Result, StoreError},
    layout::{CRC_BYTES, FORMAT_VERSION, MAGIC_BYTES, STORE_ID_BYTES},
};

/// Ties the files of one index together, so that a file copied in from another one is noticed.
pub(super) type StoreId = [u8; STORE_ID_BYTES];

/// Sixteen unique, not secret bytes: the standard library's randomly keyed hash of time and process.
pub(crate) fn unique_id() -> StoreId {
    let mut id = [0; STORE_ID_BYTES];
    for half in id.chunks_exact_mut(8) {
        let mut hasher = RandomState::new().build_hasher();
        let since_epoch = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        hasher.write_u128(since_epoch.map_or(0, |d| d.as_nanos()));
        hasher.write_u32(std::process::id());
        half.copy_from_slice(&hasher.finish().to_le_bytes());
    }
    id
}

/// An id as 32 hexadecimal digits.
pub(super) fn text_of(id: StoreId) -> String {
    id.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Sets magic, version and checksum of a header.
pub(super) fn sign<H: bytemuck::Pod>(mut header: H, magic: [u8; MAGIC_BYTES]) -> H {
    let bytes = bytemuck::bytes_of_mut(&mut header);
    bytes[..MAGIC_BYTES].copy_from_slice(&magic);
    bytes[MAGIC_BYTES..MAGIC_BYTES + 4].copy_from_slice(&FORMAT_VERSION.to_le_bytes());
    let (fields, crc) = bytes.split_at_mut(size_of::<H>() - CRC_BYTES);
    crc.copy_from_slice(&crc32fast::hash(fields).to_le_bytes());
    header
}

/// Checks what [`sign`] sets, and returns the header.
pub(super) fn read<H: bytemuck::Pod>(file: &str, bytes: &[u8], magic: [u8; MAGIC_BYTES]) -> Result<H> {
    let corrupt = |detail| StoreError::corrupt(file.to_owned(), detail);
    let Some((fields, crc)) = bytes.split_last_chunk::<CRC_BYTES>() else {
        return Err(corrupt(Damage::Magic));
    };
    if !fields.starts_with(&magic) {
        return Err(corrupt(Damage::Magic));
    }
    // Checked before the version: the checksum's position never moves, so a damaged version is reported as
    // damage.
    if crc32fast::hash(fields) != u32::from_le_bytes(*crc) {
        return Err(corrupt(Damage::Checksum { what: "the header", number: 0 }));
    }
    let mut version = [0; 4];
    version.copy_from_slice(&fields[MAGIC_BYTES..MAGIC_BYTES + 4]);
    check_version(file, u32::from_le_bytes(version))?;
    Ok(bytemuck::pod_read_unaligned(bytes))
}

/// Refuses a version that this crate does not read, with its number.
pub(crate) fn check_version(file: &str, found: u32) -> Result<()> {
    match found {
        FORMAT_VERSION => Ok(()),
        _ => Err(StoreError::UnsupportedVersion { file: file.to_owned().into(), found }),
    }
}
