//! Exceptions: one class for each kind of the library's error, with its text.

use pyo3::create_exception;
use pyo3::exceptions::{PyException, PyValueError};
use pyo3::prelude::*;

create_exception!(ehi, Error, PyException, "What a call of the package fails with.");
create_exception!(
    ehi,
    InputError,
    Error,
    "A document, a question or an option that cannot be used; also a `ValueError`."
);
create_exception!(ehi, FilterError, InputError, "A malformed filter.");
create_exception!(ehi, StoreError, Error, "The directory of an index: missing, damaged, full, in use.");
create_exception!(ehi, LockedError, StoreError, "Another process writes to the index.");
create_exception!(ehi, ModelError, Error, "A model or an encoder that cannot be used.");
create_exception!(ehi, DataError, Error, "A dataset or a file of data.");
create_exception!(ehi, TrainError, Error, "Training or evaluation.");
create_exception!(ehi, CancelledError, Error, "The progress callback asked to stop.");
create_exception!(
    ehi,
    PartialError,
    Error,
    "A call that stores documents in groups failed with `stored` of them stored and `refused` not; \
     `__cause__` says why."
);

/// Makes `InputError` a `ValueError`, too: the macro gives a class one base.
pub fn init(py: Python<'_>) -> PyResult<()> {
    let input = py.get_type::<InputError>();
    input.setattr("__bases__", (py.get_type::<Error>(), py.get_type::<PyValueError>()))?;
    // Of those that are not the library's own.
    input.setattr("kind", "BadInput")
}

/// The exception of a failure.
///
/// `kind` is the name of the library's variant, as `ModelMismatch`; programs can distinguish failures by it.
pub fn exception(py: Python<'_>, error: ehi::Error) -> PyErr {
    let text = error.to_string();
    let debug = format!("{error:?}");
    let kind = variant(&debug);
    let own = match error {
        ehi::Error::Partial { stored, refused, source } => {
            let own = PartialError::new_err(text);
            let fields = own.value(py);
            // These are our own attributes on our own class.
            let set = fields.setattr("stored", stored).and_then(|()| fields.setattr("refused", refused));
            if let Err(failure) = set {
                return failure;
            }
            own.set_cause(py, Some(exception(py, *source)));
            own
        }
        ehi::Error::Cancelled => CancelledError::new_err(text),
        ehi::Error::Input(_) => InputError::new_err(text),
        ehi::Error::Filter(_) => FilterError::new_err(text),
        ehi::Error::Store(ehi::store::StoreError::Locked { .. }) => LockedError::new_err(text),
        ehi::Error::Store(_) => StoreError::new_err(text),
        ehi::Error::Model(_) => ModelError::new_err(text),
        ehi::Error::Data(_) => DataError::new_err(text),
        _ => TrainError::new_err(text),
    };
    match own.value(py).setattr("kind", kind) {
        Ok(()) => own,
        Err(failure) => failure,
    }
}

/// The innermost variant that wraps no other, of a value as `Debug` writes it: `Store(Locked { .. })`.
fn variant(debug: &str) -> &str {
    let end = debug.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(debug.len());
    let (name, rest) = debug.split_at(end);
    match rest.strip_prefix('(') {
        Some(inner) if inner.starts_with(char::is_uppercase) => variant(inner),
        _ => name,
    }
}
