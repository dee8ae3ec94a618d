//! How often something may be done: a bucket of tokens that fills at a steady rate.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

pub struct Rate {
    every: Duration,
    most: u32,
    /// When the bucket was, or will have been, empty.
    empty_at: Mutex<Option<Instant>>,
}

impl Rate {
    /// Once `every` so often, and `most` times at once after a rest.
    pub const fn new(every: Duration, most: u32) -> Self {
        Self { every, most, empty_at: Mutex::new(None) }
    }

    /// Whether it may be done now, which then counts.
    ///
    /// # Errors
    /// The time after which it may.
    pub fn take(&self) -> Result<(), Duration> {
        self.take_at(Instant::now())
    }

    fn take_at(&self, now: Instant) -> Result<(), Duration> {
        let mut empty_at = self.empty_at.lock().unwrap_or_else(PoisonError::into_inner);
        let filled = self.every * self.most;
        let full = now.checked_sub(filled).unwrap_or(now);
        let next = empty_at.map_or(full, |at| at.max(full)) + self.every;
        if next > now {
            return Err(next - now);
        }
        *empty_at = Some(next);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn some_at_once_and_then_one_at_a_time() {
        let rate = Rate::new(Duration::from_secs(1), 3);
        let start = Instant::now() + Duration::from_secs(60);
        let at = |ms| rate.take_at(start + Duration::from_millis(ms));
        for _ in 0..3 {
            assert_eq!(at(0), Ok(()));
        }
        assert_eq!(at(0), Err(Duration::from_secs(1)));
        assert_eq!(at(400), Err(Duration::from_millis(600)));
        assert_eq!((at(1_000), at(1_000)), (Ok(()), Err(Duration::from_secs(1))));
        // A long rest gives no more than a full bucket.
        for _ in 0..3 {
            assert_eq!(at(60_000), Ok(()));
        }
        assert!(at(60_000).is_err());
    }
}
