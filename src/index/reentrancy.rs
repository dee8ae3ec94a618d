//! Callbacks that run while a call holds the locks of an index.

use std::cell::RefCell;
use std::ops::ControlFlow;

use super::Index;
use crate::error::{InputError, Result};
use crate::progress::{OnProgress, Progress};

thread_local! {
    /// Indexes whose locks are held by calls that this thread is inside a callback of.
    static HELD: RefCell<Vec<usize>> = const { RefCell::new(Vec::new()) };
}

/// Ends with the callback, by a panic too.
struct Held;

impl Drop for Held {
    fn drop(&mut self) {
        HELD.with_borrow_mut(|held| held.pop());
    }
}

impl Index {
    /// A callback under which writes of its thread to this index are refused, since they would wait for ever.
    pub(crate) fn refusing_writes<'a>(
        &'a self,
        on_progress: &'a mut OnProgress<'_>,
    ) -> impl FnMut(Progress) -> ControlFlow<()> + 'a {
        |progress| {
            HELD.with_borrow_mut(|held| held.push(self.address()));
            let _held = Held;
            on_progress(progress)
        }
    }

    /// Refuses a call that takes locks which its own thread holds further up.
    pub(super) fn check_outside(&self) -> Result<()> {
        let inside = HELD.with_borrow(|held| held.contains(&self.address()));
        if inside { Err(InputError::InsideProgress.into()) } else { Ok(()) }
    }

    fn address(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }
}
