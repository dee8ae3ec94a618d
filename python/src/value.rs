//! Converts data between the languages: JSON values, documents, arrays.

use std::borrow::Cow;
use std::path::Path;

use ehi::{Document, Facet};
use numpy::{PyArrayDyn, PyArrayMethods, PyReadonlyArrayDyn, PyUntypedArray, PyUntypedArrayMethods};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyFloat, PyInt, PyList, PyString, PyTuple};
use serde::Serialize;
use serde_json::{Map, Number, Value, json};

/// Most nesting of metadata or a filter.
const DEEPEST: usize = 128;

/// A result of the library as dictionaries, lists, strings and numbers, as in `docs/json.md`.
pub fn plain(py: Python<'_>, data: &impl Serialize) -> PyResult<Py<PyAny>> {
    let value = serde_json::to_value(data).map_err(|error| PyValueError::new_err(error.to_string()))?;
    to_python(py, &value)
}

pub fn to_python(py: Python<'_>, value: &Value) -> PyResult<Py<PyAny>> {
    Ok(pythonize::pythonize(py, value)?.unbind())
}

/// A JSON value.
///
/// # Errors
/// `TypeError` for types not in JSON, `ValueError` for a number that is not finite, a number beyond 64 bits,
/// and values nested too deeply.
pub fn from_python(value: &Bound<'_, PyAny>) -> PyResult<Value> {
    nested(value, DEEPEST)
}

fn nested(value: &Bound<'_, PyAny>, depth: usize) -> PyResult<Value> {
    let Some(depth) = depth.checked_sub(1) else {
        return Err(PyValueError::new_err(format!("values are nested deeper than {DEEPEST}")));
    };
    if value.is_none() {
        return Ok(Value::Null);
    }
    if let Ok(value) = value.cast::<PyBool>() {
        return Ok(Value::Bool(value.is_true()));
    }
    if let Ok(text) = value.cast::<PyString>() {
        return Ok(Value::String(text.to_cow()?.into_owned()));
    }
    if value.is_instance_of::<PyInt>() {
        return match (value.extract::<i64>(), value.extract::<u64>()) {
            (Ok(value), _) => Ok(value.into()),
            (_, Ok(value)) => Ok(value.into()),
            _ => Err(PyValueError::new_err(format!("{value} has more than 64 bits"))),
        };
    }
    if value.is_instance_of::<PyFloat>() {
        let number = Number::from_f64(value.extract()?);
        return number
            .map(Value::Number)
            .ok_or_else(|| PyValueError::new_err(format!("{value} is not finite")));
    }
    if let Ok(fields) = value.cast::<PyDict>() {
        let mut object = Map::new();
        for (name, value) in fields {
            object.insert(text(&name, || "a key of a dictionary".to_owned())?, nested(&value, depth)?);
        }
        return Ok(Value::Object(object));
    }
    if value.is_instance_of::<PyList>() || value.is_instance_of::<PyTuple>() {
        let values = value.try_iter()?.map(|value| nested(&value?, depth));
        return Ok(Value::Array(values.collect::<PyResult<_>>()?));
    }
    // A numpy scalar becomes a number.
    if let Ok(item) = value.call_method0("item")
        && !item.is(value)
    {
        return nested(&item, depth);
    }
    let what = match value.hasattr("isoformat")? {
        true => "; value.isoformat() is its text",
        false => "",
    };
    Err(PyTypeError::new_err(format!("JSON has no value for {}{what}", type_name(value))))
}

/// A Python string; `what` is its name in errors.
///
/// # Errors
/// `TypeError` for another type, `ValueError` for a lone half of a surrogate pair.
pub fn text(value: &Bound<'_, PyAny>, what: impl Fn() -> String) -> PyResult<String> {
    let text = value
        .cast::<PyString>()
        .map_err(|_| PyTypeError::new_err(format!("{} is no string but {}", what(), type_name(value))))?;
    let not_unicode = |error| PyValueError::new_err(format!("{} is no Unicode text: {error}", what()));
    text.to_cow().map(Cow::into_owned).map_err(not_unicode)
}

/// A path as Python shows a string.
pub fn quoted(py: Python<'_>, path: &Path) -> PyResult<String> {
    Ok(PyString::new(py, &path.to_string_lossy()).repr()?.to_string())
}

pub fn type_name(value: &Bound<'_, PyAny>) -> String {
    value.get_type().name().map_or_else(|_| "an object".to_owned(), |name| name.to_string())
}

