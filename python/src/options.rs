//! Converts option names and texts to the library's values.

use std::str::FromStr;
use std::time::Duration;

use ehi::model::EncoderPrecision;
use ehi::train::{DistilOptions, QueryEncoderChoice};
use ehi::{Analyzer, Durability, Filter, IndexBuilder, Judgment, Similarity};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};

use crate::errors::exception;
use crate::value::{from_python, type_name};

pub const SIMILARITIES: [(&str, Similarity); 3] =
    [("cosine", Similarity::Cosine), ("dot", Similarity::DotProduct), ("manhattan", Similarity::Manhattan)];

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
    let json = match value.cast::<PyString>() {
        Ok(text) => text.to_cow()?.into_owned(),
        Err(_) if value.is_instance_of::<PyDict>() => from_python(value)?.to_string(),
        Err(_) => {
            return Err(PyTypeError::new_err(format!(
                "a filter is a dictionary or a string of JSON, not {}",
                type_name(value)
            )));
        }
    };
    json.parse().map_err(|error: ehi::FilterError| exception(py, error.into()))
}

/// Judgments from tuples of question, id and, if it is not 1, grade.
pub fn judgments(value: &Bound<'_, PyAny>) -> PyResult<Vec<Judgment>> {
    let mut judgments = Vec::new();
    for (place, item) in value.try_iter()?.enumerate() {
        let item = item?;
        let judgment = match (item.extract::<(String, String)>(), item.extract::<(String, String, i32)>()) {
            (Ok((question, id)), _) => Judgment::new(question, id, 1),
            (_, Ok((question, id, grade))) => Judgment::new(question, id, grade),
            _ => {
                return Err(PyTypeError::new_err(format!(
                    "pair {place} is none of (question, id) and (question, id, grade)"
                )));
            }
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

/// How an index is created or opened.
#[derive(Default)]
pub struct HandleOptions<'a> {
    pub similarity: Option<&'a str>,
    pub durability: Option<&'a str>,
    pub codes: Option<bool>,
    pub words: Option<&'a str>,
    pub precision: Option<&'a str>,
    pub wait: Option<f64>,
    pub passages: Option<(u32, u32)>,
    pub lazy_encoder: bool,
}

impl HandleOptions<'_> {
    pub fn builder(&self) -> PyResult<IndexBuilder> {
        let mut builder = ehi::Index::builder();
        if let Some(text) = self.similarity {
            builder = builder.similarity(one_of("similarity", text, &SIMILARITIES)?);
        }
        if let Some(text) = self.durability {
            let known = [
                ("none", Durability::None),
                ("on_flush", Durability::OnFlush),
                ("every_batch", Durability::EveryBatch),
            ];
            builder = builder.durability(one_of("durability", text, &known)?);
        }
        if let Some(codes) = self.codes {
            builder = builder.codes(codes);
        }
        match self.words {
            None => {}
            Some("none") => builder = builder.analyzer(None),
            Some(text) => builder = builder.analyzer(parse::<Analyzer>("words", text)?),
        }
        if let Some(text) = self.precision {
            builder = builder.encoder_precision(parse::<EncoderPrecision>("precision", text)?);
        }
        if let Some(wait) = self.wait {
            builder = builder.lock_wait(seconds("wait", wait)?);
        }
        if let Some((tokens, overlap)) = self.passages {
            builder = builder.passages(tokens, overlap);
        }
        Ok(if self.lazy_encoder { builder.lazy_encoder(true) } else { builder })
    }
}
