//! Builds a segment from documents in memory or in other segments.

use std::{collections::HashMap, ops::Range, path::Path};

use half::f16;

use super::{Codes, SegmentFiles};
use crate::{
    codes::StoredCodes,
    disk::Backend,
    document::Document,
    ids::{Generation, LeafId},
    lexical::{self, List},
    passages::Span,
    store::{
        error::{Damage, Result, StoreError},
        layout::segment::*,
        manifest::StoreId,
        payload,
        sealed::{Identity, Kind, SealedWriter},
        terms::{Joined, Lexer, TermLists},
    },
};

/// The position of a row in its document, if documents have passages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::store) struct Passage {
    /// The row of the document's first passage.
    pub(in crate::store) head: u32,
    /// The row of its next passage; its own for the last.
    pub(in crate::store) next: u32,
    pub(in crate::store) span: Span,
}

/// A source of a segment's documents.
pub(in crate::store) trait RowSource: Send + Sync {
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
pub(in crate::store) trait Rows: RowSource {
    /// Number of rows.
    fn rows(&self) -> u32;
    /// Number of documents.
    fn documents(&self) -> u32;
    /// The name used in errors.
    fn name(&self) -> &str;
    /// The representative row of a row's document: that of its first passage, or the row itself.
    fn head(&self, row: u32) -> Result<u32>;
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

    /// The codes of consecutive rows; `None` if they have none.
    fn codes(&self, _rows: Range<u32>) -> Result<Option<StoredCodes<'_>>> {
        Ok(None)
    }

    /// The supplement of a row's code, `[supplement_bytes]`; `None` if it has none.
    fn supplement(&self, _row: u32) -> Result<Option<&[u8]>> {
        Ok(None)
    }

    /// The document of a representative row.
    fn document(&self, row: u32) -> Result<Document> {
        let document = payload::decode(self.id(row)?.to_owned(), self.payload(row)?, self.metadata(row)?);
        let detail = Damage::Undecodable { what: "the document of row", number: row.into() };
        document.ok_or_else(|| StoreError::corrupt(self.name().to_owned(), detail))
    }
}

/// A row of a source that becomes part of the segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::store) struct Member {
    /// The number of the source.
    pub(in crate::store) source: u32,
    /// Its row there.
    pub(in crate::store) row: u32,
}

/// The plan of a new segment.
pub(in crate::store) struct NewSegment<'a> {
    pub(in crate::store) store_id: StoreId,
    pub(in crate::store) number: u64,
    /// If set, its rows get codes.
    pub(in crate::store) codes: Option<Codes>,
    /// If set, its rows get posting lists of terms.
    pub(in crate::store) lexer: Option<&'a dyn Lexer>,
    /// Whether rows are passages.
    pub(in crate::store) passages: bool,
    /// The leaf of a row, if it differs from that in its source.
    pub(in crate::store) leaf: &'a dyn Fn(&Member) -> Option<LeafId>,
}

