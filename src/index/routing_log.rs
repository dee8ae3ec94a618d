//! How the tree routed the queries served by a handle.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use crate::model::RoutingSample;

/// How many rows, and queries, count as recent. Enough for a share to be accurate to a few percent.
pub const RECENT: usize = 1_024;
/// Routing of the newest queries served since the index was opened.
#[derive(Default)]
pub(super) struct RoutingLog(Mutex<VecDeque<RoutingSample>>);

impl RoutingLog {
    /// Records a query, unless another thread holds the lock: searches do not wait for this.
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
