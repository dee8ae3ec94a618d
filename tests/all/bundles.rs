//! The contents of a bundle's folder, and which folders open as one.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use ehi::Bundle;
use ehi::data::Dataset;
use ehi::model::{BUNDLE_FORMAT, ENCODER_FILE, Encoder, MANIFEST_FILE, ModelError};
use ehi::train::{Trainer, TrainingSet};
use safetensors::SafeTensors;
use serde_json::Value;
use tempfile::TempDir;

use crate::program::SHAPE;
use crate::support::{base_model, bundle, config, copy_directory, dataset};

fn copy() -> (TempDir, PathBuf) {
    let dir = TempDir::new().unwrap();
    let own = dir.path().join("bundle");
    copy_directory(bundle(SHAPE).path(), &own);
    (dir, own)
}

fn json(path: &Path) -> Value {
    serde_json::from_reader(File::open(path).unwrap()).unwrap()
}

/// The committed bundle has the format of this build, and its query encoder works.
#[test]
fn the_committed_bundle_opens() {
    let dir = concat!(env!("CARGO_MANIFEST_DIR"), "/../models/scifact-minilm");
    let bundle = Bundle::open(dir).unwrap();
    assert!(bundle.has_tree() && bundle.query_encoder().is_some());
    assert_eq!(json(&Path::new(dir).join(MANIFEST_FILE))["format_version"], BUNDLE_FORMAT);
}

#[test]
fn weights_that_the_manifest_does_not_list_are_refused() {
    let (_dir, own) = copy();
    let added = own.join("0_StaticEmbedding/model.safetensors");
    fs::create_dir(added.parent().unwrap()).unwrap();
    fs::write(&added, b"").unwrap();
    let error = Bundle::open(&own).unwrap_err();
    assert!(matches!(&error, ModelError::Checksum { path } if *path == added), "{error}");
}

/// What sentence-transformers needs: `scripts/experiments/sentence_transformers.py` opens one with it.
#[test]
fn bundles_have_the_files_of_sentence_transformers_and_a_card() {
    let (_dir, own) = copy();
    let weights = fs::read(own.join(ENCODER_FILE)).unwrap();
    let (_, header) = SafeTensors::read_metadata(&weights).unwrap();
    assert_eq!(header.metadata().as_ref().unwrap()["format"], "pt");
    let modules = json(&own.join("modules.json"));
    assert_eq!(modules[0]["path"], "");
    assert!(own.join(modules[1]["path"].as_str().unwrap()).join("config.json").exists());
    let card = fs::read_to_string(own.join("README.md")).unwrap();
    assert!(card.starts_with("---\nlibrary_name: sentence-transformers\n"), "{card}");
    assert!(card.contains("120 documents") && card.contains("| this bundle |"), "{card}");
    assert!(!card.contains(base_model().to_str().unwrap()), "{card}");
}

/// If a base omits them, it is read with our defaults, which differ from those of sentence-transformers.
#[test]
fn bundles_say_what_the_base_leaves_out() {
    let dir = TempDir::new().unwrap();
    let base = dir.path().join("base");
    copy_directory(base_model(), &base);
    for name in ["modules.json", "sentence_bert_config.json", "1_Pooling/config.json"] {
        fs::remove_file(base.join(name)).unwrap();
    }
    let config = config(SHAPE);
    let set = TrainingSet::read(&Dataset::open(dataset()).unwrap(), config.dev_fraction).unwrap();
    let out = dir.path().join("out");
    let trained = Trainer::builder().base(&base).output(&out).config(config).fit(&set).unwrap().bundle;
    let base = Encoder::load(&base).unwrap();
    assert_eq!(trained.model().encoder().unwrap().max_tokens(), base.max_tokens());
    let length = &json(&out.join("sentence_bert_config.json"))["max_seq_length"];
    assert_eq!(length.as_u64(), Some(base.max_tokens() as u64));
    assert_eq!(json(&out.join("modules.json")).as_array().unwrap().len(), 3);
    let pooling = json(&out.join("1_Pooling/config.json"));
    assert_eq!(pooling["word_embedding_dimension"].as_u64(), Some(base.dim() as u64));
}
