//! Builds a segment from documents in memory or in other segments.

use super::{Codes, SegmentFiles, expiries::list_expiries, joined::Joined};
use crate::{
    filter::{BuiltLists, ListBuilder},
    ids::LeafId,
    lexical,
    store::{
        error::{Result, StoreError},
        layout::segment::*,
        leaves::arrange,
        rows::{Member, Passage, RowSource, chain},
        sealed::{SealedFolder, SealedWriter},
        terms::Lexer,
    },
};

/// The plan of a new segment.
pub(in crate::store) struct NewSegment<'a> {
    pub(in crate::store) number: u64,
    /// If set, its rows get codes.
    pub(in crate::store) codes: Option<Codes>,
    /// If set, its rows get posting lists of terms.
    pub(in crate::store) lexer: Option<&'a dyn Lexer>,
    /// The field of metadata by which documents expire, if they do.
    pub(in crate::store) expires: Option<&'a str>,
    /// The leaf of a row, if it differs from that in its source.
    pub(in crate::store) leaf: &'a dyn Fn(&Member) -> Option<LeafId>,
}

/// Writes the two files of a segment and makes them durable, but not yet their directory entries.
///
/// Memory: about 40 bytes per document, their ids, their one-bit codes if requested, and while the lists of
/// metadata are made about three times their bytes; embeddings (read three times if there are codes) and
/// payloads are streamed. Ids must be unique, and each document must have all of its rows. `tick` is called
/// twice for each row.
pub(in crate::store) fn build(
    folder: SealedFolder<'_>,
    segment: NewSegment<'_>,
    sources: &[&dyn RowSource],
    members: Vec<Member>,
    tick: &mut dyn FnMut() -> Result<()>,
) -> Result<SegmentFiles> {
    let NewSegment { number, codes, lexer, expires, leaf } = segment;
    let too_many = || StoreError::TooManyRows { used: 0, wanted: members.len() };
    let rows = u32::try_from(members.len()).map_err(|_| too_many())?;
    let leaf_of = |member: &Member| {
        let stored = || sources[member.source as usize].leaf_of(member.row);
        leaf(member).map_or_else(stored, Ok)
    };
    let (order, leaves) = arrange(members.iter().map(leaf_of))?;
    let members: Vec<Member> = order.into_iter().map(|place| members[place as usize]).collect();
    let passages = Passages::of(sources, &members)?;
    let is_head = |row: usize| passages.as_ref().is_none_or(|own| own.heads[row] as usize == row);
    let [vectors, documents] = SegmentFiles::names_of(number);

    let mut file = SealedWriter::create(folder, vectors)?;
    file.begin(ROWS)?;
    let mut embedding_bytes = 0;
    for member in &members {
        let embedding = bytemuck::cast_slice(sources[member.source as usize].embedding(member.row)?);
        file.write(embedding)?;
        embedding_bytes += embedding.len() as u64;
        tick()?;
    }
    if let Some(codes) = codes {
        codes.write(&mut file, sources, &members, &leaves.ends)?;
    }
    let vectors = file.finish()?;

    let mut file = SealedWriter::create(folder, documents)?;
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
    file.section(LEAVES, &leaves.leaves)?;
    file.section(LEAF_ENDS, &leaves.ends)?;
    if let Some(passages) = &passages {
        passages.write(&mut file)?;
    }
    file.begin(CREATED_AT)?;
    for member in &members {
        file.write(&sources[member.source as usize].created_at(member.row)?.0.to_le_bytes())?;
    }
    if let Some(field) = expires {
        let expiries = list_expiries(sources, &members, &is_head, field)?;
        file.section(EXPIRY_TIMES, &expiries.times)?;
        file.section(EXPIRY_ROWS, &expiries.rows)?;
    }
    let heads = passages.as_ref().map(|own| &*own.heads);
    let lists = list_fields(sources, &members, heads, embedding_bytes)?;
    for (place, (name, bytes)) in FIELD_LISTS.into_iter().zip(lists.sections()).enumerate() {
        if place == 0 {
            file.begin_apart(name)?
        } else {
            file.begin(name)?
        }
        file.write(bytes)?;
    }
    if let Some(lexer) = lexer {
        let mut last = None;
        write_terms(sources, &members, &is_head, lexer, &mut |name, bytes| {
            match name {
                name if last == Some(name) => {}
                POSTINGS => file.begin_apart(name)?,
                name => file.begin(name)?,
            }
            last = Some(name);
            file.write(bytes)
        })?;
    }
    let documents = file.finish()?;
    Ok(SegmentFiles { number, rows, vectors, documents })
}

