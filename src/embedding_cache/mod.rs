//! Embeddings of texts that were encoded before, on disk, for every index of a user.

mod files;
mod key;
#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};

use half::f16;
use serde::Serialize;

use files::{Files, Problem};
pub(crate) use key::{Key, KeyMaker};

/// Bytes on disk that a cache takes at most, unless told otherwise: 2 GB, which is about 1,300,000
/// embeddings of 384 dimensions.
pub const DEFAULT_CACHE_BYTES: u64 = 2_000_000_000;

/// Embeddings of documents on disk, so that a text is encoded once, whichever index stores it.
///
/// An index that is opened with a cache ([`IndexBuilder::embedding_cache`](crate::IndexBuilder)) looks each
/// text up before it encodes it: when documents are inserted or updated, and when a change of model encodes
/// them again. An embedding is found by a hash of the encoder, its precision, this crate's version and the
/// text. What it holds is what the index would store, as f16; an index is the same with and without a cache,
/// except for the last bits of an embedding, which depend on the texts that were encoded with it.
///
/// A cache is never the only home of anything. Its folder can be removed when no process uses it. One
/// process at a time uses a folder. If another process has it, or if it cannot be read or written, texts are
/// encoded as if there were no cache, a warning ([`tracing`]) says so once, and [`CacheStats::problem`] has
/// the reason. A fork of a process that has used a cache encodes without one. After a failed read or write,
/// such as one of a full disk, the files of the cache are removed. Damaged entries are encoded again. A kill
/// or a power failure can cost the embeddings that are being added, or the whole cache, and nothing else.
///
/// The folder takes about [`DEFAULT_CACHE_BYTES`] at most, or the bytes given to [`Self::most_bytes`]. What
/// has not been used for longest is removed first, in halves.
///
/// It is opened when it is first needed. Clones share one cache, and so do all caches of a process with the
/// same folder. The folder holds no texts, but embeddings tell something about the texts they are made from.
///
/// # Examples
/// ```no_run
/// use ehi::{Bundle, EmbeddingCache, Index};
///
/// let cache = EmbeddingCache::new("./embeddings");
/// let bundle = Bundle::open("models/scifact-minilm")?;
/// let index = Index::builder().embedding_cache(cache.clone()).create("./my-index", &bundle)?;
/// println!("{} texts were not encoded again", cache.stats().found);
/// # Ok::<(), ehi::Error>(())
/// ```
#[derive(Clone)]
pub struct EmbeddingCache {
    shared: Arc<Shared>,
    most_bytes: u64,
}

/// What a cache has done in this process.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct CacheStats {
    /// Embeddings that were found.
    pub found: u64,
    /// Embeddings that were asked for and not found.
    pub missed: u64,
    /// Bytes on disk; 0 while the cache is not open.
    pub bytes: u64,
    /// Why the cache is not used any more, if it is not.
    pub problem: Option<String>,
}

/// The caches of this process by their folders, so that two indexes with one folder share it.
static OPEN: Mutex<Vec<Weak<Shared>>> = Mutex::new(Vec::new());

/// The process that first used a cache. A fork of it has none of the threads that sled has started, and would
/// wait for them for ever.
static PROCESS: OnceLock<u32> = OnceLock::new();

struct Shared {
    dir: PathBuf,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Open from the first use on.
    files: Option<Files>,
    stats: CacheStats,
    /// The problem of which a warning was given.
    warned: Option<String>,
}

impl std::fmt::Debug for EmbeddingCache {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("EmbeddingCache").field("dir", &self.shared.dir).finish_non_exhaustive()
    }
}

impl EmbeddingCache {
    /// The cache in a folder, which is made when something is first added.
    pub fn new(dir: impl AsRef<Path>) -> Self {
        let dir = resolved(dir.as_ref());
        let mut open = lock(&OPEN);
        open.retain(|shared| shared.strong_count() > 0);
        let known = open.iter().filter_map(Weak::upgrade).find(|shared| shared.dir == dir);
        let shared = known.unwrap_or_else(|| {
            let shared = Arc::new(Shared { dir, state: Mutex::default() });
            open.push(Arc::downgrade(&shared));
            shared
        });
        Self { shared, most_bytes: DEFAULT_CACHE_BYTES }
    }

