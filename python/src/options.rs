//! Converts option names and texts to the library's values.

use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use ehi::model::EncoderPrecision;
use ehi::train::{DistilOptions, QueryEncoderChoice};
use ehi::{Analyzer, Durability, EmbeddingCache, Filter, IndexBuilder, Judgment, Similarity};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyList, PyString, PyTuple};
use serde_json::Value;

pub use crate::arguments::Whole;
use crate::arguments::{Argument, ID_NOT_FLOAT, wrong_type};
use crate::columns::{self, strings};
use crate::errors::{InputError, exception};
use crate::model::model;
use crate::records::{Rows, dictionaries, frame};
use crate::value::{from_python, in_member, is_of_data, of_data, type_name};

pub const SIMILARITIES: [(&str, Similarity); 3] =
    [("cosine", Similarity::Cosine), ("dot", Similarity::DotProduct), ("manhattan", Similarity::Manhattan)];

pub const PRECISIONS: [(&str, EncoderPrecision); 2] =
    [("f32", EncoderPrecision::F32), ("int8", EncoderPrecision::Int8)];

const DURABILITIES: [(&str, Durability); 3] =
    [("none", Durability::None), ("on_flush", Durability::OnFlush), ("every_batch", Durability::EveryBatch)];

pub fn parse<T: FromStr<Err: std::fmt::Display>>(name: &str, text: &str) -> PyResult<T> {
    text.parse().map_err(|error| InputError::new_err(format!("`{name}`: {error}")))
}

pub fn one_of<T: Copy>(name: &str, text: &str, known: &[(&str, T)]) -> PyResult<T> {
    let found = known.iter().find(|(own, _)| *own == text);
    found.map(|(_, value)| *value).ok_or_else(|| {
        let known: Vec<&str> = known.iter().map(|(own, _)| *own).collect();
        InputError::new_err(format!("`{name}` is `{text}`; known are {}", known.join(", ")))
    })
}

/// A time from 0 in a unit, which has that number of seconds.
pub fn time_of(name: &str, unit: &str, value: f64, seconds: f64) -> PyResult<Duration> {
    Duration::try_from_secs_f64(value * seconds).map_err(|_| {
        InputError::new_err(format!("`{name}` is {value}; it must be a number of {unit} from 0"))
    })
}

/// Seconds, from 0.
pub fn seconds(name: &str, value: f64) -> PyResult<Duration> {
    time_of(name, "seconds", value, 1.0)
}

/// A filter from a dictionary or from JSON.
pub fn filter(py: Python<'_>, value: &Bound<'_, PyAny>) -> PyResult<Filter> {
    if !value.is_instance_of::<PyDict>() && !value.is_instance_of::<PyString>() {
        return Err(wrong_type("filter", "a dictionary or its JSON", value));
    }
    let json = from_python(value).map_err(|error| in_member(py, "filter", &error))?;
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
        (Some(ids), None) => Ok(Chosen::Ids(columns::ids("ids", ids)?.0)),
        (None, Some(passing)) => Ok(Chosen::Passing(filter(py, passing)?)),
        _ => Err(PyTypeError::new_err("give either `ids` or `filter`")),
    }
}

/// What a judgment is made of, in the order of a tuple.
const OF_JUDGMENTS: [&str; 5] = ["question", "id", "grade", "weight", "time"];
/// What `Index.standings` adds, which follows from the others.
const OF_STANDINGS: [&str; 4] = ["has_document", "stale", "contradicted", "left"];

