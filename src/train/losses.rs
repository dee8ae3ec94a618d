//! The terms of the loss (section 3.5, Eq. 2 to 6) as pure functions of tensors.
//!
//! Each triplet term is a mean over the valid (anchor, negative) entries of the batch; the paper writes sums
//! and does not discuss scale.

use candle_core::{D, Tensor};

use super::config::IntraLeaf;

/// Which entries of a batch's `[n, n]` similarity matrix are negatives.
pub(crate) struct Negatives {
    /// `[n, n]` f32, 1 where document j is a valid negative of query i.
    pub in_batch: Tensor,
    /// `[n]` f32, 1 where query i has a mined hard negative.
    pub mined: Option<Tensor>,
}

/// Triplet loss of queries against their own documents, the batch's others and the mined ones.
///
/// `L(a, b, c) = max(0, a.c - a.b + margin)` (Eq. 2); with embeddings it is Eq. 3, with path
/// embeddings Eq. 4.
///
/// # Shapes
/// `queries`, `positives` and `mined` `[n, w]`; output scalar.
pub(crate) fn triplet(
    queries: &Tensor,
    positives: &Tensor,
    mined: Option<&Tensor>,
    negatives: &Negatives,
    margin: f64,
) -> candle_core::Result<Tensor> {
    let own = (queries * positives)?.sum_keepdim(1)?;
    let others = queries.matmul(&positives.t()?)?;
    let hinge = (others.broadcast_sub(&own)? + margin)?.relu()?;
    let mut total = (hinge * &negatives.in_batch)?.sum_all()?;
    let mut count = negatives.in_batch.sum_all()?;
    if let (Some(mined), Some(valid)) = (mined, &negatives.mined) {
        let hard = (queries * mined)?.sum_keepdim(1)?;
        let hinge = ((hard - own)? + margin)?.relu()?.squeeze(1)?;
        total = (total + (hinge * valid)?.sum_all()?)?;
        count = (count + valid.sum_all()?)?;
    }
    mean(&total, &count)
}

/// Cross-entropy of finding each query's own document among the batch's others and its mined one.
///
/// `-log(exp(q.d / T) / (exp(q.d / T) + sum over negatives exp(q.n / T)))`, mean over the queries: InfoNCE.
/// Not in the paper; unlike Eq. 3, it weighs each negative by its hardness, while the mean of hinges pulls
/// every negative inside the margin equally.
///
/// # Shapes
/// As [`triplet`].
pub(crate) fn contrastive(
    queries: &Tensor,
    positives: &Tensor,
    mined: Option<&Tensor>,
    negatives: &Negatives,
    temperature: f64,
) -> candle_core::Result<Tensor> {
    let own = ((queries * positives)?.sum_keepdim(1)? / temperature)?;
    let others = (queries.matmul(&positives.t()?)? / temperature)?;
    let mut columns = vec![own.clone(), masked(&others, &negatives.in_batch)?];
    if let (Some(mined), Some(valid)) = (mined, &negatives.mined) {
        let hard = ((queries * mined)?.sum_keepdim(1)? / temperature)?;
        columns.push(masked(&hard, &valid.unsqueeze(1)?)?);
    }
    let logits = Tensor::cat(&columns, 1)?;
    // The shift cancels out of the gradient, so it may be a constant.
    let shift = logits.detach().max_keepdim(1)?;
    let sum = logits.broadcast_sub(&shift)?.exp()?.sum_keepdim(1)?;
    ((sum.log()? + shift)? - own)?.mean_all()
}

/// `logits` where `valid` is 1; elsewhere a value that a softmax ignores.
fn masked(logits: &Tensor, valid: &Tensor) -> candle_core::Result<Tensor> {
    (logits * valid)? + valid.affine(-MASKED_LOGIT, MASKED_LOGIT)?
}

/// A logit that contributes nothing; finite, so that 0 times it is 0.
const MASKED_LOGIT: f64 = -1e9;

/// Pushes the path embeddings of dissimilar documents of different pairs apart.
///
/// # Shapes
/// `paths` `[n, B H]`; `dissimilar` `[n, n]` f32, 1 where documents i and j belong to different
/// pairs and their similarity is below tau; output scalar.
pub(crate) fn intra_leaf(
    paths: &Tensor,
    dissimilar: &Tensor,
    margin: f64,
    form: IntraLeaf,
) -> candle_core::Result<Tensor> {
    let products = paths.matmul(&paths.t()?)?;
    let entries = match form {
        IntraLeaf::Product => products,
        IntraLeaf::Triplet => {
            let own = paths.sqr()?.sum_keepdim(1)?;
            (products.broadcast_sub(&own)? + margin)?.relu()?
        }
    };
    mean(&(entries * dissimilar)?.sum_all()?, &dissimilar.sum_all()?)
}

