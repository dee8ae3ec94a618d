//! What was measured of an index, in files beside its store: eight hexadecimal digits, the CRC-32 of what
//! follows the line, then JSON.
//!
//! Nothing rests on one of them. One that is damaged, or of another version, is as none.

use std::path::Path;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::disk::{Backend, Kind, OpenMode, names};
use crate::store::{Operation, StoreError};

/// More than any of them takes.
const MOST_BYTES: u64 = 1 << 20;

/// A file of something measured.
#[derive(Clone, Copy, Debug)]
pub(super) struct Measured {
    /// Its name.
    pub name: &'static str,
    /// Its name before it is put into its place.
    new: &'static str,
    /// What to do where it is damaged.
    again: &'static str,
}

/// How many leaves searches need.
pub(super) const RECALL: Measured =
    Measured { name: names::RECALL, new: names::RECALL_NEW, again: "`ehi calibrate` measures it anew" };
/// How scores by embeddings and by words are joined.
pub(super) const FUSION: Measured =
    Measured { name: names::FUSION, new: names::FUSION_NEW, again: "`ehi fuse` learns it anew" };
/// What made the embeddings.
pub(super) const ENCODED: Measured =
    Measured { name: names::ENCODED, new: names::ENCODED_NEW, again: "`ehi stats` says so" };
/// All of them.
pub(super) const ALL: [Measured; 3] = [RECALL, FUSION, ENCODED];

impl Measured {
    /// The names that it may have.
    pub fn names(self) -> [&'static str; 2] {
        [self.name, self.new]
    }

    /// What was measured of the model in `dir`; `None` without a file that can be used.
    pub fn read<T: DeserializeOwned>(
        self,
        backend: &dyn Backend,
        dir: &Path,
        is_sane: impl Fn(&T) -> bool,
    ) -> Option<T> {
        let path = dir.join(self.name);
        let content = match contents(backend, &path) {
            Ok(content) => content,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return None,
            Err(error) => {
                tracing::warn!(path = %path.display(), %error, "cannot be read");
                return None;
            }
        };
        let found = decode(&content).filter(is_sane);
        if found.is_none() {
            tracing::warn!(path = %path.display(), "damaged; {}", self.again);
        }
        found
    }

    /// Refuses anything but a file in its place.
    pub fn check(self, backend: &dyn Backend, dir: &Path) -> Result<(), StoreError> {
        let path = dir.join(self.name);
        match backend.kind(&path).map_err(StoreError::io(&path, Operation::Read))? {
            None | Some(Kind::File) => Ok(()),
            Some(_) => Err(StoreError::InTheWay { path }),
        }
    }

    /// Replaces that of the model in `dir`; it lasts when this has returned.
    pub fn write(self, backend: &dyn Backend, dir: &Path, what: &impl Serialize) -> Result<(), StoreError> {
        let written = self.replace(backend, dir, what);
        if written.is_err() {
            // What was begun; where it cannot be removed the next call replaces it.
            let _ = backend.remove(&dir.join(self.new));
        }
        written
    }

    fn replace(self, backend: &dyn Backend, dir: &Path, what: &impl Serialize) -> Result<(), StoreError> {
        let (path, new) = (dir.join(self.name), dir.join(self.new));
        let content = encode(what).map_err(|error| StoreError::io(&new, Operation::Write)(error.into()))?;
        let file = backend.open(&new, OpenMode::Replace).map_err(StoreError::io(&new, Operation::Write))?;
        file.write_at(&content, 0).map_err(StoreError::io(&new, Operation::Write))?;
        file.sync_all().map_err(StoreError::io(&new, Operation::Sync))?;
        backend.rename(&new, &path).map_err(StoreError::io(&path, Operation::Rename))?;
        backend.sync_directory(dir).map_err(StoreError::io(dir, Operation::Sync))
    }
}

fn contents(backend: &dyn Backend, path: &Path) -> std::io::Result<Vec<u8>> {
    let file = backend.open(path, OpenMode::Read)?;
    let length = file.len()?;
    if length > MOST_BYTES {
        return Err(std::io::ErrorKind::FileTooLarge.into());
    }
    let mut content = vec![0; length as usize];
    file.read_at(&mut content, 0)?;
    Ok(content)
}

fn encode(what: &impl Serialize) -> serde_json::Result<Vec<u8>> {
    let json = serde_json::to_vec(what)?;
    let mut content = format!("{:08x}\n", crc32fast::hash(&json)).into_bytes();
    content.extend(json);
    Ok(content)
}

fn decode<T: DeserializeOwned>(content: &[u8]) -> Option<T> {
    let (sum, json) = content.split_at_checked(9)?;
    let expected = format!("{:08x}\n", crc32fast::hash(json));
    (sum == expected.as_bytes()).then(|| serde_json::from_slice(json).ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::FileSystem;

    #[test]
    fn it_is_read_back_and_no_flipped_bit_is_believed() {
        let dir = tempfile::tempdir().unwrap();
        let what = vec![(3u32, 0.97f64), (8, 1.0)];
        for measured in ALL {
            let read = |most| {
                let is_sane = |found: &Vec<(u32, f64)>| found.iter().all(|entry| entry.0 <= most);
                measured.read(&FileSystem, dir.path(), is_sane)
            };
            assert_eq!(read(8), None);
            measured.write(&FileSystem, dir.path(), &what).unwrap();
            assert_eq!(read(8), Some(what.clone()));
            assert_eq!(read(2), None, "of something else");
            let path = dir.path().join(measured.name);
            let sound = std::fs::read(&path).unwrap();
            for at in 0..sound.len() * 8 {
                let mut bytes = sound.clone();
                bytes[at / 8] ^= 1 << (at % 8);
                std::fs::write(&path, bytes).unwrap();
                assert_eq!(read(8), None, "bit {at}");
            }
            for end in 0..sound.len() {
                std::fs::write(&path, &sound[..end]).unwrap();
                assert_eq!(read(8), None, "{end} bytes");
            }
        }
    }
}
