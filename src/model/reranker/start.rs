//! The folder of a reranker to be trained: an encoder with a new head, or an existing reranker.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use candle_core::{DType, Device, Tensor};
use rand::Rng;
use rand_chacha::ChaCha8Rng;
use serde_json::{Map, Value, json};

use super::head::{self, HeadNames};
use super::{Pooler, Reranker, Transformer};
use crate::model::bundle::{CARRIED_FILES, make_partial, sync_dir, write_again, write_synced, write_tensors};
use crate::model::dense::DenseActivation;
use crate::model::error::ModelError;
use crate::model::files::{
    self, CONFIG_FILE, ENCODER_FILE, LENGTH_FILE, MANIFEST_FILE, MODULES_FILE, PROMPTS_FILE,
    TOKENIZER_CONFIG_FILE, TOKENIZER_FILE,
};
use crate::model::tokenize::Token;
use crate::model::weights::Weights;
use crate::model::{Bundle, LoadOptions, folder};
use crate::progress::Stop;

/// Default for the longest pair, in tokens.
const DEFAULT_TOKENS: usize = 256;
/// Standard deviation of new weights, as in BERT.
const NEW_WEIGHTS: f32 = 0.02;
/// The release whose format the folder has.
const RELEASE: &str = "6.2.0";
/// The file stores f16; this makes other libraries compute in f32, as this crate does.
const IN_F32: &str = "float32";
/// Files of tokenizers that only other libraries read.
const VOCABULARIES: [&str; 4] = ["vocab.txt", "vocab.json", "merges.txt", "sentencepiece.bpe.model"];

/// Names of a family's rerankers in transformers.
#[derive(Clone, Copy)]
struct Names {
    model_type: &'static str,
    /// Before `ForSequenceClassification`.
    class: &'static str,
    /// Before the names of the body's tensors.
    prefix: &'static str,
    head: HeadNames,
}

const BERT: Names = Names { model_type: "bert", class: "Bert", prefix: "bert", head: head::BERT };
const ROBERTA: Names =
    Names { model_type: "roberta", class: "Roberta", prefix: "roberta", head: head::ROBERTA };
const FAMILIES: [Names; 7] = [
    BERT,
    ROBERTA,
    Names { model_type: "xlm-roberta", class: "XLMRoberta", ..ROBERTA },
    Names { model_type: "camembert", class: "Camembert", ..ROBERTA },
    Names { model_type: "mpnet", class: "MPNet", prefix: "mpnet", ..ROBERTA },
    Names { model_type: "distilbert", class: "DistilBert", prefix: "distilbert", head: head::DISTILBERT },
    Names { model_type: "modernbert", class: "ModernBert", prefix: "model", head: head::MODERNBERT },
];

impl Names {
    fn of(dir: &Path) -> Result<Self, ModelError> {
        let found = folder::model_type(dir)?;
        FAMILIES.into_iter().find(|family| family.model_type == found).ok_or_else(|| {
            let supported = "bert, roberta, xlm-roberta, camembert, mpnet, distilbert, modernbert";
            ModelError::unsupported(dir.join(CONFIG_FILE), "model_type of a reranker", found, supported)
        })
    }

    /// The name in a file of a tensor of the body; BERT counts the first part of its head as one.
    fn full(&self, name: &str) -> String {
        format!("{}.{name}", self.prefix)
    }

    fn of_head(&self, name: &str) -> String {
        if name.starts_with("pooler.") { self.full(name) } else { name.to_owned() }
    }
}

/// A reranker in training, in a folder next to its destination.
pub(crate) struct RerankerDraft {
    names: Names,
    dir: PathBuf,
    reranker: Reranker,
}

impl RerankerDraft {
    /// Makes the folder: a copy of a reranker, or an encoder with a random head and `activation`, without its
    /// prompts. `max_tokens` overrides the base's length of a pair.
    ///
    /// # Errors
    /// Those of [`Reranker::open`] and [`Encoder::load`](crate::model::Encoder::load),
    /// [`ModelError::OutputDirectory`], [`ModelError::BadSetting`] for a family without a known head.
    pub(crate) fn new(
        base: &Path,
        out: &Path,
        max_tokens: Option<usize>,
        activation: DenseActivation,
        rng: &mut ChaCha8Rng,
    ) -> Result<Self, ModelError> {
        for missing in [CONFIG_FILE, TOKENIZER_FILE] {
            if !base.join(missing).exists() {
                return Err(ModelError::not_a_model(base, missing));
            }
        }
        if base.join(MANIFEST_FILE).exists() {
            // Verifies its checksums.
            Bundle::open(base)?;
        }
        let names = Names::of(base)?;
        let parts = match folder::is_reranker(base)? {
            true => StartingWeights::of_reranker(base, max_tokens)?,
            false => StartingWeights::of_encoder(base, &names, max_tokens, activation, rng)?,
        };
        let dir = make_partial(out)?;
        for name in CARRIED_FILES.into_iter().chain(VOCABULARIES) {
            let source = base.join(name);
            let made = parts.files.iter().any(|(own, _)| *own == name);
            if !made && source.exists() {
                write_synced(&dir.join(name), &files::read(&source, files::TOKENIZER_BYTES)?)?;
            }
        }
        for (name, json) in &parts.files {
            write_synced(&dir.join(name), format!("{json:#}\n").as_bytes())?;
        }
        names.write(&dir, DType::F32, &parts.body, &parts.head)?;
        let reranker = Reranker::open(&dir)?;
        Ok(Self { names, dir, reranker })
    }

