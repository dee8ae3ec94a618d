//! The first centroids: greedy k-means++ on a sample.

use super::product::Panels;
use rand::Rng;
use rand_chacha::ChaCha8Rng;
use rayon::prelude::*;

/// Rows sampled per cluster; seeding uses no others.
const SAMPLE_PER_CLUSTER: usize = 16;

/// Rows tried for each centroid; the best is taken.
const CANDIDATES: usize = 8;

/// Rows of the sample per task.
const CHUNK_ROWS: usize = 1_024;

/// Picks `clusters` different rows as initial centroids: `[clusters, dim]`.
///
/// Each is drawn with probability proportional to its dissimilarity (1 - cosine, half the squared distance)
/// from the nearest centroid so far.
pub(super) fn seed(rows: &[f32], dim: usize, clusters: usize, rng: &mut ChaCha8Rng) -> Vec<f32> {
    let n = rows.len() / dim;
    let row = |i: usize| &rows[i * dim..][..dim];
    let mut sample =
        rand::seq::index::sample(rng, n, n.min(clusters.saturating_mul(SAMPLE_PER_CLUSTER))).into_vec();
    sample.sort_unstable();
    let mut chunks: Vec<Chunk> = sample
        .par_chunks(CHUNK_ROWS)
        .map(|sample| Chunk::new(&sample.iter().flat_map(|&i| row(i)).copied().collect::<Vec<_>>(), dim))
        .collect();

    let mut used = vec![false; sample.len()];
    let mut cumulative = Vec::with_capacity(sample.len());
    let mut candidates = Vec::with_capacity(CANDIDATES);
    let mut queries = Vec::with_capacity(CANDIDATES * dim);
    let mut centroids = Vec::with_capacity(clusters * dim);
    for _ in 0..clusters {
        cumulative.clear();
        cumulative.extend(chunks.iter().flat_map(|chunk| &chunk.dissimilarities).scan(
            0.0,
            |sum, &weight| {
                *sum += f64::from(weight);
                Some(*sum)
            },
        ));
        let total = cumulative.last().copied().unwrap_or(0.0);
        candidates.clear();
        if total > 0.0 {
            candidates.extend((0..CANDIDATES).map(|_| {
                let point = rng.random::<f64>() * total;
                cumulative.partition_point(|&sum| sum <= point).min(sample.len() - 1)
            }));
        } else {
            // The remaining rows repeat the centroids, so any unused row will do.
            candidates.extend(used.iter().position(|used| !used));
        }
        queries.clear();
        queries.extend(candidates.iter().flat_map(|&i| row(sample[i])));

        let left: Vec<[f64; CANDIDATES]> =
            chunks.par_iter_mut().map(|chunk| chunk.try_all(&queries)).collect();
        let left = |candidate: usize| left.iter().map(|chunk| chunk[candidate]).sum::<f64>();
        let best = (0..candidates.len()).min_by(|&a, &b| left(a).total_cmp(&left(b))).unwrap_or(0);
        chunks.par_iter_mut().for_each(|chunk| chunk.take(best));
        let taken = candidates[best];
        used[taken] = true;
        chunks[taken / CHUNK_ROWS].dissimilarities[taken % CHUNK_ROWS] = 0.0;
        centroids.extend_from_slice(row(sample[taken]));
    }
    centroids
}

/// A part of the sample.
struct Chunk {
    panels: Panels,
    /// Of each row from its nearest centroid.
    dissimilarities: Vec<f32>,
    /// `[candidates, rows]`: the dissimilarities with each candidate added.
    tried: Vec<f32>,
}

impl Chunk {
    fn new(rows: &[f32], dim: usize) -> Self {
        let panels = Panels::pack(rows, dim);
        Self {
            // All equal, so that the first centroid is drawn uniformly; 2 is the maximum.
            dissimilarities: vec![2.0; panels.rows],
            tried: Vec::with_capacity(CANDIDATES * panels.rows),
            panels,
        }
    }

    /// Sums the dissimilarities that remain with each candidate.
    fn try_all(&mut self, candidates: &[f32]) -> [f64; CANDIDATES] {
        let rows = self.panels.rows;
        self.tried.resize(candidates.len() / self.panels.dim * rows, 0.0);
        self.panels.dot_products(candidates, &mut self.tried);
        let mut left = [0.0; CANDIDATES];
        for (tried, left) in self.tried.chunks_exact_mut(rows).zip(&mut left) {
            for (value, &before) in tried.iter_mut().zip(&self.dissimilarities) {
                *value = (1.0 - *value).max(0.0).min(before);
                *left += f64::from(*value);
            }
        }
        left
    }

    /// Makes the candidate a centroid.
    fn take(&mut self, candidate: usize) {
        let rows = self.panels.rows;
        self.dissimilarities.copy_from_slice(&self.tried[candidate * rows..][..rows]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::SeedableRng;

    #[test]
    fn one_seed_falls_in_each_of_the_separated_groups() {
        // Group g is a corner of the simplex, 40 times over.
        let dim = 30;
        let rows: Vec<f32> =
            (0..dim * 40).flat_map(|i| (0..dim).map(move |d| if d == i % dim { 1.0 } else { 0.0 })).collect();
        for rng in 0..5 {
            let centroids = seed(&rows, dim, dim, &mut ChaCha8Rng::seed_from_u64(rng));
            let mut groups: Vec<_> =
                centroids.chunks(dim).map(|c| c.iter().position(|&x| x == 1.0)).collect();
            groups.sort_unstable();
            assert_eq!(groups, (0..dim).map(Some).collect::<Vec<_>>());
        }
    }

    #[test]
    fn repeated_rows_still_fill_every_seed() {
        let rows = [1.0, 0.0].repeat(9);
        let centroids = seed(&rows, 2, 9, &mut ChaCha8Rng::seed_from_u64(1));
        assert_eq!(centroids, rows);
    }
}
