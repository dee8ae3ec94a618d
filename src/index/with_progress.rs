//! Long calls with progress reports.

use std::fmt;
use std::ops::ControlFlow;

use super::Index;
#[cfg(feature = "eval")]
use crate::progress::OnProgress;
use crate::progress::Progress;

/// The long calls of an index, with a callback that receives progress and may cancel; made by
/// [`Index::with_progress`].
#[must_use = "it does nothing until one of the calls is made"]
pub struct WithProgress<'a, F> {
    pub(super) index: &'a Index,
    pub(super) on_progress: F,
}

#[cfg(feature = "eval")]
impl<F: FnMut(Progress) -> ControlFlow<()>> WithProgress<'_, F> {
    /// The index and the callback, for a call in another module.
    pub(crate) fn parts(&mut self) -> (&Index, &mut OnProgress<'_>) {
        (self.index, &mut self.on_progress)
    }
}

impl<F> fmt::Debug for WithProgress<'_, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WithProgress").field("index", self.index).finish_non_exhaustive()
    }
}

impl Index {
    /// Reports the progress of the next call to `on_progress`: [`WithProgress::insert_batch`] and the other
    /// methods of [`WithProgress`] do the same as the calls of the same names here.
    ///
    /// The callback returns whether to continue; [`ControlFlow::Break`] ends the call with
    /// [`Error::Cancelled`](crate::Error::Cancelled). It may search and write; a write waits if one from
    /// another thread would.
    ///
    /// # Examples
    /// ```no_run
    /// # let index = ehi::Index::open("./my-index")?;
    /// use std::ops::ControlFlow;
    ///
    /// index
    ///     .with_progress(|progress| {
    ///         eprintln!("{} of {:?}", progress.done, progress.total);
    ///         ControlFlow::Continue(())
    ///     })
    ///     .compact()?;
    /// # Ok::<(), ehi::Error>(())
    /// ```
    pub fn with_progress<F>(&self, on_progress: F) -> WithProgress<'_, F>
    where
        F: FnMut(Progress) -> ControlFlow<()>,
    {
        WithProgress { index: self, on_progress }
    }
}