/// KL divergence of the batch's mean child distribution from uniform, summed over levels.
///
/// # Shapes
/// `children` holds for each level the conditional child probabilities `[n, B]`; output scalar.
pub(crate) fn balance(children: &[Tensor]) -> candle_core::Result<Tensor> {
    let mut total: Option<Tensor> = None;
    for level in children {
        let branching_factor = level.dim(D::Minus1)? as f64;
        // As a product: a mean along thousands of columns is slow on a CPU.
        let rows = level.dim(0)?;
        let ones = Tensor::ones((1, rows), level.dtype(), level.device())?;
        let mean = ((ones.matmul(level)? / rows as f64)? + f64::from(f32::MIN_POSITIVE))?;
        let divergence = (&mean * (mean.log()? + branching_factor.ln())?)?.sum_all()?;
        total = Some(match total {
            Some(sum) => (sum + divergence)?,
            None => divergence,
        });
    }
    total.ok_or_else(|| candle_core::Error::Msg("a tree has at least one level".to_owned()))
}

/// Cross-entropy between target leaf distributions and the tree's.
///
/// # Shapes
/// `log_probabilities` and `weights` `[entries]`, one entry for each (query, leaf) with target
/// mass; output the mean over `queries` queries.
pub(crate) fn distillation(
    log_probabilities: &Tensor,
    weights: &Tensor,
    queries: usize,
) -> candle_core::Result<Tensor> {
    (log_probabilities * weights)?.sum_all()? / -(queries.max(1) as f64)
}

/// `total / count`, or 0 if `count` is 0.
fn mean(total: &Tensor, count: &Tensor) -> candle_core::Result<Tensor> {
    total / count.maximum(1.0)?
}

