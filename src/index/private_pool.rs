//! Parallel work while a lock is held.

use rayon::ThreadPool;

/// Threads that never take a lock of an index.
///
/// All threads of the caller's pool may be waiting for a lock held by this work, so this work must not wait
/// for that pool.
pub(super) struct PrivatePool(Option<ThreadPool>);

impl PrivatePool {
    pub fn new() -> Self {
        let threads = rayon::current_num_threads();
        Self(rayon::ThreadPoolBuilder::new().num_threads(threads).build().ok())
    }

    pub fn run<R: Send>(&self, work: impl FnOnce() -> R + Send) -> R {
        match &self.0 {
            // On a separate thread: a thread of the caller's pool would run other jobs of that pool while it
            // waits, and those might take the lock that it holds.
            Some(pool) => std::thread::scope(|scope| {
                let done = scope.spawn(|| pool.install(work)).join();
                done.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
            }),
            // If no thread can be spawned, nothing else runs in parallel either.
            None => work(),
        }
    }
}
