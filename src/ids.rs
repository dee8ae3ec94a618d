//! Identifiers shared by every module.

use std::fmt;

use serde::{Deserialize, Serialize, Serializer};

/// A leaf of the tree: its path read as base-B digits, root first.
///
/// With branching factor B and height H, values run from 0 to `B^H - 1`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct LeafId(pub u32);

/// A row of a view: first those of its sealed segments, then those of documents in memory.
///
/// Valid only with that view: in another generation, the document may have another row.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Row(pub u32);

/// The number of a commit: 0 for a new index, incremented by each committed change.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Generation(pub u64);

/// The identity of a model: SHA-256 over everything that determines its embeddings and leaves.
///
/// Written as 64 hexadecimal digits, in text and when serialised.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct ModelHash(pub [u8; 32]);

impl LeafId {
    /// Position in a table indexed by leaf.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

impl Row {
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

impl fmt::Display for ModelHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for ModelHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ModelHash({self})")
    }
}

impl Serialize for ModelHash {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_say_what_they_are() {
        assert_eq!(
            format!("{:?} {:?} {:?}", LeafId(3), Row(70_000), Generation(7).next()),
            "leaf#3 row#70000 gen#8"
        );
    }
}
