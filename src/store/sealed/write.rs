//! Writes a sealed file, from front to back.

use std::path::PathBuf;

use super::{Seal, SealedFolder, SealedName};
use crate::{
    disk::{BackendFile, OpenMode},
    store::{
        error::{Operation, Result, StoreError},
        layout::sealed::*,
    },
};

/// Bytes collected before a write.
const BUFFER_BYTES: usize = 1 << 20;

/// Minimum number of pages before a section that starts on its own page, so that a small file does not grow
/// much.
const PAGES_BEFORE: u64 = 3;

/// A sealed file being written. Dropping it leaves a file without an end, which nothing names.
pub(in crate::store) struct SealedWriter {
    file: Box<dyn BackendFile>,
    path: PathBuf,
    /// Bytes received so far, including the header; those in `buffer` are not written yet.
    len: u64,
    buffer: Vec<u8>,
    page: crc32fast::Hasher,
    pages: Vec<u8>,
    sections: Vec<Section>,
}

impl SealedWriter {
    /// Creates the file, replacing one that an interrupted writer left.
    pub(in crate::store) fn create(folder: SealedFolder<'_>, name: SealedName) -> Result<Self> {
        let path = folder.dir.join(name.to_string());
        let opened = folder.backend.open(&path, OpenMode::Replace);
        let mut writer = Self {
            file: opened.map_err(StoreError::io(&path, Operation::Create))?,
            path,
            len: 0,
            buffer: Vec::with_capacity(BUFFER_BYTES),
            page: crc32fast::Hasher::new(),
            pages: Vec::new(),
            sections: Vec::new(),
        };
        writer.append(bytemuck::bytes_of(&name.header(folder.store_id)))?;
        Ok(writer)
    }

    /// Begins a section; what follows belongs to it.
    pub(in crate::store) fn begin(&mut self, name: u32) -> Result<()> {
        let gap = self.len.next_multiple_of(ALIGNMENT as u64) - self.len;
        self.append(&[0; ALIGNMENT][..gap as usize])?;
        self.sections.push(Section { name, offset: self.len, len: 0 });
        Ok(())
    }

    /// As [`Self::begin`], on its own page if enough pages precede it: damage of the section then affects
    /// nothing else.
    pub(in crate::store) fn begin_apart(&mut self, name: u32) -> Result<()> {
        let gap = self.len.next_multiple_of(PAGE_BYTES) - self.len;
        if self.len >= PAGES_BEFORE * PAGE_BYTES {
            self.append(&vec![0; gap as usize])?;
        }
        self.begin(name)
    }

    /// Appends to the current section.
    pub(in crate::store) fn write(&mut self, bytes: &[u8]) -> Result<()> {
        debug_assert!(!self.sections.is_empty());
        if let Some(section) = self.sections.last_mut() {
            section.len += bytes.len() as u64;
        }
        self.append(bytes)
    }

    /// Writes a whole section.
    pub(in crate::store) fn section<T: bytemuck::Pod>(&mut self, name: u32, elements: &[T]) -> Result<()> {
        self.begin(name)?;
        self.write(bytemuck::cast_slice(elements))
    }

    /// Ends the file and makes it durable; the caller must sync its directory entry.
    pub(in crate::store) fn finish(mut self) -> Result<Seal> {
        if !self.len.is_multiple_of(PAGE_BYTES) {
            self.end_page();
        }
        let mut end = std::mem::take(&mut self.pages);
        end.extend_from_slice(bytemuck::cast_slice(&self.sections));
        let tail = Tail::new(self.len, self.sections.len() as u32, crc32fast::hash(&end));
        end.extend_from_slice(bytemuck::bytes_of(&tail));
        let seal = tail.seal(self.len + end.len() as u64);
        self.flush()?;
        self.file.write_at(&end, self.len).map_err(StoreError::io(&self.path, Operation::Write))?;
        self.file.sync_all().map_err(StoreError::io(&self.path, Operation::Sync))?;
        Ok(seal)
    }

    fn append(&mut self, mut bytes: &[u8]) -> Result<()> {
        while !bytes.is_empty() {
            let to_page_end = PAGE_BYTES - self.len % PAGE_BYTES;
            let room = (BUFFER_BYTES - self.buffer.len()).min(to_page_end as usize);
            let (now, later) = bytes.split_at(bytes.len().min(room));
            self.page.update(now);
            self.buffer.extend_from_slice(now);
            self.len += now.len() as u64;
            if self.len.is_multiple_of(PAGE_BYTES) {
                self.end_page();
            }
            if self.buffer.len() == BUFFER_BYTES {
                self.flush()?;
            }
            bytes = later;
        }
        Ok(())
    }

    fn end_page(&mut self) {
        let page = std::mem::replace(&mut self.page, crc32fast::Hasher::new());
        self.pages.extend_from_slice(&page.finalize().to_le_bytes());
    }

    fn flush(&mut self) -> Result<()> {
        let at = self.len - self.buffer.len() as u64;
        self.file.write_at(&self.buffer, at).map_err(StoreError::io(&self.path, Operation::Write))?;
        self.buffer.clear();
        Ok(())
    }
}
