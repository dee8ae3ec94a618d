//! `modules.json`: the chain of modules, and the settings of each.

use std::path::Path;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::Folder;
use crate::model::dense::{DenseActivation, DenseModule};
use crate::model::error::ModelError;
use crate::model::files::{self, MODULES_FILE};
use crate::model::json::Settings;
use crate::model::pooling::PoolingMode;

/// A module after the pooling.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case", tag = "module")]
#[non_exhaustive]
pub enum Module {
    /// A linear map, then an activation.
    Dense(DenseModule),
    /// Unit L2 norm.
    Normalize,
}

#[derive(Deserialize)]
struct ModuleEntry {
    path: String,
    #[serde(rename = "type")]
    class: String,
    #[serde(default)]
    kwargs: Vec<Value>,
}

/// The package of sentence-transformers' classes. Classes elsewhere are custom code, possibly with the same
/// name.
const PACKAGE: &str = "sentence_transformers.";
const SUPPORTED: &str =
    "Transformer and Pooling, or StaticEmbedding, then Dense and Normalize of sentence_transformers";
const FOLDERS: &str =
    "the model's own folder for the first one, a number and its name, as in 1_Pooling, for others";
/// The module that is a table of token vectors.
pub(in crate::model) const STATIC_EMBEDDING: &str = "StaticEmbedding";
/// Most modules after the pooling, and most widths in a chain.
const MOST_MODULES: usize = 16;
const MOST_WIDTH: usize = 1 << 16;
/// The only supported input and output of modules after the pooling.
const ENDS: [(&str, &str); 2] =
    [("module_input_name", "sentence_embedding"), ("module_output_name", "sentence_embedding")];

impl ModuleEntry {
    /// The name of a class of sentence-transformers.
    fn class(&self) -> Option<&str> {
        self.class.strip_prefix(PACKAGE).and_then(|rest| rest.rsplit('.').next())
    }

    /// Whether it is in the folder expected for its class. Names come from a file and are joined to a path.
    fn has_own_folder(&self) -> bool {
        match self.class() {
            Some(STATIC_EMBEDDING) => ["", ".", files::STATIC_FOLDER].contains(&self.path.as_str()),
            Some("Transformer") => self.path.is_empty(),
            class => class.is_some() && files::module_kind(&self.path) == class,
        }
    }
}

/// The folder of the first module if it is a table of token vectors; `path` need not exist.
pub(in crate::model) fn table_folder(path: &Path) -> Result<Option<String>, ModelError> {
    let entries: Vec<ModuleEntry> = files::read_json_or_default(path)?;
    let first = entries.into_iter().next();
    Ok(first.filter(|entry| entry.class() == Some(STATIC_EMBEDDING)).map(|entry| entry.path))
}

/// Reads `modules.json` into `folder`; without one, it keeps its defaults.
pub(super) fn read(dir: &Path, hidden: usize, folder: &mut Folder) -> Result<(), ModelError> {
    let path = dir.join(MODULES_FILE);
    if !files::is_there(&path) {
        return Ok(());
    }
    let no = |what, found: &str, supported| ModelError::unsupported(&path, what, found, supported);
    let entries: Vec<ModuleEntry> = files::read_json(&path)?;
    if entries.len() > MOST_MODULES {
        return Err(no("number of modules", &entries.len().to_string(), "at most 16"));
    }
    folder.modules.clear();
    let (mut is_pooled, mut width) = (false, hidden);
    for (place, entry) in entries.iter().enumerate() {
        let (class, is_first) = (entry.class().unwrap_or_default(), place == 0);
        let is_known = match class {
            STATIC_EMBEDDING | "Transformer" => is_first,
            "Pooling" => place == 1 && !is_pooled,
            "Dense" | "Normalize" => is_pooled,
            _ => false,
        };
        if !is_known {
            return Err(no("module", &entry.class, SUPPORTED));
        }
        if !entry.kwargs.is_empty() {
            return Err(no("arguments of module", &entry.class, "modules without kwargs"));
        }
        if !entry.has_own_folder() {
            return Err(no("folder of a module", &entry.path, FOLDERS));
        }
        let config = dir.join(&entry.path).join("config.json");
        match class {
            "Pooling" => {
                read_pooling(&config, folder)?;
                width = folder.pooling.len() * hidden;
            }
            "Dense" => {
                let dense = read_dense(&config, entry.path.clone(), width)?;
                width = dense.outputs;
                folder.modules.push(Module::Dense(dense));
            }
            "Normalize" => {
                // Has settings only since release 6.
                Settings::read_or_none(config)?.check(&ENDS)?;
                folder.modules.push(Module::Normalize);
            }
            _ => {}
        }
        is_pooled |= class != "Transformer";
    }
    if is_pooled { Ok(()) } else { Err(no("chain of modules", "without Pooling", SUPPORTED)) }
}

