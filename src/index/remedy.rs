//! Remedies for what [`Health`](super::health::Health) found, and their cost.

use std::num::NonZeroUsize;
use std::time::Instant;

use serde::Serialize;

use super::Index;
use super::active_model::ActiveModel;
use super::calibrate::DEFAULT_QUESTIONS;
use super::health::Advice;
use super::search::{Plan, SearchRequest};
use crate::error::Result;
use crate::model::Role;
use crate::store::View;

/// Stored documents encoded to measure the speed.
const ENCODED: usize = 8;
/// Ratio of the time of tuning to that of encoding all documents, as measured (`docs/lab/experiments.md`).
const TUNING: f64 = 0.2;
/// The same for learning, which encodes the documents twice and trains in between.
const LEARNING: f64 = 5.0;

/// A command that fixes a problem, and its cost.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Remedy {
    /// The command.
    pub command: RemedyCommand,
    /// Documents that it encodes again.
    pub documents_to_encode: usize,
    /// Documents that it routes again.
    pub documents_to_route: usize,
    /// Rough duration on this machine, extrapolated from a few documents. It may be off by a factor of two.
    pub minutes: f64,
}

/// A command of the program, and the library call of the same name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum RemedyCommand {
    /// `ehi calibrate`, [`Index::calibrate`].
    Calibrate,
    /// `ehi tune`, [`Index::tune`](Index#method.tune).
    Tune,
    /// `ehi learn`, [`Index::learn`](Index#method.learn).
    Learn,
}

impl std::fmt::Display for Remedy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (name, does) = match self.command {
            RemedyCommand::Calibrate => ("calibrate", "measures how many leaves a search needs".to_owned()),
            RemedyCommand::Tune => {
                ("tune", format!("makes a tree anew and routes {} documents", self.documents_to_route))
            }
            RemedyCommand::Learn => (
                "learn",
                format!("trains on the judgments and encodes {} documents again", self.documents_to_encode),
            ),
        };
        match self.minutes {
            minutes if minutes < 1.0 => write!(f, "`ehi {name}` {does}, in less than a minute"),
            minutes => write!(f, "`ehi {name}` {does}, in about {minutes:.0} minutes"),
        }
    }
}

impl Index {
    /// The remedies for these problems, each command once; empty if there are no problems.
    pub(super) fn remedies(
        &self,
        serving: &ActiveModel,
        view: &View,
        advice: &[Advice],
    ) -> Result<Vec<Remedy>> {
        if advice.is_empty() {
            return Ok(Vec::new());
        }
        let can_learn = serving.model().has_encoder() && !self.judgments()?.is_empty();
        let mut commands: Vec<RemedyCommand> =
            advice.iter().map(|advice| advice.command(can_learn)).collect();
        commands.sort_unstable();
        commands.dedup();
        if commands.contains(&RemedyCommand::Tune) {
            // It includes calibration.
            commands.retain(|command| *command != RemedyCommand::Calibrate);
        }
        let pace = Pace::of(serving, view)?;
        let documents = view.live_rows();
        let remedy = |command| {
            let all = pace.encoding * documents as f64;
            let calibrating = DEFAULT_QUESTIONS as f64 * (pace.encoding + pace.exact_search);
            let (encode, route, seconds) = match command {
                RemedyCommand::Calibrate => (0, 0, calibrating),
                RemedyCommand::Tune => (0, documents, TUNING * all + calibrating),
                RemedyCommand::Learn => (documents, documents, LEARNING * all + calibrating),
            };
            Remedy {
                command,
                documents_to_encode: encode,
                documents_to_route: route,
                minutes: seconds / 60.0,
            }
        };
        Ok(commands.into_iter().map(remedy).collect())
    }
}

impl Advice {
    fn command(&self, can_learn: bool) -> RemedyCommand {
        match self {
            Self::NotCalibrated { .. } => RemedyCommand::Calibrate,
            Self::UncertainQueries { .. } | Self::ShiftedQueries { .. } if can_learn => RemedyCommand::Learn,
            _ => RemedyCommand::Tune,
        }
    }
}

/// The current speed of this machine, in seconds.
struct Pace {
    /// For one document; 0 without an encoder.
    encoding: f64,
    /// For one question given as a vector.
    exact_search: f64,
}

impl Pace {
    fn of(serving: &ActiveModel, view: &View) -> Result<Self> {
        let rows = view.newest(ENCODED)?;
        let documents =
            rows.iter().map(|&row| view.passage(row)).collect::<std::result::Result<Vec<_>, _>>()?;
        let texts: Vec<_> = documents.iter().map(|document| document.embedding_text()).collect();
        let texts: Vec<&str> = texts.iter().map(AsRef::as_ref).collect();
        let Some(&row) = rows.first() else { return Ok(Self { encoding: 0.0, exact_search: 0.0 }) };
        let encoding = match serving.model().encoder() {
            Ok(encoder) => {
                // The first call loads the encoder.
                encoder.embed(&texts[..1], Role::Document)?;
                let started = Instant::now();
                encoder.embed(&texts, Role::Document)?;
                started.elapsed().as_secs_f64() / texts.len() as f64
            }
            Err(_) => 0.0,
        };
        let question = serving.unit_row(view, row)?;
        let started = Instant::now();
        serving.rank(view, &question, &Plan::new(NonZeroUsize::MIN, &SearchRequest::dense().exact()))?;
        Ok(Self { encoding, exact_search: started.elapsed().as_secs_f64() })
    }
}
