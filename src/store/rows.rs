//! Rows of documents, wherever they are stored.

use std::ops::Range;

use half::f16;

use super::{
    error::{Damage, Result, StoreError},
    expiry::Time,
    payload,
    terms::{Lexer, TermLists},
};
use crate::{
    codes::StoredCodes,
    document::Document,
    filter::bits,
    ids::{Generation, LeafId},
    lexical::List,
    passages::Span,
};

/// The position of a row in its document, if documents have passages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Passage {
    /// The row of the document's first passage.
    pub(super) head: u32,
    /// The row of its next passage; its own for the last.
    pub(super) next: u32,
    pub(super) span: Span,
}

/// A document as it is stored.
#[derive(Clone, Copy)]
pub(super) struct StoredDocument<'a> {
    pub(super) id: &'a [u8],
    /// Title and text, and metadata; `None` if only the id is wanted.
    pub(super) contents: Option<[&'a [u8]; 2]>,
}

/// A source of a segment's documents.
pub(super) trait RowSource: Send + Sync {
    /// The leaf of a row.
    fn leaf_of(&self, row: u32) -> Result<LeafId>;
    /// `[dim]` f16.
    fn embedding(&self, row: u32) -> Result<&[f16]>;
    /// The id of a row's document.
    fn id(&self, row: u32) -> Result<&str>;
    /// The row's position in its document; `None` if documents have no passages, and each is one row.
    fn passage(&self, row: u32) -> Result<Option<Passage>>;
    /// Title and text, as stored.
    fn payload(&self, row: u32) -> Result<&[u8]>;
    /// Metadata as JSON; empty if there is none.
    fn metadata(&self, row: u32) -> Result<&[u8]>;
    /// The generation in which the document was inserted.
    fn created_at(&self, row: u32) -> Result<Generation>;
    /// The posting lists of terms of these rows, ascending: the stored lists, or lists made from the texts.
    fn term_lists(&self, rows: &[u32], lexer: &dyn Lexer) -> Result<Vec<Box<dyn TermLists + '_>>>;
}

/// All data of rows, including dead ones: of a segment, or of a memtable.
pub(super) trait Rows: RowSource {
    /// Number of rows.
    fn rows(&self) -> u32;
    /// Number of documents.
    fn documents(&self) -> u32;
    /// The name used in errors.
    fn name(&self) -> &str;
    /// The representative row of a row's document: that of its first passage, or the row itself.
    fn head(&self, row: u32) -> Result<u32>;
    /// When documents expire, ascending, and the representative row of each.
    fn expiries(&self) -> Result<(&[Time], &[u32])>;
    /// Embeddings of consecutive rows, `[rows, dim]` f16.
    fn matrix(&self, rows: Range<u32>) -> Result<&[f16]>;
    /// The row with an id.
    fn find(&self, id: &str) -> Result<Option<u32>>;
    /// The leaves with documents here, ascending.
    fn all_leaves(&self) -> Result<&[u32]>;
    /// The rows of a leaf.
    fn leaf(&self, leaf: LeafId) -> Result<Range<u32>>;
    /// Whether rows have posting lists of terms. Those in memory build theirs on first use.
    fn is_lexical(&self) -> bool;
    /// The rows that contain a term.
    fn term_list(&self, term: u32, lexer: &dyn Lexer) -> Result<List<'_>>;
    /// Calls `tell` with each term and the number of rows that contain it.
    fn term_counts(&self, lexer: &dyn Lexer, tell: &mut dyn FnMut(u32, u64)) -> Result<()>;
    /// Occurrences of all terms in each row.
    fn lengths(&self, lexer: &dyn Lexer) -> Result<&[u32]>;
    /// The sum of [`Self::lengths`].
    fn total_length(&self, lexer: &dyn Lexer) -> Result<u64>;

    /// Passes on the codes of consecutive rows, leaf after leaf. `near` is the leaf of the first, or a guess.
    /// Returns whether there are any.
    fn put_codes<'a>(
        &'a self,
        _rows: Range<u32>,
        _near: LeafId,
        _put: &mut dyn FnMut(StoredCodes<'a>),
    ) -> Result<bool> {
        Ok(false)
    }

    /// The supplement of a row's code, `[supplement_bytes]`; `None` if it has none.
    fn supplement(&self, _row: u32) -> Result<Option<&[u8]>> {
        Ok(None)
    }

    /// Prefetches what [`Self::stored`] reads of a whole document.
    fn prefetch(&self, _row: u32) -> Result<()> {
        Ok(())
    }

    /// The document of a representative row as it is stored, prefetched.
    fn stored(&self, row: u32, ids_only: bool) -> Result<StoredDocument<'_>> {
        let contents = || Ok::<_, StoreError>([self.payload(row)?, self.metadata(row)?]);
        Ok(StoredDocument { id: self.id(row)?.as_bytes(), contents: (!ids_only).then(contents).transpose()? })
    }

    /// The document of a representative row, given as it is stored.
    fn decoded(&self, row: u32, stored: StoredDocument<'_>) -> Result<Document> {
        let undecodable = |what| {
            StoreError::corrupt(self.name().to_owned(), Damage::Undecodable { what, number: row.into() })
        };
        let id = std::str::from_utf8(stored.id).map_err(|_| undecodable("the id of row"))?;
        match stored.contents {
            None => Ok(Document::new(id, "", "")),
            Some([payload, metadata]) => payload::decode(id.to_owned(), payload, metadata)
                .ok_or_else(|| undecodable("the document of row")),
        }
    }

    /// The document of a representative row.
    fn document(&self, row: u32) -> Result<Document> {
        self.decoded(row, self.stored(row, false)?)
    }
}

/// The rows that represent their documents, one bit per row.
///
/// # Errors
///
/// Damage of the mapping of rows to documents.
pub(super) fn head_bits(rows: &dyn Rows) -> Result<Vec<u64>> {
    let mut heads = bits::none(rows.rows() as usize);
    for row in 0..rows.rows() {
        if rows.head(row)? == row {
            bits::set(&mut heads, &[row]);
        }
    }
    Ok(heads)
}

/// A row of a source that becomes part of the segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Member {
    /// The number of the source.
    pub(super) source: u32,
    /// Its row there.
    pub(super) row: u32,
}

/// For each row, the first row of its document and the next one, its own for the last; given the document of
/// each row and its place there.
pub(super) fn chain<D: Ord, P: Ord>(places: impl Iterator<Item = (D, P)>) -> (Vec<u32>, Vec<u32>) {
    let mut sorted: Vec<((D, P), u32)> = places.zip(0..).collect();
    sorted.sort_unstable();
    let (mut heads, mut next) = (vec![0; sorted.len()], vec![0; sorted.len()]);
    for same in sorted.chunk_by(|((a, _), _), ((b, _), _)| a == b) {
        for (place, &(_, row)) in same.iter().enumerate() {
            heads[row as usize] = same[0].1;
            next[row as usize] = same.get(place + 1).map_or(row, |next| next.1);
        }
    }
    (heads, next)
}
