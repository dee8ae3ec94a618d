//! Long-running calls: learning from judgments, and rolling back to the previous model. One runs at a time,
//! on its own thread; the page polls its progress.

use std::ops::ControlFlow;
use std::panic::{self, AssertUnwindSafe};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

use ehi::learn::{LearnOptions, Learned};
use ehi::train::TrainConfig;
use ehi::{Error, ModelChange, Progress};
use hyper::StatusCode;
use serde::{Deserialize, Serialize};

use super::judge::writable;
use super::reply::{Refusal, Reply};
use crate::failure::Failure;
use crate::held::HeldIndex;

/// The panic message is on standard error.
pub const PANICKED: &str = "the program has failed; its message is in the terminal where it runs";

pub struct Job {
    config: TrainConfig,
    state: Mutex<JobState>,
    told: Condvar,
}

#[derive(Default, Serialize)]
struct JobState {
    #[serde(flatten)]
    phase: Phase,
    /// Whether it was cancelled: the call ends at its next progress.
    ending: bool,
    /// The user's choice to use the new model or not.
    #[serde(skip)]
    chosen: Option<bool>,
    #[serde(skip)]
    thread: Option<JoinHandle<()>>,
}

#[derive(Clone, Default, Serialize)]
#[serde(tag = "phase", rename_all = "snake_case")]
enum Phase {
    #[default]
    Idle,
    Running {
        what: JobKind,
        stage: &'static str,
        done: u64,
        total: Option<u64>,
    },
    /// Trained and measured; the user decides whether the result is used.
    Deciding {
        learned: Box<Learned>,
    },
    Learned {
        learned: Box<Learned>,
    },
    RolledBack {
        change: ModelChange,
    },
    Cancelled {
        what: JobKind,
    },
    Failed {
        message: String,
    },
}

#[derive(Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum JobKind {
    Learn,
    Rollback,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Decide {
    r#use: bool,
}

impl Job {
    pub fn new(config: TrainConfig) -> Self {
        Self { config, state: Mutex::default(), told: Condvar::new() }
    }

    pub fn show(&self) -> Reply {
        Reply::json(&*self.lock())
    }

    pub fn begin(self: &Arc<Self>, held: &Arc<HeldIndex>, what: JobKind) -> Result<Reply, Refusal> {
        writable(held)?;
        let mut state = self.lock();
        if matches!(state.phase, Phase::Running { .. } | Phase::Deciding { .. }) {
            let message =
                "the index is learning, or returning to the previous model; wait until that has ended";
            return Err(Refusal::new(StatusCode::CONFLICT, "under_way", message));
        }
        let phase = Phase::Running { what, stage: "begin", done: 0, total: None };
        *state = JobState { phase, ..JobState::default() };
        let (own, held) = (Arc::clone(self), Arc::clone(held));
        state.thread = Some(thread::spawn(move || {
            let ended = panic::catch_unwind(AssertUnwindSafe(|| own.run(&held, what)));
            own.lock().phase = ended.unwrap_or_else(|_| Phase::Failed { message: PANICKED.to_owned() });
        }));
        Ok(Reply::json(&*state))
    }

    pub fn decide(&self, Decide { r#use }: &Decide) -> Result<Reply, Refusal> {
        let mut state = self.lock();
        if !matches!(state.phase, Phase::Deciding { .. }) {
            let message = "there is nothing to decide now";
            return Err(Refusal::new(StatusCode::CONFLICT, "nothing_to_decide", message));
        }
        state.chosen = Some(*r#use);
        self.told.notify_all();
        Ok(Reply::json(&*state))
    }

    pub fn cancel(&self) -> Reply {
        let mut state = self.lock();
        state.ending = true;
        self.told.notify_all();
        Reply::json(&*state)
    }

    /// Cancels the call in progress and waits for its end.
    pub fn end(&self) {
        self.cancel();
        let thread = self.lock().thread.take();
        if let Some(thread) = thread {
            // The panic has already been printed.
            let _ = thread.join();
        }
    }

    fn lock(&self) -> MutexGuard<'_, JobState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn run(&self, held: &HeldIndex, what: JobKind) -> Phase {
        let index = held.now();
        let index = index.with_progress(|progress| self.tell(what, progress));
        let ended = match what {
            JobKind::Learn => {
                let options = LearnOptions { config: self.config.clone(), ..LearnOptions::default() };
                let learned = index.learn_if(&options, |learned| self.ask(what, learned));
                learned.map(|learned| Phase::Learned { learned: Box::new(learned) })
            }
            JobKind::Rollback => index.rollback().map(|change| Phase::RolledBack { change }),
        };
        match ended {
            Ok(phase) => phase,
            Err(Error::Cancelled) => Phase::Cancelled { what },
            Err(error) => Phase::Failed { message: Failure::from(error).line() },
        }
    }

    fn tell(&self, what: JobKind, progress: Progress) -> ControlFlow<()> {
        let mut state = self.lock();
        let Progress { stage, done, total, .. } = progress;
        state.phase = Phase::Running { what, stage: stage.name(), done, total };
        if state.ending { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }

    /// Waits until the user has decided whether the result is used. If the program is asked to end first, the
    /// next progress cancels the call.
    fn ask(&self, what: JobKind, learned: &Learned) -> bool {
        let mut state = self.lock();
        state.phase = Phase::Deciding { learned: Box::new(learned.clone()) };
        let chosen = loop {
            if state.ending {
                break false;
            }
            if let Some(chosen) = state.chosen {
                break chosen;
            }
            state = self.told.wait(state).unwrap_or_else(PoisonError::into_inner);
        };
        state.phase = Phase::Running { what, stage: "end", done: 0, total: None };
        chosen
    }
}
