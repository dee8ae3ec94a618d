//! Sets of rows, one bit for each.

use std::ops::Range;

/// Words that hold this many bits.
pub(crate) fn words(rows: usize) -> usize {
    rows.div_ceil(64)
}

/// No rows.
pub(crate) fn none(rows: usize) -> Vec<u64> {
    vec![0; words(rows)]
}

pub(crate) fn has(bits: &[u64], row: usize) -> bool {
    bits.get(row / 64).is_some_and(|word| word >> (row % 64) & 1 == 1)
}

/// All of `rows` rows.
pub(crate) fn all(rows: usize) -> Vec<u64> {
    let mut all = vec![u64::MAX; words(rows)];
    if let Some(last) = all.last_mut()
        && !rows.is_multiple_of(64)
    {
        *last = (1 << (rows % 64)) - 1;
    }
    all
}

/// Adds rows, which must be among those of the set.
pub(crate) fn set(bits: &mut [u64], rows: &[u32]) {
    for &row in rows {
        if let Some(word) = bits.get_mut(row as usize / 64) {
            *word |= 1 << (row % 64);
        }
    }
}

/// Changes each word by the one of another set.
pub(crate) fn zip(bits: &mut [u64], other: &[u64], change: impl Fn(u64, u64) -> u64) {
    for (word, &other) in bits.iter_mut().zip(other) {
        *word = change(*word, other);
    }
}

/// A range of rows as a set of its own.
pub(crate) fn slice(bits: &[u64], range: Range<usize>) -> Vec<u64> {
    let (first, shift) = (range.start / 64, range.start % 64);
    let word = |place: usize| bits.get(place).copied().unwrap_or(0);
    let mut slice: Vec<u64> = (first..first + words(range.len()))
        .map(|place| match shift {
            0 => word(place),
            _ => word(place) >> shift | word(place + 1) << (64 - shift),
        })
        .collect();
    if let Some(last) = slice.last_mut()
        && !range.len().is_multiple_of(64)
    {
        *last &= (1 << (range.len() % 64)) - 1;
    }
    slice
}

/// Number of rows in both of two sets.
pub(crate) fn shared(bits: &[u64], other: &[u64]) -> usize {
    bits.iter().zip(other).map(|(a, b)| (a & b).count_ones() as usize).sum()
}

pub(crate) fn count(bits: &[u64]) -> usize {
    bits.iter().map(|word| word.count_ones() as usize).sum()
}

/// The rows of a set, ascending.
pub(crate) fn rows(bits: &[u64]) -> impl Iterator<Item = u32> + '_ {
    bits.iter().zip((0..).step_by(64)).flat_map(|(&word, first)| {
        let mut rest = word;
        std::iter::from_fn(move || {
            (rest != 0).then(|| {
                let bit = rest.trailing_zeros();
                rest &= rest - 1;
                first + bit
            })
        })
    })
}