/// Writes the two files of a segment and makes them durable, but not yet their directory entries.
///
/// Memory: about 40 bytes per document, their ids, and their one-bit codes if requested; embeddings (read
/// three times if there are codes) and payloads are streamed. Ids must be unique, and each document must have
/// all of its rows. `tick` is called twice for each row.
pub(in crate::store) fn build(
    backend: &dyn Backend,
    dir: &Path,
    segment: NewSegment<'_>,
    sources: &[&dyn RowSource],
    members: Vec<Member>,
    tick: &mut dyn FnMut() -> Result<()>,
) -> Result<SegmentFiles> {
    let NewSegment { store_id, number, codes, lexer, passages, leaf } = segment;
    let too_many = || StoreError::TooManyRows { used: 0, wanted: members.len() };
    let rows = u32::try_from(members.len()).map_err(|_| too_many())?;
    let leaf_of = |member: &Member| {
        let stored = || sources[member.source as usize].leaf_of(member.row);
        leaf(member).map_or_else(stored, Ok)
    };
    let (order, leaves) = arrange(members.iter().map(leaf_of))?;
    let members: Vec<Member> = order.into_iter().map(|place| members[place as usize]).collect();
    let passages = match passages {
        true => Some(Passages::of(sources, &members)?),
        false => None,
    };
    let is_head = |row: usize| passages.as_ref().is_none_or(|own| own.heads[row] as usize == row);
    let identity = |kind| Identity { kind, store_id, segment: number };

    let path = dir.join(SegmentFiles::vectors_name(number));
    let mut file = SealedWriter::create(backend, &path, identity(Kind::Vectors))?;
    file.begin(ROWS)?;
    for member in &members {
        file.write(bytemuck::cast_slice(sources[member.source as usize].embedding(member.row)?))?;
        tick()?;
    }
    if let Some(codes) = codes {
        codes.write(&mut file, sources, &members, &leaves.ends)?;
    }
    let vectors = file.finish()?;

    let path = dir.join(SegmentFiles::documents_name(number));
    let mut file = SealedWriter::create(backend, &path, identity(Kind::Documents))?;
    write_blobs(&mut file, PAYLOADS, PAYLOAD_ENDS, &members, |row, member| {
        tick()?;
        match is_head(row) {
            true => sources[member.source as usize].payload(member.row),
            false => Ok(&[]),
        }
    })?;
    write_blobs(&mut file, METADATA, METADATA_ENDS, &members, |row, member| match is_head(row) {
        true => sources[member.source as usize].metadata(member.row),
        false => Ok(&[]),
    })?;
    write_ids(&mut file, sources, &members, &is_head)?;
    leaves.write(&mut file)?;
    if let Some(passages) = &passages {
        passages.write(&mut file)?;
    }
    file.begin(CREATED_AT)?;
    for member in &members {
        file.write(&sources[member.source as usize].created_at(member.row)?.0.to_le_bytes())?;
    }
    if let Some(lexer) = lexer {
        write_terms(&mut file, sources, &members, &is_head, lexer)?;
    }
    let documents = file.finish()?;
    Ok(SegmentFiles { number, rows, vectors, documents })
}

/// The rows of each leaf in their stored form.
#[derive(Debug, Default)]
pub(in crate::store) struct LeafLists {
    /// Ascending.
    pub(in crate::store) leaves: Vec<u32>,
    /// The end of the rows of each leaf.
    ends: Vec<u32>,
}

/// Sorts rows by their leaves; rows of one leaf keep their order. Returns the sorted positions, and the rows
/// of each leaf in that order.
pub(in crate::store) fn arrange<E>(
    leaves: impl Iterator<Item = Result<LeafId, E>>,
) -> Result<(Vec<u32>, LeafLists), E> {
    let mut keyed =
        (0..).zip(leaves).map(|(place, leaf)| Ok((leaf?.0, place))).collect::<Result<Vec<_>, E>>()?;
    keyed.sort_unstable();
    let mut lists = LeafLists::default();
    for own in keyed.chunk_by(|a, b| a.0 == b.0) {
        lists.leaves.push(own[0].0);
        lists.ends.push(lists.ends.last().copied().unwrap_or(0) + own.len() as u32);
    }
    Ok((keyed.into_iter().map(|(_, place)| place).collect(), lists))
}

impl LeafLists {
    pub(in crate::store) fn rows(&self, leaf: LeafId) -> Range<u32> {
        let Ok(place) = self.leaves.binary_search(&leaf.0) else { return 0..0 };
        place.checked_sub(1).map_or(0, |before| self.ends[before])..self.ends[place]
    }

    fn write(&self, file: &mut SealedWriter) -> Result<()> {
        for (name, numbers) in [(LEAVES, &self.leaves), (LEAF_ENDS, &self.ends)] {
            file.begin(name)?;
            file.write(bytemuck::cast_slice(numbers))?;
        }
        Ok(())
    }
}

/// The positions of rows in their documents, in their stored form.
struct Passages {
    heads: Vec<u32>,
    /// Start and end of each.
    spans: Vec<[u32; 2]>,
    next: Vec<u32>,
}

impl Passages {
    fn of(sources: &[&dyn RowSource], members: &[Member]) -> Result<Self> {
        let rows = members.len();
        let mut own = Self { heads: vec![0; rows], spans: Vec::with_capacity(rows), next: vec![0; rows] };
        // By source and head there, the new rows of each document.
        let mut documents: HashMap<(u32, u32), Vec<u32>> = HashMap::new();
        for (row, member) in (0..).zip(members) {
            let passage = sources[member.source as usize].passage(member.row)?;
            let Passage { head, span, .. } =
                passage.unwrap_or(Passage { head: member.row, next: member.row, span: Span::default() });
            own.spans.push([span.start, span.end]);
            documents.entry((member.source, head)).or_default().push(row);
        }
        for rows in documents.values_mut() {
            rows.sort_unstable_by_key(|&row| (own.spans[row as usize], row));
            for (place, &row) in rows.iter().enumerate() {
                own.heads[row as usize] = rows[0];
                own.next[row as usize] = *rows.get(place + 1).unwrap_or(&row);
            }
        }
        Ok(own)
    }

