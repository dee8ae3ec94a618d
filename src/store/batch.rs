//! What a caller asks to change, and the checks before anything is written.

use std::{
    collections::{HashMap, HashSet},
    sync::{Arc, OnceLock},
};

use half::f16;

use super::{
    error::{Result, StoreError},
    layout::limits,
    manifest::StoreConfig,
    payload::{self, Encoded},
    terms::{Lexer, Terms},
};
use crate::{
    document::Document,
    ids::{Generation, LeafId},
    input::InputError,
};

/// A document to store, with its place in the index.
#[derive(Clone, Debug)]
pub struct Put {
    /// The document; replaces the live one of the same id.
    pub document: Document,
    /// `[dim]` f16, all finite; stored as given.
    pub embedding: Vec<f16>,
    /// The leaves it is put in: 1 to leaves-per-document of them, each once.
    pub leaves: Vec<LeafId>,
    /// The terms of its texts, where they are known already; else they are found when they are needed.
    pub terms: Option<Terms>,
}

/// Changes that become visible together, in one generation.
///
/// Deletes come first, then puts: an id in both ends up stored. Of several puts of one
/// id the last one counts. A delete of an unknown id does nothing.
#[derive(Clone, Debug, Default)]
pub struct WriteBatch {
    /// Documents to store.
    pub puts: Vec<Put>,
    /// Ids of documents to delete.
    pub deletes: Vec<String>,
}

/// What a commit did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Committed {
    /// The generation that readers see from now on; unchanged where nothing was to do.
    pub generation: Generation,
    /// Of each put, in their order but without those that a later one of the same id outdid: whether
    /// it took the place of a document.
    pub replaced: Vec<bool>,
    /// Documents deleted and not stored again by the same batch.
    pub deleted: usize,
}

/// A batch that passed every check: no id twice, payloads encoded.
#[derive(Debug, PartialEq)]
pub(super) struct CheckedBatch {
    /// In the order of their last mention.
    pub(super) puts: Vec<Arc<CheckedPut>>,
    /// Ids to delete that are not put, each once.
    pub(super) deletes: Vec<String>,
}

/// A put whose every part may be written as it is.
#[derive(Debug, PartialEq)]
pub(super) struct CheckedPut {
    pub(super) id: Arc<str>,
    /// Title and text.
    pub(super) payload: Vec<u8>,
    /// Empty where there is none.
    pub(super) metadata: Vec<u8>,
    pub(super) embedding: Vec<f16>,
    pub(super) leaves: Vec<LeafId>,
    /// Not in the log.
    pub(super) terms: OnceLock<Terms>,
}

impl CheckedPut {
    /// Memory that it takes, about, and no less than it takes in a log or in a segment, with its code.
    pub(super) fn bytes(&self) -> usize {
        let embedding = size_of_val(self.embedding.as_slice());
        let leaves = 4 * size_of_val(self.leaves.as_slice());
        // Posting lists take less than half of the text, in a segment too.
        let terms = self.terms.get().map_or(self.payload.len() / 2, Terms::bytes);
        self.id.len() + self.payload.len() + self.metadata.len() + 2 * embedding + leaves + terms + 128
    }

    /// The terms of its texts.
    pub(super) fn terms(&self, lexer: &dyn Lexer) -> Result<&Terms> {
        if let Some(terms) = self.terms.get() {
            return Ok(terms);
        }
        let terms = Terms::of_stored(&self.payload, lexer)?.unwrap_or_default();
        Ok(self.terms.get_or_init(|| terms))
    }
}

impl WriteBatch {
    pub(super) fn check(self, config: &StoreConfig) -> Result<CheckedBatch> {
        for put in &self.puts {
            check_parts(&put.document.id, &put.embedding, &put.leaves, config)?;
        }
        let mut last: HashMap<&str, usize> = HashMap::with_capacity(self.puts.len());
        for (position, put) in self.puts.iter().enumerate() {
            last.insert(&put.document.id, position);
        }
        let kept: HashSet<usize> = last.values().copied().collect();
        let mut seen = HashSet::new();
        let deletes: Vec<String> = self
            .deletes
            .into_iter()
            // An id that cannot be stored is unknown, and deleting it does nothing.
            .filter(|id| check_id(id).is_ok() && !last.contains_key(id.as_str()))
            .filter(|id| seen.insert(id.clone()))
            .collect();
        let mut puts = Vec::with_capacity(kept.len());
        for (position, put) in self.puts.into_iter().enumerate() {
            if kept.contains(&position) {
                let Encoded { payload, metadata } = payload::encode(&put.document)?;
                let Put { document, embedding, leaves, terms } = put;
                let (id, terms) = (document.id.into(), terms.map_or_else(OnceLock::new, OnceLock::from));
                puts.push(Arc::new(CheckedPut { id, payload, metadata, embedding, leaves, terms }));
            }
        }
        Ok(CheckedBatch { puts, deletes })
    }
}

impl CheckedBatch {
    /// Whether what a log holds could have been checked against this configuration.
    pub(super) fn check(&self, config: &StoreConfig) -> Result<()> {
        self.puts.iter().try_for_each(|put| check_parts(&put.id, &put.embedding, &put.leaves, config))?;
        self.deletes.iter().try_for_each(|id| check_id(id).map_err(StoreError::Input))
    }
}

fn check_id(id: &str) -> std::result::Result<(), InputError> {
    if (1..=limits::ID_BYTES).contains(&id.len()) {
        return Ok(());
    }
    Err(InputError::InvalidId { found: id.len(), most: limits::ID_BYTES })
}

/// Whether a batch may hold the document: what a commit would refuse of it.
pub(crate) fn check_document(document: &Document) -> std::result::Result<(), InputError> {
    check_id(&document.id)?;
    payload::check(document)
}

fn check_parts(id: &str, embedding: &[f16], leaves: &[LeafId], config: &StoreConfig) -> Result<()> {
    check_id(id).map_err(StoreError::Input)?;
    if embedding.len() != config.dim as usize {
        let (expected, found) = (config.dim, embedding.len());
        return Err(StoreError::DimensionMismatch { id: id.to_owned(), expected, found });
    }
    if let Some(position) = embedding.iter().position(|element| !element.is_finite()) {
        return Err(StoreError::Input(InputError::NotFinite { id: id.to_owned(), position }));
    }
    check_leaves(id, leaves, config)
}

pub(super) fn check_leaves(id: &str, leaves: &[LeafId], config: &StoreConfig) -> Result<()> {
    let id = || id.to_owned();
    let (found, most) = (leaves.len(), config.leaves_per_document);
    if found == 0 || found > most as usize {
        return Err(StoreError::LeafCount { id: id(), found, most });
    }
    let all = config.leaves();
    let mut seen = HashSet::with_capacity(found);
    for &leaf in leaves {
        if u64::from(leaf.0) >= all {
            return Err(StoreError::LeafOutOfRange { id: id(), leaf, leaves: all });
        }
        if !seen.insert(leaf) {
            return Err(StoreError::DuplicateLeaf { id: id(), leaf });
        }
    }
    Ok(())
}
