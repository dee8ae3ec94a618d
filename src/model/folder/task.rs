//! The purpose of a folder's model, and whether its weights can be read.

use std::path::Path;

use serde_json::{Map, Value};

use super::modules::{self, activation};
use crate::model::dense::DenseActivation;
use crate::model::error::{ModelError, shortened};
use crate::model::files::{self, CONFIG_FILE, ENCODER_FILE, MODULES_FILE, PROMPTS_FILE};
use crate::model::json::Settings;
use crate::model::pooling::PoolingMode;

/// The purpose of a model according to the two files.
struct Purpose {
    config: Settings,
    /// The settings of sentence-transformers.
    of_library: Settings,
    /// The first of its classes in transformers.
    class: Option<String>,
    is_reranker: bool,
}

impl Purpose {
    fn read(dir: &Path) -> Result<Self, ModelError> {
        let mut config = Settings::read(dir.join(CONFIG_FILE))?;
        let mut of_library = Settings::read_or_none(dir.join(PROMPTS_FILE))?;
        let classes: Vec<String> = config.take("architectures")?.unwrap_or_default();
        let classifies = classes.iter().any(|name| name.ends_with(CLASSIFIER));
        let has_activation = ["sentence_transformers", FORMER_ACTIVATION]
            .into_iter()
            .any(|name| config.fields.get(name).is_some_and(|value| !value.is_null()));
        let is_one = of_library.take("model_type")? == Some("CrossEncoder".to_owned()) || has_activation;
        let is_reranker = is_one || classifies && !files::is_there(&dir.join(MODULES_FILE));
        Ok(Self { config, of_library, class: classes.into_iter().next(), is_reranker })
    }

    /// Number of a classifier's outputs.
    fn labels(&mut self) -> Result<Option<usize>, ModelError> {
        let named = self.config.take::<Map<_, _>>("id2label")?;
        Ok(self.config.take("num_labels")?.or(named.map(|labels| labels.len())))
    }
}

/// Reads the activation after the head of a cross-encoder with one output.
pub(in crate::model) fn reranker(dir: &Path) -> Result<DenseActivation, ModelError> {
    let mut purpose = Purpose::read(dir)?;
    let no = |why: String| Err(ModelError::OtherPurpose { path: dir.to_owned(), wanted: "reranker", why });
    if !purpose.is_reranker {
        if files::is_there(&dir.join(MODULES_FILE)) {
            return no(
                "it has a modules.json, and its config has no `model_type` CrossEncoder: it is an encoder"
                    .to_owned(),
            );
        }
        let found = purpose.class.as_deref().unwrap_or("an encoder");
        return no(format!("`{}` is not a classifier of pairs of texts", shortened(found)));
    }
    // The library's default number of outputs.
    if let Some(labels) = purpose.labels()?.filter(|&labels| labels != 1) {
        return no(format!("it gives {labels} numbers for a pair, and not one score"));
    }
    modules::check_transformer_alone(dir)?;
    let Purpose { mut config, mut of_library, .. } = purpose;
    check_extras(dir, &mut config)?;
    // The current setting first, then those of earlier releases.
    let mut own = config.take::<Map<_, _>>("sentence_transformers")?.unwrap_or_default();
    if let Some(class) = own.remove("activation_fn") {
        config.fields.insert(FORMER_ACTIVATION.to_owned(), class);
    }
    let said = activation(&mut of_library, "activation_fn")?;
    let said = said.map_or_else(|| activation(&mut config, FORMER_ACTIVATION), |own| Ok(Some(own)))?;
    // Library versions and the similarity of embeddings do not affect a score.
    for name in ["__version__", "similarity_fn_name"] {
        of_library.fields.remove(name);
    }
    let prompts: Map<String, Value> = of_library.take("prompts")?.unwrap_or_default();
    if let Some((name, _)) =
        prompts.iter().find(|(_, text)| text.as_str().is_some_and(|text| !text.is_empty()))
    {
        return no(format!("it has a prompt, `{}`", shortened(name)));
    }
    of_library.refuse_rest()?;
    // The library's default for one output.
    Ok(said.unwrap_or(DenseActivation::Sigmoid))
}

/// Name of the activation in releases of sentence-transformers before 4.
const FORMER_ACTIVATION: &str = "sbert_ce_default_activation_function";
const CLASSIFIER: &str = "ForSequenceClassification";

/// Whether the folder holds a cross-encoder.
#[cfg(feature = "train")]
pub(in crate::model) fn is_reranker(dir: &Path) -> Result<bool, ModelError> {
    Ok(Purpose::read(dir)?.is_reranker)
}

