//! What a folder's model was made for, and whether its weights can be read.

use std::path::Path;

use serde::Deserialize;
use serde_json::{Map, Value};

use super::{prompts, shortened};
use crate::model::dense::DenseActivation;
use crate::model::error::ModelError;
use crate::model::files::{self, ENCODER_FILE, FORMER_ENCODER_FILE};
use crate::model::pooling::PoolingMode;

#[derive(Default, Deserialize)]
struct Config {
    architectures: Option<Vec<String>>,
    #[serde(default)]
    sentence_transformers: Option<Value>,
    sbert_ce_default_activation_function: Option<String>,
    id2label: Option<Map<String, Value>>,
    num_labels: Option<usize>,
}

#[derive(Default, Deserialize)]
struct OfLibrary {
    model_type: Option<String>,
    activation_fn: Option<String>,
    prompts: Option<Map<String, Value>>,
}

/// What a cross-encoder's folder says beside its transformer.
pub(in crate::model) struct RerankerSettings {
    /// What is applied to the output of the head.
    pub activation: DenseActivation,
}

/// Reads the folder of a cross-encoder with one output.
pub(in crate::model) fn reranker(dir: &Path) -> Result<RerankerSettings, ModelError> {
    let path = dir.join("config.json");
    let config: Config = files::read_json(&path)?;
    let of_library: OfLibrary = files::read_json_or_default(&dir.join(prompts::FILE))?;
    let no = |why: String| Err(ModelError::NotAReranker { path: dir.to_owned(), why });
    if !is_reranker(dir)? {
        let found = config.architectures.iter().flatten().next().map_or("an encoder", String::as_str);
        return no(format!("`{}` is no classifier of pairs of texts", shortened(found)));
    }
    // The library's default where nothing says how many.
    let labels = config.num_labels.or(config.id2label.map(|labels| labels.len()));
    if let Some(labels) = labels.filter(|&labels| labels != 1) {
        return no(format!("it gives {labels} numbers for a pair, and not one score"));
    }
    let modules: Vec<Value> = files::read_json_or_default(&dir.join("modules.json"))?;
    if modules.len() > 1 {
        return no("its modules.json has more than a Transformer".to_owned());
    }
    let prompt = of_library
        .prompts
        .iter()
        .flatten()
        .find(|(_, text)| text.as_str().is_some_and(|text| !text.is_empty()));
    if let Some((name, _)) = prompt {
        return no(format!("it has a prompt, `{}`", shortened(name)));
    }
    let in_config = config.sentence_transformers.as_ref().and_then(|own| own.get("activation_fn")?.as_str());
    let said = of_library.activation_fn.as_deref().or(in_config);
    let said = said.or(config.sbert_ce_default_activation_function.as_deref());
    let activation = match said {
        // The library's default for one output.
        None => DenseActivation::Sigmoid,
        Some(class) => DenseActivation::of_class(class).ok_or_else(|| ModelError::Unsupported {
            path,
            what: "activation",
            found: shortened(class),
            supported: DenseActivation::SUPPORTED,
        })?,
    };
    Ok(RerankerSettings { activation })
}

const CLASSIFIER: &str = "ForSequenceClassification";

/// Whether the folder holds a cross-encoder.
pub(in crate::model) fn is_reranker(dir: &Path) -> Result<bool, ModelError> {
    let config: Config = files::read_json(&dir.join("config.json"))?;
    let of_library: OfLibrary = files::read_json_or_default(&dir.join(prompts::FILE))?;
    let classifies = config.architectures.iter().flatten().any(|name| name.ends_with(CLASSIFIER));
    let has_activation =
        config.sentence_transformers.is_some() || config.sbert_ce_default_activation_function.is_some();
    let is_one = of_library.model_type.as_deref() == Some("CrossEncoder") || has_activation;
    Ok(is_one || classifies && !dir.join("modules.json").exists())
}

/// What ModernBERT's configuration says of the head of its classifier.
pub(in crate::model) struct ModernHead {
    pub pooling: PoolingMode,
    pub activation: DenseActivation,
    pub eps: f32,
}

