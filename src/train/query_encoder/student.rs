//! A static query encoder under training.
//!
//! A step touches a few thousand of the rows of the token table, so their gradients and moments are kept row
//! by row. Gradients are derived by hand: the steps are too small for a graph of tensors to pay off.

use super::adam::{Adam, Pace};
use super::lesson::Lesson;
use super::product::{of_columns, with_columns, with_rows};
use super::start;
use crate::model::{HeadWeights, SIGNALS, StaticWeights};

/// Learning rates.
const TABLE_RATE: f32 = 3e-3;
const WEIGHT_RATE: f32 = 5e-3;
const HEAD_RATE: f32 = 1e-3;
/// Width of the hidden layer over that of the embeddings.
const HIDDEN: usize = 2;
/// Least weight of a token, so that none vanishes for good.
const LEAST_WEIGHT: f32 = 1e-3;
/// Fewest training texts with a token for its vector to be trusted.
const SEEN: u32 = 3;

/// Token table, weights and head, with the state of their optimisers.
pub(super) struct Student {
    dim: usize,
    table: Adam,
    weights: Adam,
    linear: Adam,
    bias: Adam,
    hidden: Adam,
    hidden_bias: Adam,
    output: Adam,
    step: i32,
    /// For each token, the number of texts that hold it.
    frequencies: Vec<u32>,
    /// For each token, its position among the batch's tokens; valid only for those.
    places: Vec<u32>,
}

/// The student's output for some texts, with the intermediate values for its gradient.
pub(super) struct Forward<'a> {
    /// Token ids.
    texts: Vec<&'a [u32]>,
    /// Sums of their weights.
    sums: Vec<f32>,
    /// `[texts, dim]`: weighted means.
    means: Vec<f32>,
    /// `[texts, width]`: the hidden layer.
    hidden: Vec<f32>,
    /// `[texts, dim]`: before normalisation.
    pub rows: Vec<f32>,
}

impl Student {
    /// Starts from the encoder's own word embeddings, weights by document frequency, and the linear map that
    /// takes their means to the embeddings of the lesson.
    pub fn new(lesson: &Lesson, word: Vec<f32>, dim: usize, seed: u64) -> Self {
        let vocabulary = word.len() / dim;
        let frequencies = lesson.frequencies(vocabulary);
        let start::Start { table, weights, head } =
            start::of(lesson, word, dim, &frequencies, HIDDEN * dim, seed);
        let width = head.hidden_bias.len();
        Self {
            dim,
            table: Adam::new(table, dim, TABLE_RATE),
            weights: Adam::new(weights, 1, WEIGHT_RATE),
            linear: Adam::new(head.linear, dim, HEAD_RATE),
            bias: Adam::new(head.bias, dim, HEAD_RATE),
            hidden: Adam::new(head.hidden, dim, HEAD_RATE),
            hidden_bias: Adam::new(head.hidden_bias, width, HEAD_RATE),
            output: Adam::new(head.output, width, HEAD_RATE),
            step: 0,
            frequencies,
            places: vec![0; vocabulary],
        }
    }