/// The pooling, the activation and the norm's epsilon of the head of ModernBERT's classifier; the defaults
/// are those of transformers.
pub(in crate::model) fn modern_head(dir: &Path) -> Result<(PoolingMode, DenseActivation, f32), ModelError> {
    let mut config = Settings::read(dir.join(CONFIG_FILE))?;
    config.check(&[("norm_bias", "false")])?;
    let pooling = match config.take::<String>("classifier_pooling")?.as_deref().unwrap_or("cls") {
        "cls" => PoolingMode::Cls,
        "mean" => PoolingMode::Mean,
        other => return Err(config.unsupported("classifier_pooling", other, "cls, mean")),
    };
    let activation = match config.take::<String>("classifier_activation")?.as_deref().unwrap_or("gelu") {
        "gelu" => DenseActivation::Gelu,
        "relu" => DenseActivation::Relu,
        "silu" | "swish" => DenseActivation::Silu,
        other => return Err(config.unsupported("classifier_activation", other, "gelu, relu, silu")),
    };
    const EPS: f32 = 1e-5;
    Ok((pooling, activation, config.or("norm_eps", EPS)?))
}

/// Refuses unsupported settings that change the weights or their use.
fn check_extras(dir: &Path, config: &mut Settings) -> Result<(), ModelError> {
    let adapter = dir.join("adapter_config.json");
    if files::is_there(&adapter) {
        let supported = "weights into which it is merged (`merge_and_unload` of peft)";
        return Err(ModelError::unsupported(&adapter, "weights beside an", "adapter", supported));
    }
    config.check(&[("is_encoder_decoder", "false")])
}

/// Refuses a model that was not made for embeddings. A `modules.json` shows that it was, whatever its
/// transformer was made for originally.
pub(super) fn check(dir: &Path) -> Result<(), ModelError> {
    let mut purpose = Purpose::read(dir)?;
    check_extras(dir, &mut purpose.config)?;
    let error = |found: &str, kind| {
        let why = format!("its `{}` is {kind}", shortened(found));
        Err(ModelError::OtherPurpose { path: dir.to_owned(), wanted: "encoder of texts", why })
    };
    if purpose.is_reranker {
        let labels = purpose.labels()?;
        let kind = match labels {
            None | Some(0 | 1) => {
                "a cross-encoder, which scores pairs of texts: give it as a reranker (`--rerank`)"
            }
            _ => "a classifier of texts or of pairs of them",
        };
        return error(purpose.class.as_deref().unwrap_or("CrossEncoder"), kind);
    }
    let is_encoder = files::is_there(&dir.join(MODULES_FILE));
    let Some(name) = purpose.class.filter(|_| !is_encoder) else { return Ok(()) };
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
        Some((_, kind)) => error(&name, kind),
        None if name.contains("For") => error(&name, "a model with a head of its own"),
        None => Ok(()),
    }
}

/// Start of a Git LFS pointer, which replaces a large file in a clone.
const LFS_POINTER: &[u8] = b"version https://git-lfs";

/// Refuses a folder whose weights exist, but not as a single safetensors file. It may be a module's folder in
/// `model`, read by a class of sentence-transformers.
pub(in crate::model) fn check_weights(
    dir: &Path,
    model: &Path,
    class: &'static str,
) -> Result<(), ModelError> {
    if let Some(path) = files::ENCODER_FILES.iter().map(|name| dir.join(name)).find(|path| path.exists()) {
        return match files::begins_with(&path, LFS_POINTER)? {
            true => {
                let problem =
                    "is a pointer of Git LFS and not the file itself: run `git lfs pull` in its folder";
                Err(ModelError::bad_file(path, problem))
            }
            false => Ok(()),
        };
    }
    let index = dir.join("model.safetensors.index.json");
    if index.exists() {
        let supported = "one file, model.safetensors";
        return Err(ModelError::unsupported(&index, "weights in", "several files", supported));
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
        // Loading PyTorch's own format may run code.
        Some(path) => Err(ModelError::bad_file(
            path,
            format!(
                "is not read, only model.safetensors is; to convert the folder: pip install sentence-transformers; \
                 python -c 'from sentence_transformers import {class}; {class}(\"{}\").save_pretrained(\"NEW-DIR\")'",
                model.display()
            ),
        )),
        None => Err(ModelError::not_a_model(dir, ENCODER_FILE)),
    }
}

/// The `model_type` of a folder's `config.json`.
pub(in crate::model) fn model_type(dir: &Path) -> Result<String, ModelError> {
    Settings::read(dir.join(CONFIG_FILE))?.need("model_type")
}
