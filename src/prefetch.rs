//! A hint to the processor that memory will be read soon.

#![allow(unsafe_code)]

/// Bytes that one prefetch brings in.
pub(crate) const CACHE_LINE_BYTES: usize = 64;

/// Into every cache (`_MM_HINT_T0`).
const NEAREST: i32 = 3;
/// Into all but the nearest (`_MM_HINT_T1`).
const SECOND: i32 = 2;

/// Asks for the cache line that `place` points into, which need not be memory of ours.
#[inline(always)]
pub(crate) fn prefetch<T>(place: *const T) {
    ask::<T, NEAREST>(place);
}

/// The same for what is not read so soon: it stays in a cache further off, and leaves the nearest to what is.
#[inline(always)]
pub(crate) fn prefetch_for_later<T>(place: *const T) {
    ask::<T, SECOND>(place);
}

#[inline(always)]
fn ask<T, const HINT: i32>(place: *const T) {
    // SAFETY: SSE is part of x86-64, and a prefetch of any address is harmless.
    #[cfg(target_arch = "x86_64")]
    unsafe {
        std::arch::x86_64::_mm_prefetch::<HINT>(place.cast());
    }
    // Elsewhere the intrinsic is not stable.
    #[cfg(not(target_arch = "x86_64"))]
    let _ = place;
}
