//! The loss of a query encoder: it is trained to match the full encoder's embeddings, document rankings and
//! leaves, and to find the documents that answer judged questions.
//!
//! With `q` the student's unit row, `t` the full encoder's, D sampled documents and L the leaves of the tree:
//! `1 - <q, t> + T CE(softmax(D t / T), softmax(D q / T)) + CE(softmax(s L t), softmax(s L q)) / s`. Divided
//! by its scale, each cross-entropy has gradients as large as those of a cosine. For a judged question a
//! share of the first target goes to the documents that answer it.

use rand::seq::index;
use rand_chacha::ChaCha8Rng;

use super::product::{with_columns, with_rows};
use crate::model::scaled_softmax;

/// Temperature T of the scores over documents (`docs/lab/experiments.md`).
const TEMPERATURE: f32 = 0.05;
/// Documents drawn at random for each step.
const DOCUMENTS: usize = 2_048;
/// Share of a judged question's target that goes to the documents that answer it.
const JUDGED_SHARE: f32 = 0.3;
/// Keeps the gradient of a zero vector's norm finite.
const NORM_EPSILON: f32 = 1e-9;

/// Documents and leaves that scores are computed over.
pub(super) struct Targets<'a> {
    pub dim: usize,
    /// `[documents, dim]` unit rows.
    pub documents: &'a [f32],
    /// The leaves of the tree, if it is a single linear map.
    pub leaves: Option<Leaves>,
}

/// Leaves of a tree of one level without a hidden transform.
pub(super) struct Leaves {
    /// `[leaves, dim]`: the product of one with a unit row, times `scale`, is the leaf's logit.
    pub rows: Vec<f32>,
    pub scale: f32,
}

/// Texts of a step.
pub(super) struct Batch<'a> {
    /// `[texts, dim]`: unit rows of the full encoder.
    pub targets: Vec<f32>,
    /// Documents that answer each text.
    pub positives: Vec<&'a [u32]>,
}

impl Targets<'_> {
    /// The gradient of the mean loss of a batch with respect to the head's output, both `[texts, dim]`.
    pub fn gradient(
        &self,
        rows: &[f32],
        batch: &Batch<'_>,
        rng: &mut ChaCha8Rng,
    ) -> candle_core::Result<Vec<f32>> {
        let dim = self.dim;
        let norms: Vec<f32> = rows.chunks_exact(dim).map(|row| dot(row, row).sqrt() + NORM_EPSILON).collect();
        let mut unit = rows.to_vec();
        unit.chunks_exact_mut(dim)
            .zip(&norms)
            .for_each(|(row, norm)| row.iter_mut().for_each(|x| *x /= norm));
        let mut gradient: Vec<f32> = batch.targets.iter().map(|x| -x).collect();
        if !self.documents.is_empty() {
            let (numbers, documents) = self.sample(batch, rng);
            let judged = |target: &mut [f32]| add_judged(target, batch, &numbers);
            self.add_gradient(&mut gradient, &unit, batch, &documents, 1.0 / TEMPERATURE, judged)?;
        }
        if let Some(Leaves { rows, scale }) = &self.leaves {
            self.add_gradient(&mut gradient, &unit, batch, rows, *scale, |_| ())?;
        }
        // The gradient has no component along the row.
        let share = 1.0 / norms.len() as f32;
        let rows = gradient.chunks_exact_mut(dim).zip(unit.chunks_exact(dim)).zip(&norms);
        for ((gradient, unit), norm) in rows {
            let along = dot(gradient, unit);
            gradient.iter_mut().zip(unit).for_each(|(g, x)| *g = (*g - along * x) * share / norm);
        }
        Ok(gradient)
    }

    /// Adds the gradient of a cross-entropy over `columns`, `[n, dim]`, divided by the scale of its scores.
    fn add_gradient(
        &self,
        gradient: &mut [f32],
        unit: &[f32],
        batch: &Batch<'_>,
        columns: &[f32],
        scale: f32,
        change: impl Fn(&mut [f32]),
    ) -> candle_core::Result<()> {
        let n = columns.len() / self.dim;
        let mut target = with_rows(&batch.targets, columns, self.dim)?;
        scaled_softmax(&mut target, n, scale);
        change(&mut target);
        let mut own = with_rows(unit, columns, self.dim)?;
        scaled_softmax(&mut own, n, scale);
        own.iter_mut().zip(&target).for_each(|(x, y)| *x -= y);
        let more = with_columns(&own, columns, self.dim)?;
        gradient.iter_mut().zip(&more).for_each(|(x, y)| *x += y);
        Ok(())
    }

    /// Documents of a step, ascending, including those that answer its questions, and their rows.
    fn sample(&self, batch: &Batch<'_>, rng: &mut ChaCha8Rng) -> (Vec<u32>, Vec<f32>) {
        let all = self.documents.len() / self.dim;
        let drawn = index::sample(rng, all, DOCUMENTS.min(all));
        let mut documents: Vec<u32> = drawn.into_iter().map(|document| document as u32).collect();
        documents.extend(batch.positives.iter().copied().flatten());
        documents.sort_unstable();
        documents.dedup();
        let mut rows = Vec::with_capacity(documents.len() * self.dim);
        for &document in &documents {
            rows.extend_from_slice(&self.documents[document as usize * self.dim..][..self.dim]);
        }
        (documents, rows)
    }
}

