//! Opens a sealed file with a damaged header or end, as far as the manifest proves their contents.
//!
//! The header only repeats what the manifest says. For the end, the manifest has the length of the file and a
//! checksum that only the right tail has; so a lost tail can be searched for, and with it, if page checksums
//! were lost, those of the pages as they are now. The result is the original, or every page would have to be
//! damaged in a way that the checksum does not detect.

use std::{collections::BTreeMap, ops::Range};

use super::{SealedFile, read::Contents};
use crate::store::{
    error::{Result, StoreError},
    layout::{CRC_BYTES, sealed::*},
};

impl SealedFile {
    /// Opens a damaged file, whose error is `error`.
    pub(super) fn open_damaged(contents: Contents, error: StoreError) -> Result<Self> {
        let len = contents.seal.len;
        let most = Tail::most_end_bytes(len);
        let mut end = vec![0; most as usize];
        if !contents.read(&mut end, len - most)? {
            return Err(error);
        }
        let tails = || (0..=MOST_SECTIONS).filter_map(|sections| Tail::fitting(len, sections));
        let proven = |tail: Tail, directory: &[u8]| {
            let tail = Tail::new(tail.body_bytes, tail.sections, crc32fast::hash(directory));
            (tail.crc == contents.seal.crc).then_some(tail)
        };
        let stored = tails().find_map(|tail| proven(tail, tail.directory(&end)));
        let (tail, pages_are_sound) = match stored {
            Some(tail) => (tail, false),
            None => {
                let pages = (0..len / PAGE_BYTES).map(|page| contents.page_checksum(page, len));
                let pages = pages.collect::<Result<Vec<_>>>()?;
                let prove = |tail: Tail| Ok(proven(tail, &contents.directory(tail, &end, &pages)?));
                let Some(tail) = tails().find_map(|tail| prove(tail).transpose()) else {
                    return Err(error);
                };
                (tail?, true)
            }
        };
        let directory = tail.directory(&end);
        let first_is_sound = contents.page_checksum(0, tail.body_bytes)? == directory[..CRC_BYTES];
        let opened = Self::new(contents, tail, tail.sections_in(directory))?;
        if pages_are_sound {
            opened.trust_all();
        } else if first_is_sound {
            opened.trust_page(0);
        }
        Ok(opened)
    }

    /// Damaged pages with bytes both of sections below `name` and of sections from there on.
    pub(in crate::store) fn damaged_at_border(&self, name: u32) -> Result<Vec<u64>> {
        let (below, above): (Vec<u32>, Vec<u32>) = (0..SECTION_NAMES as u32).partition(|own| *own < name);
        let is_on = |page: u64, names: &[u32]| names.iter().any(|name| !self.overlap(page, *name).is_empty());
        let mut damaged = Vec::new();
        for page in (0..self.pages()).filter(|&page| is_on(page, &below) && is_on(page, &above)) {
            match self.check_page(page) {
                Err(StoreError::Corrupt { .. }) => damaged.push(page),
                checked => checked?,
            }
        }
        Ok(damaged)
    }

    /// The part of a section that is on a page.
    pub(super) fn overlap(&self, page: u64, name: u32) -> Range<u64> {
        let (section, start) = (self.section(name), page * PAGE_BYTES);
        section.start.max(start)..section.end.min(start + PAGE_BYTES)
    }

    /// Trusts those of the pages that have their checksums if the sections are these.
    pub(in crate::store) fn trust_with(
        &self,
        pages: &[u64],
        sections: &BTreeMap<u32, Vec<u8>>,
    ) -> Result<()> {
        let have_their_lengths = |page: &&u64| {
            let mut here = sections.iter().filter(|&(&name, _)| !self.overlap(**page, name).is_empty());
            here.all(|(&name, bytes)| self.count(name, 1) == bytes.len() as u64)
        };
        for &page in pages.iter().filter(have_their_lengths) {
            let checked = self.read_page_with(page, &mut |own| {
                for (&name, bytes) in sections {
                    let (on_page, from) = (self.overlap(page, name), self.section(name).start);
                    if !on_page.is_empty() {
                        let within =
                            |start: u64| (on_page.start - start) as usize..(on_page.end - start) as usize;
                        own[within(page * PAGE_BYTES)].copy_from_slice(&bytes[within(from)]);
                    }
                }
            });
            // Something else on it is damaged too.
            let (Ok(()) | Err(StoreError::Corrupt { .. })) = checked else { return checked };
        }
        Ok(())
    }

    /// Trusts every page unseen: what is read may be anything.
    pub(in crate::store) fn trust_all(&self) {
        (0..self.pages()).for_each(|page| self.trust_page(page));
    }
}

impl Tail {
    /// The tail of a file of this length with `sections` sections, without the checksum of its directory;
    /// `None` if no such file has this length.
    fn fitting(len: u64, sections: u32) -> Option<Self> {
        let rest = len.checked_sub(TAIL_BYTES as u64 + u64::from(sections) * SECTION_BYTES as u64)?;
        let pages = rest.div_ceil(PAGE_BYTES + CRC_BYTES as u64);
        let tail = Self::new(rest.checked_sub(pages * CRC_BYTES as u64)?, sections, 0);
        (tail.body_bytes >= HEADER_BYTES as u64 && tail.file_bytes() == Some(len)).then_some(tail)
    }

    /// The directory in the last bytes of the file.
    fn directory(self, end: &[u8]) -> &[u8] {
        let bytes = self.directory_bytes() as usize;
        &end[end.len() - TAIL_BYTES - bytes..end.len() - TAIL_BYTES]
    }
}

impl Contents {
    /// The directory of a file with these checksums of its whole pages; the last page ends where the tail
    /// says.
    fn directory(&self, tail: Tail, end: &[u8], whole_pages: &[[u8; CRC_BYTES]]) -> Result<Vec<u8>> {
        let mut directory = tail.directory(end).to_vec();
        for (page, stored) in (0..tail.pages()).zip(directory.chunks_exact_mut(CRC_BYTES)) {
            let whole = (page + 1) * PAGE_BYTES <= tail.body_bytes;
            stored.copy_from_slice(&match whole_pages.get(page as usize).filter(|_| whole) {
                Some(known) => *known,
                None => self.page_checksum(page, tail.body_bytes)?,
            });
        }
        Ok(directory)
    }

    /// The checksum of a page of a body that ends at `end`, with the header as it must have been; 0 for a
    /// page that the medium cannot return.
    fn page_checksum(&self, page: u64, end: u64) -> Result<[u8; CRC_BYTES]> {
        let start = page * PAGE_BYTES;
        let mut bytes = vec![0; PAGE_BYTES.min(end - start) as usize];
        if !self.read(&mut bytes, start)? {
            return Ok([0; CRC_BYTES]);
        }
        if page == 0 {
            bytes[..HEADER_BYTES].copy_from_slice(bytemuck::bytes_of(&self.header()));
        }
        Ok(crc32fast::hash(&bytes).to_le_bytes())
    }
}
