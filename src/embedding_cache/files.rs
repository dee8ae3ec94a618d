//! The files of a cache: two databases of sled, the older of which is removed whole.

use std::fs::{self, DirBuilder};
use std::io::ErrorKind;
use std::os::unix::fs::DirBuilderExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::time::Duration;

use half::f16;

use super::key::Key;

/// Of the names of its folders, before their number.
const PREFIX: &str = "ehi-embeddings-";
/// Bytes of pages that a database keeps in memory.
const PAGES_IN_MEMORY: u64 = 16 << 20;
/// What is younger may be lost.
const FLUSH_EVERY_MS: u64 = 1000;
/// How long a lock is waited for: sled gives it up shortly after a database is dropped.
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
}

struct Database {
    number: u64,
    db: sled::Db,
}

/// Why a database cannot be opened.
enum Refusal {
    /// Another process has it, or the file system refuses.
    NotNow(String),
    Damaged(String),
}

impl Files {
    /// # Errors
    /// What happened, for people.
    pub fn open(dir: &Path) -> Result<Self, String> {
        let private = DirBuilder::new().recursive(true).mode(0o700).create(dir);
        private.map_err(|error| format!("the folder cannot be made: {error}"))?;
        let mut numbers = numbers(dir)?;
        let newest = Database::open_or_replace(dir, numbers.pop().unwrap_or(1))?;
        // After the newest, which holds the lock of all.
        let older = numbers.pop().map(|number| Database::open_or_replace(dir, number)).transpose()?;
        numbers.iter().for_each(|number| remove(dir, *number));
        Ok(Self { dir: dir.to_owned(), newest, older })
    }

    /// Bytes on disk.
    pub fn bytes(&self) -> u64 {
        self.newest.bytes() + self.older.as_ref().map_or(0, Database::bytes)
    }

    /// The row of a key; `None` for a missing or damaged one.
    pub fn get(&mut self, key: &Key, dim: usize) -> Result<Option<Vec<f16>>, String> {
        let Self { newest, older, .. } = self;
        if let Some(value) = newest.get(key)? {
            return Ok(row(key, &value, dim));
        }
        let Some(value) = older.as_ref().map_or(Ok(None), |older| older.get(key))? else { return Ok(None) };
        let row = row(key, &value, dim);
        if row.is_some() {
            newest.put(key, value)?;
        }
        Ok(row)
    }

    pub fn put(&mut self, key: &Key, row: &[f16]) -> Result<(), String> {
        let mut value = Vec::with_capacity(2 * row.len() + SUM);
        row.iter().for_each(|x| value.extend(x.to_le_bytes()));
        value.extend(sum(key, &value));
        self.newest.put(key, value.into())
    }

    /// Begins a new database once the newest has half of `most` bytes, and removes the older.
    pub fn shrink_to(&mut self, most: u64) -> Result<(), String> {
        if self.newest.bytes() <= most / 2 && self.bytes() <= most {
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
        let Self { dir, newest, older } = self;
        let numbers = [Some(newest.number), older.as_ref().map(|older| older.number)];
        drop((newest, older));
        numbers.into_iter().flatten().for_each(|number| remove(&dir, number));
    }
}

impl Database {
    /// Opens a database; one that is damaged is replaced by an empty one.
    fn open_or_replace(dir: &Path, number: u64) -> Result<Self, String> {
        let path = folder(dir, number);
        let opened = match open(&path) {
            Err(Refusal::Damaged(why)) => {
                tracing::warn!("the embeddings in {} are damaged, and are removed: {why}", path.display());
                remove(dir, number);
                open(&path)
            }
            opened => opened,
        };
        match opened {
            Ok(db) => Ok(Self { number, db }),
            Err(Refusal::NotNow(why) | Refusal::Damaged(why)) => Err(why),
        }
    }

    fn bytes(&self) -> u64 {
        guarded(|| self.db.size_on_disk()).unwrap_or_default()
    }

    fn get(&self, key: &Key) -> Result<Option<sled::IVec>, String> {
        guarded(|| self.db.get(key.0))
    }

    fn put(&self, key: &Key, value: sled::IVec) -> Result<(), String> {
        guarded(|| self.db.insert(key.0, value).map(drop))
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        if let Err(error) = guarded(|| self.db.flush().map(drop)) {
            tracing::debug!(%error, "the last embeddings are not cached");
        }
    }
}

fn open(path: &Path) -> Result<sled::Db, Refusal> {
    let config =
        sled::Config::new().path(path).cache_capacity(PAGES_IN_MEMORY).flush_every_ms(Some(FLUSH_EVERY_MS));
    let mut tries = 0;
    loop {
        tries += 1;
        let error = match catch_unwind(AssertUnwindSafe(|| config.open())) {
            Ok(Ok(db)) => return Ok(db),
            Ok(Err(error)) => error,
            Err(_) => return Err(Refusal::Damaged("reading it panicked".to_owned())),
        };
        match error {
            sled::Error::Io(error) if error.to_string().starts_with("could not acquire lock") => {
                if tries == LOCK_TRIES {
                    return Err(Refusal::NotNow("another process uses this folder".to_owned()));
                }
                std::thread::sleep(LOCK_POLL);
            }
            // Of files that are too short.
            sled::Error::Io(error) if error.kind() != ErrorKind::UnexpectedEof => {
                return Err(Refusal::NotNow(error.to_string()));
            }
            other => return Err(Refusal::Damaged(other.to_string())),
        }
    }
}

/// Calls sled, which panics on some failures of the disk.
fn guarded<T>(call: impl FnOnce() -> sled::Result<T>) -> Result<T, String> {
    match catch_unwind(AssertUnwindSafe(call)) {
        Ok(called) => called.map_err(|error| error.to_string()),
        Err(_) => Err("the database panicked".to_owned()),
    }
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
fn numbers(dir: &Path) -> Result<Vec<u64>, String> {
    let entries = fs::read_dir(dir).map_err(|error| format!("the folder cannot be read: {error}"))?;
    let number = |name: &str| name.strip_prefix(PREFIX)?.parse().ok();
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
