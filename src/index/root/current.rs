//! `CURRENT`: which model of an index is in service.

use std::ops::Range;

use crate::disk::names;
use crate::store::{Damage, FORMAT_VERSION, StoreError, check_version, unique_id};

/// Identifies a file as a `CURRENT`.
const MAGIC: [u8; 8] = *b"\x8aehc\r\n\x1a\n";
const AT_MAGIC: Range<usize> = 0..8;
const AT_VERSION: Range<usize> = 8..12;
const AT_SERVING: Range<usize> = 12..16;
const AT_KEPT: Range<usize> = 16..20;
const AT_UNFINISHED: Range<usize> = 20..24;
const AT_LAST: Range<usize> = 24..28;
const AT_ZEROS: Range<usize> = 28..32;
const AT_ID: Range<usize> = 32..48;
const AT_RESERVED: Range<usize> = 48..60;
const AT_CRC: Range<usize> = 60..64;
/// Size of the file. All later versions keep it, the magic, and the positions of version and checksum, so
/// that "newer" and "damaged" stay distinguishable.
pub(super) const CURRENT_BYTES: usize = AT_CRC.end;

/// The number of the first model of an index.
pub(crate) const FIRST_MODEL: u32 = 1;
/// One model per second for a century; leaves headroom for additions to a number.
const MOST_MODEL: u32 = u32::MAX - 2;

/// The models of an index. Each number names a directory in `models/`; a directory not named here does not
/// belong to the index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Current {
    /// Unique to this index: a copy made by [`Index::snapshot`](crate::Index::snapshot) has another one.
    pub(crate) id: [u8; 16],
    /// The model that searches and writes go to.
    pub(crate) serving: u32,
    /// The previous model, kept for rollback.
    pub(crate) kept: Option<u32>,
    /// A model without any promise: it is being filled, or being removed.
    pub(crate) unfinished: Option<u32>,
    /// The highest number ever used: numbers are never reused, so that a reader never mistakes one model's
    /// store for another's.
    pub(crate) last: u32,
}

impl Current {
    /// For an index with one model; `last` is the highest number that any of its models had.
    pub(super) fn of_one(serving: u32, last: u32) -> Self {
        Self { id: unique_id(), serving, kept: None, unfinished: None, last }
    }

    /// The serving model, then the others.
    pub(crate) fn all(&self) -> impl Iterator<Item = u32> + use<> {
        [self.serving].into_iter().chain(self.others())
    }

    /// All models except the serving one.
    pub(crate) fn others(&self) -> impl Iterator<Item = u32> + use<> {
        [self.kept, self.unfinished].into_iter().flatten()
    }

    pub(super) fn encode(&self) -> [u8; CURRENT_BYTES] {
        let mut bytes = [0; CURRENT_BYTES];
        bytes[AT_MAGIC].copy_from_slice(&MAGIC);
        bytes[AT_VERSION].copy_from_slice(&FORMAT_VERSION.to_le_bytes());
        bytes[AT_SERVING].copy_from_slice(&self.serving.to_le_bytes());
        // Number 0 is never used.
        bytes[AT_KEPT].copy_from_slice(&self.kept.unwrap_or(0).to_le_bytes());
        bytes[AT_UNFINISHED].copy_from_slice(&self.unfinished.unwrap_or(0).to_le_bytes());
        bytes[AT_LAST].copy_from_slice(&self.last.to_le_bytes());
        bytes[AT_ID].copy_from_slice(&self.id);
        let crc = crc32fast::hash(&bytes[..AT_CRC.start]);
        bytes[AT_CRC].copy_from_slice(&crc.to_le_bytes());
        bytes
    }

