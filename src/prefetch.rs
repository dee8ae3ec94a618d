//! Prefetch hints to the processor.

#![allow(unsafe_code)]

/// Bytes fetched by one prefetch.
pub(crate) const CACHE_LINE_BYTES: usize = 64;

/// Into every cache (`_MM_HINT_T0`).
const NEAREST: i32 = 3;
/// Into all caches except the nearest (`_MM_HINT_T1`).
const SECOND: i32 = 2;

/// Prefetches the cache line at `place`, which need not be our memory.
#[inline(always)]
pub(crate) fn prefetch<T>(place: *const T) {
    ask::<T, NEAREST>(place);
}

/// The same for memory that is needed later: it stays in a more distant cache, and leaves the nearest to more
/// urgent data.
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
    // On other architectures the intrinsic is not stable.
    #[cfg(not(target_arch = "x86_64"))]
    let _ = place;
}
