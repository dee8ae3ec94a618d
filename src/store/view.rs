//! Reading one generation.

use std::{
    collections::BTreeMap,
    sync::{Arc, Weak},
};

use half::f16;

use super::{
    error::{Result, StoreError},
    part::VersionPart,
    terms::{Lexer, SharedLexer},
    version::Version,
};
use crate::{
    codes::StoredCodes,
    document::Document,
    filter::{Answer, Filter, Tally, bits},
    ids::{Generation, LeafId, Row},
    lexical::List,
    outline::Outline,
    passages::Span,
};

/// One generation of the store, unchanged for the lifetime of the view.
///
/// Cheap to create and to keep: writers continue in the meantime, and space that they free is kept for the
/// view.
#[derive(Clone)]
pub struct View {
    pub(super) state: Arc<Version>,
    /// How texts are split into terms; `None` if rows have no posting lists of terms.
    pub(super) lexer: Option<SharedLexer>,
}

/// Which view something was found in, without keeping the view.
#[derive(Clone, Default)]
pub struct ViewMark(Weak<Version>);

impl View {
    /// What tells this view from every other state of the store.
    pub fn mark(&self) -> ViewMark {
        ViewMark(Arc::downgrade(&self.state))
    }

    /// Whether a mark is that of a view with the same rows.
    pub fn has_mark(&self, ViewMark(state): &ViewMark) -> bool {
        // A mark keeps the place in memory from being used again.
        std::ptr::eq(state.as_ptr(), Arc::as_ptr(&self.state))
    }

    /// The generation that this view shows.
    pub fn generation(&self) -> Generation {
        self.state.generation
    }

    /// Number of live documents.
    pub fn live(&self) -> usize {
        self.state.live as usize
    }

    /// Number of rows of live documents: one each, or one for each passage.
    pub fn live_rows(&self) -> usize {
        self.state.live_rows as usize
    }

    /// Whether a document may have several rows.
    pub fn has_several(&self) -> bool {
        self.state.parts.iter().any(VersionPart::has_several)
    }

    /// The representative row of a row's document, also for a dead document.
    ///
    /// # Errors
    ///
    /// [`StoreError::NoSuchRow`] beyond the rows, and damage.
    pub fn head(&self, row: Row) -> Result<Row> {
        let (part, local) = self.part(row)?;
        Ok(Row(part.base + part.head(local)?))
    }

    /// All rows of the document of a row, in the order of its text.
    ///
    /// # Errors
    ///
    /// As [`Self::head`].
    pub fn rows_of(&self, row: Row) -> Result<Vec<Row>> {
        let (part, local) = self.part(row)?;
        let rows = part.rows_of(part.head(local)?)?;
        Ok(rows.into_iter().map(|row| Row(part.base + row)).collect())
    }

    /// The part of its document's text that a row covers, in bytes; `None` if documents have no passages.
    ///
    /// # Errors
    ///
    /// As [`Self::head`].
    pub fn span(&self, row: Row) -> Result<Option<Span>> {
        let (part, local) = self.part(row)?;
        Ok(part.passage(local)?.map(|passage| passage.span))
    }

    /// A live row's document, with only the part of its text that the row covers, and the headings above it
    /// in the title.
    ///
    /// # Errors
    ///
    /// As [`Self::document`].
    pub fn passage(&self, row: Row) -> Result<Document> {
        let mut document = self.document(row)?;
        if let Some(span) = self.span(row)? {
            document.title = document.outline.title(&document.title, &document.text, span.start);
            document.text = span.part(&document.text).unwrap_or_default().to_owned();
            document.outline = Outline::default();
        }
        Ok(document)
    }

    /// Number of rows, including those of deleted and replaced documents.
    pub fn rows(&self) -> usize {
        self.state.rows as usize
    }

    /// Whether a row belongs to a live document. Read from memory.
    pub fn is_live(&self, row: Row) -> bool {
        self.state.locate(row).is_some_and(|(part, local)| part.is_live(local))
    }

    /// The embedding of a row, `[dim]` f16, also of a dead document.
    ///
    /// # Errors
    ///
    /// [`StoreError::NoSuchRow`] beyond the rows, and damage of its page.
    pub fn embedding(&self, row: Row) -> Result<&[f16]> {
        let (part, local) = self.part(row)?;
        part.matrix(local..local + 1)
    }

