//! Names of a model's files, and reading them. Models may come from untrusted sources, so only regular files
//! up to a size limit are read.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, ErrorKind, Read};
use std::os::unix::fs::FileExt;
use std::path::Path;

use serde::de::DeserializeOwned;
use sha2::{Digest, Sha256};

use super::error::ModelError;

/// The file that makes a model directory a bundle.
pub const MANIFEST_FILE: &str = "ehi.json";
/// Weights of the encoder.
pub const ENCODER_FILE: &str = "model.safetensors";
/// Weights of the tree.
pub const INDEXER_FILE: &str = "indexer.safetensors";
/// The settings of the encoder as transformers writes it.
pub(super) const CONFIG_FILE: &str = "config.json";
/// The chain of modules of a sentence-transformers folder.
pub(super) const MODULES_FILE: &str = "modules.json";
/// The tokenizer's settings other than its own file.
pub(super) const TOKENIZER_CONFIG_FILE: &str = "tokenizer_config.json";
/// The transformer's settings in a sentence-transformers folder.
pub(super) const LENGTH_FILE: &str = "sentence_bert_config.json";
/// Prompts, similarity and dimensions of a sentence-transformers folder.
pub(super) const PROMPTS_FILE: &str = "config_sentence_transformers.json";
/// The tokenizer.
pub const TOKENIZER_FILE: &str = "tokenizer.json";
/// The report of the run that made the bundle; not part of the model's identity.
pub(crate) const REPORT_FILE: &str = "training.json";
/// The model card, for people and for the hub; not part of the model's identity.
pub(crate) const CARD_FILE: &str = "README.md";

/// Modules of sentence-transformers with their own folder.
const MODULES: [&str; 4] = ["Pooling", "Dense", "Normalize", "StaticEmbedding"];
/// Folder in which some releases store a table of token vectors.
pub(super) const STATIC_FOLDER: &str = "0_StaticEmbedding";
const STATIC_ENCODER_FILE: &str = "0_StaticEmbedding/model.safetensors";
const STATIC_TOKENIZER_FILE: &str = "0_StaticEmbedding/tokenizer.json";
/// Possible paths of an encoder's weights and of its tokenizer.
pub(super) const ENCODER_FILES: [&str; 2] = [ENCODER_FILE, STATIC_ENCODER_FILE];
pub(super) const TOKENIZER_FILES: [&str; 2] = [TOKENIZER_FILE, STATIC_TOKENIZER_FILE];

/// Path of the encoder's weights in a directory, whether or not they exist.
pub(super) fn encoder_file(dir: &Path) -> &'static str {
    ENCODER_FILES.into_iter().find(|name| dir.join(name).exists()).unwrap_or(ENCODER_FILE)
}

/// Whether a directory has any file of an encoder.
pub(crate) fn has_encoder_files(dir: &Path) -> bool {
    ENCODER_FILES.into_iter().chain(TOKENIZER_FILES).any(|name| dir.join(name).exists())
}

/// Path of the tokenizer in a directory, whether or not it exists.
pub(super) fn tokenizer_file(dir: &Path) -> &'static str {
    TOKENIZER_FILES.into_iter().find(|name| dir.join(name).exists()).unwrap_or(TOKENIZER_FILE)
}

/// The module of a folder, by the folder's name: a number and the module's name, as in `1_Pooling`.
pub(super) fn module_kind(folder: &str) -> Option<&str> {
    let (number, kind) = folder.split_once('_')?;
    let is_number = (1..=2).contains(&number.len()) && number.bytes().all(|byte| byte.is_ascii_digit());
    MODULES.iter().find(|own| is_number && **own == kind).copied()
}

/// Files of a module's folder.
pub(super) const MODULE_FILES: [&str; 3] = [CONFIG_FILE, ENCODER_FILE, TOKENIZER_FILE];

/// Whether a path inside a model's directory belongs to a module.
pub(super) fn is_module_file(name: &str) -> bool {
    name.split_once('/').is_some_and(|(folder, file)| {
        module_kind(folder).is_some_and(|kind| match file {
            ENCODER_FILE => ["Dense", "StaticEmbedding"].contains(&kind),
            TOKENIZER_FILE => folder == STATIC_FOLDER,
            _ => file == CONFIG_FILE,
        })
    })
}

/// The files of modules in a directory, by their paths inside it, in order.
pub(super) fn module_files(dir: &Path) -> Result<Vec<String>, ModelError> {
    let io = |source| ModelError::io("read", dir, source);
    let mut names = Vec::new();
    for entry in fs::read_dir(dir).map_err(io)? {
        let entry = entry.map_err(io)?.file_name();
        let Some(folder) = entry.to_str().filter(|name| module_kind(name).is_some()) else { continue };
        let files = MODULE_FILES.iter().map(|file| format!("{folder}/{file}"));
        names.extend(files.filter(|name| is_module_file(name) && dir.join(name).exists()));
    }
    names.sort_unstable();
    Ok(names)
}

