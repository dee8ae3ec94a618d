//! Reads a segment.

use std::{ops::Range, path::Path};

use half::f16;

use super::{Passage, RowSource, Rows, codes::check_codes, terms::check_term_counts};
use crate::{
    codes::{self, StoredCodes},
    disk::Backend,
    ids::{Generation, LeafId},
    lexical::List,
    passages::Span,
    prefetch::{CACHE_LINE_BYTES, prefetch},
    store::{
        error::{Damage, Result, StoreError},
        layout::{names, segment::*},
        manifest::StoreId,
        sealed::{Identity, Kind, Seal, SealedFile},
        terms::{self, Lexer, TermLists},
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
    /// `None` only during a repair.
    pub(super) vectors: Option<SealedFile>,
    documents: SealedFile,
}

impl SegmentFiles {
    /// Name of `N.vectors`, relative to the index.
    pub(in crate::store) fn vectors_name(number: u64) -> String {
        format!("{}/{number:08}.vectors", names::SEGMENTS)
    }

    /// Name of `N.documents`, relative to the index.
    pub(in crate::store) fn documents_name(number: u64) -> String {
        format!("{}/{number:08}.documents", names::SEGMENTS)
    }
}

/// Number of elements of `width` bytes in a section.
pub(super) fn count(section: &Range<u64>, width: u64) -> u64 {
    (section.end - section.start) / width
}

/// Compares the numbers of elements of sections with the expected ones: given as name, section, width of an
/// element, and expected number.
pub(super) fn check_counts<const N: usize>(
    file: &SealedFile,
    counts: [(&'static str, u32, u64, u64); N],
) -> Result<()> {
    for (what, section, width, expected) in counts {
        let found = count(file.section(section), width);
        if found != expected {
            return Err(file.corrupt(Damage::Disagreement { what, expected, found }));
        }
    }
    Ok(())
}

impl Segment {
    /// Opens a segment in constant time. With `damaged`, an unusable file of embeddings is treated as if
    /// every page of it were damaged, and posting lists of terms are ignored.
    pub(in crate::store) fn open(
        backend: &dyn Backend,
        dir: &Path,
        store_id: StoreId,
        dim: u32,
        files: SegmentFiles,
        damaged: bool,
    ) -> Result<Self> {
        let open = |name: String, kind, seal| {
            let identity = Identity { kind, store_id, segment: files.number };
            SealedFile::open(backend, &dir.join(&name), name, identity, seal, damaged)
        };
        let vectors = open(SegmentFiles::vectors_name(files.number), Kind::Vectors, files.vectors);
        let vectors = vectors.and_then(|vectors| {
            let stride = u64::from(dim) * size_of::<f16>() as u64;
            check_counts(&vectors, [("bytes of rows", ROWS, 1, u64::from(files.rows) * stride)])?;
            check_codes(&vectors, files.rows, dim as usize)?;
            Ok(vectors)
        });
        let vectors = match vectors {
            Err(StoreError::Corrupt { .. }) if damaged => None,
            vectors => Some(vectors?),
        };
        let documents = open(SegmentFiles::documents_name(files.number), Kind::Documents, files.documents)?;
        let (rows, leaves) = (u64::from(files.rows), count(documents.section(LEAVES), 4));
        let has_passages = !documents.section(HEADS).is_empty();
        let passages = if has_passages { rows } else { 0 };
        // In documents with passages, only the first passages count.
        let documents_here = if has_passages { count(documents.section(ID_ORDER), 4) } else { rows };
        if documents_here > rows {
            let (what, expected, found) = ("the number of documents", rows, documents_here);
            return Err(documents.corrupt(Damage::Disagreement { what, expected, found }));
        }
        check_counts(
            &documents,
            [
                ("the number of ids", ID_ENDS, 8, rows),
                ("the length of the order of ids", ID_ORDER, 4, documents_here),
                ("the number of rows' documents", HEADS, 4, passages),
                ("the number of passages", SPANS, 8, passages),
                ("the number of next passages", NEXT, 4, passages),
                ("the number of payloads", PAYLOAD_ENDS, 8, rows),
                ("the number of metadata", METADATA_ENDS, 8, rows),
                ("the number of rows' generations", CREATED_AT, 8, rows),
                ("the number of leaves' ends", LEAF_ENDS, 4, leaves),
            ],
        )?;
        if !damaged {
            check_term_counts(&documents, files.rows)?;
        }
        Ok(Self { files, dim: dim as usize, vectors, documents })
    }

    /// The range of a section of `N.documents`.
    pub(super) fn at(&self, section: u32) -> &Range<u64> {
        self.documents.section(section)
    }

    pub(in crate::store) fn files(&self) -> SegmentFiles {
        self.files
    }

    /// Bytes of `N.vectors` and of `N.documents`.
    pub(in crate::store) fn bytes(&self) -> [u64; 2] {
        [self.vectors.as_ref().map_or(0, SealedFile::len), self.documents.len()]
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
        let row = self.numbers(self.at(ID_ORDER), place as usize..place as usize + 1)?[0];
        if row < self.rows() { Ok(row) } else { Err(self.undecodable("the order of ids", place.into())) }
    }

    /// Prefetches the ends of the parts of a row's document, for [`Self::prefetch_document`].
    pub(in crate::store) fn prefetch_ends(&self, row: u32) -> Result<()> {
        for ends in [self.at(ID_ENDS), self.at(PAYLOAD_ENDS), self.at(METADATA_ENDS)] {
            let end: &[u64] = self.documents.elements(ends, row as usize..row as usize + 1)?;
            prefetch(end.as_ptr());
        }
        Ok(())
    }

    /// Prefetches the beginnings of the parts of a row's document.
    pub(in crate::store) fn prefetch_document(&self, row: u32) -> Result<()> {
        let id = self.blob(ID_ENDS, IDS, row as usize)?;
        for bytes in [id, self.payload(row)?, self.metadata(row)?] {
            let lines = bytes.chunks(CACHE_LINE_BYTES).take(LINES_EXPECTED);
            lines.for_each(|line| prefetch(line.as_ptr()));
        }
        Ok(())
    }

    /// Number of results of [`Self::check_bytes`].
    pub(in crate::store) fn checks(&self) -> u64 {
        self.vectors.iter().chain([&self.documents]).map(SealedFile::checks).sum()
    }

    /// Reads every byte of both files, the ends and then page after page.
    pub(in crate::store) fn check_bytes(&self) -> impl Iterator<Item = Result<()>> + '_ {
        self.vectors.iter().flat_map(SealedFile::check_all).chain(self.documents.check_all())
    }

    fn leaf_count(&self) -> usize {
        count(self.at(LEAVES), 4) as usize
    }

    pub(super) fn numbers(&self, section: &Range<u64>, range: Range<usize>) -> Result<&[u32]> {
        self.documents.elements(section, range)
    }

    pub(super) fn elements<T: bytemuck::Pod>(
        &self,
        section: &Range<u64>,
        range: Range<usize>,
    ) -> Result<&[T]> {
        self.documents.elements(section, range)
    }

    pub(super) fn corrupt(&self, damage: Damage) -> StoreError {
        self.documents.corrupt(damage)
    }

    /// The range between two adjacent ends, starting at 0 for the first; never beyond `most`.
    fn span(&self, ends: &Range<u64>, place: usize, most: u64) -> Result<Range<u32>> {
        let start = match place {
            0 => 0,
            _ => self.numbers(ends, place - 1..place)?[0],
        };
        let end = self.numbers(ends, place..place + 1)?[0];
        let sound = start <= end && u64::from(end) <= most;
        if sound { Ok(start..end) } else { Err(self.undecodable("the end of entry", place as u64)) }
    }

    /// An entry of a section of bytes, by the section of the entries' ends.
    pub(super) fn blob(&self, ends: u32, bytes: u32, place: usize) -> Result<&[u8]> {
        let bytes = self.at(bytes);
        let (start, end) = match *self.elements::<u64>(self.at(ends), place.saturating_sub(1)..place + 1)? {
            [start, end] => (start, end),
            [end] => (0, end),
            _ => return Err(self.undecodable("the end of entry", place as u64)),
        };
        if start > end || end > bytes.end - bytes.start {
            return Err(self.undecodable("the end of entry", place as u64));
        }
        self.documents.bytes(bytes.start + start..bytes.start + end)
    }

    pub(in crate::store) fn undecodable(&self, what: &'static str, number: u64) -> StoreError {
        self.corrupt(Damage::Undecodable { what, number })
    }
}

impl RowSource for Segment {
    fn leaf_of(&self, row: u32) -> Result<LeafId> {
        let ends = self.numbers(self.at(LEAF_ENDS), 0..self.leaf_count())?;
        let place = ends.partition_point(|&end| end <= row);
        let leaf = self.all_leaves()?.get(place).copied();
        leaf.map(LeafId).ok_or_else(|| self.undecodable("the leaf of row", row.into()))
    }

    fn embedding(&self, row: u32) -> Result<&[f16]> {
        self.matrix(row..row + 1)
    }

    fn id(&self, row: u32) -> Result<&str> {
        let bytes = self.blob(ID_ENDS, IDS, row as usize)?;
        std::str::from_utf8(bytes).map_err(|_| self.undecodable("the id of row", row.into()))
    }

    fn passage(&self, row: u32) -> Result<Option<Passage>> {
        if self.at(HEADS).is_empty() {
            return Ok(None);
        }
        let at = row as usize;
        let head = self.numbers(self.at(HEADS), at..at + 1)?[0];
        let next = self.numbers(self.at(NEXT), at..at + 1)?[0];
        let span = self.numbers(self.at(SPANS), 2 * at..2 * at + 2)?;
        if head >= self.rows() || next >= self.rows() {
            return Err(self.undecodable("the document of row", row.into()));
        }
        Ok(Some(Passage { head, next, span: Span { start: span[0], end: span[1] } }))
    }

    fn payload(&self, row: u32) -> Result<&[u8]> {
        self.blob(PAYLOAD_ENDS, PAYLOADS, row as usize)
    }

    fn metadata(&self, row: u32) -> Result<&[u8]> {
        self.blob(METADATA_ENDS, METADATA, row as usize)
    }

    fn created_at(&self, row: u32) -> Result<Generation> {
        let created_at: &[u64] =
            self.documents.elements(self.at(CREATED_AT), row as usize..row as usize + 1)?;
        Ok(Generation(created_at[0]))
    }

    fn term_lists(&self, rows: &[u32], lexer: &dyn Lexer) -> Result<Vec<Box<dyn TermLists + '_>>> {
        if self.is_lexical() {
            match self.check_terms(false) {
                Ok(_) => return Ok(vec![Box::new(self)]),
                Err(error @ StoreError::Corrupt { .. }) => {
                    tracing::warn!(%error, "posting lists of terms are made again from the texts");
                }
                Err(error) => return Err(error),
            }
        }
        terms::made_from_texts(self, rows, lexer)
    }
}

impl Rows for Segment {
    fn rows(&self) -> u32 {
        self.files.rows
    }

    fn documents(&self) -> u32 {
        count(self.at(ID_ORDER), 4) as u32
    }

    fn name(&self) -> &str {
        self.documents.name()
    }

    fn head(&self, row: u32) -> Result<u32> {
        if self.at(HEADS).is_empty() {
            return Ok(row);
        }
        let head = self.numbers(self.at(HEADS), row as usize..row as usize + 1)?[0];
        if head < self.rows() { Ok(head) } else { Err(self.undecodable("the document of row", row.into())) }
    }

    fn matrix(&self, rows: Range<u32>) -> Result<&[f16]> {
        let elements = rows.start as usize * self.dim..rows.end as usize * self.dim;
        let missing = || {
            StoreError::corrupt(
                SegmentFiles::vectors_name(self.files.number),
                Damage::Missing { what: "the file" },
            )
        };
        let vectors = self.vectors.as_ref().ok_or_else(missing)?;
        vectors.elements(vectors.section(ROWS), elements)
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
        self.numbers(self.at(LEAVES), 0..self.leaf_count())
    }

    fn leaf(&self, leaf: LeafId) -> Result<Range<u32>> {
        match self.all_leaves()?.binary_search(&leaf.0) {
            Ok(place) => self.span(self.at(LEAF_ENDS), place, self.rows().into()),
            Err(_) => Ok(0..0),
        }
    }

    fn is_lexical(&self) -> bool {
        self.has_terms()
    }

    fn term_list(&self, term: u32, _: &dyn Lexer) -> Result<List<'_>> {
        match self.terms()?.binary_search(&term) {
            Ok(place) => Ok(List::Encoded(self.term_list_at(place)?)),
            Err(_) => Ok(List::Plain(&[])),
        }
    }

    fn term_counts(&self, _: &dyn Lexer, tell: &mut dyn FnMut(u32, u64)) -> Result<()> {
        let (terms, rows) = (self.terms()?, self.numbers(self.at(TERM_ROWS), 0..self.term_count())?);
        terms.iter().zip(rows).for_each(|(&term, &rows)| tell(term, rows.into()));
        Ok(())
    }

    fn lengths(&self, _: &dyn Lexer) -> Result<&[u32]> {
        self.stored_lengths()
    }

    fn total_length(&self, _: &dyn Lexer) -> Result<u64> {
        self.stored_total_length()
    }

    fn codes(&self, rows: Range<u32>) -> Result<Option<StoredCodes<'_>>> {
        let Some(vectors) = self.coded() else { return Ok(None) };
        let places = rows.start as usize..rows.end as usize;
        let bytes = codes::block_bytes(self.dim);
        let blocks = places.start / codes::BLOCK_ROWS * bytes..places.end.div_ceil(codes::BLOCK_ROWS) * bytes;
        Ok(Some(StoredCodes {
            blocks: vectors.elements(vectors.section(CODES), blocks)?,
            factors: vectors.elements(vectors.section(CODE_FACTORS), places.clone())?,
            shifts: vectors.elements(vectors.section(CODE_SHIFTS), places)?,
            means: self.means(vectors, rows)?,
        }))
    }

    fn supplement(&self, row: u32) -> Result<Option<&[u8]>> {
        let Some(vectors) = self.coded() else { return Ok(None) };
        let bytes = codes::supplement_bytes(self.dim);
        let row = row as usize;
        vectors.elements(vectors.section(SUPPLEMENTS), row * bytes..(row + 1) * bytes).map(Some)
    }
}
