//! Whether the index that a server has open for writing is still in its place.
//!
//! A writing handle has the newest state. Only a failed write shows it that its directory is gone or was
//! replaced.

use std::fs::{self, File, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

use ehi::Index;

use crate::failure::Failure;

pub struct Place {
    path: PathBuf,
    /// The directory of the index: no other directory has its inode while this is open.
    directory: File,
}

/// Why an index is not in its place.
#[derive(Debug)]
pub enum Lost {
    /// Nothing readable is in its place.
    Gone(io::Error),
    /// Another directory is in its place.
    Replaced,
}

impl Place {
    /// # Errors
    /// The directory of the index cannot be opened.
    pub fn of(index: &Index) -> Result<Self, Failure> {
        let path = index.path().to_owned();
        let directory = File::open(&path).map_err(Failure::file("open", &path))?;
        Ok(Self { path, directory })
    }

    /// # Errors
    /// The fate of the index.
    pub fn check(&self) -> Result<(), Lost> {
        let number = |of: Metadata| (of.dev(), of.ino());
        let there = fs::metadata(&self.path).map_err(Lost::Gone)?;
        let own = self.directory.metadata().map_err(Lost::Gone)?;
        if number(there) == number(own) { Ok(()) } else { Err(Lost::Replaced) }
    }
}