    /// Decodes the bytes of a `CURRENT`; accepts any bytes.
    ///
    /// # Errors
    /// [`StoreError::Corrupt`] and [`StoreError::UnsupportedVersion`].
    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, StoreError> {
        let corrupt = |detail| StoreError::corrupt(names::CURRENT, detail);
        let found = bytes.len() as u64;
        let Some((head, rest)) = bytes.split_first_chunk::<CURRENT_BYTES>() else {
            return Err(corrupt(Damage::TooShort { needed: CURRENT_BYTES as u64, found }));
        };
        if head[AT_MAGIC] != MAGIC {
            return Err(corrupt(Damage::Magic));
        }
        // Checked before the version: the checksum's position never moves, so a damaged version is reported
        // as damage.
        if crc32fast::hash(&head[..AT_CRC.start]) != number(head, AT_CRC) {
            return Err(corrupt(Damage::Checksum { what: "the file", number: 0 }));
        }
        check_version(names::CURRENT, number(head, AT_VERSION))?;
        if !rest.is_empty() {
            let expected = CURRENT_BYTES as u64;
            return Err(corrupt(Damage::Disagreement { what: "its length", expected, found }));
        }
        let field = |field, found: u32| corrupt(Damage::Field { field, found: found.into() });
        if let Some(&byte) = [AT_ZEROS, AT_RESERVED].into_iter().flat_map(|at| &head[at]).find(|b| **b != 0) {
            return Err(field("a reserved byte", byte.into()));
        }
        let other = |at| Some(number(head, at)).filter(|&number| number != 0);
        let mut id = [0; 16];
        id.copy_from_slice(&head[AT_ID]);
        let own = Self {
            id,
            serving: number(head, AT_SERVING),
            kept: other(AT_KEPT),
            unfinished: other(AT_UNFINISHED),
            last: number(head, AT_LAST),
        };
        if own.last > MOST_MODEL {
            return Err(field("the highest number of a model", own.last));
        }
        if !(1..=own.last).contains(&own.serving) {
            return Err(field("the number of the serving model", own.serving));
        }
        if let Some(kept) = own.kept.filter(|&kept| kept == own.serving || kept > own.last) {
            return Err(field("the number of the kept model", kept));
        }
        let taken = |number| number == own.serving || Some(number) == own.kept || number > own.last;
        if let Some(unfinished) = own.unfinished.filter(|&number| taken(number)) {
            return Err(field("the number of the unfinished model", unfinished));
        }
        Ok(own)
    }

    /// With another unfinished model, under a number that this index never used; the first such number that
    /// `is_free`, since a foreign directory may have that name.
    ///
    /// # Errors
    /// Those of `is_free`; [`StoreError::Corrupt`] if all numbers are used up, which only a forged file can
    /// cause.
    pub(crate) fn with_new(
        self,
        mut is_free: impl FnMut(u32) -> Result<bool, StoreError>,
    ) -> Result<(u32, Self), StoreError> {
        for number in self.last + 1..=MOST_MODEL {
            if is_free(number)? {
                return Ok((number, Self { unfinished: Some(number), last: number, ..self }));
            }
        }
        let detail = Damage::Field { field: "the highest number of a model", found: self.last.into() };
        Err(StoreError::corrupt(names::CURRENT, detail))
    }
}

/// Whether bytes are the beginning of a `CURRENT`, or what a power failure may leave of one.
pub(super) fn may_be_torn(bytes: &[u8]) -> bool {
    let zeros = bytes.iter().all(|byte| *byte == 0);
    bytes.len() <= CURRENT_BYTES && (zeros || bytes.starts_with(&MAGIC))
}

fn number(head: &[u8; CURRENT_BYTES], at: Range<usize>) -> u32 {
    let mut field = [0; 4];
    field.copy_from_slice(&head[at]);
    u32::from_le_bytes(field)
}

#[cfg(feature = "fuzzing")]
#[path = "../../../fuzz/inside/current.rs"]
mod fuzzing;
#[cfg(feature = "fuzzing")]
pub use fuzzing::fuzz_current;

#[cfg(test)]
mod tests {
    use super::*;

