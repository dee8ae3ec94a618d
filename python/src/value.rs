//! Converts data between the languages: JSON values, documents, arrays.

use std::borrow::Cow;
use std::path::Path;

use ehi::data::decimal;
use ehi::{Document, Facet};
use numpy::{
    PyArrayDescrMethods, PyArrayDyn, PyArrayMethods, PyReadonlyArrayDyn, PyUntypedArray,
    PyUntypedArrayMethods,
};
use pyo3::exceptions::{PyArithmeticError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{IntoPyDict, PyBool, PyDict, PyFloat, PyInt, PyList, PyString, PyTuple};
use serde::Serialize;
use serde_json::{Map, Number, Value, json};

use crate::errors::InputError;

/// Most nesting of metadata or a filter.
const DEEPEST: usize = 128;

/// A result of the library as dictionaries, lists, strings and numbers, as in `docs/json.md`.
pub fn plain(py: Python<'_>, data: &impl Serialize) -> PyResult<Py<PyAny>> {
    let value = serde_json::to_value(data).map_err(|error| InputError::new_err(error.to_string()))?;
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
    nested(value, DEEPEST, &mut None)
}

/// A JSON value of data, by the rules for columns of Parquet: NaN, NaT and `pandas.NA` are null, and so are
/// infinite numbers, which are counted.
pub fn of_data(value: &Bound<'_, PyAny>, infinite: &mut usize) -> PyResult<Value> {
    nested(value, DEEPEST, &mut Some(infinite))
}

/// `data` is there for data alone, as in [`of_data`].
fn nested(value: &Bound<'_, PyAny>, depth: usize, data: &mut Option<&mut usize>) -> PyResult<Value> {
    let Some(depth) = depth.checked_sub(1) else {
        return Err(InputError::new_err(format!("values are nested deeper than {DEEPEST}")));
    };
    if value.is_none() {
        return Ok(Value::Null);
    }
    if let Ok(text) = value.cast::<PyString>() {
        return Ok(Value::String(unicode(text)?));
    }
    if let Ok(value) = value.cast::<PyBool>() {
        return Ok(Value::Bool(value.is_true()));
    }
    if value.is_instance_of::<PyInt>() {
        return match (value.extract::<i64>(), value.extract::<u64>()) {
            (Ok(value), _) => Ok(value.into()),
            (_, Ok(value)) => Ok(value.into()),
            _ => Err(InputError::new_err(format!("{value} has more than 64 bits; str(value) keeps it"))),
        };
    }
    if value.is_instance_of::<PyFloat>() {
        return float(value, value.extract()?, data);
    }
    if let Ok(fields) = value.cast::<PyDict>() {
        let mut object = Map::new();
        // A copy: reading a value may run Python, which may change the dictionary.
        for item in fields.items() {
            let (name, value): (Bound<'_, PyAny>, Bound<'_, PyAny>) = item.extract()?;
            let name = text(&name, || "a key of a dictionary".to_owned())?;
            let value = nested(&value, depth, data).map_err(|error| in_member(value.py(), &name, &error))?;
            object.insert(name, value);
        }
        return Ok(Value::Object(object));
    }
    if value.is_instance_of::<PyList>() || value.is_instance_of::<PyTuple>() {
        let values = value.try_iter()?.map(|value| nested(&value?, depth, data));
        return Ok(Value::Array(values.collect::<PyResult<_>>()?));
    }
    other(value, depth, data)
}

/// Whether an error is about a value, and not one such as `KeyboardInterrupt` or `MemoryError`.
pub fn is_of_data(py: Python<'_>, error: &PyErr) -> bool {
    error.is_instance_of::<PyTypeError>(py)
        || error.is_instance_of::<PyValueError>(py)
        || error.is_instance_of::<PyArithmeticError>(py)
}

/// The same error with the name of the member of a dictionary; one that did not come from its value is left.
pub fn in_member(py: Python<'_>, name: &str, error: &PyErr) -> PyErr {
    let text = format!("`{name}`: {}", error.value(py));
    match error.is_instance_of::<PyTypeError>(py) {
        true => PyTypeError::new_err(text),
        false if error.is_instance_of::<PyValueError>(py) => InputError::new_err(text),
        false => error.clone_ref(py),
    }
}

fn float(value: &Bound<'_, PyAny>, number: f64, data: &mut Option<&mut usize>) -> PyResult<Value> {
    match (Number::from_f64(number), data) {
        (Some(number), _) => Ok(Value::Number(number)),
        (None, Some(infinite)) => {
            **infinite += usize::from(number.is_infinite());
            Ok(Value::Null)
        }
        (None, None) => Err(InputError::new_err(format!("{value} is not finite"))),
    }
}

/// The value of a class that is not Python's own for JSON: a date or a time, or one of numpy or pandas.
fn other(value: &Bound<'_, PyAny>, depth: usize, data: &mut Option<&mut usize>) -> PyResult<Value> {
    let name = type_name(value);
    if ["NaTType", "NAType"].contains(&&*name) {
        return float(value, f64::NAN, data);
    }
    if value.hasattr("total_seconds")? {
        let part = |name| value.getattr(name)?.extract::<i128>();
        let micros = (part("days")? * 86_400 + part("seconds")?) * 1_000_000 + part("microseconds")?;
        return Ok(duration(micros * 1000 + part("nanoseconds").unwrap_or(0)).into());
    }
    if value.hasattr("isoformat")? {
        return Ok(time(value)?.into());
    }
    if name == "Decimal" {
        return match value.call_method0("is_finite")?.extract()? {
            true => Ok(decimal(&value.call_method1("__format__", ("f",))?.extract::<String>()?)),
            false => float(value, value.extract()?, data),
        };
    }
    if let Ok(dtype) = value.getattr("dtype") {
        if value.getattr("ndim")?.extract::<usize>()? > 0 {
            let values = value.try_iter()?.map(|value| nested(&value?, depth, data));
            return Ok(Value::Array(values.collect::<PyResult<_>>()?));
        }
        let kind: String = dtype.getattr("kind")?.extract()?;
        return match &*kind {
            // The shortest form of the f32, not of the nearest double.
            "f" if dtype.getattr("itemsize")?.extract::<usize>()? == 4 => {
                float(value, value.str()?.to_cow()?.parse().unwrap_or(f64::NAN), data)
            }
            "M" | "m" if value.str()? == "NaT" => float(value, f64::NAN, data),
            "M" => Ok(value.str()?.to_cow()?.into_owned().into()),
            "m" => Ok(duration(nanos(value, &dtype)?).into()),
            // A long double has no number of Python's.
            "f" if dtype.getattr("itemsize")?.extract::<usize>()? > 8 => float(value, value.extract()?, data),
            _ => {
                let item = value.call_method0("item")?;
                if item.is(value) { Err(no_json(&name)) } else { nested(&item, depth, data) }
            }
        };
    }
    // A scalar of pyarrow.
    if let Ok(value) = value.call_method0("as_py") {
        return nested(&value, depth, data);
    }
    Err(no_json(&name))
}

fn no_json(name: &str) -> PyErr {
    let instead = match name {
        "bytes" | "bytearray" => "value.decode() is its text",
        "set" | "frozenset" => "a set has no order, sorted(value) has one",
        _ => "str(value) is its text",
    };
    PyTypeError::new_err(format!("JSON has no value for {name}; {instead}"))
}

/// A time, with its zone in UTC, with the digits of its unit, so that texts sort by time; or a date.
fn time(value: &Bound<'_, PyAny>) -> PyResult<String> {
    if !value.hasattr("tzinfo")? {
        return value.call_method0("isoformat")?.extract();
    }
    // Of a Timestamp of pandas.
    let unit = value.getattr("unit").and_then(|unit| unit.extract::<String>()).unwrap_or_default();
    let digits = match &*unit {
        "s" => "seconds",
        "ms" => "milliseconds",
        "ns" => "nanoseconds",
        _ => "microseconds",
    };
    let has_zone = !value.getattr("tzinfo")?.is_none() && value.hasattr("astimezone")?;
    let value = match has_zone {
        true => {
            let utc = value.py().import("datetime")?.getattr("timezone")?.getattr("utc")?;
            value.call_method1("astimezone", (utc,))?
        }
        false => value.clone(),
    };
    let digits = [("timespec", digits)].into_py_dict(value.py())?;
    let text: String = value.call_method("isoformat", (), Some(&digits))?.extract()?;
    Ok(text.strip_suffix("+00:00").map(|text| format!("{text}Z")).unwrap_or(text))
}

/// The nanoseconds of a `timedelta64`, which may be more than numpy has place for.
fn nanos(value: &Bound<'_, PyAny>, dtype: &Bound<'_, PyAny>) -> PyResult<i128> {
    let units = value.py().import("numpy")?.call_method1("datetime_data", (dtype,))?;
    let (unit, count): (String, i128) = units.extract()?;
    let of_unit: i128 = match &*unit {
        "W" => 604_800_000_000_000,
        "D" => 86_400_000_000_000,
        "h" => 3_600_000_000_000,
        "m" => 60_000_000_000,
        "s" => 1_000_000_000,
        "ms" => 1_000_000,
        "us" => 1000,
        "ns" => 1,
        _ => {
            let what = format!(
                "a duration in the unit `{unit}` has no length in nanoseconds; str(value) is its text"
            );
            return Err(InputError::new_err(what));
        }
    };
    let ticks: i128 = value.call_method1("astype", ("int64",))?.extract()?;
    Ok(ticks * count * of_unit)
}

/// A duration as Arrow writes it.
fn duration(nanos: i128) -> String {
    let sign = if nanos < 0 { "-" } else { "" };
    let (seconds, rest) = (nanos.abs() / 1_000_000_000, nanos.abs() % 1_000_000_000);
    match (seconds, rest) {
        (0, 0) => "P0D".to_owned(),
        (_, 0) => format!("{sign}PT{seconds}S"),
        _ => format!("{sign}PT{seconds}.{}S", format!("{rest:09}").trim_end_matches('0')),
    }
}

/// A Python string; `what` is its name in errors.
///
/// # Errors
/// `TypeError` for another type, `ValueError` for a lone half of a surrogate pair.
pub fn text(value: &Bound<'_, PyAny>, what: impl Fn() -> String) -> PyResult<String> {
    let text = value.cast::<PyString>().map_err(|_| {
        PyTypeError::new_err(format!("{} must be a string, not {}", what(), type_name(value)))
    })?;
    unicode(text).map_err(|error| InputError::new_err(format!("{} is {}", what(), error.value(value.py()))))
}

fn unicode(text: &Bound<'_, PyString>) -> PyResult<String> {
    let not_unicode = |error| {
        let instead = "value.encode(errors=\"replace\").decode() is";
        InputError::new_err(format!("no Unicode text: {error}; {instead}"))
    };
    text.to_cow().map(Cow::into_owned).map_err(not_unicode)
}

/// A path as Python shows a string.
pub fn quoted(py: Python<'_>, path: &Path) -> PyResult<String> {
    Ok(PyString::new(py, &path.to_string_lossy()).repr()?.to_string())
}

pub fn type_name(value: &Bound<'_, PyAny>) -> String {
    value.get_type().name().map_or_else(|_| "an object".to_owned(), |name| name.to_string())
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

/// The array of embeddings given as an array of any library, as lists of numbers or as a column of those.
pub fn array<'py>(name: &str, values: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyUntypedArray>> {
    let py = values.py();
    let numpy = py.import("numpy")?;
    let as_array = |values: &Bound<'py, PyAny>| {
        let array = numpy.call_method1("asarray", (values,)).map_err(|error| match error {
            // Rows of different lengths.
            error if error.is_instance_of::<PyValueError>(py) => {
                InputError::new_err(format!("`{name}` has rows of different lengths or no numbers: {error}"))
            }
            error => error,
        })?;
        Ok::<_, PyErr>(array.cast_into::<PyUntypedArray>()?)
    };
    let values = plain_values(values)?;
    let mut array = as_array(&values)?;
    if array.dtype().kind() == b'O' {
        // A column of lists.
        array = as_array(&array.call_method0("tolist")?)?;
    }
    if !b"fiu".contains(&array.dtype().kind()) {
        let kind = array.dtype().str()?;
        return Err(PyTypeError::new_err(format!("`{name}` holds values of {kind}; embeddings are numbers")));
    }
    Ok(array)
}

/// The values of an array of pyarrow as a list; others as they are.
pub fn plain_values<'py>(values: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    match values.hasattr("to_pylist")? {
        true => values.call_method0("to_pylist"),
        false => Ok(values.clone()),
    }
}

/// Rows of an array of numbers, `[n, dim]`, or `[dim]` for one.
///
/// Contiguous f32 is read in place; other arrays are copied as f32.
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
                return Err(InputError::new_err(format!("an array of {found} dimensions; 1 or 2 are read")));
            }
        };
        if dim == 0 {
            return Err(InputError::new_err("an array without columns"));
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
