//! What a folder's model was made for, and whether its weights can be read.

use std::path::Path;

use serde::Deserialize;
use serde_json::{Map, Value};

use super::{modules, refuse_unknown};
use crate::model::dense::DenseActivation;
use crate::model::error::{ModelError, shortened};
use crate::model::files::{self, ENCODER_FILE, PROMPTS_FILE};
use crate::model::pooling::PoolingMode;

#[derive(Default, Deserialize)]
struct Config {
    architectures: Option<Vec<String>>,
    #[serde(default)]
    sentence_transformers: Option<Value>,
    sbert_ce_default_activation_function: Option<String>,
    id2label: Option<Map<String, Value>>,
    num_labels: Option<usize>,
    is_encoder_decoder: Option<bool>,
}

#[derive(Default, Deserialize)]
struct OfLibrary {
    model_type: Option<String>,
    activation_fn: Option<String>,
    prompts: Option<Map<String, Value>>,
    default_prompt_name: Option<String>,
    /// Versions of libraries, and what embeddings are compared by: no matter of a score.
    #[serde(rename = "__version__")]
    _version: Option<Value>,
    #[serde(rename = "similarity_fn_name")]
    _similarity: Option<Value>,
    #[serde(flatten)]
    rest: Map<String, Value>,
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
    let of_library: OfLibrary = files::read_json_or_default(&dir.join(PROMPTS_FILE))?;
    let no = |why: String| Err(ModelError::NotAReranker { path: dir.to_owned(), why });
    if !is_reranker(dir)? {
        if files::is_there(&dir.join("modules.json")) {
            return no("its modules.json, without `model_type` CrossEncoder beside it, makes it an encoder"
                .to_owned());
        }
        let found = config.architectures.iter().flatten().next().map_or("an encoder", String::as_str);
        return no(format!("`{}` is no classifier of pairs of texts, which a reranker is", shortened(found)));
    }
    // The library's default where nothing says how many.
    let labels = config.num_labels.or(config.id2label.as_ref().map(Map::len));
    if let Some(labels) = labels.filter(|&labels| labels != 1) {
        return no(format!("it gives {labels} numbers for a pair, and not one score"));
    }
    modules::check_transformer_alone(dir)?;
    check_extras(dir, &config)?;
    let path_of_library = dir.join(PROMPTS_FILE);
    refuse_unknown(&path_of_library, &of_library.rest)?;
    if let Some(name) = of_library.default_prompt_name.as_deref().filter(|name| !name.is_empty()) {
        return Err(ModelError::unsupported(
            &path_of_library,
            "default_prompt_name",
            name,
            "a reranker without prompts",
        ));
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
        Some(class) => DenseActivation::of_class(class)
            .ok_or_else(|| ModelError::unsupported(&path, "activation", class, DenseActivation::SUPPORTED))?,
    };
    Ok(RerankerSettings { activation })
}

const CLASSIFIER: &str = "ForSequenceClassification";

/// Whether the folder holds a cross-encoder.
pub(in crate::model) fn is_reranker(dir: &Path) -> Result<bool, ModelError> {
    let config: Config = files::read_json(&dir.join("config.json"))?;
    let of_library: OfLibrary = files::read_json_or_default(&dir.join(PROMPTS_FILE))?;
    let classifies = config.architectures.iter().flatten().any(|name| name.ends_with(CLASSIFIER));
    let has_activation =
        config.sentence_transformers.is_some() || config.sbert_ce_default_activation_function.is_some();
    let is_one = of_library.model_type.as_deref() == Some("CrossEncoder") || has_activation;
    Ok(is_one || classifies && !files::is_there(&dir.join("modules.json")))
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
    if config.norm_bias == Some(true) {
        return Err(ModelError::unsupported(&path, "norm_bias of a classifier", "true", "false"));
    }
    let pooling = match config.classifier_pooling.as_deref().unwrap_or("cls") {
        "cls" => PoolingMode::Cls,
        "mean" => PoolingMode::Mean,
        other => return Err(ModelError::unsupported(&path, "classifier_pooling", other, "cls, mean")),
    };
    let activation = match config.classifier_activation.as_deref().unwrap_or("gelu") {
        "gelu" => DenseActivation::Gelu,
        "relu" => DenseActivation::Relu,
        "silu" | "swish" => DenseActivation::Silu,
        other => {
            return Err(ModelError::unsupported(&path, "classifier_activation", other, "gelu, relu, silu"));
        }
    };
    const EPS: f32 = 1e-5;
    Ok(ModernHead { pooling, activation, eps: config.norm_eps.unwrap_or(EPS) })
}

/// Refuses what would change the weights or the way they are used, and is not done here.
fn check_extras(dir: &Path, config: &Config) -> Result<(), ModelError> {
    let adapter = dir.join("adapter_config.json");
    if files::is_there(&adapter) {
        let supported = "weights into which it is merged (`merge_and_unload` of peft)";
        return Err(ModelError::unsupported(&adapter, "weights beside an", "adapter", supported));
    }
    if config.is_encoder_decoder == Some(true) {
        return Err(ModelError::unsupported(&dir.join("config.json"), "is_encoder_decoder", "true", "false"));
    }
    Ok(())
}

/// Refuses a folder whose model is none that gives embeddings. `modules.json` says that one does, whatever
/// the transformer in it was at first.
pub(super) fn check(dir: &Path) -> Result<(), ModelError> {
    let path = dir.join("config.json");
    let config: Config = files::read_json(&path)?;
    check_extras(dir, &config)?;
    let is_encoder = files::is_there(&dir.join("modules.json"));
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

/// How a file begins that stands for another one in a clone without its large files.
const LFS_POINTER: &[u8] = b"version https://git-lfs";

/// Refuses a folder whose weights are there, but not as one safetensors file. It may be that of a module of
/// `model`, which the class of sentence-transformers reads.
pub(in crate::model) fn check_weights(
    dir: &Path,
    model: &Path,
    class: &'static str,
) -> Result<(), ModelError> {
    if let Some(path) = files::ENCODER_FILES.iter().map(|name| dir.join(name)).find(|path| path.exists()) {
        return match files::begins_with(&path, LFS_POINTER)? {
            true => Err(ModelError::LfsPointer { path }),
            false => Ok(()),
        };
    }
    let index = dir.join("model.safetensors.index.json");
    if index.exists() {
        return Err(ModelError::unsupported(
            &index,
            "weights in",
            "several files",
            "one file, model.safetensors",
        ));
    }
    match [
        "pytorch_model.bin",
        "pytorch_model.bin.index.json",
        "tf_model.h5",
        "flax_model.msgpack",
        "0_StaticEmbedding/pytorch_model.bin",
    ]
    .into_iter()
    .map(|name| dir.join(name))
    .find(|path| path.exists())
    {
        Some(path) => Err(ModelError::OtherWeights { path, model: model.to_owned(), class }),
        None => Err(ModelError::not_a_model(dir, ENCODER_FILE)),
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