    fn current() -> Current {
        Current { id: [0xab; 16], serving: 7, kept: Some(5), unfinished: Some(9), last: 9 }
    }

    /// The bytes of `docs/format.md`, written out once.
    const GOLDEN: [u8; 64] = [
        0x8a, b'e', b'h', b'c', b'\r', b'\n', 0x1a, b'\n', 1, 0, 0, 0, 7, 0, 0, 0, 5, 0, 0, 0, 9, 0, 0, 0, 9,
        0, 0, 0, 0, 0, 0, 0, 0xab, 0xab, 0xab, 0xab, 0xab, 0xab, 0xab, 0xab, 0xab, 0xab, 0xab, 0xab, 0xab,
        0xab, 0xab, 0xab, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
    ];

    fn sealed(mut bytes: Vec<u8>) -> Vec<u8> {
        let crc = crc32fast::hash(&bytes[..60]);
        bytes[60..64].copy_from_slice(&crc.to_le_bytes());
        bytes
    }

    #[test]
    fn golden_bytes() {
        let golden = sealed(GOLDEN.to_vec());
        assert_eq!(current().encode().as_slice(), golden);
        assert_eq!(Current::decode(&golden).unwrap(), current());
        let first = || Current::of_one(FIRST_MODEL, FIRST_MODEL);
        let one = first();
        assert_eq!(Current::decode(&one.encode()).unwrap(), one);
        assert_ne!(one.id, first().id);
    }

    #[test]
    fn every_flipped_bit_and_every_cut_is_refused() {
        let bytes = current().encode();
        let refused = |bytes: &[u8]| match Current::decode(bytes) {
            Err(StoreError::Corrupt { file, .. }) => file == names::CURRENT,
            _ => false,
        };
        for bit in 0..bytes.len() * 8 {
            let mut flipped = bytes;
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert!(refused(&flipped), "bit {bit}");
        }
        for len in 0..bytes.len() {
            assert!(refused(&bytes[..len]), "{len} bytes");
        }
        assert!(refused(&[bytes.as_slice(), &[0]].concat()));
    }

    #[test]
    fn impossible_fields_are_refused() {
        let with = |at: Range<usize>, value: u32| {
            let mut bytes = current().encode().to_vec();
            bytes[at].copy_from_slice(&value.to_le_bytes());
            Current::decode(&sealed(bytes))
        };
        for (at, value) in [
            (AT_SERVING, 0),
            (AT_SERVING, 5),
            (AT_SERVING, 10),
            (AT_KEPT, 7),
            (AT_KEPT, 9),
            (AT_KEPT, 10),
            (AT_UNFINISHED, 7),
            (AT_UNFINISHED, 5),
            (AT_UNFINISHED, 10),
            (AT_LAST, 8),
            (AT_LAST, u32::MAX - 1),
            (AT_ZEROS, 1),
            (48..52, 4),
            (48..52, 1 << 10),
            (52..56, 1),
        ] {
            let refused = matches!(with(at.clone(), value), Err(StoreError::Corrupt { .. }));
            assert!(refused, "{value} at {at:?}");
        }
        for version in [0, FORMAT_VERSION + 1, u32::MAX] {
            match with(AT_VERSION, version) {
                Err(StoreError::UnsupportedVersion { found, .. }) => assert_eq!(found, version),
                other => panic!("{other:?}"),
            }
        }
        assert_eq!(with(AT_KEPT, 0).unwrap().kept, None);
    }

    #[test]
    fn numbers_are_given_out_once() {
        let (number, next) = current().with_new(|number| Ok(number != 10)).unwrap();
        assert_eq!((number, next.unfinished, next.last), (11, Some(11), 11));
        let last = Current { last: MOST_MODEL, ..current() };
        assert!(matches!(last.with_new(|_| Ok(true)), Err(StoreError::Corrupt { .. })));
    }
}
