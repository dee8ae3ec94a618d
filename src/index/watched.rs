//! Progress reports for work that holds locks.

use std::panic::resume_unwind;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

use crate::error::{Error, Result};
use crate::progress::{OnProgress, Progress, Stage};
use crate::store::{StoreError, Tick};

/// How often the callback is called.
const INTERVAL: Duration = Duration::from_millis(50);

/// Runs work that takes locks, and reports its progress: before it begins, at intervals, and at its end.
///
/// The work runs on a separate thread. So the callback holds no lock, and may make any call: a call that
/// needs a lock waits for the work, which never waits for the callback.
///
/// # Errors
/// Those of the work; [`Error::Cancelled`] if the callback asks for it in time.
pub(super) fn watched<T: Send>(
    stage: Stage,
    total: usize,
    on_progress: &mut OnProgress<'_>,
    work: impl FnOnce(Tick<'_>) -> Result<T> + Send,
) -> Result<T> {
    let (done, cancelled) = (AtomicUsize::new(0), AtomicBool::new(false));
    let mut tick = || {
        done.fetch_add(1, Ordering::Relaxed);
        if cancelled.load(Ordering::Relaxed) { Err(StoreError::Cancelled) } else { Ok(()) }
    };
    Progress::new(stage, 0, total).tell(on_progress, Error::Cancelled)?;
    let (span, subscriber) = (tracing::Span::current(), tracing::dispatcher::get_default(Clone::clone));
    let worked = thread::scope(|scope| {
        let _cancels = CancelsOnPanic(&cancelled);
        let (running, ended) = channel::<()>();
        let worker = scope.spawn(move || {
            let _running = running;
            tracing::dispatcher::with_default(&subscriber, || span.in_scope(|| work(&mut tick)))
        });
        while ended.recv_timeout(INTERVAL) == Err(RecvTimeoutError::Timeout) {
            // Later writes may have added to the work, so it can exceed its total.
            let done = done.load(Ordering::Relaxed).min(total);
            if on_progress(Progress::new(stage, done, total)).is_break() {
                cancelled.store(true, Ordering::Relaxed);
                break;
            }
        }
        worker.join().unwrap_or_else(|panic| resume_unwind(panic))
    })?;
    if !cancelled.load(Ordering::Relaxed) {
        // Too late to cancel.
        let _ = on_progress(Progress::new(stage, total, total));
    }
    Ok(worked)
}

/// If the callback panics, the work must still be waited for, so it should end soon.
struct CancelsOnPanic<'a>(&'a AtomicBool);

impl Drop for CancelsOnPanic<'_> {
    fn drop(&mut self) {
        if thread::panicking() {
            self.0.store(true, Ordering::Relaxed);
        }
    }
}
