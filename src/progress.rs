//! Progress and cancellation of long calls.

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

/// The progress of a long call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Progress {
    /// The current stage.
    pub stage: Stage,
    /// Units finished in this stage.
    pub done: u64,
    /// Units in this stage, if known.
    pub total: Option<u64>,
}

/// The stages of long calls; the unit of each is in its name or description.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Stage {
    /// Documents encoded and stored.
    Insert,
    /// Texts run through the frozen layers.
    FrozenLayers,
    /// Documents encoded and routed again with the current weights.
    Refresh,
    /// Iterations of k-means, which provides a tree's first leaves; fewer if it converges.
    Cluster,
    /// Passes over the documents while the initial tree is fitted.
    Initialise,
    /// Optimiser steps.
    Train,
    /// Optimiser steps of the tree alone.
    TrainIndexer,
    /// Optimiser steps of a query encoder.
    Distil,
    /// Queries evaluated.
    Evaluate,
    /// Questions encoded.
    Questions,
    /// Questions measured for the number of leaves they need.
    Calibrate,
    /// Embeddings and judgments copied into a new segment, each counted twice.
    Compact,
    /// Documents encoded with another model.
    Reencode,
    /// Documents of damaged segments rewritten, each counted twice.
    Repair,
    /// Pages, codes and documents checked.
    Verify,
}

impl Stage {
    /// Its name, in lower case.
    pub fn name(self) -> &'static str {
        match self {
            Self::Insert => "insert",
            Self::FrozenLayers => "encode",
            Self::Refresh => "encode again",
            Self::Cluster => "cluster",
            Self::Initialise => "start tree",
            Self::Train => "train",
            Self::TrainIndexer => "train tree",
            Self::Distil => "distil",
            Self::Evaluate => "evaluate",
            Self::Questions => "questions",
            Self::Calibrate => "calibrate",
            Self::Compact => "compact",
            Self::Reencode => "change over",
            Self::Repair => "repair",
            Self::Verify => "verify",
        }
    }
}

impl Progress {
    pub(crate) fn new(stage: Stage, done: usize, total: usize) -> Self {
        Self { stage, done: done as u64, total: Some(total as u64) }
    }

    /// Reports to the caller; returns `cancelled` if the callback asks to stop.
    pub(crate) fn tell<E>(self, on_progress: &mut OnProgress<'_>, cancelled: E) -> Result<(), E> {
        match on_progress(self) {
            ControlFlow::Continue(()) => Ok(()),
            ControlFlow::Break(()) => Err(cancelled),
        }
    }
}

/// The caller's callback asked to stop the call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Cancelled;

/// The caller's callback: receives the progress of the call, and returns whether to continue.
///
/// It holds no lock, so it may search and write. A write that has to wait for the call takes effect after the
/// callback's own call has done its work.
pub type OnProgress<'a> = dyn FnMut(Progress) -> ControlFlow<()> + 'a;

/// A callback that only returns whether to continue.
pub type Tick<'a> = dyn FnMut() -> ControlFlow<()> + 'a;

/// How often a call asks whether to continue while other threads do its work.
const BETWEEN_TICKS: Duration = Duration::from_millis(50);

/// Tells work on other threads that its call was cancelled.
#[derive(Debug, Default)]
pub(crate) struct Stop(AtomicBool);

impl Stop {
    /// An error once the call was cancelled. Work looks every few milliseconds.
    pub fn check(&self) -> Result<(), Cancelled> {
        if self.0.load(Ordering::Relaxed) { Err(Cancelled) } else { Ok(()) }
    }

    pub fn set(&self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

struct StopAtEnd<'a>(&'a Stop);

impl Drop for StopAtEnd<'_> {
    fn drop(&mut self) {
        self.0.set();
    }
}

/// Does work on another thread, and calls `tick` several times a second meanwhile, on this one.
///
/// A thread of a pool does the work itself, without ticks: if it waited, the work could need it.
pub(crate) fn ticking<T: Send, E: From<Cancelled> + Send>(
    tick: &mut Tick<'_>,
    work: impl FnOnce(&Stop) -> Result<T, E> + Send,
) -> Result<T, E> {
    let stop = Stop::default();
    if rayon::current_thread_index().is_some() {
        return work(&stop);
    }
    let (tell, told) = mpsc::sync_channel(1);
    thread::scope(|scope| {
        let stop = &stop;
        // Also if a tick panics, which the scope lets go on when the work has ended.
        let _ended = StopAtEnd(stop);
        let working = scope.spawn(move || drop(tell.send(work(stop))));
        loop {
            match told.recv_timeout(BETWEEN_TICKS) {
                Ok(done) => return stop.check().map_err(E::from).and(done),
                Err(RecvTimeoutError::Timeout) if stop.check().is_ok() && tick().is_break() => stop.set(),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => {
                    if let Err(panic) = working.join() {
                        std::panic::resume_unwind(panic);
                    }
                    return Err(Cancelled.into());
                }
            }
        }
    })
}

/// A callback that does nothing and never cancels.
pub fn no_progress(_: Progress) -> ControlFlow<()> {
    ControlFlow::Continue(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Error;

    #[test]
    fn work_ends_when_a_tick_breaks() {
        let mut ticks = 0;
        let tick: &mut Tick<'_> = &mut || {
            ticks += 1;
            if ticks < 3 { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        };
        // Never ends by itself.
        let ended = ticking(tick, |stop| -> Result<(), Error> {
            loop {
                stop.check()?;
                thread::yield_now();
            }
        });
        assert!(matches!(ended, Err(Error::Cancelled)), "{ended:?}");
        assert!(ticks >= 3);
    }

    #[test]
    #[should_panic(expected = "of a tick")]
    fn work_ends_when_a_tick_panics() {
        let _ = ticking(&mut || panic!("of a tick"), |stop| -> Result<(), Error> {
            loop {
                stop.check()?;
                thread::yield_now();
            }
        });
    }

    #[test]
    fn work_that_is_over_at_once_is_not_cancelled() {
        let tick: &mut Tick<'_> = &mut || ControlFlow::Continue(());
        assert_eq!(ticking(tick, |_| Ok::<_, Error>(7)).unwrap(), 7);
    }

    #[test]
    #[should_panic(expected = "of the work")]
    fn a_panic_of_the_work_goes_on() {
        let _ =
            ticking(&mut || ControlFlow::Continue(()), |_| -> Result<(), Error> { panic!("of the work") });
    }
}
