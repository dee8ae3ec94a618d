//! Relative positions, in buckets that grow with the distance (MPNet, as in T5).

/// Maps the distance between tokens to buckets: short distances have their own, long ones share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RelativePositions {
    /// Buckets of both directions.
    pub buckets: usize,
    /// From here on all distances share one bucket in each direction.
    pub farthest: usize,
}

impl RelativePositions {
    /// The bucket of a token `distance` tokens later in the text (earlier, if negative).
    ///
    /// Computed in f32 in the reference's order, because rounding decides at bucket boundaries.
    pub(crate) fn bucket(self, distance: isize) -> usize {
        let one_way = self.buckets / 2;
        let first = if distance > 0 { one_way } else { 0 };
        let (distance, exact) = (distance.unsigned_abs(), one_way / 2);
        if distance < exact {
            return first + distance;
        }
        let steps = (self.farthest as f64 / exact as f64).ln() as f32;
        let far = (distance as f32 / exact as f32).ln() / steps * (one_way - exact) as f32;
        first + (exact + far as usize).min(one_way - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Where the buckets of transformers 5.24 (torch 2.15) change, for distances of 0 to 511 tokens back.
    #[test]
    fn buckets_are_those_of_the_reference() {
        let positions = RelativePositions { buckets: 32, farthest: 128 };
        let edges = EDGES;
        for (bucket, &first) in edges.iter().enumerate() {
            let end = edges.get(bucket + 1).copied().unwrap_or(512);
            for distance in first..end {
                assert_eq!(positions.bucket(-distance), bucket, "{distance} back");
                if distance > 0 {
                    assert_eq!(positions.bucket(distance), 16 + bucket, "{distance} on");
                }
            }
        }
    }

    const EDGES: [isize; 16] = [0, 1, 2, 3, 4, 5, 6, 7, 8, 12, 16, 23, 32, 46, 64, 91];
}
