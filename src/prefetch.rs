//! A hint to the processor that memory will be read soon.

#![allow(unsafe_code)]

/// Bytes that one prefetch brings in.
pub(crate) const CACHE_LINE_BYTES: usize = 64;

/// Asks for the cache line that `place` points into, which need not be memory of ours.
#[inline(always)]
pub(crate) fn prefetch<T>(place: *const T) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: SSE is part of x86-64, and a prefetch of any address is harmless.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(place.cast()) }
    }
    // Elsewhere the intrinsic is not stable.
    #[cfg(not(target_arch = "x86_64"))]
    let _ = place;
}

/// The same for what is not read so soon: it stays in a cache further off, and leaves the nearest to what is.
#[inline(always)]
pub(crate) fn prefetch_for_later<T>(place: *const T) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T1, _mm_prefetch};
        // SAFETY: as above.
        unsafe { _mm_prefetch::<_MM_HINT_T1>(place.cast()) }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = place;
}
