use super::*;
use half::f16;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

fn unit(dim: usize, random: &mut ChaCha8Rng) -> Vec<f32> {
    let row: Vec<f32> = (0..dim).map(|_| random.random_range(-1.0..1.0)).collect();
    let norm = row.iter().map(|x| x * x).sum::<f32>().sqrt();
    row.into_iter().map(|x| x / norm).collect()
}

fn dot(a: &[f32], b: &[f32]) -> f64 {
    a.iter().zip(b).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum()
}

#[test]
fn the_rotation_keeps_products_and_spreads() {
    let mut random = ChaCha8Rng::seed_from_u64(1);
    for dim in [1, 2, 3, 7, 64, 100, 384, 768, 1000].into_iter().take(if cfg!(miri) { 5 } else { 9 }) {
        let rotation = Rotation::new(dim);
        let (a, b) = (unit(dim, &mut random), unit(dim, &mut random));
        let (mut c, mut d) = (a.clone(), b.clone());
        rotation.apply(&mut c);
        rotation.apply(&mut d);
        assert!((dot(&a, &b) - dot(&c, &d)).abs() < 1e-5, "{dim}");
        // One element is spread over all of them.
        let mut one = vec![0.0; dim];
        one[dim / 3] = 1.0;
        rotation.apply(&mut one);
        let highest = one.iter().fold(0f32, |a, b| a.max(b.abs()));
        assert!(dim < 64 || highest < 5.0 / (dim as f32).sqrt(), "{dim}: {highest}");
    }
}

/// Codes on disk must stay readable: the rotation is part of the format.
#[test]
fn the_rotation_never_changes() {
    let mut row: Vec<f32> = (0..96).map(|i| (i % 13) as f32 - 6.0).collect();
    Rotation::new(96).apply(&mut row);
    let halves: Vec<f16> = (0..96).map(|i| f16::from_f32((i % 13) as f32 - 6.0)).collect();
    for place in [0, 5, 16, 31] {
        let mut block = vec![0; block_bytes(96)];
        CodeMaker::new(96).encode(&halves, place, &mut block, None);
        let mut code = [0u64; 2];
        for (i, x) in row.iter().enumerate() {
            let bit = block[i / 4 * 16 + place % 16] >> (place / 16 * 4 + i % 4) & 1;
            assert_eq!(bit == 1, *x > 0.0, "{i}");
            code[i / 64] |= u64::from(bit) << (i % 64);
        }
        assert_eq!(code, PINNED, "{code:#x?}");
        let set: u32 = block.iter().map(|byte| byte.count_ones()).sum();
        assert_eq!(set, code.iter().map(|word| word.count_ones()).sum::<u32>(), "no other row has a bit");
    }
}

const PINNED: [u64; 2] = [0xe031_bc2e_8267_2c3e, 0x7faf_6c80];

/// The highest likely score of a row, from its sum: estimate plus error.
fn upper_bound(coded: &CodedQuery, sum: u32, near: Near, width: f32, made: Made) -> f32 {
    let mut bounds = [0.0; BLOCK_ROWS];
    let rows = CodedRows { sums: &[sum], factors: &[made.factors], shifts: &[made.shift], near, width };
    coded.upper_bounds(rows, f32::INFINITY, &mut bounds);
    bounds[0]
}

fn tight_bound(coded: &CodedQuery, sum: u32, near: Near, width: f32, record: &[u8]) -> f32 {
    let (bits, numbers) = split_supplement(record);
    coded.tight_bound(coded.product(sum), coded.levels(bits), near, width, numbers)
}

/// Rows with a component along a mean, from far from the query to near it.
fn rows_along(mean: &[f16], query: &[f32], count: usize, random: &mut ChaCha8Rng) -> Vec<Vec<f16>> {
    let mut one = |_| {
        let (other, near) = (unit(query.len(), random), random.random_range(0.0..0.7));
        let along: f32 = random.random_range(0.5..2.0);
        let rest = query.iter().zip(&other).map(|(q, o)| near * q + (0.7 - near) * o);
        rest.zip(mean).map(|(rest, mean)| f16::from_f32(rest + along * mean.to_f32())).collect()
    };
    (0..count).map(&mut one).collect()
}

