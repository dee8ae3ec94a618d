//! Models: an encoder with, after training, a tree.

use std::path::PathBuf;
use std::sync::Arc;

use ehi::Bundle;
use ehi::model::{EncoderPrecision, EncoderSettings, LoadOptions, Role, fetch, hub_name};
use ehi::train::{self, QueryEncoderChoice, TrainConfig};
use numpy::{IxDyn, PyArray1, PyArrayDyn, PyArrayMethods};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;

use crate::arguments;
use crate::call::{in_parts, interruptible, run, watched};
use crate::columns::one_or_more;
use crate::errors::{InputError, ModelError};
use crate::options::{PRECISIONS, SIMILARITIES, Whole, distillation, one_of, whole_or_none};
use crate::training::TrainingData;
use crate::value::{plain, quoted};

/// A model: the folder of a bundle that `train` made, or of an encoder of sentence-transformers; the name of
/// one on the hub, such as "all-MiniLM-L6-v2", which is fetched into the hub's usual cache; or a
/// `SentenceTransformer`, which is saved to a temporary folder as it is now. Calls that take a `Model` take
/// all of these.
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
    /// Removes the bundle's folder, if it is a temporary one, when no model has it any more.
    saved: Option<Py<PyAny>>,
}

/// The folder of a model, and an object that removes it again if it was saved for this.
struct Source {
    path: PathBuf,
    dim: Option<usize>,
    saved: Option<Py<PyAny>>,
}

impl Source {
    fn new(value: &Bound<'_, PyAny>) -> PyResult<Self> {
        if let Ok(path) = value.extract() {
            return Ok(Self { path, dim: None, saved: None });
        }
        let saved = value.py().import("ehi._temporary")?.getattr("Saved")?.call1((value,))?;
        let (path, dim) = (saved.getattr("folder")?.extract()?, saved.getattr("dim")?.extract()?);
        Ok(Self { path, dim, saved: Some(saved.unbind()) })
    }
}

/// Opens a bundle, or an encoder in the layout of sentence-transformers, whose index searches every document.
fn open(py: Python<'_>, source: Source, mut settings: EncoderSettings) -> PyResult<Model> {
    let Source { path, dim, saved } = source;
    settings.dim = settings.dim.or(dim);
    let path = directory(py, path)?;
    // Distinguishes a bundle from an encoder's folder.
    let is_bundle = path.join("ehi.json").exists();
    if is_bundle && !settings.is_empty() {
        return Err(InputError::new_err(format!(
            "{} is a bundle, which keeps the dimensions and prompts that it was trained with",
            path.display()
        )));
    }
    let bundle = run(py, move || {
        Ok(if is_bundle { Bundle::open(&path)? } else { Bundle::from_encoder_with(&path, &settings)? })
    })?;
    Ok(Model { bundle, saved })
}

/// The folder of a model. A model that is given by its name is fetched.
fn directory(py: Python<'_>, path: PathBuf) -> PyResult<PathBuf> {
    if path.exists() {
        return Ok(path);
    }
    let missing = format!("there is no folder {}", path.display());
    // Beside folders that exist, a name is that of another one, mistyped, rather than of one on the hub.
    let is_local = path.parent().is_some_and(|parent| !parent.as_os_str().is_empty() && parent.exists());
    let (kind, message) = match hub_name(&path).filter(|_| !is_local) {
        None => ("NotAModel", missing),
        Some(name) => match py.detach(|| fetch(name)) {
            Ok(found) => return Ok(found),
            Err(error) => (
                "Hub",
                format!(
                    "{missing}, and no model of that name can be fetched: {error}; without a network, give the \
                     path of a folder that has the model's files"
                ),
            ),
        },
    };
    let error = ModelError::new_err(message);
    error.value(py).setattr("kind", kind)?;
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

/// A model given as one, or as what makes one. Keep it while its bundle's files are read.
pub fn model(py: Python<'_>, value: &Bound<'_, PyAny>) -> PyResult<Model> {
    match value.cast::<Model>() {
        Ok(model) => {
            let Model { bundle, saved } = model.get();
            Ok(Model { bundle: bundle.clone(), saved: saved.as_ref().map(|saved| saved.clone_ref(py)) })
        }
        Err(_) => open(py, Source::new(value)?, EncoderSettings::new()),
    }
}

impl Model {
    pub const fn of(bundle: Bundle) -> Self {
        Self { bundle, saved: None }
    }
}

#[pymethods]
impl Model {
    #[new]
    #[pyo3(signature = (path, *, dim = None, query_prompt = None, document_prompt = None))]
    fn new(
        py: Python<'_>,
        path: &Bound<'_, PyAny>,
        #[pyo3(from_py_with = arguments::dim)] dim: Option<Whole>,
        #[pyo3(from_py_with = arguments::query_prompt)] query_prompt: Option<String>,
        #[pyo3(from_py_with = arguments::document_prompt)] document_prompt: Option<String>,
    ) -> PyResult<Self> {
        open(py, Source::new(path)?, settings(dim, query_prompt, document_prompt)?)
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
        self.bundle.model().dim()
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
        #[pyo3(from_py_with = arguments::data)] data: Option<PathBuf>,
        documents: Option<&Bound<'_, PyAny>>,
        pairs: Option<&Bound<'_, PyAny>>,
        #[pyo3(from_py_with = arguments::kind)] kind: &str,
        #[pyo3(from_py_with = arguments::texts)] texts: Option<Whole>,
        #[pyo3(from_py_with = arguments::passes)] passes: Option<Whole>,
        #[pyo3(from_py_with = arguments::seed)] seed: Whole,
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

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        Ok(format!("Model({}, {})", quoted(py, self.bundle.path())?, described(&self.bundle)))
    }
}

/// A model in a `repr`.
pub fn described(bundle: &Bundle) -> String {
    let (dim, hash) = (bundle.model().dim(), bundle.hash().to_string());
    let has_tree = if bundle.has_tree() { "True" } else { "False" };
    format!("dim={dim}, has_tree={has_tree}, hash='{}…'", hash.get(..8).unwrap_or(&hash))
}

/// The cross-encoder in a folder, which reads a question and a document together; `precision` is f32 or int8.
#[pyclass(frozen, module = "ehi")]
pub struct Reranker {
    pub reranker: Arc<ehi::model::Reranker>,
    pub path: PathBuf,
}

#[pymethods]
impl Reranker {
    #[new]
    #[pyo3(signature = (path, *, precision = "f32"))]
    fn new(
        py: Python<'_>,
        #[pyo3(from_py_with = arguments::path)] path: PathBuf,
        #[pyo3(from_py_with = arguments::precision)] precision: &str,
    ) -> PyResult<Self> {
        let precision = one_of("precision", precision, &PRECISIONS)?;
        let path = directory(py, path)?;
        let load = LoadOptions::new().encoder_precision(precision);
        let reranker = run(py, || Ok(load.reranker(&path)?))?;
        Ok(Self { reranker: Arc::new(reranker), path })
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
        #[pyo3(from_py_with = arguments::question)] question: &str,
        documents: Vec<String>,
    ) -> PyResult<Bound<'py, PyArray1<f32>>> {
        let scores = in_parts(py, &documents, TEXTS, |_, part| {
            let documents: Vec<&str> = part.iter().map(String::as_str).collect();
            Ok(self.reranker.score(question, &documents)?)
        })?;
        Ok(PyArray1::from_vec(py, scores))
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        Ok(format!("Reranker({}, max_tokens={})", quoted(py, &self.path)?, self.max_tokens()))
    }
}