    /// The folder.
    pub(crate) fn dir(&self) -> &Path {
        &self.dir
    }

    /// The reranker before training.
    pub(crate) fn reranker(&self) -> &Reranker {
        &self.reranker
    }

    /// The name in the file of a head tensor, given the number of its step and its name in the step.
    fn head_name(&self, step: usize, kind: &str) -> String {
        format!("{}.{kind}", self.reranker.head_names.parts()[step])
    }

    /// The head with tensors that `map` makes from its own, given their names in the file.
    pub(crate) fn map_head(
        &self,
        map: &mut dyn FnMut(&str, &Tensor) -> candle_core::Result<Tensor>,
    ) -> candle_core::Result<Arc<Pooler>> {
        let head = &self.reranker.head;
        Ok(Arc::new(head.map(&mut |step, kind, tensor| map(&self.head_name(step, kind), tensor))?))
    }

    /// Writes trained tensors, rounded to f16, over the initial ones. `head` has the names and shapes of
    /// [`Self::map_head`], with a map's weights as columns.
    pub(crate) fn write(
        &self,
        body: &[(String, Tensor)],
        head: &[(String, Tensor)],
    ) -> Result<(), ModelError> {
        let rows = |(name, tensor): &(String, Tensor)| {
            let tensor = if tensor.rank() == 2 { tensor.t()?.contiguous()? } else { tensor.clone() };
            Ok((name.clone(), tensor))
        };
        let head = head.iter().map(rows).collect::<candle_core::Result<Vec<_>>>()?;
        self.names.write(&self.dir, DType::F16, body, &head)
    }

    /// Adds files by their names, and makes all of them durable.
    pub(crate) fn add(&self, extras: &[(&str, Vec<u8>)]) -> Result<(), ModelError> {
        extras.iter().try_for_each(|(name, content)| write_synced(&self.dir.join(name), content))?;
        sync_dir(&self.dir)
    }
}

impl Names {
    fn write(
        &self,
        dir: &Path,
        dtype: DType,
        body: &[(String, Tensor)],
        head: &[(String, Tensor)],
    ) -> Result<(), ModelError> {
        let body = body.iter().map(|(name, tensor)| (self.full(name), tensor.clone()));
        let head = head.iter().map(|(name, tensor)| (self.of_head(name), tensor.clone()));
        let path = dir.join(ENCODER_FILE);
        write_tensors(&body.chain(head).collect::<Vec<_>>(), dtype, &path)?;
        write_again(&path).map(|_| ())
    }
}

/// Initial weights of a reranker.
struct StartingWeights {
    /// Under their checkpoint names, without prefix.
    body: Vec<(String, Tensor)>,
    head: Vec<(String, Tensor)>,
    /// Files that differ from those of the base.
    files: Vec<(&'static str, Value)>,
}

impl StartingWeights {
    fn of_reranker(base: &Path, max_tokens: Option<usize>) -> Result<Self, ModelError> {
        let reranker = Reranker::open(base)?;
        let weights = Weights::from_file(&base.join(ENCODER_FILE))?;
        let mut head = Vec::new();
        for part in reranker.head_names.parts() {
            for kind in ["weight", "bias"] {
                let name = format!("{part}.{kind}");
                if let Some(shape) = weights.shape(&name) {
                    head.push((name.clone(), weights.get(&name, &shape)?));
                }
            }
        }
        let mut made =
            vec![(CONFIG_FILE, changed(base, CONFIG_FILE, json!({ "torch_dtype": null, "dtype": IN_F32 }))?)];
        if let Some(most) = max_tokens {
            let most = most.min(reranker.parts.source.config.max_positions);
            let length = json!({ "model_max_length": most });
            made.push((TOKENIZER_CONFIG_FILE, changed(base, TOKENIZER_CONFIG_FILE, length)?));
            let own: Map<String, Value> = files::read_json_or_default(&base.join(LENGTH_FILE))?;
            if own.contains_key("max_seq_length") {
                made.push((LENGTH_FILE, changed(base, LENGTH_FILE, json!({ "max_seq_length": most }))?));
            }
        }
        let body = reranker.parts.transformer()?.named()?;
        Ok(Self { body, head, files: made })
    }

