//! Reads a sealed file through a mapping that is checked page by page.

use std::{
    ops::Range,
    path::Path,
    sync::atomic::{AtomicU64, Ordering},
};

use super::{HEADER_BYTES, Identity, PAGE_BYTES, SECTION_NAMES, Seal, Section, TAIL_BYTES, Tail};
use crate::disk::{Backend, BackendFile, Mapping, OpenMode};
use crate::store::{
    error::{Damage, Operation, Result, StoreError},
    layout::CRC_BYTES,
};

/// An open sealed file. Shared by threads; the pages stay mapped when the file is unlinked.
pub(in crate::store) struct SealedFile {
    name: String,
    identity: Identity,
    seal: Seal,
    file: Box<dyn BackendFile>,
    mapping: Mapping,
    /// By name; empty if the file has no such section.
    sections: Box<[Range<u64>; SECTION_NAMES]>,
    body_bytes: u64,
    /// One bit for each page that was read and is intact.
    sound: Box<[AtomicU64]>,
}

impl SealedFile {
    /// Opens a file that the manifest names, and checks everything except its pages.
    ///
    /// `name` is used in errors. With `damaged`, the file can be read despite a damaged header, a damaged
    /// tail, damaged page checksums or bytes after the end; pages are checked as always.
    pub(in crate::store) fn open(
        backend: &dyn Backend,
        path: &Path,
        name: String,
        identity: Identity,
        seal: Seal,
        damaged: bool,
    ) -> Result<Self> {
        match Self::open_sound(backend, path, name.clone(), identity, seal) {
            Err(error @ StoreError::Corrupt { .. }) if damaged => {
                Self::open_damaged(backend, path, name, identity, seal, error)
            }
            opened => opened,
        }
    }

    fn open_sound(
        backend: &dyn Backend,
        path: &Path,
        name: String,
        identity: Identity,
        seal: Seal,
    ) -> Result<Self> {
        let (file, len) = open(backend, path, &name, seal)?;
        if len != seal.len {
            let (expected, found) = (seal.len, len);
            return Err(StoreError::corrupt(
                name,
                Damage::Disagreement { what: "its length", expected, found },
            ));
        }
        let (tail, sections) = read_ends(&*file, path, &name, identity, seal)?;
        Self::of(path, name, identity, seal, file, tail, sections)
    }

