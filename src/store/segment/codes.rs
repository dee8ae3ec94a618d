//! The codes of a segment's rows: where those of each leaf are, writing and reading.

use std::{iter, ops::Range};

use half::f16;

use super::Segment;
use crate::{
    codes::{self, CodeMaker, MeanMaker, StoredCodes},
    ids::LeafId,
    scan::Similarity,
    store::{
        config::{StoreConfig, StoreOptions},
        error::{Result, StoreError},
        layout::segment::*,
        rows::{Member, RowSource, Rows},
        sealed::{SealedFile, SealedWriter},
    },
};

/// Checks the lengths of the sections of codes, in constant time.
pub(super) fn check_codes(file: &SealedFile, rows: u32, leaves: u64, dim: usize) -> Result<()> {
    let has_codes = file.has(CODES);
    let (rows, leaves) = if has_codes { (u64::from(rows), leaves) } else { (0, 0) };
    let (block, mean) = (codes::block_bytes(dim) as u64, (dim * size_of::<f16>()) as u64);
    // More than fewest if blocks are not full.
    let blocks = file.count(CODES, block).max(rows.div_ceil(codes::BLOCK_ROWS as u64));
    let means = if has_codes { file.count(MEANS, mean).max(1) } else { 0 };
    file.check_counts([
        ("bytes of codes", CODES, 1, blocks * block),
        ("the number of leaves' codes", CODE_PLACES, 8, leaves),
        ("bytes of means", MEANS, 1, means * mean),
        ("bytes of supplements", SUPPLEMENTS, 1, rows * codes::supplement_bytes(dim) as u64),
    ])
}

/// For each leaf, given the ends of the leaves' rows: the place of its first code among those of all blocks,
/// and the number of the mean that its codes are relative to. A leaf with enough rows begins a block, and one
/// with many has its own mean. `None` if there are too many rows, or the ends do not ascend.
pub(in crate::store) fn code_places(ends: &[u32]) -> Option<Vec<[u32; 2]>> {
    let (mut next, mut first, mut means) = (0u32, 0, 0);
    let place = |&end: &u32| {
        let rows = end.checked_sub(first).filter(|rows| *rows > 0)?;
        if rows as usize >= codes::FEWEST_FOR_BLOCK {
            next = next.checked_next_multiple_of(codes::BLOCK_ROWS as u32)?;
        }
        let has_mean = rows as usize >= codes::FEWEST_FOR_MEAN;
        means += u32::from(has_mean);
        let place = [next, if has_mean { means } else { 0 }];
        (first, next) = (end, next.checked_add(rows)?);
        Some(place)
    };
    ends.iter().map(place).collect()
}

/// The means of rows, `[1 + n, dim]`: that of the leaves without their own comes first. `ends` and `places`
/// are those of the leaves.
pub(in crate::store) fn code_means<'a>(
    dim: usize,
    ends: &[u32],
    places: &[[u32; 2]],
    mut row: impl FnMut(u32) -> Result<&'a [f16]>,
) -> Result<Vec<f16>> {
    let (mut own, mut others) = (MeanMaker::new(dim), MeanMaker::new(dim));
    let (mut means, mut first) = (vec![f16::ZERO; dim], 0);
    for (&end, &[_, mean]) in ends.iter().zip(places) {
        let maker = if mean == 0 { &mut others } else { &mut own };
        for number in first..end {
            maker.add(row(number)?);
        }
        if mean != 0 {
            own.finish(&mut means);
        }
        first = end;
    }
    means.iter_mut().zip(others.direction()).for_each(|(mean, x)| *mean = x);
    Ok(means)
}

/// Each row with the place of its code and the number of its mean. `ends` and `places` are those of the
/// leaves.
pub(in crate::store) fn coded_rows<'a>(
    ends: &'a [u32],
    places: &'a [[u32; 2]],
) -> impl Iterator<Item = (u32, usize, usize)> + 'a {
    let firsts = iter::once(0).chain(ends.iter().copied());
    firsts.zip(ends).zip(places).flat_map(|((first, &end), &[place, mean])| {
        (first..end).zip(place as usize..).map(move |(row, place)| (row, place, mean as usize))
    })
}

/// Computes the codes of rows relative to several means.
pub(in crate::store) struct RowCoder<'a> {
    maker: CodeMaker,
    /// `[means, dim]`
    means: &'a [f16],
    /// The number of the mean of the last row.
    mean: Option<usize>,
}

impl<'a> RowCoder<'a> {
    pub(in crate::store) fn new(dim: usize, means: &'a [f16]) -> Self {
        Self { maker: CodeMaker::new(dim), means, mean: None }
    }

    /// As [`CodeMaker::encode`], relative to a mean, given by its number.
    pub(in crate::store) fn encode(
        &mut self,
        row: &[f16],
        mean: usize,
        place: usize,
        block: &mut [u8],
        record: &mut [u8],
    ) {
        if self.mean.replace(mean) != Some(mean) {
            self.maker.beside(&self.means[mean * row.len()..][..row.len()]);
        }
        self.maker.encode(row, place % codes::BLOCK_ROWS, block, Some(record));
    }
}

/// Computes and writes the codes of rows.
pub(in crate::store) struct Codes {
    dim: usize,
}

impl Codes {
    /// The codes of an index, if its rows should have any.
    pub(in crate::store) fn wanted(config: &StoreConfig, options: &StoreOptions) -> Option<Self> {
        let dim = config.dim as usize;
        let product = Similarity::from_code(config.similarity).is_some_and(Similarity::is_product);
        (!options.without_codes && product && dim >= codes::FEWEST_DIMENSIONS).then_some(Self { dim })
    }

