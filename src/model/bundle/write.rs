//! Writes a bundle atomically.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::io::ErrorKind;
use std::path::{Component, Path, PathBuf};

use candle_core::{DType, Device, Tensor};
use serde_json::Value;
use sha2::{Digest, Sha256};

use super::copy::{module_folders, write};
use super::query::carried;
use super::{BundleManifest, INDEXER_FILE, MANIFEST_FILE, carried_files};
use crate::disk::{Backend, FileSystem, names};
use crate::model::files::{LENGTH_FILE, PROMPTS_FILE};
use crate::model::{Encoder, Indexer, ModelError, files, hex};

/// Modules under names that every release of sentence-transformers accepts.
const DEFAULT_MODULES: &str = r#"[
  {"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer"},
  {"idx": 1, "name": "1", "path": "1_Pooling", "type": "sentence_transformers.models.Pooling"},
  {"idx": 2, "name": "2", "path": "2_Normalize", "type": "sentence_transformers.models.Normalize"}
]
"#;

/// The same for a table of token vectors.
const STATIC_MODULE: &str =
    r#"{"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.StaticEmbedding"}"#;
const NORMALIZE_MODULE: &str =
    r#"{"idx": 1, "name": "1", "path": "1_Normalize", "type": "sentence_transformers.models.Normalize"}"#;

/// The parts of a bundle about to be written.
pub(crate) struct BundleParts<'a> {
    /// Directory of the base model, whose configuration is copied.
    pub base: &'a Path,
    /// The encoder in it, if it has one.
    pub base_encoder: Option<&'a Encoder>,
    /// Encoder tensors under their checkpoint names; stored as f16. If `None`, the encoder of the base is
    /// copied byte for byte.
    pub encoder: Option<Vec<(String, Tensor)>>,
    pub indexer: &'a Indexer,
    /// More files: name and content (report, card). Not part of the model's identity.
    pub extras: Vec<(&'static str, Vec<u8>)>,
}

impl BundleParts<'_> {
    /// Writes the bundle to a directory next to `out`, from where [`publish`] moves it, and returns that
    /// directory.
    pub(crate) fn stage(&self, out: &Path) -> Result<PathBuf, ModelError> {
        let partial = make_partial(out)?;
        match self.fill(&partial) {
            Ok(()) => Ok(partial),
            Err(error) => {
                // The first error is reported, whether or not the directory can be removed.
                let _ = fs::remove_dir_all(&partial);
                Err(error)
            }
        }
    }

    fn fill(&self, partial: &Path) -> Result<(), ModelError> {
        let weights = self.base_encoder.map(|_| files::encoder_file(self.base));
        let names = match self.base_encoder {
            Some(_) => carried_files(self.base)?,
            None => Vec::new(),
        };
        let names = names.into_iter().filter(|name| Some(name.as_str()) != weights);
        let mut contents: BTreeMap<String, Option<String>> = names.map(|name| (name, None)).collect();
        if let Some(base) = self.base_encoder.filter(|_| self.encoder.is_some()) {
            contents.extend(
                self.defaults(base)?.into_iter().map(|(name, content)| (name.to_owned(), Some(content))),
            );
        }
        let mut files = BTreeMap::new();
        for (name, content) in contents {
            let content = match content {
                Some(content) => content.into_bytes(),
                None => files::read(&self.base.join(&name), files::most_bytes(&name))?,
            };
            write_synced(&partial.join(&name), &content)?;
            files.insert(name, hex(&Sha256::digest(&content)));
        }
        weights.map_or(Ok(()), |weights| self.write_encoder(partial.join(weights)))?;
        self.indexer.save(&partial.join(INDEXER_FILE))?;
        for name in weights.into_iter().chain([INDEXER_FILE]) {
            files.insert(name.to_owned(), hex(&Sha256::digest(write_again(&partial.join(name))?)));
        }
        let manifest = BundleManifest::new(self.base_encoder, self.indexer, files);
        // The query encoder was made for this encoder, but measured with another tree.
        let mut query_encoder = if self.encoder.is_none() { carried(self.base)? } else { None };
        if let Some((entry, content)) = &mut query_encoder {
            entry.report.tree = None;
            write_synced(&partial.join(&entry.file), content)?;
        }
        let path = partial.join(MANIFEST_FILE);
        let json = manifest.to_json(&path, query_encoder.as_ref().map(|(entry, _)| entry))?;
        write_synced(&path, &json)?;
        for (name, content) in &self.extras {
            write_synced(&partial.join(name), content)?;
        }
        sync_dir(partial)
    }
}

