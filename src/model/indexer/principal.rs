//! The children of a large level in their principal directions, of which the first tell the near children
//! from the others at a part of the cost.

use half::f16;

use crate::model::kernels::{add_weighted_rows, dot};
use crate::model::packed::products_in_bytes;
use crate::product::bytes::{BytePanels, ByteRows};
use crate::product::dispatched;
use crate::scan::{Kernel, Similarity};

/// Fewest children for which two steps save time.
const FEWEST_CHILDREN: usize = 1536;
/// Directions of the first step, and of both.
const FIRST: usize = 64;
const MOST: usize = 192;
/// Fewest values of a row.
const NARROWEST: usize = 128;
/// About the most rows that directions are computed from, and how often they are improved.
const SAMPLE: usize = 2048;
const ROUNDS: usize = 6;
/// Share of a row's length below which what is orthogonal to other rows is the error of rounding.
const DEPENDENT: f32 = 1e-4;
/// Rows whose moments are added at a time.
const AT_ONCE: usize = 16;
/// Rows multiplied together in the second step.
const TOGETHER: usize = 64;

/// The rows of a large level, for queries.
#[derive(Debug)]
pub(super) struct Principal {
    /// `[at most MOST, width]`, orthonormal.
    directions: BytePanels,
    /// `[B, FIRST]`
    first: BytePanels,
    /// In the other directions, `[B, directions - FIRST]`.
    rest: Vec<f16>,
}

/// Memory for a query.
#[derive(Debug, Default)]
pub(super) struct Turned {
    /// In all directions.
    values: Vec<f32>,
    first: ByteRows,
}

impl Principal {
    /// Of `rows`, `[B, width]`, whose mean is 0; `None` if they are too few, too narrow or too great.
    ///
    /// On this thread alone: a thread of a pool that waits for its others may take up a query, which waits
    /// for this.
    pub fn new(rows: &[f32], width: usize) -> Option<Self> {
        if rows.len() / width < FEWEST_CHILDREN || width < NARROWEST {
            return None;
        }
        let directions = directions(rows, width, MOST.min(width));
        let is_unit = |row: &[f32]| (dot(row, row) - 1.0).abs() < 0.01;
        if directions.iter().any(|x| !x.is_finite()) || !is_unit(&directions[..width]) {
            return None;
        }
        let count = directions.len() / width;
        let columns: Vec<f32> =
            (0..width).flat_map(|i| directions[i..].iter().step_by(width).copied()).collect();
        let mut turned = vec![0.0; rows.len() / width * count];
        for (turned, row) in turned.chunks_exact_mut(count).zip(rows.chunks_exact(width)) {
            add_weighted_rows(turned, &columns, row);
        }
        let parts = turned.chunks_exact(count).map(|row| row.split_at(FIRST));
        let (first, rest): (Vec<&[f32]>, Vec<&[f32]>) = parts.unzip();
        let rest: Vec<f16> = rest.into_iter().flatten().map(|x| f16::from_f32(*x)).collect();
        rest.iter().all(|x| x.is_finite()).then(|| Self {
            directions: BytePanels::pack(&directions, width),
            first: BytePanels::pack(&first.concat(), FIRST),
            rest,
        })
    }

    /// Writes the products of all rows with an input, in the first directions alone, to `out`, `[B]`.
    pub fn products(&self, input: &ByteRows, turned: &mut Turned, out: &mut [f32]) {
        turned.values.resize(self.directions.rows, 0.0);
        products_in_bytes(&self.directions, &[], input, None, &mut turned.values);
        turned.first.quantise(&turned.values[..FIRST], FIRST);
        products_in_bytes(&self.first, &[], &turned.first, None, out);
    }

    /// Adds the products of some rows with an input in the other directions to theirs in `out`, `[B]`.
    pub fn add_rest(&self, turned: &Turned, rows: &[u32], out: &mut [f32]) {
        let (query, kernel) = (&turned.values[FIRST..], Kernel::detect());
        let row = |&row: &u32| &self.rest[row as usize * query.len()..][..query.len()];
        let (mut slices, mut scores): ([&[f16]; TOGETHER], _) = ([&[]; TOGETHER], [0.0; TOGETHER]);
        for rows in rows.chunks(TOGETHER) {
            slices.iter_mut().zip(rows).for_each(|(slice, own)| *slice = row(own));
            kernel.score(Similarity::DotProduct, query, &slices[..rows.len()], &mut scores[..rows.len()]);
            rows.iter().zip(scores).for_each(|(&row, score)| out[row as usize] += score);
        }
    }
}

/// About the principal directions of a sample of rows whose mean is 0, `[count, width]`, orthonormal, by
/// orthogonal iteration.
fn directions(rows: &[f32], width: usize, count: usize) -> Vec<f32> {
    let step = (rows.len() / width).div_ceil(SAMPLE);
    let sample: Vec<f32> = rows.chunks_exact(width).step_by(step).flatten().copied().collect();
    // X^T X, `[width, width]`.
    let mut moments = vec![0.0; width * width];
    let mut column = Vec::with_capacity(AT_ONCE);
    // Few rows at a time, which stay in the nearest cache.
    for rows in sample.chunks(AT_ONCE * width) {
        for (i, moments) in moments.chunks_exact_mut(width).enumerate() {
            column.clear();
            column.extend(rows[i..].iter().step_by(width));
            add_weighted_rows(moments, rows, &column);
        }
    }
    let mut directions = sample[..count * width].to_vec();
    for _ in 0..ROUNDS {
        orthonormalise(&mut directions, width);
        let own = directions.clone();
        directions.fill(0.0);
        for (next, own) in directions.chunks_exact_mut(width).zip(own.chunks_exact(width)) {
            add_weighted_rows(next, &moments, own);
        }
    }
    orthonormalise(&mut directions, width);
    directions
}

dispatched! {
    /// Makes rows orthogonal and of unit norm, one after another; those that depend on the others become 0.
    fn orthonormalise<S>(rows: &mut [f32], width: usize) {
        for at in (0..rows.len()).step_by(width) {
            let (before, row) = rows.split_at_mut(at);
            let row = &mut row[..width];
            let length = dot(row, row).sqrt();
            // The second time removes what rounding left.
            for other in before.chunks_exact(width).chain(before.chunks_exact(width)) {
                let product = dot(other, row);
                row.iter_mut().zip(other).for_each(|(x, y)| *x -= product * y);
            }
            let rest = dot(row, row).sqrt();
            let factor = if rest > DEPENDENT * length { 1.0 / rest } else { 0.0 };
            row.iter_mut().for_each(|x| *x *= factor);
        }
    }
}
