//! The one mapping: `vectors.f16`, shared and read-only.
//!
//! Rows below the committed count are never written again, so a slice of them is
//! constant although the writer appends to the same file through `pwrite`. The mapping
//! is never handed out whole: behind the committed rows lies what a writer may be
//! changing.
#![allow(unsafe_code)]

use std::{fs::File, io, slice, sync::Arc};

use half::f16;
use memmap2::{MmapOptions, MmapRaw};

use super::layout::vectors::HEADER_BYTES;

// Rows are read as they lie in the file, which is little-endian.
const _: () = assert!(cfg!(target_endian = "little"), "the store needs a little-endian target");

/// A mapping of the file as long as it was when it was made. Cheap to clone; the pages
/// stay mapped until the last clone is dropped.
#[derive(Clone, Debug)]
pub(super) struct Mapping {
    map: Arc<MmapRaw>,
}

impl Mapping {
    /// Maps the first `len_bytes` bytes of `file`, which must be that long and is never shortened
    /// while mapped: the store holds the directory's lock and only ever grows the file.
    pub(super) fn new(file: &File, len_bytes: u64) -> io::Result<Self> {
        let too_short = || io::Error::from(io::ErrorKind::UnexpectedEof);
        let len = usize::try_from(len_bytes).map_err(|_| io::Error::from(io::ErrorKind::OutOfMemory))?;
        if len < HEADER_BYTES || file.metadata()?.len() < len_bytes {
            return Err(too_short());
        }
        let map = MmapOptions::new().len(len).map_raw_read_only(file)?;
        Ok(Self { map: Arc::new(map) })
    }

    /// The first `elements` elements behind the header, or `None` where the mapping is
    /// shorter. The caller asks for committed rows only.
    pub(super) fn elements(&self, elements: usize) -> Option<&[f16]> {
        let bytes = elements.checked_mul(size_of::<f16>())?;
        if HEADER_BYTES.checked_add(bytes)? > self.map.len() {
            return None;
        }
        // SAFETY: header + bytes <= map.len() was checked just above, the mapping lives as
        // long as `self`, the file is at least that long (checked in `new`, never shortened
        // under the lock), and committed bytes are never written again.
        let bytes = unsafe { slice::from_raw_parts(self.map.as_ptr().add(HEADER_BYTES), bytes) };
        // Never fails: a page-aligned base plus a header of whole pages, and whole elements.
        bytemuck::try_cast_slice(bytes).ok()
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::FileExt;

    use super::*;

    #[test]
    fn hands_out_what_is_mapped_and_no_more() {
        let file = tempfile::tempfile().unwrap();
        file.set_len(HEADER_BYTES as u64 + 6).unwrap();
        file.write_all_at(&f16::from_f32(1.5).to_le_bytes(), HEADER_BYTES as u64 + 2).unwrap();
        let map = Mapping::new(&file, HEADER_BYTES as u64 + 6).unwrap();
        assert_eq!(map.elements(3).unwrap(), [0.0, 1.5, 0.0].map(f16::from_f32));
        assert_eq!(map.elements(0).unwrap(), []);
        assert!(map.elements(4).is_none());
        assert!(map.elements(usize::MAX).is_none());
        assert!(Mapping::new(&file, HEADER_BYTES as u64 + 7).is_err());
        assert!(Mapping::new(&file, 10).is_err());
    }

    #[test]
    fn an_old_mapping_outlives_growth() {
        let file = tempfile::tempfile().unwrap();
        file.set_len(HEADER_BYTES as u64 + 2).unwrap();
        let old = Mapping::new(&file, HEADER_BYTES as u64 + 2).unwrap();
        file.set_len(HEADER_BYTES as u64 * 3).unwrap();
        let new = Mapping::new(&file, HEADER_BYTES as u64 * 3).unwrap();
        file.write_all_at(&f16::ONE.to_le_bytes(), HEADER_BYTES as u64).unwrap();
        assert_eq!(old.elements(1).unwrap(), [f16::ONE]);
        assert_eq!(new.elements(1).unwrap(), [f16::ONE]);
    }
}
