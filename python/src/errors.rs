//! Exceptions: one class for each kind of the library's error, with its text.

use ehi::store::StoreError;
use pyo3::create_exception;
use pyo3::exceptions::PyException;
use pyo3::prelude::*;

create_exception!(_ehi, Error, PyException, "What a call of the package fails with.");
create_exception!(_ehi, InputError, Error, "A document, a question or an option that cannot be used.");
create_exception!(_ehi, FilterError, InputError, "A filter that is none.");
create_exception!(_ehi, StoreError_, Error, "The directory of an index: missing, damaged, full, in use.");
create_exception!(_ehi, LockedError, StoreError_, "Another process writes to the index.");
create_exception!(_ehi, ModelError, Error, "A model or an encoder that cannot be used.");
create_exception!(_ehi, DataError, Error, "A dataset or a file of data.");
create_exception!(_ehi, TrainError, Error, "Training or evaluation.");
create_exception!(_ehi, CancelledError, Error, "The progress callback asked to stop.");
create_exception!(
    _ehi,
    PartialError,
    Error,
    "A call that stores documents in groups failed with `stored` of them stored and `refused` not; \
     `__cause__` says why."
);

pub fn add(module: &Bound<'_, PyModule>) -> PyResult<()> {
    let py = module.py();
    for (name, class) in [
        ("Error", py.get_type::<Error>()),
        ("InputError", py.get_type::<InputError>()),
        ("FilterError", py.get_type::<FilterError>()),
        ("StoreError", py.get_type::<StoreError_>()),
        ("LockedError", py.get_type::<LockedError>()),
        ("ModelError", py.get_type::<ModelError>()),
        ("DataError", py.get_type::<DataError>()),
        ("TrainError", py.get_type::<TrainError>()),
        ("CancelledError", py.get_type::<CancelledError>()),
        ("PartialError", py.get_type::<PartialError>()),
    ] {
        class.setattr("__name__", name)?;
        class.setattr("__qualname__", name)?;
        class.setattr("__module__", "ehi")?;
        module.add(name, class)?;
    }
    Ok(())
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
        ehi::Error::Store(StoreError::Locked { .. }) => LockedError::new_err(text),
        ehi::Error::Store(_) => StoreError_::new_err(text),
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
