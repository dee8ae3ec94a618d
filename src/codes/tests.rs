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
    for place in [0, 5, 15] {
        let mut block = vec![0; block_bytes(96)];
        CodeMaker::new(96).encode(&halves, place, &mut block, None);
        let (bits, numbers) = block.split_at(3 * 64);
        let mut code = [0u64; 2];
        for (i, x) in row.iter().enumerate() {
            let byte = bits[i / 32 * 64 + 4 * place + i % 16 / 4];
            let bit = byte >> (i % 32 / 16 * 4 + i % 4) & 1;
            assert_eq!(bit == 1, *x > 0.0, "{i}");
            code[i / 64] |= u64::from(bit) << (i % 64);
        }
        assert_eq!(code, PINNED, "{code:#x?}");
        // The shift, which is 0 here, the factor and the error; those of the other rows are 0.
        let is_set = |number: &[u8]| number.iter().any(|byte| *byte != 0);
        let set: Vec<usize> = (0..48).filter(|at| is_set(&numbers[4 * at..4 * at + 4])).collect();
        assert_eq!((numbers.len(), set), (4 * 48, vec![16 + place, 32 + place]));
        let set: u32 = bits.iter().map(|byte| byte.count_ones()).sum();
        assert_eq!(set, code.iter().map(|word| word.count_ones()).sum::<u32>(), "no other row has a bit");
    }
}

const PINNED: [u64; 2] = [0xe031_bc2e_8267_2c3e, 0x7faf_6c80];

/// The rows of a block with all of their bounds.
fn scanned(query: &CodedQuery, blocks: &[u8], near: Near, width: f32, threshold: f32) -> Vec<Likely> {
    let mut all = Vec::new();
    let scan = CodeScan { query, blocks, near, width, threshold, next: &[] };
    scan.run(TableSums, &mut |found| all.push(*found));
    all
}

/// The highest likely scores of a row, by its block and its place there: estimate plus error, from the bits
/// alone and with the supplement.
fn upper_bounds(
    coded: &CodedQuery,
    near: Near,
    width: f32,
    block: &[u8],
    place: usize,
    record: &[u8],
) -> [f32; 2] {
    let found = scanned(coded, block, near, width, f32::NEG_INFINITY)[0];
    let (bits, numbers) = split_supplement(record);
    let (product, levels) = (coded.product(found.sums[place]), coded.levels(bits));
    [found.bounds[place], coded.tight_bound(product, levels, near, width, numbers)]
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
            // Zeros are the mean of rows whose mean has no direction.
            if round % 2 == 0 {
                mean.fill(f16::ZERO);
            }
            let of_mean: f64 = score(&mean);
            let near = coded.near(of_mean as f32);
            maker.beside(&mean);
            for row in rows_along(&around, &query, 100, &mut random) {
                let (mut block, place) = (vec![0; block_bytes(dim)], rows % BLOCK_ROWS);
                maker.encode(&row, place, &mut block, Some(&mut record));
                let exact: f64 = score(&row);
                let bounds = upper_bounds(&coded, near, WIDTH, &block, place, &record);
                for (at, bound) in bounds.map(f64::from).into_iter().enumerate() {
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
        maker.beside(mean.unwrap_or(&[f16::ZERO; DIM]));
        maker.encode(row, 0, &mut block, None);
        Block::new(&block).numbers.errors[0] * coded.near(mean.map_or(0.0, |_| product)).rest
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
        let sign = block[i / 32 * 64 + i % 16 / 4] >> (i % 32 / 16 * 4 + i % 4) & 1;
        let step = 8 * usize::from(sign) + supplement::product(&one, supplement::split(&record).0) as usize;
        let expected = (x / norm * (DIM as f32).sqrt() / 0.3352 + 8.0).floor().clamp(0.0, 15.0) as usize;
        assert_eq!(step, expected, "{x}");
        seen[step] = true;
    }
    assert!(seen.iter().filter(|seen| **seen).count() >= 12);
}

#[test]
fn blocks_are_found_by_the_bounds_of_their_rows() {
    const DIM: usize = 70;
    let mut random = ChaCha8Rng::seed_from_u64(11);
    let query = unit(DIM, &mut random);
    let (coded, mut maker) = (CodedQuery::new(&Rotation::new(DIM), &query), CodeMaker::new(DIM));
    let bytes = block_bytes(DIM);
    let mut blocks = vec![0; 3 * bytes];
    for place in 0..3 * BLOCK_ROWS {
        let row: Vec<f16> = unit(DIM, &mut random).into_iter().map(f16::from_f32).collect();
        maker.encode(&row, place % BLOCK_ROWS, &mut blocks[place / BLOCK_ROWS * bytes..][..bytes], None);
    }
    let near = coded.near(0.0);
    let all = scanned(&coded, &blocks, near, 2.0, f32::NEG_INFINITY);
    assert!(all.iter().map(|found| (found.block, found.reach)).eq((0..3).map(|block| (block, 0xffff))));
    let mut bounds: Vec<f32> = all.iter().flat_map(|found| found.bounds).collect();
    bounds.sort_by(f32::total_cmp);
    for place in [0, 9, 46, 47] {
        let threshold = bounds[place];
        let found = scanned(&coded, &blocks, near, 2.0, threshold);
        let reached: Vec<(usize, u32)> = found.iter().map(|found| (found.block, found.reach)).collect();
        let reach =
            |own: &Likely| (0..16).filter(|&at| own.bounds[at] >= threshold).fold(0, |all, at| all | 1 << at);
        let expected = all.iter().map(|own| (own.block, reach(own))).filter(|own| own.1 != 0);
        assert!(reached.iter().copied().eq(expected), "{reached:?}");
    }
    assert!(scanned(&coded, &blocks, near, 2.0, 9.0).is_empty());
    // A bound that cannot be compared may be a hit.
    blocks[2 * bytes - 4..2 * bytes].copy_from_slice(&f32::NAN.to_le_bytes());
    let found = scanned(&coded, &blocks, near, 2.0, 9.0);
    assert!(found.len() == 1 && (found[0].block, found[0].reach) == (1, 1 << 15), "{found:?}");
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
    for (mean, score) in [([f16::ZERO; DIM], 0.0), (one, 0.5)] {
        maker.beside(&mean);
        maker.encode(&mean, 3, &mut block, Some(&mut record));
        let Block { bits, numbers } = Block::new(&block);
        assert_eq!((numbers.factors[3], numbers.errors[3], numbers.shifts[3]), (0.0, 0.0, 2.0 * score));
        assert!(bits.iter().all(|byte| *byte == 0));
        assert_eq!(upper_bounds(&coded, coded.near(score), 3.0, &block, 3, &record), [score; 2]);
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
