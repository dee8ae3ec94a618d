//! Learning the weights on a thread, when judgments have changed.

use std::ops::ControlFlow;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

use rayon::{ThreadPoolBuilder, current_num_threads};

use super::{FEWEST_FUSION_QUESTIONS, Fused};
use crate::disk::Backend;
use crate::error::Error;
use crate::index::Index;
use crate::index::active_model::ActiveModel;
use crate::index::judgment_store::count_judgments;
use crate::progress::Progress;
use crate::store::Store;

/// The number of judgments must have grown by one part in this many.
const GROWN: usize = 10;
/// At least by this many parts of judgments.
const LEAST: usize = 200;

/// The fits of an index on a thread. Dropping it cancels one that runs, which leaves the index as it was.
#[derive(Default)]
pub(in crate::index) struct Fits(Mutex<State>);

#[derive(Default)]
struct State {
    fit: Option<Fit>,
    /// Calls that allow none to begin.
    paused: usize,
}

/// A fit on a thread, which may have ended.
struct Fit {
    /// The number of its model.
    model: u32,
    shared: Arc<Shared>,
    thread: JoinHandle<Option<Fused>>,
    /// The process that has the thread.
    process: u32,
}

#[derive(Default)]
struct Shared {
    ends: AtomicBool,
    /// The number of judgments when weights were last learned.
    judgments: AtomicUsize,
}

/// While it lives, the index does not learn weights by itself.
pub(crate) struct Paused<'a>(&'a Index);

impl Index {
    /// Begins to learn the weights on a thread if enough judgments have changed since that was done, unless
    /// it is being done.
    pub(in crate::index) fn fit_if_due(&self) {
        if self.is_read_only() || self.check_process().is_err() {
            return;
        }
        let of_old_model = self.fits.state().fit.take_if(|fit| fit.model != self.serving().number);
        // Without the lock: it has the old model open until it stops.
        of_old_model.into_iter().for_each(Fit::cancel);
        let Ok(Some(store)) = self.judgments_for_reading() else { return };
        let state = &mut *self.fits.state();
        let serving = self.serving();
        let fit = state.fit.as_ref();
        if state.paused > 0 || fit.is_some_and(|fit| !fit.thread.is_finished()) {
            return;
        }
        let tried = fit.filter(|fit| fit.model == serving.number).map(|fit| &fit.shared.judgments);
        let before = tried.map_or(0, |tried| tried.load(Relaxed)).max(fitted(&serving));
        let can_fit = serving.store.is_lexical() && serving.model().has_encoder();
        if !can_fit || !count_judgments(&store).is_ok_and(|count| is_due(count, before)) {
            return;
        }
        let (model, process) = (serving.number, std::process::id());
        let (shared, backend) = (Arc::new(Shared::default()), self.root.backend());
        let own = Arc::clone(&shared);
        let fit = move || {
            // All threads of the callers' pool may be waiting for this one.
            let pool = ThreadPoolBuilder::new().num_threads(current_num_threads()).build().ok()?;
            pool.install(|| fit_while_due(&serving, &store, &*backend, &own))
        };
        let thread = thread::Builder::new().name("ehi-fit".to_owned()).spawn(fit);
        if let Some(thread) = self.attempted(thread, "the weights are not learned") {
            state.fit = Some(Fit { model, shared, thread, process });
        }
    }

    /// Cancels the learning of weights, and allows none to begin while the result lives.
    pub(crate) fn pause_fits(&self) -> Paused<'_> {
        let fit = {
            let mut state = self.fits.state();
            state.paused += 1;
            state.fit.take()
        };
        fit.into_iter().for_each(Fit::cancel);
        Paused(self)
    }

    /// Waits until the weights that this index is learning by itself are learned; returns the outcome, or
    /// `None` if it is not learning any.
    pub fn finish_fit(&self) -> Option<Fused> {
        let fit = self.fits.state().fit.take();
        fit.and_then(Fit::join)
    }
}

impl Drop for Paused<'_> {
    fn drop(&mut self) {
        self.0.fits.state().paused -= 1;
        self.0.fit_if_due();
    }
}

impl Fits {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Fits {
    fn drop(&mut self) {
        let fit = self.state().fit.take();
        fit.into_iter().for_each(Fit::cancel);
    }
}

impl Fit {
    /// Stops it, and waits for that, because it has the model open.
    fn cancel(self) {
        self.shared.ends.store(true, Relaxed);
        self.join();
    }

    /// Waits for it. A forked child does not have the thread, and a panic in it has already been printed.
    fn join(self) -> Option<Fused> {
        if self.process == std::process::id() { self.thread.join().ok().flatten() } else { None }
    }
}

/// The number of judgments with which the weights of a model were learned.
fn fitted(model: &ActiveModel) -> usize {
    model.fusion().map_or(0, |fusion| fusion.judgments)
}

fn is_due(judgments: usize, before: usize) -> bool {
    judgments >= FEWEST_FUSION_QUESTIONS && judgments.saturating_sub(before) * GROWN >= before.max(LEAST)
}

/// Learns the weights, and again while judgments change.
fn fit_while_due(
    model: &ActiveModel,
    store: &Arc<Store>,
    backend: &dyn Backend,
    shared: &Shared,
) -> Option<Fused> {
    loop {
        let judgments = count_judgments(store).unwrap_or(0);
        shared.judgments.store(judgments, Relaxed);
        let mut goes_on = |_: Progress| match shared.ends.load(Relaxed) {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        };
        match model.fit_and_keep(Some(store), &[], backend, &mut goes_on) {
            Ok(_) if count_judgments(store).is_ok_and(|count| is_due(count, judgments)) => {}
            Ok(fused) => return Some(fused),
            Err(Error::Cancelled) => return None,
            Err(error) => {
                tracing::warn!(path = %model.store.path().display(), %error, "the weights are not learned");
                return None;
            }
        }
    }
}
