//! Prefetch hints to the processor.

#![allow(unsafe_code)]

#[cfg(all(target_arch = "x86_64", not(miri)))]
use std::sync::LazyLock;

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

/// Whether the processor prefetches consecutive memory by itself even where a new page begins. Those of Intel
/// do not: with explicit prefetches, they score consecutive rows in two thirds of the time.
#[cfg(all(target_arch = "x86_64", not(miri)))]
pub(crate) fn predicts_next_page() -> bool {
    static IS_INTEL: LazyLock<bool> = LazyLock::new(|| {
        // SAFETY: every x86-64 processor has the instruction and this leaf of it.
        #[allow(unused_unsafe, reason = "safe in later compilers")]
        let vendor = unsafe { std::arch::x86_64::__cpuid(0) };
        [vendor.ebx, vendor.edx, vendor.ecx].map(u32::to_le_bytes).as_flattened() == b"GenuineIntel"
    });
    !*IS_INTEL
}

/// On other architectures nothing is prefetched, and Miri cannot ask.
#[cfg(not(all(target_arch = "x86_64", not(miri))))]
pub(crate) fn predicts_next_page() -> bool {
    true
}
