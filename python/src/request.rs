//! Search requests from keywords.

use std::sync::Arc;

use ehi::SearchRequest;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};
use serde_json::{Map, Value};

use crate::arguments::{Argument, wrong_type};
use crate::errors::{InputError, exception};
use crate::model::Reranker;
use crate::options::{self, Whole, one_of, whole};
use crate::shards::TermStatistics;
use crate::value::{from_python, in_member};

/// Keywords of a search besides `k`, as `check` knows them, and those that need no check.
const KEYWORDS: [&str; 20] = [
    "beam",
    "recall",
    "exact",
    "mode",
    "alpha",
    "rrf",
    "bm25",
    "filter",
    "codes",
    "encoder",
    "ids_only",
    "passages",
    "group_by",
    "per_group",
    "reranker",
    "rerank_depth",
    "parallel",
    "no_memory",
    "unlogged",
    "leaves",
];

/// Refuses a keyword that does not exist, and a value of the wrong type.
fn check(name: &str, value: &Bound<'_, PyAny>) -> PyResult<()> {
    let known = |known: &[&str]| {
        let known: Vec<_> = known.iter().map(|name| (*name, ())).collect();
        one_of(name, Argument::read(name, value)?, &known)
    };
    match name {
        "beam" if value.is_instance_of::<PyString>() => match String::read(name, value)? {
            all if all == "all" => Ok(()),
            other => {
                Err(InputError::new_err(format!("`beam` is `{other}`; it must be a whole number or `all`")))
            }
        },
        "beam" | "passages" | "per_group" => whole::<usize>(name, Argument::read(name, value)?).map(drop),
        "mode" => known(&["best", "dense", "lexical", "hybrid"]),
        "encoder" => known(&["fast", "full"]),
        "group_by" => String::read(name, value).map(drop),
        "recall" | "alpha" | "rrf" => f64::read(name, value).map(drop),
        "exact" | "codes" | "ids_only" | "parallel" | "no_memory" | "unlogged" => {
            bool::read(name, value).map(drop)
        }
        "bm25" => match value.extract::<(f64, f64)>() {
            Ok(_) => Ok(()),
            Err(_) => Err(wrong_type(name, "a pair of the numbers k1 and b, such as (1.2, 0.75)", value)),
        },
        "leaves" => match value.extract::<Vec<u32>>() {
            Ok(_) => Ok(()),
            Err(_) => Err(wrong_type(name, "a list of the numbers of leaves", value)),
        },
        _ => {
            let known = KEYWORDS.join(", ");
            Err(PyTypeError::new_err(format!("unknown keyword `{name}`; known are k, {known}, statistics")))
        }
    }
}

/// A request from the keywords of a search: those of `SearchRequest::from_json`, `reranker`, `rerank_depth`
/// and `statistics`.
pub fn request(py: Python<'_>, k: Whole, options: Option<&Bound<'_, PyDict>>) -> PyResult<SearchRequest> {
    let (mut rerank, mut statistics, mut filter) = (None, None, None);
    let mut depth = None;
    let mut json = Map::from_iter([("k".to_owned(), whole::<usize>("k", k)?.into())]);
    for (name, value) in options.into_iter().flatten().filter(|(_, value)| !value.is_none()) {
        match name.extract::<&str>()? {
            name @ "reranker" => {
                let expected = |_| wrong_type(name, "an ehi.Reranker", &value);
                rerank = Some(value.cast::<Reranker>().map_err(expected)?.get().reranker.clone());
            }
            "rerank_depth" => depth = Some(whole("rerank_depth", Argument::read("rerank_depth", &value)?)?),
            name @ "statistics" => {
                let expected = |_| wrong_type(name, "of ehi.shards.term_statistics", &value);
                statistics =
                    Some(Arc::clone(&value.cast::<TermStatistics>().map_err(expected)?.get().statistics));
            }
            "filter" => filter = Some(options::filter(py, &value)?),
            name => {
                check(name, &value)?;
                let value = from_python(&value).map_err(|error| in_member(py, name, &error))?;
                json.insert(name.to_owned(), value);
            }
        }
    }
    let mut read = SearchRequest::from_json(Value::Object(json)).map_err(|error| exception(py, error))?;
    read.statistics = statistics;
    read.filter = filter.map(Arc::new);
    Ok(match rerank {
        Some(reranker) => read.rerank(&reranker, depth.unwrap_or(RERANK_DEPTH)),
        None if depth.is_some() => {
            return Err(PyTypeError::new_err("`rerank_depth` goes with `reranker`"));
        }
        None => read,
    })
}

/// Default number of reranked hits.
const RERANK_DEPTH: usize = 100;
