use super::*;
use proptest::prelude::*;
use rand::Rng;

fn options(clusters: usize, iterations: usize) -> KMeansOptions {
    KMeansOptions { clusters, iterations, seed: 7 }
}

/// `n` unit rows, each the axis `i % groups` with noise of up to `noise` per dimension.
fn groups(n: usize, dim: usize, groups: usize, noise: f32) -> Vec<f32> {
    let mut rng = ChaCha8Rng::seed_from_u64(3);
    let mut rows: Vec<f32> = (0..n * dim)
        .map(|at| {
            let axis = at / dim % groups == at % dim;
            f32::from(u8::from(axis)) + noise * rng.random_range(-1.0..1.0)
        })
        .collect();
    rows.chunks_exact_mut(dim).for_each(normalise);
    rows
}

fn assert_valid(rows: &[f32], dim: usize, found: &KMeans) {
    assert_eq!(found.assignments.len() * dim, rows.len());
    assert_eq!(found.sizes.len() * dim, found.centroids.len());
    let mut sizes = vec![0; found.sizes.len()];
    found.assignments.iter().for_each(|&c| sizes[c as usize] += 1);
    assert_eq!(found.sizes, sizes);
    assert!(sizes.iter().all(|&size| size > 0), "{sizes:?}");
    for centroid in found.centroids.chunks(dim) {
        assert!((norm(centroid.iter().map(|&x| f64::from(x))) - 1.0).abs() < 1e-6);
    }
}

/// The mean cosine between a row and the nearest centroid, which k-means maximises.
fn objective(rows: &[f32], dim: usize, found: &KMeans) -> f64 {
    let cosines = nearest(rows, &found.centroids, dim).similarities;
    cosines.iter().map(|&cosine| f64::from(cosine)).sum::<f64>() / cosines.len() as f64
}

#[test]
fn separated_groups_are_recovered() {
    let rows = groups(2_000, 24, 20, 0.15);
    let found = spherical_kmeans(&rows, 24, &options(20, 50)).unwrap();
    assert_valid(&rows, 24, &found);
    assert_eq!(found.sizes, [100; 20]);
    for (i, &cluster) in found.assignments.iter().enumerate() {
        assert_eq!(cluster, found.assignments[i % 20], "row {i}");
    }
}

#[test]
fn the_objective_never_falls_and_the_assignment_is_to_the_nearest() {
    let rows = groups(3_000, 16, 5, 0.8);
    let mut before = f64::NEG_INFINITY;
    for iterations in 0..12 {
        let found = spherical_kmeans(&rows, 16, &options(40, iterations)).unwrap();
        assert_valid(&rows, 16, &found);
        let objective = objective(&rows, 16, &found);
        assert!(objective >= before - 1e-7, "{objective} after {before}");
        assert_eq!(found.assignments, nearest(&rows, &found.centroids, 16).assignments);
        before = objective;
    }
    let seeded = objective(&rows, 16, &spherical_kmeans(&rows, 16, &options(40, 0)).unwrap());
    assert!(before > seeded + 0.01, "{before} is no gain over {seeded}");
}

#[test]
fn threads_do_not_change_the_result_but_the_seed_does() {
    let rows = groups(5_000, 12, 6, 1.0);
    let run = |threads, seed| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        let options = KMeansOptions { clusters: 100, iterations: 4, seed };
        pool.install(|| spherical_kmeans(&rows, 12, &options).unwrap())
    };
    assert_eq!(run(1, 7), run(3, 7));
    assert_ne!(run(1, 7).centroids, run(1, 8).centroids);
}

#[test]
fn an_empty_cluster_takes_part_of_the_largest() {
    // Centroid 2 is nearest to no row: cluster 0 has four rows, of which the first is the worst assigned and
    // takes its neighbour with it.
    let rows: Vec<f32> =
        [0.0f32, 0.1, 1.0, 1.1, 1.6].iter().flat_map(|angle| [angle.cos(), angle.sin(), 0.0]).collect();
    let centroids = vec![0.7, 0.7, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0];
    let clustering = Clustering::new(&rows, 3, centroids);
    assert_eq!(clustering.nearest.assignments, [2, 2, 0, 0, 1]);
    assert_eq!(clustering.centroids[6..], [1.0, 0.0, 0.0]);
    assert_eq!(clustering.nearest.similarities[0], 1.0);
}

#[test]
fn repeated_rows_leave_no_cluster_empty() {
    let rows = [0.6, 0.8].repeat(50);
    let found = spherical_kmeans(&rows, 2, &options(7, 5)).unwrap();
    assert_valid(&rows, 2, &found);
}

#[test]
fn rows_that_are_not_of_unit_norm_are_refused() {
    let run = |rows: &[f32]| spherical_kmeans(rows, 2, &options(1, 1)).unwrap_err();
    assert_eq!(run(&[3.0, 4.0]), ClusterError { row: 0, norm: 5.0 });
    for bad in [f32::NAN, f32::INFINITY] {
        assert_eq!(run(&[1.0, 0.0, bad, 1.0]).row, 1);
    }
}

proptest! {
    #[test]
    fn no_cluster_is_ever_empty(
        angles in prop::collection::vec(0u8..12, 1..80),
        clusters in any::<prop::sample::Index>(),
        iterations in 0usize..6,
        seed: u64,
    ) {
        // Few directions, so most rows are repeated and clusters run empty.
        let rows: Vec<f32> = angles
            .iter()
            .map(|&n| f32::from(n) * std::f32::consts::TAU / 12.0)
            .flat_map(|angle| [angle.cos(), angle.sin()])
            .collect();
        let clusters = 1 + clusters.index(angles.len());
        let options = KMeansOptions { clusters, iterations, seed };
        assert_valid(&rows, 2, &spherical_kmeans(&rows, 2, &options).unwrap());
    }
}
