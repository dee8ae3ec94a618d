//! Initialisation of the tree: k-means for one level, hierarchical k-means and a fit for more.

use candle_core::{Device, Tensor};
use rand::Rng;
use rand::seq::{SliceRandom, index};
use rand_chacha::ChaCha8Rng;

use super::error::tensor_error;
use super::indexer::{TrainableIndexer, normal};
use super::losses;
use super::optimizer::{AdamW, Gradients, Group};
use crate::cluster::{KMeans, KMeansOptions, spherical_kmeans_with};
use crate::error::{Error, Result};
use crate::ids::LeafId;
use crate::progress::{OnProgress, Progress, Stage};
use crate::tree::TreeShape;

/// Lloyd iterations at most.
const ITERATIONS: usize = 30;
/// The fit: most passes over the documents, steps after which it ends once it has made the fewest passes,
/// learning rate and batch size. In a large corpus a few passes show each leaf often enough.
const FIT_PASSES: usize = 40;
const FIT_FEWEST_PASSES: usize = 10;
const FIT_STEPS: usize = 4_000;
const FIT_LEARNING_RATE: f64 = 2e-3;
const FIT_BATCH: usize = 256;
/// Standard deviation of the noise per value, as a share of a unit row's mean value; it keeps the fit from
/// overfitting the documents.
const FIT_NOISE: f32 = 0.3;

/// Initialises `indexer` from the document embeddings.
///
/// For H = 1 the classifier's columns are the k-means centroids: routing equals IVF's before the first step.
/// For H > 1 hierarchical k-means gives each document a leaf, and all level networks are fitted to those
/// leaves by cross-entropy, because one network per level is shared by all parents and cannot hold the
/// centroids of each. A projection starts as the principal directions of the documents and is fitted too,
/// because it discards the other directions.
///
/// # Shapes
/// `documents` `[n, dim]` unit rows.
pub(crate) fn from_kmeans(
    indexer: &TrainableIndexer,
    documents: &[f32],
    dim: usize,
    rng: &mut ChaCha8Rng,
    on_progress: &mut OnProgress<'_>,
) -> Result<()> {
    let shape = indexer.options().shape;
    let root = cluster(documents, dim, shape.branching_factor() as usize, rng, on_progress)?;
    if let Some(width) = indexer.options().projection {
        let basis = principal_basis(documents, dim, width, rng).map_err(tensor_error)?;
        indexer.set_projection(&basis).map_err(tensor_error)?;
    }
    indexer.set_centroids(&root.1).map_err(tensor_error)?;
    if shape.height() == 1 && indexer.options().projection.is_none() {
        return Ok(());
    }
    let leaves = hierarchical(shape, documents, dim, root.0, rng, on_progress)?;
    fit(indexer, documents, dim, &leaves, rng, on_progress)
}

/// Rows from which the principal directions are computed.
const BASIS_ROWS: usize = 20_000;
/// Rounds of subspace iteration; the directions need not be exact, only a good start.
const BASIS_ROUNDS: usize = 12;

/// An orthonormal basis of the directions with the largest variance.
///
/// # Shapes
/// `documents` `[n, dim]`; output `[dim, width]` row-major.
fn principal_basis(
    documents: &[f32],
    dim: usize,
    width: usize,
    rng: &mut ChaCha8Rng,
) -> candle_core::Result<Vec<f32>> {
    let all = documents.len() / dim;
    let rows = index::sample(rng, all, all.min(BASIS_ROWS));
    let sample: Vec<f32> = rows.iter().flat_map(|d| documents[d * dim..][..dim].iter().copied()).collect();
    let sample = Tensor::from_vec(sample, (rows.len(), dim), &Device::Cpu)?;
    let centred = sample.broadcast_sub(&sample.mean_keepdim(0)?)?;
    let scatter = centred.t()?.matmul(&centred)?;
    let mut basis = orthonormal(normal(rng, dim * width, 1.0), dim, width);
    for _ in 0..BASIS_ROUNDS {
        let product = scatter.matmul(&Tensor::from_vec(basis, (dim, width), &Device::Cpu)?)?;
        basis = orthonormal(product.flatten_all()?.to_vec1()?, dim, width);
    }
    Ok(basis)
}

/// Gram-Schmidt on the columns of a `[dim, width]` matrix.
fn orthonormal(mut matrix: Vec<f32>, dim: usize, width: usize) -> Vec<f32> {
    for column in 0..width {
        // Twice, because one pass leaves rounding errors if columns are nearly parallel.
        for _ in 0..2 {
            for before in 0..column {
                let dot: f32 =
                    (0..dim).map(|i| matrix[i * width + before] * matrix[i * width + column]).sum();
                (0..dim).for_each(|i| matrix[i * width + column] -= dot * matrix[i * width + before]);
            }
        }
        let norm = (0..dim).map(|i| matrix[i * width + column].powi(2)).sum::<f32>().sqrt();
        let scale = if norm > f32::MIN_POSITIVE { 1.0 / norm } else { 0.0 };
        (0..dim).for_each(|i| matrix[i * width + column] *= scale);
    }
    matrix
}

/// The k-means that initialises a tree of one level.
pub(crate) fn k_means(
    rows: &[f32],
    dim: usize,
    clusters: usize,
    seed: u64,
    on_progress: &mut OnProgress<'_>,
) -> Result<KMeans> {
    let options = KMeansOptions { clusters, iterations: ITERATIONS, seed };
    let mut tick = |done| Progress::new(Stage::Cluster, done, ITERATIONS).tell(on_progress, Error::Cancelled);
    spherical_kmeans_with(rows, dim, &options, &mut tick)
}

