use super::*;
use crate::codes;
use proptest::prelude::*;

const ALL: [Similarity; 3] = [Similarity::Cosine, Similarity::DotProduct, Similarity::Manhattan];

/// The score in f64, and the maximum error of an f32 sum in any order.
///
/// Each of `n` terms is rounded at most once and takes part in at most `n` additions, so the error is below
/// `n * EPSILON * sum |term|` (`EPSILON` is twice the unit roundoff), plus the underflow of each.
fn exact(similarity: Similarity, query: &[f32], row: &[f16]) -> (f64, f64) {
    let pairs = row.iter().map(|x| x.to_f64()).zip(query.iter().map(|&y| f64::from(y)));
    let terms: Vec<f64> = match similarity {
        Similarity::Cosine | Similarity::DotProduct => pairs.map(|(x, y)| x * y).collect(),
        Similarity::Manhattan => pairs.map(|(x, y)| -(x - y).abs()).collect(),
    };
    let magnitude: f64 = terms.iter().map(|term| term.abs()).sum();
    let n = terms.len() as f64;
    let bound = n * (f64::from(f32::EPSILON) * magnitude + f64::from(f32::MIN_POSITIVE));
    let sum: f64 = terms.iter().sum();
    (if similarity == Similarity::Cosine { sum.clamp(-1.0, 1.0) } else { sum }, bound)
}

fn score(kernel: Kernel, similarity: Similarity, query: &[f32], row: &[f16]) -> f32 {
    let mut scores = [f32::NAN];
    kernel.score(similarity, query, &[row], &mut scores);
    scores[0]
}

fn assert_close(query: &[f32], row: &[f16]) {
    for similarity in ALL {
        let (expected, bound) = exact(similarity, query, row);
        let reference = f64::from(score(Kernel::Scalar, similarity, query, row));
        for kernel in Kernel::available() {
            let got = f64::from(score(kernel, similarity, query, row));
            let context = || format!("{kernel:?} {similarity:?} dim {}: {got}", query.len());
            assert!((got - expected).abs() <= bound, "{}, exactly {expected}", context());
            assert!((got - reference).abs() <= 2.0 * bound, "{}, scalar {reference}", context());
        }
    }
}

#[test]
fn every_width_and_tail_is_summed() {
    for dim in (1..=if cfg!(miri) { 40 } else { 150 }).chain([384, 767, 768, 769, 1024]) {
        // Distinct terms, so that a missing or repeated one shows.
        let query: Vec<f32> = (0..dim).map(|i| 1.0 + i as f32).collect();
        let row: Vec<f16> = (0..dim).map(|i| f16::from_f32(0.5 + (i % 7) as f32)).collect();
        assert_close(&query, &row);
    }
}

#[test]
fn subnormals_are_not_flushed() {
    let smallest = f16::from_bits(1);
    assert!(smallest.to_f32() > 0.0);
    for kernel in Kernel::available() {
        for dim in [1, 8, 17, 64] {
            let row = vec![smallest; dim];
            let expected = dim as f32 * smallest.to_f32();
            assert_eq!(score(kernel, Similarity::DotProduct, &vec![1.0; dim], &row), expected);
            assert_eq!(score(kernel, Similarity::Manhattan, &vec![0.0; dim], &row), -expected);
        }
    }
}

#[test]
fn nan_and_infinity_reach_the_score() {
    for kernel in Kernel::available() {
        for dim in [1, 9, 40, 384] {
            let mut row = vec![f16::ONE; dim];
            row[dim - 1] = f16::NAN;
            assert!(score(kernel, Similarity::Cosine, &vec![1.0; dim], &row).is_nan());
            row[dim - 1] = f16::INFINITY;
            assert_eq!(score(kernel, Similarity::DotProduct, &vec![1.0; dim], &row), f32::INFINITY);
            assert_eq!(score(kernel, Similarity::Manhattan, &vec![1.0; dim], &row), f32::NEG_INFINITY);
        }
    }
}

