//! Measurements of an index, in files next to its store: eight hexadecimal digits, the CRC-32 of what follows
//! the line, then JSON. The JSON names the model and the store that were measured.
//!
//! Documents do not depend on these files. A file that is damaged, or was measured on something else, is
//! ignored. `CURRENT` records that a file was written, so that a missing file is noticed.

use std::path::Path;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::disk::{Backend, Kind, OpenMode, names};
use crate::ids::ModelHash;
use crate::store::{Operation, Store, StoreError};

/// Larger than any of them.
const MOST_BYTES: u64 = 1 << 20;

/// A measurement file.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Measured {
    /// Its name.
    pub name: &'static str,
    /// Its temporary name before the rename.
    pub new: &'static str,
    /// How searches behave without it, and the remedy.
    pub without: &'static str,
    bit: u8,
}

/// How many leaves searches need.
pub(super) const RECALL: Measured = Measured {
    name: names::RECALL,
    new: names::RECALL_NEW,
    without: "searches without a beam score every document; `ehi calibrate` measures it again",
    bit: 1,
};
/// How scores by embeddings and by words are combined.
pub(super) const FUSION: Measured = Measured {
    name: names::FUSION,
    new: names::FUSION_NEW,
    without: "searches go by embeddings alone, hybrid ones by the default weight; `ehi fuse` learns it again",
    bit: 2,
};
/// All measurements.
pub(super) const ALL: [Measured; 2] = [RECALL, FUSION];
/// What made the embeddings. This is a record and not a measurement, so `CURRENT` does not note that the file
/// exists.
pub(super) const ENCODED: Measured =
    Measured { name: names::ENCODED, new: names::ENCODED_NEW, without: "`ehi stats` says `unknown`", bit: 0 };
/// All of these files.
pub(super) const FILES: [Measured; 3] = [RECALL, FUSION, ENCODED];

/// The set of files that a model has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Files(u8);

impl Files {
    pub(super) fn bits(self) -> u8 {
        self.0
    }

    /// `None` if a bit stands for no file.
    pub(super) fn from_bits(bits: u8) -> Option<Self> {
        (bits < 1 << ALL.len()).then_some(Self(bits))
    }

    pub(super) fn has(self, measured: Measured) -> bool {
        self.0 & measured.bit != 0
    }

    #[must_use]
    pub(super) fn with(self, measured: Measured, is_there: bool) -> Self {
        Self(self.0 & !measured.bit | if is_there { measured.bit } else { 0 })
    }
}

/// What a measurement refers to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Origin {
    model: String,
    store: String,
}

impl Origin {
    pub fn new(model: ModelHash, store: &Store) -> Self {
        Self { model: model.to_string(), store: store.id() }
    }
}

/// Why a measurement file is not used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unusable {
    Damaged,
    /// Measured on another model or on other documents, or by a version that did not record it.
    Foreign,
}

impl std::fmt::Display for Unusable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Damaged => "is damaged",
            Self::Foreign => "was not measured on this model and these documents",
        })
    }
}

/// The content of a file.
#[derive(Serialize, Deserialize)]
struct Content<T> {
    of: Origin,
    found: T,
}

impl Measured {
    /// The measurement of the model in `dir`; `None` if the file is missing.
    pub fn read<T: DeserializeOwned>(
        self,
        backend: &dyn Backend,
        dir: &Path,
        origin: &Origin,
        is_sane: impl Fn(&T) -> bool,
    ) -> Result<Option<T>, Unusable> {
        let path = dir.join(self.name);
        let content = match contents(backend, &path) {
            Ok(content) => content,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => {
                tracing::warn!(path = %path.display(), %error, "cannot be read");
                return Err(Unusable::Damaged);
            }
        };
        let json = checked(&content).ok_or(Unusable::Damaged)?;
        // Intact, but in another version's format.
        let Content { of, found } = serde_json::from_slice(json).map_err(|_| Unusable::Foreign)?;
        if of != *origin {
            return Err(Unusable::Foreign);
        }
        if is_sane(&found) { Ok(Some(found)) } else { Err(Unusable::Damaged) }
    }

