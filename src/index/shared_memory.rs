//! The memory of a model as searches and writers share it.

use std::sync::{Arc, Mutex, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use super::judgment_store::{all_judgments, half_life_of, judgment_of};
use crate::error::Result;
use crate::ids::Generation;
use crate::memory::Memory;
use crate::store::Store;

/// The memory of a model, once a search or a judgment needs it. It always holds what the store of judgments
/// holds, whatever the order in which threads commit and update it: an update reads the judgment again.
///
/// Nothing is encoded while any of its locks is held: the threads that encode may be waiting for it.
#[derive(Default)]
pub(super) struct SharedMemory {
    state: RwLock<State>,
    /// Held by the thread that loads.
    loading: Mutex<()>,
    /// Held while the file of vectors is written. Whether the model is in service no longer, so that it may
    /// not be written.
    file: Mutex<bool>,
}

#[derive(Default)]
enum State {
    #[default]
    Unloaded,
    /// With the judgments, by question and id, that changed in the meantime.
    Loading(Vec<(String, String)>),
    Loaded {
        memory: Memory,
        /// Generation of the store of judgments that was read; `None` without one.
        of: Option<Generation>,
    },
    /// It is not tried again before the judgments change.
    Failed,
}

impl SharedMemory {
    fn read(&self) -> RwLockReadGuard<'_, State> {
        self.state.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, State> {
        self.state.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// What `read` makes of the memory; `None` if it is not loaded.
    pub fn with<T>(&self, read: impl FnOnce(&Memory) -> T) -> Option<T> {
        match &*self.read() {
            State::Loaded { memory, .. } => Some(read(memory)),
            _ => None,
        }
    }

    /// Changes the memory, if it is loaded.
    pub fn change(&self, change: impl FnOnce(&mut Memory)) {
        if let State::Loaded { memory, .. } = &mut *self.write() {
            change(memory);
        }
    }

    /// Whether there is nothing to load.
    pub fn is_loaded(&self) -> bool {
        matches!(*self.read(), State::Loaded { .. } | State::Failed)
    }

    /// Reads all judgments of a store, unless that was done; `dim` is the width of vectors.
    ///
    /// # Errors
    /// Failures of reading. Later calls then do nothing until the judgments change.
    pub fn load(&self, dim: usize, open: impl FnOnce() -> Result<Option<Arc<Store>>>) -> Result<()> {
        let _one = self.loading.lock().unwrap_or_else(PoisonError::into_inner);
        if self.is_loaded() {
            return Ok(());
        }
        *self.write() = State::Loading(Vec::new());
        let read = || -> Result<_> {
            let store = open()?;
            let of = store.as_ref().map(|store| store.read().generation());
            let judgments = store.as_deref().map_or(Ok(Vec::new()), all_judgments)?;
            let half_life = store.as_deref().map_or(Ok(None), half_life_of)?;
            Ok((store, judgments, half_life, of))
        };
        let (store, judgments, half_life, of) = read().inspect_err(|_| *self.write() = State::Failed)?;
        let mut memory = Memory::new(dim, half_life);
        judgments.iter().for_each(|judgment| memory.judge(judgment));
        let mut state = self.write();
        let changed = match std::mem::take(&mut *state) {
            State::Loading(changed) => changed,
            _ => Vec::new(),
        };
        *state = State::Loaded { memory, of };
        match store {
            // It was created meanwhile.
            None if !changed.is_empty() => {
                *state = State::Unloaded;
                Ok(())
            }
            Some(store) => state.follow(&store, changed.iter().map(|(question, id)| (&**question, &**id))),
            None => Ok(()),
        }
    }

    /// Takes over judgments that were committed, or taken back, in a store.
    ///
    /// # Errors
    /// Failures of reading. All judgments are then read again by the next search.
    pub fn follow<'a>(&self, store: &Store, changed: impl Iterator<Item = (&'a str, &'a str)>) -> Result<()> {
        self.write().follow(store, changed)
    }

    /// Has the judgments of a read-only handle read again by the next search if others are stored now.
    pub fn refresh(&self, open: impl FnOnce() -> Result<Option<Arc<Store>>>) {
        let before = match &*self.read() {
            State::Loaded { of, .. } => Some(*of),
            State::Loading(_) | State::Failed => None,
            State::Unloaded => return,
        };
        let now = open().map(|store| store.map(|store| store.read().generation()));
        if before.is_none() || now.ok() != before {
            self.clear();
        }
    }

    /// Has the judgments read again by the next search.
    pub fn clear(&self) {
        // A thread that is loading has them read by the time of its `open` at the earliest.
        let _one = self.loading.lock().unwrap_or_else(PoisonError::into_inner);
        *self.write() = State::Unloaded;
    }

    /// The right to write the file of vectors; `None` once the model is in service no longer.
    pub fn file(&self) -> Option<impl Drop> {
        let file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        (!*file).then_some(file)
    }

    /// Has the file of vectors written no more.
    pub fn retire(&self) {
        *self.file.lock().unwrap_or_else(PoisonError::into_inner) = true;
    }
}

impl State {
    fn follow<'a>(&mut self, store: &Store, changed: impl Iterator<Item = (&'a str, &'a str)>) -> Result<()> {
        match self {
            Self::Unloaded => {}
            Self::Loading(pairs) => pairs.extend(changed.map(|(q, id)| (q.to_owned(), id.to_owned()))),
            Self::Failed => *self = Self::Unloaded,
            Self::Loaded { memory, .. } => {
                let view = store.read();
                for (question, id) in changed {
                    match judgment_of(&view, question, id) {
                        Ok(Some(judgment)) => memory.judge(&judgment),
                        Ok(None) => memory.forget(question, id),
                        Err(error) => {
                            *self = Self::Unloaded;
                            return Err(error);
                        }
                    }
                }
            }
        }
        Ok(())
    }
}
