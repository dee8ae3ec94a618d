//! Crafted bundles and indexes: every checksum is correct, and their contents are refused.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::support::{self, Shape, bundle, copy_directory, document, filled};
use ehi::leaves::LeafOptions;
use ehi::model::{ENCODER_FILE, Encoder, INDEXER_FILE, MANIFEST_FILE, ModelError, TOKENIZER_FILE};
use ehi::store::{Damage, StoreError};
use ehi::{Bundle, Document, Error, Index, InputError, SearchRequest};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use tempfile::TempDir;

const FLAT: Shape = Shape { height: 1 };

/// A copy of the small bundle.
fn copy() -> (TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("bundle");
    copy_directory(bundle(FLAT).path(), &path);
    (dir, path)
}

fn edit(file: &Path, edit: impl FnOnce(&mut Value)) {
    let mut value = serde_json::from_slice(&fs::read(file).unwrap()).unwrap();
    edit(&mut value);
    fs::write(file, value.to_string()).unwrap();
}

/// Corrects the checksums, as an attacker would.
fn seal(path: &Path) {
    edit(&path.join(MANIFEST_FILE), |manifest| {
        for (name, sum) in manifest["files"].as_object_mut().unwrap() {
            if let Ok(bytes) = fs::read(path.join(name)) {
                let digest = Sha256::digest(bytes);
                *sum = digest.iter().map(|byte| format!("{byte:02x}")).collect::<String>().into();
            }
        }
    });
}

fn refused(path: &Path) -> ModelError {
    match Bundle::open(path) {
        Ok(_) => panic!("it opened"),
        Err(error) => error,
    }
}

#[test]
fn a_tokenizer_that_would_exhaust_memory_is_refused_by_name() {
    let (_dir, path) = copy();
    let file = path.join(TOKENIZER_FILE);
    edit(&file, |tokenizer| {
        let replace = json!({"type": "Replace", "pattern": {"String": "a"}, "content": "aaaaaaaaaa"});
        tokenizer["normalizer"] = json!({"type": "Sequence", "normalizers": vec![replace; 12]});
    });
    seal(&path);
    match refused(&path) {
        ModelError::Tokenizer { path, message } => {
            assert_eq!(path, file);
            assert!(message.contains("times as long"), "{message}");
        }
        error => panic!("{error}"),
    }
}

#[test]
fn a_tokenizer_that_gives_more_tokens_than_fit_is_refused() {
    let (_dir, path) = copy();
    edit(&path.join(TOKENIZER_FILE), |tokenizer| {
        let single = tokenizer["post_processor"]["single"].as_array_mut().unwrap();
        let special = single[0].clone();
        single.splice(0..0, vec![special; 600]);
    });
    seal(&path);
    let error = refused(&path);
    assert!(error.to_string().contains("602 special tokens"), "{error}");
}

#[test]
fn what_is_no_regular_file_is_refused_and_not_waited_for() {
    let kinds: [fn(&Path); 3] = [
        |path| assert!(Command::new("mkfifo").arg(path).status().unwrap().success()),
        |path| fs::create_dir(path).unwrap(),
        |path| symlink("/dev/zero", path).unwrap(),
    ];
    let names = [
        MANIFEST_FILE,
        "config.json",
        TOKENIZER_FILE,
        ENCODER_FILE,
        INDEXER_FILE,
        "modules.json",
        "1_Pooling/config.json",
        "sentence_bert_config.json",
    ];
    let (_dir, path) = copy();
    for name in names {
        let file = path.join(name);
        let content = fs::read(&file).unwrap();
        for make in kinds {
            fs::remove_file(&file).unwrap();
            make(&file);
            let error = refused(&path);
            let problem = "is not a regular file";
            assert_eq!(error.to_string(), format!("{} {problem}", file.display()), "{name}");
            fs::remove_file(&file).or_else(|_| fs::remove_dir(&file)).unwrap();
            fs::write(&file, &content).unwrap();
        }
    }
    // Likewise in a base model, which has no list of files; even for an optional file.
    let base = tempfile::tempdir().unwrap();
    copy_directory(support::base_model(), base.path());
    kinds[0](&base.path().join("config_sentence_transformers.json"));
    let error = Encoder::load(base.path()).err().unwrap();
    assert!(matches!(error, ModelError::BadFile { .. }), "{error}");
}

/// The model hub's cache consists of links.
#[test]
fn links_to_regular_files_are_followed() {
    let dir = tempfile::tempdir().unwrap();
    let link = |source: &Path, target: &Path, names: &[&str]| {
        fs::create_dir_all(target.join("1_Pooling")).unwrap();
        names.iter().for_each(|name| symlink(source.join(name), target.join(name)).unwrap());
    };
    let shared = ["config.json", TOKENIZER_FILE, "modules.json", "1_Pooling/config.json"];
    let base = dir.path().join("base");
    link(support::base_model(), &base, &[&shared[..], &["model.safetensors"]].concat());
    Encoder::load(&base).unwrap();

    let linked = dir.path().join("bundle");
    let own = [MANIFEST_FILE, ENCODER_FILE, INDEXER_FILE, "sentence_bert_config.json"];
    link(bundle(FLAT).path(), &linked, &[&shared[..], &own].concat());
    let index = Index::create(dir.path().join("index"), &Bundle::open(&linked).unwrap()).unwrap();
    index.insert(document(0)).unwrap();
}

