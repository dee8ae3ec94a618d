//! Bounds on a block's scores that hold for all parameters and average lengths.
//!
//! A score increases with the count and decreases with the length, so no posting of a block scores more than
//! the best pair on the Pareto frontier of (high count, low length). Three pairs are kept; neighbours are
//! merged into the higher count and the lower length, which can only raise the bound. Block maxima are from
//! Ding and Suel (SIGIR 2011); pairs instead of scores are from Lucene's impacts, which keep the whole
//! frontier.

/// Pairs kept per block.
pub(super) const PAIRS: usize = 3;
/// Bits of a length bound below the leading one.
const MANTISSA: u32 = 4;
const HIDDEN: u32 = 1 << MANTISSA;

/// The code of a length: the highest code whose length does not exceed it.
///
/// A minifloat that rounds down: 4 bits of mantissa after a hidden one and 4 of exponent, exact up to 32,
/// then off by less than a sixteenth, and 507,904 for everything above.
pub(super) fn code(length: u32) -> u8 {
    if length < HIDDEN {
        return length as u8;
    }
    let shift = length.ilog2() - MANTISSA;
    let code = ((shift + 1) << MANTISSA) + ((length >> shift) - HIDDEN);
    code.min(u32::from(u8::MAX)) as u8
}

/// The length of a code; increases with it.
pub(super) fn length(code: u8) -> u32 {
    let (exponent, mantissa) = (u32::from(code) >> MANTISSA, u32::from(code) & (HIDDEN - 1));
    match exponent {
        0 => mantissa,
        _ => (HIDDEN + mantissa) << (exponent - 1),
    }
}

/// The bounds of postings with these counts and lengths: count, with 255 for all above 254, and length code;
/// a count of 0 marks an unused pair.
pub(super) fn pairs(postings: impl Iterator<Item = (u32, u32)>) -> [[u8; 2]; PAIRS] {
    // The highest count for each length code.
    let mut highest = [0u8; 256];
    let (mut sum, mut postings_seen) = (0u64, 0u64);
    for (count, length) in postings {
        let slot = &mut highest[usize::from(code(length))];
        *slot = (*slot).max(count.clamp(1, 255) as u8);
        sum += u64::from(length);
        postings_seen += 1;
    }
    // Longer texts belong to the frontier only with more occurrences.
    let mut frontier = [[0u8; 2]; 256];
    let mut kept = 0;
    for (code, &count) in (0..=u8::MAX).zip(&highest) {
        if kept == 0 && count > 0 || kept > 0 && count > frontier[kept - 1][0] {
            frontier[kept] = [count, code];
            kept += 1;
        }
    }
    // Merges the pairs that raise the bound least with the default parameters; any choice is a valid bound.
    let average = (sum as f64 / postings_seen.max(1) as f64).max(1.0);
    let score = |[count, code]: [u8; 2]| {
        let relative = f64::from(length(code)) / average;
        f64::from(count) / (f64::from(count) + 1.2 * (0.25 + 0.75 * relative))
    };
    let join = |low: [u8; 2], high: [u8; 2]| [high[0], low[1]];
    while kept > PAIRS {
        let raised = |at: &usize| {
            let (low, high) = (frontier[*at], frontier[*at + 1]);
            score(join(low, high)) - score(low).max(score(high))
        };
        let least = (0..kept - 1).min_by(|a, b| raised(a).total_cmp(&raised(b))).unwrap_or(0);
        frontier[least] = join(frontier[least], frontier[least + 1]);
        frontier.copy_within(least + 2..kept, least + 1);
        kept -= 1;
    }
    std::array::from_fn(|i| if i < kept { frontier[i] } else { [0; 2] })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn length_codes_round_down_and_rise() {
        for exact in 0..=32 {
            assert_eq!(length(code(exact)), exact);
        }
        for value in (0..100_000).chain([507_903, 507_904, 600_000, u32::MAX]) {
            let down = length(code(value));
            assert!(down <= value && (u64::from(value - down) * 16 <= u64::from(value) || value > 524_287));
        }
        assert!((0..u8::MAX).all(|code| length(code) < length(code + 1)));
        assert!((0..=u8::MAX).all(|byte| code(length(byte)) == byte));
        assert_eq!(length(u8::MAX), 507_904);
    }

    #[test]
    fn frontiers_are_joined_to_bounds() {
        assert_eq!(pairs([(2, 10), (1, 20), (2, 30)].into_iter()), [[2, 10], [0; 2], [0; 2]]);
        assert_eq!(pairs([(1, 5), (2, 10), (3, 20)].into_iter()), [[1, 5], [2, 10], [3, 20]]);
        assert_eq!(pairs([(1000, 10)].into_iter()), [[255, 10], [0; 2], [0; 2]]);
        let many: Vec<_> = (1..30).map(|i| (i, i * 8)).collect();
        let joined = pairs(many.iter().copied());
        for (count, length_of) in many {
            let under = |pair: &[u8; 2]| u32::from(pair[0]) >= count && length(pair[1]) <= length_of;
            assert!(joined.iter().any(under));
        }
        assert_eq!(pairs(std::iter::empty()), [[0; 2]; PAIRS]);
    }
}
