//! The Python package: the library's calls under Python's names.
//!
//! `index/` has the store, `request.rs` and `search.rs` searches and their results, `model.rs` models,
//! `training.rs` training. `call.rs` runs a call without the interpreter's lock, `arguments.rs` reads
//! arguments, `errors.rs` turns failures into exceptions, and `value.rs` converts data between the two
//! languages. `logs.rs` hands what the library reports to `logging`.

mod arguments;
mod arrow;
mod call;
mod columns;
mod errors;
mod index;
mod logs;
mod model;
mod options;
mod records;
mod request;
mod search;
mod shards;
mod training;
mod value;

use pyo3::prelude::*;

#[pymodule]
mod _ehi {
    #[pymodule_export]
    use super::errors::{
        CancelledError, DataError, Error, FilterError, InputError, LockedError, ModelError, PartialError,
        StoreError, TrainError,
    };
    #[pymodule_export]
    use super::index::{AutoTune, Documents, Index, ScopedIndex};
    #[pymodule_export]
    use super::model::{Encoder, Model, Reranker};
    #[pymodule_export]
    use super::search::{Hit, SearchResult};
    #[pymodule_export]
    use super::shards::_shards;
    #[pymodule_export]
    use super::training::{evaluate, train, train_reranker};

    #[pymodule_init]
    fn init(module: &pyo3::Bound<'_, pyo3::types::PyModule>) -> pyo3::PyResult<()> {
        super::errors::init(module.py())?;
        super::logs::init(module.py())
    }

    #[pymodule_export]
    #[allow(non_upper_case_globals, reason = "Python's name")]
    const __version__: &str = env!("CARGO_PKG_VERSION");
}
