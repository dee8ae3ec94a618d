//! Training an encoder of every architecture: trained tensors move, others stay, and the bundle has the
//! tensors of its base.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use ehi::data::Dataset;
use ehi::model::{ENCODER_FILE, Role};
use ehi::train::{Fitted, TrainConfig, Trainer, TrainingSet};
use half::f16;
use safetensors::{Dtype, SafeTensors};

use crate::architectures::{NAMES, folder};
use crate::support;

/// Every tensor of a weight file, rounded to f16, as bundles are.
fn tensors(dir: &Path) -> BTreeMap<String, Vec<f16>> {
    let bytes = fs::read(dir.join(ENCODER_FILE)).unwrap();
    let file = SafeTensors::deserialize(&bytes).unwrap();
    let values = |data: &[u8], dtype| match dtype {
        Dtype::F16 => data.chunks_exact(2).map(|b| f16::from_le_bytes([b[0], b[1]])).collect(),
        Dtype::F32 => data
            .chunks_exact(4)
            .map(|b| f16::from_f32(f32::from_le_bytes([b[0], b[1], b[2], b[3]])))
            .collect(),
        other => panic!("{other:?}"),
    };
    file.tensors().iter().map(|(name, view)| (name.clone(), values(view.data(), view.dtype()))).collect()
}

/// The names that the report says moved, and those whose values in the file changed.
fn train(name: &str, layers: usize, embeddings: bool) -> (BTreeSet<String>, BTreeSet<String>) {
    let dir = tempfile::tempdir().unwrap();
    let (base, out) = (dir.path().join("base"), dir.path().join("bundle"));
    folder(name, "mean", &base);
    let mut config = TrainConfig::default();
    config.tree.branching_factor = Some(4);
    config.schedule.epochs = 1;
    config.schedule.batch_size = 8;
    config.encoder.max_document_tokens = 24;
    config.encoder.max_query_tokens = 16;
    config.encoder.trainable_layers = layers;
    config.encoder.train_embeddings = embeddings;
    // Far enough for a change to be visible in f16.
    config.encoder.learning_rate = 1e-2;
    let data = Dataset::open(support::dataset()).unwrap();
    let set = TrainingSet::read(&data, config.dev_fraction).unwrap();
    let trainer = Trainer::builder().base(&base).config(config).output(&out);
    let Fitted { report, bundle, .. } = trainer.fit(&set).unwrap();
    let rows = bundle.model().encoder().unwrap().embed(&["a text", "another"], Role::Document).unwrap();
    assert!(rows.iter().all(|x| x.is_finite()) && rows[..64] != rows[64..]);
    let moved = report.moved.iter().filter(|m| m.relative_change > 0.0 && m.name.starts_with("encoder."));
    let moved = moved.map(|m| m.name.clone()).collect();
    let (before, after) = (tensors(&base), tensors(&out));
    assert!(before.keys().eq(after.keys()), "{name}: the bundle has other tensors than its base");
    let changed = before.iter().filter(|(name, values)| after[*name] != **values);
    (moved, changed.map(|(name, _)| name.clone()).collect())
}

/// Tables of token types have one used row, which is trained as part of the position embeddings if those
/// exist.
const TYPES: &str = "embeddings.token_type_embeddings.weight";

#[test]
fn every_tensor_of_every_architecture_moves() {
    for name in NAMES {
        let dir = tempfile::tempdir().unwrap();
        folder(name, "mean", dir.path());
        let all: BTreeSet<String> = tensors(dir.path()).into_keys().collect();
        let layers = if name == "modernbert" { 4 } else { 3 };
        let (moved, changed) = train(name, layers, true);
        let kept: Vec<&String> = all.difference(&changed).collect();
        let expected: &[&str] = if all.contains(TYPES) && name != "nomic-bert" { &[TYPES] } else { &[] };
        assert_eq!(kept, expected, "{name}");
        assert_eq!(moved.len(), all.len() - expected.len(), "{name}: {moved:?}");
    }
}

#[test]
fn the_last_layer_alone_moves() {
    for name in NAMES {
        let (moved, changed) = train(name, 1, false);
        let (last, in_file) = match name {
            "modernbert" => (3, "layers.3."),
            "nomic-bert" => (2, "encoder.layers.2."),
            _ => (2, "encoder.layer.2."),
        };
        let is_last = |name: &String| name.starts_with(in_file) || name.starts_with("final_norm");
        assert!(!changed.is_empty() && changed.iter().all(is_last), "{name}: {changed:?}");
        let own = format!("encoder.layer.{last}.");
        assert!(moved.iter().all(|name| name.starts_with(&own) || name.starts_with("encoder.final_norm")));
        assert_eq!(moved.len(), changed.len(), "{name}: {moved:?} {changed:?}");
        assert_eq!(name == "modernbert", changed.contains("final_norm.weight"), "{name}");
    }
}