#[test]
fn scores_lie_below_the_bounds_but_for_few() {
    const WIDTH: f32 = 2.0;
    let mut random = ChaCha8Rng::seed_from_u64(2);
    for dim in [64, 100, 384, 768].into_iter().take(if cfg!(miri) { 1 } else { 4 }) {
        let mut maker = CodeMaker::new(dim);
        let rotation = Rotation::new(dim);
        let mut record = vec![0; supplement_bytes(dim)];
        // With the bits alone, and with the supplement.
        let (mut above, mut slack, mut rows) = ([0; 2], [0.0; 2], 0);
        for round in 0..if cfg!(miri) { 1 } else { 20 } {
            let query = unit(dim, &mut random);
            let coded = CodedQuery::new(&rotation, &query);
            let score = |row: &[f16]| row.iter().zip(&query).map(|(x, q)| x.to_f64() * f64::from(*q)).sum();
            let mut mean = Vec::new();
            let mut maker_of_mean = MeanMaker::new(dim);
            let around: Vec<f16> = unit(dim, &mut random).into_iter().map(f16::from_f32).collect();
            maker_of_mean.add(&around);
            maker_of_mean.finish(&mut mean);
            let mean = (round % 2 == 1).then_some(&*mean);
            let of_mean: Option<f64> = mean.map(score);
            let near = coded.near(of_mean.map(|score| score as f32));
            maker.beside(mean);
            for row in rows_along(&around, &query, 100, &mut random) {
                let (mut block, place) = (vec![0; block_bytes(dim)], rows % BLOCK_ROWS);
                let made = maker.encode(&row, place, &mut block, Some(&mut record));
                let exact: f64 = score(&row);
                let sum = coded.sums(&block)[place];
                let bound = upper_bound(&coded, sum, near, WIDTH, made);
                let tight = tight_bound(&coded, sum, near, WIDTH, &record);
                for (at, bound) in [bound, tight].map(f64::from).into_iter().enumerate() {
                    above[at] += usize::from(exact > bound);
                    slack[at] += bound - exact;
                }
                rows += 1;
            }
        }
        assert!(above.iter().all(|above| above * 20 < rows), "{dim}: {above:?} of {rows}");
        let [slack, tight] = slack.map(|slack| slack / f64::from(rows as u32));
        assert!(slack < 6.0 / (dim as f64).sqrt(), "{dim}: {slack}");
        assert!(tight < slack / 4.0, "{dim}: {tight} of {slack}");
    }
}

/// The component along the mean is not coded: codes only cover the rest.
#[test]
fn bounds_are_tighter_beside_a_mean() {
    const DIM: usize = 128;
    let mut random = ChaCha8Rng::seed_from_u64(7);
    let mean: Vec<f16> = unit(DIM, &mut random).into_iter().map(f16::from_f32).collect();
    let query = unit(DIM, &mut random);
    let coded = CodedQuery::new(&Rotation::new(DIM), &query);
    let product: f32 = mean.iter().zip(&query).map(|(m, q)| m.to_f32() * q).sum();
    let width = |mean: Option<&[f16]>, row: &[f16]| {
        let (mut maker, mut block) = (CodeMaker::new(DIM), vec![0; block_bytes(DIM)]);
        maker.beside(mean);
        let made = maker.encode(row, 0, &mut block, None);
        made.factors[1] * coded.near(mean.map(|_| product)).rest
    };
    for row in rows_along(&mean, &query, 20, &mut random) {
        let far: Vec<f16> =
            row.iter().zip(&mean).map(|(x, m)| f16::from_f32(x.to_f32() + 9.0 * m.to_f32())).collect();
        let (beside, alone) = (width(Some(&mean), &far), width(None, &far));
        assert!(beside * 5.0 < alone, "{beside} {alone}");
        assert!((width(Some(&mean), &row) / beside - 1.0).abs() < 0.2);
    }
}

#[test]
fn a_sign_and_a_level_are_a_step_of_the_grid() {
    const DIM: usize = 64;
    let row: Vec<f16> = unit(DIM, &mut ChaCha8Rng::seed_from_u64(4)).into_iter().map(f16::from_f32).collect();
    let mut turned: Vec<f32> = row.iter().map(|x| x.to_f32()).collect();
    Rotation::new(DIM).apply(&mut turned);
    let norm = turned.iter().map(|x| x * x).sum::<f32>().sqrt();
    let (mut block, mut record) = (vec![0; block_bytes(DIM)], vec![0; supplement_bytes(DIM)]);
    CodeMaker::new(DIM).encode(&row, 0, &mut block, Some(&mut record));
    let mut seen = [false; 16];
    for (i, x) in turned.iter().enumerate() {
        let mut one = vec![0; DIM];
        one[i] = 1;
        let sign = block[i / 4 * 16] >> (i % 4) & 1;
        let step = 8 * usize::from(sign) + supplement::product(&one, supplement::split(&record).0) as usize;
        let expected = (x / norm * (DIM as f32).sqrt() / 0.3352 + 8.0).floor().clamp(0.0, 15.0) as usize;
        assert_eq!(step, expected, "{x}");
        seen[step] = true;
    }
    assert!(seen.iter().filter(|seen| **seen).count() >= 12);
}