/// Most bytes of a `tokenizer.json`; large multilingual ones have about 20 MiB.
pub(crate) const TOKENIZER_BYTES: u64 = 64 << 20;
/// Most bytes of a file of settings.
pub(crate) const JSON_BYTES: u64 = 1 << 20;
/// Most bytes of the report of a training run, which has two numbers for each leaf.
pub(crate) const REPORT_BYTES: u64 = 64 << 20;
/// Most bytes of a weight file. Weights are held in memory as a whole.
pub(crate) const WEIGHTS_BYTES: u64 = 8 << 30;

/// Size limit of a model's file.
pub(super) fn most_bytes(path: impl AsRef<Path>) -> u64 {
    match path.as_ref().file_name().and_then(OsStr::to_str) {
        Some(ENCODER_FILE | INDEXER_FILE) => WEIGHTS_BYTES,
        Some(TOKENIZER_FILE) => TOKENIZER_BYTES,
        Some(REPORT_FILE) => REPORT_BYTES,
        _ => JSON_BYTES,
    }
}

/// Opens a regular file, or a link to one, of at most `most` bytes.
///
/// The file type is checked first: opening a pipe would block.
pub(super) fn open(path: &Path, most: u64) -> Result<(File, u64), ModelError> {
    let io = |source| ModelError::io("read", path, source);
    let check = |metadata: &fs::Metadata| match metadata.len() {
        _ if !metadata.is_file() => Err(ModelError::bad_file(path, "is not a regular file")),
        found if found > most => {
            Err(ModelError::bad_file(path, format!("has {found} bytes, at most {most} are read")))
        }
        found => Ok(found),
    };
    check(&fs::metadata(path).map_err(io)?)?;
    let file = File::open(path).map_err(io)?;
    let length = check(&file.metadata().map_err(io)?)?;
    Ok((file, length))
}

/// The content of a regular file of at most `most` bytes.
pub(crate) fn read(path: &Path, most: u64) -> Result<Vec<u8>, ModelError> {
    let (file, length) = open(path, most)?;
    read_start(&file, length, path)
}

/// Whether a regular file begins with some bytes.
pub(super) fn begins_with(path: &Path, start: &[u8]) -> Result<bool, ModelError> {
    let (file, _) = open(path, u64::MAX)?;
    let mut head = Vec::new();
    let read = file.take(start.len() as u64).read_to_end(&mut head);
    read.map_err(|source| ModelError::io("read", path, source))?;
    Ok(head == start)
}

/// The content of an open file, even if its path has been replaced.
pub(super) fn read_open(file: &File, path: &Path) -> Result<Vec<u8>, ModelError> {
    let length = file.metadata().map_err(|source| ModelError::io("read", path, source))?.len();
    read_start(file, length, path)
}

fn read_start(file: &File, length: u64, path: &Path) -> Result<Vec<u8>, ModelError> {
    let read = || -> io::Result<Vec<u8>> {
        let mut content = Vec::new();
        let room = usize::try_from(length).map_err(|_| ErrorKind::OutOfMemory)?;
        content.try_reserve_exact(room).map_err(|_| ErrorKind::OutOfMemory)?;
        content.resize(room, 0);
        file.read_exact_at(&mut content, 0)?;
        Ok(content)
    };
    read().map_err(|source| ModelError::io("read", path, source))
}

/// The SHA-256 of a model's file in hexadecimal digits, computed without holding it in memory.
pub(super) fn digest(path: &Path) -> Result<String, ModelError> {
    digest_up_to(path, most_bytes(path))
}

/// As [`digest`], for a file whose name does not tell its kind.
pub(super) fn digest_of_any_size(path: &Path) -> Result<String, ModelError> {
    digest_up_to(path, WEIGHTS_BYTES)
}

fn digest_up_to(path: &Path, most: u64) -> Result<String, ModelError> {
    let (file, length) = open(path, most)?;
    let mut digest = Sha256::new();
    io::copy(&mut file.take(length), &mut digest).map_err(|source| ModelError::io("read", path, source))?;
    Ok(hex(&digest.finalize()))
}

/// Refuses a model's file with another SHA-256.
pub(super) fn check_digest(path: &Path, sha256: &str) -> Result<(), ModelError> {
    match digest(path)? == sha256 {
        true => Ok(()),
        false => Err(ModelError::Checksum { path: path.to_owned() }),
    }
}

/// Settings from a JSON file.
pub(super) fn read_json<T: DeserializeOwned>(path: &Path) -> Result<T, ModelError> {
    serde_json::from_slice(&read(path, most_bytes(path))?).map_err(|source| ModelError::json(path, source))
}

/// Settings from an optional JSON file.
pub(super) fn read_json_or_default<T: DeserializeOwned + Default>(path: &Path) -> Result<T, ModelError> {
    if is_there(path) { read_json(path) } else { Ok(T::default()) }
}

/// Whether the path exists, even as a broken link, which means a damaged copy rather than a missing file.
pub(super) fn is_there(path: &Path) -> bool {
    !fs::symlink_metadata(path).is_err_and(|error| error.kind() == ErrorKind::NotFound)
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
