//! `modules.json`: the chain of modules, and the settings of each.

use std::path::Path;

use serde::Deserialize;
use serde_json::{Map, Value};

use super::{Module, refuse_unknown};
use crate::model::dense::{DenseActivation, DenseConfig};
use crate::model::error::ModelError;
use crate::model::files;
use crate::model::pooling::PoolingMode;

/// What a chain of modules does.
pub(super) struct Chain {
    pub pooling: Vec<PoolingMode>,
    pub include_prompt: bool,
    pub modules: Vec<Module>,
}

#[derive(Deserialize)]
struct Entry {
    path: String,
    #[serde(rename = "type")]
    class: String,
    #[serde(default)]
    kwargs: Vec<Value>,
}

/// The packages that the classes of sentence-transformers lie in. Classes elsewhere are somebody's own code
/// under perhaps the same name.
const PACKAGE: &str = "sentence_transformers.";
const SUPPORTED: &str =
    "Transformer and Pooling, or StaticEmbedding, then Dense and Normalize of sentence_transformers";
/// The module that is a table of token vectors.
pub(super) const STATIC_EMBEDDING: &str = "StaticEmbedding";
pub(super) const FILE: &str = "modules.json";
/// Most modules after the pooling, and most widths that a chain goes through.
const MOST_MODULES: usize = 16;
const MOST_WIDTH: usize = 1 << 16;

impl Entry {
    /// The name of a class of sentence-transformers.
    fn class(&self) -> Option<&str> {
        self.class.strip_prefix(PACKAGE).and_then(|rest| rest.rsplit('.').next())
    }
}

/// Where the first module is, if that is a table of token vectors; `path` need not be there.
pub(in crate::model) fn table_folder(path: &Path) -> Result<Option<String>, ModelError> {
    let entries: Vec<Entry> = files::read_json_or_default(path)?;
    let first = entries.into_iter().next();
    Ok(first.filter(|entry| entry.class() == Some(STATIC_EMBEDDING)).map(|entry| entry.path))
}

/// Mean pooling and unit norm where there is no `modules.json`.
pub(super) fn read(dir: &Path, hidden: usize) -> Result<Chain, ModelError> {
    let path = dir.join(FILE);
    if !files::is_there(&path) {
        let pooling = vec![PoolingMode::Mean];
        return Ok(Chain { pooling, include_prompt: true, modules: vec![Module::Normalise] });
    }
    let entries: Vec<Entry> = files::read_json(&path)?;
    if entries.len() > MOST_MODULES {
        return Err(ModelError::unsupported(&path, "number of modules", entries.len(), "at most 16"));
    }
    let mut chain: Option<Chain> = None;
    let mut width = hidden;
    for (place, entry) in entries.iter().enumerate() {
        if !entry.kwargs.is_empty() {
            return Err(ModelError::unsupported(
                &path,
                "arguments of module",
                &entry.class,
                "modules without kwargs",
            ));
        }
        match (place, entry.class(), &mut chain) {
            (0, Some(STATIC_EMBEDDING), None) => {
                if !["", ".", files::STATIC_FOLDER].contains(&entry.path.as_str()) {
                    let supported = "the model's own folder, or 0_StaticEmbedding";
                    return Err(ModelError::unsupported(
                        &path,
                        "folder of the StaticEmbedding",
                        &entry.path,
                        supported,
                    ));
                }
                let pooling = vec![PoolingMode::Mean];
                chain = Some(Chain { pooling, include_prompt: true, modules: Vec::new() });
            }
            (0, Some("Transformer"), None) if entry.path.is_empty() => {}
            (0, Some("Transformer"), None) => {
                return Err(ModelError::unsupported(
                    &path,
                    "folder of the Transformer",
                    &entry.path,
                    "the model's own folder",
                ));
            }
            (1, Some("Pooling"), chain @ None) => {
                check_folder(&entry.path, "Pooling")
                    .map_err(|s| ModelError::unsupported(&path, "folder", &entry.path, s))?;
                let own = read_pooling(&dir.join(&entry.path).join("config.json"))?;
                width = own.pooling.len() * hidden;
                *chain = Some(own);
            }
            (_, Some("Dense"), Some(chain)) => {
                check_folder(&entry.path, "Dense")
                    .map_err(|s| ModelError::unsupported(&path, "folder", &entry.path, s))?;
                let dense = read_dense(&dir.join(&entry.path).join("config.json"), width)?;
                width = dense.outputs;
                chain.modules.push(Module::Dense(entry.path.clone(), dense));
            }
            (_, Some("Normalize"), Some(chain)) => {
                check_folder(&entry.path, "Normalize")
                    .map_err(|s| ModelError::unsupported(&path, "folder", &entry.path, s))?;
                read_normalize(&dir.join(&entry.path).join("config.json"))?;
                chain.modules.push(Module::Normalise);
            }
            _ => return Err(ModelError::unsupported(&path, "module", &entry.class, SUPPORTED)),
        }
    }
    chain.ok_or_else(|| ModelError::unsupported(&path, "chain of modules", "without Pooling", SUPPORTED))
}

/// Refuses a chain of anything but the Transformer; a folder need not say that it is one.
pub(super) fn check_transformer_alone(dir: &Path) -> Result<(), ModelError> {
    let path = dir.join(FILE);
    let entries: Vec<Entry> = files::read_json_or_default(&path)?;
    for (place, entry) in entries.iter().enumerate() {
        if place > 0 || entry.class() != Some("Transformer") {
            return Err(ModelError::unsupported(
                &path,
                "module of a reranker",
                &entry.class,
                "one Transformer",
            ));
        }
        if !entry.path.is_empty() || !entry.kwargs.is_empty() {
            let supported = "the model's own folder, without kwargs";
            return Err(ModelError::unsupported(&path, "folder of the Transformer", &entry.path, supported));
        }
    }
    Ok(())
}