#[test]
fn bounds_of_a_block_are_those_of_its_rows() {
    let coded = CodedQuery::new(&Rotation::new(64), &[0.125; 64]);
    let sums: Vec<u32> = (0..BLOCK_ROWS as u32).map(|row| 900 + 37 * row).collect();
    for rows in [1, 5, 31, 32] {
        let mut factors: Vec<[f32; FACTORS]> = (0..rows).map(|row| [0.1, 0.01 * row as f32]).collect();
        let shifts: Vec<f32> = (0..rows).map(|row| row as f32 / 64.0).collect();
        let near = coded.near(Some(0.25));
        let own: Vec<f32> = (0..rows)
            .map(|row| {
                let made = Made { factors: factors[row], shift: shifts[row] };
                upper_bound(&coded, sums[row], near, 2.0, made)
            })
            .collect();
        let threshold = own[rows / 2];
        // A bound that cannot be compared may be a hit.
        factors[0][0] = f32::NAN;
        let mut bounds = [0.0; BLOCK_ROWS];
        let mask = coded.upper_bounds(
            CodedRows { sums: &sums, factors: &factors, shifts: &shifts, near, width: 2.0 },
            threshold,
            &mut bounds,
        );
        assert!(bounds[0].is_nan() && bounds[1..rows] == own[1..]);
        let want = (1..rows).filter(|row| own[*row] >= threshold).fold(1, |mask, row| mask | 1 << row);
        assert_eq!(mask, want, "{rows}");
    }
}

#[test]
fn a_row_of_zeros_has_a_code() {
    const DIM: usize = 65;
    let (mut block, mut record) = (vec![0; block_bytes(DIM)], vec![0; supplement_bytes(DIM)]);
    let coded = CodedQuery::new(&Rotation::new(DIM), &[0.5; DIM]);
    let mut maker = CodeMaker::new(DIM);
    // A row along its leaf's mean.
    let mut one = [f16::ZERO; DIM];
    one[9] = f16::ONE;
    for (mean, score) in [(None, 0.0), (Some(&one[..]), 0.5)] {
        maker.beside(mean);
        let row = mean.unwrap_or(&[f16::ZERO; DIM]);
        let made = maker.encode(row, 3, &mut block, Some(&mut record));
        assert_eq!(made, Made { factors: [0.0; 2], shift: f32::from(u8::from(mean.is_some())) });
        assert!(block.iter().all(|byte| *byte == 0));
        let (sum, near) = (coded.sums(&block)[3], coded.near(mean.map(|_| 0.5)));
        assert_eq!(upper_bound(&coded, sum, near, 3.0, made), score);
        assert_eq!(tight_bound(&coded, sum, near, 3.0, &record), score);
    }
}

#[test]
fn means_are_directions() {
    let rows = [[1.0, -2.0], [2.0, 5.0], [0.0, 1.0]].map(|row| row.map(f16::from_f32));
    let (mut maker, mut means) = (MeanMaker::new(2), Vec::new());
    for part in [&rows[..], &rows[1..1], &rows[2..]] {
        part.iter().for_each(|row| maker.add(row));
        maker.finish(&mut means);
    }
    let expected = [0.6, 0.8, 0.0, 0.0, 0.0, 1.0].map(f16::from_f32);
    assert_eq!(means, expected);
}

#[test]
fn runs_of_rows_are_cut_where_means_change() {
    let means: Vec<f16> = (0..6).map(|x| f16::from_f32(x as f32)).collect();
    let others = [f16::from_f32(-1.0); 2];
    let spans = [[2, 5], [5, 9], [12, 20]];
    let of = |first, end| -> Vec<(usize, Option<f32>)> {
        let found = Means::new(&spans, &means, Some(&others), 2, first..end);
        found.map(|(rows, mean)| (rows, mean.map(|mean| mean[0].to_f32()))).collect()
    };
    assert_eq!(of(0, 4), [(2, Some(-1.0)), (2, Some(0.0))]);
    assert_eq!(of(4, 14), [(1, Some(0.0)), (4, Some(2.0)), (3, Some(-1.0)), (2, Some(4.0))]);
    assert_eq!(of(12, 20), [(8, Some(4.0))]);
    assert_eq!(of(19, 40), [(1, Some(4.0)), (20, Some(-1.0))]);
    assert_eq!(of(7, 7), []);
    // Spans of a damaged file: whatever they say, each row is counted once.
    for spans in [[[9, 1], [3, 2]], [[0, 0], [4, 4]], [[5, 90], [1, 3]], [[u32::MAX, 0], [0, u32::MAX]]] {
        let total: usize =
            Means::new(&spans, &means[..4], Some(&others), 2, 1..11).map(|(rows, _)| rows).sum();
        assert_eq!(total, 10, "{spans:?}");
    }
}
