//! Calls of the library without the interpreter's lock, with progress and Ctrl-C.

use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use ehi::Progress;
use pyo3::prelude::*;

use crate::errors::exception;

/// How often a long call looks for a signal and tells how far it is.
const INTERVAL: Duration = Duration::from_millis(50);

/// Runs a short call.
pub fn run<T: Send>(py: Python<'_>, work: impl FnOnce() -> ehi::Result<T> + Send) -> PyResult<T> {
    py.detach(work).map_err(|error| exception(py, error))
}

/// Runs a long call. `progress` is called with the stage's name, what is done and the total or `None`; what
/// it raises ends the call and is raised, and so is Ctrl-C. `False` from it ends the call with
/// `CancelledError`.
pub fn watched<T: Send>(
    py: Python<'_>,
    progress: Option<Py<PyAny>>,
    work: impl FnOnce(&mut dyn FnMut(Progress) -> ControlFlow<()>) -> ehi::Result<T> + Send,
) -> PyResult<T> {
    let mut raised = None;
    let result = py.detach(|| {
        let mut told = Instant::now();
        let mut on_progress = |now: Progress| {
            let is_last = now.total == Some(now.done);
            if !is_last && told.elapsed() < INTERVAL {
                return ControlFlow::Continue(());
            }
            told = Instant::now();
            let heard = Python::attach(|py| {
                py.check_signals()?;
                let Some(progress) = &progress else { return Ok(true) };
                let answer = progress.call1(py, (format!("{:?}", now.stage), now.done, now.total))?;
                Ok::<_, PyErr>(!answer.bind(py).is(pyo3::types::PyBool::new(py, false)))
            });
            match heard {
                Ok(true) => ControlFlow::Continue(()),
                Ok(false) => ControlFlow::Break(()),
                Err(error) => {
                    raised = Some(error);
                    ControlFlow::Break(())
                }
            }
        };
        work(&mut on_progress)
    });
    match (result, raised) {
        (Err(_), Some(raised)) => Err(raised),
        (result, _) => result.map_err(|error| exception(py, error)),
    }
}
