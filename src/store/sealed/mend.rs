//! Puts flipped bits and bytes right, by the checksum of their page.
//!
//! A CRC is linear: the difference between the stored checksum of a page and that of its bytes depends only
//! on which bits are wrong, so it tells which byte was changed, if only one was. Worse damage can look the
//! same: on a full page, in one of 256 cases like a changed byte, and in one of 8,192 like a changed bit. So
//! a changed bit is put right on any page, and a changed byte only on pages whose numbers lead to others:
//! there it would cost all documents, and wrong numbers are noticed when they are used.

use super::SealedFile;
use crate::store::{
    error::{Result, StoreError},
    layout::{sealed::*, segment::STRUCTURE},
};

impl SealedFile {
    /// Puts right, in memory, each damaged page in which one bit is wrong, and each one with numbers that
    /// lead to others in which one byte is.
    ///
    /// # Errors
    ///
    /// Failures of reading.
    pub(super) fn mend(&mut self) -> Result<()> {
        let mut right = Vec::new();
        for page in 0..self.pages() {
            match self.check_page(page) {
                Err(StoreError::Corrupt { .. }) => {}
                checked => {
                    checked?;
                    continue;
                }
            }
            let Some((bytes, checksum)) = self.unchecked_page(page)? else { continue };
            let Some((place, value)) = flipped(&bytes, checksum) else { continue };
            let is_bit = (bytes[place] ^ value).is_power_of_two();
            if is_bit || STRUCTURE.iter().any(|name| !self.overlap(page, *name).is_empty()) {
                right.push(((page * PAGE_BYTES) as usize + place, value));
                self.trust_page(page);
            }
        }
        if !right.is_empty() {
            self.patch(&right)?;
        }
        Ok(())
    }
}

/// The place and the value of the only byte that gives bytes this checksum in the place of the present one.
fn flipped(bytes: &[u8], checksum: u32) -> Option<(usize, u8)> {
    // The difference that a byte makes if nothing follows, and which byte makes one with given upper bits.
    let alone: [u32; 256] =
        std::array::from_fn(|byte| crc32fast::hash(&[byte as u8]) ^ crc32fast::hash(&[0]));
    let mut by_upper = [0u8; 256];
    (0..=u8::MAX).zip(alone).for_each(|(byte, difference)| by_upper[(difference >> 24) as usize] = byte);
    let mut difference = crc32fast::hash(bytes) ^ checksum;
    let mut found = None;
    for (place, byte) in bytes.iter().enumerate().rev() {
        let change = by_upper[(difference >> 24) as usize];
        if change != 0 && alone[usize::from(change)] == difference {
            match found {
                None => found = Some((place, byte ^ change)),
                Some(_) => return None,
            }
        }
        // As it was one byte earlier: each byte shifts the difference to the right.
        difference = (difference ^ alone[usize::from(change)]) << 8 | u32::from(change);
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_flipped_byte_is_found(
            bytes in prop::collection::vec(any::<u8>(), 1..3000),
            place in any::<prop::sample::Index>(),
            change in 1u8..,
        ) {
            let checksum = crc32fast::hash(&bytes);
            let place = place.index(bytes.len());
            let mut damaged = bytes.clone();
            damaged[place] ^= change;
            prop_assert_eq!(flipped(&damaged, checksum), Some((place, bytes[place])));
            prop_assert_eq!(flipped(&bytes, checksum), None);
        }
    }

    #[test]
    fn worse_damage_seldom_looks_like_it() {
        let page: Vec<u8> = (0..PAGE_BYTES).map(|i| (i * i % 251) as u8).collect();
        let checksum = crc32fast::hash(&page);
        let found = (0..300usize).filter(|n| {
            let mut damaged = page.clone();
            damaged[n * 200..n * 200 + 512].fill(0);
            flipped(&damaged, checksum).is_some()
        });
        assert!(found.count() < 10);
    }
}