/// The encoder of a `Model`, or of a model's folder; `precision` is f32 or int8, by default that of the
/// `Model`, and f32 for a folder.
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
    path: PathBuf,
    precision: EncoderPrecision,
}

#[pymethods]
impl Encoder {
    #[new]
    #[pyo3(signature = (model, *, precision = None, dim = None, query_prompt = None, document_prompt = None))]
    fn new(
        py: Python<'_>,
        model: &Bound<'_, PyAny>,
        #[pyo3(from_py_with = arguments::precision)] precision: Option<String>,
        #[pyo3(from_py_with = arguments::dim)] dim: Option<Whole>,
        #[pyo3(from_py_with = arguments::query_prompt)] query_prompt: Option<String>,
        #[pyo3(from_py_with = arguments::document_prompt)] document_prompt: Option<String>,
    ) -> PyResult<Self> {
        let chosen = precision.map(|chosen| one_of("precision", &chosen, &PRECISIONS)).transpose()?;
        let mut given = settings(dim, query_prompt, document_prompt)?;
        let (source, settings, usual) = match model.cast::<Model>() {
            Ok(_) if !given.is_empty() => {
                let what = "a Model has its dimensions and prompts; give them to it, or give a path here";
                return Err(PyTypeError::new_err(what));
            }
            Ok(model) => {
                let bundle = &model.get().bundle;
                let source = Source { path: bundle.path().to_owned(), dim: None, saved: None };
                let encoder = run(py, || Ok(bundle.model().encoder()?))?;
                (source, encoder.settings().clone(), encoder.precision())
            }
            Err(_) => {
                let source = Source::new(model)?;
                given.dim = given.dim.or(source.dim);
                (source, given, EncoderPrecision::F32)
            }
        };
        let path = directory(py, source.path)?;
        let precision = chosen.unwrap_or(usual);
        let load = LoadOptions::new().encoder_precision(precision);
        let encoder = run(py, || Ok(load.encoder_with(&path, &settings)?))?;
        Ok(Self { encoder, path, precision })
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
    fn read_text(
        &self,
        py: Python<'_>,
        #[pyo3(from_py_with = arguments::text)] text: &str,
        #[pyo3(from_py_with = arguments::role)] role: &str,
    ) -> PyResult<Py<PyAny>> {
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

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        let (path, precision) = (quoted(py, &self.path)?, self.precision);
        let (dim, tokens) = (self.dim(), self.max_tokens());
        Ok(format!("Encoder({path}, precision='{precision}', dim={dim}, max_tokens={tokens})"))
    }
}

/// Most texts per thread between checks for Ctrl-C.
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
        let given: Vec<&str> = texts.iter().map(String::as_str).collect();
        let rows = interruptible(py, |tick| Ok(self.encoder.embed_with(&given, role, tick)?))?;
        let shape = if is_one { vec![dim] } else { vec![texts.len(), dim] };
        PyArray1::from_vec(py, rows).reshape(IxDyn(&shape))
    }
}
