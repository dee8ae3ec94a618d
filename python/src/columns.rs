//! Lists of strings, and results that are one or several.

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyFloat, PyList, PyString};

use crate::arguments::{Argument, ID_NOT_FLOAT, Id, wrong_type};
use crate::value::{plain_values, text, type_name};

/// The values of a list, an array or a column.
pub fn values<'py>(name: &str, values: &Bound<'py, PyAny>) -> PyResult<Vec<Bound<'py, PyAny>>> {
    if values.is_instance_of::<PyString>() {
        return Err(PyTypeError::new_err(format!("`{name}` must be a list of strings, not one string")));
    }
    let is_table = values.is_instance_of::<PyDict>() || values.hasattr("columns")?;
    let not_a_list = || {
        let found = type_name(values);
        PyTypeError::new_err(format!(
            "`{name}` must be a list or a column with a value for each row, not {found}"
        ))
    };
    if is_table {
        return Err(not_a_list());
    }
    let values = plain_values(values)?;
    match values.hasattr("__iter__")? || values.hasattr("__getitem__")? {
        true => values.try_iter()?.collect(),
        false => Err(not_a_list()),
    }
}

pub fn strings(name: &str, given: &Bound<'_, PyAny>) -> PyResult<Vec<String>> {
    let one = |(place, item)| text(item, || format!("`{name}[{place}]`"));
    values(name, given)?.iter().enumerate().map(one).collect()
}

/// The texts of one string or of a list; also returns whether it was one string.
pub fn one_or_more(name: &str, values: &Bound<'_, PyAny>) -> PyResult<(Vec<String>, bool)> {
    match values.is_instance_of::<PyString>() {
        true => Ok((vec![text(values, || format!("`{name}`"))?], true)),
        false if values.is_instance_of::<PyDict>() || !values.hasattr("__iter__")? => {
            Err(wrong_type(name, "a string, or a list or a column of strings", values))
        }
        false => Ok((strings(name, values)?, false)),
    }
}

/// The ids of one or of a list; also returns whether it was one.
pub fn ids(name: &str, given: &Bound<'_, PyAny>) -> PyResult<(Vec<String>, bool)> {
    let is_one = given.is_instance_of::<PyString>()
        || given.is_none()
        || !given.hasattr("__iter__")?
        || is_scalar(given)?;
    if is_one {
        return Ok((vec![Id::read(name, given)?.0], true));
    }
    let one = |(place, item): (usize, &Bound<'_, PyAny>)| {
        let name = format!("{name}[{place}]");
        match item.is_instance_of::<PyFloat>() {
            true => Err(wrong_type(&name, ID_NOT_FLOAT, item)),
            false => Ok(Id::read(&name, item)?.0),
        }
    };
    Ok((values(name, given)?.iter().enumerate().map(one).collect::<PyResult<_>>()?, false))
}

/// Whether a value is a scalar of numpy, which has an `__iter__` of no use.
fn is_scalar(value: &Bound<'_, PyAny>) -> PyResult<bool> {
    Ok(match value.getattr("ndim") {
        Ok(ndim) => ndim.extract::<usize>().is_ok_and(|ndim| ndim == 0),
        Err(_) => false,
    })
}

/// The counterpart for results: the only one, or a list.
pub fn one_or_list(py: Python<'_>, mut results: Vec<Py<PyAny>>, is_one: bool) -> PyResult<Py<PyAny>> {
    match is_one {
        true => Ok(results.swap_remove(0)),
        false => Ok(PyList::new(py, results)?.into_any().unbind()),
    }
}
