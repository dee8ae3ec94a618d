//! Lines that are to be written to the client.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Bytes that may be unsent before no further request is read.
const MOST: usize = 4 << 20;
/// What a line takes beside its bytes, about.
const OVERHEAD: usize = 64;

/// The queue in front of the thread that writes. Adding to it never waits, so that no call waits for a client
/// that does not read; who reads requests waits for room.
#[derive(Default)]
pub struct Unsent {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    lines: VecDeque<Vec<u8>>,
    /// Of those and of the line that is being written.
    bytes: usize,
    /// Lines written.
    written: u64,
    /// No further line comes.
    ended: bool,
    /// The client is gone.
    gone: bool,
}

impl Unsent {
    pub fn push(&self, line: Vec<u8>) {
        let mut state = self.lock();
        if !state.gone {
            state.bytes += line.len() + OVERHEAD;
            state.lines.push_back(line);
            self.changed.notify_all();
        }
    }

    /// Waits until there is room; false where the client is gone, or took nothing for so long.
    pub fn wait_for_room(&self, most: Duration) -> bool {
        let mut state = self.lock();
        while !state.gone && state.bytes > MOST {
            let before = state.written;
            let stalls = |state: &mut State| !state.gone && state.bytes > MOST && state.written == before;
            let waited = self.changed.wait_timeout_while(state, most, stalls);
            let (next, timeout) = waited.unwrap_or_else(PoisonError::into_inner);
            if timeout.timed_out() {
                return false;
            }
            state = next;
        }
        !state.gone
    }

    /// Gives each line to `write` until there is an end of them; false where it failed.
    pub fn write_each(&self, mut write: impl FnMut(&[u8]) -> bool) -> bool {
        loop {
            let state = self.lock();
            let waited = self.changed.wait_while(state, |state| state.lines.is_empty() && !state.ended);
            let Some(line) = waited.unwrap_or_else(PoisonError::into_inner).lines.pop_front() else {
                return true;
            };
            let is_written = write(&line);
            let mut state = self.lock();
            state.bytes = state.bytes.saturating_sub(line.len() + OVERHEAD);
            state.written += 1;
            if !is_written {
                state.gone = true;
                state.lines.clear();
            }
            self.changed.notify_all();
            if !is_written {
                return false;
            }
        }
    }

    /// Waits until all is written, or for so long; whether all was written, or nobody is there to read it.
    pub fn finish(&self, most: Duration) -> bool {
        let mut state = self.lock();
        state.ended = true;
        self.changed.notify_all();
        let waited = self.changed.wait_timeout_while(state, most, |state| !state.gone && state.bytes > 0);
        let (state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        state.gone || state.bytes == 0
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOON: Duration = Duration::from_millis(20);

    #[test]
    fn requests_wait_for_a_client_that_does_not_read() {
        let unsent = Unsent::default();
        unsent.push(vec![b'x'; MOST - OVERHEAD]);
        assert!(unsent.wait_for_room(SOON));
        unsent.push(Vec::new());
        assert!(!unsent.wait_for_room(SOON) && !unsent.finish(SOON));
        let mut lengths = Vec::new();
        let take = |line: &[u8]| {
            lengths.push(line.len());
            true
        };
        assert!(unsent.write_each(take) && unsent.finish(SOON) && unsent.wait_for_room(SOON));
        assert_eq!(lengths, [MOST - OVERHEAD, 0]);
    }

    #[test]
    fn nothing_is_kept_for_a_client_that_is_gone() {
        let unsent = Unsent::default();
        unsent.push(vec![1]);
        unsent.push(vec![b'x'; 2 * MOST]);
        assert!(!unsent.write_each(|_| false));
        unsent.push(vec![2]);
        assert!(unsent.lock().lines.is_empty() && !unsent.wait_for_room(SOON) && unsent.finish(SOON));
    }
}
