//! Adam on the rows of a matrix; a step may change only some rows.

/// Adam's constants, as in the optimiser of the other phases.
const BETA1: f32 = 0.9;
const BETA2: f32 = 0.999;
const EPSILON: f32 = 1e-8;

/// A matrix with the moments of its gradient.
pub(super) struct Adam {
    width: usize,
    rate: f32,
    /// `[rows, width]`
    pub values: Vec<f32>,
    first: Vec<f32>,
    second: Vec<f32>,
}

/// Step number, from 1, and a factor on every learning rate.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pace {
    pub step: i32,
    pub factor: f32,
}

impl Adam {
    pub fn new(values: Vec<f32>, width: usize, rate: f32) -> Self {
        let zeros = vec![0.0; values.len()];
        Self { width, rate, first: zeros.clone(), second: zeros, values }
    }

    /// A step of all rows; `gradient` `[rows, width]`.
    pub fn step(&mut self, gradient: &[f32], pace: Pace) {
        self.descend(0, gradient, pace);
    }

    /// A step of some rows: `gradients` `[rows.len(), width]`. The moments of other rows are unchanged.
    pub fn step_rows(&mut self, rows: &[u32], gradients: &[f32], pace: Pace) {
        for (&row, gradient) in rows.iter().zip(gradients.chunks_exact(self.width)) {
            self.descend(row as usize * self.width, gradient, pace);
        }
    }

    fn descend(&mut self, start: usize, gradient: &[f32], pace: Pace) {
        let Pace { step, factor } = pace;
        let (unbias1, unbias2) = (1.0 / (1.0 - BETA1.powi(step)), 1.0 / (1.0 - BETA2.powi(step)));
        let rate = self.rate * factor * unbias1;
        let range = start..start + gradient.len();
        let moments = self.first[range.clone()].iter_mut().zip(&mut self.second[range.clone()]);
        for ((x, (first, second)), g) in self.values[range].iter_mut().zip(moments).zip(gradient) {
            *first = BETA1 * *first + (1.0 - BETA1) * g;
            *second = BETA2 * *second + (1.0 - BETA2) * g * g;
            *x -= rate * *first / ((*second * unbias2).sqrt() + EPSILON);
        }
    }
}

#[cfg(test)]
impl Adam {
    pub fn width(&self) -> usize {
        self.width
    }

    /// The gradient of the first step.
    pub fn first_gradient(&self, place: usize) -> f32 {
        self.first[place] / (1.0 - BETA1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Three steps against values computed from the definition; omitted rows are unchanged.
    #[test]
    fn steps_follow_the_definition() {
        let mut adam = Adam::new(vec![1.0, 1.0, 1.0, 1.0], 2, 0.1);
        let (mut x, mut m, mut v) = (1f64, 0.0, 0.0);
        for step in 1..=3 {
            let g = adam.values[3];
            adam.step_rows(&[1], &[0.0, g], Pace { step, factor: 0.5 });
            let g = x;
            m = 0.9 * m + 0.1 * g;
            v = 0.999 * v + 0.001 * g * g;
            x -= 0.05 * (m / (1.0 - 0.9f64.powi(step))) / ((v / (1.0 - 0.999f64.powi(step))).sqrt() + 1e-8);
            assert!((f64::from(adam.values[3]) - x).abs() < 1e-5);
        }
        assert_eq!(adam.values[..3], [1.0; 3]);
    }
}
