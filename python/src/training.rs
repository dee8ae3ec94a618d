//! Training and evaluation.

use std::path::PathBuf;
use std::sync::Arc;

use ehi::data::Dataset;
use ehi::eval::{EvalOptions, evaluate as evaluate_index};
use ehi::train::{RerankerConfig, RerankerTrainer, TrainConfig, Trainer, TrainingSet};
use ehi::{Document, Judgment, QueryEncoder};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::arguments::{self, wrong_type};
use crate::call::{run, watched};
use crate::errors::InputError;
use crate::index::Index;
use crate::model::{Model, Reranker};
use crate::options::{Whole, judgments, one_of, whole};
use crate::records;
use crate::value::{from_python, plain};

/// Settings of a training, by the names in `docs/training.md`, flat or nested.
pub fn config<T: Default, E: std::fmt::Display>(
    given: Option<&Bound<'_, PyAny>>,
    read: impl Fn(&str) -> Result<T, E>,
) -> PyResult<T> {
    let Some(given) = given else { return Ok(T::default()) };
    if !given.is_instance_of::<PyDict>() {
        return Err(wrong_type("config", "a dictionary", given));
    }
    read(&from_python(given)?.to_string()).map_err(|error| InputError::new_err(format!("`config`: {error}")))
}

/// The training data: a dataset's folder, or documents with judgments.
pub enum TrainingData {
    Folder(PathBuf),
    Pairs(Vec<Document>, Vec<Judgment>),
}

impl TrainingData {
    pub fn new(
        data: Option<PathBuf>,
        documents: Option<&Bound<'_, PyAny>>,
        pairs: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Self> {
        match (data, documents, pairs) {
            (Some(data), None, None) => Ok(Self::Folder(data)),
            (None, Some(documents), Some(pairs)) => {
                let mut documents = records::documents(documents)?;
                documents.check()?;
                Ok(Self::Pairs(documents.take(), judgments(pairs)?))
            }
            _ => Err(InputError::new_err("give either `data`, or `documents` with `pairs`")),
        }
    }

    pub fn read(self, dev_fraction: f64) -> ehi::Result<TrainingSet> {
        Ok(match self {
            Self::Folder(data) => TrainingSet::read(&Dataset::open(data)?, dev_fraction)?,
            // As in the command line with a file of pairs, so that both hold out the same questions.
            Self::Pairs(documents, pairs) => TrainingSet::from_judgments(documents, &pairs, dev_fraction)?,
        })
    }
}

/// Trains encoder and tree, from a dataset's folder, or from documents and pairs of question and document id.
///
/// `base` is the folder of the encoder to start from, `output` that of the new bundle, missing or empty.
/// Returns the model and the report, a dictionary with the verdict.
///
/// >>> ehi.train("models/scifact-minilm", "mine", documents=[{"id": "a", "text": "tea"}], pairs=[])
/// Traceback (most recent call last):
/// ...
/// ehi.TrainError: ...
#[pyfunction]
#[pyo3(signature = (base, output, *, data = None, documents = None, pairs = None, config = None, progress = None))]
#[allow(clippy::too_many_arguments, reason = "they are keywords")]
pub fn train(
    py: Python<'_>,
    #[pyo3(from_py_with = arguments::base)] base: PathBuf,
    #[pyo3(from_py_with = arguments::output)] output: PathBuf,
    #[pyo3(from_py_with = arguments::data)] data: Option<PathBuf>,
    documents: Option<&Bound<'_, PyAny>>,
    pairs: Option<&Bound<'_, PyAny>>,
    config: Option<&Bound<'_, PyAny>>,
    progress: Option<Py<PyAny>>,
) -> PyResult<(Model, Py<PyAny>)> {
    let config = self::config(config, TrainConfig::from_json)?;
    let given = TrainingData::new(data, documents, pairs)?;
    let fitted = watched(py, progress, move |told| {
        let set = given.read(config.dev_fraction)?;
        Trainer::builder().base(base).output(output).config(config).on_progress(told).fit(&set)
    })?;
    Ok((Model::of(fitted.bundle), plain(py, &fitted.report)?))
}

/// Trains a reranker, from a dataset's folder, or from documents and pairs of question and document id.
///
/// `base` is the folder of a reranker, or of the encoder or bundle that gets a head; `output` that of the new
/// reranker, missing or empty. `index`, an open one, holds the same documents, which then need not be given:
/// the hits of its searches are reranked. Without it, BM25 is used. `config` has settings by the names of
/// `RerankerConfig`. Returns the reranker and the report, a dictionary with the verdict.
///
/// >>> ehi.train_reranker("models/scifact-minilm", "mine", documents=[{"id": "a", "text": "tea"}], pairs=[])
/// Traceback (most recent call last):
/// ...
/// ehi.TrainError: ...
#[pyfunction]
#[pyo3(signature = (base, output, *, data = None, documents = None, pairs = None, index = None,
    dev_fraction = 0.1, config = None, progress = None))]
