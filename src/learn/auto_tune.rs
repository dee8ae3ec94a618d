//! Automatic tuning on a background thread.

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
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
    ends: AtomicBool,
    /// The number of finished tunings, and the outcome of the last one.
    last: Mutex<(usize, Option<Result<Tuned>>)>,
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
        let mut last = self.shared.last();
        (last.0, last.1.take())
    }
}

impl Drop for AutoTune {
    fn drop(&mut self) {
        self.shared.ends.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            // A panic in the thread has already been printed.
            let _ = thread.join();
        }
    }
}

impl TuningThread {
    fn last(&self) -> MutexGuard<'_, (usize, Option<Result<Tuned>>)> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn ends(&self) -> bool {
        self.ends.load(Ordering::Relaxed)
    }

    fn run(&self, index: &Weak<Index>, options: &AutoTuneOptions) {
        // Documents at which the next tuning is tried, after one that did not change the index.
        let mut next = 0;
        while !self.ends() {
            match index.upgrade() {
                Some(index) => self.tune_if_due(&index, options, &mut next),
                None => return,
            }
            // A tuning may have used up the wake-up.
            if !self.ends() {
                thread::park_timeout(options.interval.max(SHORTEST_INTERVAL));
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
        let goes_on = |_: Progress| match self.ends() {
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
        let mut last = self.last();
        *last = (last.0 + 1, Some(tuned));
    }
}
