//! Models: an encoder with, after training, a tree.

use ehi::Bundle;
use ehi::model::{EncoderPrecision, LoadOptions, Role};
use numpy::{PyArray2, PyArrayMethods};
use pyo3::prelude::*;
use pyo3::types::PyString;
use std::path::PathBuf;

use crate::call::run;
use crate::options::parse;
use crate::value::plain;

/// A model on disk: a bundle that `train` made, or a folder of sentence-transformers as it is.
#[pyclass(frozen, module = "ehi")]
pub struct Model {
    pub bundle: Bundle,
}

/// Opens a bundle, or an encoder in the layout of sentence-transformers, whose index searches every document.
pub fn open(py: Python<'_>, path: PathBuf) -> PyResult<Bundle> {
    run(py, move || {
        // What tells a bundle from an encoder's folder.
        let is_bundle = path.join("ehi.json").exists();
        Ok(if is_bundle { Bundle::open(&path)? } else { Bundle::from_encoder(&path)? })
    })
}

/// A model given as an object or as the path of one.
pub fn model(py: Python<'_>, value: &Bound<'_, PyAny>) -> PyResult<Bundle> {
    match value.cast::<Model>() {
        Ok(model) => Ok(model.get().bundle.clone()),
        Err(_) => open(py, value.extract()?),
    }
}

#[pymethods]
impl Model {
    /// Opens the model in a folder.
    #[new]
    fn new(py: Python<'_>, path: PathBuf) -> PyResult<Self> {
        Ok(Self { bundle: open(py, path)? })
    }

    #[getter]
    fn path(&self) -> PathBuf {
        self.bundle.path().to_owned()
    }

    /// Identity of the model, 64 hexadecimal digits.
    #[getter]
    fn hash(&self) -> String {
        self.bundle.hash().to_string()
    }

    #[getter]
    fn dim(&self) -> usize {
        self.bundle.model().encoder().dim()
    }

    /// Whether it has a tree, so that a search need not score every document.
    #[getter]
    fn has_tree(&self) -> bool {
        self.bundle.has_tree()
    }

    /// What is known of its query encoder, as a dictionary, or `None`.
    #[getter]
    fn query_encoder(&self, py: Python<'_>) -> PyResult<Option<Py<PyAny>>> {
        self.bundle.query_encoder().map(|report| plain(py, &report)).transpose()
    }

    fn __repr__(&self) -> String {
        format!("Model({:?}, dim={}, has_tree={})", self.bundle.path(), self.dim(), self.has_tree())
    }
}

/// A cross-encoder, which reads a question and a document together.
#[pyclass(frozen, module = "ehi")]
pub struct Reranker {
    pub reranker: ehi::model::Reranker,
}

#[pymethods]
impl Reranker {
    /// Loads the cross-encoder in a folder; `precision` is f32 or int8.
    #[new]
    #[pyo3(signature = (path, *, precision = "f32"))]
    fn new(py: Python<'_>, path: PathBuf, precision: &str) -> PyResult<Self> {
        let precision: EncoderPrecision = parse("precision", precision)?;
        let reranker =
            run(py, move || Ok(LoadOptions::new().encoder_precision(precision).reranker(path)?))?;
        Ok(Self { reranker })
    }

    /// Scores of documents for a question, `[n]` f32, higher is better.
    fn score<'py>(
        &self,
        py: Python<'py>,
        question: &str,
        documents: Vec<String>,
    ) -> PyResult<Bound<'py, numpy::PyArray1<f32>>> {
        let scores = run(py, || {
            let documents: Vec<&str> = documents.iter().map(String::as_str).collect();
            Ok(self.reranker.score(question, &documents)?)
        })?;
        Ok(numpy::PyArray1::from_vec(py, scores))
    }
}

/// An encoder of texts.
#[pyclass(frozen, module = "ehi")]
pub struct Encoder {
    encoder: ehi::model::Encoder,
}

#[pymethods]
impl Encoder {
    /// Loads the encoder of a model's folder; `precision` is f32 or int8.
    #[new]
    #[pyo3(signature = (path, *, precision = "f32"))]
    fn new(py: Python<'_>, path: PathBuf, precision: &str) -> PyResult<Self> {
        let precision: EncoderPrecision = parse("precision", precision)?;
        let encoder = run(py, move || Ok(LoadOptions::new().encoder_precision(precision).encoder(path)?))?;
        Ok(Self { encoder })
    }

    #[getter]
    fn dim(&self) -> usize {
        self.encoder.dim()
    }

    #[getter]
    fn max_tokens(&self) -> usize {
        self.encoder.max_tokens()
    }

    /// Embeddings of questions, `[n, dim]` f32; of one text `[1, dim]`.
    fn encode_query<'py>(
        &self,
        py: Python<'py>,
        texts: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyArray2<f32>>> {
        self.encode(py, texts, Role::Query)
    }

    /// Embeddings of documents, `[n, dim]` f32.
    fn encode_document<'py>(
        &self,
        py: Python<'py>,
        texts: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyArray2<f32>>> {
        self.encode(py, texts, Role::Document)
    }
}

impl Encoder {
    fn encode<'py>(
        &self,
        py: Python<'py>,
        texts: &Bound<'py, PyAny>,
        role: Role,
    ) -> PyResult<Bound<'py, PyArray2<f32>>> {
        let texts: Vec<String> = match texts.cast::<PyString>() {
            Ok(text) => vec![text.to_string()],
            Err(_) => texts.extract()?,
        };
        let dim = self.encoder.dim();
        let rows = run(py, || {
            let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
            Ok(self.encoder.embed(&texts, role)?)
        })?;
        numpy::PyArray1::from_vec(py, rows).reshape([texts.len(), dim])
    }
}
