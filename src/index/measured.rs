//! What was measured of a model and of its store, in the file `MEASURED` next to the store: eight hexadecimal
//! digits, the CRC-32 of what follows the line, then JSON. The JSON names the model and the store that were
//! measured.
//!
//! Documents do not depend on this file. A file that is damaged, or was measured on something else, is
//! ignored. It is written before the first embedding is stored, so a missing file is noticed.

use std::collections::BTreeSet;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::fusion::KeptFusion;
use super::recall_curve::RecallCurve;
use crate::disk::{Backend, OpenMode, names};
use crate::model::EncoderPrecision;
use crate::store::{EncodedBy, Operation, StoreError};

/// Larger than any such file.
const MOST_BYTES: u64 = 1 << 20;
/// How an index behaves without the file, and the remedy.
pub(super) const WITHOUT: &str = "searches without a beam score every document, hybrid ones use the default weight, texts \
                       are encoded in f32, and `ehi stats` says `unknown`; `ehi calibrate` and `ehi fuse` measure \
                       again";

/// What was measured of a model and of its store.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Measurements {
    /// How many leaves searches need, as last measured, whatever the collection was at the time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recall: Option<RecallCurve>,
    /// How scores by embeddings and by words are combined.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fusion: Option<KeptFusion>,
    /// The generation of the store with which the model went into service: documents of that generation, or
    /// before, have the embeddings that the model before it has, if both have the same encoder.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub filled: Option<u64>,
    /// How texts are encoded by handles whose options do not say it, so that all of them agree; `None`
    /// without an encoder, and where the file was lost.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub precision: Option<EncoderPrecision>,
    /// What made the embeddings of the store. A kind is recorded before its first embedding, so the set never
    /// lists too little. It may list too much: embeddings that a crash kept from being stored, or documents
    /// deleted since.
    pub encoded_by: BTreeSet<EncodedBy>,
}

impl Measurements {
    pub fn is_sane(&self, leaves: usize) -> bool {
        self.recall.as_ref().is_none_or(|curve| curve.is_sane(leaves))
            && self.fusion.as_ref().is_none_or(|kept| kept.fusion.is_sane())
    }
}

/// Why the file is not used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unusable {
    Damaged,
    /// Measured on another model or on other documents.
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

/// The content of the file.
#[derive(Serialize, Deserialize)]
pub(super) struct Content {
    /// The model and the store that were measured.
    pub of: (String, String),
    pub measured: Measurements,
}

/// Replaces the file in `dir`; durable once this has returned.
pub(super) fn replace(backend: &dyn Backend, dir: &Path, what: &Content) -> Result<(), StoreError> {
    let (path, new) = (dir.join(names::MEASURED), dir.join(names::MEASURED_NEW));
    let content = encode(what).map_err(|error| StoreError::io(&new, Operation::Write)(error.into()))?;
    let file = backend.open(&new, OpenMode::Replace).map_err(StoreError::io(&new, Operation::Write))?;
    file.write_at(&content, 0).map_err(StoreError::io(&new, Operation::Write))?;
    file.sync_all().map_err(StoreError::io(&new, Operation::Sync))?;
    backend.rename(&new, &path).map_err(StoreError::io(&path, Operation::Rename))?;
    backend.sync_directory(dir).map_err(StoreError::io(dir, Operation::Sync))
}

/// The file in `dir`; `None` if it is missing.
pub(super) fn read(backend: &dyn Backend, dir: &Path) -> Result<Option<Content>, Unusable> {
    let path = dir.join(names::MEASURED);
    match contents(backend, &path) {
        Ok(content) => {
            let json = checked(&content).ok_or(Unusable::Damaged)?;
            // Intact, but in another version's format.
            serde_json::from_slice(json).map(Some).map_err(|_| Unusable::Foreign)
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => {
            tracing::warn!(path = %path.display(), %error, "cannot be read");
            Err(Unusable::Damaged)
        }
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

fn encode(what: &Content) -> serde_json::Result<Vec<u8>> {
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

    #[test]
    fn no_flipped_bit_and_no_cut_is_believed() {
        let encoded_by = BTreeSet::from([EncodedBy::F32]);
        let measured = Measurements { encoded_by, ..Measurements::default() };
        let sound = encode(&Content { of: ("ab".to_owned(), "cd".to_owned()), measured }).unwrap();
        assert!(checked(&sound).is_some());
        for at in 0..sound.len() * 8 {
            let mut bytes = sound.clone();
            bytes[at / 8] ^= 1 << (at % 8);
            assert!(checked(&bytes).is_none(), "bit {at}");
        }
        for end in 0..sound.len() {
            assert!(checked(&sound[..end]).is_none(), "{end} bytes");
        }
    }
}
