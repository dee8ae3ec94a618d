//! Converts option names and texts to the library's values.

use std::str::FromStr;
use std::time::Duration;

use ehi::model::EncoderPrecision;
use ehi::train::{DistilOptions, QueryEncoderChoice};
use ehi::{Analyzer, Durability, Filter, IndexBuilder, Judgment, Similarity};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict};
use serde::Deserialize;

use crate::columns::one_or_more;
use crate::errors::exception;
use crate::model::model;
use crate::value::from_python;

pub const SIMILARITIES: [(&str, Similarity); 3] =
    [("cosine", Similarity::Cosine), ("dot", Similarity::DotProduct), ("manhattan", Similarity::Manhattan)];

const DURABILITIES: [(&str, Durability); 3] =
    [("none", Durability::None), ("on_flush", Durability::OnFlush), ("every_batch", Durability::EveryBatch)];

pub fn parse<T: FromStr<Err: std::fmt::Display>>(name: &str, text: &str) -> PyResult<T> {
    text.parse().map_err(|error| PyValueError::new_err(format!("`{name}`: {error}")))
}

pub fn one_of<T: Copy>(name: &str, text: &str, known: &[(&str, T)]) -> PyResult<T> {
    let found = known.iter().find(|(own, _)| *own == text);
    found.map(|(_, value)| *value).ok_or_else(|| {
        let known: Vec<&str> = known.iter().map(|(own, _)| *own).collect();
        PyValueError::new_err(format!("`{name}` is `{text}`; known are {}", known.join(", ")))
    })
}

/// Seconds, from 0.
pub fn seconds(name: &str, value: f64) -> PyResult<Duration> {
    Duration::try_from_secs_f64(value)
        .map_err(|_| PyValueError::new_err(format!("`{name}` is {value}; seconds are a number from 0")))
}

/// A filter from a dictionary or from JSON.
pub fn filter(py: Python<'_>, value: &Bound<'_, PyAny>) -> PyResult<Filter> {
    let json = from_python(value)?;
    let filter = json.as_str().map_or_else(|| Filter::from_json(&json), str::parse);
    filter.map_err(|error| exception(py, error.into()))
}

pub fn filter_or_none(py: Python<'_>, value: Option<&Bound<'_, PyAny>>) -> PyResult<Option<Filter>> {
    value.map(|value| filter(py, value)).transpose()
}

/// Documents to delete.
pub enum Chosen {
    Ids(Vec<String>),
    Passing(Filter),
}

/// The documents of one id or several, or those that pass a filter.
pub fn chosen(
    py: Python<'_>,
    ids: Option<&Bound<'_, PyAny>>,
    passing: Option<&Bound<'_, PyAny>>,
) -> PyResult<Chosen> {
    match (ids, passing) {
        (Some(ids), None) => Ok(Chosen::Ids(one_or_more("ids", ids)?.0)),
        (None, Some(passing)) => Ok(Chosen::Passing(filter(py, passing)?)),
        _ => Err(PyTypeError::new_err("give either `ids` or `filter`")),
    }
}

/// Fields of a judgment given as a dictionary.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Fields {
    question: String,
    id: String,
    grade: Option<i32>,
    weight: Option<f64>,
    time: Option<u64>,
}

/// Judgments from tuples of question, id and, if it is not 1, grade, or from dictionaries as the package
/// returns them, in which only question and id must be there.
pub fn judgments(value: &Bound<'_, PyAny>) -> PyResult<Vec<Judgment>> {
    let mut judgments = Vec::new();
    for (place, item) in value.try_iter()?.enumerate() {
        let item = item?;
        let judgment = if item.is_instance_of::<PyDict>() {
            let own: Fields = pythonize::depythonize(&item)
                .map_err(|error| PyTypeError::new_err(format!("judgment {place}: {error}")))?;
            let new = Judgment::new(own.question, own.id, own.grade.unwrap_or(1));
            let time = own.time.unwrap_or(new.time);
            new.with_weight(own.weight.unwrap_or(1.0)).at(time)
        } else if let Ok((question, id)) = item.extract::<(String, String)>() {
            Judgment::new(question, id, 1)
        } else if let Ok((question, id, grade)) = item.extract::<(String, String, i32)>() {
            Judgment::new(question, id, grade)
        } else {
            return Err(PyTypeError::new_err(format!(
                "pair {place} is none of (question, id), (question, id, grade) and a dictionary of those"
            )));
        };
        judgments.push(judgment);
    }
    Ok(judgments)
}

/// How a fast encoder of questions is made.
pub fn distillation(
    kind: &str,
    texts: Option<usize>,
    passes: Option<usize>,
    seed: u64,
) -> PyResult<DistilOptions> {
    let known = [("static", QueryEncoderChoice::Static), ("none", QueryEncoderChoice::None)];
    let mut options =
        DistilOptions { query_encoder: one_of("kind", kind, &known)?, seed, ..DistilOptions::default() };
    options.texts = texts.unwrap_or(options.texts);
    options.passes = passes.unwrap_or(options.passes);
    Ok(options)
}

/// The keywords of a handle, those that are `known`; `exist_ok` is for the caller.
pub fn builder(
    py: Python<'_>,
    keywords: Option<&Bound<'_, PyDict>>,
    known: &[&str],
) -> PyResult<IndexBuilder> {
    let mut builder = ehi::Index::builder();
    let mut is_sized = known.contains(&"passages");
    for (name, value) in keywords.into_iter().flatten() {
        let name: &str = name.extract()?;
        if !known.contains(&name) {
            let known = known.join(", ");
            return Err(PyTypeError::new_err(format!("unknown keyword `{name}`; known are {known}")));
        }
        if value.is_none() {
            continue;
        }
        builder = match name {
            "similarity" => builder.similarity(one_of(name, value.extract()?, &SIMILARITIES)?),
            "durability" => builder.durability(one_of(name, value.extract()?, &DURABILITIES)?),
            "codes" => builder.codes(value.extract()?),
            "words" => match value.extract()? {
                "none" => builder.analyzer(None),
                text => builder.analyzer(parse::<Analyzer>(name, text)?),
            },
            "precision" => builder.encoder_precision(parse::<EncoderPrecision>(name, value.extract()?)?),
            "wait" => builder.lock_wait(seconds(name, value.extract()?)?),
            "passages" => {
                is_sized = false;
                if value.is(&*PyBool::new(py, false)) {
                    builder.whole_documents()
                } else {
                    let (tokens, overlap) = value.extract()?;
                    builder.passages(tokens, overlap)
                }
            }
            "expires" => builder.expires(value.extract::<String>()?),
            "lazy_encoder" => builder.lazy_encoder(value.extract()?),
            "own_model" => builder.own_model(value.extract()?),
            "model" => builder.expect_model(&model(py, &value)?.bundle),
            _ => builder,
        };
    }
    Ok(if is_sized { builder.sized_passages() } else { builder })
}