    fn of_encoder(
        base: &Path,
        names: &Names,
        max_tokens: Option<usize>,
        activation: DenseActivation,
        rng: &mut ChaCha8Rng,
    ) -> Result<Self, ModelError> {
        let encoder = LoadOptions::new().lazy_encoder(true).encoder(base)?;
        if encoder.folder().text.lowercase {
            let what = "do_lower_case of a reranker's base";
            return Err(ModelError::unsupported(base.join(LENGTH_FILE), what, "true", "false"));
        }
        let config = encoder.config();
        let m = config.hidden_size;
        let weights = Weights::from_file(&base.join(ENCODER_FILE))?;
        let mut new = |shape: &[usize]| {
            // Uniform with the standard deviation above.
            let half = NEW_WEIGHTS * 3f32.sqrt();
            let values = (0..shape.iter().product()).map(|_| rng.random_range(-half..half)).collect();
            Tensor::from_vec::<_, f32>(values, shape, &Device::Cpu)
        };
        let mut head = Vec::new();
        for part in names.head.parts() {
            let outputs = if part == names.head.outer { 1 } else { m };
            let (name, of_bias) = (format!("{part}.weight"), format!("{part}.bias"));
            let zeros = || Tensor::zeros(outputs, DType::F32, &Device::Cpu);
            // Many encoders keep the first part of the head that they were pre-trained with.
            let known = part == names.head.inner && weights.shape(&name).is_some();
            head.push((
                name.clone(),
                match part {
                    _ if known => weights.get(&name, &[m, m])?,
                    part if Some(part) == names.head.norm => Tensor::ones(m, DType::F32, &Device::Cpu)?,
                    _ => new(&[outputs, m])?,
                },
            ));
            match weights.shape(&of_bias).filter(|_| known) {
                Some(shape) => head.push((of_bias.clone(), weights.get(&of_bias, &shape)?)),
                // ModernBERT has only the last.
                None if names.head.norm.is_none() || part == names.head.outer => {
                    head.push((of_bias, zeros()?));
                }
                None => {}
            }
        }
        let most = max_tokens.unwrap_or(DEFAULT_TOKENS).min(config.max_positions);
        // A classifier with one output. Releases 4 and 5 of sentence-transformers look for its activation in
        // `config.json`.
        let config = json!({
            "architectures": [format!("{}ForSequenceClassification", names.class)],
            "id2label": {"0": "LABEL_0"}, "label2id": {"LABEL_0": 0}, "num_labels": null,
            "sentence_transformers": {"activation_fn": activation.class(), "version": RELEASE},
            "torch_dtype": null, "dtype": IN_F32,
        });
        let of_library = json!({
            "__version__": {"sentence_transformers": RELEASE}, "activation_fn": activation.class(),
            "default_prompt_name": null, "model_type": "CrossEncoder", "prompts": {},
        });
        let class = "sentence_transformers.base.modules.transformer.Transformer";
        let of_body = json!({
            "transformer_task": "sequence-classification",
            "modality_config": {"text": {"method": "forward", "method_output_name": "logits"}},
            "module_output_name": "scores",
        });
        let files = vec![
            (CONFIG_FILE, changed(base, CONFIG_FILE, config)?),
            (
                TOKENIZER_CONFIG_FILE,
                changed(base, TOKENIZER_CONFIG_FILE, json!({ "model_max_length": most }))?,
            ),
            (PROMPTS_FILE, of_library),
            (MODULES_FILE, json!([{"idx": 0, "name": "0", "path": "", "type": class}])),
            (LENGTH_FILE, of_body),
        ];
        Ok(Self { body: encoder.transformer()?.named()?, head, files })
    }
}

/// A file of the base with other settings; those that are null are left out.
fn changed(base: &Path, name: &str, changes: Value) -> Result<Value, ModelError> {
    let mut settings: Map<String, Value> = files::read_json_or_default(&base.join(name))?;
    for (name, value) in changes.as_object().into_iter().flatten() {
        match value {
            Value::Null => settings.remove(name),
            value => settings.insert(name.clone(), value.clone()),
        };
    }
    Ok(Value::Object(settings))
}

impl Reranker {
    /// The layers, each with its own tensors.
    ///
    /// # Errors
    /// Those of reading the weights.
    pub(crate) fn transformer(&self) -> Result<&Transformer<Tensor>, ModelError> {
        self.parts.transformer()
    }

    /// Vector added to the embeddings of the document's tokens, `[m]`.
    pub(crate) fn second(&self) -> Option<&[f32]> {
        self.second.as_deref()
    }

    /// Appends the token ids of a whole text, without special and unknown ones.
    ///
    /// # Errors
    /// [`ModelError::Tokenizer`].
    pub(crate) fn terms(&self, text: &str, out: &mut Vec<u32>) -> Result<(), ModelError> {
        let mut tell = |token: Token<'_>| {
            if let Token::Known(id) = token {
                out.push(id);
            }
        };
        self.parts.tokenizer()?.tokens(text, &Stop::default(), &mut tell).map(|_| ())
    }
}
