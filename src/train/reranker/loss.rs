//! The loss over the scores of some questions' documents.

use candle_core::{Device, Tensor};

use super::config::RerankerLoss;
use crate::model::log_softmax;

/// Score of a missing document.
const NONE: f32 = -1e9;

/// Layout of the scores of some examples, each an answer with a varying number of negatives.
pub(super) struct Layout {
    /// Row of each place in the list of scores, `[examples * width]`.
    rows: Vec<u32>,
    /// 1 where there is a document, `[examples * width]`.
    there: Vec<f32>,
    width: usize,
}

impl Layout {
    /// For examples whose documents' scores are at these rows, the answer's first.
    pub(super) fn new(examples: &[Vec<u32>]) -> Self {
        let width = examples.iter().map(Vec::len).max().unwrap_or(0);
        let (mut rows, mut there) = (Vec::new(), Vec::new());
        for example in examples {
            let missing = width - example.len();
            rows.extend(example.iter().copied().chain(std::iter::repeat_n(0, missing)));
            there.extend(std::iter::repeat_n(1.0, example.len()).chain(std::iter::repeat_n(0.0, missing)));
        }
        Self { rows, there, width }
    }

    /// The mean over the examples.
    ///
    /// # Shapes
    /// `scores` `[documents, 1]`, before any activation; output a scalar.
    pub(super) fn loss(&self, scores: &Tensor, loss: RerankerLoss) -> candle_core::Result<Tensor> {
        let device = Device::Cpu;
        let shape = (self.rows.len() / self.width.max(1), self.width);
        let rows = Tensor::new(self.rows.as_slice(), &device)?;
        let lists = scores.index_select(&rows, 0)?.reshape(shape)?;
        let there = Tensor::from_slice(&self.there, shape, &device)?;
        match loss {
            RerankerLoss::Listwise => {
                let absent = there.affine(-f64::from(NONE), f64::from(NONE))?;
                log_softmax(&(lists + absent)?, 1.0)?.narrow(1, 0, 1)?.mean_all()?.neg()
            }
            RerankerLoss::Binary => {
                // ln(1 + e^x) for a wrong document, ln(1 + e^-x) for a right one, without overflow.
                let signs: Vec<f32> =
                    (0..self.rows.len()).map(|at| if at % self.width == 0 { -1.0 } else { 1.0 }).collect();
                let x = (lists * Tensor::from_vec(signs, shape, &device)?)?;
                let softplus = (x.relu()? + (x.abs()?.neg()?.exp()? + 1.0)?.log()?)?;
                let sum = (softplus * &there)?.sum_all()?;
                sum / f64::from(self.there.iter().sum::<f32>().max(1.0))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use candle_core::Var;

    use super::*;

    const SCORES: [f32; 5] = [0.7, -1.3, 2.1, 0.4, -0.2];

    fn examples() -> Vec<Vec<u32>> {
        vec![vec![0, 2, 1], vec![4, 3]]
    }

    fn by_hand(scores: &[f64], loss: RerankerLoss) -> f64 {
        let examples = examples();
        let of = |example: &Vec<u32>| example.iter().map(|&row| scores[row as usize]).collect::<Vec<f64>>();
        let lists: Vec<Vec<f64>> = examples.iter().map(of).collect();
        match loss {
            RerankerLoss::Listwise => {
                let one = |list: &Vec<f64>| list.iter().map(|x| x.exp()).sum::<f64>().ln() - list[0];
                lists.iter().map(one).sum::<f64>() / lists.len() as f64
            }
            RerankerLoss::Binary => {
                let one = |list: &Vec<f64>| {
                    (1.0 + (-list[0]).exp()).ln()
                        + list[1..].iter().map(|x| (1.0 + x.exp()).ln()).sum::<f64>()
                };
                lists.iter().map(one).sum::<f64>() / 5.0
            }
        }
    }

    /// Values by the definitions, gradients by finite differences; examples of unequal length.
    #[test]
    fn losses_and_gradients_by_hand() {
        for loss in [RerankerLoss::Listwise, RerankerLoss::Binary] {
            let var = Var::from_tensor(&Tensor::from_slice(&SCORES, (5, 1), &Device::Cpu).unwrap()).unwrap();
            let found = Layout::new(&examples()).loss(var.as_tensor(), loss).unwrap();
            let scores = SCORES.map(f64::from);
            assert!((f64::from(found.to_scalar::<f32>().unwrap()) - by_hand(&scores, loss)).abs() < 1e-5);
            let gradients = found.backward().unwrap();
            let gradient: Vec<f32> =
                gradients.get(var.as_tensor()).unwrap().flatten_all().unwrap().to_vec1().unwrap();
            for (place, found) in gradient.into_iter().enumerate() {
                let moved = |by: f64| {
                    let mut scores = scores;
                    scores[place] += by;
                    by_hand(&scores, loss)
                };
                let expected = (moved(1e-4) - moved(-1e-4)) / 2e-4;
                assert!((f64::from(found) - expected).abs() < 1e-5, "{loss:?} {place}: {found} {expected}");
            }
        }
    }
}
