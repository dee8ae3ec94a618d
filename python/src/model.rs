//! Models: an encoder with, after training, a tree.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use ehi::Bundle;
use ehi::model::{EncoderPrecision, EncoderSettings, LoadOptions, Role};
use ehi::train::{self, QueryEncoderChoice, TrainConfig};
use numpy::{IxDyn, PyArray1, PyArrayDyn, PyArrayMethods};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;

use crate::call::{in_parts, run, watched};
use crate::columns::one_or_more;
use crate::errors::{InputError, ModelError};
use crate::options::{SIMILARITIES, Whole, distillation, one_of, parse, whole_or_none};
use crate::training::TrainingData;
use crate::value::plain;

/// A model on disk: a bundle that `train` made, or an unmodified folder of sentence-transformers.
///
/// For an encoder that was not trained here, `dim` keeps the first dimensions of its embeddings, and the
/// prompts override the folder's own.
///
/// >>> model = ehi.Model("models/scifact-minilm")
/// >>> model.dim, model.has_tree
/// (384, True)
#[pyclass(frozen, module = "ehi")]
pub struct Model {
    pub bundle: Bundle,
}

/// Opens a bundle, or an encoder in the layout of sentence-transformers, whose index searches every document.
fn open(py: Python<'_>, path: PathBuf, settings: EncoderSettings) -> PyResult<Bundle> {
    exists(py, &path)?;
    // Distinguishes a bundle from an encoder's folder.
    let is_bundle = path.join("ehi.json").exists();
    if is_bundle && !settings.is_empty() {
        return Err(InputError::new_err(format!(
            "{} is a bundle, which keeps the dimensions and prompts that it was trained with",
            path.display()
        )));
    }
    run(py, move || {
        Ok(if is_bundle { Bundle::open(&path)? } else { Bundle::from_encoder_with(&path, &settings)? })
    })
}

/// Users of other packages may pass a hub name.
fn exists(py: Python<'_>, path: &Path) -> PyResult<()> {
    if path.exists() {
        return Ok(());
    }
    let error = ModelError::new_err(format!(
        "there is no folder {}: a model is a folder of files, and nothing is fetched by its name; \
         SentenceTransformer(name).save(folder) makes one",
        path.display()
    ));
    error.value(py).setattr("kind", "NotAModel")?;
    Err(error)
}

fn settings(
    dim: Option<Whole>,
    query_prompt: Option<String>,
    document_prompt: Option<String>,
) -> PyResult<EncoderSettings> {
    let mut settings = EncoderSettings::new();
    settings.dim = whole_or_none("dim", dim)?;
    settings.query_prompt = query_prompt;
    settings.document_prompt = document_prompt;
    Ok(settings)
}

/// A model given as an object or as the path of one.
pub fn model(py: Python<'_>, value: &Bound<'_, PyAny>) -> PyResult<Bundle> {
    match value.cast::<Model>() {
        Ok(model) => Ok(model.get().bundle.clone()),
        Err(_) => open(py, value.extract()?, EncoderSettings::new()),
    }
}

#[pymethods]
impl Model {
    #[new]
    #[pyo3(signature = (path, *, dim = None, query_prompt = None, document_prompt = None))]
    fn new(
        py: Python<'_>,
        path: PathBuf,
        dim: Option<Whole>,
        query_prompt: Option<String>,
        document_prompt: Option<String>,
    ) -> PyResult<Self> {
        Ok(Self { bundle: open(py, path, settings(dim, query_prompt, document_prompt)?)? })
    }

    /// Folder of the model.
    #[getter]
    fn path(&self) -> PathBuf {
        self.bundle.path().to_owned()
    }

    /// Identity of the model, 64 hexadecimal digits.
    #[getter]
    fn hash(&self) -> String {
        self.bundle.hash().to_string()
    }

    /// Width of its embeddings.
    #[getter]
    fn dim(&self) -> usize {
        self.bundle.model().encoder().dim()
    }

    /// Whether it has a tree, so that a search need not score every document.
    #[getter]
    fn has_tree(&self) -> bool {
        self.bundle.has_tree()
    }

    /// The report on its query encoder, as a dictionary, or `None`.
    #[getter]
    fn query_encoder(&self, py: Python<'_>) -> PyResult<Option<Py<PyAny>>> {
        self.bundle.query_encoder().map(|report| plain(py, &report)).transpose()
    }

