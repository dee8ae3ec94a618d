//! The records that wait to be handed to Python's loggers.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use pyo3::exceptions::PyException;
use pyo3::prelude::*;

use super::ROOT;
use super::record::Waiting;
use crate::call::is_forked;

/// Most records that wait; later ones are counted.
const MOST: usize = 10_000;

#[derive(Default)]
struct Waitings {
    records: Vec<Waiting>,
    dropped: usize,
}

static WAITING: Mutex<Waitings> = Mutex::new(Waitings { records: Vec::new(), dropped: 0 });
/// Whether there are any.
static ARE_WAITING: AtomicBool = AtomicBool::new(false);

pub fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

pub fn queue(waiting: Waiting) {
    let mut all = locked(&WAITING);
    if all.records.len() < MOST {
        all.records.push(waiting)
    } else {
        all.dropped += 1
    }
    ARE_WAITING.store(true, Ordering::Release);
}

/// Hands what waits to Python's loggers.
///
/// # Errors
/// What ends a program, such as `KeyboardInterrupt`; other errors of a handler are reported as unraisable.
pub fn hand_over(py: Python<'_>) -> PyResult<()> {
    // A child forked at any moment has its parent's records, and may have its lock.
    if !ARE_WAITING.load(Ordering::Acquire) || is_forked() {
        return Ok(());
    }
    ARE_WAITING.store(false, Ordering::Release);
    let Waitings { records, dropped } = std::mem::take(&mut *locked(&WAITING));
    let logging = py.import("logging")?;
    let handed = |done: PyResult<()>| match done {
        Err(error) if !error.is_instance_of::<PyException>(py) => Err(error),
        Err(error) => {
            error.write_unraisable(py, None);
            Ok(())
        }
        Ok(()) => Ok(()),
    };
    records.iter().try_for_each(|waiting| handed(waiting.hand_over(&logging)))?;
    if dropped > 0 {
        let logger = logging.call_method1("getLogger", (ROOT,))?;
        handed(logger.call_method1("warning", ("records left out: %d", dropped)).map(drop))?;
    }
    Ok(())
}
