//! How the tree routed the queries that a handle has served.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use crate::model::RoutingSample;

/// Rows, and queries, that count as recent. Enough that a share is off by a few percent at most.
pub const RECENT: usize = 1_024;
/// Routing of the queries served since the index was opened, the newest ones.
#[derive(Default)]
pub(super) struct RoutingLog(Mutex<VecDeque<RoutingSample>>);

impl RoutingLog {
    /// Takes a query down, unless another thread is at it: no search waits for this.
    pub fn record(&self, sample: RoutingSample) {
        if let Ok(mut samples) = self.0.try_lock() {
            if samples.len() == RECENT {
                samples.pop_front();
            }
            samples.push_back(sample);
        }
    }

    pub fn samples(&self) -> Vec<RoutingSample> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).iter().copied().collect()
    }
}
