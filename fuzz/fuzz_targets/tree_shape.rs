//! Tree shapes and the arithmetic of paths and leaves.
#![no_main]

use arbitrary::Arbitrary;
use ehi::LeafId;
use ehi::model::TreeShape;
use libfuzzer_sys::fuzz_target;

#[derive(Arbitrary, Debug)]
struct Input {
    branching_factor: u32,
    height: u32,
    /// Small shapes are valid far more often.
    small: bool,
    leaves: Vec<u32>,
    paths: Vec<Vec<u32>>,
}

fuzz_target!(|input: Input| {
    let (mut branching_factor, mut height) = (input.branching_factor, input.height);
    if input.small {
        (branching_factor, height) = (branching_factor % 64, height % 12);
    }
    let exact = u64::from(branching_factor).checked_pow(height);
    let Ok(shape) = TreeShape::new(branching_factor, height) else {
        return;
    };
    assert_eq!(Some(u64::from(shape.leaves())), exact);
    for leaf in input.leaves {
        let leaf = LeafId(leaf % shape.leaves());
        assert!(shape.contains(leaf));
        let path = shape.path(leaf);
        assert_eq!(path.len(), height as usize);
        assert!(path.iter().all(|&child| child < branching_factor));
        assert_eq!(shape.leaf(&path), leaf);
    }
    for path in input.paths {
        let mut path: Vec<u32> = path.into_iter().map(|child| child % branching_factor).collect();
        path.resize(height as usize, 0);
        let leaf = shape.leaf(&path);
        assert!(shape.contains(leaf));
        assert_eq!(shape.path(leaf), path);
    }
    assert!(!shape.contains(LeafId(shape.leaves())));
});