/// Judgments from tuples of question, id and, if it is not 1, grade, from dictionaries as the package returns
/// them, in which only question and id must be there, or from a frame with these columns.
pub fn judgments<'py>(given: &Bound<'py, PyAny>) -> PyResult<Vec<Judgment>> {
    let fields = |names: &[String], row: Bound<'py, PyAny>| -> PyResult<Vec<(String, Bound<'py, PyAny>)>> {
        names.iter().cloned().zip(row.try_iter()?).map(|(name, value)| Ok((name, value?))).collect()
    };
    if let Some(Rows { columns, rows }) = frame(given)? {
        let has = |name: &str| columns.iter().any(|own| own == name);
        let known = |name: &String| [&OF_JUDGMENTS[..], &OF_STANDINGS].concat().contains(&&**name);
        if !has("question") || !has("id") || !columns.iter().all(known) {
            return Err(InputError::new_err(format!(
                "`pairs` has the columns {}; expected are `question` and `id`, and, if there are any, `grade`, \
                 `weight` and `time`",
                columns.join(", ")
            )));
        }
        let rows = rows.try_iter()?.enumerate();
        return rows.map(|(place, row)| judgment(place, fields(&columns, row?)?)).collect();
    }
    let names = OF_JUDGMENTS.map(str::to_owned);
    let one = |(place, item): (usize, PyResult<Bound<'py, PyAny>>)| {
        let item = item?;
        if let Ok(own) = item.cast::<PyDict>() {
            let own = own.iter().map(|(name, value)| Ok((name.extract()?, value)));
            return judgment(place, own.collect::<PyResult<_>>()?);
        }
        let is_row = item.is_instance_of::<PyTuple>() || item.is_instance_of::<PyList>();
        match item.len() {
            Ok(2 | 3) if is_row => judgment(place, fields(&names, item)?),
            _ => Err(PyTypeError::new_err(format!(
                "pair {place} is none of (question, id), (question, id, grade) and a dictionary of those, but {}",
                item.repr()?
            ))),
        }
    };
    dictionaries("pairs", given)?.enumerate().map(one).collect()
}

