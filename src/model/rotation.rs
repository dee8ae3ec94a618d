//! Rotary positions: pairs of a head's values rotated by angles that grow with the token's position.

use super::kernels;

/// Cosines and sines of the angles by which heads are rotated.
pub(super) struct Rotation {
    /// `[positions, width]`: a position's cosines, then its sines, one for each pair of a head's values.
    pub(super) table: Vec<f32>,
    /// Values of a head.
    pub(super) width: usize,
}

impl Rotation {
    /// The rotation of a head of `width` values at each of `positions` positions, in f32 like the reference.
    pub(super) fn new(theta: f32, width: usize, positions: usize) -> Self {
        let speed = |pair: usize| 1.0 / theta.powf((2 * pair) as f32 / width as f32);
        let speeds: Vec<f32> = (0..width / 2).map(speed).collect();
        let mut table = Vec::with_capacity(positions * width);
        for place in 0..positions {
            let angles = speeds.iter().map(|speed| place as f32 * speed);
            table.extend(angles.clone().map(f32::cos));
            table.extend(angles.map(f32::sin));
        }
        Self { table, width }
    }

    /// Rotates the heads in the first `count` values of each row, with `stride` values between rows, for
    /// concatenated texts of these lengths. `way` is 1, or -1 for the inverse.
    pub(super) fn turn(&self, rows: &mut [f32], stride: usize, count: usize, lengths: &[usize], way: f32) {
        kernels::rotate(rows, stride, count, lengths, &self.table, self.width, way);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each pair is rotated by its own angle, positions restart with each text, and the inverse restores the
    /// input.
    #[test]
    fn pairs_turn_by_their_places_and_back() {
        let (width, heads, lengths) = (6, 2, [3usize, 2]);
        let rotation = Rotation::new(100.0, width, 4);
        let stride = heads * width + 5;
        let rows: Vec<f32> = (0..5 * stride).map(|i| ((i * 37) % 23) as f32 / 7.0 - 1.0).collect();
        let mut turned = rows.clone();
        rotation.turn(&mut turned, stride, heads * width, &lengths, 1.0);
        for (row, place) in [0usize, 1, 2, 0, 1].into_iter().enumerate() {
            for head in 0..heads {
                for pair in 0..width / 2 {
                    let at = row * stride + head * width + pair;
                    let angle = place as f64 / 100f64.powf(2.0 * pair as f64 / width as f64);
                    let (a, b) = (f64::from(rows[at]), f64::from(rows[at + width / 2]));
                    let want = [a * angle.cos() - b * angle.sin(), b * angle.cos() + a * angle.sin()];
                    for (found, want) in [turned[at], turned[at + width / 2]].into_iter().zip(want) {
                        assert!((f64::from(found) - want).abs() < 1e-6, "row {row} head {head} pair {pair}");
                    }
                }
            }
            let rest = row * stride + heads * width..(row + 1) * stride;
            assert_eq!(turned[rest.clone()], rows[rest]);
        }
        rotation.turn(&mut turned, stride, heads * width, &lengths, -1.0);
        assert!(turned.iter().zip(&rows).all(|(a, b)| (a - b).abs() < 1e-6));
    }
}
