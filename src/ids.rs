//! Identifiers shared by every module, and the only byte codecs they have.

use std::fmt;

/// A leaf of the tree: its path read as base-B digits, root first.
///
/// With branching factor B and height H, values run from 0 to `B^H - 1`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize)]
#[serde(transparent)]
pub struct LeafId(pub u32);

/// A row of the embedding matrix, counted from 0 in the order of insertion.
///
/// A row is written once and never reused for another document.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Row(pub u32);

/// The number of a commit: 0 for a fresh index, one more for each committed change.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Generation(pub u64);

macro_rules! key_codec {
    ($name:ident) => {
        impl $name {
            /// Big-endian, so that keys sort in numerical order.
            pub(crate) fn to_key(self) -> [u8; 4] {
                self.0.to_be_bytes()
            }

            /// Inverse of [`Self::to_key`].
            pub(crate) fn from_key(bytes: [u8; 4]) -> Self {
                Self(u32::from_be_bytes(bytes))
            }
        }
    };
}

key_codec!(LeafId);
key_codec!(Row);

impl LeafId {
    /// Position in a table indexed by leaf.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

impl Row {
    /// Number of bytes of the encoded form.
    pub(crate) const BYTES: usize = 4;

    /// Position in the matrix, in rows.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

impl Generation {
    /// The generation that the next commit creates.
    pub(crate) fn next(self) -> Self {
        Self(self.0 + 1)
    }
}

impl fmt::Debug for LeafId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "leaf#{}", self.0)
    }
}

impl fmt::Debug for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "row#{}", self.0)
    }
}

impl fmt::Debug for Generation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "gen#{}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_round_trip_and_sort_numerically() {
        for n in [0u32, 1, 255, 256, 70_000, u32::MAX] {
            assert_eq!(Row::from_key(Row(n).to_key()), Row(n));
            assert_eq!(LeafId::from_key(LeafId(n).to_key()), LeafId(n));
        }
        assert!(Row(255).to_key() < Row(256).to_key());
        assert_eq!(Generation(7).next(), Generation(8));
    }
}