/// Names come from a file, and are joined to a path.
fn check_folder(path: &str, kind: &str) -> Result<(), &'static str> {
    match files::module_kind(path) {
        Some(found) if found == kind => Ok(()),
        _ => Err("a number and the module's name, as in 1_Pooling"),
    }
}

/// Both spellings: a setting for each mode, and since release 5.4 a mode or a list of them.
fn read_pooling(path: &Path) -> Result<Chain, ModelError> {
    /// Names of the modes, older and newer, in the order in which the older files mean them to be joined.
    const MODES: [(&str, &str, PoolingMode); 6] = [
        ("pooling_mode_cls_token", "cls", PoolingMode::Cls),
        ("pooling_mode_max_tokens", "max", PoolingMode::Max),
        ("pooling_mode_mean_tokens", "mean", PoolingMode::Mean),
        ("pooling_mode_mean_sqrt_len_tokens", "mean_sqrt_len_tokens", PoolingMode::MeanSqrtLen),
        ("pooling_mode_weightedmean_tokens", "weightedmean", PoolingMode::WeightedMean),
        ("pooling_mode_lasttoken", "lasttoken", PoolingMode::LastToken),
    ];
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Modes {
        One(String),
        Several(Vec<String>),
    }
    #[derive(Deserialize)]
    struct Config {
        pooling_mode: Option<Modes>,
        include_prompt: Option<bool>,
        /// The transformer's width again; the library goes by the transformer.
        #[serde(rename = "word_embedding_dimension")]
        _former_width: Option<Value>,
        #[serde(rename = "embedding_dimension")]
        _width: Option<Value>,
        #[serde(flatten)]
        rest: Map<String, Value>,
    }
    let mut config: Config = files::read_json(path)?;
    let supported = "cls, max, mean, mean_sqrt_len_tokens, weightedmean, lasttoken";
    let other = |found: &str| ModelError::unsupported(path, "pooling mode", found, supported);
    let mut pooling = Vec::new();
    for (name, _, mode) in MODES {
        match config.rest.remove(name) {
            Some(Value::Bool(true)) => pooling.push(mode),
            None | Some(Value::Bool(false) | Value::Null) => {}
            Some(value) => return Err(other(&format!("{name}: {value}"))),
        }
    }
    if let Some(modes) = config.pooling_mode {
        let names = match modes {
            Modes::One(name) => vec![name],
            Modes::Several(names) => names,
        };
        let mode = |name: &String| {
            let own = MODES.iter().find(|(_, own, _)| own == name);
            own.map(|(_, _, mode)| *mode).ok_or_else(|| other(name))
        };
        pooling = names.iter().map(mode).collect::<Result<_, _>>()?;
        if pooling.len() > MODES.len() {
            return Err(other(&names.join(", ")));
        }
    }
    // As the library does where nothing is said.
    if pooling.is_empty() {
        pooling.push(PoolingMode::Mean);
    }
    refuse_unknown(path, &config.rest)?;
    Ok(Chain { pooling, include_prompt: config.include_prompt.unwrap_or(true), modules: Vec::new() })
}

/// The one input and output that modules after the pooling have here.
const EMBEDDING: &str = "sentence_embedding";

fn check_ends(path: &Path, ends: [&Option<String>; 2]) -> Result<(), ModelError> {
    match ends.into_iter().flatten().find(|end| *end != EMBEDDING) {
        Some(end) => Err(ModelError::unsupported(path, "input or output", end, EMBEDDING)),
        None => Ok(()),
    }
}

fn read_dense(path: &Path, width: usize) -> Result<DenseConfig, ModelError> {
    #[derive(Deserialize)]
    struct Config {
        in_features: usize,
        out_features: usize,
        #[serde(default = "yes")]
        bias: bool,
        activation_function: Option<String>,
        module_input_name: Option<String>,
        module_output_name: Option<String>,
        #[serde(default)]
        use_residual: bool,
        #[serde(flatten)]
        rest: Map<String, Value>,
    }
    fn yes() -> bool {
        true
    }
    let config: Config = files::read_json(path)?;
    refuse_unknown(path, &config.rest)?;
    check_ends(path, [&config.module_input_name, &config.module_output_name])?;
    let bad = |what, found: usize, expected| ModelError::bad_config(path, what, found, expected);
    if config.in_features != width {
        return Err(bad("in_features", config.in_features, format!("the width before it, {width}")));
    }
    if config.out_features == 0 || config.out_features > MOST_WIDTH {
        return Err(bad("out_features", config.out_features, format!("1 to {MOST_WIDTH}")));
    }
    let activation = match &config.activation_function {
        // The library's default.
        None => DenseActivation::Tanh,
        Some(class) => DenseActivation::of_class(class)
            .ok_or_else(|| ModelError::unsupported(path, "activation", class, DenseActivation::SUPPORTED))?,
    };
    Ok(DenseConfig {
        inputs: config.in_features,
        outputs: config.out_features,
        bias: config.bias,
        activation,
        residual: config.use_residual,
    })
}

/// Has settings since release 6 alone.
fn read_normalize(path: &Path) -> Result<(), ModelError> {
    #[derive(Default, Deserialize)]
    struct Config {
        module_input_name: Option<String>,
        module_output_name: Option<String>,
    }
    let config: Config = files::read_json_or_default(path)?;
    check_ends(path, [&config.module_input_name, &config.module_output_name])
}
