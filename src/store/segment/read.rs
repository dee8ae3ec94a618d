//! Reads a segment.

use std::{ops::Range, sync::OnceLock};

use half::f16;

use super::{codes::check_codes, joined::made_from_texts};
use crate::{
    codes::{self, StoredCodes},
    ids::{Generation, LeafId},
    lexical::List,
    passages::Span,
    prefetch::{CACHE_LINE_BYTES, prefetch},
    store::{
        error::{Damage, Result, StoreError},
        expiry::Time,
        layout::segment::*,
        rows::{Passage, RowSource, Rows, StoredDocument, head_bits},
        sealed::{Seal, SealedFile, SealedFolder, SealedKind, SealedName},
        terms::{Lexer, TermLists},
    },
};

/// Cache lines prefetched of each part of a document: the size of a title and a sentence, after which
/// processors predict the rest.
const LINES_EXPECTED: usize = 4;

/// How the manifest identifies the files of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::store) struct SegmentFiles {
    pub(in crate::store) number: u64,
    pub(in crate::store) rows: u32,
    pub(in crate::store) vectors: Seal,
    pub(in crate::store) documents: Seal,
}

/// An open segment. Every byte that it returns was checked.
pub(in crate::store) struct Segment {
    files: SegmentFiles,
    pub(super) dim: usize,
    /// Opened for a repair.
    damaged: bool,
    /// `None` only during a repair.
    pub(super) vectors: Option<SealedFile>,
    pub(super) documents: SealedFile,
    /// See [`Self::head_bits`].
    heads: OnceLock<Vec<u64>>,
}

impl SegmentFiles {
    /// The files of the segment with this number: embeddings and documents.
    pub(in crate::store) fn names_of(segment: u64) -> [SealedName; 2] {
        [SealedKind::Vectors, SealedKind::Documents].map(|kind| SealedName { segment, kind })
    }

    /// The same for this one.
    pub(in crate::store) fn names(&self) -> [SealedName; 2] {
        Self::names_of(self.number)
    }
}

impl Segment {
    /// Opens a segment in constant time. With `damaged`, an unusable file of embeddings is treated as if
    /// every page of it were damaged, the posting lists of terms are not checked, and unreadable generations
    /// are 0.
    pub(in crate::store) fn open(
        folder: SealedFolder<'_>,
        dim: u32,
        files: SegmentFiles,
        damaged: bool,
    ) -> Result<Self> {
        let [vectors, documents] = files.names();
        let vectors = SealedFile::open(folder, vectors, files.vectors, damaged).and_then(|vectors| {
            let stride = u64::from(dim) * size_of::<f16>() as u64;
            vectors.check_counts([("bytes of rows", ROWS, 1, u64::from(files.rows) * stride)])?;
            Ok(vectors)
        });
        let vectors = match vectors {
            Err(StoreError::Corrupt { .. }) if damaged => None,
            vectors => Some(vectors?),
        };
        let documents = SealedFile::open(folder, documents, files.documents, damaged)?;
        let (rows, leaves) = (u64::from(files.rows), documents.count(LEAVES, 4));
        // A repair makes codes anew.
        if let Some(vectors) = vectors.as_ref().filter(|_| !damaged) {
            check_codes(vectors, files.rows, leaves, dim as usize)?;
        }
        let has_passages = documents.has(HEADS);
        let passages = if has_passages { rows } else { 0 };
        // In documents with passages, only the first passages count.
        let documents_here = if has_passages { documents.count(ID_ORDER, 4) } else { rows };
        if documents_here > rows {
            let (what, expected, found) = ("the number of documents", rows, documents_here);
            return Err(documents.corrupt(Damage::Disagreement { what, expected, found }));
        }
        documents.check_counts([
            ("the number of ids", ID_ENDS, 8, rows),
            ("the length of the order of ids", ID_ORDER, 4, documents_here),
            ("the number of rows' documents", HEADS, 4, passages),
            ("the number of passages", SPANS, 8, passages),
            ("the number of next passages", NEXT, 4, passages),
            ("the number of payloads", PAYLOAD_ENDS, 8, rows),
            ("the number of metadata", METADATA_ENDS, 8, rows),
            ("the number of rows' generations", CREATED_AT, 8, rows),
            ("the number of leaves' ends", LEAF_ENDS, 4, leaves),
            ("the number of documents that expire", EXPIRY_ROWS, 4, documents.count(EXPIRY_TIMES, 8)),
        ])?;
        let sections_of_terms = [LENGTHS, TOTAL_LENGTH, TERMS];
        if !damaged && sections_of_terms.into_iter().any(|name| documents.has(name)) {
            let terms = documents.count(TERMS, 4);
            documents.check_counts([
                ("the number of terms' rows", TERM_ROWS, 4, terms),
                ("the number of terms' ends", TERM_ENDS, 8, terms),
                ("the number of rows' lengths", LENGTHS, 4, rows),
                ("the number of total lengths", TOTAL_LENGTH, 8, 1),
            ])?;
        }
        Ok(Self { files, dim: dim as usize, damaged, vectors, documents, heads: OnceLock::new() })
    }

