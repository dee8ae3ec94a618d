//! Mappings of files, shared and read-only.
//!
//! A file of the store is written once, before anyone maps it, and never changed or shortened; its pages stay
//! valid for existing mappings after it is removed. So a slice of a mapping is constant. For model weights in
//! a folder that is not ours (`model/words.rs`), the folder's owner must ensure this: `docs/models.md`.
#![allow(unsafe_code)]

use std::{fs::File, io, ops::Range, slice, sync::Arc};

use memmap2::{MmapOptions, MmapRaw};

// Rows are read directly from the file, which is little-endian.
const _: () = assert!(cfg!(target_endian = "little"), "the store needs a little-endian target");
// Files are mapped whole, and may be larger than 4 GiB.
const _: () = assert!(cfg!(target_pointer_width = "64"), "the store needs a 64-bit target");

/// A mapping of a file with the length at the time of mapping. Cheap to clone; the pages stay mapped until
/// the last clone is dropped.
#[derive(Clone, Debug)]
pub(crate) struct Mapping {
    map: Arc<MmapRaw>,
}

impl Mapping {
    /// Maps the first `len_bytes` bytes of `file`, which must be that long.
    pub(crate) fn new(file: &File, len_bytes: u64) -> io::Result<Self> {
        Self::of_part(file, 0..len_bytes)
    }

    /// Maps a range of `file`, which must contain it; an empty range needs no mapping.
    pub(crate) fn of_part(file: &File, part: Range<u64>) -> io::Result<Self> {
        let room = usize::try_from(part.end.saturating_sub(part.start));
        let len = room.map_err(|_| io::Error::from(io::ErrorKind::OutOfMemory))?;
        if len == 0 || file.metadata()?.len() < part.end {
            return Err(io::Error::from(io::ErrorKind::UnexpectedEof));
        }
        let map = MmapOptions::new().offset(part.start).len(len).map_raw_read_only(file)?;
        Ok(Self { map: Arc::new(map) })
    }

    /// As [`Self::new`], with other bytes at some offsets, which must be within; the file keeps its own.
    pub(crate) fn patched(file: &File, len_bytes: u64, bytes: &[(usize, u8)]) -> io::Result<Self> {
        // Whether the file can be mapped.
        let len = Self::new(file, len_bytes)?.len();
        // SAFETY: the mapping is private, and the file neither changes nor gets shorter (see above).
        let mut map = unsafe { MmapOptions::new().len(len).map_copy(file)? };
        bytes.iter().for_each(|&(at, byte)| map[at] = byte);
        Ok(Self { map: Arc::new(map.into()) })
    }

    /// Length of the mapping in bytes.
    pub(crate) fn len(&self) -> usize {
        self.map.len()
    }

    /// A range of a file that is never written again, or `None` if it is out of bounds.
    pub(crate) fn bytes(&self, range: Range<usize>) -> Option<&[u8]> {
        if range.start > range.end || range.end > self.map.len() {
            return None;
        }
        // SAFETY: start <= end <= map.len() was checked just above, the mapping lives as long as `self`, and
        // the file is at least that long (checked in `of_part`, never shortened). Callers map sealed files,
        // which never change once published, and model weights, which docs/models.md requires to be replaced
        // by renaming.
        Some(unsafe { slice::from_raw_parts(self.map.as_ptr().add(range.start), range.len()) })
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::FileExt;

    use super::*;

    #[test]
    fn hands_out_what_is_mapped_and_no_more() {
        let file = tempfile::tempfile().unwrap();
        file.set_len(10).unwrap();
        file.write_all_at(&[7, 8], 3).unwrap();
        let map = Mapping::new(&file, 10).unwrap();
        assert_eq!(map.len(), 10);
        assert_eq!(map.bytes(2..6).unwrap(), [0, 7, 8, 0]);
        assert!(map.bytes(10..10).unwrap().is_empty());
        #[expect(clippy::reversed_empty_ranges, reason = "a damaged file may ask for it")]
        let backwards = 6..2;
        for outside in [9..11, backwards, 11..11, usize::MAX - 1..usize::MAX] {
            assert!(map.bytes(outside.clone()).is_none(), "{outside:?}");
        }
        let part = Mapping::of_part(&file, 3..5).unwrap();
        assert_eq!(part.bytes(0..2).unwrap(), [7, 8]);
        assert!(part.bytes(0..3).is_none());
        assert!(Mapping::of_part(&file, 3..11).is_err());
        assert!(Mapping::of_part(&file, 3..3).is_err());
        assert!(Mapping::new(&file, 11).is_err());
        assert!(Mapping::new(&file, 0).is_err());
    }

    #[test]
    fn a_patch_does_not_reach_the_file() {
        let file = tempfile::tempfile().unwrap();
        file.write_all_at(&[1, 2, 3], 0).unwrap();
        let patched = Mapping::patched(&file, 3, &[(1, 9)]).unwrap();
        assert_eq!(patched.bytes(0..3).unwrap(), [1, 9, 3]);
        assert_eq!(Mapping::new(&file, 3).unwrap().bytes(0..3).unwrap(), [1, 2, 3]);
        assert!(Mapping::patched(&file, 4, &[]).is_err());
    }

    #[test]
    fn a_mapping_outlives_the_file() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        std::fs::write(&path, [5; 100]).unwrap();
        let map = Mapping::new(&File::open(&path).unwrap(), 100).unwrap();
        std::fs::remove_file(&path).unwrap();
        assert_eq!(map.bytes(0..100).unwrap(), [5; 100]);
    }
}
