//! The file of a recall curve: eight hexadecimal digits, the CRC-32 of what follows the line, then JSON.
//!
//! Nothing rests on it. One that is damaged, or of another version, is as none: searches are exact then.

use std::path::Path;

use super::curve::RecallCurve;
use crate::disk::{Backend, Kind, OpenMode, names};
use crate::store::{Damage, Operation, StoreError};

/// More than any curve takes.
const MOST_BYTES: u64 = 1 << 20;

/// The curve of the model in `dir`, whose tree has so many leaves; `None` without one that can be used.
pub(in crate::index) fn read(backend: &dyn Backend, dir: &Path, leaves: usize) -> Option<RecallCurve> {
    let path = dir.join(names::RECALL);
    let content = match contents(backend, &path) {
        Ok(content) => content,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return None,
        Err(error) => {
            tracing::warn!(path = %path.display(), %error, "cannot read the recall curve");
            return None;
        }
    };
    let curve = decode(&content).filter(|curve| curve.is_sane(leaves));
    if curve.is_none() {
        tracing::warn!(path = %path.display(), "the recall curve is damaged; `ehi calibrate` measures it anew");
    }
    curve
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

/// Refuses anything but a file in the place of a curve.
pub(super) fn check(backend: &dyn Backend, dir: &Path) -> Result<(), StoreError> {
    let path = dir.join(names::RECALL);
    match backend.kind(&path).map_err(StoreError::io(&path, Operation::Read))? {
        None | Some(Kind::File) => Ok(()),
        Some(_) => Err(StoreError::corrupt(names::RECALL, Damage::NotAFile)),
    }
}

/// Replaces the curve of the model in `dir`; it lasts when this has returned.
pub(in crate::index) fn write(
    backend: &dyn Backend,
    dir: &Path,
    curve: &RecallCurve,
) -> Result<(), StoreError> {
    let (path, new) = (dir.join(names::RECALL), dir.join(names::RECALL_NEW));
    let content = encode(curve).map_err(|error| StoreError::io(&new, Operation::Write)(error.into()))?;
    let file = backend.open(&new, OpenMode::Replace).map_err(StoreError::io(&new, Operation::Write))?;
    file.write_at(&content, 0).map_err(StoreError::io(&new, Operation::Write))?;
    file.sync_all().map_err(StoreError::io(&new, Operation::Sync))?;
    backend.rename(&new, &path).map_err(StoreError::io(&path, Operation::Rename))?;
    backend.sync_directory(dir).map_err(StoreError::io(dir, Operation::Sync))
}

fn encode(curve: &RecallCurve) -> serde_json::Result<Vec<u8>> {
    let json = serde_json::to_vec(curve)?;
    let mut content = format!("{:08x}\n", crc32fast::hash(&json)).into_bytes();
    content.extend(json);
    Ok(content)
}

fn decode(content: &[u8]) -> Option<RecallCurve> {
    let (sum, json) = content.split_at_checked(9)?;
    let expected = format!("{:08x}\n", crc32fast::hash(json));
    (sum == expected.as_bytes()).then(|| serde_json::from_slice(json).ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::super::curve::{DepthCurve, QuestionSource, RecallPoint};
    use super::*;
    use crate::disk::FileSystem;
    use crate::ids::Generation;

    #[test]
    fn a_curve_is_read_back_and_no_flipped_bit_is_believed() {
        let dir = tempfile::tempdir().unwrap();
        let point = RecallPoint { beam: 3, recall: 0.97, standard_error: 0.01, visited: 0.25 };
        let curve = RecallCurve {
            generation: Generation(7),
            documents: 100,
            questions: 10,
            source: QuestionSource::Given,
            depths: vec![DepthCurve { depth: 10, points: vec![point] }],
        };
        assert_eq!(read(&FileSystem, dir.path(), 4), None);
        write(&FileSystem, dir.path(), &curve).unwrap();
        assert_eq!(read(&FileSystem, dir.path(), 4), Some(curve.clone()));
        // Of a tree of fewer leaves.
        assert_eq!(read(&FileSystem, dir.path(), 2), None);
        let path = dir.path().join(names::RECALL);
        let sound = std::fs::read(&path).unwrap();
        for at in 0..sound.len() * 8 {
            let mut bytes = sound.clone();
            bytes[at / 8] ^= 1 << (at % 8);
            std::fs::write(&path, bytes).unwrap();
            assert_eq!(read(&FileSystem, dir.path(), 4), None, "bit {at}");
        }
        for end in 0..sound.len() {
            std::fs::write(&path, &sound[..end]).unwrap();
            assert_eq!(read(&FileSystem, dir.path(), 4), None, "{end} bytes");
        }
    }
}