/// The folders of the modules of a `modules.json`.
#[cfg(feature = "hub")]
pub(in crate::model) fn module_folders(path: &Path) -> Result<Vec<String>, ModelError> {
    let entries: Vec<ModuleEntry> = files::read_json(path)?;
    Ok(entries.into_iter().map(|entry| entry.path).collect())
}

/// Refuses a chain with anything but the Transformer; `modules.json` may be absent.
pub(super) fn check_transformer_alone(dir: &Path) -> Result<(), ModelError> {
    let path = dir.join(MODULES_FILE);
    let entries: Vec<ModuleEntry> = files::read_json_or_default(&path)?;
    for (place, entry) in entries.iter().enumerate() {
        let is_one = place == 0 && entry.class() == Some("Transformer");
        if !(is_one && entry.path.is_empty() && entry.kwargs.is_empty()) {
            let found = format!("{} in `{}`", entry.class, entry.path);
            let supported = "one Transformer in the model's own folder, without kwargs";
            return Err(ModelError::unsupported(&path, "module of a reranker", found, supported));
        }
    }
    Ok(())
}

/// Both spellings: a setting for each mode, and since release 5.4 a mode or a list of them.
fn read_pooling(path: &Path, folder: &mut Folder) -> Result<(), ModelError> {
    /// Older and newer names of the modes, in the order in which older files concatenate them.
    const MODES: [(&str, &str, PoolingMode); 6] = [
        ("pooling_mode_cls_token", "cls", PoolingMode::Cls),
        ("pooling_mode_max_tokens", "max", PoolingMode::Max),
        ("pooling_mode_mean_tokens", "mean", PoolingMode::Mean),
        ("pooling_mode_mean_sqrt_len_tokens", "mean_sqrt_len_tokens", PoolingMode::MeanSqrtLen),
        ("pooling_mode_weightedmean_tokens", "weightedmean", PoolingMode::WeightedMean),
        ("pooling_mode_lasttoken", "lasttoken", PoolingMode::LastToken),
    ];
    const SUPPORTED: &str = "cls, max, mean, mean_sqrt_len_tokens, weightedmean, lasttoken";
    let mut config = Settings::read(path)?;
    let mut pooling = Vec::new();
    for (name, _, mode) in MODES {
        if config.take(name)? == Some(true) {
            pooling.push(mode);
        }
    }
    if let Some(modes) = config.take::<Value>("pooling_mode")? {
        let names = match &modes {
            Value::Array(names) if names.len() <= MODES.len() => names.as_slice(),
            one => std::slice::from_ref(one),
        };
        let mode = |name: &Value| {
            let own = MODES.iter().find(|(_, own, _)| name.as_str() == Some(*own));
            own.map(|(_, _, mode)| *mode).ok_or_else(|| config.unsupported("pooling mode", name, SUPPORTED))
        };
        pooling = names.iter().map(mode).collect::<Result<_, _>>()?;
    }
    // The library's default.
    if pooling.is_empty() {
        pooling.push(PoolingMode::Mean);
    }
    (folder.pooling, folder.include_prompt) = (pooling, config.or("include_prompt", true)?);
    // Repeats the transformer's width; the library uses the transformer's.
    for width in ["word_embedding_dimension", "embedding_dimension"] {
        config.fields.remove(width);
    }
    config.refuse_rest()
}

fn read_dense(path: &Path, folder: String, width: usize) -> Result<DenseModule, ModelError> {
    let mut config = Settings::read(path)?;
    config.check(&ENDS)?;
    let (inputs, outputs) = (config.need("in_features")?, config.need("out_features")?);
    if inputs != width {
        return Err(config.bad("in_features", inputs, format!("the width before it, {width}")));
    }
    if outputs == 0 || outputs > MOST_WIDTH {
        return Err(config.bad("out_features", outputs, format!("1 to {MOST_WIDTH}")));
    }
    let dense = DenseModule {
        folder,
        inputs,
        outputs,
        bias: config.or("bias", true)?,
        // The library's default.
        activation: activation(&mut config, "activation_function")?.unwrap_or(DenseActivation::Tanh),
        residual: config.or("use_residual", false)?,
    };
    config.refuse_rest()?;
    Ok(dense)
}

/// The activation whose class a setting names.
pub(super) fn activation(
    config: &mut Settings,
    name: &'static str,
) -> Result<Option<DenseActivation>, ModelError> {
    let Some(class) = config.take::<String>(name)? else { return Ok(None) };
    let known = DenseActivation::of_class(&class);
    known.map(Some).ok_or_else(|| config.unsupported("activation", class, DenseActivation::SUPPORTED))
}
