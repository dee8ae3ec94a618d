//! Spherical k-means: centroids of unit norm that maximise the mean cosine.

use super::product::{Nearest, nearest};
use super::{ClusterError, seeding};
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use rayon::prelude::*;

/// Tolerance for the norm of a row; rounding to half precision stays well below.
const NORM_TOLERANCE: f64 = 0.01;

/// Options of the clustering.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KMeansOptions {
    /// Number of clusters: from 1 to the number of rows.
    pub clusters: usize,
    /// Maximum number of times that centroids are moved; 0 leaves them at their seeds.
    pub iterations: usize,
    /// Seed of the random choice of first centroids.
    pub seed: u64,
}

/// Rows divided into non-empty clusters.
#[derive(Clone, Debug, PartialEq)]
pub struct KMeans {
    /// `[clusters, dim]` f32, row-major, of unit norm.
    pub centroids: Vec<f32>,
    /// Cluster of each row: that of its nearest centroid, except if repeated rows were split so that no
    /// cluster is empty.
    pub assignments: Vec<u32>,
    /// Number of rows in each cluster, at least 1.
    pub sizes: Vec<usize>,
}

/// Divides `rows` into clusters of similar direction.
///
/// Seeds by greedy k-means++ on a sample, then moves centroids until no assignment
/// changes or the iterations run out; a cluster that loses all its rows takes part of
/// the largest one. One iteration costs `n * clusters * dim` multiply-adds, shared by
/// the threads of the current rayon pool; their number does not change the result.
///
/// # Shapes
/// `rows` `[n, dim]` f32, row-major, of unit norm.
///
/// # Errors
/// [`ClusterError`], before the work starts.
pub fn spherical_kmeans(rows: &[f32], dim: usize, options: &KMeansOptions) -> Result<KMeans, ClusterError> {
    spherical_kmeans_with(rows, dim, options, &mut |_| Ok(()))
}

/// As [`spherical_kmeans`]; `tick` is called before each iteration with the number of finished ones, and may
/// end the call.
///
/// # Errors
/// Those of [`spherical_kmeans`], and errors of `tick`.
pub fn spherical_kmeans_with<E: From<ClusterError>>(
    rows: &[f32],
    dim: usize,
    options: &KMeansOptions,
    tick: &mut dyn FnMut(usize) -> Result<(), E>,
) -> Result<KMeans, E> {
    check(rows, dim)?;
    let mut rng = ChaCha8Rng::seed_from_u64(options.seed);
    let mut clustering = Clustering::new(rows, dim, seeding::seed(rows, dim, options.clusters, &mut rng));
    for iteration in 0..options.iterations {
        tick(iteration)?;
        let before = std::mem::take(&mut clustering.nearest.assignments);
        clustering.move_centroids(&before);
        clustering.assign();
        if clustering.nearest.assignments == before {
            break;
        }
    }
    Ok(clustering.found())
}

fn check(rows: &[f32], dim: usize) -> Result<(), ClusterError> {
    for (row, values) in rows.chunks_exact(dim).enumerate() {
        let norm = norm(values.iter().map(|&x| f64::from(x)));
        if !norm.is_finite() || (norm - 1.0).abs() > NORM_TOLERANCE {
            return Err(ClusterError { row, norm: norm as f32 });
        }
    }
    Ok(())
}

fn norm(values: impl Iterator<Item = f64>) -> f64 {
    values.map(|x| x * x).sum::<f64>().sqrt()
}

/// The state between two iterations.
pub(super) struct Clustering<'a> {
    pub rows: &'a [f32],
    pub dim: usize,
    pub centroids: Vec<f32>,
    nearest: Nearest,
}

impl<'a> Clustering<'a> {
    fn new(rows: &'a [f32], dim: usize, centroids: Vec<f32>) -> Self {
        let mut clustering = Self { rows, dim, centroids, nearest: Nearest::default() };
        for centroid in clustering.centroids.chunks_exact_mut(dim) {
            normalise(centroid);
        }
        clustering.assign();
        clustering
    }

    /// Starts from the centroids of an earlier clustering.
    pub fn of(rows: &'a [f32], dim: usize, centroids: Vec<f32>) -> Self {
        Self { rows, dim, centroids, nearest: Nearest::default() }
    }

