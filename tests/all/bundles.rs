//! What is in the folder of a bundle, and which folders open as one.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use ehi::data::Dataset;
use ehi::model::{ENCODER_FILE, Encoder, MANIFEST_FILE, ModelError, Role};
use ehi::train::{Trainer, TrainingSet};
use ehi::{Bundle, Document};
use safetensors::SafeTensors;
use serde_json::Value;
use tempfile::TempDir;

use crate::program::SHAPE;
use crate::support::{base_model, bundle, config, copy_directory, dataset};

const FORMER_ENCODER_FILE: &str = "encoder.safetensors";

fn copy() -> (TempDir, PathBuf) {
    let dir = TempDir::new().unwrap();
    let own = dir.path().join("bundle");
    copy_directory(bundle(SHAPE).path(), &own);
    (dir, own)
}

fn json(path: &Path) -> Value {
    serde_json::from_reader(File::open(path).unwrap()).unwrap()
}

/// As bundles were before format 3.
fn make_former(dir: &Path) {
    fs::rename(dir.join(ENCODER_FILE), dir.join(FORMER_ENCODER_FILE)).unwrap();
    let mut manifest = json(&dir.join(MANIFEST_FILE));
    manifest["format_version"] = 2.into();
    let files = manifest["files"].as_object_mut().unwrap();
    let sum = files.remove(ENCODER_FILE).unwrap();
    files.insert(FORMER_ENCODER_FILE.to_owned(), sum);
    fs::write(dir.join(MANIFEST_FILE), manifest.to_string()).unwrap();
}

#[test]
fn bundles_of_former_formats_open_and_embed_alike() {
    let (_dir, own) = copy();
    make_former(&own);
    let former = Bundle::open(&own).unwrap();
    let text = ["a text"];
    let embed = |bundle: &Bundle| bundle.model().encoder().embed(&text, Role::Document).unwrap();
    assert_eq!(embed(&former), embed(&bundle(SHAPE)));
    let index = ehi::Index::create(own.with_extension("index"), &former).unwrap();
    index.insert(Document::new("a", "", "a text")).unwrap();
    drop(index);
    assert_eq!(ehi::Index::open(own.with_extension("index")).unwrap().len(), 1);
}

#[test]
fn weights_that_the_manifest_does_not_list_are_refused() {
    for (former, added) in [(false, FORMER_ENCODER_FILE), (true, ENCODER_FILE)] {
        let (_dir, own) = copy();
        if former {
            make_former(&own);
        }
        fs::write(own.join(added), b"").unwrap();
        let error = Bundle::open(&own).unwrap_err();
        assert!(matches!(&error, ModelError::Checksum { path } if *path == own.join(added)), "{error}");
    }
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

/// A base that leaves them out is read with our defaults, which sentence-transformers does not share.
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
    assert_eq!(trained.model().encoder().max_tokens(), base.max_tokens());
    let length = &json(&out.join("sentence_bert_config.json"))["max_seq_length"];
    assert_eq!(length.as_u64(), Some(base.max_tokens() as u64));
    assert_eq!(json(&out.join("modules.json")).as_array().unwrap().len(), 3);
    let pooling = json(&out.join("1_Pooling/config.json"));
    assert_eq!(pooling["word_embedding_dimension"].as_u64(), Some(base.dim() as u64));
}
