//! The index that the page shows: kept at the newest state that its writer flushed, and missed when it is
//! gone.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use ehi::store::StoreError;
use ehi::{Error, Index};
use hyper::StatusCode;

use super::reply::Refusal;
use crate::failure::Failure;
use crate::place::{Lost, Place};
use crate::printing;

/// How often it is looked whether the index has changed.
const FRESH: Duration = Duration::from_millis(250);

pub struct Held {
    index: Index,
    place: Place,
    looked: Mutex<Option<Instant>>,
}

impl Held {
    /// # Errors
    /// The directory of the index cannot be opened.
    pub fn new(index: Index) -> Result<Self, Failure> {
        let place = Place::of(&index)?;
        Ok(Self { index, place, looked: Mutex::new(None) })
    }

    /// The index, at its newest.
    ///
    /// # Errors
    /// A sentence about what has become of it.
    pub fn index(&self) -> Result<&Index, Refusal> {
        let mut looked = self.looked.lock().unwrap_or_else(PoisonError::into_inner);
        if looked.is_none_or(|at| at.elapsed() >= FRESH) {
            self.look().map_err(|message| Refusal::new(StatusCode::SERVICE_UNAVAILABLE, "gone", message))?;
            *looked = Some(Instant::now());
        }
        Ok(&self.index)
    }

    /// Moves on to what was written.
    ///
    /// # Errors
    /// What has become of the index, for its user.
    fn look(&self) -> Result<(), String> {
        let replaced = || {
            let path = printing::path(self.index.path());
            format!("another index is at {path} now: start `ehi explore` again to see it")
        };
        let gone = |error: String| format!("the index cannot be read any more: {error}");
        if !self.may_judge() {
            return match self.index.refresh() {
                Ok(_) => Ok(()),
                Err(Error::Store(StoreError::Replaced { .. })) => Err(replaced()),
                Err(error) => Err(gone(Failure::from(error).line())),
            };
        }
        self.place.check().map_err(|lost| match lost {
            Lost::Gone(error) => gone(error.to_string()),
            Lost::Replaced => replaced(),
        })
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