    /// Refuses anything but a file in its place.
    pub fn check(self, backend: &dyn Backend, dir: &Path) -> Result<(), StoreError> {
        let path = dir.join(self.name);
        match backend.kind(&path).map_err(StoreError::io(&path, Operation::Read))? {
            None | Some(Kind::File) => Ok(()),
            Some(_) => Err(StoreError::InTheWay { path }),
        }
    }

    /// Replaces the file of the model in `dir`; durable once this has returned.
    pub fn write(
        self,
        backend: &dyn Backend,
        dir: &Path,
        origin: &Origin,
        found: &impl Serialize,
    ) -> Result<(), StoreError> {
        let written = self.replace(backend, dir, &Content { of: origin.clone(), found });
        if written.is_err() {
            // The temporary file; if it cannot be removed, the next writer removes it.
            let _ = backend.remove(&dir.join(self.new));
        }
        written
    }

    /// Removes the file of the model in `dir`; it may reappear after a power failure.
    pub fn remove(self, backend: &dyn Backend, dir: &Path) -> Result<(), StoreError> {
        let path = dir.join(self.name);
        match backend.remove(&path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                Err(StoreError::io(path, Operation::Remove)(error))
            }
            _ => Ok(()),
        }
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

/// The JSON of a file, if its checksum matches.
fn checked(content: &[u8]) -> Option<&[u8]> {
    let (sum, json) = content.split_at_checked(9)?;
    let expected = format!("{:08x}\n", crc32fast::hash(json));
    (sum == expected.as_bytes()).then_some(json)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::FileSystem;

    fn origin(model: u8) -> Origin {
        Origin { model: ModelHash([model; 32]).to_string(), store: "ab".to_owned() }
    }

    #[test]
    fn it_is_read_back_and_no_flipped_bit_is_believed() {
        let dir = tempfile::tempdir().unwrap();
        let what = vec![(3u32, 0.97f64), (8, 1.0)];
        for measured in ALL {
            let read_as = |origin: &Origin, most| {
                let is_sane = |found: &Vec<(u32, f64)>| found.iter().all(|entry| entry.0 <= most);
                measured.read(&FileSystem, dir.path(), origin, is_sane)
            };
            let read = |most| read_as(&origin(1), most);
            assert_eq!(read(8), Ok(None));
            measured.write(&FileSystem, dir.path(), &origin(1), &what).unwrap();
            assert_eq!(read(8), Ok(Some(what.clone())));
            assert_eq!(read(2), Err(Unusable::Damaged));
            assert_eq!(read_as(&origin(2), 8), Err(Unusable::Foreign));
            let path = dir.path().join(measured.name);
            let sound = std::fs::read(&path).unwrap();
            for at in 0..sound.len() * 8 {
                let mut bytes = sound.clone();
                bytes[at / 8] ^= 1 << (at % 8);
                std::fs::write(&path, bytes).unwrap();
                assert_eq!(read(8), Err(Unusable::Damaged), "bit {at}");
            }
            for end in 0..sound.len() {
                std::fs::write(&path, &sound[..end]).unwrap();
                assert_eq!(read(8), Err(Unusable::Damaged), "{end} bytes");
            }
            // The format before files recorded what was measured.
            std::fs::write(&path, encode(&what).unwrap()).unwrap();
            assert_eq!(read(8), Err(Unusable::Foreign));
        }
    }

    #[test]
    fn files_are_bits() {
        let both = ALL.iter().fold(Files::default(), |files, measured| files.with(*measured, true));
        assert_eq!(Files::from_bits(3), Some(both));
        assert!(
            both.has(RECALL) && !both.with(RECALL, false).has(RECALL) && both.with(RECALL, false).has(FUSION)
        );
        assert_eq!(Files::from_bits(4), None);
    }
}
