//! Reads a sealed file through a mapping that is checked page by page.

use std::{
    io::ErrorKind,
    ops::Range,
    path::PathBuf,
    sync::atomic::{AtomicU64, Ordering},
};

use super::{Seal, SealedFolder, SealedName};
use crate::{
    disk::{BackendFile, Mapping, OpenMode},
    store::{
        error::{Damage, Operation, Result, StoreError},
        header::{self, StoreId},
        layout::{CRC_BYTES, sealed::*},
    },
};

/// An open sealed file. Shared by threads; the pages stay mapped when the file is unlinked.
pub(in crate::store) struct SealedFile {
    /// Used in errors.
    name: String,
    contents: Contents,
    mapping: Mapping,
    /// By name; empty if the file has no such section.
    sections: Box<[Range<u64>; SECTION_NAMES]>,
    body_bytes: u64,
    /// One bit for each page that was read and is intact.
    sound: Box<[AtomicU64]>,
    /// Flipped bytes that were put right.
    pub(in crate::store) patched: u64,
}

/// A file, and what the manifest says about it.
pub(super) struct Contents {
    pub(super) file: Box<dyn BackendFile>,
    pub(super) path: PathBuf,
    pub(super) name: SealedName,
    pub(super) store_id: StoreId,
    pub(super) seal: Seal,
}

impl SealedFile {
    /// Opens a file that the manifest names, and checks everything except its pages.
    ///
    /// With `damaged`, the file can be read despite a damaged header, a damaged tail, damaged page checksums
    /// or bytes after the end, and flipped bits are put right; pages are checked as always.
    pub(in crate::store) fn open(
        folder: SealedFolder<'_>,
        name: SealedName,
        seal: Seal,
        damaged: bool,
    ) -> Result<Self> {
        let (contents, len) = Contents::open(folder, name, seal)?;
        let ends = match len == seal.len {
            true => contents.ends(),
            false => Err(contents.wrong_length(len)),
        };
        let mut opened = match ends {
            Ok((tail, sections)) => Self::new(contents, tail, sections)?,
            Err(error @ StoreError::Corrupt { .. }) if damaged => Self::open_damaged(contents, error)?,
            Err(error) => return Err(error),
        };
        if damaged {
            opened.mend()?;
        }
        Ok(opened)
    }

    /// A file with a sound end, none of whose pages were read yet.
    pub(super) fn new(contents: Contents, tail: Tail, sections: Vec<Section>) -> Result<Self> {
        let mut places = Box::new([const { 0..0 }; SECTION_NAMES]);
        // Of two sections with one name, the first counts.
        for Section { name: own, offset, len } in sections.into_iter().rev() {
            let Some(end) = offset.checked_add(len).filter(|end| *end <= tail.body_bytes) else {
                return Err(contents.corrupt(Damage::Field { field: "a section's offset", found: offset }));
            };
            if let Some(place) = places.get_mut(own as usize) {
                *place = offset..end;
            }
        }
        let mapping = Mapping::new(contents.file.as_file(), contents.seal.len);
        let mapping = mapping.map_err(StoreError::io(&contents.path, Operation::Map))?;
        let words = tail.pages().div_ceil(64) as usize;
        let sound = (0..words).map(|_| AtomicU64::new(0)).collect();
        let name = contents.name.to_string();
        Ok(Self { name, contents, mapping, sections: places, body_bytes: tail.body_bytes, sound, patched: 0 })
    }

    /// The name used in errors.
    pub(in crate::store) fn name(&self) -> &str {
        &self.name
    }

    /// Bytes of the whole file.
    pub(in crate::store) fn len(&self) -> u64 {
        self.mapping.len() as u64
    }

    /// The range of a section; empty if the file has no such section.
    #[inline]
    pub(in crate::store) fn section(&self, name: u32) -> &Range<u64> {
        &self.sections[name as usize]
    }

    /// Number of elements of `width` bytes in a section.
    #[inline]
    pub(in crate::store) fn count(&self, name: u32, width: u64) -> u64 {
        let section = self.section(name);
        (section.end - section.start) / width
    }