fn cluster(
    rows: &[f32],
    dim: usize,
    clusters: usize,
    rng: &mut ChaCha8Rng,
    on_progress: &mut OnProgress<'_>,
) -> Result<(Vec<u32>, Vec<f32>)> {
    let found = k_means(rows, dim, clusters, rng.random(), on_progress)?;
    Ok((found.assignments, found.centroids))
}

/// Leaf of each document by k-means inside the cluster above, level by level.
fn hierarchical(
    shape: TreeShape,
    documents: &[f32],
    dim: usize,
    root: Vec<u32>,
    rng: &mut ChaCha8Rng,
    on_progress: &mut OnProgress<'_>,
) -> Result<Vec<LeafId>> {
    let b = shape.branching_factor();
    let mut nodes = root;
    for level in 1..shape.height() {
        let mut members = vec![Vec::new(); b.pow(level) as usize];
        for (document, &node) in nodes.iter().enumerate() {
            members[node as usize].push(document);
        }
        for (node, own) in members.iter().enumerate() {
            // A node with fewer documents than children gives each document a child.
            let clusters = (b as usize).min(own.len());
            if clusters == 0 {
                continue;
            }
            let rows: Vec<f32> =
                own.iter().flat_map(|&d| documents[d * dim..][..dim].iter().copied()).collect();
            let (assignments, _) = cluster(&rows, dim, clusters, rng, on_progress)?;
            for (&document, child) in own.iter().zip(assignments) {
                nodes[document] = node as u32 * b + child;
            }
        }
    }
    Ok(nodes.into_iter().map(LeafId).collect())
}

fn fit(
    indexer: &TrainableIndexer,
    documents: &[f32],
    dim: usize,
    leaves: &[LeafId],
    rng: &mut ChaCha8Rng,
    on_progress: &mut OnProgress<'_>,
) -> Result<()> {
    let parameters = indexer.parameters();
    let device = parameters[0].var.device().clone();
    let mut optimizer = AdamW::new(vec![Group {
        parameters: parameters.clone(),
        learning_rate: FIT_LEARNING_RATE,
        weight_decay: 0.0,
    }])
    .map_err(tensor_error)?;
    let mut order: Vec<usize> = (0..leaves.len()).collect();
    let passes = fit_passes(leaves.len());
    for pass in 0..passes {
        order.shuffle(rng);
        let factor = 1.0 - pass as f64 / passes as f64;
        for batch in order.chunks(FIT_BATCH) {
            let noise = normal(rng, batch.len() * dim, FIT_NOISE / (dim as f32).sqrt());
            let step = || -> candle_core::Result<()> {
                let rows: Vec<f32> = batch
                    .iter()
                    .flat_map(|&d| documents[d * dim..][..dim].iter().copied())
                    .zip(noise)
                    .map(|(x, n)| x + n)
                    .collect();
                let unit = crate::model::unit_rows(&Tensor::from_vec(rows, (batch.len(), dim), &device)?)?;
                let entries: Vec<(u32, LeafId)> = (0u32..).zip(batch.iter().map(|&d| leaves[d])).collect();
                let logs = indexer.leaf_log_probabilities(&indexer.at_root(&unit)?, &entries)?;
                let loss = losses::distillation(&logs, &logs.ones_like()?, batch.len())?;
                let mut gradients = Gradients::default();
                gradients.add(&parameters, &loss.backward()?)?;
                optimizer.step(&gradients, factor)
            };
            step().map_err(tensor_error)?;
        }
        Progress::new(Stage::Initialise, pass + 1, passes).tell(on_progress, Error::Cancelled)?;
    }
    Ok(())
}

fn fit_passes(documents: usize) -> usize {
    FIT_STEPS.div_ceil(documents.div_ceil(FIT_BATCH).max(1)).clamp(FIT_FEWEST_PASSES, FIT_PASSES)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::SeedableRng;

    #[test]
    fn a_large_corpus_is_passed_over_fewer_times() {
        assert_eq!([0, 5_183, 60_000, 200_000, 8_800_000].map(fit_passes), [40, 40, 18, 10, 10]);
    }

    #[test]
    fn the_basis_spans_where_the_rows_vary() {
        // Rows vary along the first two axes of five, and share an offset along the last.
        let mut rng = ChaCha8Rng::seed_from_u64(3);
        let rows: Vec<f32> = normal(&mut rng, 2 * 200, 1.0)
            .chunks(2)
            .flat_map(|pair| [3.0 * pair[0], pair[1], 0.0, 0.0, 7.0])
            .collect();
        let basis = principal_basis(&rows, 5, 2, &mut rng).unwrap();
        for column in 0..2 {
            let outside: f32 = (2..5).map(|i| basis[i * 2 + column].powi(2)).sum();
            let norm: f32 = (0..5).map(|i| basis[i * 2 + column].powi(2)).sum();
            assert!(outside < 1e-6 && (norm - 1.0).abs() < 1e-5, "{basis:?}");
        }
        let dot: f32 = (0..5).map(|i| basis[i * 2] * basis[i * 2 + 1]).sum();
        assert!(dot.abs() < 1e-5);
    }
}
