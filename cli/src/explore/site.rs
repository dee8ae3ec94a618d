//! What requests work with.

use std::sync::Arc;

use ehi::train::TrainConfig;
use hyper::body::Bytes;
use serde::de::DeserializeOwned;

use super::about::Examples;
use super::held::Held;
use super::job::Job;
use super::leaves::Shelf;
use super::reply::Refusal;

/// The index, and what was worked out about it.
pub struct Site {
    pub held: Arc<Held>,
    pub shelf: Arc<Shelf>,
    pub job: Arc<Job>,
    pub examples: Examples,
}

impl Site {
    pub fn new(held: Held, config: TrainConfig) -> Self {
        let job = Arc::new(Job::new(config));
        Self { held: Arc::new(held), shelf: Arc::default(), job, examples: Examples::default() }
    }
}

/// The body of a request that was admitted.
pub struct Call {
    pub body: Bytes,
}

impl Call {
    /// # Errors
    /// What is wrong with the body.
    pub fn json<T: DeserializeOwned>(&self) -> Result<T, Refusal> {
        serde_json::from_slice(&self.body).map_err(|error| Refusal::bad(format!("the request: {error}")))
    }
}
