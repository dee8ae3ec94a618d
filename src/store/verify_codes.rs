//! The check of codes: they are recomputed from the rows.

use std::iter;

use super::{
    Result,
    error::Damage,
    rows::Rows,
    segment::{CodedLeaves, Segment, code_means, code_places},
    verify::{Done, VerifyReport},
};
use crate::codes::{self, Block, CodeMaker};

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
    let (mut maker, mut record) = (CodeMaker::new(dim), vec![0; codes::supplement_bytes(dim)]);
    let firsts = iter::once(0).chain(ends.iter().copied());
    let leaves = firsts.zip(ends).zip(places);
    let coded = leaves.flat_map(|((first, &end), &[place, mean])| {
        (first..end).zip(place as usize..).map(move |(row, place)| (row, place, mean as usize))
    });
    let (mut coded, mut beside, mut blocks) = (coded.peekable(), None, 0);
    while let Some(&(first, place, _)) = coded.peek() {
        let (number, mut same, mut count) = (place / codes::BLOCK_ROWS, true, 0);
        let mut block = vec![0; codes::block_bytes(dim)];
        while let Some((row, place, mean)) =
            coded.next_if(|(_, place, _)| place / codes::BLOCK_ROWS == number)
        {
            if beside != Some(mean) {
                maker.beside(&expected[mean * dim..][..dim]);
                beside = Some(mean);
            }
            maker.encode(embedding(row)?, place % codes::BLOCK_ROWS, &mut block, Some(&mut record));
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