/// The lists of the values of metadata; `heads` has the head of each row if documents have passages.
pub(super) fn list_fields(
    sources: &[&dyn RowSource],
    members: &[Member],
    heads: Option<&[u32]>,
    embedding_bytes: u64,
) -> Result<BuiltLists> {
    let documents =
        (0..).zip(members).filter(|&(row, _)| heads.is_none_or(|heads| heads[row as usize] == row));
    let (mut bytes, mut count) = (embedding_bytes, 0);
    for (_, member) in documents.clone() {
        let source = sources[member.source as usize];
        bytes += (source.payload(member.row)?.len() + source.metadata(member.row)?.len()) as u64;
        count += 1;
    }
    let mut lists = ListBuilder::new(members.len(), count, bytes);
    for (row, member) in documents {
        lists.add(row, sources[member.source as usize].metadata(member.row)?);
    }
    // Rows by their heads.
    let mut by_head: Vec<(u32, u32)> = heads.unwrap_or_default().iter().copied().zip(0..).collect();
    by_head.sort_unstable();
    let rows_of = |head: u32, out: &mut Vec<u32>| match heads {
        None => out.push(head),
        Some(_) => {
            let first = by_head.partition_point(|(other, _)| *other < head);
            out.extend(by_head[first..].iter().take_while(|(other, _)| *other == head).map(|(_, row)| *row));
        }
    };
    Ok(lists.build(&rows_of))
}

/// The positions of rows in their documents, in their stored form.
struct Passages {
    heads: Vec<u32>,
    /// Start and end of each.
    spans: Vec<[u32; 2]>,
    next: Vec<u32>,
}

impl Passages {
    /// `None` if documents have no passages.
    fn of(sources: &[&dyn RowSource], members: &[Member]) -> Result<Option<Self>> {
        let (mut spans, mut documents) = (Vec::new(), Vec::new());
        for member in members {
            let passage = sources[member.source as usize].passage(member.row)?;
            let Some(Passage { head, span, .. }) = passage else { return Ok(None) };
            spans.push([span.start, span.end]);
            documents.push((member.source, head));
        }
        let (heads, next) = chain(documents.into_iter().zip(spans.iter().copied()));
        Ok(Some(Self { heads, spans, next }))
    }

    fn write(&self, file: &mut SealedWriter) -> Result<()> {
        file.section(HEADS, &self.heads)?;
        file.section(SPANS, &self.spans)?;
        file.section(NEXT, &self.next)
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
    file.section(ends, &all_ends)
}

/// The posting lists of terms, merged over all sources: `write` gets the sections in their order, a long one
/// in parts.
pub(super) fn write_terms(
    sources: &[&dyn RowSource],
    members: &[Member],
    is_head: &dyn Fn(usize) -> bool,
    lexer: &dyn Lexer,
    write: &mut dyn FnMut(u32, &[u8]) -> Result<()>,
) -> Result<()> {
    let heads = (0..).zip(members).filter(|&(new, _)| is_head(new as usize));
    let rows = heads.map(|(new, member)| (new, member.source as usize, member.row));
    let mut joined = Joined::new(sources, rows, lexer)?;
    let lengths = joined.lengths(members.len())?;
    let (mut terms, mut term_rows, mut ends) = (Vec::new(), Vec::new(), Vec::new());
    let (mut postings, mut bytes, mut end) = (Vec::new(), Vec::new(), 0);
    write(POSTINGS, &[])?;
    while let Some(term) = joined.next(&mut postings)? {
        if postings.is_empty() {
            continue;
        }
        bytes.clear();
        lexical::encode(&postings, |row| lengths.get(row as usize).copied().unwrap_or(0), &mut bytes);
        write(POSTINGS, &bytes)?;
        end += bytes.len() as u64;
        terms.push(term);
        term_rows.push(postings.len() as u32);
        ends.push(end);
    }
    write(TERMS, bytemuck::cast_slice(&terms))?;
    write(TERM_ROWS, bytemuck::cast_slice(&term_rows))?;
    write(LENGTHS, bytemuck::cast_slice(&lengths))?;
    write(TERM_ENDS, bytemuck::cast_slice(&ends))?;
    write(TOTAL_LENGTH, bytemuck::bytes_of(&lengths.iter().map(|&length| u64::from(length)).sum::<u64>()))
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
    file.section(IDS, ids.as_bytes())?;
    file.section(ID_ENDS, &ends)?;
    file.section(ID_ORDER, &order)
}
