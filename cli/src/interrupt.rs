//! The first signal ends a long command gracefully, the second one at once.

use std::fs;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::flag;

/// Added by shells to the number of the signal that ended a program.
const STATUS_OF_SIGNALS: i32 = 128;

/// The first signal that asked the program to end.
#[derive(Clone)]
pub struct Interrupts(Arc<AtomicUsize>);

impl Interrupts {
    /// Watches from now on; without a watch, a signal ends the program at once.
    pub fn watch() -> Self {
        let first = Arc::new(AtomicUsize::new(0));
        let asked = Arc::new(AtomicBool::new(false));
        for signal in heeded() {
            if let Err(error) = watch(signal, &asked, &first) {
                tracing::warn!(%error, signal, "cannot wait for a signal; it ends the program at once");
            }
        }
        Self(first)
    }

    /// The signal's number.
    pub fn signal(&self) -> Option<i32> {
        match self.0.load(Ordering::Acquire) {
            0 => None,
            signal => i32::try_from(signal).ok(),
        }
    }
}

/// The exit status after a signal, as in shells.
pub fn status(signal: i32) -> i32 {
    STATUS_OF_SIGNALS + signal
}

fn watch(signal: i32, asked: &Arc<AtomicBool>, first: &Arc<AtomicUsize>) -> io::Result<()> {
    // Handlers run in this order: the first one ends the program if a signal came before.
    flag::register_conditional_shutdown(signal, status(signal), Arc::clone(asked))?;
    flag::register(signal, Arc::clone(asked))?;
    flag::register_usize(signal, Arc::clone(first), signal as usize)?;
    Ok(())
}

/// The signals that end the program, without those that it was started to ignore (by `nohup`, or by shells
/// without job control).
fn heeded() -> impl Iterator<Item = i32> {
    let ignored = ignored();
    [SIGINT, SIGTERM, SIGHUP].into_iter().filter(move |signal| ignored >> (signal - 1) & 1 == 0)
}

/// Bit mask of signals ignored at start; empty if the system does not report it.
fn ignored() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
}