    /// The rows that represent their documents, one bit per row; kept, if documents have passages.
    ///
    /// # Errors
    ///
    /// Damage of the mapping of rows to documents.
    pub(in crate::store) fn head_bits(&self) -> Result<&[u64]> {
        match self.heads.get() {
            Some(heads) => Ok(heads),
            None => {
                let heads = head_bits(self)?;
                Ok(self.heads.get_or_init(|| heads))
            }
        }
    }

    pub(in crate::store) fn files(&self) -> SegmentFiles {
        self.files
    }

    /// Bytes of `N.vectors` and of `N.documents`.
    pub(in crate::store) fn bytes(&self) -> [u64; 2] {
        [self.vectors.as_ref().map_or(0, SealedFile::len), self.documents.len()]
    }

    /// As [`Self::first_from`], of the first greater id.
    pub(in crate::store) fn first_after(&self, id: &str) -> Result<u32> {
        let place = self.first_from(id)?;
        Ok(place + u32::from(place < self.documents() && self.id(self.by_id(place)?)? == id))
    }

    /// The number of smaller ids: the position of this one, existing or not, in id order.
    pub(in crate::store) fn first_from(&self, id: &str) -> Result<u32> {
        let (mut low, mut high) = (0, self.documents());
        while low < high {
            let middle = low + (high - low) / 2;
            if self.id(self.by_id(middle)?)? < id {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        Ok(low)
    }

    /// The row at a position in the byte order of ids.
    pub(in crate::store) fn by_id(&self, place: u32) -> Result<u32> {
        let row = *self.documents.element(ID_ORDER, place)?;
        if row < self.rows() { Ok(row) } else { Err(self.undecodable("the order of ids", place.into())) }
    }

    /// Number of results of [`Self::check_bytes`].
    pub(in crate::store) fn checks(&self) -> u64 {
        self.vectors.iter().chain([&self.documents]).map(SealedFile::checks).sum()
    }

    /// Reads every byte of both files, the ends and then page after page.
    pub(in crate::store) fn check_bytes(&self) -> impl Iterator<Item = Result<()>> + '_ {
        self.vectors.iter().flat_map(SealedFile::check_all).chain(self.documents.check_all())
    }

    /// Flipped bytes that were put right.
    pub(in crate::store) fn patched(&self) -> u64 {
        self.documents.patched + self.vectors.as_ref().map_or(0, |vectors| vectors.patched)
    }

    /// The range between two adjacent ends, starting at 0 for the first; never beyond `most`.
    pub(super) fn entry<T: bytemuck::Pod + Into<u64>>(
        &self,
        ends: u32,
        place: usize,
        most: u64,
    ) -> Result<Range<u64>> {
        let (start, end) = match *self.documents.elements::<T>(ends, place.saturating_sub(1)..place + 1)? {
            [start, end] => (start.into(), end.into()),
            [end] => (0, end.into()),
            _ => (1, 0),
        };
        let sound = start <= end && end <= most;
        if sound { Ok(start..end) } else { Err(self.undecodable("the end of entry", place as u64)) }
    }

    /// An entry of a section of bytes, by the section of the entries' ends.
    pub(super) fn blob(&self, ends: u32, bytes: u32, place: usize) -> Result<&[u8]> {
        let bytes = self.documents.section(bytes);
        let entry = self.entry::<u64>(ends, place, bytes.end - bytes.start)?;
        self.documents.bytes(bytes.start + entry.start..bytes.start + entry.end)
    }

    pub(in crate::store) fn undecodable(&self, what: &'static str, number: u64) -> StoreError {
        self.documents.corrupt(Damage::Undecodable { what, number })
    }
}

impl RowSource for Segment {
    fn leaf_of(&self, row: u32) -> Result<LeafId> {
        let place = self.documents.all(LEAF_ENDS)?.partition_point(|&end: &u32| end <= row);
        if place as u64 >= self.documents.count(LEAVES, 4) {
            return Err(self.undecodable("the leaf of row", row.into()));
        }
        Ok(LeafId(*self.documents.element(LEAVES, place as u32)?))
    }