    /// Writes the codes of the members' rows, which are read twice: for the means, and for the codes. `ends`
    /// are the ends of each leaf's rows.
    pub(super) fn write(
        &self,
        file: &mut SealedWriter,
        sources: &[&dyn RowSource],
        members: &[Member],
        ends: &[u32],
    ) -> Result<()> {
        let embedding = |row: u32| {
            let Member { source, row } = members[row as usize];
            sources[source as usize].embedding(row)
        };
        let too_many = || StoreError::TooManyRows { used: 0, wanted: members.len() };
        let places = code_places(ends).ok_or_else(too_many)?;
        let means = code_means(self.dim, ends, &places, embedding)?;
        let (bytes, mut blocks) = (codes::block_bytes(self.dim), Vec::new());
        let mut coder = RowCoder::new(self.dim, &means);
        let mut record = vec![0; codes::supplement_bytes(self.dim)];
        file.begin(SUPPLEMENTS)?;
        for (row, place, mean) in coded_rows(ends, &places) {
            let block = place / codes::BLOCK_ROWS * bytes;
            blocks.resize(blocks.len().max(block + bytes), 0);
            coder.encode(embedding(row)?, mean, place, &mut blocks[block..][..bytes], &mut record);
            file.write(&record)?;
        }
        file.section(CODES, &blocks)?;
        file.section(CODE_PLACES, &places)?;
        file.section(MEANS, &means)
    }
}

/// Where the codes of the leaves are.
#[derive(Clone, Copy)]
pub(in crate::store) struct CodedLeaves<'a> {
    /// The ends of the leaves' rows.
    pub(in crate::store) ends: &'a [u32],
    /// As from [`code_places`].
    pub(in crate::store) places: &'a [[u32; 2]],
    /// As from [`code_means`].
    pub(in crate::store) means: &'a [f16],
}

impl Segment {
    /// The file with the codes; `None` for a segment without codes.
    pub(super) fn coded(&self) -> Option<&SealedFile> {
        self.vectors.as_ref().filter(|vectors| vectors.has(CODES))
    }

    /// Where the codes of all leaves are; `None` without codes.
    pub(in crate::store) fn coded_leaves(&self) -> Result<Option<CodedLeaves<'_>>> {
        let Some(vectors) = self.coded() else { return Ok(None) };
        let ends = self.documents.all(LEAF_ENDS)?;
        Ok(Some(CodedLeaves { ends, places: vectors.all(CODE_PLACES)?, means: vectors.all(MEANS)? }))
    }

    /// Number of blocks of codes.
    pub(in crate::store) fn blocks_of_codes(&self) -> usize {
        let bytes = codes::block_bytes(self.dim) as u64;
        self.coded().map_or(0, |vectors| vectors.count(CODES, bytes)) as usize
    }

    /// Blocks of codes.
    pub(in crate::store) fn code_blocks(&self, blocks: Range<usize>) -> Result<&[u8]> {
        let bytes = codes::block_bytes(self.dim);
        let range = blocks.start * bytes..blocks.end * bytes;
        self.coded().map_or(Ok(&[]), |vectors| vectors.elements(CODES, range))
    }

    /// Passes on the codes of consecutive rows, leaf after leaf. `near` is the leaf of the first, or a guess.
    /// Returns whether there are any.
    pub(super) fn find_codes<'a>(
        &'a self,
        rows: Range<u32>,
        near: LeafId,
        put: &mut dyn FnMut(StoredCodes<'a>),
    ) -> Result<bool> {
        let Some(vectors) = self.coded() else { return Ok(false) };
        let rows_at = |place: usize| self.entry::<u32>(LEAF_ENDS, place, self.rows().into());
        let (mut at, end) = (u64::from(rows.start), u64::from(rows.end));
        // If no leaf below is empty, it has the place of its number.
        let mut place = near.0 as usize;
        if place as u64 >= self.documents.count(LEAVES, 4) || !rows_at(place)?.contains(&at) {
            place = self.documents.all(LEAF_ENDS)?.partition_point(|&end: &u32| end <= rows.start);
        }
        while at < end {
            let own = rows_at(place)?;
            if !own.contains(&at) {
                return Err(self.undecodable("the leaf of row", at));
            }
            let &[code, mean] = vectors.element::<[u32; 2]>(CODE_PLACES, place as u32)?;
            let mut count = (own.end.min(end) - at) as usize;
            let first = code as usize + (at - own.start) as usize;
            // Together with small leaves in the same blocks.
            while at + (count as u64) < end {
                let &[code, next_mean] = vectors.element::<[u32; 2]>(CODE_PLACES, place as u32 + 1)?;
                let next = rows_at(place + 1)?;
                if next_mean != mean || code as usize != first + count || next.start != at + count as u64 {
                    break;
                }
                count += (next.end.min(end) - next.start) as usize;
                place += 1;
            }
            let blocks = first / codes::BLOCK_ROWS..(first + count).div_ceil(codes::BLOCK_ROWS);
            let mean = mean as usize * self.dim;
            put(StoredCodes {
                blocks: self.code_blocks(blocks)?,
                first: first % codes::BLOCK_ROWS,
                rows: count,
                mean: vectors.elements(MEANS, mean..mean + self.dim)?,
            });
            (at, place) = (at + count as u64, place + 1);
        }
        Ok(true)
    }
}
