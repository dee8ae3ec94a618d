//! Learning the weights on a thread, when judgments have changed.

use std::ops::ControlFlow;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};

use super::{FEWEST_FUSION_QUESTIONS, Fused};
use crate::disk::Backend;
use crate::error::Error;
use crate::index::Index;
use crate::index::active_model::ActiveModel;
use crate::progress::Progress;
use crate::store::Store;

/// The number of judgments must have changed by one part in this many.
const CHANGED: usize = 10;
/// At least by this many parts of judgments.
const LEAST: usize = 200;

/// The fits of an index on a thread. Dropping it cancels one that runs, which leaves the index as it was.
#[derive(Default)]
pub(in crate::index) struct Fits(Mutex<Option<Fit>>);

/// A fit on a thread, which may have ended.
struct Fit {
    /// The number of its model.
    model: u32,
    shared: Arc<Shared>,
    thread: JoinHandle<Option<Fused>>,
}

#[derive(Default)]
struct Shared {
    ends: AtomicBool,
    /// The number of judgments when weights were last learned.
    judgments: AtomicUsize,
}

impl Index {
    /// Begins to learn the weights on a thread if enough judgments have changed since that was done, unless
    /// it is being done.
    pub(in crate::index) fn fit_if_due(&self) {
        if self.is_read_only() {
            return;
        }
        let Ok(Some(store)) = self.judgments_for_reading() else { return };
        let serving = self.serving();
        let judgments = store.read().live();
        let mut fit = self.fits.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(old) = fit.take_if(|fit| fit.model != serving.number) {
            old.cancel();
        }
        if fit.as_ref().is_some_and(|fit| !fit.thread.is_finished()) {
            return;
        }
        let before = fit.as_ref().map_or_else(|| fitted(&serving), |fit| fit.shared.judgments.load(Relaxed));
        if !is_due(judgments, before) || !serving.store.is_lexical() {
            return;
        }
        let model = serving.number;
        let (shared, backend) = (Arc::new(Shared::default()), self.root.backend());
        let own = Arc::clone(&shared);
        let thread = thread::Builder::new().name("ehi-fit".to_owned());
        let thread = thread.spawn(move || fit_while_due(&serving, &store, &*backend, &own));
        let Some(thread) = self.attempted(thread, "the weights are not learned") else { return };
        *fit = Some(Fit { model, shared, thread });
    }

    /// Waits until the weights that this index is learning by itself are learned; returns the outcome, or
    /// `None` if it is not learning any.
    pub fn finish_fit(&self) -> Option<Fused> {
        let fit = self.fits.0.lock().unwrap_or_else(PoisonError::into_inner).take()?;
        fit.thread.join().ok().flatten()
    }
}

impl Drop for Fits {
    fn drop(&mut self) {
        let fit = self.0.get_mut().unwrap_or_else(PoisonError::into_inner).take();
        fit.into_iter().for_each(Fit::cancel);
    }
}

impl Fit {
    /// Stops it, and waits for that, because it has the model open.
    fn cancel(self) {
        self.shared.ends.store(true, Relaxed);
        // A panic in the thread has already been printed.
        let _ = self.thread.join();
    }
}

/// The number of judgments with which the weights of a model were learned.
fn fitted(model: &ActiveModel) -> usize {
    model.fusion().map_or(0, |fusion| fusion.judgments)
}

fn is_due(judgments: usize, before: usize) -> bool {
    judgments >= FEWEST_FUSION_QUESTIONS && judgments.abs_diff(before) * CHANGED >= before.max(LEAST)
}

/// Learns the weights, and again while judgments change.
fn fit_while_due(
    model: &ActiveModel,
    store: &Arc<Store>,
    backend: &dyn Backend,
    shared: &Shared,
) -> Option<Fused> {
    loop {
        let judgments = store.read().live();
        shared.judgments.store(judgments, Relaxed);
        let mut goes_on = |_: Progress| match shared.ends.load(Relaxed) {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        };
        let fitted = model.fit(Some(store), &[], backend, &mut goes_on).and_then(|fused| {
            if let Some(fusion) = fused.fusion.clone().filter(|_| !shared.ends.load(Relaxed)) {
                model.set_fusion(backend, fusion)?;
            }
            Ok(fused)
        });
        match fitted {
            Ok(_) if is_due(store.read().live(), judgments) => {}
            Ok(fused) => return Some(fused),
            Err(Error::Cancelled) => return None,
            Err(error) => {
                tracing::warn!(path = %model.store.path().display(), %error, "the weights are not learned");
                return None;
            }
        }
    }
}
