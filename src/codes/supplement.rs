//! The layout of a row's three additional bits in its record, and the product of a query with them.

/// Dimensions packed together: eight words of eight bytes each, packed into three words.
pub(crate) const UNIT: usize = 64;
const WORD: usize = size_of::<u64>();
pub(crate) const UNIT_BYTES: usize = 3 * WORD;
/// Bits per dimension.
const BITS: u32 = 3;
/// The highest level.
pub(super) const HIGHEST: u8 = (1 << BITS) - 1;
/// The factors of the estimate and of its error, and the shift.
const NUMBERS: usize = 3;
const NUMBER_BYTES: usize = size_of::<f32>();

/// Each byte of a word.
const LOW_BIT: u64 = 0x0101_0101_0101_0101;
const LOW_TWO: u64 = 3 * LOW_BIT;
const LOW_THREE: u64 = 7 * LOW_BIT;

/// Size of a row's record: its bits, then its factors.
pub(crate) fn record_bytes(dim: usize) -> usize {
    dim.div_ceil(UNIT) * UNIT_BYTES + NUMBERS * NUMBER_BYTES
}

/// Packs levels from 0 to 7 into the bits of a record.
///
/// # Shapes
/// `levels` `[a multiple of UNIT]`, `record` `[record_bytes]`.
pub(super) fn pack(levels: &[u8], numbers: [f32; NUMBERS], record: &mut [u8]) {
    let (units, _) = levels.as_chunks::<UNIT>();
    let (bits, rest) = record.split_at_mut(units.len() * UNIT_BYTES);
    for (unit, out) in units.iter().zip(bits.chunks_exact_mut(UNIT_BYTES)) {
        let (words, _) = unit.as_chunks::<WORD>();
        let word = |at: usize| u64::from_le_bytes(words[at]);
        // The seventh and the eighth word are spread over the two bits that the preceding pairs leave free.
        let (seventh, eighth) = (word(6), word(7));
        let packed = [
            word(0) | word(1) << 3 | (seventh & LOW_TWO) << 6,
            word(2) | word(3) << 3 | (seventh >> 2 & LOW_BIT) << 6 | (eighth >> 2 & LOW_BIT) << 7,
            word(4) | word(5) << 3 | (eighth & LOW_TWO) << 6,
        ];
        for (word, out) in packed.iter().zip(out.chunks_exact_mut(WORD)) {
            out.copy_from_slice(&word.to_le_bytes());
        }
    }
    for (number, out) in numbers.iter().zip(rest.chunks_exact_mut(NUMBER_BYTES)) {
        out.copy_from_slice(&number.to_le_bytes());
    }
}

/// The levels of a unit.
fn unpack(unit: &[u8; UNIT_BYTES]) -> [u8; UNIT] {
    let word = |at: usize| {
        let mut word = [0; WORD];
        word.copy_from_slice(&unit[at * WORD..(at + 1) * WORD]);
        u64::from_le_bytes(word)
    };
    let (a, b, c) = (word(0), word(1), word(2));
    let words = [
        a & LOW_THREE,
        a >> 3 & LOW_THREE,
        b & LOW_THREE,
        b >> 3 & LOW_THREE,
        c & LOW_THREE,
        c >> 3 & LOW_THREE,
        a >> 6 & LOW_TWO | (b >> 6 & LOW_BIT) << 2,
        c >> 6 & LOW_TWO | (b >> 7 & LOW_BIT) << 2,
    ];
    let mut levels = [0; UNIT];
    for (word, out) in words.iter().zip(levels.chunks_exact_mut(WORD)) {
        out.copy_from_slice(&word.to_le_bytes());
    }
    levels
}

/// The bits of a record, and its factors.
///
/// # Shapes
/// `record` `[record_bytes]`.
pub(crate) fn split(record: &[u8]) -> (&[u8], [f32; NUMBERS]) {
    let (bits, rest) = record.split_at(record.len().saturating_sub(NUMBERS * NUMBER_BYTES));
    let (numbers, _) = rest.as_chunks::<NUMBER_BYTES>();
    (bits, std::array::from_fn(|at| numbers.get(at).map_or(f32::NAN, |bytes| f32::from_le_bytes(*bytes))))
}

/// The product of a query with the levels of a record.
///
/// # Shapes
/// `query` `[a multiple of UNIT]`, `bits` of a record.
pub(super) fn product(query: &[i8], bits: &[u8]) -> i32 {
    let (units, _) = bits.as_chunks::<UNIT_BYTES>();
    let levels = units.iter().flat_map(unpack);
    query.iter().zip(levels).map(|(x, level)| i32::from(*x) * i32::from(level)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_come_back_from_their_bits() {
        let levels: Vec<u8> = (0..3 * UNIT).map(|i| (i * i + i / 7) as u8 % 8).collect();
        let mut record = vec![0xff; record_bytes(levels.len())];
        pack(&levels, [1.5, -2.0, 0.25], &mut record);
        let (bits, numbers) = split(&record);
        assert_eq!(numbers, [1.5, -2.0, 0.25]);
        for place in 0..levels.len() {
            let one: Vec<i8> = (0..levels.len()).map(|i| i8::from(i == place)).collect();
            assert_eq!(product(&one, bits), i32::from(levels[place]), "{place}");
        }
    }

    #[test]
    fn records_have_three_bits_a_dimension_and_three_numbers() {
        assert_eq!([64, 65, 384, 768].map(record_bytes), [36, 60, 156, 300]);
    }
}
