//! Computes the means and codes of rows.

use half::f16;
use half::slice::HalfFloatSliceExt;
use pulp::{Arch, Simd, WithSimd};

use super::block::{put_bits, put_numbers};
use super::supplement::{self, HIGHEST, UNIT};
use super::{LANES, Rotation};

/// The step of the grid for a normal distribution of variance 1: among grids of 16 equal steps, the one with
/// the least mean square error. Part of the format.
const STEP: f64 = 0.3352;

/// Accumulates the direction of the mean of rows.
#[derive(Debug)]
pub(crate) struct MeanMaker {
    sums: Vec<f64>,
}

impl MeanMaker {
    pub fn new(dim: usize) -> Self {
        Self { sums: vec![0.0; dim] }
    }

    /// Adds a row, `[dim]`.
    pub fn add(&mut self, row: &[f16]) {
        self.sums.iter_mut().zip(row).for_each(|(sum, x)| *sum += x.to_f64());
    }

    /// Appends the direction of the mean to `means`, and starts over.
    pub fn finish(&mut self, means: &mut Vec<f16>) {
        means.extend(self.direction());
        self.sums.fill(0.0);
    }

    /// The direction of the mean of the rows so far, of length 1; zeros if the mean has no direction.
    pub fn direction(&self) -> impl Iterator<Item = f16> + '_ {
        let norm = self.sums.iter().map(|x| x * x).sum::<f64>().sqrt();
        let scale = if norm > 0.0 { 1.0 / norm } else { 0.0 };
        self.sums.iter().map(move |sum| f16::from_f64(sum * scale))
    }
}

/// The numbers of a code.
struct Made {
    /// The factor of the product of the query with the code.
    factor: f32,
    /// The error for `|q'| = 1` and `e = 1`.
    error: f32,
    /// The factor of the product of the query with the mean.
    shift: f32,
}

/// Computes codes of rows.
#[derive(Debug)]
pub(crate) struct CodeMaker {
    rotation: Rotation,
    turned: Vec<f32>,
    mean: Vec<f32>,
    turned_mean: Vec<f32>,
    /// The values that a code represents.
    values: Vec<f32>,
    levels: Vec<u8>,
}

/// Sums for a code `v` of a turned row `t` relative to a turned mean `m`: `<v, t>`, `<v, v>`, `<v, m>`.
struct Sums {
    row: f64,
    own: f64,
    mean: f64,
}

impl Sums {
    /// Summed in lanes, so that the order is the same everywhere.
    fn of(code: &[f32], row: &[f32], mean: &[f32]) -> Self {
        Arch::new().dispatch(SumUp { code, row, mean })
    }

    /// The numbers of the code; `turned` are the sums of the row itself, `along` is its component along the
    /// mean.
    fn numbers(&self, turned: &Self, along: f64, dim: usize) -> Made {
        let along = along + turned.mean;
        if self.row <= 0.0 {
            return Made { factor: 0.0, error: 0.0, shift: along as f32 };
        }
        let (factor, norm) = (turned.own / self.row, turned.own.sqrt());
        let cosine = (self.row / (self.own.sqrt() * norm)).min(1.0);
        let width = cosine * (dim as f64 - 1.0).max(1.0).sqrt();
        let error = norm * (1.0 - cosine * cosine).sqrt() / width;
        Made { factor: factor as f32, error: error as f32, shift: (along - factor * self.mean) as f32 }
    }
}

struct SumUp<'a> {
    code: &'a [f32],
    row: &'a [f32],
    mean: &'a [f32],
}

impl WithSimd for SumUp<'_> {
    type Output = Sums;

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) -> Sums {
        let (mut row, mut own, mut mean) = ([0f64; LANES], [0f64; LANES], [0f64; LANES]);
        let chunks = self.row.chunks(LANES).zip(self.mean.chunks(LANES));
        for (codes, (rows, means)) in self.code.chunks(LANES).zip(chunks) {
            let elements = codes.iter().zip(rows).zip(means);
            let lanes = row.iter_mut().zip(&mut own).zip(&mut mean);
            for (((row, own), mean), ((&v, &t), &m)) in lanes.zip(elements) {
                let v = f64::from(v);
                *row += v * f64::from(t);
                *own += v * v;
                *mean += v * f64::from(m);
            }
        }
        let [row, own, mean] = [row, own, mean].map(|lanes| lanes.iter().sum());
        Sums { row, own, mean }
    }
}

impl CodeMaker {
    pub fn new(dim: usize) -> Self {
        let zeros = || vec![0.0; dim];
        Self {
            rotation: Rotation::new(dim),
            turned: zeros(),
            mean: zeros(),
            turned_mean: zeros(),
            values: zeros(),
            levels: vec![0; dim.next_multiple_of(UNIT)],
        }
    }

    /// Sets the mean, `[dim]`, that the following rows are coded relative to.
    pub fn beside(&mut self, mean: &[f16]) {
        mean.convert_to_f32_slice(&mut self.mean);
        self.turned_mean.copy_from_slice(&self.mean);
        self.rotation.apply(&mut self.turned_mean);
    }

    /// Adds a row's code to a block, at a place where all bits must be 0, and writes its supplement, if
    /// requested.
    ///
    /// # Shapes
    /// `row` `[dim]` f16, finite; `block` `[block_bytes]`; `supplement` `[supplement_bytes]`.
    pub fn encode(&mut self, row: &[f16], place: usize, block: &mut [u8], supplement: Option<&mut [u8]>) {
        row.convert_to_f32_slice(&mut self.turned);
        let along = Sums::of(&self.mean, &self.turned, &self.mean).row as f32;
        self.turned.iter_mut().zip(&self.mean).for_each(|(x, mean)| *x -= along * mean);
        self.rotation.apply(&mut self.turned);

        put_bits(&self.turned, place, block);
        let (dim, along) = (row.len(), f64::from(along));
        let turned = Sums::of(&self.turned, &self.turned, &self.turned_mean);
        if let Some(record) = supplement {
            // Counted in steps: levels are counted from the lowest on the negative side, and from 0 on the
            // positive side, so that a sign and a level give the number of a step.
            let norm = turned.own.sqrt();
            let scale = if norm > 0.0 { ((dim as f64).sqrt() / (STEP * norm)) as f32 } else { 0.0 };
            for ((&x, value), level) in self.turned.iter().zip(&mut self.values).zip(&mut self.levels) {
                let steps = (x.abs() * scale).min(f32::from(HIGHEST)) as u8;
                let middle = f32::from(steps) + 0.5;
                (*value, *level) = if x > 0.0 { (middle, steps) } else { (-middle, HIGHEST - steps) };
            }
            let steps = Sums::of(&self.values, &self.turned, &self.turned_mean);
            let Made { factor, error, shift } = steps.numbers(&turned, along, dim);
            supplement::pack(&self.levels, [factor, error, shift], record);
        }
        self.values.iter_mut().zip(&self.turned).for_each(|(v, &x)| *v = if x > 0.0 { 1.0 } else { -1.0 });
        let signs = Sums::of(&self.values, &self.turned, &self.turned_mean);
        let Made { factor, error, shift } = signs.numbers(&turned, along, dim);
        put_numbers([shift, factor, error], place, block);
    }
}
