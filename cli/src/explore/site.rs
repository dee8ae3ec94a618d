//! Shared state of requests.

use std::sync::{Arc, OnceLock};

use ehi::train::TrainConfig;

use super::guard::Guard;
use super::job::Job;
use super::keys::Keys;
use super::leaves::LastReading;
use crate::held::HeldIndex;

/// The index, data derived from it, and the rule of which requests are answered.
pub struct Site {
    pub held: Arc<HeldIndex>,
    pub guard: Guard,
    pub leaves: LastReading,
    pub job: Arc<Job>,
    /// Example questions.
    pub examples: OnceLock<Vec<String>>,
}

impl Site {
    pub fn new(held: HeldIndex, config: TrainConfig, port: u16) -> Self {
        Self {
            held: Arc::new(held),
            guard: Guard { port, keys: Keys::default() },
            leaves: LastReading::default(),
            job: Arc::new(Job::new(config)),
            examples: OnceLock::new(),
        }
    }
}
