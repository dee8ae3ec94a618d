//! Fetches a named base model into the usual hub cache.

use std::path::{Path, PathBuf};

use hf_hub::api::sync::ApiBuilder;
use hf_hub::{Cache, Repo, RepoType};

use super::error::ModelError;
use super::files::{self, MODULES_FILE};

/// The paper's encoder: DistilBERT, 6 layers, 768-d (section 3.2 and appendix B).
pub const DEFAULT_MODEL: &str = "sentence-transformers/msmarco-distilbert-cos-v5";

/// Files without which a model cannot be loaded.
const REQUIRED: [&str; 3] = ["config.json", "tokenizer.json", "model.safetensors"];
/// Files without which a table of token vectors of sentence-transformers cannot be loaded; it has no
/// `config.json`.
const OF_TABLE: [&str; 2] = ["tokenizer.json", "model.safetensors"];

/// Optional files that change how a model is used.
const OPTIONAL: [&str; 5] =
    ["config.json", files::LENGTH_FILE, files::PROMPTS_FILE, "tokenizer_config.json", "README.md"];

/// The name of a model on a hub, `owner/name` or `name`; `None` for a path.
pub fn hub_name(given: &Path) -> Option<&str> {
    let name = given.to_str()?;
    let is_part = |part: &str| {
        !part.is_empty()
            && !part.starts_with('.')
            && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte))
    };
    (name.split('/').count() <= 2 && name.split('/').all(is_part)).then_some(name)
}

/// Fetches `name` (for instance [`DEFAULT_MODEL`]) and returns its directory in the cache. A name without an
/// owner, such as `all-MiniLM-L6-v2`, is first looked for among the models of `sentence-transformers`.
///
/// Files that the cache already holds are not fetched again. The cache is `HF_HUB_CACHE`, or `$HF_HOME/hub`,
/// or the usual place in the home directory; `HF_ENDPOINT` names another hub. If `HF_HUB_OFFLINE` is set to
/// anything but 0, nothing is fetched and a missing file is an error.
///
/// # Errors
/// [`ModelError::Hub`] with the model's name and the client's message.
pub fn fetch(name: &str) -> Result<PathBuf, ModelError> {
    match name.contains('/') {
        true => fetch_exactly(name),
        false => fetch_exactly(&format!("sentence-transformers/{name}")).or_else(|_| fetch_exactly(name)),
    }
}

fn fetch_exactly(name: &str) -> Result<PathBuf, ModelError> {
    let error = |message: String| ModelError::Hub { model: name.to_owned(), message };
    let cache = match std::env::var_os("HF_HUB_CACHE") {
        Some(path) => Cache::new(path.into()),
        None => Cache::from_env(),
    };
    let repo = Repo::new(name.to_owned(), RepoType::Model);
    let api = match is_offline() {
        true => None,
        false => {
            let mut builder = ApiBuilder::from_cache(cache.clone()).with_progress(false);
            if let Ok(endpoint) = std::env::var("HF_ENDPOINT") {
                builder = builder.with_endpoint(endpoint.trim_end_matches('/').to_owned());
            }
            Some(builder.build().map_err(|e| error(e.to_string()))?.repo(repo.clone()))
        }
    };
    let cached = cache.repo(repo);
    let get = |file: &str| match &api {
        Some(api) => api.get(file).map_err(|e| format!("{file}: {e}")),
        None => {
            cached.get(file).ok_or_else(|| format!("{file} is not in the cache, and HF_HUB_OFFLINE is set"))
        }
    };
    // Some models lack these files. If the model needs a missing one, loading the model fails.
    let get_optional = |file: &str| {
        get(file)
            .inspect_err(|reason| tracing::debug!(model = name, reason, "optional file not fetched"))
            .ok()
    };
    let modules = get_optional(MODULES_FILE);
    let mut files = Vec::from_iter(modules.clone());
    for file in required(modules.as_deref())? {
        files.push(get(&file).map_err(error)?);
    }
    OPTIONAL.into_iter().for_each(|file| drop(get_optional(file)));
    if let Some(modules) = &modules {
        module_files(modules)?.iter().for_each(|file| drop(get_optional(file)));
    }
    let directory = files.first().and_then(|path| path.parent());
    directory.map(Path::to_owned).ok_or_else(|| error("the cache gave no directory".to_owned()))
}

/// Files without which a model with this `modules.json`, or none, cannot be loaded.
fn required(modules: Option<&Path>) -> Result<Vec<String>, ModelError> {
    let table = modules.map(super::folder::table_folder).transpose()?.flatten();
    Ok(match table.as_deref() {
        // The table of a model2vec model, which has a `config.json`.
        None | Some(".") => REQUIRED.map(str::to_owned).to_vec(),
        Some("") => OF_TABLE.map(str::to_owned).to_vec(),
        Some(folder) => OF_TABLE.map(|file| format!("{folder}/{file}")).to_vec(),
    })
}

/// Files that the modules of a `modules.json` may have in their own folders.
fn module_files(path: &Path) -> Result<Vec<String>, ModelError> {
    let folders = super::folder::module_folders(path)?.into_iter();
    let files = folders.flat_map(|folder| files::MODULE_FILES.map(|file| format!("{folder}/{file}")));
    Ok(files.filter(|name| files::is_module_file(name)).collect())
}

fn is_offline() -> bool {
    std::env::var("HF_HUB_OFFLINE")
        .is_ok_and(|value| !matches!(value.as_str(), "" | "0" | "false" | "no" | "off"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_no_names() {
        for name in ["bert-base-uncased", "sentence-transformers/all-MiniLM-L6-v2"] {
            assert_eq!(hub_name(Path::new(name)), Some(name));
        }
        for path in ["", ".", "./model", "/model", "a/b/c", "a/", "../model", "~/model", "a b"] {
            assert_eq!(hub_name(Path::new(path)), None, "{path}");
        }
    }
}
