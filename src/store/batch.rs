//! The changes that a caller requests, and the checks before anything is written.

use std::{
    collections::HashSet,
    sync::{Arc, OnceLock},
};

use half::f16;

use super::{
    config::StoreConfig,
    error::{Result, StoreError},
    expiry::{self, Time},
    layout::limits,
    payload::{self, Encoded},
    terms::{Lexer, Terms},
};
use crate::{
    document::Document,
    ids::{Generation, LeafId},
    input::InputError,
    passages::Span,
};

/// A document to store, with its position in the index.
#[derive(Clone, Debug)]
pub struct Put {
    /// The document; replaces the live one with the same id.
    pub document: Document,
    /// One row, or one per passage in the order of the text if documents have passages.
    pub rows: Vec<PutRow>,
    /// The terms of its texts, if already known; otherwise they are computed when needed.
    pub terms: Option<Terms>,
}

/// A row of a document to store.
#[derive(Clone, Debug, PartialEq)]
pub struct PutRow {
    /// `[dim]` f16, all finite; stored as given.
    pub embedding: Vec<f16>,
    /// The leaf it is put in.
    pub leaf: LeafId,
    /// The part of the text that the row covers, if documents have passages; otherwise empty.
    pub span: Span,
}

impl Put {
    /// A document with one row, which covers its whole text.
    pub fn whole(document: Document, embedding: Vec<f16>, leaf: LeafId) -> Self {
        Self { document, rows: vec![PutRow { embedding, leaf, span: Span::default() }], terms: None }
    }
}

/// Changes that become visible together, in one generation.
///
/// Deletes come first, then puts: an id in both ends up stored. If several puts share an id, the last one
/// counts. A delete of an unknown id does nothing.
#[derive(Clone, Debug, Default)]
pub struct WriteBatch {
    /// Documents to store.
    pub puts: Vec<Put>,
    /// Ids of documents to delete.
    pub deletes: Vec<String>,
}

/// The result of a commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Committed {
    /// The generation that readers see from now on; unchanged if there was nothing to do.
    pub generation: Generation,
    /// One entry per kept put (the last for each id), in order: whether it replaced a document.
    pub replaced: Vec<bool>,
    /// Kept puts that expire.
    pub expiring: usize,
    /// Documents deleted and not stored again by the same batch.
    pub deleted: usize,
}

/// A batch that passed every check: no duplicate ids, payloads encoded.
#[derive(Debug, PartialEq)]
pub(super) struct CheckedBatch {
    /// In the order of the last put of each id.
    pub(super) puts: Vec<Arc<CheckedPut>>,
    /// Ids to delete that are not put, each once.
    pub(super) deletes: Vec<String>,
}

/// A put ready to be written as it is.
#[derive(Debug, PartialEq)]
pub(super) struct CheckedPut {
    pub(super) id: Arc<str>,
    /// Title and text.
    pub(super) payload: Vec<u8>,
    /// Empty if there is none.
    pub(super) metadata: Vec<u8>,
    /// At least one.
    pub(super) rows: Vec<PutRow>,
    /// Not in the log.
    pub(super) terms: OnceLock<Terms>,
    /// When it expires; not in the log.
    expires: OnceLock<Option<Time>>,
}

impl CheckedPut {
    /// Approximate memory use, and an upper bound on its size in a log or in a segment, with its code.
    pub(super) fn bytes(&self) -> usize {
        let row = |row: &PutRow| 2 * size_of_val(row.embedding.as_slice()) + 112;
        let rows: usize = self.rows.iter().map(row).sum();
        let terms = self.terms.get().map_or_else(|| Terms::bytes_of_text(&self.payload), Terms::bytes);
        self.id.len() + self.payload.len() + self.metadata.len() + rows + terms + 128
    }

    /// A document as stored, and its terms if they are known.
    pub(super) fn new(
        id: impl Into<Arc<str>>,
        payload: Vec<u8>,
        metadata: Vec<u8>,
        rows: Vec<PutRow>,
        terms: Option<Terms>,
    ) -> Self {
        let id = id.into();
        let (terms, expires) = (terms.map_or_else(OnceLock::new, OnceLock::from), OnceLock::new());
        Self { id, payload, metadata, rows, terms, expires }
    }

