//! Runs a long call of the library with bars and graceful interruption.

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
pub fn run<T>(
    left: &'static str,
    call: impl FnOnce(&mut OnProgress<'_>) -> Result<T, Error>,
) -> Result<T, Failure> {
    let interrupts = Interrupts::watch();
    let mut bars = Bars::new();
    let result = call(&mut |progress| show(&mut bars, &interrupts, progress));
    bars.clear();
    match (result, interrupts.signal()) {
        (Err(Error::Cancelled), Some(signal)) => Err(Failure::Stopped { signal, left: left.to_owned() }),
        (result, _) => Ok(result?),
    }
}

/// A callback of the library that shows progress, and cancels after a signal.
pub fn show(bars: &mut Bars, interrupts: &Interrupts, progress: Progress) -> ControlFlow<()> {
    match interrupts.signal() {
        Some(_) => ControlFlow::Break(()),
        None => bars.show(progress),
    }
}