    /// Compares the numbers of elements of sections with the expected ones: given as name, section, width of
    /// an element, and expected number.
    pub(in crate::store) fn check_counts<const N: usize>(
        &self,
        counts: [(&'static str, u32, u64, u64); N],
    ) -> Result<()> {
        for (what, section, width, expected) in counts {
            let found = self.count(section, width);
            if found != expected {
                return Err(self.corrupt(Damage::Disagreement { what, expected, found }));
            }
        }
        Ok(())
    }

    /// Checked bytes at file offsets, which must lie inside a section.
    #[inline]
    pub(in crate::store) fn bytes(&self, range: Range<u64>) -> Result<&[u8]> {
        let inside = range.start <= range.end && range.end <= self.body_bytes;
        let bytes = match inside {
            true => self.mapping.bytes(range.start as usize..range.end as usize),
            false => None,
        };
        let too_short = || Damage::TooShort { needed: range.end, found: self.body_bytes };
        let bytes = bytes.ok_or_else(|| self.corrupt(too_short()))?;
        if !bytes.is_empty() {
            for page in range.start / PAGE_BYTES..=(range.end - 1) / PAGE_BYTES {
                self.check_page(page)?;
            }
        }
        Ok(bytes)
    }

    /// Whether the section exists and is not empty.
    #[inline]
    pub(in crate::store) fn has(&self, name: u32) -> bool {
        !self.section(name).is_empty()
    }

    /// All checked elements of a section.
    pub(in crate::store) fn all<T: bytemuck::Pod>(&self, name: u32) -> Result<&[T]> {
        self.elements(name, 0..self.count(name, size_of::<T>() as u64) as usize)
    }

    /// One checked element of a section.
    #[inline]
    pub(in crate::store) fn element<T: bytemuck::Pod>(&self, name: u32, at: u32) -> Result<&T> {
        Ok(&self.elements(name, at as usize..at as usize + 1)?[0])
    }

    /// Checked elements `range` of a section.
    #[inline]
    pub(in crate::store) fn elements<T: bytemuck::Pod>(
        &self,
        name: u32,
        range: Range<usize>,
    ) -> Result<&[T]> {
        let section = self.section(name);
        let width = size_of::<T>() as u64;
        let (start, end) = (range.start as u64 * width, range.end as u64 * width);
        if start > end || end > section.end - section.start {
            let needed = end;
            return Err(self.corrupt(Damage::TooShort { needed, found: section.end - section.start }));
        }
        let bytes = self.bytes(section.start + start..section.start + end)?;
        let cast = bytemuck::try_cast_slice(bytes);
        cast.map_err(|_| self.corrupt(Damage::Field { field: "a section's offset", found: section.start }))
    }

    /// Number of results of [`Self::check_all`].
    pub(in crate::store) fn checks(&self) -> u64 {
        1 + self.pages()
    }

    pub(super) fn pages(&self) -> u64 {
        self.body_bytes.div_ceil(PAGE_BYTES)
    }

    /// Rereads header and end, then page after page, whether or not they were read before.
    pub(in crate::store) fn check_all(&self) -> impl Iterator<Item = Result<()>> + '_ {
        std::iter::once_with(|| self.contents.ends().map(drop))
            .chain((0..self.pages()).map(|page| self.read_page(page)))
    }

    pub(in crate::store) fn corrupt(&self, detail: Damage) -> StoreError {
        self.contents.corrupt(detail)
    }

    /// Marks a page as sound without reading it.
    pub(super) fn trust_page(&self, page: u64) {
        // Relaxed: the bit says that immutable bytes were found intact.
        self.sound[(page / 64) as usize].fetch_or(1 << (page % 64), Ordering::Relaxed);
    }

    #[inline]
    pub(super) fn check_page(&self, page: u64) -> Result<()> {
        let word = &self.sound[(page / 64) as usize];
        if word.load(Ordering::Relaxed) & (1 << (page % 64)) != 0 {
            return Ok(());
        }
        self.read_page(page)
    }

    /// Compares a page with its checksum.
    ///
    /// Read, not mapped: an unreadable medium then causes an error, and does not kill the process. The
    /// mapping shows the same memory of the system.
    #[cold]
    fn read_page(&self, page: u64) -> Result<()> {
        self.read_page_with(page, &mut |_| {})
    }

    /// As [`Self::read_page`], after a change of the bytes that were read.
    pub(super) fn read_page_with(&self, page: u64, change: &mut dyn FnMut(&mut [u8])) -> Result<()> {
        let read = self.unchecked_page(page)?;
        let is_sound = read.is_some_and(|(mut bytes, checksum)| {
            change(&mut bytes);
            crc32fast::hash(&bytes) == checksum
        });
        if !is_sound {
            return Err(self.corrupt(Damage::Checksum { what: "page", number: page }));
        }
        self.trust_page(page);
        Ok(())
    }

    /// The bytes of a page in the file, and its checksum; `None` if the medium cannot return them.
    pub(super) fn unchecked_page(&self, page: u64) -> Result<Option<(Vec<u8>, u32)>> {
        let start = page * PAGE_BYTES;
        let mut bytes = vec![0; PAGE_BYTES.min(self.body_bytes - start) as usize];
        let mut crc = [0; CRC_BYTES];
        let at = self.body_bytes + page * CRC_BYTES as u64;
        let whole = self.contents.read(&mut bytes, start)? && self.contents.read(&mut crc, at)?;
        Ok(whole.then(|| (bytes, u32::from_le_bytes(crc))))
    }

    /// Replaces bytes at these offsets in what is read from now on; the file stays as it is.
    pub(super) fn patch(&mut self, bytes: &[(usize, u8)]) -> Result<()> {
        let (file, len) = (self.contents.file.as_file(), self.contents.seal.len);
        let patched = Mapping::patched(file, len, bytes);
        self.mapping = patched.map_err(StoreError::io(&self.contents.path, Operation::Map))?;
        self.patched = bytes.len() as u64;
        Ok(())
    }
}

impl Contents {
    /// Opens a file named by the manifest, and returns its length, which is at least the one in the manifest.
    fn open(folder: SealedFolder<'_>, name: SealedName, seal: Seal) -> Result<(Self, u64)> {
        let SealedFolder { backend, dir, store_id } = folder;
        let path = dir.join(name.to_string());
        let file = backend.open(&path, OpenMode::Read).map_err(|source| match source.kind() {
            ErrorKind::NotFound => {
                StoreError::corrupt(name.to_string(), Damage::Missing { what: "the file" })
            }
            _ => StoreError::io(&path, Operation::Open)(source),
        })?;
        let len = file.len().map_err(StoreError::io(&path, Operation::Read))?;
        let contents = Self { file, path, name, store_id, seal };
        match len < seal.len || seal.len < (HEADER_BYTES + TAIL_BYTES) as u64 {
            true => Err(contents.wrong_length(len)),
            false => Ok((contents, len)),
        }
    }