    pub fn forward<'a>(&self, texts: Vec<&'a [u32]>) -> candle_core::Result<Forward<'a>> {
        let (dim, width) = (self.dim, self.hidden_bias.values.len());
        let mut means = vec![0.0; texts.len() * dim];
        let mut sums = Vec::with_capacity(texts.len());
        for (text, mean) in texts.iter().zip(means.chunks_exact_mut(dim)) {
            sums.push(start::add_mean(text, &self.table.values, &self.weights.values, mean));
        }
        let mut hidden = with_rows(&means, &self.hidden.values, dim)?;
        add_to_rows(&mut hidden, &self.hidden_bias.values);
        hidden.iter_mut().for_each(|x| *x = x.max(0.0));
        let mut rows = with_rows(&means, &self.linear.values, dim)?;
        add_to_rows(&mut rows, &self.bias.values);
        let more = with_rows(&hidden, &self.output.values, width)?;
        rows.iter_mut().zip(&more).for_each(|(x, y)| *x += y);
        Ok(Forward { texts, sums, means, hidden, rows })
    }

    /// One step with every learning rate times `factor`; `gradient` `[texts, dim]` is that of the loss with
    /// respect to [`Forward::rows`].
    pub fn descend(
        &mut self,
        forward: &Forward<'_>,
        gradient: &[f32],
        factor: f64,
    ) -> candle_core::Result<()> {
        let (dim, width) = (self.dim, self.hidden_bias.values.len());
        let Forward { means, hidden, .. } = forward;
        self.step += 1;
        let pace = Pace { step: self.step, factor: factor as f32 };
        let mut inner = with_columns(gradient, &self.output.values, width)?;
        inner.iter_mut().zip(hidden).for_each(|(g, x)| *g = if *x > 0.0 { *g } else { 0.0 });
        let mut of_means = with_columns(gradient, &self.linear.values, dim)?;
        let more = with_columns(&inner, &self.hidden.values, dim)?;
        of_means.iter_mut().zip(&more).for_each(|(x, y)| *x += y);

        self.linear.step(&of_columns(gradient, dim, means, dim)?, pace);
        self.bias.step(&sum_of_rows(gradient, dim), pace);
        self.output.step(&of_columns(gradient, dim, hidden, width)?, pace);
        self.hidden.step(&of_columns(&inner, width, means, dim)?, pace);
        self.hidden_bias.step(&sum_of_rows(&inner, width), pace);
        self.descend_tokens(forward, &of_means, pace);
        Ok(())
    }

    /// `gradient` `[texts, dim]` is that of the loss with respect to the means of the tokens' vectors.
    fn descend_tokens(&mut self, forward: &Forward<'_>, gradient: &[f32], pace: Pace) {
        let (touched, table, weights) = self.of_tokens(forward, gradient);
        self.table.step_rows(&touched, &table, pace);
        self.weights.step_rows(&touched, &weights, pace);
        for &token in &touched {
            let weight = &mut self.weights.values[token as usize];
            *weight = weight.max(LEAST_WEIGHT);
        }
    }

    /// The tokens of a batch, with the gradients of their vectors `[tokens, dim]` and weights `[tokens]`.
    fn of_tokens(&mut self, forward: &Forward<'_>, gradient: &[f32]) -> (Vec<u32>, Vec<f32>, Vec<f32>) {
        let dim = self.dim;
        let mut touched: Vec<u32> = forward.texts.iter().flat_map(|text| text.iter().copied()).collect();
        touched.sort_unstable();
        touched.dedup();
        for (place, &token) in (0..).zip(&touched) {
            self.places[token as usize] = place;
        }
        let (mut table, mut weights) = (vec![0.0; touched.len() * dim], vec![0.0; touched.len()]);
        let of_texts = forward.texts.iter().zip(&forward.sums);
        let rows = forward.means.chunks_exact(dim).zip(gradient.chunks_exact(dim));
        for ((text, sum), (mean, gradient)) in of_texts.zip(rows) {
            // d p / d v_t = w_t / sum; d p / d w_t = (v_t - p) / sum.
            let own: f32 = mean.iter().zip(gradient).map(|(x, g)| x * g).sum();
            for &token in *text {
                let (place, token) = (self.places[token as usize] as usize, token as usize);
                let share = self.weights.values[token] / sum;
                let vector = &self.table.values[token * dim..][..dim];
                let into = &mut table[place * dim..][..dim];
                into.iter_mut().zip(gradient).for_each(|(into, g)| *into += share * g);
                let along: f32 = vector.iter().zip(gradient).map(|(x, g)| x * g).sum();
                weights[place] += (along - own) / sum;
            }
        }
        (touched, table, weights)
    }

    /// The current weights.
    pub fn weights(&self, confidence: [f32; SIGNALS]) -> StaticWeights {
        StaticWeights {
            dim: self.dim,
            table: self.table.values.clone(),
            weights: self.weights.values.clone(),
            seen: self.frequencies.iter().map(|texts| *texts >= SEEN).collect(),
            head: HeadWeights {
                linear: self.linear.values.clone(),
                bias: self.bias.values.clone(),
                hidden: self.hidden.values.clone(),
                hidden_bias: self.hidden_bias.values.clone(),
                output: self.output.values.clone(),
            },
            confidence,
        }
    }
}