/// The value of a loss.
pub(crate) fn value(loss: &Tensor) -> candle_core::Result<f64> {
    Ok(f64::from(loss.to_scalar::<f32>()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use candle_core::Device;

    fn tensor(rows: &[&[f32]]) -> Tensor {
        let flat: Vec<f32> = rows.concat();
        Tensor::from_vec(flat, (rows.len(), rows[0].len()), &Device::Cpu).unwrap()
    }

    fn scalar(t: candle_core::Result<Tensor>) -> f32 {
        t.unwrap().to_scalar().unwrap()
    }

    #[test]
    fn triplet_by_hand() {
        let q = tensor(&[&[1.0, 0.0], &[0.0, 1.0]]);
        let d = tensor(&[&[0.8, 0.6], &[0.7, 0.1]]);
        let all = Negatives { in_batch: tensor(&[&[0.0, 1.0], &[1.0, 0.0]]), mined: None };
        // q0: 0.7 - 0.8 + 0.3 = 0.2; q1: 0.6 - 0.1 + 0.3 = 0.8.
        assert!((scalar(triplet(&q, &d, None, &all, 0.3)) - 0.5).abs() < 1e-6);
        // d1 is also relevant to q0: only q1 counts.
        let one = Negatives { in_batch: tensor(&[&[0.0, 0.0], &[1.0, 0.0]]), mined: None };
        assert!((scalar(triplet(&q, &d, None, &one, 0.3)) - 0.8).abs() < 1e-6);
        // A mined negative for q0 only: 0.9 - 0.8 + 0.3 = 0.4; mean of 0.2, 0.8, 0.4.
        let mined = Negatives { mined: Some(Tensor::new(&[1f32, 0.0], &Device::Cpu).unwrap()), ..all };
        let h = tensor(&[&[0.9, 0.0], &[5.0, 5.0]]);
        assert!((scalar(triplet(&q, &d, Some(&h), &mined, 0.3)) - 1.4 / 3.0).abs() < 1e-6);
        // Nothing valid: 0, not NaN.
        let none = Negatives { in_batch: tensor(&[&[0.0, 0.0], &[0.0, 0.0]]), mined: None };
        assert_eq!(scalar(triplet(&q, &d, None, &none, 0.3)), 0.0);
    }

    #[test]
    fn contrastive_by_hand() {
        let q = tensor(&[&[1.0, 0.0], &[0.0, 1.0]]);
        let d = tensor(&[&[0.8, 0.6], &[0.7, 0.1]]);
        let all = Negatives { in_batch: tensor(&[&[0.0, 1.0], &[1.0, 0.0]]), mined: None };
        let one = |own: f32, other: f32| (1.0 + ((other - own) / 0.5).exp()).ln();
        // q0: own 0.8, other 0.7; q1: own 0.1, other 0.6.
        let expected = (one(0.8, 0.7) + one(0.1, 0.6)) / 2.0;
        assert!((scalar(contrastive(&q, &d, None, &all, 0.5)) - expected).abs() < 1e-6);
        // d1 is also relevant to q0, which then has no negative: loss 0.
        let one_sided = Negatives { in_batch: tensor(&[&[0.0, 0.0], &[1.0, 0.0]]), mined: None };
        assert!((scalar(contrastive(&q, &d, None, &one_sided, 0.5)) - one(0.1, 0.6) / 2.0).abs() < 1e-6);
        // A mined negative at 0.8, like the own document, for q0 only.
        let mined = Negatives { mined: Some(Tensor::new(&[1f32, 0.0], &Device::Cpu).unwrap()), ..one_sided };
        let h = tensor(&[&[0.8, 0.0], &[5.0, 5.0]]);
        let expected = (2f32.ln() + one(0.1, 0.6)) / 2.0;
        assert!((scalar(contrastive(&q, &d, Some(&h), &mined, 0.5)) - expected).abs() < 1e-6);
    }

    #[test]
    fn contrastive_has_the_gradient_of_cross_entropy() {
        let q = candle_core::Var::from_tensor(&tensor(&[&[1.0, 0.0], &[0.0, 1.0]])).unwrap();
        let d = tensor(&[&[0.8, 0.6], &[0.7, 0.1]]);
        let all = Negatives { in_batch: tensor(&[&[0.0, 1.0], &[1.0, 0.0]]), mined: None };
        let loss = contrastive(q.as_tensor(), &d, None, &all, 0.5).unwrap();
        let store = loss.backward().unwrap();
        let found: Vec<Vec<f32>> = store.get(q.as_tensor()).unwrap().to_vec2().unwrap();
        // Per query: probability of the negative times (negative - own) / T / queries.
        let p = |own: f32, other: f32| 1.0 / (1.0 + ((own - other) / 0.5).exp());
        let (p0, p1) = (p(0.8, 0.7), p(0.1, 0.6));
        for (found, expected) in found.concat().iter().zip([p0 * -0.1, p0 * -0.5, p1 * 0.1, p1 * 0.5]) {
            assert!((found - expected).abs() < 1e-5, "{found} {expected}");
        }
    }

    #[test]
    fn intra_leaf_by_hand() {
        let t = tensor(&[&[0.9, 0.1], &[0.6, 0.4]]);
        let gate = tensor(&[&[0.0, 1.0], &[1.0, 0.0]]);
        // Product 0.58 both ways.
        assert!((scalar(intra_leaf(&t, &gate, 0.3, IntraLeaf::Product)) - 0.58).abs() < 1e-6);
        // Own products 0.82 and 0.52: max(0, 0.58-0.82+0.3) = 0.06 and 0.58-0.52+0.3 = 0.36.
        assert!((scalar(intra_leaf(&t, &gate, 0.3, IntraLeaf::Triplet)) - 0.21).abs() < 1e-6);
    }

    #[test]
    fn balance_is_zero_at_uniform_and_log_b_at_collapse() {
        let uniform = tensor(&[&[1.0, 0.0], &[0.0, 1.0]]);
        assert!(scalar(balance(std::slice::from_ref(&uniform))).abs() < 1e-6);
        let collapsed = tensor(&[&[1.0, 0.0], &[1.0, 0.0]]);
        assert!((scalar(balance(&[uniform, collapsed])) - 2f32.ln()).abs() < 1e-5);
    }

    #[test]
    fn distillation_is_the_cross_entropy() {
        let device = &Device::Cpu;
        let logs = Tensor::new(&[0.5f32.ln(), 0.25f32.ln(), 1f32.ln()], device).unwrap();
        let weights = Tensor::new(&[0.5f32, 0.5, 1.0], device).unwrap();
        let want = (0.5 * 2f32.ln() + 0.5 * 4f32.ln()) / 2.0;
        assert!((scalar(distillation(&logs, &weights, 2)) - want).abs() < 1e-6);
    }
}
