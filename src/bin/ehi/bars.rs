//! Progress on standard error: bars on a terminal, silence elsewhere.

use std::io::{self, IsTerminal};
use std::ops::ControlFlow;

use ehi::{Progress, Stage};
use indicatif::{ProgressBar, ProgressStyle};

/// One bar at a time, for the stage that a call is in.
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

    /// Moves the stage's bar, after taking away that of another stage.
    pub fn set(&mut self, stage: Stage, done: u64, total: Option<u64>) {
        if self.stage != Some(stage) {
            self.clear();
            self.stage = Some(stage);
            if io::stderr().is_terminal() {
                self.bar = bar(name(stage), total);
            }
        }
        if let Some(total) = total {
            self.bar.set_length(total);
        }
        self.bar.set_position(done);
    }

    /// Writes a line to standard error without disturbing the bar.
    pub fn say(&self, line: &str) {
        self.bar.suspend(|| eprintln!("{line}"));
    }

    /// Takes the bar away.
    pub fn clear(&mut self) {
        self.bar.finish_and_clear();
        self.bar = ProgressBar::hidden();
        self.stage = None;
    }
}

fn bar(name: &'static str, total: Option<u64>) -> ProgressBar {
    let (bar, template) = match total {
        Some(total) => (
            ProgressBar::new(total),
            "{prefix:>12} [{bar:32}] {human_pos}/{human_len} {per_sec:.dim} {eta:.dim}",
        ),
        None => (ProgressBar::new_spinner(), "{prefix:>12} {spinner} {human_pos} {per_sec:.dim}"),
    };
    let style = ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
    bar.with_style(style.progress_chars("=> ")).with_prefix(name)
}

fn name(stage: Stage) -> &'static str {
    match stage {
        Stage::Insert => "insert",
        Stage::Trunk => "frozen part",
        Stage::Refresh => "refresh",
        Stage::Initialise => "start tree",
        Stage::Train => "train",
        Stage::TrainIndexer => "train tree",
        Stage::Evaluate => "evaluate",
        Stage::Compact => "compact",
        Stage::Reencode => "encode anew",
        Stage::Repair => "repair",
        Stage::Verify => "verify",
        _ => "working",
    }
}
