//! Opening a sealed file whose header or end is damaged, as far as the manifest proves what they were.
//!
//! The header says nothing that the manifest does not. Of the end, the manifest has the length of the file and a checksum,
//! which a tail has only if it is the right one; so a tail that was lost can be looked for, and with it, where checksums of
//! pages were lost, those of the pages as they are now. What is found is what was there, or every page would
//! have to be damaged in a way that the checksum does not see.

use std::path::Path;

use super::{
    CRC_BYTES, HEADER_BYTES, Identity, MOST_SECTIONS, PAGE_BYTES, SECTION_BYTES, Seal, SealedFile, Section,
    TAIL_BYTES, Tail, read::open,
};
use crate::store::{
    error::{Operation, Result, StoreError},
    io::Backend,
    mmap::Mapping,
};

impl SealedFile {
    /// As [`Self::open`]; a damaged header, a damaged tail, damaged page checksums or bytes behind the end keep nothing
    /// from being read. Pages are checked as ever.
    pub(in crate::store) fn open_damaged(
        backend: &dyn Backend,
        path: &Path,
        name: String,
        identity: Identity,
        seal: Seal,
    ) -> Result<Self> {
        let error = match Self::open(backend, path, name.clone(), identity, seal) {
            Err(error @ StoreError::Corrupt { .. }) => error,
            opened => return opened,
        };
        let (file, _) = open(backend, path, &name, seal)?;
        let mapping = Mapping::new(file.as_file(), seal.len).map_err(StoreError::io(path, Operation::Map))?;
        let Some(bytes) = mapping.bytes(0..mapping.len()) else { return Err(error) };
        let header = identity.encode();
        let layouts = || (0..=MOST_SECTIONS).filter_map(|sections| Layout::of(seal.len, sections));
        let stored = layouts().find_map(|layout| Some((layout.prove(layout.directory(bytes), seal)?, false)));
        let proven = stored.or_else(|| {
            layouts().find_map(|layout| Some((layout.prove(&layout.recomputed(bytes, &header), seal)?, true)))
        });
        let Some((tail, pages_are_sound)) = proven else { return Err(error) };
        let directory = &bytes[tail.body_bytes as usize..bytes.len() - TAIL_BYTES];
        let sections = Section::decode_all(directory, tail);
        let first_is_sound =
            page_checksum(first_page(bytes, tail.body_bytes), &header) == directory[..CRC_BYTES];
        let file = Self::of(name, mapping, tail, sections)?;
        if pages_are_sound {
            (0..tail.pages()).for_each(|page| file.trust_page(page));
        } else if first_is_sound {
            file.trust_page(0);
        }
        Ok(file)
    }
}

/// Where the parts of a file are.
#[derive(Clone, Copy)]
struct Layout {
    body_bytes: u64,
    sections: u32,
}

impl Layout {
    /// Of a file of this length with so many sections, if there is one.
    fn of(len: u64, sections: u32) -> Option<Self> {
        let rest = len.checked_sub(TAIL_BYTES as u64 + u64::from(sections) * SECTION_BYTES as u64)?;
        let pages = rest.div_ceil(PAGE_BYTES + CRC_BYTES as u64);
        let body_bytes = rest.checked_sub(pages * CRC_BYTES as u64)?;
        let layout = Self { body_bytes, sections };
        let sound = body_bytes >= HEADER_BYTES as u64 && layout.tail(0).file_bytes() == Some(len);
        sound.then_some(layout)
    }

    fn tail(self, crc: u32) -> Tail {
        Tail { body_bytes: self.body_bytes, sections: self.sections, crc }
    }

    /// The tail of this layout with this directory, if it is the one of the manifest.
    fn prove(self, directory: &[u8], seal: Seal) -> Option<Tail> {
        let tail = self.tail(crc32fast::hash(directory));
        (tail.checksum() == seal.crc).then_some(tail)
    }

    fn directory(self, bytes: &[u8]) -> &[u8] {
        &bytes[self.body_bytes as usize..bytes.len() - TAIL_BYTES]
    }

    /// The directory with the checksums of the pages as they are, and with the header as it must have been.
    fn recomputed(self, bytes: &[u8], header: &[u8; HEADER_BYTES]) -> Vec<u8> {
        let mut directory = self.directory(bytes).to_vec();
        let first = page_checksum(first_page(bytes, self.body_bytes), header);
        let pages = bytes[..self.body_bytes as usize].chunks(PAGE_BYTES as usize).skip(1);
        let others = pages.map(|page| crc32fast::hash(page).to_le_bytes());
        for (stored, now) in directory.chunks_exact_mut(CRC_BYTES).zip(std::iter::once(first).chain(others)) {
            stored.copy_from_slice(&now);
        }
        directory
    }
}

fn first_page(bytes: &[u8], body_bytes: u64) -> &[u8] {
    &bytes[..body_bytes.min(PAGE_BYTES) as usize]
}

/// Of the first page with another header.
fn page_checksum(page: &[u8], header: &[u8; HEADER_BYTES]) -> [u8; CRC_BYTES] {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(header);
    hasher.update(&page[HEADER_BYTES..]);
    hasher.finalize().to_le_bytes()
}
