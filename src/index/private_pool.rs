//! Parallel work while a lock is held.

use rayon::ThreadPool;

/// Threads that take no lock of an index.
///
/// The caller's pool may be full of threads that wait for the lock which this work holds, so it
/// must not be waited for.
pub(super) struct PrivatePool(Option<ThreadPool>);

impl PrivatePool {
    pub fn new() -> Self {
        let threads = rayon::current_num_threads();
        Self(rayon::ThreadPoolBuilder::new().num_threads(threads).build().ok())
    }

    pub fn run<R: Send>(&self, work: impl FnOnce() -> R + Send) -> R {
        match &self.0 {
            // By a thread of its own: one of the caller's pool would take up other work of that pool while it
            // waits, and with it perhaps the lock that it holds.
            Some(pool) => std::thread::scope(|scope| {
                let done = scope.spawn(|| pool.install(work)).join();
                done.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
            }),
            // No thread can be made: then nobody else is at work in parallel either.
            None => work(),
        }
    }
}
