//! The files of a cache: two databases of sled, the older of which is removed whole, and a lock.

use std::fs::{self, DirBuilder, File, TryLockError};
use std::io::{self, ErrorKind};
use std::os::unix::fs::DirBuilderExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::time::Duration;

use half::f16;

use super::key::Key;

/// Of the names of its folders, before their number.
const PREFIX: &str = "ehi-embeddings-";
const LOCK: &str = "ehi-embeddings.lock";
/// Bytes of pages that a database keeps in memory.
const PAGES_IN_MEMORY: u64 = 16 << 20;
/// How long the lock of a database is waited for: sled may give it up shortly after the database is dropped.
const LOCK_TRIES: usize = 20;
const LOCK_POLL: Duration = Duration::from_millis(25);
/// Bytes of a checksum.
const SUM: usize = 4;

/// A value is the row in f16, little-endian, and the CRC-32 of key and row.
pub(super) struct Files {
    dir: PathBuf,
    newest: Database,
    /// Its entries move to the newest when they are used.
    older: Option<Database>,
    /// Whether the newest has anything that is not on disk.
    is_dirty: bool,
    /// After the databases, so that they are closed before.
    _lock: Lock,
}

/// Why a cache is not used.
#[derive(Debug)]
pub(super) enum Problem {
    /// Nothing is wrong with what it has.
    Unusable(String),
    /// A read or a write failed, so it is to be removed.
    Failed(String),
}

struct Database {
    number: u64,
    /// None while it is dropped.
    db: Option<sled::Db>,
}

/// A file that one process has locked. A fork has the same open file, so the lock is given up explicitly.
struct Lock(File);

type Result<T> = std::result::Result<T, Problem>;

impl Files {
    pub fn open(dir: &Path) -> Result<Self> {
        let private = DirBuilder::new().recursive(true).mode(0o700).create(dir);
        private.map_err(unusable("the folder cannot be made"))?;
        let lock = Lock::take(&dir.join(LOCK))?;
        let mut numbers = numbers(dir)?;
        let newest = Database::open_or_replace(dir, numbers.pop().unwrap_or(1))?;
        let older = numbers.pop().map(|number| Database::open_or_replace(dir, number)).transpose()?;
        numbers.iter().for_each(|number| remove(dir, *number));
        Ok(Self { dir: dir.to_owned(), newest, older, is_dirty: false, _lock: lock })
    }

    /// Bytes on disk.
    pub fn bytes(&self) -> Result<u64> {
        Ok(self.newest.bytes()? + self.older.as_ref().map_or(Ok(0), Database::bytes)?)
    }

    /// The row of a key; `None` for a missing or damaged one.
    pub fn get(&mut self, key: &Key, dim: usize) -> Result<Option<Vec<f16>>> {
        let Self { newest, older, .. } = self;
        if let Some(value) = newest.get(key)? {
            return Ok(row(key, &value, dim));
        }
        let Some(value) = older.as_ref().map_or(Ok(None), |older| older.get(key))? else { return Ok(None) };
        let row = row(key, &value, dim);
        if row.is_some() {
            newest.put(key, value)?;
            self.is_dirty = true;
        }
        Ok(row)
    }

    pub fn put(&mut self, key: &Key, row: &[f16]) -> Result<()> {
        let mut value = Vec::with_capacity(2 * row.len() + SUM);
        row.iter().for_each(|x| value.extend(x.to_le_bytes()));
        value.extend(sum(key, &value));
        self.newest.put(key, value.into())?;
        self.is_dirty = true;
        Ok(())
    }

    /// Writes what is in memory. Begins a new database once the newest has half of `most` bytes, and removes
    /// the older.
    pub fn settle(&mut self, most: u64) -> Result<()> {
        if !std::mem::take(&mut self.is_dirty) {
            return Ok(());
        }
        self.newest.flush()?;
        if self.newest.bytes()? <= most / 2 && self.bytes()? <= most {
            return Ok(());
        }
        let next = Database::open_or_replace(&self.dir, self.newest.number + 1)?;
        if let Some(older) = self.older.replace(std::mem::replace(&mut self.newest, next)) {
            let number = older.number;
            drop(older);
            remove(&self.dir, number);
        }
        Ok(())
    }

    /// Removes everything.
    pub fn remove(self) {
        let Self { dir, newest, older, _lock, .. } = self;
        let numbers = [Some(newest.number), older.as_ref().map(|older| older.number)];
        drop((newest, older));
        numbers.into_iter().flatten().for_each(|number| remove(&dir, number));
    }
}

impl Database {
    /// Opens a database; one that is damaged is replaced by an empty one.
    fn open_or_replace(dir: &Path, number: u64) -> Result<Self> {
        let path = folder(dir, number);
        let opened = match open(&path) {
            Err(Problem::Failed(why)) => {
                tracing::warn!("the embeddings in {} are damaged, and are removed: {why}", path.display());
                remove(dir, number);
                open(&path)
            }
            opened => opened,
        };
        Ok(Self { number, db: Some(opened?) })
    }