    /// The supplement of a row's code, `[supplement_bytes]`; see [`codes`](crate::codes). `None` if it has
    /// none.
    ///
    /// # Errors
    ///
    /// As [`Self::embedding`].
    pub fn supplement(&self, row: Row) -> Result<Option<&[u8]>> {
        let (part, local) = self.part(row)?;
        part.supplement(local)
    }

    /// The live rows of a leaf with their embeddings, `[dim]` f16 each; in their order on disk.
    ///
    /// # Errors
    ///
    /// Damage of the posting list or of the rows' pages.
    #[cfg(any(test, feature = "fuzzing"))]
    pub fn leaf(&self, leaf: LeafId) -> Result<Vec<(Row, &[f16])>> {
        let (mut runs, mut rows) = (Vec::new(), Vec::new());
        self.leaf_runs(leaf, &mut runs)?;
        runs.iter().try_for_each(|run| run.push_to(&mut rows))?;
        Ok(rows)
    }

    /// Adds the rows of a leaf in their order on disk.
    ///
    /// # Errors
    ///
    /// Damage of the posting list.
    pub fn leaf_runs<'a>(&'a self, leaf: LeafId, runs: &mut Vec<Run<'a>>) -> Result<()> {
        for part in &self.state.parts {
            let rows = part.leaf(leaf)?;
            runs.extend((!rows.is_empty()).then_some(Run { part, rows, leaf }));
        }
        Ok(())
    }

    /// Whether all rows have posting lists of terms.
    pub fn is_lexical(&self) -> bool {
        self.lexer.is_some() && self.state.parts.iter().all(|part| part.is_lexical())
    }

    /// The parts with their posting lists of terms.
    ///
    /// # Errors
    ///
    /// [`StoreError::NotLexical`] if some rows have none; failures of splitting texts that are only in
    /// memory.
    pub fn term_parts(&self) -> Result<Vec<TermPart<'_>>> {
        let lexer = self.lexer.as_deref().ok_or(StoreError::NotLexical)?;
        let part = |part| TermPart::new(part, lexer);
        self.state.parts.iter().filter(|part| part.rows() > 0).map(part).collect()
    }

    /// The live rows of a leaf, ascending.
    ///
    /// # Errors
    ///
    /// Damage of the posting list.
    pub fn postings(&self, leaf: LeafId) -> Result<Vec<Row>> {
        let mut rows = Vec::new();
        for part in &self.state.parts {
            let live = part.leaf(leaf)?.filter(|row| part.is_live(*row));
            rows.extend(live.map(|row| Row(part.base + row)));
        }
        rows.sort_unstable();
        Ok(rows)
    }

    /// Number of live rows of each leaf that has any, ascending by leaf. Reads only posting lists.
    ///
    /// # Errors
    ///
    /// Damage of a posting list.
    pub fn leaf_sizes(&self) -> Result<BTreeMap<LeafId, usize>> {
        let mut sizes = BTreeMap::new();
        self.state.parts.iter().try_for_each(|part| part.add_leaf_sizes(&mut sizes))?;
        Ok(sizes)
    }

    /// The live rows inserted last, newest first; at most `count`.
    ///
    /// # Errors
    ///
    /// Damage of the pages that hold their generations.
    pub fn newest(&self, count: usize) -> Result<Vec<Row>> {
        let mut newest = Vec::new();
        for part in &self.state.parts {
            for row in part.live_rows() {
                newest.push((part.created_at(row)?, Row(part.base + row)));
            }
            if newest.len() > count {
                newest.select_nth_unstable_by(count, |a, b| b.cmp(a));
                newest.truncate(count);
            }
        }
        newest.sort_unstable_by(|a, b| b.cmp(a));
        Ok(newest.into_iter().map(|(_, row)| row).collect())
    }

    /// The id of a row's live document.
    ///
    /// # Errors
    ///
    /// [`StoreError::NoSuchRow`] if the row has no live document, and damage.
    pub fn id(&self, row: Row) -> Result<String> {
        let (part, head) = self.live_head(row)?;
        Ok(part.id(head)?.to_owned())
    }

    /// The live document of a row.
    ///
    /// # Errors
    ///
    /// As [`Self::id`].
    pub fn document(&self, row: Row) -> Result<Document> {
        let (part, head) = self.live_head(row)?;
        part.document(head)
    }

    /// The live documents of rows, in their order, or with `ids_only` only their ids. Memory is waited for
    /// once for all of them.
    ///
    /// # Errors
    ///
    /// As [`Self::id`].
    pub fn documents(
        &self,
        rows: impl Iterator<Item = Row>,
        ids_only: bool,
    ) -> Result<impl Iterator<Item = Result<Document>>> {
        let heads = rows.map(|row| self.live_head(row)).collect::<Result<Vec<_>>>()?;
        if !ids_only {
            heads.iter().try_for_each(|(part, head)| part.prefetch(*head))?;
        }
        let stored = heads.iter().map(|(part, head)| part.stored(*head, ids_only));
        let stored = stored.collect::<Result<Vec<_>>>()?;
        Ok(heads.into_iter().zip(stored).map(|((part, head), stored)| part.decoded(head, stored)))
    }

    /// The leaf of a row.
    ///
    /// # Errors
    ///
    /// As [`Self::id`].
    pub fn leaf_of(&self, row: Row) -> Result<LeafId> {
        let (part, local) = self.live_part(row)?;
        part.leaf_of(local)
    }

    /// The representative row of a document; `None` if no live document has the id.
    pub fn row_of(&self, id: &str) -> Result<Option<Row>> {
        let found = self.state.find(id)?;
        Ok(found.map(|(place, local)| Row(self.state.parts[place].base + local)))
    }

    /// The representative rows of the documents of rows, ascending.
    ///
    /// # Errors
    ///
    /// As [`Self::head`].
    pub fn heads(&self, rows: impl Iterator<Item = Row>) -> Result<Vec<Row>> {
        let mut heads = rows.map(|row| self.head(row)).collect::<Result<Vec<_>>>()?;
        heads.sort_unstable();
        Ok(heads)
    }

    /// Whether a live document has the id.
    pub fn contains(&self, id: &str) -> Result<bool> {
        Ok(self.state.find(id)?.is_some())
    }

    /// Up to `limit` documents in the byte order of their ids, starting after `after`. Pass the last id of a
    /// page as the next `after`, in the same view or a later one.
    pub fn documents_from(&self, after: Option<&str>, limit: usize) -> Result<Vec<Document>> {
        let mut walk = self.walk(after)?;
        let mut documents = Vec::new();
        while documents.len() < limit
            && let Some((_, row)) = walk.next()?
        {
            documents.push(self.document(row)?);
        }
        Ok(documents)
    }

    /// All live documents in the byte order of their ids, starting after `after`.
    pub fn walk(&self, after: Option<&str>) -> Result<Walk<'_>> {
        Walk::new(&self.state.parts, after)
    }

    /// Title and text, and metadata, of a live document in their stored form.
    ///
    /// # Errors
    ///
    /// As [`Self::document`].
    pub fn stored(&self, row: Row) -> Result<[&[u8]; 2]> {
        let (part, head) = self.live_head(row)?;
        Ok([part.payload(head)?, part.metadata(head)?])
    }

    /// CRC-32 of the stored title and text of a live document.
    ///
    /// # Errors
    ///
    /// As [`Self::document`].
    pub fn text_checksum(&self, row: Row) -> Result<u32> {
        Ok(crc32fast::hash(self.stored(row)?[0]))
    }

    /// Id and stored metadata of a row's document, also of a dead one.
    ///
    /// # Errors
    ///
    /// As [`Self::embedding`].
    pub fn tags(&self, row: Row) -> Result<(&str, &[u8])> {
        let (part, local) = self.part(row)?;
        let head = part.head(local)?;
        Ok((part.id(head)?, part.metadata(head)?))
    }

    /// All rows in order: one run for each segment, and one for those in memory.
    pub fn parts(&self) -> Vec<Run<'_>> {
        let run = |part| Run { part, rows: 0..part.rows(), leaf: LeafId(0) };
        self.state.parts.iter().map(run).collect()
    }

    /// One row, also of a dead document.
    ///
    /// # Errors
    ///
    /// [`StoreError::NoSuchRow`] beyond the rows.
    pub fn run_of(&self, row: Row) -> Result<Run<'_>> {
        let (part, local) = self.part(row)?;
        Ok(Run { part, rows: local..local + 1, leaf: LeafId(0) })
    }

    /// The generation in which a live document was inserted.
    ///
    /// # Errors
    ///
    /// As [`Self::document`].
    pub fn created_at(&self, row: Row) -> Result<Generation> {
        let (part, local) = self.live_part(row)?;
        part.created_at(local)
    }

    /// The part of a live row, and its document's representative row there.
    fn live_head(&self, row: Row) -> Result<(&VersionPart, u32)> {
        let (part, local) = self.live_part(row)?;
        Ok((part, part.head(local)?))
    }

    fn live_part(&self, row: Row) -> Result<(&VersionPart, u32)> {
        let found = self.state.locate(row).filter(|(part, local)| part.is_live(*local));
        found.ok_or_else(|| StoreError::NoSuchRow { row })
    }

    /// The part of a row, also of a dead one, and the row in it.
    fn part(&self, row: Row) -> Result<(&VersionPart, u32)> {
        self.state.locate(row).ok_or_else(|| StoreError::NoSuchRow { row })
    }
}