#[cfg(test)]
impl BundleParts<'_> {
    /// Writes the bundle to `out` atomically.
    pub(crate) fn write(&self, out: &Path) -> Result<(), ModelError> {
        publish(&self.stage(out)?, out)
    }
}

/// Moves a staged bundle to its destination atomically.
pub(crate) fn publish(staged: &Path, out: &Path) -> Result<(), ModelError> {
    // An empty directory at the target is allowed; rename replaces it on Unix only.
    if out.exists() {
        fs::remove_dir(out).map_err(|e| ModelError::io("replace", out, e))?;
    }
    fs::rename(staged, out).map_err(|e| ModelError::io("create", out, e))?;
    match out.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => sync_dir(parent),
        _ => sync_dir(Path::new(".")),
    }
}

impl BundleParts<'_> {
    fn write_encoder(&self, path: PathBuf) -> Result<(), ModelError> {
        let Some(encoder) = &self.encoder else {
            let source = self.base.join(files::encoder_file(self.base));
            return write_synced(&path, &files::read(&source, files::WEIGHTS_BYTES)?);
        };
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder).map_err(|e| ModelError::io("create", folder, e))?;
        }
        write_tensors(encoder, DType::F16, &path)
    }

    /// Files, by name, that state the base's implicit defaults of this crate and its settings, because
    /// sentence-transformers has other defaults.
    fn defaults(&self, base: &Encoder) -> Result<Vec<(&'static str, String)>, ModelError> {
        let mut defaults = Vec::new();
        let is_static = base.is_static();
        let has_modules = self.base.join("modules.json").exists();
        if is_static && !has_modules {
            let modules = match base.pooler.is_unit() {
                true => format!("[\n  {STATIC_MODULE},\n  {NORMALIZE_MODULE}\n]\n"),
                false => format!("[\n  {STATIC_MODULE}\n]\n"),
            };
            defaults.push(("modules.json", modules));
        } else if !has_modules {
            let pooling = serde_json::json!({
                "word_embedding_dimension": base.config().hidden_size, "pooling_mode_mean_tokens": true,
            });
            defaults.push(("modules.json", DEFAULT_MODULES.to_owned()));
            defaults.push(("1_Pooling/config.json", format!("{pooling:#}\n")));
        }
        if !is_static && !self.base.join(LENGTH_FILE).exists() {
            let length = serde_json::json!({ "max_seq_length": base.max_tokens() });
            defaults.push((LENGTH_FILE, format!("{length:#}\n")));
        }
        let settings = base.settings();
        if !settings.is_empty() {
            let path = self.base.join(PROMPTS_FILE);
            let mut config: serde_json::Map<String, Value> = files::read_json_or_default(&path)?;
            let prompts = config.entry("prompts").or_insert_with(|| Value::Object(Default::default()));
            if let Some(prompts) = prompts.as_object_mut() {
                let given = [("query", &settings.query_prompt), ("document", &settings.document_prompt)];
                for (name, prompt) in
                    given.into_iter().filter_map(|(name, prompt)| Some((name, prompt.as_ref()?)))
                {
                    prompts.insert(name.to_owned(), prompt.as_str().into());
                }
            }
            if let Some(dim) = settings.dim {
                config.insert("truncate_dim".to_owned(), dim.into());
            }
            defaults.push((PROMPTS_FILE, format!("{:#}\n", Value::Object(config))));
        }
        Ok(defaults)
    }
}

