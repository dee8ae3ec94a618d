//! Runs a long call of the library with bars and graceful interruption.

use std::cell::RefCell;
use std::ops::ControlFlow;

use ehi::{Error, OnProgress, Progress};

use crate::bars::Bars;
use crate::failure::Failure;
use crate::interrupt::Interrupts;

/// The state after a signal, for a call that changes nothing before its end.
pub const AS_BEFORE: &str = "the index is as before";

/// Runs a call; `left` describes the state after a signal.
///
/// # Errors
/// Those of the call; [`Failure::Stopped`].
pub fn run<T>(left: &str, call: impl FnOnce(&mut OnProgress<'_>) -> Result<T, Error>) -> Result<T, Failure> {
    let watched = Watched::begin();
    let result = call(&mut |progress| watched.show(progress));
    watched.end(left, result)
}

/// The bars of a call, and the signals that end it.
pub struct Watched {
    bars: RefCell<Bars>,
    interrupts: Interrupts,
}

impl Watched {
    pub fn begin() -> Self {
        Self { bars: RefCell::new(Bars::new()), interrupts: Interrupts::watch() }
    }

    /// A callback of the library that shows progress, and cancels after a signal.
    pub fn show(&self, progress: Progress) -> ControlFlow<()> {
        match self.interrupts.signal() {
            Some(_) => ControlFlow::Break(()),
            None => self.bars.borrow_mut().show(progress),
        }
    }

    /// The end of the call, of which a signal leaves `left`.
    pub fn end<T>(&self, left: &str, result: Result<T, Error>) -> Result<T, Failure> {
        self.bars.borrow_mut().clear();
        match (result, self.interrupts.signal()) {
            (Err(Error::Cancelled), Some(signal)) => Err(Failure::Stopped { signal, left: left.to_owned() }),
            (result, _) => Ok(result?),
        }
    }
}