/// A judgment from its fields; one without a value counts as absent.
fn judgment(place: usize, fields: Vec<(String, Bound<'_, PyAny>)>) -> PyResult<Judgment> {
    let (mut own, mut grade, mut weight, mut time) = ([None, None], 1, 1.0, None);
    for (name, value) in &fields {
        let wrong = |expected: &str| {
            let found = value.repr().map_or_else(|_| type_name(value), |found| found.to_string());
            InputError::new_err(format!("pair {place}: `{name}` is {found}; expected {expected}"))
        };
        let found = of_data(value, &mut 0).map_err(|error| match is_of_data(value.py(), &error) {
            true => wrong("a string or a number"),
            false => error,
        })?;
        match (&**name, found) {
            ("grade", Value::Null) if !value.is_none() => {
                return Err(wrong("a whole number, or no grade at all"));
            }
            (_, Value::Null) => {}
            ("question", Value::String(text)) => own[0] = Some(text),
            ("question", _) => return Err(wrong("a string")),
            ("id", Value::String(text)) => own[1] = Some(text),
            ("id", Value::Number(id)) if !id.is_f64() => own[1] = Some(id.to_string()),
            ("id", Value::Number(_)) => return Err(wrong(ID_NOT_FLOAT)),
            ("id", _) => return Err(wrong("a string or a whole number")),
            ("grade", found) => {
                let number =
                    found.as_f64().filter(|own| own.fract() == 0.0 && own.abs() <= f64::from(i32::MAX));
                let expected = "a whole number: 1 or more if the document answers, 0 or less if it does not";
                grade = number.ok_or_else(|| wrong(expected))? as i32;
            }
            ("weight", found) => weight = found.as_f64().ok_or_else(|| wrong("a number"))?,
            ("time", found) => {
                let seconds = found.as_f64().filter(|seconds| *seconds >= 0.0);
                time = Some(seconds.ok_or_else(|| wrong("a number of seconds since 1970"))? as u64);
            }
            (name, _) if OF_STANDINGS.contains(&name) => {}
            _ => {
                let known = OF_JUDGMENTS.join(", ");
                return Err(InputError::new_err(format!(
                    "pair {place} has a field `{name}`; known are {known}; leave it out"
                )));
            }
        }
    }
    let [Some(question), Some(id)] = own else {
        let missing = if own[0].is_none() { "question" } else { "id" };
        return Err(InputError::new_err(format!(
            "pair {place} has no `{missing}`; a pair is (question, id), with a grade if it is not 1"
        )));
    };
    let judgment = Judgment::new(question, id, grade).with_weight(weight);
    Ok(match time {
        Some(time) => judgment.at(time),
        None => judgment,
    })
}

/// Pairs of question and document id.
pub fn pairs(given: &Bound<'_, PyAny>) -> PyResult<Vec<(String, String)>> {
    Ok(judgments(given)?.into_iter().map(|own| (own.question, own.id)).collect())
}

/// Questions in any list, or none.
pub fn questions(name: &str, given: Option<&Bound<'_, PyAny>>) -> PyResult<Vec<String>> {
    given.map_or_else(|| Ok(Vec::new()), |given| strings(name, given))
}

/// A whole number that is not negative and fits its type.
pub fn whole<T: TryFrom<Whole>>(name: &str, value: Whole) -> PyResult<T> {
    T::try_from(value).map_err(|_| {
        let bits = 8 * size_of::<T>();
        let expected = format!("a whole number from 0, of at most {bits} bits");
        InputError::new_err(format!("`{name}` is {value}; it must be {expected}"))
    })
}

pub fn whole_or_none<T: TryFrom<Whole>>(name: &str, value: Option<Whole>) -> PyResult<Option<T>> {
    value.map(|value| whole(name, value)).transpose()
}

/// How a fast encoder of questions is made.
pub fn distillation(
    kind: &str,
    texts: Option<Whole>,
    passes: Option<Whole>,
    seed: Whole,
) -> PyResult<DistilOptions> {
    let seed = whole("seed", seed)?;
    let known = [("static", QueryEncoderChoice::Static), ("none", QueryEncoderChoice::None)];
    let mut options =
        DistilOptions { query_encoder: one_of("kind", kind, &known)?, seed, ..DistilOptions::default() };
    options.texts = whole_or_none("texts", texts)?.unwrap_or(options.texts);
    options.passes = whole_or_none("passes", passes)?.unwrap_or(options.passes);
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
            let mine = if is_sized { "exist_ok" } else { "read_only" };
            return Err(PyTypeError::new_err(format!("unknown keyword `{name}`; known are {known}, {mine}")));
        }
        if value.is_none() {
            continue;
        }
        builder = match name {
            "similarity" => builder.similarity(one_of(name, Argument::read(name, &value)?, &SIMILARITIES)?),
            "durability" => builder.durability(one_of(name, Argument::read(name, &value)?, &DURABILITIES)?),
            "codes" => builder.codes(Argument::read(name, &value)?),
            "words" => match <&str>::read(name, &value)? {
                "none" => builder.analyzer(None),
                text => builder.analyzer(parse::<Analyzer>(name, text)?),
            },
            "precision" => {
                builder.encoder_precision(one_of(name, Argument::read(name, &value)?, &PRECISIONS)?)
            }
            "wait" => builder.lock_wait(seconds(name, Argument::read(name, &value)?)?),
            "passages" => {
                is_sized = false;
                if value.is(&*PyBool::new(py, false)) {
                    builder.whole_documents()
                } else {
                    let expected = "a pair of tokens and overlap, such as (200, 40), or False";
                    let pair = if value.is_instance_of::<PyString>() { None } else { value.extract().ok() };
                    let (tokens, overlap): (Whole, Whole) =
                        pair.ok_or_else(|| wrong_type(name, expected, &value))?;
                    builder.passages(whole(name, tokens)?, whole(name, overlap)?)
                }
            }
            "expires" => builder.expires(String::read(name, &value)?),
            "lazy_encoder" => builder.lazy_encoder(Argument::read(name, &value)?),
            "cache" => builder.embedding_cache(EmbeddingCache::new(PathBuf::read(name, &value)?)),
            "own_model" => builder.own_model(Argument::read(name, &value)?),
            "model" => builder.expect_model(&model(py, &value)?.bundle),
            _ => builder,
        };
    }
    Ok(if is_sized { builder.sized_passages() } else { builder })
}