/// Writes a weight file with one data type, as transformers reads it.
pub(in crate::model) fn write_tensors(
    named: &[(String, Tensor)],
    dtype: DType,
    path: &Path,
) -> Result<(), ModelError> {
    let mut tensors = HashMap::new();
    for (name, tensor) in named {
        let own = tensor.detach().to_device(&Device::Cpu)?.to_dtype(dtype)?.contiguous()?;
        tensors.insert(name.clone(), own);
    }
    // Without it, some releases of transformers refuse the file.
    let metadata = HashMap::from([("format".to_owned(), "pt".to_owned())]);
    safetensors::serialize_to_file(&tensors, Some(metadata), path)
        .map_err(|source| ModelError::safetensors(path, source))
}

/// Creates an empty directory with a new name next to `out`, for [`publish`] to move. An existing directory
/// with such a name may belong to another run.
pub(in crate::model) fn make_partial(out: &Path) -> Result<PathBuf, ModelError> {
    check_output(out)?;
    if let Some(parent) = out.parent() {
        fs::create_dir_all(parent).map_err(|e| ModelError::io("create", parent, e))?;
    }
    let mut number = 0u32;
    loop {
        let partial = partial_path(out, number);
        match fs::create_dir(&partial) {
            Ok(()) => return Ok(partial),
            Err(error) if error.kind() == ErrorKind::AlreadyExists && number < MOST_PARTIAL => number += 1,
            Err(error) => return Err(ModelError::io("create", &partial, error)),
        }
    }
}

/// Most directories left by killed or unfinished runs.
const MOST_PARTIAL: u32 = 1000;

/// Rewrites a file with ordinary permissions: the safetensors writer creates files readable only by their
/// owner.
pub(in crate::model) fn write_again(path: &Path) -> Result<Vec<u8>, ModelError> {
    let content = files::read(path, files::WEIGHTS_BYTES)?;
    fs::remove_file(path).map_err(|e| ModelError::io("replace", path, e))?;
    write_synced(path, &content)?;
    Ok(content)
}

/// Refuses an output directory that is not empty, or that cannot be replaced by renaming a sibling directory.
pub(crate) fn check_output(out: &Path) -> Result<(), ModelError> {
    let is_link = fs::symlink_metadata(out).is_ok_and(|metadata| metadata.is_symlink());
    if is_link || !matches!(out.components().next_back(), Some(Component::Normal(_))) {
        let problem = "is a link or no name of its own; give the output directory by its name";
        return Err(ModelError::OutputDirectory { path: out.to_owned(), problem });
    }
    let occupied = match fs::read_dir(out) {
        Ok(mut entries) => entries.next().is_some(),
        Err(_) => out.exists(),
    };
    if occupied {
        let problem = "already exists and is no empty directory; choose another output directory";
        return Err(ModelError::OutputDirectory { path: out.to_owned(), problem });
    }
    Ok(())
}

fn partial_path(out: &Path, number: u32) -> PathBuf {
    let mut name = out.file_name().unwrap_or_default().to_owned();
    name.push(names::PARTIAL);
    if number > 0 {
        name.push(format!("-{number}"));
    }
    out.with_file_name(name)
}

pub(in crate::model) fn write_synced(path: &Path, content: &[u8]) -> Result<(), ModelError> {
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent).map_err(|e| ModelError::io("create", parent, e))?;
    }
    write(&FileSystem, path, content)
}

/// Syncs a directory and the folders of a bundle in it.
pub(in crate::model) fn sync_dir(dir: &Path) -> Result<(), ModelError> {
    let folders = module_folders(&FileSystem, dir)?.into_iter().map(|folder| dir.join(folder));
    folders
        .chain([dir.to_owned()])
        .try_for_each(|dir| FileSystem.sync_directory(&dir).map_err(|e| ModelError::io("sync", &dir, e)))
}