    /// A file with a sound end, none of whose pages were read yet.
    pub(super) fn of(
        path: &Path,
        name: String,
        identity: Identity,
        seal: Seal,
        file: Box<dyn BackendFile>,
        tail: Tail,
        sections: Vec<Section>,
    ) -> Result<Self> {
        let mut places = Box::new([const { 0..0 }; SECTION_NAMES]);
        // Of two sections with one name, the first counts.
        for Section { name: own, offset, len } in sections.into_iter().rev() {
            let Some(end) = offset.checked_add(len).filter(|end| *end <= tail.body_bytes) else {
                let detail = Damage::Field { field: "a section's offset", found: offset };
                return Err(StoreError::corrupt(name, detail));
            };
            if let Some(place) = places.get_mut(own as usize) {
                *place = offset..end;
            }
        }
        let mapping = Mapping::new(file.as_file(), seal.len).map_err(StoreError::io(path, Operation::Map))?;
        let words = tail.pages().div_ceil(64) as usize;
        let sound = (0..words).map(|_| AtomicU64::new(0)).collect();
        Ok(Self { name, identity, seal, file, mapping, sections: places, body_bytes: tail.body_bytes, sound })
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
    pub(in crate::store) fn section(&self, name: u32) -> &Range<u64> {
        &self.sections[name as usize]
    }

    /// Checked bytes at file offsets, which must lie inside a section.
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

    /// Checked elements `range` of a section.
    pub(in crate::store) fn elements<T: bytemuck::Pod>(
        &self,
        section: &Range<u64>,
        range: Range<usize>,
    ) -> Result<&[T]> {
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

    fn pages(&self) -> u64 {
        self.body_bytes.div_ceil(PAGE_BYTES)
    }

    /// Rereads header and end, then page after page, whether or not they were read before.
    pub(in crate::store) fn check_all(&self) -> impl Iterator<Item = Result<()>> + '_ {
        let ends = std::iter::once_with(|| {
            let path = Path::new(&self.name);
            read_ends(&*self.file, path, &self.name, self.identity, self.seal).map(drop)
        });
        ends.chain((0..self.pages()).map(|page| self.read_page(page)))
    }

    pub(in crate::store) fn corrupt(&self, detail: Damage) -> StoreError {
        StoreError::corrupt(self.name.clone(), detail)
    }

    /// Marks a page as sound without reading it.
    pub(super) fn trust_page(&self, page: u64) {
        // Relaxed: the bit says that immutable bytes were found intact.
        self.sound[(page / 64) as usize].fetch_or(1 << (page % 64), Ordering::Relaxed);
    }

    fn check_page(&self, page: u64) -> Result<()> {
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
    fn read_page(&self, page: u64) -> Result<()> {
        let start = page * PAGE_BYTES;
        let mut bytes = vec![0; PAGE_BYTES.min(self.body_bytes - start) as usize];
        let mut crc = [0; CRC_BYTES];
        let at = self.body_bytes + page * CRC_BYTES as u64;
        let path = Path::new(&self.name);
        let read = |buffer: &mut [u8], at| read(&*self.file, path, buffer, at);
        let whole = read(&mut bytes, start)?.is_some() && read(&mut crc, at)?.is_some();
        if !whole || crc32fast::hash(&bytes) != u32::from_le_bytes(crc) {
            return Err(self.corrupt(Damage::Checksum { what: "page", number: page }));
        }
        self.trust_page(page);
        Ok(())
    }
}

/// Fills a buffer; `None` if the medium cannot return what was written, or the file has become shorter.
pub(super) fn read(file: &dyn BackendFile, path: &Path, buffer: &mut [u8], at: u64) -> Result<Option<()>> {
    const EIO: i32 = 5;
    match file.read_at(buffer, at) {
        Ok(()) => Ok(Some(())),
        Err(error)
            if error.raw_os_error() == Some(EIO) || error.kind() == std::io::ErrorKind::UnexpectedEof =>
        {
            Ok(None)
        }
        Err(error) => Err(StoreError::io(path, Operation::Read)(error)),
    }
}

/// Header, directory and tail of a file of the right length.
fn read_ends(
    file: &dyn BackendFile,
    path: &Path,
    name: &str,
    identity: Identity,
    seal: Seal,
) -> Result<(Tail, Vec<Section>)> {
    let corrupt = |detail| StoreError::corrupt(name.to_owned(), detail);
    let read = |what, buffer: &mut [u8], at| {
        read(file, path, buffer, at)?.ok_or_else(|| corrupt(Damage::Checksum { what, number: 0 }))
    };
    // Read, not mapped: on a cold disk, a page fault may read megabytes around it.
    let mut end = vec![0; Tail::most_end_bytes(seal.len) as usize];
    let at = seal.len - end.len() as u64;
    read("the end of the file", &mut end, at)?;
    let mut header = [0; HEADER_BYTES];
    read("the header", &mut header, 0)?;
    let Some((end, tail)) = end.split_last_chunk() else { return Err(corrupt(Damage::Magic)) };
    let tail = Tail::decode(tail).map_err(corrupt)?;
    if tail.checksum() != seal.crc {
        return Err(corrupt(Damage::Foreign));
    }
    if tail.file_bytes() != Some(seal.len) || tail.body_bytes < HEADER_BYTES as u64 {
        let found = tail.body_bytes;
        return Err(corrupt(Damage::Field { field: "the length of the sections", found }));
    }
    let Some(at) = end.len().checked_sub(tail.directory_bytes() as usize) else {
        let found = tail.sections.into();
        return Err(corrupt(Damage::Field { field: "the number of sections", found }));
    };
    let directory = &end[at..];
    if crc32fast::hash(directory) != tail.crc {
        return Err(corrupt(Damage::Checksum { what: "the directory", number: 0 }));
    }
    identity.check(name, &header)?;
    Ok((tail, Section::decode_all(directory, tail)))
}

/// Opens a file named by the manifest, and returns its length, which is at least the one in the manifest.
pub(super) fn open(
    backend: &dyn Backend,
    path: &Path,
    name: &str,
    seal: Seal,
) -> Result<(Box<dyn BackendFile>, u64)> {
    let io = |operation| StoreError::io(path, operation);
    let corrupt = |detail| StoreError::corrupt(name.to_owned(), detail);
    let file = backend.open(path, OpenMode::Read).map_err(|source| {
        if source.kind() == std::io::ErrorKind::NotFound {
            corrupt(Damage::Missing { what: "the file" })
        } else {
            io(Operation::Open)(source)
        }
    })?;
    let len = file.len().map_err(io(Operation::Read))?;
    if len < seal.len || seal.len < (HEADER_BYTES + TAIL_BYTES) as u64 {
        let (expected, found) = (seal.len, len);
        return Err(corrupt(Damage::Disagreement { what: "its length", expected, found }));
    }
    Ok((file, len))
}
