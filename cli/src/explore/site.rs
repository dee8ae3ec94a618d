//! Shared state of requests.

use std::sync::{Arc, OnceLock};

use ehi::train::TrainConfig;
use hyper::body::Bytes;
use serde::de::DeserializeOwned;

use super::job::Job;
use super::leaves::LastReading;
use super::reply::Refusal;
use crate::held::HeldIndex;

/// The index, and data derived from it.
pub struct Site {
    pub held: Arc<HeldIndex>,
    pub leaves: LastReading,
    pub job: Arc<Job>,
    /// Example questions.
    pub examples: OnceLock<Vec<String>>,
}

impl Site {
    pub fn new(held: HeldIndex, config: TrainConfig) -> Self {
        let job = Arc::new(Job::new(config));
        Self { held: Arc::new(held), leaves: LastReading::default(), job, examples: OnceLock::new() }
    }
}

/// The body of a request that was admitted.
pub struct Call {
    pub body: Bytes,
}

impl Call {
    /// # Errors
    /// The problem with the body.
    pub fn json<T: DeserializeOwned>(&self) -> Result<T, Refusal> {
        serde_json::from_slice(&self.body).map_err(|error| Refusal::bad(format!("the request: {error}")))
    }
}