    fn embedding(&self, row: u32) -> Result<&[f16]> {
        self.matrix(row..row + 1)
    }

    fn id(&self, row: u32) -> Result<&str> {
        let bytes = self.blob(ID_ENDS, IDS, row as usize)?;
        std::str::from_utf8(bytes).map_err(|_| self.undecodable("the id of row", row.into()))
    }

    fn passage(&self, row: u32) -> Result<Option<Passage>> {
        if !self.documents.has(HEADS) {
            return Ok(None);
        }
        let (head, next) = (self.head(row)?, *self.documents.element(NEXT, row)?);
        let &[start, end] = self.documents.element(SPANS, row)?;
        if next >= self.rows() {
            return Err(self.undecodable("the document of row", row.into()));
        }
        Ok(Some(Passage { head, next, span: Span { start, end } }))
    }

    fn payload(&self, row: u32) -> Result<&[u8]> {
        self.blob(PAYLOAD_ENDS, PAYLOADS, row as usize)
    }

    fn metadata(&self, row: u32) -> Result<&[u8]> {
        self.blob(METADATA_ENDS, METADATA, row as usize)
    }

    fn created_at(&self, row: u32) -> Result<Generation> {
        match self.documents.element(CREATED_AT, row) {
            Ok(generation) => Ok(Generation(*generation)),
            // It only orders documents by age; nothing depends on it.
            Err(StoreError::Corrupt { .. }) if self.damaged => Ok(Generation(0)),
            Err(error) => Err(error),
        }
    }

    fn term_lists(&self, rows: &[u32], lexer: &dyn Lexer) -> Result<Vec<Box<dyn TermLists + '_>>> {
        // Pages of a damaged segment may be trusted without their lists.
        if self.is_lexical() && !self.damaged {
            match self.check_terms(false) {
                Ok(_) => return Ok(vec![Box::new(self)]),
                Err(error @ StoreError::Corrupt { .. }) => {
                    tracing::warn!(%error, "posting lists of terms are made again from the texts");
                }
                Err(error) => return Err(error),
            }
        }
        made_from_texts(self, rows, lexer)
    }
}

impl Rows for Segment {
    fn rows(&self) -> u32 {
        self.files.rows
    }

    fn documents(&self) -> u32 {
        self.documents.count(ID_ORDER, 4) as u32
    }

    fn name(&self) -> &str {
        self.documents.name()
    }

    fn head(&self, row: u32) -> Result<u32> {
        if !self.documents.has(HEADS) {
            return Ok(row);
        }
        let head = *self.documents.element(HEADS, row)?;
        if head < self.rows() { Ok(head) } else { Err(self.undecodable("the document of row", row.into())) }
    }

    fn prefetch(&self, row: u32) -> Result<()> {
        for ends in [ID_ENDS, PAYLOAD_ENDS, METADATA_ENDS] {
            prefetch(self.documents.element::<u64>(ends, row)?);
        }
        Ok(())
    }

