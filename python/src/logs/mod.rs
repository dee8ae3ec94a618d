//! What the library reports by `tracing`, handed to Python's `logging`.
//!
//! Events and spans come from any thread, with or without the interpreter's lock, which none of them waits
//! for: they are queued, and handed over where a call of the package has the lock anyway. The levels of
//! Python's loggers are copied, so that what no logger wants costs one comparison.

mod levels;
mod queue;
mod record;
mod subscriber;

use pyo3::prelude::*;

pub use levels::refresh;
pub use queue::hand_over;

/// The logger above all others of the package, as in targets.
const ROOT: &str = "ehi";

/// Takes what the library reports from now on.
pub fn init(py: Python<'_>) -> PyResult<()> {
    // A second interpreter in the process finds one there.
    let _ = tracing::subscriber::set_global_default(subscriber::Queue);
    refresh(py)?;
    let at_exit = pyo3::wrap_pyfunction!(hand_over_rest, py)?;
    py.import("atexit")?.call_method1("register", (at_exit,)).map(drop)
}

#[pyfunction]
fn hand_over_rest(py: Python<'_>) -> PyResult<()> {
    hand_over(py)
}
