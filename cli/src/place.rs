//! Whether the index that a server has open for writing is still in its place.
//!
//! A handle that writes is at its newest. It sees neither that its directory is gone nor that another one is
//! there, until a write fails.

use std::fs::{self, File, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

use ehi::Index;

use crate::failure::Failure;

pub struct Place {
    path: PathBuf,
    /// The directory of the index: no other one has the same number while this is open.
    directory: File,
}

/// Why an index is not in its place.
#[derive(Debug)]
pub enum Lost {
    /// Nothing is there that can be read.
    Gone(io::Error),
    /// Another directory is there.
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
    /// What has become of the index.
    pub fn check(&self) -> Result<(), Lost> {
        let number = |of: Metadata| (of.dev(), of.ino());
        let there = fs::metadata(&self.path).map_err(Lost::Gone)?;
        let own = self.directory.metadata().map_err(Lost::Gone)?;
        if number(there) == number(own) { Ok(()) } else { Err(Lost::Replaced) }
    }
}