#[test]
fn codes_round_trip_and_zero_is_none() {
    for similarity in ALL {
        assert_eq!(Similarity::from_code(similarity.code()), Some(similarity));
    }
    assert_eq!(Similarity::from_code(0), None);
    assert_eq!(Similarity::from_code(4), None);
    assert_eq!(serde_json::to_string(&Similarity::DotProduct).unwrap(), r#""dot_product""#);
}

/// The rows of a matrix, numbered.
fn numbered(matrix: &[f16], dim: usize) -> impl Iterator<Item = (Row, &[f16])> {
    (0..).map(Row).zip(matrix.chunks_exact(dim))
}

#[test]
fn a_scan_over_several_blocks_finds_the_nearest_rows() {
    // Row r holds r in both dimensions: the distance to 150 ranks the rows.
    let matrix: Vec<f16> = (0..300).flat_map(|r| [f16::from_f32(r as f32); 2]).collect();
    let scanner = Scanner::new(Similarity::Manhattan, &[150.0, 150.0]).unwrap();
    let mut top = TopK::new(3);
    assert_eq!(scanner.scan(numbered(&matrix, 2).step_by(2), &mut top), Ok(150));
    assert_eq!(top.into_sorted(), [(0.0, Row(150)), (-4.0, Row(148)), (-4.0, Row(152))]);
}

#[test]
fn bad_shapes_are_refused_by_name() {
    let matrix = [f16::ONE; 6];
    let new = |query| Scanner::new(Similarity::Cosine, query);
    assert_eq!(new(&[]).unwrap_err(), ScanError::EmptyQuery);
    let error = new(&[1.0; 4]).unwrap().scan(numbered(&matrix, 3), &mut TopK::new(1)).unwrap_err();
    assert_eq!(error, ScanError::Width { row: Row(0), found: 3, dim: 4 });
}

#[test]
fn blocks_of_codes_add_up_alike() {
    let mut state = 5u64;
    let mut byte = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 56) as u8
    };
    for dim in [64, 65, 384, 768, 1024, 1032, 5000].into_iter().take(if cfg!(miri) { 2 } else { 7 }) {
        let mut query = CodedQuery::new(&codes::Rotation::new(dim), &vec![0.1; dim]);
        let mut blocks: Vec<u8> = (0..3 * codes::block_bytes(dim)).map(|_| byte()).collect();
        // Their numbers are those of no row.
        for block in blocks.chunks_exact_mut(codes::block_bytes(dim)) {
            let start = block.len() - 3 * codes::BLOCK_ROWS * size_of::<f32>();
            block[start..].fill(0x3c);
        }
        for highest in [false, true] {
            // The largest possible sums.
            query.tables.iter_mut().for_each(|entry| *entry = if highest { u8::MAX } else { byte() });
            let (near, width, threshold) = (query.near(0.5), 2.0, f32::NEG_INFINITY);
            let scan = CodeScan { query: &query, blocks: &blocks, near, width, threshold, next: &blocks };
            let (mut all, mut expected) = (Vec::new(), Vec::new());
            scan.run(TableSums, &mut |found| {
                expected.push((found.block, found.reach, found.bounds, found.sums))
            });
            assert_eq!(expected.len(), 3);
            for kernel in Kernel::available() {
                all.clear();
                kernel.scan_codes(scan, &mut |found| {
                    all.push((found.block, found.reach, found.bounds, found.sums))
                });
                assert_eq!(all, expected, "{kernel:?}, {dim}");
            }
        }
    }
}

#[test]
fn levels_of_supplements_add_up_alike() {
    let mut state = 9u64;
    let mut byte = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 56) as u8
    };
    for dim in [64, 65, 384, 768, 5000].into_iter().take(if cfg!(miri) { 2 } else { 5 }) {
        let mut query = CodedQuery::new(&codes::Rotation::new(dim), &vec![0.1; dim]);
        for lowest in [false, true] {
            // Of the largest possible magnitude.
            query.fine.iter_mut().for_each(|x| *x = if lowest { i8::MIN } else { byte() as i8 });
            let record: Vec<u8> =
                (0..codes::supplement_bytes(dim)).map(|_| if lowest { u8::MAX } else { byte() }).collect();
            let (bits, _) = codes::split_supplement(&record);
            for kernel in Kernel::available() {
                assert_eq!(kernel.code_levels(&query, bits), query.levels(bits), "{kernel:?}, {dim}");
            }
        }
    }
}

fn unit(values: &[f32]) -> Vec<f32> {
    let norm = values.iter().map(|x| f64::from(*x).powi(2)).sum::<f64>().sqrt();
    values.iter().map(|x| (f64::from(*x) / norm) as f32).collect()
}

fn norm(row: &[f16]) -> f64 {
    row.iter().map(|x| x.to_f64().powi(2)).sum::<f64>().sqrt()
}