#[test]
fn files_larger_than_any_sound_one_are_refused_unread() {
    let (_dir, path) = copy();
    for (name, most) in [(TOKENIZER_FILE, 64 << 20), ("config.json", 1 << 20), (ENCODER_FILE, 8 << 30)] {
        let file = path.join(name);
        let content = fs::read(&file).unwrap();
        // Takes no space on the disk.
        fs::OpenOptions::new().write(true).open(&file).unwrap().set_len(most + 1).unwrap();
        match refused(&path) {
            ModelError::BadFile { path, problem } => {
                assert_eq!(path, file);
                assert_eq!(problem, format!("has {} bytes, at most {most} are read", most + 1));
            }
            error => panic!("{name}: {error}"),
        }
        fs::write(&file, content).unwrap();
    }
    Bundle::open(&path).unwrap();
}

/// Numbers that ask for more than the files contain are refused before memory is allocated.
#[test]
fn numbers_in_settings_cannot_ask_for_memory() {
    const MOST: u32 = 1 << 24;
    let (_dir, path) = copy();
    let cases = [
        ("config.json", "n_layers", json!(MOST)),
        ("config.json", "dim", json!(MOST)),
        ("config.json", "hidden_dim", json!(MOST)),
        ("config.json", "vocab_size", json!(MOST)),
        ("config.json", "max_position_embeddings", json!(MOST)),
        ("config.json", "n_heads", json!(MOST + 1)),
        ("sentence_bert_config.json", "max_seq_length", json!(1)),
        (MANIFEST_FILE, "dim", json!(u32::MAX)),
        (MANIFEST_FILE, "branching_factor", json!(4096)),
        (MANIFEST_FILE, "branching_factor", json!(u32::MAX)),
        (MANIFEST_FILE, "height", json!(12)),
        (MANIFEST_FILE, "height", json!(u32::MAX)),
    ];
    for (name, field, value) in cases {
        let file = path.join(name);
        let content = fs::read(&file).unwrap();
        edit(&file, |settings| {
            assert!(settings.get(field).is_some(), "{name} has no {field}");
            settings[field] = value.clone();
        });
        seal(&path);
        let error = refused(&path);
        let named = error.to_string();
        assert!(named.contains(&*path.to_string_lossy()) || named.contains("leaves"), "{field}: {named}");
        fs::write(&file, content).unwrap();
        seal(&path);
    }
    Bundle::open(&path).unwrap();
}

#[test]
fn a_header_of_weights_is_held_against_the_file() {
    let (_dir, path) = copy();
    let file = path.join(INDEXER_FILE);
    let whole = fs::read(&file).unwrap();
    for length in [0, whole.len() as u64, 17 << 20, 1 << 63, u64::MAX] {
        let bytes = [&length.to_le_bytes()[..], &whole[8..]].concat();
        fs::write(&file, bytes).unwrap();
        seal(&path);
        let error = refused(&path);
        assert!(matches!(&error, ModelError::Safetensors { path, .. } if *path == file), "{length}: {error}");
    }
}

/// The failure of a later group reports how many documents the earlier ones stored.
#[test]
fn a_batch_that_fails_midway_says_what_is_stored() {
    let (_dir, index) = filled(FLAT, 0);
    let dim = index.bundle().model().dim();
    let large = |place| Document::new(format!("large-{place}"), "", "x".repeat(20 << 20));
    let good = (0..3).map(|place| (large(place), vec![1.0; dim]));
    let error = index.insert_vectors(good.chain([(large(3), vec![1.0; dim + 1])])).unwrap_err();
    let message = error.to_string();
    assert!(matches!(error, Error::Partial { stored: 2, refused: 2, .. }), "{message}");
    assert!(message.ends_with("; 2 documents of the call are stored, 2 are not"), "{message}");
    assert_eq!(index.len(), 2);
    // In the first group, it is the failure itself.
    let error = index.insert_vectors([(large(4), vec![1.0; dim + 1])]).unwrap_err();
    assert!(matches!(error, Error::Input(InputError::Dimension { .. })), "{error}");
}

/// Memory and time do not grow with the size of a text.
#[test]
fn giant_documents_without_white_space_are_inserted() {
    let (_dir, index) = filled(FLAT, 0);
    let started = std::time::Instant::now();
    let texts = ["好", "-", "x"].map(|unit| unit.repeat((5 << 20) / unit.len()));
    let giants = texts.iter().enumerate();
    index.insert_batch(giants.map(|(n, text)| Document::new(n.to_string(), "a title", text))).unwrap();
    assert!(started.elapsed().as_secs() < 60, "{:?}", started.elapsed());
    assert_eq!(index.len(), 3);
    assert_eq!(index.search(&texts[0], 3, 4).unwrap().len(), 3);
}