/// Consecutive rows of a view.
#[derive(Clone)]
pub struct Run<'a> {
    part: &'a VersionPart,
    rows: std::ops::Range<u32>,
    /// The leaf of the first row, or a guess.
    leaf: LeafId,
}

impl<'a> Run<'a> {
    /// Whether a document may have several rows here.
    pub fn has_several(&self) -> bool {
        self.part.has_several()
    }

    /// The representative row of a row's document, both counted from the first of these rows, which must be
    /// all rows of a part.
    ///
    /// # Errors
    ///
    /// Damage of that mapping.
    pub fn head(&self, at: usize) -> Result<usize> {
        Ok(self.part.head(at as u32)? as usize)
    }

    /// The number of the segment with these rows; it never changes, and is never reused in the store. `None`
    /// for rows in memory.
    pub fn segment(&self) -> Option<u64> {
        self.part.segment().map(|segment| segment.files().number)
    }

    /// Which of the rows, which must be all rows of a part, pass a filter, as far as lists of the values of
    /// metadata say; `None` for rows without lists. Lists that are damaged say nothing, with a warning.
    pub(crate) fn answer(&self, filter: &Filter) -> Option<Answer> {
        let segment = self.part.segment()?;
        // Dead ones, too: what is said of a segment holds for every view of it.
        let rows_of_id = |id: &str| match (**self.part).find(id).ok()? {
            Some(head) => self.part.rows_of(head).ok(),
            None => Some(Vec::new()),
        };
        segment.answer(filter, &rows_of_id).unwrap_or_else(|error| {
            tracing::warn!(%error, "a filter is evaluated on the metadata of each document");
            None
        })
    }

