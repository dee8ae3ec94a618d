use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::*;

const VOCABULARY: usize = 5;
const DIM: usize = 4;
const WIDTH: usize = 8;

fn weights(seed: u64) -> StaticWeights {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let mut values = |n: usize| (0..n).map(|_| rng.random_range(-1.0..1.0f32)).collect::<Vec<_>>();
    StaticWeights {
        dim: DIM,
        table: values(VOCABULARY * DIM),
        weights: vec![0.5, 1.0, 0.25, 2.0, 1.0],
        seen: vec![true, true, false, true, false],
        head: HeadWeights {
            linear: values(DIM * DIM),
            bias: values(DIM),
            hidden: values(WIDTH * DIM),
            hidden_bias: values(WIDTH),
            output: values(DIM * WIDTH),
        },
        confidence: [0.5, 0.1, 0.2, 0.01, 0.03],
    }
}

fn loaded(bytes: &[u8]) -> Result<LoadedQueryEncoder, ModelError> {
    LoadedQueryEncoder::from_bytes(bytes.to_vec(), Path::new("query.safetensors"), VOCABULARY, DIM)
}

/// The definition, in f64.
fn by_hand(weights: &StaticWeights, tokens: &[u32]) -> Vec<f64> {
    let sum: f64 = tokens.iter().map(|&t| f64::from(weights.weights[t as usize])).sum();
    let mut mean = [0.0; DIM];
    for &token in tokens {
        let share = f64::from(weights.weights[token as usize]) / sum;
        let vector = &weights.table[token as usize * DIM..][..DIM];
        mean.iter_mut().zip(vector).for_each(|(sum, x)| *sum += share * f64::from(*x));
    }
    let product =
        |row: &[f32], by: &[f64]| -> f64 { row.iter().zip(by).map(|(a, b)| f64::from(*a) * b).sum() };
    let HeadWeights { linear, bias, hidden, hidden_bias, output } = &weights.head;
    let hidden: Vec<f64> = hidden
        .chunks_exact(DIM)
        .zip(hidden_bias)
        .map(|(row, bias)| (product(row, &mean) + f64::from(*bias)).max(0.0))
        .collect();
    let rows = linear.chunks_exact(DIM).zip(bias).zip(output.chunks_exact(WIDTH));
    let row: Vec<f64> = rows
        .map(|((linear, bias), output)| product(linear, &mean) + f64::from(*bias) + product(output, &hidden))
        .collect();
    let norm = row.iter().map(|x| x * x).sum::<f64>().sqrt();
    row.into_iter().map(|x| x / norm).collect()
}

#[test]
fn a_question_has_the_embedding_of_the_definition() {
    let weights = weights(1);
    let loaded = loaded(&weights.to_bytes().unwrap()).unwrap();
    for tokens in [&[0][..], &[1, 3], &[4, 4, 2, 0, 1, 3, 3]] {
        let found = loaded.embed(tokens).unwrap();
        let wanted = by_hand(&weights, tokens);
        let cosine: f64 = found.row.iter().zip(&wanted).map(|(a, b)| f64::from(*a) * b).sum();
        assert!(cosine > 0.998, "{tokens:?}: {cosine}");
        let norm: f32 = found.row.iter().map(|x| x * x).sum();
        assert!((norm - 1.0).abs() < 1e-5);
    }
    assert!(matches!(loaded.embed(&[5]), Err(ModelError::OutsideTable { found: 5, rows: 5, .. })));
    let none = loaded.embed(&[]).unwrap();
    assert!(none.row.iter().all(|x| x.is_finite()));
}

#[test]
fn confidence_falls_with_tokens_that_training_did_not_see() {
    let mut weights = weights(2);
    weights.confidence = [0.25, 0.0, 0.5, 0.0, 0.0];
    let loaded = loaded(&weights.to_bytes().unwrap()).unwrap();
    let confidence = |tokens: &[u32]| loaded.embed(tokens).unwrap().confidence;
    assert!((confidence(&[0, 1]) - 0.75).abs() < 1e-6);
    // The token 2 has a quarter of the weight of 1, 4 as much.
    assert!((confidence(&[1, 2]) - (0.25 + 0.5 * 0.8)).abs() < 1e-6);
    assert!((confidence(&[1, 4]) - 0.5).abs() < 1e-6);
    assert!((confidence(&[2, 4]) - 0.25).abs() < 1e-6);
}

#[test]
fn files_of_another_kind_are_refused() {
    let sound = weights(3).to_bytes().unwrap();
    assert!(loaded(&sound).is_ok());
    for end in [0, 7, 8, 100, sound.len() - 1] {
        assert!(loaded(&sound[..end]).is_err(), "{end} bytes");
    }
    let other = |vocabulary, dim| {
        LoadedQueryEncoder::from_bytes(sound.clone(), Path::new("q"), vocabulary, dim).map(drop)
    };
    assert!(matches!(other(VOCABULARY + 1, DIM), Err(ModelError::BadTensor { .. })));
    assert!(matches!(other(VOCABULARY, DIM + 1), Err(ModelError::BadTensor { .. })));
    let mut flat = weights(3);
    (flat.head.hidden, flat.head.hidden_bias, flat.head.output) = (Vec::new(), Vec::new(), Vec::new());
    assert!(matches!(loaded(&flat.to_bytes().unwrap()), Err(ModelError::BadTensor { .. })));
    let mut broken = weights(3);
    broken.head.bias[2] = f32::NAN;
    assert!(matches!(loaded(&broken.to_bytes().unwrap()), Err(ModelError::BadTensor { .. })));
    // Like the fuzzer, mostly in the header.
    for at in (0..sound.len()).filter(|at| *at < 1_200 || at % 7 == 0) {
        let mut bytes = sound.clone();
        bytes[at] ^= 1 << (at % 8);
        let Ok(loaded) = loaded(&bytes) else { continue };
        for tokens in [&[][..], &[0], &[4, 4, 1, 2, 3]] {
            let norm: f32 = loaded.embed(tokens).unwrap().row.iter().map(|x| x * x).sum();
            assert!(norm == 0.0 || (norm - 1.0).abs() < 1e-3, "{norm}");
        }
    }
}

#[test]
fn names_are_those_of_checksums() {
    let sum = "0123456789abcdef".repeat(4);
    let name = QueryEncoderEntry::file_name(&sum);
    assert_eq!(name, "query-0123456789abcdef.safetensors");
    assert!(QueryEncoderEntry::is_file_name(&name));
    for other in ["query-.safetensors", "query-../../../../x.safetensors", "model.safetensors", "query-0123"]
    {
        assert!(!QueryEncoderEntry::is_file_name(other), "{other}");
    }
}