    /// When it expires, by a field of its metadata.
    pub(super) fn expires(&self, field: &str) -> Option<Time> {
        *self.expires.get_or_init(|| expiry::of_stored(&self.metadata, field))
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
            check_parts(&put.document.id, &put.rows, config)?;
            let text = &put.document.text;
            if config.passages.is_some() && put.rows.iter().any(|row| row.span.part(text).is_none()) {
                return bad_rows(&put.document.id, "a passage is no part of the text");
            }
        }
        let mut seen: HashSet<&str> = HashSet::with_capacity(self.puts.len());
        // Of several puts with one id, the last.
        let mut kept: Vec<bool> = self.puts.iter().rev().map(|put| seen.insert(&put.document.id)).collect();
        kept.reverse();
        // An id that cannot be stored is unknown, so deleting it does nothing.
        let deletes = self.deletes.iter().filter(|id| check_id(id).is_ok() && seen.insert(id)).cloned();
        let deletes = deletes.collect();
        let puts = self.puts.into_iter().zip(kept).filter(|(_, kept)| *kept).map(|(put, _)| {
            let Encoded { payload, metadata } = payload::encode(&put.document)?;
            let Put { document, rows, terms } = put;
            if let Some(field) = &config.expires {
                expiry::of(&document.id, document.metadata.as_ref(), field).map_err(StoreError::Input)?;
            }
            Ok(Arc::new(CheckedPut::new(document.id, payload, metadata, rows, terms)))
        });
        let puts = puts.collect::<Result<_>>()?;
        Ok(CheckedBatch { puts, deletes })
    }
}

impl CheckedBatch {
    /// Whether the content of a log could have passed the checks against this configuration.
    pub(super) fn check(&self, config: &StoreConfig) -> Result<()> {
        self.puts.iter().try_for_each(|put| check_parts(&put.id, &put.rows, config))?;
        self.deletes.iter().try_for_each(|id| check_id(id).map_err(StoreError::Input))
    }
}

fn check_id(id: &str) -> std::result::Result<(), InputError> {
    if (1..=limits::ID_BYTES).contains(&id.len()) {
        return Ok(());
    }
    Err(InputError::InvalidId { found: id.len(), most: limits::ID_BYTES })
}

/// Whether a batch may hold the document, or why a commit would refuse it.
pub(crate) fn check_document(
    document: &Document,
    config: &StoreConfig,
) -> std::result::Result<(), InputError> {
    check_id(&document.id)?;
    if let Some(field) = &config.expires {
        expiry::of(&document.id, document.metadata.as_ref(), field)?;
    }
    payload::check(document)
}

/// Whether a document is past its time, so that a commit need not store it.
pub(crate) fn has_expired(document: &Document, config: &StoreConfig) -> bool {
    config.expires.as_ref().is_some_and(|field| expiry::has_passed(document.metadata.as_ref(), field))
}

fn check_parts(id: &str, rows: &[PutRow], config: &StoreConfig) -> Result<()> {
    check_id(id).map_err(StoreError::Input)?;
    let bad = |what| bad_rows(id, what);
    let rising = rows.windows(2).all(|pair| pair[0].span.start < pair[1].span.start);
    match (config.passages, rows) {
        (_, []) => return bad("it has no row"),
        (None, [_, _, ..]) => return bad("it has several rows, and the index has no passages"),
        (None, [row]) if row.span != Span::default() => return bad("the index has no passages"),
        (Some(_), rows) if !rising || rows.iter().any(|row| row.span.start > row.span.end) => {
            return bad("its passages are not in their order");
        }
        _ => {}
    }
    rows.iter().try_for_each(|row| check_row(id, &row.embedding, row.leaf, config))
}

fn check_row(id: &str, embedding: &[f16], leaf: LeafId, config: &StoreConfig) -> Result<()> {
    if embedding.len() != config.dim as usize {
        let what = format!("its embedding has {} elements, the index has {}", embedding.len(), config.dim);
        return bad_rows(id, what);
    }
    if let Some(position) = embedding.iter().position(|element| !element.is_finite()) {
        return Err(StoreError::Input(InputError::NotFinite { id: id.to_owned(), position }));
    }
    check_leaf(id, leaf, config)
}

pub(super) fn check_leaf(id: &str, leaf: LeafId, config: &StoreConfig) -> Result<()> {
    let all = config.leaves();
    if u64::from(leaf.0) >= all {
        return bad_rows(id, format!("it is put in {leaf:?}, the tree has {all} leaves"));
    }
    Ok(())
}

fn bad_rows<T>(id: &str, what: impl Into<String>) -> Result<T> {
    Err(StoreError::BadRows { id: id.to_owned(), what: what.into() })
}
