use super::*;
use proptest::prelude::*;

/// Every product in f64, with the error bound of an f32 sum in any order.
fn exact(queries: &[f32], rows: &[f32], dim: usize) -> Vec<(f64, f64)> {
    let mut products = Vec::new();
    for query in queries.chunks(dim) {
        for row in rows.chunks(dim) {
            let terms = query.iter().zip(row).map(|(&x, &y)| f64::from(x) * f64::from(y));
            let magnitude: f64 = terms.clone().map(f64::abs).sum();
            let bound = dim as f64 * (f64::from(f32::EPSILON) * magnitude + f64::from(f32::MIN_POSITIVE));
            products.push((terms.sum(), bound));
        }
    }
    products
}

fn assert_products(queries: &[f32], rows: &[f32], dim: usize) {
    let n = rows.len() / dim;
    let expected = exact(queries, rows, dim);
    let mut out = vec![f32::NAN; expected.len()];
    Panels::pack(rows, dim).dot_products(queries, &mut out);
    for (&got, (expected, bound)) in out.iter().zip(&expected) {
        assert!((f64::from(got) - expected).abs() <= *bound, "{got} is not {expected}");
    }
    if n > 0 {
        let nearest = nearest(queries, rows, dim);
        for ((products, &row), &similarity) in
            out.chunks(n).zip(&nearest.assignments).zip(&nearest.similarities)
        {
            let best = products.iter().copied().fold(f32::NEG_INFINITY, f32::max);
            let first = products.iter().position(|&product| product == best).unwrap();
            assert_eq!((row as usize, similarity), (first, best));
        }
    }
}

fn values(n: usize) -> Vec<f32> {
    (0..n).map(|i| ((i * 7919 + 13) % 1009) as f32 / 504.5 - 1.0).collect()
}

#[test]
fn every_tile_shape_is_summed() {
    for rows in [1, 2, 7, 8, 9, 15, 16, 17, 32, 33, 47, 48, 49, 63, 97, 145] {
        for queries in [1, 3, 4, 5, 8, 9, 131] {
            assert_products(&values(queries * 5), &values(rows * 5), 5);
        }
    }
}

#[test]
fn blocks_and_threads_do_not_change_a_value() {
    let (queries, rows, dim) = (values(300 * 24), values(130 * 24), 24);
    let run = |threads| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        let mut out = vec![0.0; 300 * 130];
        pool.install(|| Panels::pack(&rows, dim).dot_products(&queries, &mut out));
        (out, pool.install(|| nearest(&queries, &rows, dim)))
    };
    assert!(run(1) == run(3));
}

#[test]
fn equal_products_go_to_the_lower_row() {
    let rows = [1.0, 0.0].repeat(100);
    assert_eq!(nearest(&[1.0, 1.0], &rows, 2).assignments, [0]);
}

#[test]
fn nan_is_nearest_to_nothing() {
    let found = nearest(&[f32::NAN, 0.0, 1.0, 0.0], &[0.0, 1.0, 1.0, 0.0], 2);
    assert_eq!(found.assignments, [0, 1]);
    assert_eq!(found.similarities, [f32::NEG_INFINITY, 1.0]);
}

proptest! {
    #[test]
    fn products_stay_within_the_error_bound(
        dim in 1usize..40,
        queries in prop::collection::vec(-1.0f32..1.0, 1..400),
        rows in prop::collection::vec(-1.0f32..1.0, 0..4000),
    ) {
        let whole = |values: &[f32]| values.len() / dim * dim;
        assert_products(&queries[..whole(&queries)], &rows[..whole(&rows)], dim);
    }
}
