//! NEON vectors. Intrinsics only: the loop is in `lanes.rs`.
//!
//! Compiled for aarch64, but not run on any machine yet. The oldest supported compiler lacks the intrinsics
//! for half precision, hence the one instruction of assembly.

use super::lanes::{self, Lanes, Term};
use half::f16;
use std::arch::aarch64::*;
use std::arch::{asm, is_aarch64_feature_detected};

/// Proof that the processor has NEON.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Neon(());

impl Neon {
    pub(super) fn detect() -> Option<Self> {
        is_aarch64_feature_detected!("neon").then_some(Self(()))
    }

    pub(super) fn sums<T: Term>(self, query: &[f32], rows: &[&[f16]], sums: &mut [f32]) {
        #[target_feature(enable = "neon")]
        fn with_features<T: Term>(lanes: Neon, query: &[f32], rows: &[&[f16]], sums: &mut [f32]) {
            lanes::sums::<Neon, T>(lanes, query, rows, sums);
        }
        // SAFETY: a `Neon` exists only where `detect` found NEON.
        unsafe { with_features::<T>(self, query, rows, sums) }
    }
}

impl Lanes for Neon {
    type Vector = float32x4_t;
    const WIDTH: usize = 4;

    #[inline(always)]
    fn load(self, values: &[f32]) -> float32x4_t {
        let values = &values[..Self::WIDTH];
        // SAFETY: `self` proves NEON; the slice above has 4 values.
        unsafe { vld1q_f32(values.as_ptr()) }
    }

    #[inline(always)]
    fn widen(self, values: &[f16]) -> float32x4_t {
        let values = &values[..Self::WIDTH];
        let widened;
        // SAFETY: `self` proves NEON, which includes this conversion; the slice above has 4 values, which are
        // represented as u16.
        unsafe {
            let bits: uint16x4_t = vld1_u16(values.as_ptr().cast());
            asm!(
                "fcvtl {0:v}.4s, {1:v}.4h",
                out(vreg) widened,
                in(vreg) bits,
                options(pure, nomem, nostack, preserves_flags),
            );
        }
        widened
    }

    #[inline(always)]
    fn multiply_add(self, a: float32x4_t, b: float32x4_t, sum: float32x4_t) -> float32x4_t {
        // SAFETY: `self` proves NEON.
        unsafe { vfmaq_f32(sum, a, b) }
    }

    #[inline(always)]
    fn distance_add(self, a: float32x4_t, b: float32x4_t, sum: float32x4_t) -> float32x4_t {
        // SAFETY: `self` proves NEON.
        unsafe { vaddq_f32(vabdq_f32(a, b), sum) }
    }

    #[inline(always)]
    fn total(self, vector: float32x4_t) -> f32 {
        // SAFETY: `self` proves NEON.
        unsafe { vaddvq_f32(vector) }
    }
}