    /// The clusters with these assignments; empty ones are filled.
    pub fn placed(mut self, assignments: Vec<u32>) -> KMeans {
        let centroid = |row: usize| &self.centroids[assignments[row] as usize * self.dim..][..self.dim];
        let rows = self.rows.chunks_exact(self.dim).enumerate();
        let similarity =
            |(row, own): (usize, &[f32])| own.iter().zip(centroid(row)).map(|(x, y)| x * y).sum();
        self.nearest.similarities = rows.map(similarity).collect();
        self.nearest.assignments = assignments;
        self.refill_all();
        self.found()
    }

    fn found(self) -> KMeans {
        let sizes = self.sizes();
        KMeans { centroids: self.centroids, sizes, assignments: self.nearest.assignments }
    }

    fn sizes(&self) -> Vec<usize> {
        let mut sizes = vec![0; self.centroids.len() / self.dim];
        for &cluster in &self.nearest.assignments {
            sizes[cluster as usize] += 1;
        }
        sizes
    }

    /// Assigns every row to its nearest centroid, and fills clusters that become empty.
    fn assign(&mut self) {
        self.nearest = nearest(self.rows, &self.centroids, self.dim);
        self.refill_all();
    }

    fn refill_all(&mut self) {
        let mut sizes = self.sizes();
        for cluster in 0..sizes.len() {
            if sizes[cluster] == 0 {
                self.refill(cluster, &mut sizes);
            }
        }
    }

    /// Makes the worst assigned row of the largest cluster the centroid of an empty one, together with the
    /// rows of that cluster that are closer to it.
    ///
    /// No row gets less similar to its centroid, so the objective does not fall.
    fn refill(&mut self, empty: usize, sizes: &mut [usize]) {
        let mut largest = 0;
        for (cluster, &size) in sizes.iter().enumerate() {
            if size > sizes[largest] {
                largest = cluster;
            }
        }
        let similarities = &mut self.nearest.similarities;
        let assignments = &mut self.nearest.assignments;
        let members: Vec<usize> =
            (0..assignments.len()).filter(|&i| assignments[i] as usize == largest).collect();
        let Some(&worst) = members.iter().min_by(|&&a, &&b| similarities[a].total_cmp(&similarities[b]))
        else {
            return;
        };

        let row = |i: usize| &self.rows[i * self.dim..][..self.dim];
        let centroid = &mut self.centroids[empty * self.dim..][..self.dim];
        centroid.copy_from_slice(row(worst));
        normalise(centroid);
        for i in members {
            let similarity: f32 = row(i).iter().zip(&*centroid).map(|(x, y)| x * y).sum();
            let closer = similarity > similarities[i] && sizes[largest] > 1;
            if i == worst || closer {
                similarities[i] = similarity;
                assignments[i] = empty as u32;
                sizes[largest] -= 1;
                sizes[empty] += 1;
            }
        }
    }

    /// Moves every centroid to the direction of the sum of its rows, which maximises their mean cosine.
    pub fn move_centroids(&mut self, assignments: &[u32]) {
        let clusters = self.centroids.len() / self.dim;
        let mut members = vec![Vec::new(); clusters];
        for (i, &cluster) in assignments.iter().enumerate() {
            members[cluster as usize].push(i);
        }
        let (rows, dim) = (self.rows, self.dim);
        self.centroids.par_chunks_exact_mut(dim).zip(&members).for_each(|(centroid, members)| {
            let mut sum = vec![0.0f64; dim];
            for &i in members {
                for (sum, &x) in sum.iter_mut().zip(&rows[i * dim..][..dim]) {
                    *sum += f64::from(x);
                }
            }
            let norm = norm(sum.iter().copied());
            // Rows that cancel out have no direction; any centroid is equally good.
            if norm > f64::EPSILON {
                for (x, sum) in centroid.iter_mut().zip(&sum) {
                    *x = (sum / norm) as f32;
                }
            }
        });
    }
}

fn normalise(row: &mut [f32]) {
    let norm = norm(row.iter().map(|&x| f64::from(x)));
    for x in row {
        *x = (f64::from(*x) / norm) as f32;
    }
}

#[cfg(test)]
mod tests;
