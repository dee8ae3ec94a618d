//! Reading a segment.

use std::{borrow::Cow, ops::Range, path::Path};

use half::f16;

use super::{Passage, RowSource, Rows, codes::CodeSections, terms::TermSections};
use crate::{
    codes::StoredCodes,
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

/// Cache lines that are asked for of each part of a document: what a title and a sentence take, beyond which
/// processors foresee the rest.
const LINES_EXPECTED: usize = 4;

/// How the manifest names the files of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::store) struct SegmentFiles {
    pub(in crate::store) number: u64,
    pub(in crate::store) rows: u32,
    pub(in crate::store) vectors: Seal,
    pub(in crate::store) documents: Seal,
}

/// An open segment. Every byte it hands out was checked.
pub(in crate::store) struct Segment {
    files: SegmentFiles,
    pub(super) dim: usize,
    /// None only under repair.
    pub(super) vectors: Option<SealedFile>,
    documents: SealedFile,
    rows: Range<u64>,
    pub(super) codes: CodeSections,
    parts: Parts,
    pub(super) terms: TermSections,
}

/// Where the sections of `N.documents` are.
struct Parts {
    ids: Range<u64>,
    id_ends: Range<u64>,
    id_order: Range<u64>,
    payloads: Range<u64>,
    payload_ends: Range<u64>,
    metadata: Range<u64>,
    metadata_ends: Range<u64>,
    created_at: Range<u64>,
    leaves: Range<u64>,
    leaf_ends: Range<u64>,
    secondary: Range<u64>,
    secondary_ends: Range<u64>,
    row_leaves: Range<u64>,
    row_leaf_ends: Range<u64>,
    /// All three empty where documents have no passages.
    heads: Range<u64>,
    spans: Range<u64>,
    next: Range<u64>,
}

impl SegmentFiles {
    /// Name of `N.vectors` inside the index.
    pub(in crate::store) fn vectors_name(number: u64) -> String {
        format!("{}/{number:08}.vectors", names::SEGMENTS)
    }

    /// Name of `N.documents` inside the index.
    pub(in crate::store) fn documents_name(number: u64) -> String {
        format!("{}/{number:08}.documents", names::SEGMENTS)
    }
}

/// Elements of so many bytes in a section.
pub(super) fn count(section: &Range<u64>, width: u64) -> u64 {
    (section.end - section.start) / width
}