/// Reads it; the defaults are those of transformers.
pub(in crate::model) fn modern_head(dir: &Path) -> Result<ModernHead, ModelError> {
    #[derive(Deserialize)]
    struct Config {
        classifier_pooling: Option<String>,
        classifier_activation: Option<String>,
        norm_eps: Option<f32>,
        norm_bias: Option<bool>,
    }
    let path = dir.join("config.json");
    let config: Config = files::read_json(&path)?;
    let unsupported = |what, found: &str, supported| ModelError::Unsupported {
        path: path.clone(),
        what,
        found: shortened(found),
        supported,
    };
    if config.norm_bias == Some(true) {
        return Err(unsupported("norm_bias of a classifier", "true", "false"));
    }
    let pooling = match config.classifier_pooling.as_deref().unwrap_or("cls") {
        "cls" => PoolingMode::Cls,
        "mean" => PoolingMode::Mean,
        other => return Err(unsupported("classifier_pooling", other, "cls, mean")),
    };
    let activation = match config.classifier_activation.as_deref().unwrap_or("gelu") {
        "gelu" => DenseActivation::Gelu,
        "relu" => DenseActivation::Relu,
        "silu" | "swish" => DenseActivation::Silu,
        other => return Err(unsupported("classifier_activation", other, "gelu, relu, silu")),
    };
    const EPS: f32 = 1e-5;
    Ok(ModernHead { pooling, activation, eps: config.norm_eps.unwrap_or(EPS) })
}

/// Refuses a folder whose model is none that gives embeddings. `modules.json` says that one does, whatever
/// the transformer in it was at first.
pub(super) fn check(dir: &Path) -> Result<(), ModelError> {
    let path = dir.join("config.json");
    let config: Config = files::read_json(&path)?;
    let is_encoder = dir.join("modules.json").exists();
    let error = |found: &str, kind| {
        Err(ModelError::NotAnEncoder { path: dir.to_owned(), found: shortened(found), kind })
    };
    if is_reranker(dir)? {
        let labels = config.id2label.map_or(0, |labels| labels.len());
        return error(
            config.architectures.iter().flatten().next().map_or("CrossEncoder", |name| name),
            match labels {
                0 | 1 => "a cross-encoder, which scores pairs of texts: give it as a reranker (`--rerank`)",
                _ => "a classifier of texts or of pairs of them",
            },
        );
    }
    let Some(name) = config.architectures.iter().flatten().next().filter(|_| !is_encoder) else {
        return Ok(());
    };
    let kind = [
        ("ForMaskedLM", "a language model that fills in masked words"),
        ("ForPreTraining", "a language model as it was pre-trained"),
        ("ForCausalLM", "a language model that writes text"),
        ("LMHeadModel", "a language model that writes text"),
        ("ForTokenClassification", "a classifier of words"),
        ("ForQuestionAnswering", "a model that finds an answer in a text"),
        ("ForConditionalGeneration", "a language model that writes text"),
    ];
    match kind.into_iter().find(|(ending, _)| name.ends_with(ending)) {
        Some((_, kind)) => error(name, kind),
        None if name.contains("For") => error(name, "a model with a head of its own"),
        None => Ok(()),
    }
}

/// Refuses a folder whose weights are there, but not as one safetensors file.
pub(in crate::model) fn check_weights(dir: &Path) -> Result<(), ModelError> {
    if [ENCODER_FILE, FORMER_ENCODER_FILE].iter().any(|name| dir.join(name).exists()) {
        return Ok(());
    }
    let index = dir.join("model.safetensors.index.json");
    if index.exists() {
        return Err(ModelError::Unsupported {
            path: index,
            what: "weights in",
            found: "several files".to_owned(),
            supported: "one file, model.safetensors",
        });
    }
    match ["pytorch_model.bin", "pytorch_model.bin.index.json", "tf_model.h5", "flax_model.msgpack"]
        .into_iter()
        .map(|name| dir.join(name))
        .find(|path| path.exists())
    {
        Some(path) => Err(ModelError::OtherWeights { path }),
        None => Err(ModelError::NotAModel { path: dir.to_owned(), missing: ENCODER_FILE }),
    }
}

/// The `model_type` of a folder's `config.json`.
pub(in crate::model) fn model_type(dir: &Path) -> Result<String, ModelError> {
    #[derive(Deserialize)]
    struct Config {
        model_type: String,
    }
    Ok(files::read_json::<Config>(&dir.join("config.json"))?.model_type)
}