    fn wrong_length(&self, found: u64) -> StoreError {
        self.corrupt(Damage::Disagreement { what: "its length", expected: self.seal.len, found })
    }

    fn corrupt(&self, detail: Damage) -> StoreError {
        StoreError::corrupt(self.name.to_string(), detail)
    }

    /// Fills a buffer; `false` if the medium cannot return what was written, or the file has become shorter.
    pub(super) fn read(&self, buffer: &mut [u8], at: u64) -> Result<bool> {
        const EIO: i32 = 5;
        match self.file.read_at(buffer, at) {
            Ok(()) => Ok(true),
            Err(error) if error.raw_os_error() == Some(EIO) || error.kind() == ErrorKind::UnexpectedEof => {
                Ok(false)
            }
            Err(error) => Err(StoreError::io(&self.path, Operation::Read)(error)),
        }
    }

    /// Directory and tail of a file of the right length, whose header is checked as well.
    fn ends(&self) -> Result<(Tail, Vec<Section>)> {
        let read = |what, buffer: &mut [u8], at| match self.read(buffer, at)? {
            true => Ok(()),
            false => Err(self.corrupt(Damage::Checksum { what, number: 0 })),
        };
        // Read, not mapped: on a cold disk, a page fault may read megabytes around it.
        let most = Tail::most_end_bytes(self.seal.len);
        let mut end = vec![0; most as usize];
        read("the end of the file", &mut end, self.seal.len - most)?;
        let mut header = vec![0; HEADER_BYTES];
        read("the header", &mut header, 0)?;
        let Some((end, tail)) = end.split_last_chunk() else { return Err(self.corrupt(Damage::Magic)) };
        let tail = Tail::decode(tail).map_err(|damage| self.corrupt(damage))?;
        if tail.crc != self.seal.crc {
            return Err(self.corrupt(Damage::Foreign));
        }
        if tail.file_bytes() != Some(self.seal.len) || tail.body_bytes < HEADER_BYTES as u64 {
            let found = tail.body_bytes;
            return Err(self.corrupt(Damage::Field { field: "the length of the sections", found }));
        }
        let Some(at) = end.len().checked_sub(tail.directory_bytes() as usize) else {
            let found = tail.sections.into();
            return Err(self.corrupt(Damage::Field { field: "the number of sections", found }));
        };
        if crc32fast::hash(&end[at..]) != tail.directory_crc {
            return Err(self.corrupt(Damage::Checksum { what: "the directory", number: 0 }));
        }
        header::read::<SealedHeader>(&self.name.to_string(), &header, MAGIC)?;
        match header == bytemuck::bytes_of(&self.header()) {
            true => Ok((tail, tail.sections_in(&end[at..]))),
            // Of another segment, of another kind, or of another store.
            false => Err(self.corrupt(Damage::Foreign)),
        }
    }

    /// The header that the file must have.
    pub(super) fn header(&self) -> SealedHeader {
        self.name.header(self.store_id)
    }
}