    /// Whether another model has the same encoder.
    ///
    /// >>> model = ehi.Model("models/scifact-minilm")
    /// >>> model.has_encoder_of(ehi.Model(model.path))
    /// True
    fn has_encoder_of(&self, other: &Self) -> bool {
        self.bundle.has_encoder_of(&other.bundle)
    }

    /// Gives the bundle a fast encoder of questions, trained from a dataset's folder or from documents and
    /// pairs, replacing an existing one; with `kind="none"` removes it. Returns the report as a dictionary,
    /// or `None`.
    ///
    /// >>> ehi.Model("models/scifact-minilm").distil(documents=[{"id": "a", "text": "tea"}], pairs=[])
    /// Traceback (most recent call last):
    /// ...
    /// ehi.TrainError: ...
    #[pyo3(signature = (*, data = None, documents = None, pairs = None, kind = "static", texts = None,
        passes = None, seed = 0, progress = None))]
    #[allow(clippy::too_many_arguments, reason = "they are keywords")]
    fn distil(
        &self,
        py: Python<'_>,
        data: Option<PathBuf>,
        documents: Option<&Bound<'_, PyAny>>,
        pairs: Option<&Bound<'_, PyAny>>,
        kind: &str,
        texts: Option<Whole>,
        passes: Option<Whole>,
        seed: Whole,
        progress: Option<Py<PyAny>>,
    ) -> PyResult<Py<PyAny>> {
        let options = distillation(kind, texts, passes, seed)?;
        let is_none = options.query_encoder == QueryEncoderChoice::None;
        let given = match (is_none, &data, documents, pairs) {
            (true, None, None, None) => None,
            _ => Some(TrainingData::new(data, documents, pairs)?),
        };
        let bundle = self.bundle.clone();
        let report = watched(py, progress, move |told| {
            let dev_fraction = TrainConfig::default().dev_fraction;
            let set = given.map(|given| given.read(dev_fraction)).transpose()?.unwrap_or_default();
            train::distil(&bundle, &set, &options, told)
        })?;
        plain(py, &report)
    }

    fn __repr__(&self) -> String {
        format!("Model({:?}, dim={}, has_tree={})", self.bundle.path(), self.dim(), self.has_tree())
    }
}

/// The cross-encoder in a folder, which reads a question and a document together; `precision` is f32 or int8.
#[pyclass(frozen, module = "ehi")]
pub struct Reranker {
    pub reranker: Arc<ehi::model::Reranker>,
}

#[pymethods]
impl Reranker {
    #[new]
    #[pyo3(signature = (path, *, precision = "f32"))]
    fn new(py: Python<'_>, path: PathBuf, precision: &str) -> PyResult<Self> {
        let precision: EncoderPrecision = parse("precision", precision)?;
        exists(py, &path)?;
        let reranker =
            run(py, move || Ok(LoadOptions::new().encoder_precision(precision).reranker(path)?))?;
        Ok(Self { reranker: Arc::new(reranker) })
    }

    /// Tokens of the longest pair read in full.
    #[getter]
    fn max_tokens(&self) -> usize {
        self.reranker.max_tokens()
    }

    /// Scores of documents for a question, `[n]` f32, higher is better.
    fn score<'py>(
        &self,
        py: Python<'py>,
        question: &str,
        documents: Vec<String>,
    ) -> PyResult<Bound<'py, PyArray1<f32>>> {
        let scores = in_parts(py, &documents, TEXTS, |_, part| {
            let documents: Vec<&str> = part.iter().map(String::as_str).collect();
            Ok(self.reranker.score(question, &documents)?)
        })?;
        Ok(PyArray1::from_vec(py, scores))
    }
}

/// The encoder of a `Model`, or of a model's folder; `precision` is f32 or int8.
///
/// `dim` keeps the first dimensions of its embeddings, and the prompts override the folder's own. A `Model`
/// already has both.
///
/// >>> encoder = ehi.Encoder("models/scifact-minilm", precision="int8")
/// >>> encoder.dim, encoder.max_tokens, encoder.similarity
/// (384, 256, 'cosine')
#[pyclass(frozen, module = "ehi")]
pub struct Encoder {
    encoder: ehi::model::Encoder,
}

