//! Arguments of calls: a value of the wrong type is a `TypeError` that names the argument.

use std::path::PathBuf;

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyInt};
use serde_json::Value;

use crate::value::{self, of_data, type_name};

/// A whole number of a caller, of any size.
pub type Whole = i128;

pub trait Argument<'a, 'py>: Sized {
    fn read(name: &str, value: &'a Bound<'py, PyAny>) -> PyResult<Self>;
}

/// `name` must be of this kind.
pub fn wrong_type(name: &str, expected: &str, value: &Bound<'_, PyAny>) -> PyErr {
    PyTypeError::new_err(format!("`{name}` must be {expected}, not {}", type_name(value)))
}

impl<'a, 'py, T: Argument<'a, 'py>> Argument<'a, 'py> for Option<T> {
    fn read(name: &str, value: &'a Bound<'py, PyAny>) -> PyResult<Self> {
        if value.is_none() { Ok(None) } else { T::read(name, value).map(Some) }
    }
}

impl Argument<'_, '_> for Whole {
    fn read(name: &str, value: &Bound<'_, PyAny>) -> PyResult<Self> {
        // True is an int of Python.
        if value.is_instance_of::<PyBool>() {
            return Err(wrong_type(name, "a whole number", value));
        }
        value.extract().or_else(|_| match value.is_instance_of::<PyInt>() {
            true => Ok(Self::MAX),
            false => Err(wrong_type(name, "a whole number", value)),
        })
    }
}

impl Argument<'_, '_> for f64 {
    fn read(name: &str, value: &Bound<'_, PyAny>) -> PyResult<Self> {
        let number = if value.is_instance_of::<PyBool>() { None } else { value.extract().ok() };
        number.ok_or_else(|| wrong_type(name, "a number", value))
    }
}

impl Argument<'_, '_> for bool {
    fn read(name: &str, value: &Bound<'_, PyAny>) -> PyResult<Self> {
        value.extract().map_err(|_| wrong_type(name, "True or False", value))
    }
}

impl Argument<'_, '_> for String {
    fn read(name: &str, value: &Bound<'_, PyAny>) -> PyResult<Self> {
        value::text(value, || format!("`{name}`"))
    }
}

impl<'a> Argument<'a, '_> for &'a str {
    fn read(name: &str, value: &'a Bound<'_, PyAny>) -> PyResult<Self> {
        // The reader of texts says what is wrong, as with half a surrogate pair.
        value.extract().or_else(|_| value::text(value, || format!("`{name}`")).map(|_| ""))
    }
}

impl Argument<'_, '_> for PathBuf {
    fn read(name: &str, value: &Bound<'_, PyAny>) -> PyResult<Self> {
        value.extract().map_err(|_| wrong_type(name, "a string or a path", value))
    }
}

/// The id of a document, by the rule of `Index.add`: a string or a whole number.
pub struct Id(pub String);

impl Argument<'_, '_> for Id {
    fn read(name: &str, value: &Bound<'_, PyAny>) -> PyResult<Self> {
        match of_data(value, &mut 0) {
            Ok(Value::String(id)) => Ok(Self(id)),
            Ok(Value::Number(id)) if !id.is_f64() => Ok(Self(id.to_string())),
            Err(error) if !error.is_instance_of::<PyTypeError>(value.py()) => {
                Err(value::in_member(value.py(), name, &error))
            }
            _ => Err(wrong_type(name, "a string or a whole number", value)),
        }
    }
}

/// What an id must be where it is a float: a column of whole numbers with gaps has become one of floats.
pub const ID_NOT_FLOAT: &str =
    "a string or a whole number (`astype(\"Int64\")` keeps those of a column with gaps)";

macro_rules! named {
    ($($name:ident)*) => {$(
        /// The argument of this name.
        pub fn $name<'a, 'py, T: Argument<'a, 'py>>(value: &'a Bound<'py, PyAny>) -> PyResult<T> {
            T::read(stringify!($name), value)
        }
    )*};
}

named! {
    accept after against_exact all_or_none always base beam before bytes checkpoints data depth dev_fraction dim document_prompt encoder exist_ok forget half_life id ignore_identical_ids interval k kind leaf leaves limit most on output passages passes path precision query query_prompt question read_only resume role samples seed split target terms text texts title undecided words
}
