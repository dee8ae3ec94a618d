//! Progress and cancellation of long calls.

use std::ops::ControlFlow;

/// How far a long call has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Progress {
    /// What is being done.
    pub stage: Stage,
    /// Units done in this stage.
    pub done: u64,
    /// Units in this stage, where that is known.
    pub total: Option<u64>,
}

/// The stages that long calls go through; the unit of each is in its name or description.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Stage {
    /// Documents encoded and stored.
    Insert,
    /// Texts run through the frozen layers.
    FrozenLayers,
    /// Documents encoded and routed anew with the weights of the moment.
    Refresh,
    /// Iterations of k-means, which gives a tree its first leaves; fewer where it converges.
    Cluster,
    /// Passes over the documents while the tree is fitted to its start.
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
    /// Questions of which it was measured how many leaves they need.
    Calibrate,
    /// Documents copied into a new segment.
    Compact,
    /// Documents encoded with another model.
    Reencode,
    /// Documents of damaged segments written again, each counted twice.
    Repair,
    /// Pages, codes and documents checked.
    Verify,
}

impl Progress {
    pub(crate) fn new(stage: Stage, done: usize, total: usize) -> Self {
        Self { stage, done: done as u64, total: Some(total as u64) }
    }

    /// Tells the caller; `cancelled` where the answer is to stop.
    pub(crate) fn tell<E>(self, on_progress: &mut OnProgress<'_>, cancelled: E) -> Result<(), E> {
        match on_progress(self) {
            ControlFlow::Continue(()) => Ok(()),
            ControlFlow::Break(()) => Err(cancelled),
        }
    }
}

/// The caller's callback answered that the call is to stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Cancelled;

/// The caller's callback: told how far the call is, it answers whether to go on.
///
/// It holds no lock, so it may search and write. A write that waits for the call is done after the callback's
/// own call has done its work.
pub type OnProgress<'a> = dyn FnMut(Progress) -> ControlFlow<()> + 'a;

/// A callback that is not interested and never cancels.
pub fn no_progress(_: Progress) -> ControlFlow<()> {
    ControlFlow::Continue(())
}
