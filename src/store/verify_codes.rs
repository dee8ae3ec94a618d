//! The check of codes: they are recomputed from the rows.

use super::{
    Result,
    error::Damage,
    rows::Rows,
    segment::{Segment, SegmentMeans},
    verify::{Done, VerifyReport},
};
use crate::codes::{self, CodeMaker};

/// Numbers of a code with a smaller relative difference are equal: they may have been summed in another
/// order.
const SAME: f32 = 1e-6;

/// Checks each code against its row, and each mean against its rows.
pub(super) fn check(segment: &Segment, dim: usize, report: &mut VerifyReport, done: Done<'_>) -> Result<()> {
    let problem = |report: &mut VerifyReport, what, number: u32| {
        let damage = Damage::Undecodable { what, number: number.into() };
        report.problem(segment.files().names()[0].to_string(), damage);
    };
    if !have_their_means(segment, dim, report)? {
        problem(report, "the means of codes, from", 0);
    }
    let mut maker = CodeMaker::new(dim);
    for first in (0..segment.rows()).step_by(codes::BLOCK_ROWS) {
        let rows = first..segment.rows().min(first + codes::BLOCK_ROWS as u32);
        done(rows.len() as u64)?;
        let Some(Some(found)) = report.note(segment.codes(rows.clone()))? else { continue };
        let Some(embeddings) = report.note(segment.matrix(rows.clone()))? else { continue };
        let (mut block, mut record) =
            (vec![0; codes::block_bytes(dim)], vec![0; codes::supplement_bytes(dim)]);
        let (mut place, mut same, mut own) = (0, true, embeddings.chunks_exact(dim));
        for (count, mean) in found.means {
            maker.beside(mean);
            for embedding in own.by_ref().take(count) {
                let made = maker.encode(embedding, place, &mut block, Some(&mut record));
                same &= are_same(&found.factors[place], &made.factors);
                same &= found.shifts.get(place).is_none_or(|shift| are_same(&[*shift], &[made.shift]));
                let supplement = report.note(segment.supplement(first + place as u32))?.flatten();
                same &= supplement.is_none_or(|found| is_same_record(found, &record));
                place += 1;
            }
        }
        if found.blocks != block || !same {
            problem(report, "the codes from row", first);
        }
    }
    Ok(())
}

/// Whether all means match their rows.
fn have_their_means(segment: &Segment, dim: usize, report: &mut VerifyReport) -> Result<bool> {
    let found = report.note(segment.mean_rows().and_then(|rows| Ok((rows, segment.all_means()?))))?;
    let Some((spans, found)) = found.filter(|(_, means)| !means.is_empty()) else { return Ok(true) };
    let mut next = 0;
    for &[first, end] in spans {
        if first < next || end <= first || end > segment.rows() {
            return Ok(false);
        }
        next = end;
    }
    let mut means = SegmentMeans::new(dim, spans);
    for row in 0..segment.rows() {
        // Reported when pages are checked.
        let Some(embedding) = report.note(segment.matrix(row..row + 1))? else { return Ok(true) };
        means.add(embedding);
    }
    Ok(means.finish() == found)
}

/// Whether numbers have a small relative difference.
fn are_same(a: &[f32], b: &[f32]) -> bool {
    a.iter().zip(b).all(|(a, b)| (a - b).abs() <= SAME * b.abs())
}

/// Whether the bits are the same, and the numbers equal.
fn is_same_record(a: &[u8], b: &[u8]) -> bool {
    let ((bits, numbers), (other_bits, other_numbers)) =
        (codes::split_supplement(a), codes::split_supplement(b));
    bits == other_bits && are_same(&numbers, &other_numbers)
}