fn add_to_rows(rows: &mut [f32], bias: &[f32]) {
    rows.chunks_exact_mut(bias.len()).for_each(|row| row.iter_mut().zip(bias).for_each(|(x, b)| *x += b));
}

fn sum_of_rows(rows: &[f32], width: usize) -> Vec<f32> {
    let mut sum = vec![0.0; width];
    rows.chunks_exact(width).for_each(|row| sum.iter_mut().zip(row).for_each(|(sum, x)| *sum += x));
    sum
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::{Rng, SeedableRng};
    use rand_chacha::ChaCha8Rng;

    /// Every gradient against finite differences of a randomly weighted sum of the outputs.
    #[test]
    fn gradients_are_those_of_the_outputs() {
        let mut rng = ChaCha8Rng::seed_from_u64(1);
        let (dim, vocabulary) = (4, 7);
        let mut values = |n: usize| (0..n).map(|_| rng.random_range(-1.0..1.0f32)).collect::<Vec<_>>();
        let tokens: Vec<Vec<u32>> = vec![vec![1, 2, 2], vec![3], vec![0, 6, 1, 5]];
        let lesson =
            Lesson { tokens: tokens.clone(), targets: values(3 * dim), positives: vec![Vec::new(); 3] };
        let mut student = Student::new(&lesson, values(vocabulary * dim), dim, 0);
        // It starts with zeros here.
        student.output.values = values(HIDDEN * dim * dim);
        student.hidden_bias.values = values(HIDDEN * dim);
        let factors = values(3 * dim);
        let texts = || tokens.iter().map(Vec::as_slice).collect::<Vec<_>>();
        let value = |student: &Student| -> f64 {
            let rows = student.forward(texts()).unwrap().rows;
            rows.iter().zip(&factors).map(|(x, f)| f64::from(x * f)).sum()
        };
        // The gradients, read off one step of plain descent.
        let forward = student.forward(texts()).unwrap();
        let mut stepped = Student::new(&lesson, values(vocabulary * dim), dim, 0);
        for (to, from) in parts(&mut stepped).into_iter().zip(parts(&mut student)) {
            *to = Adam::new(from.values.clone(), from.width(), 1.0);
        }
        stepped.descend(&forward, &factors, 1.0).unwrap();
        let mut checked = 0;
        for part in 0..PARTS {
            for place in 0..parts(&mut student)[part].values.len() {
                let gradient = f64::from(parts(&mut stepped)[part].first_gradient(place));
                let step = 1e-2;
                let mut at = |by: f32| {
                    parts(&mut student)[part].values[place] += by;
                    let found = value(&student);
                    parts(&mut student)[part].values[place] -= by;
                    found
                };
                let slope = (at(step) - at(-step)) / (2.0 * f64::from(step));
                assert!(
                    (slope - gradient).abs() < 0.02 * slope.abs().max(0.1),
                    "{part} {place}: {slope} {gradient}"
                );
                checked += usize::from(slope.abs() > 1e-3);
            }
        }
        assert!(checked > 80, "{checked}");
    }

    const PARTS: usize = 7;

    fn parts(student: &mut Student) -> [&mut Adam; PARTS] {
        let Student { table, weights, linear, bias, hidden, hidden_bias, output, .. } = student;
        [table, weights, linear, bias, hidden, hidden_bias, output]
    }
}