    /// The values of a field of metadata and how many of these rows have each; the rows are given one bit
    /// per row, of all rows of a part. `None` if lists of values do not say it. Lists that are damaged say
    /// nothing, with a warning.
    pub(crate) fn tally(&self, field: &str, among: &[u64]) -> Option<Tally<'a>> {
        self.part.segment()?.tally(field, among).unwrap_or_else(|error| {
            tracing::warn!(%error, "values are counted on the metadata of each document");
            None
        })
    }

    /// The live rows that represent their documents, one bit per row, of all rows of a part.
    ///
    /// # Errors
    ///
    /// Damage of the mapping of rows to documents.
    pub(crate) fn live_heads(&self) -> Result<Vec<u64>> {
        self.part.live_heads()
    }

    /// Id and stored metadata of a row that represents its document, counted from the first of these rows,
    /// which must be all rows of a part.
    ///
    /// # Errors
    ///
    /// Damage of the pages that they are on.
    pub(crate) fn tags(&self, at: usize) -> Result<(&'a str, &'a [u8])> {
        Ok((self.part.id(at as u32)?, self.part.metadata(at as u32)?))
    }

    /// A range of the rows, counted from the first of these.
    pub fn slice(&self, rows: std::ops::Range<usize>) -> Self {
        let first = self.rows.start;
        Self { rows: first + rows.start as u32..first + rows.end as u32, ..*self }
    }

    /// Whether a row is live, counted from the first of these.
    pub fn is_live(&self, at: usize) -> bool {
        self.part.is_live(self.rows.start + at as u32)
    }

    /// Number of rows, including dead ones.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Number of live rows.
    pub fn live(&self) -> usize {
        self.part.live_in(self.rows.clone())
    }

    /// Number of live rows among these, one bit per row.
    pub(crate) fn live_among(&self, rows: &[u64]) -> usize {
        match self.live() == self.len() {
            true => bits::count(rows),
            false if self.rows.start == 0 => {
                bits::count(rows) - bits::shared(rows, self.part.tombstones.words())
            }
            false => bits::rows(rows).filter(|&at| self.is_live(at as usize)).count(),
        }
    }

    /// Passes on the codes of the rows, leaf after leaf; returns whether they have any.
    ///
    /// # Errors
    ///
    /// Damage of the codes' pages.
    pub fn put_codes(&self, put: &mut dyn FnMut(StoredCodes<'a>)) -> Result<bool> {
        self.part.put_codes(self.rows.clone(), self.leaf, put)
    }

    /// The first row; the others follow it.
    pub fn first_row(&self) -> Row {
        Row(self.part.base + self.rows.start)
    }

    /// All rows with their embeddings, `[dim]` f16 each.
    ///
    /// # Errors
    ///
    /// Damage of the rows' pages.
    pub fn embeddings(&self) -> Result<impl Iterator<Item = (Row, &'a [f16])> + use<'a>> {
        let Self { part, rows, .. } = self;
        let matrix = if rows.is_empty() { &[] } else { part.matrix(rows.clone())? };
        let embeddings = matrix.chunks_exact((matrix.len() / rows.len().max(1)).max(1));
        Ok((self.first_row().0..).map(Row).zip(embeddings))
    }

    /// Adds the live rows with their embeddings, `[dim]` f16 each.
    ///
    /// # Errors
    ///
    /// Damage of the rows' pages.
    pub fn push_to(&self, out: &mut Vec<(Row, &'a [f16])>) -> Result<()> {
        if self.live() == self.len() {
            out.extend(self.embeddings()?);
            return Ok(());
        }
        let live = self.embeddings()?.zip(self.rows.clone()).filter(|(_, row)| self.part.is_live(*row));
        out.extend(live.map(|(own, _)| own));
        Ok(())
    }
}

/// The rows of a part with their posting lists of terms.
pub struct TermPart<'a> {
    part: &'a VersionPart,
    lexer: &'a dyn Lexer,
    /// Occurrences of all terms in each row, including dead ones, and in all of them.
    pub lengths: &'a [u32],
    pub total_length: u64,
}

impl<'a> TermPart<'a> {
    fn new(part: &'a VersionPart, lexer: &'a dyn Lexer) -> Result<Self> {
        if !part.is_lexical() {
            return Err(StoreError::NotLexical);
        }
        Ok(Self { part, lexer, lengths: part.lengths(lexer)?, total_length: part.total_length(lexer)? })
    }

    /// Number of documents, including dead ones: the rows that may contain terms.
    pub fn documents(&self) -> u32 {
        self.part.documents()
    }

    /// Adds the number of documents, including dead ones, that contain each term.
    ///
    /// # Errors
    ///
    /// Damage of the lists' pages.
    pub fn add_counts(&self, out: &mut BTreeMap<u32, u64>) -> Result<()> {
        self.part.term_counts(self.lexer, &mut |term, rows| *out.entry(term).or_insert(0) += rows)
    }

    /// Number of its first row among the rows of the view.
    pub fn base(&self) -> u32 {
        self.part.base
    }

    /// Whether a row of the part belongs to a live document.
    pub fn is_live(&self, row: u32) -> bool {
        self.part.is_live(row)
    }

    /// The rows of the part that contain a term, including dead ones.
    ///
    /// # Errors
    ///
    /// Damage of the lists' pages.
    pub fn list(&self, term: u32) -> Result<List<'a>> {
        self.part.term_list(term, self.lexer)
    }
}

