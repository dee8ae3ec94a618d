//! Calls of the library on threads of their own: so many at once, with progress, and cancelled where they can
//! be.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use rmcp::RoleServer;
use rmcp::model::ProgressNotificationParam;
use rmcp::service::RequestContext;
use tokio::sync::{Semaphore, watch};
use tokio::task::spawn_blocking;
use tokio_util::sync::CancellationToken;

use super::limits::{ARGUMENTS, CALLS};

/// Why a call was not done.
#[derive(Debug)]
pub enum Undone {
    /// So many are at work or wait that another one would only take memory.
    Busy,
    /// Its client or the end of the session cancelled it before it began.
    Cancelled,
    /// It panicked; what was said of it is on standard error.
    Panicked,
}

/// How far a call is, told to the client; whether it goes on, asked of the client.
pub struct Watch {
    done: watch::Sender<(u64, u64)>,
    cancelled: CancellationToken,
}

impl Watch {
    /// Tells that so many are done of so many.
    pub fn tell(&self, done: usize, of: usize) -> ControlFlow<()> {
        // Where it is not read in time, the next number takes its place.
        self.done.send_replace((done as u64, of as u64));
        if self.cancelled.is_cancelled() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}

pub struct Work {
    threads: Arc<Semaphore>,
    all: u32,
    calls: AtomicUsize,
    arguments: AtomicUsize,
}

impl Work {
    pub fn new() -> Self {
        let all = thread::available_parallelism().map_or(1, |all| all.get().min(CALLS)) as u32;
        let (calls, arguments) = (AtomicUsize::new(0), AtomicUsize::new(0));
        Self { threads: Arc::new(Semaphore::new(all as usize)), all, calls, arguments }
    }

    /// Waits until no call is at work; none begins any more.
    pub async fn ended(&self) {
        // It fails where it was called before.
        let _ = self.threads.acquire_many(self.all).await;
        self.threads.close();
    }

    /// Does a call whose arguments take so many bytes. One that was begun is done to its end,
    /// unless it looks at its [`Watch`].
    ///
    /// # Errors
    /// [`Undone`].
    pub async fn run<T: Send + 'static>(
        &self,
        context: &RequestContext<RoleServer>,
        arguments: usize,
        call: impl FnOnce(&Watch) -> T + Send + 'static,
    ) -> Result<T, Undone> {
        let _counted = Counted::one(self, arguments)?;
        let permit = tokio::select! {
            permit = Arc::clone(&self.threads).acquire_owned() => permit.map_err(|_| Undone::Cancelled)?,
            () = context.ct.cancelled() => return Err(Undone::Cancelled),
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
                    // First, so that the last number is told too.
                    biased;
                    heard = told.changed() => if heard.is_err() { break },
                    ended = &mut job => return ended.map_err(|_| Undone::Panicked),
                }
                let (done, of) = *told.borrow_and_update();
                let progress =
                    ProgressNotificationParam::new(token.clone(), done as f64).with_total(of as f64);
                // At the end of a session nobody takes it any more, and the answer must not wait for that.
                tokio::select! {
                    biased;
                    _ = context.peer.notify_progress(progress) => {}
                    ended = &mut job => return ended.map_err(|_| Undone::Panicked),
                }
            }
        }
        job.await.map_err(|_| Undone::Panicked)
    }
}

/// A call that counts as long as it lives.
struct Counted<'a>(&'a Work, usize);

impl<'a> Counted<'a> {
    fn one(work: &'a Work, arguments: usize) -> Result<Self, Undone> {
        let counted = Self(work, arguments);
        // Counted before they are looked at, so that two do not both take the last place.
        let calls = work.calls.fetch_add(1, Ordering::Relaxed);
        let before = work.arguments.fetch_add(arguments, Ordering::Relaxed);
        match calls < CALLS && (before == 0 || before + arguments <= ARGUMENTS) {
            true => Ok(counted),
            false => Err(Undone::Busy),
        }
    }
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.calls.fetch_sub(1, Ordering::Relaxed);
        self.0.arguments.fetch_sub(self.1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_and_their_arguments_are_bounded() {
        let work = Work::new();
        // One alone may be of any size.
        let large = Counted::one(&work, 2 * ARGUMENTS).ok().unwrap();
        assert!(Counted::one(&work, 1).is_err());
        drop(large);
        let half = Counted::one(&work, ARGUMENTS / 2).ok().unwrap();
        let other = Counted::one(&work, ARGUMENTS / 2).ok().unwrap();
        assert!(matches!(Counted::one(&work, 1), Err(Undone::Busy)));
        drop((half, other));
        let all: Vec<_> = (0..CALLS).map(|_| Counted::one(&work, 0).ok().unwrap()).collect();
        assert!(Counted::one(&work, 0).is_err());
        drop(all);
        assert_eq!((work.calls.into_inner(), work.arguments.into_inner()), (0, 0));
    }
}
