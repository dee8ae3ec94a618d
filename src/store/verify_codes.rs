//! The check of codes: they are recomputed from the rows.

use super::{
    Result,
    error::Damage,
    rows::Rows,
    segment::{CodedLeaves, RowCoder, Segment, code_means, code_places, coded_rows},
    verify::{Done, VerifyReport},
};
use crate::codes::{self, Block};

/// Numbers of a code with a smaller relative difference are equal: they may have been summed in another
/// order.
const SAME: f32 = 1e-6;

/// Checks each code against its row, and each mean against its rows.
pub(super) fn check(segment: &Segment, dim: usize, report: &mut VerifyReport, done: Done<'_>) -> Result<()> {
    let problem = |report: &mut VerifyReport, what, number: u32| {
        let damage = Damage::Undecodable { what, number: number.into() };
        report.problem(segment.files().names()[0].to_string(), damage);
    };
    let rows = segment.rows();
    let Some(Some(CodedLeaves { ends, places, means })) = report.note(segment.coded_leaves())? else {
        return done(rows.into());
    };
    let covered = ends.last().copied().unwrap_or_default() == rows;
    if !covered || code_places(ends).is_none_or(|expected| expected != places) {
        problem(report, "the places of codes, from", 0);
        return done(rows.into());
    }
    let embedding = |row| segment.matrix(row..row + 1);
    let Some(expected) = report.note(code_means(dim, ends, places, embedding))? else {
        // Reported when pages are checked.
        return done(rows.into());
    };
    if expected != means {
        problem(report, "the means of codes, from", 0);
    }
    let (mut coder, mut record) = (RowCoder::new(dim, &expected), vec![0; codes::supplement_bytes(dim)]);
    let (mut coded, mut blocks) = (coded_rows(ends, places).peekable(), 0);
    while let Some(&(first, place, _)) = coded.peek() {
        let (number, mut same, mut count) = (place / codes::BLOCK_ROWS, true, 0);
        let mut block = vec![0; codes::block_bytes(dim)];
        while let Some((row, place, mean)) =
            coded.next_if(|(_, place, _)| place / codes::BLOCK_ROWS == number)
        {
            coder.encode(embedding(row)?, mean, place, &mut block, &mut record);
            let supplement = report.note(segment.supplement(row))?.flatten();
            same &= supplement.is_none_or(|found| is_same_record(found, &record));
            count += 1;
        }
        done(count)?;
        let found = report.note(segment.code_blocks(number..number + 1))?;
        if !same || found.is_some_and(|found| !is_same_block(found, &block)) {
            problem(report, "the codes from row", first);
        }
        blocks = number + 1;
    }
    if segment.blocks_of_codes() != blocks {
        problem(report, "the codes from row", rows);
    }
    Ok(())
}

/// Whether numbers have a small relative difference.
fn are_same(a: &[f32], b: &[f32]) -> bool {
    a.iter().zip(b).all(|(a, b)| (a - b).abs() <= SAME * b.abs())
}

/// Whether the bits of all rows are the same, and their numbers equal.
fn is_same_block(a: &[u8], b: &[u8]) -> bool {
    let (a, b) = (Block::new(a), Block::new(b));
    a.bits == b.bits && are_same(bytemuck::cast_slice(&[a.numbers]), bytemuck::cast_slice(&[b.numbers]))
}

/// Whether the bits are the same, and the numbers equal.
fn is_same_record(a: &[u8], b: &[u8]) -> bool {
    let ((bits, numbers), (other_bits, other_numbers)) =
        (codes::split_supplement(a), codes::split_supplement(b));
    bits == other_bits && are_same(&numbers, &other_numbers)
}
