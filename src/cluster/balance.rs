//! Clusters of more even sizes: large clusters are penalised.

use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;

use super::kmeans::{Clustering, KMeans};
use super::product::Panels;

/// How often every row is reassigned.
const ROUNDS: usize = 10;
/// Rows assigned with the same cluster sizes.
const BLOCK: usize = 1024;

impl KMeans {
    /// Evens out the sizes of these clusters: rows are reassigned in blocks to the cluster with the highest
    /// similarity less `penalty` times its size over the mean size, and centroids are moved.
    ///
    /// A row is then not always with its nearest centroid. No cluster is empty. With a penalty of 0,
    /// centroids are only moved further.
    ///
    /// # Shapes
    /// `rows` `[n, dim]` f32, the rows that were clustered.
    pub(crate) fn balanced(self, rows: &[f32], dim: usize, penalty: f32, seed: u64) -> Self {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let clusters = self.sizes.len();
        let mut sizes = self.sizes;
        let mut assignments = self.assignments;
        let mut clustering = Clustering::of(rows, dim, self.centroids);
        let even = assignments.len() as f32 / clusters as f32;
        let mut order: Vec<usize> = (0..assignments.len()).collect();
        for _ in 0..ROUNDS {
            order.shuffle(&mut rng);
            for block in order.chunks(BLOCK.min(assignments.len().div_ceil(2))) {
                for &row in block {
                    sizes[assignments[row] as usize] -= 1;
                }
                let placed = placed(&clustering, block, &sizes, penalty / even);
                for (&row, cluster) in block.iter().zip(placed) {
                    assignments[row] = cluster;
                    sizes[cluster as usize] += 1;
                }
            }
            clustering.move_centroids(&assignments);
        }
        clustering.placed(assignments)
    }
}

/// For each row of the block, the cluster with the highest similarity less `penalty` times its size. The
/// penalty is an extra dimension: 1 in each row, its negative in each centroid.
fn placed(clustering: &Clustering<'_>, block: &[usize], sizes: &[usize], penalty: f32) -> Vec<u32> {
    let dim = clustering.dim;
    let mut centroids = Vec::with_capacity(sizes.len() * (dim + 1));
    for (centroid, &size) in clustering.centroids.chunks_exact(dim).zip(sizes) {
        centroids.extend_from_slice(centroid);
        centroids.push(-penalty * size as f32);
    }
    let mut rows = Vec::with_capacity(block.len() * (dim + 1));
    for &row in block {
        rows.extend_from_slice(&clustering.rows[row * dim..][..dim]);
        rows.push(1.0);
    }
    Panels::pack(&centroids, dim + 1).nearest(&rows).assignments
}

#[cfg(test)]
mod tests {
    use super::super::kmeans::{KMeansOptions, spherical_kmeans};
    use super::*;
    use rand::Rng;

    fn unit_rows(n: usize, dim: usize) -> Vec<f32> {
        let mut rng = ChaCha8Rng::seed_from_u64(5);
        let mut rows = Vec::with_capacity(n * dim);
        for place in 0..n {
            // A third of the rows are close together.
            let spread = if place % 3 == 0 { 0.1 } else { 1.0 };
            let mut row: Vec<f32> = (0..dim).map(|_| rng.random_range(-spread..spread)).collect();
            row[0] += 1.0;
            let norm = row.iter().map(|x| x * x).sum::<f32>().sqrt();
            rows.extend(row.iter().map(|x| x / norm));
        }
        rows
    }

    #[test]
    fn sizes_become_more_even_and_no_cluster_is_empty() {
        let (n, dim) = (3000, 8);
        let rows = unit_rows(n, dim);
        let options = KMeansOptions { clusters: 60, iterations: 20, seed: 1 };
        let found = spherical_kmeans(&rows, dim, &options).unwrap();
        let largest = |found: &KMeans| found.sizes.iter().copied().max().unwrap();
        let even = found.clone().balanced(&rows, dim, 0.1, 2);
        assert!(largest(&even) < largest(&found), "{} {}", largest(&even), largest(&found));
        assert!(even.sizes.iter().all(|&size| size > 0));
        assert_eq!(even.sizes.iter().sum::<usize>(), n);
        for (place, &size) in even.sizes.iter().enumerate() {
            assert_eq!(even.assignments.iter().filter(|&&own| own as usize == place).count(), size);
        }
        assert_eq!(found.clone().balanced(&rows, dim, 0.1, 2), even);
        // As many clusters as rows, and one.
        for clusters in [1, 20] {
            let options = KMeansOptions { clusters, iterations: 5, seed: 1 };
            let few = &rows[..20 * dim];
            let even = spherical_kmeans(few, dim, &options).unwrap().balanced(few, dim, 1.0, 2);
            assert!(even.sizes.iter().all(|&size| size > 0));
        }
    }
}