    fn bytes(&self) -> Result<u64> {
        self.call(sled::Db::size_on_disk)
    }

    fn get(&self, key: &Key) -> Result<Option<sled::IVec>> {
        self.call(|db| db.get(key.0))
    }

    fn put(&self, key: &Key, value: sled::IVec) -> Result<()> {
        self.call(|db| db.insert(key.0, value).map(drop))
    }

    fn flush(&self) -> Result<()> {
        self.call(|db| db.flush().map(drop))
    }

    fn call<T>(&self, call: impl FnOnce(&sled::Db) -> sled::Result<T>) -> Result<T> {
        let Some(db) = &self.db else { return Err(Problem::Failed("the database is closed".to_owned())) };
        guarded(|| call(db))?.map_err(|error| Problem::Failed(error.to_string()))
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        let db = self.db.take();
        if let Err(Problem::Unusable(why) | Problem::Failed(why)) = guarded(|| drop(db)) {
            tracing::debug!("the last embeddings are not cached: {why}");
        }
    }
}

impl Lock {
    fn take(path: &Path) -> Result<Self> {
        let file = File::options().read(true).write(true).create(true).truncate(false).open(path);
        let file = file.map_err(unusable("its lock cannot be opened"))?;
        match file.try_lock() {
            Ok(()) => Ok(Self(file)),
            Err(TryLockError::WouldBlock) => Err(in_use()),
            Err(TryLockError::Error(error)) => Err(unusable("it cannot be locked")(error)),
        }
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        // Closing the file does it, too, where there was no fork.
        let _ = self.0.unlock();
    }
}

/// Without a thread of its own, which could end with a panic that nobody sees: what is written is flushed by
/// [`Files::settle`].
fn open(path: &Path) -> Result<sled::Db> {
    let config = sled::Config::new().path(path).cache_capacity(PAGES_IN_MEMORY).flush_every_ms(None);
    let mut tries = 0;
    loop {
        tries += 1;
        match guarded(|| config.open())? {
            Ok(db) => return Ok(db),
            Err(sled::Error::Io(error)) if error.to_string().starts_with("could not acquire lock") => {
                if tries == LOCK_TRIES {
                    return Err(in_use());
                }
                std::thread::sleep(LOCK_POLL);
            }
            // Of files that are too short.
            Err(sled::Error::Io(error)) if error.kind() != ErrorKind::UnexpectedEof => {
                return Err(unusable("its database cannot be opened")(error));
            }
            Err(other) => return Err(Problem::Failed(other.to_string())),
        }
    }
}

/// Calls sled, which panics on some failures of the disk and on some damage.
fn guarded<T>(call: impl FnOnce() -> T) -> Result<T> {
    catch_unwind(AssertUnwindSafe(call)).map_err(|_| Problem::Failed("the database panicked".to_owned()))
}

fn in_use() -> Problem {
    Problem::Unusable("another process uses this folder".to_owned())
}

fn unusable(what: &'static str) -> impl Fn(io::Error) -> Problem {
    move |error| Problem::Unusable(format!("{what}: {error}"))
}

/// The row of a value, if that is sound.
fn row(key: &Key, value: &[u8], dim: usize) -> Option<Vec<f16>> {
    let (row, found) = value.split_at_checked(2 * dim)?;
    let is_sound = found == sum(key, row);
    is_sound.then(|| row.chunks_exact(2).map(|pair| f16::from_le_bytes([pair[0], pair[1]])).collect())
}

fn sum(key: &Key, row: &[u8]) -> [u8; SUM] {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&key.0);
    hasher.update(row);
    hasher.finalize().to_le_bytes()
}

fn folder(dir: &Path, number: u64) -> PathBuf {
    dir.join(format!("{PREFIX}{number}"))
}

/// The numbers of the databases, in order.
fn numbers(dir: &Path) -> Result<Vec<u64>> {
    let entries = fs::read_dir(dir).map_err(unusable("the folder cannot be read"))?;
    let number = |name: &str| {
        let number = name.strip_prefix(PREFIX)?;
        number.parse().ok().filter(|parsed: &u32| parsed.to_string() == number).map(u64::from)
    };
    let mut numbers: Vec<u64> =
        entries.flatten().filter_map(|entry| number(entry.file_name().to_str()?)).collect();
    numbers.sort_unstable();
    Ok(numbers)
}

fn remove(dir: &Path, number: u64) {
    let path = folder(dir, number);
    if let Err(error) = fs::remove_dir_all(&path) {
        tracing::debug!(%error, path = %path.display(), "embeddings are not removed");
    }
}
