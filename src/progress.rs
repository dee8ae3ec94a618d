//! Progress and cancellation of long calls.

use std::ops::ControlFlow;

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

/// A callback that does nothing and never cancels.
pub fn no_progress(_: Progress) -> ControlFlow<()> {
    ControlFlow::Continue(())
}