/// The ids of live documents with their rows.
type IdsWithRows<'a> = Box<dyn Iterator<Item = Result<(String, Row)>> + 'a>;

/// A walk over the live documents of a view in the byte order of their ids.
pub struct Walk<'a> {
    /// The next document of each part.
    heads: Vec<Option<(String, Row)>>,
    others: Vec<IdsWithRows<'a>>,
}

impl<'a> Walk<'a> {
    /// Starts after the id `after`.
    fn new(parts: &'a [VersionPart], after: Option<&str>) -> Result<Self> {
        let mut walk = Self { heads: Vec::new(), others: Vec::new() };
        for part in parts {
            let rows = part.in_id_order(after)?.filter(|row| !matches!(row, Ok(row) if !part.is_live(*row)));
            let mut others = rows.map(|row| {
                let row = row?;
                Ok((part.id(row)?.to_owned(), Row(part.base + row)))
            });
            walk.heads.push(others.next().transpose()?);
            walk.others.push(Box::new(others));
        }
        Ok(walk)
    }

    /// The next document.
    ///
    /// # Errors
    ///
    /// Damage of the pages that hold ids.
    pub fn next(&mut self) -> Result<Option<(String, Row)>> {
        let heads = self.heads.iter_mut().zip(&mut self.others).filter(|(head, _)| head.is_some());
        let Some((head, others)) = heads.min_by(|(a, _), (b, _)| a.cmp(b)) else { return Ok(None) };
        Ok(std::mem::replace(head, others.next().transpose()?))
    }
}
