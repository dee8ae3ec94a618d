//! Runs calls of the library on separate threads, a bounded number at once, with progress and cancellation.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::thread;

use rmcp::model::ProgressNotificationParam;
use rmcp::service::RequestContext;
use rmcp::{ErrorData, RoleServer};
use tokio::sync::{Semaphore, watch};
use tokio::task::spawn_blocking;
use tokio_util::sync::CancellationToken;

use super::limits::CALLS;

/// Bytes of arguments that count like one more call.
const BYTES: usize = 1 << 20;

/// Reports the progress of a call to the client, and observes its cancellation.
pub struct Watch {
    done: watch::Sender<(u64, u64)>,
    cancelled: CancellationToken,
}

impl Watch {
    /// Reports that `done` of `of` are done. Breaks if the call was cancelled.
    pub fn tell(&self, done: usize, of: usize) -> ControlFlow<()> {
        // Replaces a number that was not sent yet.
        self.done.send_replace((done as u64, of as u64));
        if self.cancelled.is_cancelled() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}

pub struct Work {
    threads: Arc<Semaphore>,
    all: u32,
    places: Semaphore,
}

impl Work {
    pub fn new() -> Self {
        let all = thread::available_parallelism().map_or(1, |all| all.get().min(CALLS)) as u32;
        Self { threads: Arc::new(Semaphore::new(all as usize)), all, places: Semaphore::new(CALLS) }
    }

    /// Waits until no call runs; none begins afterwards.
    pub async fn ended(&self) {
        // Fails if it was called before.
        let _ = self.threads.acquire_many(self.all).await;
        self.threads.close();
    }

    /// Runs a call whose arguments take `bytes`. A call that has started runs to its end, unless it checks
    /// its [`Watch`].
    ///
    /// # Errors
    /// Too many calls wait, the call was cancelled before it began, or it panicked.
    pub async fn run<T: Send + 'static>(
        &self,
        context: &RequestContext<RoleServer>,
        bytes: usize,
        call: impl FnOnce(&Watch) -> T + Send + 'static,
    ) -> Result<T, ErrorData> {
        let undone = |message: String| ErrorData::internal_error(message, None);
        let cancelled = || undone("cancelled".to_owned());
        let panicked = |_| undone("the call failed inside the server, which goes on".to_owned());
        // The arguments of calls that wait take memory, so a large call takes several places.
        let places = (1 + bytes / BYTES).min(CALLS) as u32;
        let _places = self.places.try_acquire_many(places).map_err(|_| {
            undone(format!(
                "{CALLS} calls, or fewer with large arguments, run or wait; ask again when some of them are answered"
            ))
        })?;
        let permit = tokio::select! {
            permit = Arc::clone(&self.threads).acquire_owned() => permit.map_err(|_| cancelled())?,
            () = context.ct.cancelled() => return Err(cancelled()),
        };
        let (done, mut told) = watch::channel((0, 0));
        let watch = Watch { done, cancelled: context.ct.clone() };
        let mut job = spawn_blocking(move || {
            let _permit = permit;
            call(&watch)
        });
        if let Some(token) = context.meta.get_progress_token() {
            loop {
                tokio::select! {
                    // In this order, so that the last number is sent too.
                    biased;
                    heard = told.changed() => if heard.is_err() { break },
                    ended = &mut job => return ended.map_err(panicked),
                }
                let (done, of) = *told.borrow_and_update();
                let progress =
                    ProgressNotificationParam::new(token.clone(), done as f64).with_total(of as f64);
                // At the end of a session nothing receives the notification, so the answer must not wait for
                // it.
                tokio::select! {
                    biased;
                    _ = context.peer.notify_progress(progress) => {}
                    ended = &mut job => return ended.map_err(panicked),
                }
            }
        }
        job.await.map_err(panicked)
    }
}