/// Compares the numbers of elements of sections with what they must be: what it is, the section, the width of
/// an element, and their number.
pub(super) fn check_counts<const N: usize>(
    file: &SealedFile,
    counts: [(&'static str, &Range<u64>, u64, u64); N],
) -> Result<()> {
    for (what, section, width, expected) in counts {
        let found = count(section, width);
        if found != expected {
            return Err(file.corrupt(Damage::Disagreement { what, expected, found }));
        }
    }
    Ok(())
}

impl Segment {
    /// Opens a segment and checks what its size does not matter for.
    pub(in crate::store) fn open(
        backend: &dyn Backend,
        dir: &Path,
        store_id: StoreId,
        dim: u32,
        files: SegmentFiles,
    ) -> Result<Self> {
        Self::open_as(backend, dir, store_id, dim, files, false)
    }

    /// As [`Self::open`]; with `damaged`, a file of embeddings that cannot be used is as if every page of it
    /// were damaged.
    pub(in crate::store) fn open_as(
        backend: &dyn Backend,
        dir: &Path,
        store_id: StoreId,
        dim: u32,
        files: SegmentFiles,
        damaged: bool,
    ) -> Result<Self> {
        let open = |name: String, kind, seal| {
            let identity = Identity { kind, store_id, segment: files.number };
            let open = if damaged { SealedFile::open_damaged } else { SealedFile::open };
            open(backend, &dir.join(&name), name, identity, seal)
        };
        let vectors = open(SegmentFiles::vectors_name(files.number), Kind::Vectors, files.vectors);
        let vectors = vectors.and_then(|vectors| {
            let rows = vectors.section(ROWS);
            let stride = u64::from(dim) * size_of::<f16>() as u64;
            let (expected, found) = (u64::from(files.rows) * stride, rows.end - rows.start);
            if expected != found {
                return Err(vectors.corrupt(Damage::Disagreement { what: "bytes of rows", expected, found }));
            }
            let codes = CodeSections::of(&vectors, files.rows, dim as usize)?;
            Ok((vectors, codes))
        });
        let vectors = match vectors {
            Err(StoreError::Corrupt { .. }) if damaged => None,
            vectors => Some(vectors?),
        };
        let (vectors, codes) =
            vectors.map_or((None, CodeSections::NONE), |(file, codes)| (Some(file), codes));
        let rows = vectors.as_ref().map_or(0..0, |vectors| vectors.section(ROWS));
        let documents = open(SegmentFiles::documents_name(files.number), Kind::Documents, files.documents)?;
        let at = |name| documents.section(name);
        let parts = Parts {
            ids: at(IDS),
            id_ends: at(ID_ENDS),
            id_order: at(ID_ORDER),
            payloads: at(PAYLOADS),
            payload_ends: at(PAYLOAD_ENDS),
            metadata: at(METADATA),
            metadata_ends: at(METADATA_ENDS),
            created_at: at(CREATED_AT),
            leaves: at(LEAVES),
            leaf_ends: at(LEAF_ENDS),
            secondary: at(FURTHER),
            secondary_ends: at(FURTHER_ENDS),
            row_leaves: at(ROW_LEAVES),
            row_leaf_ends: at(ROW_LEAF_ENDS),
            heads: at(HEADS),
            spans: at(SPANS),
            next: at(NEXT),
        };
        let leaves = count(&parts.leaves, 4);
        let has_passages = !parts.heads.is_empty();
        let passages = if has_passages { u64::from(files.rows) } else { 0 };
        // Of documents with passages only the first of these.
        let documents_here = if has_passages { count(&parts.id_order, 4) } else { files.rows.into() };
        if documents_here > files.rows.into() {
            let (what, expected, found) = ("the number of documents", files.rows.into(), documents_here);
            return Err(documents.corrupt(Damage::Disagreement { what, expected, found }));
        }
        check_counts(
            &documents,
            [
                ("the number of ids", &parts.id_ends, 8, files.rows.into()),
                ("the length of the order of ids", &parts.id_order, 4, documents_here),
                ("the number of rows' documents", &parts.heads, 4, passages),
                ("the number of passages", &parts.spans, 8, passages),
                ("the number of next passages", &parts.next, 4, passages),
                ("the number of payloads", &parts.payload_ends, 8, files.rows.into()),
                ("the number of metadata", &parts.metadata_ends, 8, files.rows.into()),
                ("the number of rows' generations", &parts.created_at, 8, files.rows.into()),
                ("the number of leaves' ends", &parts.leaf_ends, 4, leaves),
                ("the number of further leaves' ends", &parts.secondary_ends, 4, leaves),
            ],
        )?;
        let row_leaf_ends = count(&parts.row_leaf_ends, 4);
        if row_leaf_ends != 0 && row_leaf_ends != u64::from(files.rows) {
            let (expected, found) = (files.rows.into(), row_leaf_ends);
            let what = "the number of rows' leaves";
            return Err(documents.corrupt(Damage::Disagreement { what, expected, found }));
        }
        let terms = match TermSections::of(&documents, files.rows) {
            // They are made again from the texts.
            Err(StoreError::Corrupt { .. }) if damaged => TermSections::NONE,
            terms => terms?,
        };
        Ok(Self { files, dim: dim as usize, vectors, documents, rows, codes, parts, terms })
    }

    pub(in crate::store) fn files(&self) -> SegmentFiles {
        self.files
    }

    /// Bytes of `N.vectors` and of `N.documents`.
    pub(in crate::store) fn bytes(&self) -> [u64; 2] {
        [self.vectors.as_ref().map_or(0, SealedFile::len), self.documents.len()]
    }

    /// As [`Rows::leaf`], by the leaf's place in [`Rows::all_leaves`].
    fn leaf_at(&self, place: usize) -> Result<(Range<u32>, &[u32])> {
        let own = self.span(&self.parts.leaf_ends, place, self.rows().into())?;
        let all = (self.parts.secondary.end - self.parts.secondary.start) / 4;
        let secondary = self.span(&self.parts.secondary_ends, place, all)?;
        let secondary =
            self.numbers(&self.parts.secondary, secondary.start as usize..secondary.end as usize)?;
        if secondary.iter().any(|row| *row >= self.rows()) {
            return Err(self.undecodable("the posting list of leaf", place as u64));
        }
        Ok((own, secondary))
    }

    /// How many ids come before this one: where it is, or would be, in the order of ids.
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

    /// The row at a place in the byte order of ids.
    pub(in crate::store) fn by_id(&self, place: u32) -> Result<u32> {
        let row = self.numbers(&self.parts.id_order, place as usize..place as usize + 1)?[0];
        if row < self.rows() { Ok(row) } else { Err(self.undecodable("the order of ids", place.into())) }
    }

    /// Asks for where the parts of a row's document end, which [`Self::prefetch_document`] reads.
    pub(in crate::store) fn prefetch_ends(&self, row: u32) -> Result<()> {
        for ends in [&self.parts.id_ends, &self.parts.payload_ends, &self.parts.metadata_ends] {
            let end: &[u64] = self.documents.elements(ends, row as usize..row as usize + 1)?;
            prefetch(end.as_ptr());
        }
        Ok(())
    }

    /// Asks for the beginnings of the parts of a row's document.
    pub(in crate::store) fn prefetch_document(&self, row: u32) -> Result<()> {
        let id = self.blob(&self.parts.id_ends, &self.parts.ids, row)?;
        for bytes in [id, self.payload(row)?, self.metadata(row)?] {
            let lines = bytes.chunks(CACHE_LINE_BYTES).take(LINES_EXPECTED);
            lines.for_each(|line| prefetch(line.as_ptr()));
        }
        Ok(())
    }

    /// Results of [`Self::check_bytes`].
    pub(in crate::store) fn checks(&self) -> u64 {
        self.vectors.iter().chain([&self.documents]).map(SealedFile::checks).sum()
    }

    /// Reads every byte of both files, the ends and then page after page.
    pub(in crate::store) fn check_bytes(&self) -> impl Iterator<Item = Result<()>> + '_ {
        self.vectors.iter().flat_map(SealedFile::check_all).chain(self.documents.check_all())
    }

    fn leaf_numbers(&self) -> Result<&[u32]> {
        self.numbers(&self.parts.leaves, 0..self.leaf_count())
    }

    fn leaf_count(&self) -> usize {
        ((self.parts.leaves.end - self.parts.leaves.start) / 4) as usize
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

    pub(super) fn bytes_of(&self, range: Range<u64>) -> Result<&[u8]> {
        self.documents.bytes(range)
    }

    pub(super) fn corrupt(&self, damage: Damage) -> StoreError {
        self.documents.corrupt(damage)
    }

    /// What lies between two neighbouring ends, the first of which is 0 before the first; never
    /// beyond `most`.
    fn span(&self, ends: &Range<u64>, place: usize, most: u64) -> Result<Range<u32>> {
        let start = match place {
            0 => 0,
            _ => self.numbers(ends, place - 1..place)?[0],
        };
        let end = self.numbers(ends, place..place + 1)?[0];
        let sound = start <= end && u64::from(end) <= most;
        if sound { Ok(start..end) } else { Err(self.undecodable("the end of entry", place as u64)) }
    }

    /// The bytes of one row in a section of bytes.
    fn blob(&self, ends: &Range<u64>, bytes: &Range<u64>, row: u32) -> Result<&[u8]> {
        let row = row as usize;
        let ends: &[u64] = match row {
            0 => self.documents.elements(ends, 0..1)?,
            _ => self.documents.elements(ends, row - 1..row + 1)?,
        };
        let (start, end) = if row == 0 { (0, ends[0]) } else { (ends[0], ends[1]) };
        if start > end || end > bytes.end - bytes.start {
            return Err(self.undecodable("the end of entry", row as u64));
        }
        self.documents.bytes(bytes.start + start..bytes.start + end)
    }

    pub(in crate::store) fn undecodable(&self, what: &'static str, number: u64) -> StoreError {
        self.corrupt(Damage::Undecodable { what, number })
    }
}

impl RowSource for Segment {
    fn leaves(&self, row: u32) -> Result<Vec<LeafId>> {
        if self.parts.row_leaf_ends.is_empty() {
            // One leaf for each document: the one whose rows these are.
            let ends = self.numbers(&self.parts.leaf_ends, 0..self.leaf_count())?;
            let place = ends.partition_point(|&end| end <= row);
            let leaf = self.leaf_numbers()?.get(place).copied();
            return Ok(vec![LeafId(leaf.ok_or_else(|| self.undecodable("the leaf of row", row.into()))?)]);
        }
        let all = (self.parts.row_leaves.end - self.parts.row_leaves.start) / 4;
        let span = self.span(&self.parts.row_leaf_ends, row as usize, all)?;
        let leaves = self.numbers(&self.parts.row_leaves, span.start as usize..span.end as usize)?;
        Ok(leaves.iter().map(|&leaf| LeafId(leaf)).collect())
    }

    fn embedding(&self, row: u32) -> Result<&[f16]> {
        self.matrix(row..row + 1)
    }

    fn id(&self, row: u32) -> Result<&str> {
        let bytes = self.blob(&self.parts.id_ends, &self.parts.ids, row)?;
        std::str::from_utf8(bytes).map_err(|_| self.undecodable("the id of row", row.into()))
    }

    fn passage(&self, row: u32) -> Result<Option<Passage>> {
        if self.parts.heads.is_empty() {
            return Ok(None);
        }
        let at = row as usize;
        let head = self.numbers(&self.parts.heads, at..at + 1)?[0];
        let next = self.numbers(&self.parts.next, at..at + 1)?[0];
        let span = self.numbers(&self.parts.spans, 2 * at..2 * at + 2)?;
        if head >= self.rows() || next >= self.rows() {
            return Err(self.undecodable("the document of row", row.into()));
        }
        Ok(Some(Passage { head, next, span: Span { start: span[0], end: span[1] } }))
    }

    fn payload(&self, row: u32) -> Result<&[u8]> {
        self.blob(&self.parts.payload_ends, &self.parts.payloads, row)
    }

    fn metadata(&self, row: u32) -> Result<&[u8]> {
        self.blob(&self.parts.metadata_ends, &self.parts.metadata, row)
    }

    fn created_at(&self, row: u32) -> Result<Generation> {
        let created_at: &[u64] =
            self.documents.elements(&self.parts.created_at, row as usize..row as usize + 1)?;
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
        count(&self.parts.id_order, 4) as u32
    }

    fn name(&self) -> &str {
        self.documents.name()
    }

    fn head(&self, row: u32) -> Result<u32> {
        if self.parts.heads.is_empty() {
            return Ok(row);
        }
        let head = self.numbers(&self.parts.heads, row as usize..row as usize + 1)?[0];
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
        self.vectors.as_ref().ok_or_else(missing)?.elements(&self.rows, elements)
    }

    fn find(&self, id: &str) -> Result<Option<u32>> {
        let place = self.first_from(id)?;
        if place == self.documents() {
            return Ok(None);
        }
        let row = self.by_id(place)?;
        Ok((self.id(row)? == id).then_some(row))
    }

    fn all_leaves(&self) -> Result<Cow<'_, [u32]>> {
        Ok(Cow::Borrowed(self.leaf_numbers()?))
    }

    fn leaf(&self, leaf: LeafId) -> Result<(Range<u32>, &[u32])> {
        match self.leaf_numbers()?.binary_search(&leaf.0) {
            Ok(place) => self.leaf_at(place),
            Err(_) => Ok((0..0, &[])),
        }
    }

    fn is_lexical(&self) -> bool {
        self.has_terms()
    }

    fn term_list(&self, term: u32, _: &dyn Lexer) -> Result<List<'_>> {
        self.stored_term_list(term)
    }

    fn term_counts(&self, _: &dyn Lexer, tell: &mut dyn FnMut(u32, u64)) -> Result<()> {
        self.tell_term_counts(tell)
    }

    fn lengths(&self, _: &dyn Lexer) -> Result<&[u32]> {
        self.stored_lengths()
    }

    fn total_length(&self, _: &dyn Lexer) -> Result<u64> {
        self.stored_total_length()
    }

    fn codes(&self, rows: Range<u32>) -> Result<Option<StoredCodes<'_>>> {
        self.stored_codes(rows)
    }

    fn supplement(&self, row: u32) -> Result<Option<&[u8]>> {
        self.stored_supplement(row)
    }
}
