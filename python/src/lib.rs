//! The Python package: the library's calls under Python's names.
//!
//! `index/` has the store, `search.rs` what it finds, `model.rs` models, `training.rs` what makes them.
//! `call.rs` runs a call without the interpreter's lock, `errors.rs` turns its failure into an exception,
//! `value.rs` turns data of either side into the other's.

mod call;
mod columns;
mod errors;
mod index;
mod model;
mod options;
mod search;
mod shards;
mod training;
mod value;

use pyo3::prelude::*;

#[pymodule]
mod _ehi {
    #[pymodule_export]
    use super::index::{AutoTune, Documents, Index};
    #[pymodule_export]
    use super::model::{Encoder, Model, Reranker};
    #[pymodule_export]
    use super::search::{Hit, SearchResult, SearchResults};
    #[pymodule_export]
    use super::training::{evaluate, train, train_reranker};

    use super::*;

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        module.add("__version__", env!("CARGO_PKG_VERSION"))?;
        errors::add(module)?;
        shards::add(module)
    }
}