/// Checks the guarantees of a row stored for cosine.
fn assert_at_most_one(values: &[f32]) {
    let exact = unit(values);
    let row = unit_to_store(&exact);
    assert!((1.0 - 5e-4..=1.0).contains(&norm(&row)), "norm {} of {exact:?}", norm(&row));
    for (stored, x) in row.iter().zip(&exact) {
        let nearest = f16::from_f32(*x);
        let toward_zero = f16::from_bits(nearest.to_bits().saturating_sub(1));
        assert!(*stored == nearest || *stored == toward_zero, "{stored} for {x}");
    }
    let widened: Vec<f32> = row.iter().map(|x| x.to_f32()).collect();
    let opposite = |query: &[f32]| query.iter().map(|x| -x).collect::<Vec<f32>>();
    // The second is the row's own direction: no query has a greater product with it.
    for query in [exact, unit(&widened)] {
        for query in [opposite(&query), query] {
            for kernel in Kernel::available() {
                let product = score(kernel, Similarity::DotProduct, &query, &row);
                let cosine = score(kernel, Similarity::Cosine, &query, &row);
                assert!((-1.0..=1.0).contains(&cosine), "{kernel:?}: {cosine}");
                // Only the rounding of the sum is clamped, which is largest in eight partial sums.
                let rounding = (row.len() / 8 + 8) as f32 * f32::EPSILON / 2.0;
                assert!((cosine - product).abs() <= rounding, "{kernel:?}: {product}");
                assert!(cosine.abs() > 1.0 - 5e-4, "{kernel:?}: {cosine}");
            }
        }
    }
}

#[test]
fn no_cosine_of_equal_or_sparse_values_is_beyond_one() {
    for dim in (1..=if cfg!(miri) { 20 } else { 100 }).chain([384, 768, 1024, 4096]) {
        assert_at_most_one(&vec![0.3; dim]);
        assert_at_most_one(&vec![-1e-30; dim]);
        let mut one = vec![0.0; dim];
        one[dim / 2] = -7.0;
        assert_at_most_one(&one);
        // Below the smallest f16, next to a large one.
        one[0] = 1e-9;
        one[dim - 1] = 3.0;
        assert_at_most_one(&one);
    }
}

/// Rows longer than 1, as rounding alone makes them: from indexes made before such rows were avoided.
#[test]
fn the_cosine_of_a_long_row_is_cut() {
    let (row, query) = (vec![f16::from_f32(0.05105); 384], unit(&[1.0; 384]));
    assert!(norm(&row) > 1.0001);
    for kernel in Kernel::available() {
        assert!(score(kernel, Similarity::DotProduct, &query, &row) > 1.0001);
        assert_eq!(score(kernel, Similarity::Cosine, &query, &row), 1.0);
        let opposite: Vec<f32> = query.iter().map(|x| -x).collect();
        assert_eq!(score(kernel, Similarity::Cosine, &opposite, &row), -1.0);
    }
}

proptest! {
    #[test]
    fn no_cosine_is_beyond_one(values in prop::collection::vec(-1.0f32..1.0, 1..800)) {
        prop_assume!(values.iter().any(|x| x.abs() > 1e-3));
        assert_at_most_one(&values);
    }

    /// Rows read at unit norm and stored again, as by an export or a copy.
    #[test]
    fn a_stored_row_is_stored_again_as_it_is(values in prop::collection::vec(-1.0f32..1.0, 64..800)) {
        let row = unit_to_store(&unit(&values));
        let widened: Vec<f32> = row.iter().map(|x| x.to_f32()).collect();
        prop_assert_eq!(unit_to_store(&unit(&widened)), row);
    }

    #[test]
    fn kernels_stay_within_the_error_bound(
        pairs in prop::collection::vec((any::<u16>(), -1e3f32..1e3, -40i32..10), 1..300),
    ) {
        // Every finite half, including subnormals, with queries of many magnitudes.
        let row: Vec<f16> = pairs
            .iter()
            .map(|&(bits, ..)| f16::from_bits(bits))
            .map(|x| if x.is_finite() { x } else { f16::ZERO })
            .collect();
        let query: Vec<f32> = pairs.iter().map(|&(_, y, power)| y * 2f32.powi(power)).collect();
        assert_close(&query, &row);
    }

    #[test]
    fn a_scan_agrees_with_sorting_all_scores(
        dim in 1usize..20,
        values in prop::collection::vec(-1.0f32..1.0, 20..3000),
        k in 1usize..20,
    ) {
        let (query, rows) = values.split_at(dim);
        let n = rows.len() / dim;
        let matrix: Vec<f16> = rows[..n * dim].iter().map(|&x| f16::from_f32(x)).collect();
        for similarity in ALL {
            let mut top = TopK::new(k);
            let scanner = Scanner::new(similarity, query).unwrap();
            prop_assert_eq!(scanner.scan(numbered(&matrix, dim), &mut top), Ok(n));

            let mut expected: Vec<(f32, Row)> = matrix
                .chunks(dim)
                .zip((0..).map(Row))
                .map(|(row, id)| (score(Kernel::detect(), similarity, query, row), id))
                .collect();
            expected.sort_by(|a, b| b.0.partial_cmp(&a.0).unwrap());
            expected.truncate(k);
            prop_assert_eq!(top.into_sorted(), expected);
        }
    }
}