    fn write(&self, file: &mut SealedWriter) -> Result<()> {
        file.begin(HEADS)?;
        file.write(bytemuck::cast_slice(&self.heads))?;
        file.begin(SPANS)?;
        file.write(bytemuck::cast_slice(&self.spans))?;
        file.begin(NEXT)?;
        file.write(bytemuck::cast_slice(&self.next))
    }
}

/// One entry of bytes for each row, and the end of each.
fn write_blobs<'a>(
    file: &mut SealedWriter,
    bytes: u32,
    ends: u32,
    members: &[Member],
    mut entry: impl FnMut(usize, &Member) -> Result<&'a [u8]>,
) -> Result<()> {
    let (mut end, mut all_ends) = (0, Vec::with_capacity(members.len()));
    file.begin(bytes)?;
    for (row, member) in members.iter().enumerate() {
        let entry = entry(row, member)?;
        file.write(entry)?;
        end += entry.len() as u64;
        all_ends.push(end);
    }
    file.begin(ends)?;
    file.write(bytemuck::cast_slice(&all_ends))
}

/// The posting lists of terms, merged over all sources.
fn write_terms(
    file: &mut SealedWriter,
    sources: &[&dyn RowSource],
    members: &[Member],
    is_head: &dyn Fn(usize) -> bool,
    lexer: &dyn Lexer,
) -> Result<()> {
    let heads = (0..).zip(members).filter(|&(new, _)| is_head(new as usize));
    let rows = heads.map(|(new, member)| (new, member.source as usize, member.row));
    let mut joined = Joined::new(sources, rows, lexer)?;
    let lengths = joined.lengths(members.len())?;
    let (mut terms, mut term_rows, mut ends) = (Vec::new(), Vec::new(), Vec::new());
    let (mut postings, mut bytes, mut end) = (Vec::new(), Vec::new(), 0);
    file.begin_apart(POSTINGS)?;
    while let Some(term) = joined.next(&mut postings)? {
        if postings.is_empty() {
            continue;
        }
        bytes.clear();
        lexical::encode(&postings, |row| lengths.get(row as usize).copied().unwrap_or(0), &mut bytes);
        file.write(&bytes)?;
        end += bytes.len() as u64;
        terms.push(term);
        term_rows.push(postings.len() as u32);
        ends.push(end);
    }
    for (name, numbers) in [(TERMS, &terms), (TERM_ROWS, &term_rows), (LENGTHS, &lengths)] {
        file.begin(name)?;
        file.write(bytemuck::cast_slice(numbers))?;
    }
    file.begin(TERM_ENDS)?;
    file.write(bytemuck::cast_slice::<u64, u8>(&ends))?;
    file.begin(TOTAL_LENGTH)?;
    let total: u64 = lengths.iter().map(|&length| u64::from(length)).sum();
    file.write(&total.to_le_bytes())
}

fn write_ids(
    file: &mut SealedWriter,
    sources: &[&dyn RowSource],
    members: &[Member],
    is_head: &dyn Fn(usize) -> bool,
) -> Result<()> {
    let (mut ids, mut ends) = (String::new(), Vec::with_capacity(members.len()));
    for (row, member) in members.iter().enumerate() {
        if is_head(row) {
            ids.push_str(sources[member.source as usize].id(member.row)?);
        }
        ends.push(ids.len() as u64);
    }
    let id = |row: u32| {
        let start = if row == 0 { 0 } else { ends[row as usize - 1] as usize };
        &ids.as_bytes()[start..ends[row as usize] as usize]
    };
    let mut order: Vec<u32> = (0..members.len() as u32).filter(|&row| is_head(row as usize)).collect();
    order.sort_unstable_by(|&a, &b| id(a).cmp(id(b)));
    debug_assert!(order.windows(2).all(|pair| id(pair[0]) < id(pair[1])), "an id twice in a segment");
    file.begin(IDS)?;
    file.write(ids.as_bytes())?;
    file.begin(ID_ENDS)?;
    file.write(bytemuck::cast_slice(&ends))?;
    file.begin(ID_ORDER)?;
    file.write(bytemuck::cast_slice(&order))
}
