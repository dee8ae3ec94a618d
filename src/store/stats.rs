//! Sizes and counts.

use std::{collections::BTreeSet, fs, os::unix::fs::MetadataExt, path::Path};

use serde::ser::{Serialize, SerializeStruct, Serializer};

use super::{Result, Store, StoreError, layout::names, recovery};
use crate::ids::{Generation, LeafId, ModelHash};
use crate::lexical::Analyzer;
use crate::passages::Passages;
use crate::scan::Similarity;

/// Size of an index on disk in bytes, by kind of data. Serialised with their `total`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct StoreBytes {
    /// Embeddings.
    pub vectors: u64,
    /// Documents, with their ids, metadata and its lists, and posting lists of leaves.
    pub documents: u64,
    /// Posting lists of terms.
    pub terms: u64,
    /// Lists of dead rows.
    pub dead_rows: u64,
    /// Unsealed commits, with the space allocated for more.
    pub log: u64,
    /// The model in service.
    pub model: u64,
    /// Those of its files that other indexes, or the folder of the user's models, share. Part of `model`.
    pub shared_model: u64,
    /// Embeddings, documents and model of the previous model, and of a change of model in progress or
    /// interrupted.
    pub other_models: u64,
    /// Judgments.
    pub judgments: u64,
    /// Unfinished files, for example of an interrupted training: the next command that writes removes them.
    pub begun: u64,
}

impl StoreBytes {
    /// The sum of these: manifests and files set aside are not included.
    pub fn total(&self) -> u64 {
        let Self { vectors, documents, terms, dead_rows, log, model, other_models, judgments, begun, .. } =
            *self;
        vectors + documents + terms + dead_rows + log + model + other_models + judgments + begun
    }
}

impl Serialize for StoreBytes {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut fields = serializer.serialize_struct("StoreBytes", 11)?;
        fields.serialize_field("vectors", &self.vectors)?;
        fields.serialize_field("documents", &self.documents)?;
        fields.serialize_field("terms", &self.terms)?;
        fields.serialize_field("dead_rows", &self.dead_rows)?;
        fields.serialize_field("log", &self.log)?;
        fields.serialize_field("model", &self.model)?;
        fields.serialize_field("shared_model", &self.shared_model)?;
        fields.serialize_field("other_models", &self.other_models)?;
        fields.serialize_field("judgments", &self.judgments)?;
        fields.serialize_field("begun", &self.begun)?;
        fields.serialize_field("total", &self.total())?;
        fields.end()
    }
}

/// A leaf and its number of documents.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize)]
#[non_exhaustive]
pub struct LeafSize {
    /// The leaf.
    pub leaf: LeafId,
    /// Live documents in it, or their passages.
    pub documents: usize,
}

/// The origin of an embedding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum EncodedBy {
    /// The index's own encoder in 32-bit floating point.
    F32,
    /// The index's own encoder in 8 bits.
    Int8,
    /// The caller ([`Index::insert_vectors`](crate::Index::insert_vectors)).
    Given,
    /// One or more of the above: stored before this was recorded, or the record is damaged.
    Unknown,
}

impl std::fmt::Display for EncodedBy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(match self {
            Self::F32 => "f32",
            Self::Int8 => "int8",
            Self::Given => "given",
            Self::Unknown => "unknown",
        })
    }
}

/// The configuration of an index, its sizes and its counts.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
#[non_exhaustive]
pub struct StoreStats {
    /// The generation that they refer to.
    pub generation: Generation,
    /// Live documents.
    pub documents: u64,
    /// Rows, including dead ones: one for each document, or one for each of its passages.
    pub rows: u64,
    /// Rows of documents that were deleted, were replaced or have expired.
    pub dead_rows: u64,
    /// The field by which documents expire, if they do
    /// ([`IndexBuilder::expires`](crate::IndexBuilder::expires)).
    pub expires: Option<String>,
    /// Documents past their time that still take space, until the next compaction; also those deleted or
    /// replaced before.
    pub expired: u64,
    /// Forgotten and replaced judgments that are still in the files.
    pub dead_judgments: u64,
    /// Segments on disk.
    pub segments: u64,
    /// Unflushed documents: only in memory and in the log or, for a read-only handle, waiting in the log.
    pub memtable_documents: u64,
    /// Bytes on disk.
    pub bytes: StoreBytes,
    /// Documents that a visited leaf holds on average, if a leaf is visited in proportion to its documents:
    /// sum of p_i c_i (section 4.6); 0 for an empty index.
    pub expected_documents_per_leaf: f64,
    /// Width of an embedding.
    pub dim: u32,
    /// What made the embeddings, including those of documents deleted since; ascending, empty if there never
    /// was one.
    pub encoded_by: Vec<EncodedBy>,
    /// How documents are ranked.
    pub similarity: Similarity,
    /// Whether documents can also be found by their words.
    pub lexical: bool,
    /// The kind of terms.
    pub analyzer: Option<Analyzer>,
    /// Fields of metadata without lists of their values in some segment, because they would take too many
    /// bytes: filters read them document by document.
    pub unlisted_fields: Vec<String>,
    /// Children of each inner node of the tree.
    pub branching_factor: u32,
    /// Levels of the tree.
    pub height: u32,
    /// Leaves of the tree.
    pub leaves: u64,
    /// Leaves that have documents.
    pub leaves_used: usize,
    /// The length of the documents' passages; `None` if a document is one row.
    pub passages: Option<Passages>,
    /// The model in service.
    pub model: ModelHash,
    /// The leaves with documents, ascending by leaf.
    pub leaf_sizes: Vec<LeafSize>,
}