#[pymethods]
impl Encoder {
    #[new]
    #[pyo3(signature = (model, *, precision = "f32", dim = None, query_prompt = None, document_prompt = None))]
    fn new(
        py: Python<'_>,
        model: &Bound<'_, PyAny>,
        precision: &str,
        dim: Option<Whole>,
        query_prompt: Option<String>,
        document_prompt: Option<String>,
    ) -> PyResult<Self> {
        let precision: EncoderPrecision = parse("precision", precision)?;
        let given = settings(dim, query_prompt, document_prompt)?;
        let (path, settings) = match model.cast::<Model>() {
            Ok(_) if !given.is_empty() => {
                let what = "a Model has its dimensions and prompts; give them to it, or give a path here";
                return Err(PyTypeError::new_err(what));
            }
            Ok(model) => {
                let bundle = &model.get().bundle;
                (bundle.path().to_owned(), bundle.model().encoder().settings().clone())
            }
            Err(_) => (model.extract()?, given),
        };
        exists(py, &path)?;
        let encoder = run(py, move || {
            Ok(LoadOptions::new().encoder_precision(precision).encoder_with(path, &settings)?)
        })?;
        Ok(Self { encoder })
    }

    /// Width of its embeddings.
    #[getter]
    fn dim(&self) -> usize {
        self.encoder.dim()
    }

    /// Tokens of the longest text read in full.
    #[getter]
    fn max_tokens(&self) -> usize {
        self.encoder.max_tokens()
    }

    /// How its embeddings are compared: cosine, dot or manhattan.
    #[getter]
    fn similarity(&self) -> String {
        let own = self.encoder.similarity();
        let known = SIMILARITIES.iter().find(|(_, each)| *each == own);
        known.map_or_else(|| own.to_string(), |(name, _)| (*name).to_owned())
    }

    /// The steps applied to a text: tokens, pooling, prompts and so on, as a dictionary.
    ///
    /// >>> ehi.Encoder("models/scifact-minilm").describe()["dim"]
    /// 384
    fn describe(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        plain(py, &run(py, || Ok(self.encoder.describe()?))?)
    }

    /// The part of a text that the encoder reads, with its tokens, as a dictionary; `role` is query or
    /// document.
    ///
    /// >>> ehi.Encoder("models/scifact-minilm").read_text("Green tea", "query")["tokens"]
    /// ['[CLS]', 'green', 'tea', '[SEP]']
    #[pyo3(signature = (text, role = "document"))]
    fn read_text(&self, py: Python<'_>, text: &str, role: &str) -> PyResult<Py<PyAny>> {
        let role = one_of("role", role, &[("query", Role::Query), ("document", Role::Document)])?;
        plain(py, &run(py, || Ok(self.encoder.read_text(text, role)?))?)
    }

    /// Embeddings of questions, f32: `[n, dim]` for a list, `[dim]` for one text.
    ///
    /// >>> encoder = ehi.Encoder("models/scifact-minilm")
    /// >>> encoder.encode_query("is there caffeine in tea?").shape, encoder.encode_query(["a", "b"]).shape
    /// ((384,), (2, 384))
    fn encode_query<'py>(
        &self,
        py: Python<'py>,
        texts: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyArrayDyn<f32>>> {
        self.encode(py, texts, Role::Query)
    }

    /// Embeddings of documents, f32: `[n, dim]` for a list, `[dim]` for one text.
    ///
    /// >>> ehi.Encoder("models/scifact-minilm").encode_document(["Green tea has caffeine."]).dtype
    /// dtype('float32')
    fn encode_document<'py>(
        &self,
        py: Python<'py>,
        texts: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyArrayDyn<f32>>> {
        self.encode(py, texts, Role::Document)
    }
}

/// Maps an error about a text in a part to its position in the whole.
fn of_all(error: ehi::model::ModelError, before: usize) -> ehi::model::ModelError {
    use ehi::model::ModelError::{BadEmbedding, NoTokens};
    match error {
        NoTokens { index } => NoTokens { index: before + index },
        BadEmbedding { index } => BadEmbedding { index: before + index },
        error => error,
    }
}

/// Texts per thread between checks for Ctrl-C.
const TEXTS: usize = 16;

impl Encoder {
    fn encode<'py>(
        &self,
        py: Python<'py>,
        texts: &Bound<'py, PyAny>,
        role: Role,
    ) -> PyResult<Bound<'py, PyArrayDyn<f32>>> {
        let (texts, is_one) = one_or_more("texts", texts)?;
        let dim = self.encoder.dim();
        let rows = in_parts(py, &texts, TEXTS, |begin, part| {
            let texts: Vec<&str> = part.iter().map(String::as_str).collect();
            Ok(self.encoder.embed(&texts, role).map_err(|error| of_all(error, begin))?)
        })?;
        let shape = if is_one { vec![dim] } else { vec![texts.len(), dim] };
        PyArray1::from_vec(py, rows).reshape(IxDyn(&shape))
    }
}