    fn stored(&self, row: u32, ids_only: bool) -> Result<StoredDocument<'_>> {
        let prefetched = |bytes: &'_ [u8]| {
            let lines = bytes.chunks(CACHE_LINE_BYTES).take(LINES_EXPECTED);
            lines.for_each(|line| prefetch(line.as_ptr()));
        };
        let (id, mut contents) = (self.blob(ID_ENDS, IDS, row as usize)?, None);
        prefetched(id);
        if !ids_only {
            let own = [self.payload(row)?, self.metadata(row)?];
            own.into_iter().for_each(prefetched);
            contents = Some(own);
        }
        Ok(StoredDocument { id, contents })
    }

    fn expiries(&self) -> Result<(&[Time], &[u32])> {
        Ok((self.documents.all(EXPIRY_TIMES)?, self.documents.all(EXPIRY_ROWS)?))
    }

    fn matrix(&self, rows: Range<u32>) -> Result<&[f16]> {
        let elements = rows.start as usize * self.dim..rows.end as usize * self.dim;
        let [vectors, _] = self.files.names();
        let missing = || StoreError::corrupt(vectors.to_string(), Damage::Missing { what: "the file" });
        let vectors = self.vectors.as_ref().ok_or_else(missing)?;
        vectors.elements(ROWS, elements)
    }

    fn find(&self, id: &str) -> Result<Option<u32>> {
        let place = self.first_from(id)?;
        if place == self.documents() {
            return Ok(None);
        }
        let row = self.by_id(place)?;
        Ok((self.id(row)? == id).then_some(row))
    }

    fn all_leaves(&self) -> Result<&[u32]> {
        self.documents.all(LEAVES)
    }

    fn leaf(&self, leaf: LeafId) -> Result<Range<u32>> {
        // If no leaf below is empty, it has the place of its number, and the others are not read.
        let in_place = u64::from(leaf.0) < self.documents.count(LEAVES, 4)
            && *self.documents.element::<u32>(LEAVES, leaf.0)? == leaf.0;
        let place = match in_place {
            true => leaf.0 as usize,
            false => match self.all_leaves()?.binary_search(&leaf.0) {
                Ok(place) => place,
                Err(_) => return Ok(0..0),
            },
        };
        let rows = self.entry::<u32>(LEAF_ENDS, place, self.rows().into())?;
        Ok(rows.start as u32..rows.end as u32)
    }

    fn is_lexical(&self) -> bool {
        self.documents.has(LENGTHS)
    }

    fn term_list(&self, term: u32, _: &dyn Lexer) -> Result<List<'_>> {
        match self.terms()?.binary_search(&term) {
            Ok(place) => Ok(List::Encoded(self.term_list_at(place)?)),
            Err(_) => Ok(List::Plain(&[])),
        }
    }

    fn term_counts(&self, _: &dyn Lexer, tell: &mut dyn FnMut(u32, u64)) -> Result<()> {
        let (terms, rows) = (self.terms()?, self.documents.all::<u32>(TERM_ROWS)?);
        terms.iter().zip(rows).for_each(|(&term, &rows)| tell(term, rows.into()));
        Ok(())
    }

    fn lengths(&self, _: &dyn Lexer) -> Result<&[u32]> {
        self.stored_lengths()
    }

    fn total_length(&self, _: &dyn Lexer) -> Result<u64> {
        self.stored_total_length()
    }

    fn put_codes<'a>(
        &'a self,
        rows: Range<u32>,
        near: LeafId,
        put: &mut dyn FnMut(StoredCodes<'a>),
    ) -> Result<bool> {
        self.find_codes(rows, near, put)
    }

    fn supplement(&self, row: u32) -> Result<Option<&[u8]>> {
        let Some(vectors) = self.coded() else { return Ok(None) };
        let bytes = codes::supplement_bytes(self.dim);
        let row = row as usize;
        vectors.elements(SUPPLEMENTS, row * bytes..(row + 1) * bytes).map(Some)
    }
}