/// Metadata: a dictionary whose fields filters can use.
pub fn metadata(value: &Bound<'_, PyAny>, place: usize) -> PyResult<Value> {
    match value.is_instance_of::<PyDict>() {
        true => from_python(value).map_err(|error| of_document(value.py(), place, &error)),
        false => Err(PyTypeError::new_err(format!(
            "the metadata of document {place} are no dictionary but {}",
            type_name(value)
        ))),
    }
}

/// The same error with the place of the document.
fn of_document(py: Python<'_>, place: usize, error: &PyErr) -> PyErr {
    let text = format!("the metadata of document {place}: {}", error.value(py));
    match error.is_instance_of::<PyTypeError>(py) {
        true => PyTypeError::new_err(text),
        false => PyValueError::new_err(text),
    }
}

/// A document from a dictionary with `id`, or `_id` as in datasets, `text`, `title` and `metadata`.
pub fn document(value: &Bound<'_, PyAny>, place: usize) -> PyResult<Document> {
    let fields = value.cast::<PyDict>().map_err(|_| {
        PyTypeError::new_err(format!("document {place} is no dictionary but {}", type_name(value)))
    })?;
    let mut document = Document::new("", "", "");
    let mut has_id = false;
    for (name, value) in fields {
        let name: String = name.extract()?;
        let text = || text(&value, || format!("`{name}` of document {place}"));
        match name.as_str() {
            "id" | "_id" if has_id => {
                return Err(PyValueError::new_err(format!("document {place} has both `id` and `_id`")));
            }
            "id" | "_id" => {
                document.id = text()?;
                has_id = true;
            }
            "title" if value.is_none() => {}
            "title" => document.title = text()?,
            "text" => document.text = text()?,
            "metadata" if value.is_none() => {}
            "metadata" => document.metadata = Some(metadata(&value, place)?),
            _ => {
                return Err(PyValueError::new_err(format!(
                    "document {place} has a field `{name}`; known are id, title, text and metadata"
                )));
            }
        }
    }
    match has_id {
        true => Ok(document),
        false => Err(PyValueError::new_err(format!("document {place} has no `id`"))),
    }
}

pub fn document_to_python(py: Python<'_>, document: &Document) -> PyResult<Py<PyAny>> {
    let fields = PyDict::new(py);
    fields.set_item("id", &document.id)?;
    fields.set_item("title", &document.title)?;
    fields.set_item("text", &document.text)?;
    let metadata = document.metadata.as_ref().map(|metadata| to_python(py, metadata)).transpose()?;
    fields.set_item("metadata", metadata)?;
    Ok(fields.into_any().unbind())
}

/// By field, in the order of the facets.
pub fn facets_to_python(py: Python<'_>, facets: &[Facet]) -> PyResult<Py<PyDict>> {
    let by_field = PyDict::new(py);
    for Facet { field, values, distinct, missing, range, .. } in facets {
        let rest = json!({ "values": values, "distinct": distinct, "missing": missing, "range": range });
        by_field.set_item(field, to_python(py, &rest)?)?;
    }
    Ok(by_field.unbind())
}

/// Rows of an array of numpy, f32 or f16, `[n, dim]`, or `[dim]` for one.
///
/// Contiguous f32 is read in place; other arrays are copied. Any other number type is an error, so that
/// nothing is rounded silently.
pub struct Matrix<'py> {
    values: PyReadonlyArrayDyn<'py, f32>,
    dim: usize,
}

impl<'py> Matrix<'py> {
    pub fn new(array: &Bound<'py, PyUntypedArray>) -> PyResult<Self> {
        let dim = match *array.shape() {
            [dim] | [_, dim] => dim,
            ref shape => {
                let found = shape.len();
                return Err(PyValueError::new_err(format!(
                    "an array of {found} dimensions; 1 or 2 are read"
                )));
            }
        };
        if dim == 0 {
            return Err(PyValueError::new_err("an array without columns"));
        }
        let kind = array.dtype().str()?.to_string();
        if !["float32", "float16"].contains(&&*kind) {
            let what = format!("an array of {kind}; float32 and float16 are read: array.astype(\"float32\")");
            return Err(PyTypeError::new_err(what));
        }
        // A Rust slice needs contiguous, aligned values.
        let numpy = array.py().import("numpy")?;
        let array = numpy.call_method1("require", (array, "float32", ["C", "A"]))?;
        Ok(Self { values: array.cast_into::<PyArrayDyn<f32>>()?.readonly(), dim })
    }

    pub fn rows(&self) -> PyResult<Vec<&[f32]>> {
        Ok(self.values.as_slice()?.chunks_exact(self.dim).collect())
    }
}
