//! The memory of a model as searches and writers share it.

use std::sync::{Mutex, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use crate::memory::Memory;

/// The memory of a model, as far as it is loaded. Nothing is encoded while it is locked: the threads that
/// encode may be waiting for it.
#[derive(Default)]
pub(super) struct SharedMemory {
    loaded: RwLock<Loaded>,
    /// Held while the file is written.
    pub file: Mutex<()>,
}

#[derive(Default)]
pub(super) struct Loaded {
    /// Once a search or a judgment has needed it.
    pub memory: Option<Memory>,
    /// Judgments that were recorded or taken back while it was not loaded.
    pub changes: u64,
}

impl SharedMemory {
    pub fn read(&self) -> RwLockReadGuard<'_, Loaded> {
        self.loaded.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn write(&self) -> RwLockWriteGuard<'_, Loaded> {
        self.loaded.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has the judgments read again by the next search.
    pub fn clear(&self) {
        self.write().clear();
    }

    /// Forgets judgments, each named by question and id.
    pub fn forget(&self, judgments: &[(&str, &str)]) {
        let mut loaded = self.write();
        match &mut loaded.memory {
            Some(memory) => judgments.iter().for_each(|(question, id)| memory.forget(question, id)),
            None => loaded.changes += 1,
        }
    }
}

impl Loaded {
    pub fn clear(&mut self) {
        (self.memory, self.changes) = (None, self.changes + 1);
    }
}
