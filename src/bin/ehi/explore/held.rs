//! The index that the page shows: kept at the newest state that its writer flushed, and missed when it is
//! gone.

use std::fs;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use ehi::Index;
use hyper::StatusCode;

use super::reply::Refusal;
use crate::failure::Failure;

/// How often it is looked whether the index has changed.
const FRESH: Duration = Duration::from_millis(250);

pub struct Held {
    index: Index,
    looked: Mutex<Option<Instant>>,
}

impl Held {
    pub fn new(index: Index) -> Self {
        Self { index, looked: Mutex::new(None) }
    }

    /// The index, at its newest.
    ///
    /// # Errors
    /// A sentence about what has become of it.
    pub fn index(&self) -> Result<&Index, Refusal> {
        let mut looked = self.looked.lock().unwrap_or_else(PoisonError::into_inner);
        if looked.is_none_or(|at| at.elapsed() >= FRESH) {
            // A handle that writes is at its newest, but does not see that its directory is gone.
            let read = match self.may_judge() {
                true => fs::metadata(self.index.path()).map(drop).map_err(|error| error.to_string()),
                false => self.index.refresh().map(drop).map_err(|error| Failure::from(error).line()),
            };
            read.map_err(|error| {
                let message = format!("the index cannot be read any more: {error}");
                Refusal::new(StatusCode::SERVICE_UNAVAILABLE, "gone", message)
            })?;
            *looked = Some(Instant::now());
        }
        Ok(&self.index)
    }

    /// The same, to write to.
    ///
    /// # Errors
    /// A refusal where the program was not started to write.
    pub fn writable(&self) -> Result<&Index, Refusal> {
        if self.may_judge() {
            return self.index();
        }
        let message = "the index is open for reading: start `ehi explore` with `--judge` to teach it";
        Err(Refusal::new(StatusCode::FORBIDDEN, "read_only", message))
    }

    /// The index as it is, for who has asked for it before.
    pub fn now(&self) -> &Index {
        &self.index
    }

    pub fn may_judge(&self) -> bool {
        !self.index.is_read_only()
    }
}