impl Store {
    /// Sizes and counts. Costs a walk over the posting lists.
    pub fn stats(&self) -> Result<StoreStats> {
        let view = self.read();
        let state = &view.state;
        let sizes = view.leaf_sizes()?;
        let (mut segments, mut memtable_documents) = (0, state.memtable_documents());
        let mut unlisted = BTreeSet::new();
        let mut bytes = StoreBytes {
            dead_rows: bytes_below(&self.dir.join(names::SEGMENTS), &|name| name.ends_with(".dead")),
            log: bytes_below(&self.dir.join(names::LOG), &|_| true),
            ..StoreBytes::default()
        };
        for part in &state.parts {
            let Some(segment) = part.segment() else { continue };
            segments += 1;
            let [vectors, documents] = segment.bytes();
            bytes.vectors += vectors;
            bytes.documents += documents - segment.term_bytes();
            bytes.terms += segment.term_bytes();
            // `verify` reports damaged lists.
            unlisted.extend(segment.fields_left_out().unwrap_or_default());
        }
        if self.is_read_only() {
            // A damaged log has no commits that the next writer would take over.
            match recovery::waiting(&*self.backend, &self.dir, &self.manifest()) {
                Ok(Some(waiting)) if waiting.scan.check().is_ok() => {
                    memtable_documents += waiting.documents;
                }
                Ok(_) | Err(StoreError::Corrupt { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        let entries: usize = sizes.values().sum();
        let config = self.config();
        // The sum of no floats is -0.0.
        let squares = 0.0 + sizes.values().map(|&size| (size * size) as f64).sum::<f64>();
        Ok(StoreStats {
            generation: state.generation,
            documents: state.live.into(),
            rows: state.rows.into(),
            dead_rows: (state.rows - state.live_rows).into(),
            expires: config.expires.clone(),
            expired: state.parts.iter().map(|part| part.expired() as u64).sum(),
            dead_judgments: 0,
            segments,
            memtable_documents,
            bytes,
            expected_documents_per_leaf: squares / entries.max(1) as f64,
            dim: config.dim,
            encoded_by: Vec::new(),
            similarity: config.similarity()?,
            lexical: self.is_lexical(),
            analyzer: Analyzer::from_code(self.terms()),
            unlisted_fields: unlisted.into_iter().collect(),
            branching_factor: config.branching_factor,
            height: config.height,
            leaves: config.leaves(),
            leaves_used: sizes.len(),
            passages: config.passages,
            model: config.model_hash,
            leaf_sizes: sizes.into_iter().map(|(leaf, documents)| LeafSize { leaf, documents }).collect(),
        })
    }
}

/// Total size of the files with these names in a folder, and of those inside it, as far as they can be read:
/// files appear and disappear concurrently.
pub(crate) fn bytes_below(folder: &Path, named: &dyn Fn(&str) -> bool) -> u64 {
    bytes_of(folder, &|name, _| named(name))
}

/// As [`bytes_below`], of the files with more than one name.
pub(crate) fn shared_bytes_below(folder: &Path) -> u64 {
    bytes_of(folder, &|_, of| of.nlink() > 1)
}

fn bytes_of(folder: &Path, counts: &dyn Fn(&str, &fs::Metadata) -> bool) -> u64 {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let bytes = entries.map(|entry| match entry.metadata() {
        Ok(of) if of.is_dir() => bytes_of(&entry.path(), counts),
        Ok(of) if entry.file_name().to_str().is_some_and(|name| counts(name, &of)) => of.len(),
        _ => 0,
    });
    bytes.sum()
}
