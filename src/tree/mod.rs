//! The tree as arithmetic: "which path leads to this leaf, and which leaves
//! should this query visit?"
//!
//! A tree of height `H` and branching factor `B` has `B^H` leaves and no stored nodes: a node is the number
//! that its path spells in base `B`. The probabilities on the edges come from outside through
//! [`LevelScorer`], so this module depends neither on the model nor on the disk.
//!
//! Levels are counted from 0 (the children of the root); the paper's level `h`
//! is our `h - 1`.

mod beam;
mod leaves;

pub(crate) use beam::{Beam, LevelScorer, ScoredLeaf, beam_search};
pub(crate) use leaves::Load;
#[cfg(feature = "eval")]
pub(crate) use leaves::leaf_table;

use crate::ids::LeafId;

/// Largest number of leaves a tree may have.
pub const MAX_LEAVES: u32 = 1 << 24;

/// Largest height a tree may have: a binary tree of [`MAX_LEAVES`] leaves.
pub const MAX_HEIGHT: u32 = MAX_LEAVES.ilog2();

/// Branching factor and height of a valid tree.
///
/// # Paper
/// Section 3.3: `B` and `H`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TreeShape {
    branching_factor: u32,
    height: u32,
    leaves: u32,
}

/// Why a branching factor and a height do not make a tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TreeShapeError {
    /// The branching factor or the height is 0.
    #[error(
        "a tree needs a branching factor and a height of at least 1, \
         got branching factor {branching_factor} and height {height}"
    )]
    Zero {
        /// As given.
        branching_factor: u32,
        /// As given.
        height: u32,
    },
    /// A branching factor of 1 with more than one level, which would still be one leaf.
    #[error("a branching factor of 1 makes a single leaf, so use height 1 with it, not {height}")]
    Degenerate {
        /// As given.
        height: u32,
    },
    /// More than [`MAX_LEAVES`] leaves.
    #[error(
        "branching factor {branching_factor} and height {height} make more than \
         {MAX_LEAVES} leaves; lower one of them"
    )]
    TooManyLeaves {
        /// As given.
        branching_factor: u32,
        /// As given.
        height: u32,
    },
}

impl TreeShape {
    /// A single leaf, without any choice.
    pub(crate) const SINGLE_LEAF: Self = Self { branching_factor: 1, height: 1, leaves: 1 };

    /// Checks that `branching_factor` and `height` make a tree.
    ///
    /// Both are at least 1, a branching factor of 1 (a single leaf) goes only with
    /// height 1, and there are at most [`MAX_LEAVES`] leaves.
    ///
    /// # Errors
    /// [`TreeShapeError`] says which of these is violated.
    pub fn new(branching_factor: u32, height: u32) -> Result<Self, TreeShapeError> {
        if branching_factor == 0 || height == 0 {
            return Err(TreeShapeError::Zero { branching_factor, height });
        }
        if branching_factor == 1 && height > 1 {
            return Err(TreeShapeError::Degenerate { height });
        }
        match branching_factor.checked_pow(height) {
            Some(leaves) if leaves <= MAX_LEAVES => Ok(Self { branching_factor, height, leaves }),
            _ => Err(TreeShapeError::TooManyLeaves { branching_factor, height }),
        }
    }

    /// Children of every inner node: `B`.
    pub fn branching_factor(self) -> u32 {
        self.branching_factor
    }

    /// Number of levels: `H`, from 1 to [`MAX_HEIGHT`].
    pub fn height(self) -> u32 {
        self.height
    }

    /// Number of leaves: `B^H`, from 1 to [`MAX_LEAVES`].
    pub fn leaves(self) -> u32 {
        self.leaves
    }

    /// Whether `leaf` is one of this tree's; ask before using an id read from outside.
    pub fn contains(self, leaf: LeafId) -> bool {
        leaf.0 < self.leaves
    }

    /// The child taken at each level on the way to `leaf`, root first: `H` values below `B`.
    ///
    /// # Panics
    /// If the tree does not [contain](Self::contains) the leaf.
    pub fn path(self, leaf: LeafId) -> Vec<u32> {
        assert!(self.contains(leaf), "{leaf:?} is outside a tree of {} leaves", self.leaves);
        let mut path = vec![0; self.height as usize];
        self.write_digits(leaf.0, &mut path);
        path
    }

    /// The leaf that `path` leads to; the inverse of [`Self::path`].
    ///
    /// # Panics
    /// If `path` is not `H` long or names a child of `B` or more.
    pub fn leaf(self, path: &[u32]) -> LeafId {
        assert_eq!(path.len(), self.height as usize, "a path has one child per level");
        LeafId(path.iter().fold(0, |node, &child| {
            assert!(child < self.branching_factor, "child {child} of a node with {}", self.branching_factor);
            node * self.branching_factor + child
        }))
    }

    /// Path of `node`, which lies `path.len()` levels below the root.
    fn write_digits(self, mut node: u32, path: &mut [u32]) {
        for child in path.iter_mut().rev() {
            *child = node % self.branching_factor;
            node /= self.branching_factor;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_path_is_the_leaf_in_base_b_root_first() {
        let shape = TreeShape::new(10, 3).unwrap();
        assert_eq!(shape.leaves(), 1_000);
        assert_eq!(shape.path(LeafId(407)), [4, 0, 7]);
        assert_eq!(shape.leaf(&[4, 0, 7]), LeafId(407));
        assert!(shape.contains(LeafId(999)));
        assert!(!shape.contains(LeafId(1_000)));
    }

    #[test]
    fn unusable_shapes_are_refused_by_name() {
        assert!(matches!(TreeShape::new(0, 1), Err(TreeShapeError::Zero { .. })));
        assert!(matches!(TreeShape::new(2, 0), Err(TreeShapeError::Zero { .. })));
        assert!(matches!(TreeShape::new(1, 2), Err(TreeShapeError::Degenerate { height: 2 })));
        assert_eq!(TreeShape::new(2, MAX_HEIGHT).unwrap().leaves(), MAX_LEAVES);
        assert_eq!(TreeShape::new(1, 1).unwrap().leaves(), 1);
        for (branching_factor, height) in [(2, MAX_HEIGHT + 1), (MAX_LEAVES + 1, 1), (u32::MAX, u32::MAX)] {
            assert_eq!(
                TreeShape::new(branching_factor, height),
                Err(TreeShapeError::TooManyLeaves { branching_factor, height })
            );
        }
    }

    #[test]
    #[should_panic(expected = "outside a tree of 8 leaves")]
    fn the_path_of_a_foreign_leaf_is_a_caller_bug() {
        let _ = TreeShape::new(2, 3).unwrap().path(LeafId(8));
    }

    proptest! {
        #[test]
        fn leaf_inverts_path((branching_factor, height) in (2u32..=16, 1u32..=6), leaf: u32) {
            let shape = TreeShape::new(branching_factor, height).unwrap();
            let leaf = LeafId(leaf % shape.leaves());
            prop_assert_eq!(shape.leaf(&shape.path(leaf)), leaf);
        }
    }
}
