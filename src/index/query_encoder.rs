//! The query encoder of the model in service.

use super::Index;
#[cfg(feature = "train")]
use super::active_model::ActiveModel;
#[cfg(feature = "train")]
use crate::error::Result;
use crate::model::DistilReport;
#[cfg(feature = "train")]
use crate::model::QueryEncoderEntry;

impl Index {
    /// The report of the query encoder of the model in service; `None` without one.
    pub fn query_encoder(&self) -> Option<DistilReport> {
        self.serving().bundle.query_encoder()
    }

    /// Gives the model in service a query encoder, or removes it; durable once this has returned. What
    /// [`Index::fuse`] learned for one query encoder is not used for another.
    #[cfg(feature = "train")]
    pub(crate) fn set_query_encoder(
        &self,
        serving: &ActiveModel,
        new: Option<(QueryEncoderEntry, &[u8])>,
    ) -> Result<()> {
        Ok(serving.bundle().set_query_encoder(&*self.root.backend(), new)?)
    }
}
