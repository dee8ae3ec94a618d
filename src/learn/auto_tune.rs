//! Automatic tuning on a background thread.

use std::ops::ControlFlow;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use super::tree::{TuneOptions, Tuned};
use crate::error::{Error, InputError, Result};
use crate::index::Index;
use crate::index::health::GROWN;
use crate::progress::Progress;

/// Default interval between checks for a due tuning.
pub const DEFAULT_INTERVAL: Duration = Duration::from_secs(10);

/// Shortest interval between checks of the leaves' load.
const SHORTEST_INTERVAL: Duration = Duration::from_millis(1);
/// The collection must grow by at least one part in this many between tunings.
const LEAST_GROWTH: usize = 10;

/// Options of [`Index::auto_tune`].
#[derive(Clone, Debug)]
pub struct AutoTuneOptions {
    /// Interval between checks for a due tuning, [`DEFAULT_INTERVAL`] by default; a check costs next to
    /// nothing.
    pub interval: Duration,
    /// Options of each tuning.
    pub tune: TuneOptions,
}

impl Default for AutoTuneOptions {
    fn default() -> Self {
        Self { interval: DEFAULT_INTERVAL, tune: TuneOptions::default() }
    }
}

/// Keeps the tree of an index in step with its collection until dropped; created by [`Index::auto_tune`].
///
/// Dropping it cancels a running tuning, which leaves the index unchanged, and waits for it to stop.
#[must_use = "it tunes for as long as it lives"]
#[derive(Debug)]
pub struct AutoTune {
    shared: Arc<TuningThread>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct TuningThread {
    state: Mutex<TuningState>,
    /// Notified of each change of the state.
    changed: Condvar,
}

#[derive(Debug, Default)]
struct TuningState {
    ends: bool,
    tunings: usize,
    last: Option<Result<Tuned>>,
}

impl Index {
    /// Tunes the index on a background thread whenever [`Self::tuning_due`] returns true: once it has enough
    /// documents for searches to need a tree, and each time the collection has doubled, or has grown by a
    /// tenth or more and become uneven. It never trains the encoder.
    ///
    /// A tuning that gains too little leaves the index unchanged, and the next one is tried when the
    /// collection has doubled again. The thread keeps the index open only during a tuning: it ends once the
    /// index is dropped elsewhere, or with the returned value.
    ///
    /// # Errors
    /// [`StoreError::ReadOnly`](crate::store::StoreError::ReadOnly). Failures of a tuning are logged and in
    /// [`AutoTune::last`].
    pub fn auto_tune(self: &Arc<Self>, options: AutoTuneOptions) -> Result<AutoTune> {
        self.check_writable()?;
        let shared = Arc::new(TuningThread::default());
        let (own, index) = (Arc::clone(&shared), Arc::downgrade(self));
        let thread = thread::spawn(move || own.run(&index, &options));
        Ok(AutoTune { shared, thread: Some(thread) })
    }
}

impl AutoTune {
    /// The number of finished tunings, and the outcome of the last one, which is returned only once.
    pub fn last(&self) -> (usize, Option<Result<Tuned>>) {
        let mut state = self.shared.state();
        (state.tunings, state.last.take())
    }
}

impl Drop for AutoTune {
    fn drop(&mut self) {
        self.shared.state().ends = true;
        self.shared.changed.notify_all();
        if let Some(thread) = self.thread.take() {
            // A panic in the thread has already been printed.
            let _ = thread.join();
        }
    }
}

impl TuningThread {
    fn state(&self) -> MutexGuard<'_, TuningState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn run(&self, index: &Weak<Index>, options: &AutoTuneOptions) {
        // Documents at which the next tuning is tried, after one that did not change the index.
        let mut next = 0;
        loop {
            match index.upgrade() {
                Some(index) => self.tune_if_due(&index, options, &mut next),
                None => return,
            }
            let state = self.state();
            let interval = options.interval.max(SHORTEST_INTERVAL);
            let wait = self.changed.wait_timeout_while(state, interval, |state| !state.ends);
            if wait.unwrap_or_else(PoisonError::into_inner).0.ends {
                return;
            }
        }
    }

    fn tune_if_due(&self, index: &Index, options: &AutoTuneOptions, next: &mut usize) {
        let documents = index.len();
        if documents < *next {
            return;
        }
        let due = match index.tuning_due() {
            Ok(due) => due,
            Err(error) => return self.ended(documents, next, index, Err(error)),
        };
        let Some(due) = due else { return };
        tracing::info!(index = %index.path().display(), "{due}: tuning begins");
        let goes_on = |_: Progress| match self.state().ends {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        };
        match index.with_progress(goes_on).tune(&options.tune) {
            // Another change is under way: try later.
            Err(Error::Cancelled | Error::Input(InputError::ChangeUnderWay)) => {}
            tuned => self.ended(documents, next, index, tuned),
        }
    }

    fn ended(&self, documents: usize, next: &mut usize, index: &Index, tuned: Result<Tuned>) {
        // After a tuning that failed or gained too little, wait until the collection is much larger.
        *next = match &tuned {
            Ok(tuned) if tuned.change.is_some() => documents + documents / LEAST_GROWTH,
            _ => GROWN * documents,
        };
        if let Err(error) = &tuned {
            tracing::warn!(index = %index.path().display(), %error, "tuning failed; the index is as before");
        }
        let mut state = self.state();
        (state.tunings, state.last) = (state.tunings + 1, Some(tuned));
    }
}
