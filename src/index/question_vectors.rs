//! The file `MEMORY` of a model: vectors of judged questions, so that they need not be encoded at every open.
//!
//! A header of 16 bytes (`ehi.qvec`, then the first 8 bytes of the model's hash) is followed by records of
//! `20 + 2 dim` bytes: 16 bytes that identify the question, its vector `[dim]` f16 of unit norm, and the
//! CRC-32 of both. The file can be made again from the judgments, so it is neither synced nor repaired: a
//! record that is torn or damaged is skipped, and its question encoded again.

use std::collections::HashMap;
use std::io;
use std::path::Path;

use bytemuck::{cast_slice, pod_read_unaligned};
use half::f16;

use crate::disk::{Backend, Kind, OpenMode, names};
use crate::ids::ModelHash;

const MAGIC: [u8; 8] = *b"ehi.qvec";
const HEADER: usize = 16;
/// Bytes that identify a question.
const KEY: usize = 16;
/// Bytes of a checksum.
const SUM: usize = 4;

/// Identifies a question: the start of the SHA-256 of its text.
pub(super) type QuestionKey = [u8; KEY];

/// The vectors of judged questions as stored for one model.
pub(super) struct QuestionVectors {
    header: [u8; HEADER],
    dim: usize,
}

impl QuestionVectors {
    pub fn new(model: ModelHash, dim: usize) -> Self {
        let mut header = [0; HEADER];
        header[..MAGIC.len()].copy_from_slice(&MAGIC);
        header[MAGIC.len()..].copy_from_slice(&model.0[..HEADER - MAGIC.len()]);
        Self { header, dim }
    }

    fn record_bytes(&self) -> usize {
        KEY + 2 * self.dim + SUM
    }

    /// The stored vectors, `[dim]` each; none if there is no usable file.
    pub fn read(&self, backend: &dyn Backend, dir: &Path) -> HashMap<QuestionKey, Vec<f16>> {
        let content = content(backend, &dir.join(names::MEMORY)).unwrap_or_default();
        let Some(records) = content.strip_prefix(&self.header) else { return HashMap::new() };
        records.chunks_exact(self.record_bytes()).filter_map(|record| self.parse(record)).collect()
    }

    fn parse(&self, record: &[u8]) -> Option<(QuestionKey, Vec<f16>)> {
        let (content, sum) = record.split_last_chunk::<SUM>()?;
        let (key, values) = content.split_first_chunk::<KEY>()?;
        let values: Vec<f16> = values.chunks_exact(2).map(pod_read_unaligned).collect();
        (crc32fast::hash(content) == u32::from_le_bytes(*sum)).then_some((*key, values))
    }

    /// The end of a file of this model; 0 for any other.
    fn end(&self, backend: &dyn Backend, path: &Path) -> io::Result<usize> {
        if backend.kind(path)? != Some(Kind::File) {
            return Ok(0);
        }
        let (file, mut header) = (backend.open(path, OpenMode::Read)?, [0; HEADER]);
        file.read_at(&mut header, 0)?;
        Ok(if header == self.header { file.len()? as usize } else { 0 })
    }

    /// Appends vectors; makes the file, or replaces one of another model.
    ///
    /// # Errors
    /// Failures of the disk. The file then lacks some of the vectors, and nothing else is lost.
    pub fn append(
        &self,
        backend: &dyn Backend,
        dir: &Path,
        vectors: &[(QuestionKey, &[f16])],
    ) -> io::Result<()> {
        if vectors.is_empty() {
            return Ok(());
        }
        let path = dir.join(names::MEMORY);
        let mut at = self.end(backend, &path).unwrap_or(0);
        // Over a torn record.
        at -= at.saturating_sub(HEADER) % self.record_bytes();
        let file = backend.open(&path, if at == 0 { OpenMode::Replace } else { OpenMode::Update })?;
        let mut bytes = if at == 0 { self.header.to_vec() } else { Vec::new() };
        for (key, values) in vectors {
            let start = bytes.len();
            bytes.extend(key);
            bytes.extend_from_slice(cast_slice(values));
            let sum = crc32fast::hash(&bytes[start..]);
            bytes.extend(sum.to_le_bytes());
        }
        file.write_at(&bytes, at as u64)
    }

    /// Makes the file of these vectors alone; none if there are none.
    ///
    /// # Errors
    /// As [`Self::append`].
    pub fn replace(
        &self,
        backend: &dyn Backend,
        dir: &Path,
        vectors: &HashMap<QuestionKey, Vec<f16>>,
    ) -> io::Result<()> {
        let path = dir.join(names::MEMORY);
        if backend.kind(&path)? == Some(Kind::File) {
            backend.remove(&path)?;
        }
        let vectors: Vec<_> = vectors.iter().map(|(key, vector)| (*key, &vector[..])).collect();
        self.append(backend, dir, &vectors)
    }
}

/// Larger than the file of any number of questions that people judge.
const MOST_BYTES: u64 = 1 << 32;

fn content(backend: &dyn Backend, path: &Path) -> io::Result<Vec<u8>> {
    if backend.kind(path)? != Some(Kind::File) {
        return Ok(Vec::new());
    }
    let file = backend.open(path, OpenMode::Read)?;
    let length = file.len()?;
    if length > MOST_BYTES {
        return Err(io::ErrorKind::FileTooLarge.into());
    }
    let mut content = vec![0; length as usize];
    file.read_at(&mut content, 0)?;
    Ok(content)
}
