//! Progress on standard error: bars on a terminal, silence elsewhere.

use std::io::{self, Write};
use std::ops::ControlFlow;
use std::sync::LazyLock;
use std::time::Duration;

use ehi::{Progress, Stage};
use indicatif::{HumanCount, HumanDuration, MultiProgress, ProgressBar, ProgressStyle};

/// How often an idle bar is redrawn.
const TICK: Duration = Duration::from_millis(200);
/// Shortest time for a meaningful rate.
const FIRST_RATE: Duration = Duration::from_secs(1);

/// The bar on the terminal. Other writers hide it while they print.
static SHOWN: LazyLock<MultiProgress> = LazyLock::new(MultiProgress::new);

/// One bar at a time, for the current stage of a call.
pub struct Bars {
    bar: ProgressBar,
    stage: Option<Stage>,
}

impl Bars {
    pub fn new() -> Self {
        Self { bar: ProgressBar::hidden(), stage: None }
    }

    /// A callback of the library that never cancels.
    pub fn show(&mut self, progress: Progress) -> ControlFlow<()> {
        self.set(progress.stage, progress.done, progress.total);
        ControlFlow::Continue(())
    }

    /// Moves the bar of a stage, after removing that of another stage.
    pub fn set(&mut self, stage: Stage, done: u64, total: Option<u64>) {
        if self.stage != Some(stage) {
            self.clear();
            self.stage = Some(stage);
            self.bar = begin(stage.name(), total);
        }
        if let Some(total) = total {
            self.bar.set_length(total);
        }
        self.bar.set_position(done);
        self.bar.set_message(counts(&self.bar));
    }

    /// Removes the bar.
    pub fn clear(&mut self) {
        end(&self.bar);
        self.bar = ProgressBar::hidden();
        self.stage = None;
    }
}

/// Shows a bar, or a spinner if the total is unknown, with its message next to it.
pub fn begin(name: &'static str, total: Option<u64>) -> ProgressBar {
    let (bar, template) = match total {
        Some(total) => (ProgressBar::new(total), "{prefix:>12} [{bar:32}] {msg}"),
        None => (ProgressBar::new_spinner(), "{prefix:>12} {spinner} {msg}"),
    };
    let style = ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
    let bar = SHOWN.add(bar.with_style(style.progress_chars("=> ")).with_prefix(name));
    // Also draws before the first step.
    bar.enable_steady_tick(TICK);
    bar
}

/// Removes a bar.
pub fn end(bar: &ProgressBar) {
    bar.finish_and_clear();
    SHOWN.remove(bar);
}

/// Hides the bar while `write` prints to standard error.
pub fn beside<T>(write: impl FnOnce() -> T) -> T {
    SHOWN.suspend(write)
}

/// Writes a line to standard error, above the bar.
#[allow(dead_code, reason = "not every example has lines to write")]
pub fn say(line: &str) {
    // If standard error is closed, the line is dropped.
    let _ = beside(|| writeln!(io::stderr(), "{line}"));
}

/// Units per second; `None` until enough time has passed.
pub fn rate(units: u64, elapsed: Duration) -> Option<String> {
    if elapsed < FIRST_RATE {
        return None;
    }
    let rate = units as f64 / elapsed.as_secs_f64();
    Some(if rate < 10.0 { format!("{rate:.1}/s") } else { format!("{}/s", HumanCount(rate.round() as u64)) })
}

/// Units done, of how many, the mean rate and the time left.
fn counts(bar: &ProgressBar) -> String {
    let done = HumanCount(bar.position());
    let rate = rate(bar.position(), bar.elapsed()).unwrap_or_default();
    match bar.length() {
        Some(total) if rate.is_empty() => format!("{done}/{}", HumanCount(total)),
        Some(total) => format!("{done}/{} {rate} {:#}", HumanCount(total), HumanDuration(bar.eta())),
        None => format!("{done} {rate}"),
    }
}
