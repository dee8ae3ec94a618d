//! Starts of the tree: k-means for one level, hierarchical k-means and a fit for more.

use std::ops::ControlFlow;

use candle_core::Tensor;
use rand::Rng;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;

use super::indexer::{TrainableIndexer, normal};
use super::losses;
use super::optimizer::{AdamW, Gradients, Group};
use crate::cluster::{KMeansOptions, spherical_kmeans};
use crate::error::{Error, Result};
use crate::ids::LeafId;
use crate::model::ModelError;
use crate::progress::{OnProgress, Progress, Stage};
use crate::tree::TreeShape;

/// Lloyd iterations at most.
const ITERATIONS: usize = 30;
/// Passes over the documents, learning rate and batch of the fit.
const FIT_PASSES: usize = 40;
const FIT_LEARNING_RATE: f64 = 2e-3;
const FIT_BATCH: usize = 256;
/// Standard deviation of the noise per value, as a share of a unit row's mean value, so that
/// the fit does not hug the documents.
const FIT_NOISE: f32 = 0.3;

/// Starts `indexer` from the document embeddings.
///
/// For H = 1 the classifier's columns are the k-means centroids: routing equals IVF's before
/// the first step. For H > 1 hierarchical k-means gives each document a leaf, and all level
/// networks are fitted to those leaves by cross-entropy, because one network per level is
/// shared by all parents and cannot hold the centroids of each.
///
/// # Shapes
/// `documents` `[n, dim]` unit rows.
pub(crate) fn from_kmeans(
    indexer: &TrainableIndexer,
    shape: TreeShape,
    documents: &[f32],
    dim: usize,
    rng: &mut ChaCha8Rng,
    on_progress: &mut OnProgress<'_>,
) -> Result<()> {
    let root = cluster(documents, dim, shape.branching_factor() as usize, rng)?;
    let tensor_error = |e| Error::from(ModelError::from(e));
    indexer.set_centroids(&root.1).map_err(tensor_error)?;
    if shape.height() == 1 {
        return Ok(());
    }
    let leaves = hierarchical(shape, documents, dim, root.0, rng)?;
    fit(indexer, documents, dim, &leaves, rng, on_progress)
}

fn cluster(rows: &[f32], dim: usize, clusters: usize, rng: &mut ChaCha8Rng) -> Result<(Vec<u32>, Vec<f32>)> {
    let options = KMeansOptions { clusters, iterations: ITERATIONS, seed: rng.random() };
    let found = spherical_kmeans(rows, dim, &options)?;
    Ok((found.assignments, found.centroids))
}

/// Leaf of each document by k-means inside the cluster above, level by level.
fn hierarchical(
    shape: TreeShape,
    documents: &[f32],
    dim: usize,
    root: Vec<u32>,
    rng: &mut ChaCha8Rng,
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
            let (assignments, _) = cluster(&rows, dim, clusters, rng)?;
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
    let tensor_error = |e: candle_core::Error| Error::from(ModelError::from(e));
    let mut optimizer = AdamW::new(vec![Group {
        parameters: parameters.clone(),
        learning_rate: FIT_LEARNING_RATE,
        weight_decay: 0.0,
    }])
    .map_err(tensor_error)?;
    let mut order: Vec<usize> = (0..leaves.len()).collect();
    for pass in 0..FIT_PASSES {
        order.shuffle(rng);
        let factor = 1.0 - pass as f64 / FIT_PASSES as f64;
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
                let logs = indexer.leaf_log_probabilities(&unit, &entries)?;
                let loss = losses::distillation(&logs, &logs.ones_like()?, batch.len())?;
                let mut gradients = Gradients::default();
                gradients.add(&parameters, &loss.backward()?)?;
                optimizer.step(&gradients, factor)
            };
            step().map_err(tensor_error)?;
        }
        if on_progress(Progress::new(Stage::Initialise, pass + 1, FIT_PASSES)) == ControlFlow::Break(()) {
            return Err(Error::Cancelled);
        }
    }
    Ok(())
}