#[allow(clippy::too_many_arguments, reason = "they are keywords")]
pub fn train_reranker(
    py: Python<'_>,
    #[pyo3(from_py_with = arguments::base)] base: PathBuf,
    #[pyo3(from_py_with = arguments::output)] output: PathBuf,
    #[pyo3(from_py_with = arguments::data)] data: Option<PathBuf>,
    documents: Option<&Bound<'_, PyAny>>,
    pairs: Option<&Bound<'_, PyAny>>,
    index: Option<&Index>,
    #[pyo3(from_py_with = arguments::dev_fraction)] dev_fraction: f64,
    config: Option<&Bound<'_, PyAny>>,
    progress: Option<Py<PyAny>>,
) -> PyResult<(Reranker, Py<PyAny>)> {
    let config = self::config(config, RerankerConfig::from_json)?;
    // The documents of the index, unless others are given.
    let stored = match (documents, &pairs, index) {
        (None, Some(_), Some(index)) => {
            let index = index.inner()?;
            Some(run(py, || index.iter().collect::<ehi::Result<Vec<_>>>())?)
        }
        _ => None,
    };
    let given = match (stored, pairs) {
        (Some(documents), Some(pairs)) => TrainingData::Pairs(documents, judgments(pairs)?),
        (_, pairs) => TrainingData::new(data, documents, pairs)?,
    };
    let index = index.map(Index::inner).transpose()?;
    let path = output.clone();
    let fitted = watched(py, progress, move |told| {
        let set = given.read(dev_fraction)?;
        let trainer = RerankerTrainer::builder().base(base).output(output).config(config).on_progress(told);
        match &index {
            Some(index) => trainer.first_stage(index).fit(&set),
            None => trainer.fit(&set),
        }
    })?;
    Ok((Reranker { reranker: Arc::new(fitted.reranker), path }, plain(py, &fitted.report)?))
}

const ENCODERS: [(&str, QueryEncoder); 2] = [("fast", QueryEncoder::Fast), ("full", QueryEncoder::Full)];

/// Evaluates an index on a dataset whose corpus it holds; the report, as a dictionary. `data` is its folder.
///
/// `ignore_identical_ids`: whether a document with the id of the query is left out of its hits, the rule of
/// ArguAna and Quora; by default on for folders with these names. The report gives it as
/// `ignores_identical_ids`.
///
/// >>> ehi.evaluate(index, "no-such-folder")
/// Traceback (most recent call last):
/// ...
/// ehi.DataError: ...
#[pyfunction]
#[pyo3(signature = (index, data, *, split = "test", beams = None, encoder = None, ignore_identical_ids = None,
    progress = None))]
#[allow(clippy::too_many_arguments, reason = "they are keywords")]
pub fn evaluate(
    py: Python<'_>,
    index: &Index,
    #[pyo3(from_py_with = arguments::data)] data: PathBuf,
    #[pyo3(from_py_with = arguments::split)] split: &str,
    beams: Option<Vec<Whole>>,
    #[pyo3(from_py_with = arguments::encoder)] encoder: Option<&str>,
    #[pyo3(from_py_with = arguments::ignore_identical_ids)] ignore_identical_ids: Option<bool>,
    progress: Option<Py<PyAny>>,
) -> PyResult<Py<PyAny>> {
    let encoder = encoder.map(|text| one_of("encoder", text, &ENCODERS)).transpose()?;
    let beams = beams.into_iter().flatten().map(|beam| whole("beams", beam)).collect::<PyResult<_>>()?;
    let options = EvalOptions { beams, encoder, ignore_identical_ids, ..EvalOptions::default() };
    let index = index.inner()?;
    let (report, _) = watched(py, progress, |mut told| {
        evaluate_index(&index, &Dataset::open(data)?, split, &options, &mut told)
    })?;
    plain(py, &report)
}
