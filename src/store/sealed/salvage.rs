//! Opens a sealed file with a damaged header or end, as far as the manifest proves their contents.
//!
//! The header only repeats what the manifest says. For the end, the manifest has the length of the file and a
//! checksum that only the right tail has; so a lost tail can be searched for, and with it, if page checksums
//! were lost, those of the pages as they are now. The result is the original, or every page would have to be
//! damaged in a way that the checksum does not detect.

use std::path::Path;

use super::{
    CRC_BYTES, HEADER_BYTES, Identity, MOST_SECTIONS, PAGE_BYTES, SECTION_BYTES, Seal, SealedFile, Section,
    TAIL_BYTES, Tail,
    read::{open, read},
};
use crate::disk::{Backend, BackendFile};
use crate::store::error::{Result, StoreError};

impl SealedFile {
    /// Opens a damaged file, whose error is `error`.
    pub(super) fn open_damaged(
        backend: &dyn Backend,
        path: &Path,
        name: String,
        identity: Identity,
        seal: Seal,
        error: StoreError,
    ) -> Result<Self> {
        let (file, _) = open(backend, path, &name, seal)?;
        let header = identity.encode();
        let mut end = vec![0; Tail::most_end_bytes(seal.len) as usize];
        let at = seal.len - end.len() as u64;
        if read(&*file, path, &mut end, at)?.is_none() {
            return Err(error);
        }
        let tails = || (0..=MOST_SECTIONS).filter_map(|sections| Tail::fitting(seal.len, sections));
        let stored = tails().find_map(|tail| tail.prove(tail.directory(&end), seal));
        let (tail, pages_are_sound) = match stored {
            Some(tail) => (tail, false),
            None => {
                let pages = Pages::read(&*file, path, &header, seal.len)?;
                let prove = |tail: Tail| Ok(tail.prove(&pages.directory(tail, &end)?, seal));
                let Some(tail) = tails().find_map(|tail| prove(tail).transpose()) else {
                    return Err(error);
                };
                (tail?, true)
            }
        };
        let directory = tail.directory(&end);
        let first = page_checksum(&*file, path, 0, tail.body_bytes, &header)?;
        let first_is_sound = first == directory[..CRC_BYTES];
        let sections = Section::decode_all(directory, tail);
        let opened = Self::of(path, name, identity, seal, file, tail, sections)?;
        if pages_are_sound {
            (0..tail.pages()).for_each(|page| opened.trust_page(page));
        } else if first_is_sound {
            opened.trust_page(0);
        }
        Ok(opened)
    }
}

impl Tail {
    /// The tail of a file of this length with `sections` sections, without its checksum; `None` if no such
    /// file has this length.
    fn fitting(len: u64, sections: u32) -> Option<Self> {
        let rest = len.checked_sub(TAIL_BYTES as u64 + u64::from(sections) * SECTION_BYTES as u64)?;
        let pages = rest.div_ceil(PAGE_BYTES + CRC_BYTES as u64);
        let body_bytes = rest.checked_sub(pages * CRC_BYTES as u64)?;
        let tail = Self { body_bytes, sections, crc: 0 };
        (body_bytes >= HEADER_BYTES as u64 && tail.file_bytes() == Some(len)).then_some(tail)
    }

    /// The same with the checksum of this directory, if it matches the manifest.
    fn prove(self, directory: &[u8], seal: Seal) -> Option<Self> {
        let tail = Self { crc: crc32fast::hash(directory), ..self };
        (tail.checksum() == seal.crc).then_some(tail)
    }

    /// The directory in the last bytes of the file.
    fn directory(self, end: &[u8]) -> &[u8] {
        let bytes = self.directory_bytes() as usize;
        &end[end.len() - TAIL_BYTES - bytes..end.len() - TAIL_BYTES]
    }
}

/// The pages of a file as they are, with the header as it must have been.
struct Pages<'a> {
    file: &'a dyn BackendFile,
    path: &'a Path,
    header: &'a [u8; HEADER_BYTES],
    /// Checksums of the whole pages.
    checksums: Vec<[u8; CRC_BYTES]>,
}

impl<'a> Pages<'a> {
    fn read(
        file: &'a dyn BackendFile,
        path: &'a Path,
        header: &'a [u8; HEADER_BYTES],
        len: u64,
    ) -> Result<Self> {
        let whole = 0..len / PAGE_BYTES;
        let checksums =
            whole.map(|page| page_checksum(file, path, page, len, header)).collect::<Result<_>>()?;
        Ok(Self { file, path, header, checksums })
    }

    /// The directory of a file with these checksums; the last page ends where the tail says.
    fn directory(&self, tail: Tail, end: &[u8]) -> Result<Vec<u8>> {
        let mut directory = tail.directory(end).to_vec();
        let (pages, body) = (tail.pages(), tail.body_bytes);
        for (page, stored) in (0..pages).zip(directory.chunks_exact_mut(CRC_BYTES)) {
            let whole = (page + 1) * PAGE_BYTES <= body;
            stored.copy_from_slice(&match self.checksums.get(page as usize).filter(|_| whole) {
                Some(known) => *known,
                None => page_checksum(self.file, self.path, page, body, self.header)?,
            });
        }
        Ok(directory)
    }
}

/// The checksum of a page of a body that ends at `end`, with another header; 0 for a page that the medium
/// cannot return.
fn page_checksum(
    file: &dyn BackendFile,
    path: &Path,
    page: u64,
    end: u64,
    header: &[u8; HEADER_BYTES],
) -> Result<[u8; CRC_BYTES]> {
    let start = page * PAGE_BYTES;
    let mut bytes = vec![0; PAGE_BYTES.min(end - start) as usize];
    if read(file, path, &mut bytes, start)?.is_none() {
        return Ok([0; CRC_BYTES]);
    }
    if page == 0 {
        bytes[..HEADER_BYTES].copy_from_slice(header);
    }
    Ok(crc32fast::hash(&bytes).to_le_bytes())
}
