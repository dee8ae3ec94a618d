//! The configuration of a store, and the options of a handle.

use std::{sync::Arc, time::Duration};

use super::{
    error::{Damage, Result, StoreError},
    layout::{limits, names},
};
use crate::{
    disk::{Backend, FileSystem, Unsynced},
    ids::ModelHash,
    passages::Passages,
    scan::Similarity,
};

/// The configuration of an index: fixed at creation, bound to the model that made its embeddings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoreConfig {
    /// Elements of an embedding, 1 to 65536.
    pub dim: u32,
    /// B in the paper: children of a node of the tree; 1 without a tree.
    pub branching_factor: u32,
    /// H in the paper: levels of the tree, at least 1. The tree has B^H leaves, at most 2^32.
    pub height: u32,
    /// The similarity, as a code that the store keeps but does not interpret.
    pub similarity: u8,
    /// Hash of the model bundle; stored here, compared by the index.
    pub model_hash: ModelHash,
    /// The kind of terms, as a code that the store keeps but does not interpret; 0 if rows have no posting
    /// lists of terms.
    pub terms: u8,
    /// If set, documents have a row for each passage.
    pub passages: Option<Passages>,
    /// The field of metadata by which documents expire, if they do.
    pub expires: Option<String>,
}

impl StoreConfig {
    /// Number of leaves of the tree, B^H.
    pub fn leaves(&self) -> u64 {
        u64::from(self.branching_factor).saturating_pow(self.height)
    }

    /// Whether rows have posting lists of terms.
    pub fn is_lexical(&self) -> bool {
        self.terms != 0
    }

    /// How documents are ranked.
    pub fn similarity(&self) -> Result<Similarity> {
        let detail = Damage::Field { field: "similarity", found: self.similarity.into() };
        Similarity::from_code(self.similarity).ok_or(StoreError::corrupt(names::MANIFEST, detail))
    }

    pub(super) fn check(&self) -> Result<()> {
        let within = |field, found: u64, least: u64, most: u64| {
            if (least..=most).contains(&found) {
                Ok(())
            } else {
                Err(StoreError::InvalidConfig { field, found, least, most })
            }
        };
        within("dim", self.dim.into(), 1, limits::DIM.into())?;
        within("branching_factor", self.branching_factor.into(), 1, u32::MAX.into())?;
        // A tree of one leaf has one level.
        let most = if self.branching_factor == 1 { 1 } else { 32 };
        within("height", self.height.into(), 1, most)?;
        within("number of leaves", self.leaves(), 1, limits::LEAVES)?;
        let expires = self.expires.as_ref().map_or(1, String::len);
        within(
            "the length of the field by which documents expire",
            expires as u64,
            1,
            limits::EXPIRES_BYTES as u64,
        )
    }
}

/// Which failures committed changes survive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Durability {
    /// Nothing is synced: a power failure may lose or damage the index. Faster, for indexes that can be
    /// rebuilt.
    None,
    /// Commits before the return of [`Index::flush`](crate::Index::flush) survive a power failure. Later ones
    /// survive the end of the process.
    #[default]
    OnFlush,
    /// Every commit survives a power failure once it has returned. Read-only handles see it after the next
    /// flush.
    EveryBatch,
}

/// Options of a handle; not stored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub(crate) struct StoreOptions {
    /// Which failures committed changes survive.
    pub durability: Durability,
    /// How long to wait for another handle or process to release the directory.
    pub lock_wait: Duration,
    /// Seals segments without codes.
    pub without_codes: bool,
}

impl StoreOptions {
    pub(crate) fn backend(&self) -> Arc<dyn Backend> {
        match self.durability {
            Durability::None => Arc::new(Unsynced),
            _ => Arc::new(FileSystem),
        }
    }
}
