//! The character map of a `Precompiled` normalizer, checked before the tokenizer walks it.
//!
//! The map is a length in bytes, a double array of that length, and NUL-terminated replacements. A malicious
//! array could point outside itself or the replacements and make the walk panic.

use std::collections::VecDeque;

/// Longest key of a lookup: a grapheme of five bytes, or a character.
const LONGEST_KEY: usize = 5;

/// Largest growth factor of a text in bytes, at least 1.
///
/// # Errors
/// The problem with the map.
pub(super) fn growth(map: &str) -> Result<f64, String> {
    let bytes = base64::decode(map).map_err(|_| "the character map is not base64")?;
    let (size, rest) = bytes.split_first_chunk::<4>().ok_or("the character map is cut short")?;
    let size = u32::from_le_bytes(*size) as usize;
    let (array, replacements) =
        rest.split_at_checked(size / 4 * 4).ok_or("the character map is cut short")?;
    let replacements = std::str::from_utf8(replacements)
        .map_err(|_| "a replacement of the character map is not UTF-8".to_owned())?;
    let units: Vec<Unit> =
        array.chunks_exact(4).map(|b| Unit(u32::from_le_bytes([b[0], b[1], b[2], b[3]]))).collect();
    walk(&units, replacements)
}

/// Breadth first, so that each node is reached by its shortest key.
fn walk(units: &[Unit], replacements: &str) -> Result<f64, String> {
    let outside = || "the character map points outside itself".to_owned();
    let root = units.first().ok_or_else(outside)?.offset();
    let mut seen = vec![false; units.len()];
    let mut queue = VecDeque::from([(root, 0)]);
    let mut growth = 1f64;
    while let Some((node, depth)) = queue.pop_front() {
        for label in 1..=255 {
            let place = node ^ label;
            let unit = *units.get(place).ok_or_else(outside)?;
            if unit.label() != label {
                continue;
            }
            let child = place ^ unit.offset();
            let target = *units.get(child).ok_or_else(outside)?;
            if unit.has_leaf() {
                let replacement = replacements.get(target.value()..).ok_or_else(outside)?;
                let length = replacement.find('\0').unwrap_or(replacement.len());
                growth = growth.max(length as f64 / (depth + 1) as f64);
            }
            if depth + 1 < LONGEST_KEY && !std::mem::replace(&mut seen[child], true) {
                queue.push_back((child, depth + 1));
            }
        }
    }
    Ok(growth)
}

/// A unit of the double array, in the layout of the darts-clone library.
#[derive(Clone, Copy)]
struct Unit(u32);

impl Unit {
    fn has_leaf(self) -> bool {
        self.0 >> 8 & 1 == 1
    }

    fn value(self) -> usize {
        (self.0 & 0x7FFF_FFFF) as usize
    }

    fn label(self) -> usize {
        (self.0 & 0x8000_00FF) as usize
    }

    fn offset(self) -> usize {
        ((self.0 >> 10) as usize) << ((self.0 & 1 << 9) >> 6)
    }
}

#[cfg(test)]
mod tests {
    use base64::encode;

    use super::*;

    /// A map of one byte to one replacement, over an array of 512 units.
    fn map(label: u32, value: u32, replacements: &str) -> String {
        let mut units = [0u32; 512];
        units[0] = 256 << 10;
        // The child lies at 256 ^ label; its leaf at that ^ 1, which no label reaches from the root.
        units[(256 ^ label) as usize] = 1 << 10 | 1 << 8 | label;
        units[(256 ^ label ^ 1) as usize] = 1 << 31 | value;
        let mut bytes = 2048u32.to_le_bytes().to_vec();
        bytes.extend(units.iter().flat_map(|unit| unit.to_le_bytes()));
        bytes.extend(replacements.as_bytes());
        encode(&bytes)
    }

    #[test]
    fn growth_is_that_of_the_longest_replacement() {
        assert_eq!(growth(&map(b'a'.into(), 0, "xyz\0")), Ok(3.0));
        assert_eq!(growth(&map(b'a'.into(), 4, "xyz\0x\0")), Ok(1.0));
    }

    #[test]
    fn what_points_outside_is_refused() {
        for (value, replacements) in [(9, "xyz\0"), (1, "é\0")] {
            let error = growth(&map(b'a'.into(), value, replacements)).unwrap_err();
            assert!(error.contains("outside"), "{error}");
        }
        let mut short = 8u32.to_le_bytes().to_vec();
        short.extend([0; 8]);
        assert!(growth(&encode(&short)).unwrap_err().contains("outside"));
        assert!(growth(&encode(&short[..9])).unwrap_err().contains("short"));
        assert!(growth("AAAA").unwrap_err().contains("short"));
    }
}
