//! The memory of packed rows.

use std::ops::Range;
use std::sync::Arc;

use bytemuck::Pod;
use memmap2::MmapMut;

use crate::prefetch::CACHE_LINE_BYTES;

/// The memory of one of several sets, next to that of the others.
#[derive(Debug)]
pub(super) struct SetMemory<T> {
    memory: Arc<Memory<T>>,
    range: Range<usize>,
}

impl<T: Pod> SetMemory<T> {
    /// Allocates a part for each set, of `size` zeros, which `fill` replaces by its values; returns the
    /// results of `fill`.
    pub fn side_by_side<S, R, const N: usize>(
        sets: [S; N],
        size: impl Fn(&S) -> usize,
        mut fill: impl FnMut(S, &mut [T]) -> R,
    ) -> [(Self, R); N] {
        let mut memory = Memory::zeroed(sets.iter().map(&size).sum());
        let (mut rest, mut start) = (memory.values_mut(), 0);
        let filled = sets.map(|set| {
            let (own, others) = std::mem::take(&mut rest).split_at_mut(size(&set));
            rest = others;
            let range = start..start + own.len();
            start = range.end;
            (range, fill(set, own))
        });
        let memory = Arc::new(memory);
        filled.map(|(range, given)| (Self { memory: Arc::clone(&memory), range }, given))
    }

    pub fn values(&self) -> &[T] {
        &self.memory.values()[self.range.clone()]
    }
}

/// Zeroed memory to be filled, aligned to a cache line; in large pages if it is big enough, because a
/// sequential read once per query waits for address translation nearly as long as for memory.
#[derive(Debug)]
struct Memory<T> {
    place: Place<T>,
    /// The offset of a cache line.
    start: usize,
    len: usize,
}

#[derive(Debug)]
enum Place<T> {
    Heap(Vec<T>),
    Pages(MmapMut),
}

impl<T: Pod> Memory<T> {
    fn zeroed(len: usize) -> Self {
        if let Some((pages, start)) = large_pages(len * size_of::<T>()) {
            return Self { place: Place::Pages(pages), start: start / size_of::<T>(), len };
        }
        let spare = CACHE_LINE_BYTES / size_of::<T>();
        let values = vec![T::zeroed(); len + spare];
        let start = values.as_ptr().align_offset(CACHE_LINE_BYTES).min(spare);
        Self { place: Place::Heap(values), start, len }
    }

    fn values(&self) -> &[T] {
        let values = match &self.place {
            Place::Heap(values) => values,
            Place::Pages(pages) => bytemuck::cast_slice(pages),
        };
        &values[self.start..][..self.len]
    }

    fn values_mut(&mut self) -> &mut [T] {
        let values = match &mut self.place {
            Place::Heap(values) => values,
            Place::Pages(pages) => bytemuck::cast_slice_mut(pages),
        };
        &mut values[self.start..][..self.len]
    }
}

/// A zeroed mapping, and the offset of `len_bytes` bytes in it with large pages if the system grants them;
/// `None` if the size is too small.
#[cfg(all(target_os = "linux", not(miri)))]
fn large_pages(len_bytes: usize) -> Option<(MmapMut, usize)> {
    use memmap2::Advice;

    const LARGE_PAGE_BYTES: usize = 2 << 20;
    let rounded = len_bytes.next_multiple_of(LARGE_PAGE_BYTES);
    // A last page that is not nearly full stays in small pages.
    let large = if rounded - len_bytes <= len_bytes / 4 { rounded } else { rounded - LARGE_PAGE_BYTES };
    if large == 0 {
        return None;
    }
    // Untouched memory takes no space.
    let pages = MmapMut::map_anon(rounded + LARGE_PAGE_BYTES).ok()?;
    let start = pages.as_ptr().align_offset(LARGE_PAGE_BYTES).min(LARGE_PAGE_BYTES);
    pages.advise_range(Advice::HugePage, start, large).ok()?;
    Some((pages, start))
}

#[cfg(not(all(target_os = "linux", not(miri))))]
fn large_pages(_: usize) -> Option<(MmapMut, usize)> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn holds_so_many_zeros_from_a_cache_line_on() {
        // Small, nearly a large page, slightly more than one, several.
        for len in [0, 1, 1000, 500_000, 530_000, 1_900_000] {
            let mut memory = Memory::<f32>::zeroed(len);
            assert_eq!(memory.values().as_ptr().align_offset(CACHE_LINE_BYTES), 0);
            assert_eq!(memory.values().len(), len);
            assert!(memory.values().iter().all(|value| *value == 0.0));
            if let [first, .., last] = memory.values_mut() {
                (*first, *last) = (1.0, 2.0);
                assert_eq!((memory.values()[0], memory.values()[len - 1]), (1.0, 2.0));
            }
            assert_eq!(Memory::<i8>::zeroed(len).values().len(), len);
        }
    }
}
