//! The rotation applied to rows and queries before they are coded.

use pulp::{Arch, Simd, WithSimd};

use super::LANES;

/// Rounds of the rotation: enough for turned rows to look random, whatever the embeddings.
const ROUNDS: usize = 4;
/// Seed of the rotation's signs. Part of the format.
const SEED: u64 = 0x6568_6920_636f_6465;

/// The fixed rotation of embeddings of one width.
///
/// Each round flips signs at random, then applies a Walsh-Hadamard transform of the largest power of two that
/// fits, to the first elements in even rounds and to the last ones in odd rounds, and then, if that power is
/// not the width, rotates each element of the first half with its partner in the second half by 45 degrees.
#[derive(Clone, Debug)]
pub(crate) struct Rotation {
    dim: usize,
    /// `[ROUNDS, dim]`, 1 or -1.
    signs: Vec<f32>,
}

impl Rotation {
    pub fn new(dim: usize) -> Self {
        // SplitMix64.
        let mut state = SEED;
        let mut next = || {
            state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mut z = state;
            z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            z ^ (z >> 31)
        };
        let signs = (0..ROUNDS * dim).map(|_| if next() >> 63 == 0 { 1.0 } else { -1.0 }).collect();
        Self { dim, signs }
    }

    /// Turns a row in place; preserves its norm up to rounding.
    pub fn apply(&self, row: &mut [f32]) {
        assert_eq!(row.len(), self.dim, "the width of the rotation");
        if self.dim > 0 {
            Arch::new().dispatch(Turn { rotation: self, row });
        }
    }

    #[inline(always)]
    fn turn(&self, row: &mut [f32]) {
        let dim = self.dim;
        let power = 1 << dim.ilog2();
        for (round, signs) in self.signs.chunks_exact(dim).enumerate() {
            row.iter_mut().zip(signs).for_each(|(x, sign)| *x *= sign);
            let part = if round % 2 == 0 { &mut row[..power] } else { &mut row[dim - power..] };
            hadamard(part);
            if power < dim {
                let (low, high) = row.split_at_mut(dim / 2);
                for (a, b) in low.iter_mut().zip(high) {
                    (*a, *b) = (
                        (*a + *b) * std::f32::consts::FRAC_1_SQRT_2,
                        (*a - *b) * std::f32::consts::FRAC_1_SQRT_2,
                    );
                }
            }
        }
    }
}

/// [`Rotation::turn`] with the machine's widest instructions; the result is the same for all.
struct Turn<'a> {
    rotation: &'a Rotation,
    row: &'a mut [f32],
}

impl WithSimd for Turn<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        self.rotation.turn(self.row);
    }
}

/// The orthonormal Walsh-Hadamard transform; the number of elements is a power of two.
#[inline(always)]
fn hadamard(values: &mut [f32]) {
    let mut half = 1;
    let (chunks, _) = values.as_chunks_mut::<LANES>();
    if !chunks.is_empty() {
        // Within a register, where the loop below would process single elements.
        for chunk in chunks {
            butterflies::<1>(chunk);
            butterflies::<2>(chunk);
            butterflies::<4>(chunk);
            butterflies::<8>(chunk);
        }
        half = LANES;
    }
    while half < values.len() {
        for block in values.chunks_exact_mut(2 * half) {
            let (low, high) = block.split_at_mut(half);
            for (a, b) in low.iter_mut().zip(high) {
                (*a, *b) = (*a + *b, *a - *b);
            }
        }
        half *= 2;
    }
    let scale = 1.0 / (values.len() as f32).sqrt();
    values.iter_mut().for_each(|x| *x *= scale);
}

/// One level of the transform, on pairs `HALF` apart.
#[inline(always)]
fn butterflies<const HALF: usize>(values: &mut [f32; LANES]) {
    let old = *values;
    *values = std::array::from_fn(|i| match i & HALF {
        0 => old[i] + old[i + HALF],
        _ => old[i - HALF] - old[i],
    });
}