/// A sealed file of a segment with editable sections; see `docs/format.md`.
struct Sealed {
    bytes: Vec<u8>,
}

const PAGE: usize = 65_536;
const END: usize = 28;

impl Sealed {
    fn u32(&self, at: usize) -> usize {
        u32::from_le_bytes(self.bytes[at..at + 4].try_into().unwrap()) as usize
    }

    fn u64(&self, at: usize) -> usize {
        u64::from_le_bytes(self.bytes[at..at + 8].try_into().unwrap()) as usize
    }

    fn put(&mut self, at: usize, value: u32) {
        self.bytes[at..at + 4].copy_from_slice(&value.to_le_bytes());
    }

    /// The directory of sections: its offset, and the size of the pages before it.
    fn directory(&self) -> (usize, usize) {
        let body = self.u64(self.bytes.len() - END);
        (body + 4 * body.div_ceil(PAGE), body)
    }

    fn section(&self, wanted: usize) -> std::ops::Range<usize> {
        let (directory, _) = self.directory();
        let sections = self.u32(self.bytes.len() - END + 8);
        let entry = (0..sections).map(|n| directory + 20 * n).find(|&at| self.u32(at) == wanted).unwrap();
        let start = self.u64(entry + 4);
        start..start + self.u64(entry + 12)
    }

    /// Corrects all checksums; returns that of the end.
    fn seal(&mut self) -> u32 {
        let (_, body) = self.directory();
        for page in 0..body.div_ceil(PAGE) {
            let crc = crc32fast::hash(&self.bytes[page * PAGE..body.min((page + 1) * PAGE)]);
            self.put(body + 4 * page, crc);
        }
        let end = self.bytes.len() - END;
        let crc = crc32fast::hash(&self.bytes[body..end]);
        self.put(end + 12, crc);
        let crc = crc32fast::hash(&self.bytes[end..end + 24]);
        self.put(end + 24, crc);
        crc
    }
}

fn find(dir: &Path, name: &str) -> Option<PathBuf> {
    let entries = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    let (dirs, files): (Vec<_>, Vec<_>) = entries.partition(|path| path.is_dir());
    let own = files.into_iter().find(|path| path.file_name().unwrap() == name);
    own.or_else(|| dirs.iter().find_map(|dir| find(dir, name)))
}

/// Changes the leaves of the posting lists of an index's only segment.
fn change_leaves(index: &Path, change: impl Fn(usize, usize) -> Option<u32>) {
    const LEAVES: usize = 32;
    const AT_SEGMENT: usize = 128;
    // The segment's file, and the store above it.
    let documents = find(index, "00000000.documents").unwrap();
    let store = documents.parent().unwrap().parent().unwrap();
    let mut file = Sealed { bytes: fs::read(&documents).unwrap() };
    let section = file.section(LEAVES);
    let count = section.len() / 4;
    for place in 0..count {
        if let Some(leaf) = change(place, count) {
            file.put(section.start + 4 * place, leaf);
        }
    }
    let crc = file.seal();
    fs::write(&documents, &file.bytes).unwrap();

    for name in ["MANIFEST", "MANIFEST.copy"] {
        let path = store.join(name);
        let mut manifest = Sealed { bytes: fs::read(&path).unwrap() };
        manifest.put(AT_SEGMENT + 28, crc);
        let entries = crc32fast::hash(&manifest.bytes[AT_SEGMENT..]);
        manifest.put(104, entries);
        let head = crc32fast::hash(&manifest.bytes[..124]);
        manifest.put(124, head);
        fs::write(&path, &manifest.bytes).unwrap();
    }
}

fn is_damage(error: &Error) -> bool {
    let Error::Store(StoreError::Corrupt { detail, .. }) = error else { return false };
    matches!(detail, Damage::Field { .. } | Damage::Undecodable { .. } | Damage::Disagreement { .. })
}

#[test]
fn leaves_outside_the_tree_are_damage_and_no_panic() {
    type Change = fn(usize, usize) -> Option<u32>;
    let changes: [(&str, Change); 2] = [
        ("all", |place, count| Some(0xFFFF_FF00 - (count - place) as u32)),
        ("the last", |place, count| (place + 1 == count).then_some(100_000)),
    ];
    for (name, change) in changes {
        let (dir, index) = filled(FLAT, 60);
        index.flush().unwrap();
        drop(index);
        let path = dir.path().join("index");
        change_leaves(&path, change);
        let index = match Index::open(&path) {
            Ok(index) => index,
            Err(error) if is_damage(&error) => continue,
            Err(error) => panic!("{name}: {error}"),
        };
        let error = index.leaves(&LeafOptions::default()).unwrap_err();
        assert!(is_damage(&error), "{name}: {error}");
        let error = index.explain("tree", &SearchRequest::dense().k(60).beam(4), true).unwrap_err();
        assert!(is_damage(&error), "{name}: {error}");
        index.search("tree", 60, 4).unwrap();
        assert!(!index.verify().unwrap().is_sound(), "{name}");
    }
}