/// Gives a share of the targets, `[texts, documents]`, to the documents that answer judged questions.
fn add_judged(target: &mut [f32], batch: &Batch<'_>, documents: &[u32]) {
    for (positives, row) in batch.positives.iter().zip(target.chunks_exact_mut(documents.len())) {
        if positives.is_empty() {
            continue;
        }
        row.iter_mut().for_each(|x| *x *= 1.0 - JUDGED_SHARE);
        for positive in *positives {
            if let Ok(place) = documents.binary_search(positive) {
                row[place] += JUDGED_SHARE / positives.len() as f32;
            }
        }
    }
}

fn dot(a: &[f32], b: &[f32]) -> f32 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::{Rng, SeedableRng};

    /// The loss as defined in the module documentation, in f64.
    fn loss(targets: &Targets<'_>, rows: &[f32], batch: &Batch<'_>) -> f64 {
        let dim = targets.dim;
        let product = |a: &[f64], b: &[f32]| a.iter().zip(b).map(|(a, b)| a * f64::from(*b)).sum::<f64>();
        let softmax = |row: &[f64], columns: &[f32], scale: f32| -> Vec<f64> {
            let all = columns.chunks_exact(dim).map(|c| (f64::from(scale) * product(row, c)).exp());
            let all: Vec<f64> = all.collect();
            let sum: f64 = all.iter().sum();
            all.into_iter().map(|x| x / sum).collect()
        };
        let mut total = 0.0;
        let texts = rows.chunks_exact(dim).zip(batch.targets.chunks_exact(dim)).zip(&batch.positives);
        for ((row, target), positives) in texts {
            let norm = row.iter().map(|x| f64::from(*x).powi(2)).sum::<f64>().sqrt();
            let unit: Vec<f64> = row.iter().map(|x| f64::from(*x) / norm).collect();
            let full: Vec<f64> = target.iter().map(|x| f64::from(*x)).collect();
            total += 1.0 - product(&unit, target);
            let leaves = targets.leaves.as_ref().unwrap();
            for (columns, scale, judged) in
                [(targets.documents, 1.0 / TEMPERATURE, true), (&leaves.rows, leaves.scale, false)]
            {
                let mut want = softmax(&full, columns, scale);
                if judged && !positives.is_empty() {
                    want.iter_mut().for_each(|x| *x *= f64::from(1.0 - JUDGED_SHARE));
                    for &positive in *positives {
                        want[positive as usize] += f64::from(JUDGED_SHARE) / positives.len() as f64;
                    }
                }
                let own = softmax(&unit, columns, scale);
                let entropy: f64 = own.iter().zip(&want).map(|(own, want)| -want * own.ln()).sum();
                total += entropy / f64::from(scale);
            }
        }
        total / batch.positives.len() as f64
    }

    #[test]
    fn the_gradient_is_that_of_the_loss() {
        let mut rng = ChaCha8Rng::seed_from_u64(2);
        let dim = 6;
        let mut unit = |n: usize| -> Vec<f32> {
            let mut rows: Vec<f32> = (0..n * dim).map(|_| rng.random_range(-1.0..1.0)).collect();
            for row in rows.chunks_exact_mut(dim) {
                let norm = dot(row, row).sqrt();
                row.iter_mut().for_each(|x| *x /= norm);
            }
            rows
        };
        let (documents, leaves) = (unit(9), unit(4));
        let targets =
            Targets { dim, documents: &documents, leaves: Some(Leaves { rows: leaves, scale: 20.0 }) };
        let batch = Batch { targets: unit(3), positives: vec![&[], &[2, 7], &[0]] };
        let mut rows: Vec<f32> = unit(3).into_iter().map(|x| 1.7 * x).collect();
        let gradient = targets.gradient(&rows, &batch, &mut ChaCha8Rng::seed_from_u64(0)).unwrap();
        for place in 0..rows.len() {
            let mut at = |by: f32| {
                rows[place] += by;
                let found = loss(&targets, &rows, &batch);
                rows[place] -= by;
                found
            };
            let slope = (at(1e-3) - at(-1e-3)) / 2e-3;
            let found = f64::from(gradient[place]);
            assert!((slope - found).abs() < 0.01 * slope.abs().max(0.05), "{place}: {slope} {found}");
        }
    }
}
