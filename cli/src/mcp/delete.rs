//! The tool `delete`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::limits::{BATCH, within};
use super::tool::Call;
use crate::failure::Failure;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Arguments {
    /// Ids of the documents to delete.
    #[schemars(length(min = 1, max = BATCH))]
    ids: Vec<String>,
}

#[derive(Serialize, JsonSchema)]
pub struct Answer {
    deleted: usize,
    /// Ids that no document had.
    absent: usize,
    /// Documents of the index now.
    documents: usize,
}

/// What the model reads that chooses among the tools.
pub const DESCRIPTION: &str = "Delete documents by their ids, for good: no tool brings them back.";

/// # Errors
/// Wrong arguments and failures of the index, for the model to read.
pub fn call(arguments: Arguments, call: &Call<'_>) -> Result<Answer, Failure> {
    let mut ids = arguments.ids;
    within("the number of ids", ids.len(), 1..=BATCH)?;
    ids.sort_unstable();
    ids.dedup();
    let index = call.index()?;
    let asked = ids.len();
    let deleted = index.delete_batch(ids)?;
    index.flush()?;
    Ok(Answer { deleted, absent: asked - deleted, documents: index.len() })
}