    /// The folder `ehi/embeddings` among the user's caches (`~/.cache` on Linux); `None` if the user has no
    /// home.
    pub fn of_user() -> Option<Self> {
        dirs::cache_dir().map(|caches| Self::new(caches.join("ehi/embeddings")))
    }

    /// Bytes on disk that the cache takes at most, for what is added by this handle and its clones. Files
    /// grow by half a megabyte, so that fewer than a few of those hold little.
    pub fn most_bytes(mut self, most: u64) -> Self {
        self.most_bytes = most;
        self
    }

    /// Its folder.
    pub fn dir(&self) -> &Path {
        &self.shared.dir
    }

    /// What it has done in this process, for all handles with this folder; nothing in a fork.
    pub fn stats(&self) -> CacheStats {
        let Some(state) = self.state() else { return CacheStats::default() };
        let bytes = state.files.as_ref().and_then(|files| files.bytes().ok()).unwrap_or_default();
        CacheStats { bytes, ..state.stats.clone() }
    }

    /// Writes what is in memory and closes the files, so that another process can use the folder. The next
    /// use opens them again, even after a problem.
    pub fn close(&self) {
        if let Some(mut state) = self.state() {
            state.stats.problem = None;
            drop(state.files.take());
        }
    }

    /// The embeddings that are known, as stored, each of `dim` values.
    pub(crate) fn get(&self, keys: &[Key], dim: usize) -> Vec<Option<Vec<f16>>> {
        let rows = self.with_files(|files, stats| {
            let rows: Vec<_> = keys.iter().map(|key| files.get(key, dim)).collect::<Result<_, _>>()?;
            let found = rows.iter().flatten().count() as u64;
            stats.found += found;
            stats.missed += rows.len() as u64 - found;
            files.settle(self.most_bytes)?;
            Ok(rows)
        });
        rows.unwrap_or_else(|| vec![None; keys.len()])
    }

    /// Adds embeddings.
    pub(crate) fn put<'a>(&self, rows: impl IntoIterator<Item = (&'a Key, &'a [f16])>) {
        self.with_files(|files, _| {
            rows.into_iter().try_for_each(|(key, row)| files.put(key, row))?;
            files.settle(self.most_bytes)
        });
    }

    /// Opens the files if that is still to do; after a problem there are none.
    fn with_files<T>(
        &self,
        call: impl FnOnce(&mut Files, &mut CacheStats) -> Result<T, Problem>,
    ) -> Option<T> {
        let mut guard = self.state()?;
        let state = &mut *guard;
        if state.stats.problem.is_some() {
            return None;
        }
        let opened = match &mut state.files {
            Some(files) => Ok(files),
            none => Files::open(&self.shared.dir).map(|files| none.insert(files)),
        };
        let problem = match opened.and_then(|files| call(files, &mut state.stats)) {
            Ok(done) => return Some(done),
            Err(problem) => problem,
        };
        let files = state.files.take();
        let problem = match problem {
            Problem::Unusable(why) => why,
            Problem::Failed(why) => {
                files.into_iter().for_each(Files::remove);
                why
            }
        };
        state.stats.problem = Some(problem.clone());
        let is_new = state.warned.replace(problem.clone()).as_ref() != Some(&problem);
        // A subscriber may ask for `stats`.
        drop(guard);
        if is_new {
            tracing::warn!("embeddings are not cached in {}: {problem}", self.shared.dir.display());
        }
        None
    }

    /// None in a fork, where the lock may be held for ever.
    fn state(&self) -> Option<MutexGuard<'_, State>> {
        is_own_process().then(|| lock(&self.shared.state))
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        if !is_own_process() {
            let state = self.state.get_mut().unwrap_or_else(PoisonError::into_inner);
            std::mem::forget(state.files.take());
        }
    }
}

fn is_own_process() -> bool {
    let own = std::process::id();
    *PROCESS.get_or_init(|| own) == own
}

/// An absolute path, without links as far as it exists: a later change of the working directory does not
/// matter, and two names of a folder are one cache.
fn resolved(dir: &Path) -> PathBuf {
    let dir = std::path::absolute(dir).unwrap_or_else(|_| dir.to_owned());
    let found = dir.ancestors().find_map(|above| Some((above.canonicalize().ok()?, above)));
    match found.and_then(|(real, above)| Some((real, dir.strip_prefix(above).ok()?))) {
        Some((real, rest)) if rest.as_os_str().is_empty() => real,
        Some((real, rest)) => real.join(rest),
        None => dir,
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
