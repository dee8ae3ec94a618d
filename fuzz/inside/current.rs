//! For the fuzz target `current`.

use super::*;

/// Any bytes as a `CURRENT`, unchanged and with magic and checksum corrected: an accepted one is encoded to
/// the same bytes.
pub fn fuzz_current(bytes: &[u8]) {
    let _ = Current::decode(bytes);
    let Some((head, _)) = bytes.split_first_chunk::<CURRENT_BYTES>() else { return };
    let mut head = *head;
    head[AT_MAGIC].copy_from_slice(&MAGIC);
    let crc = crc32fast::hash(&head[..AT_CRC.start]);
    head[AT_CRC].copy_from_slice(&crc.to_le_bytes());
    if let Ok(current) = Current::decode(&head) {
        assert_eq!(current.encode(), head);
    }
}
