//! The rows of judged documents, so that their ids are looked up once in each state of the store.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use crate::error::Result;
use crate::ids::Row;
use crate::store::{View, ViewMark};

/// Representative rows by ids, as the last search with judgments found them in its view; `None` for documents
/// that are not in it.
#[derive(Default)]
pub(crate) struct JudgedRows(Mutex<Known>);

#[derive(Default)]
struct Known {
    /// Of the view.
    mark: ViewMark,
    rows: HashMap<Arc<str>, Option<Row>>,
}

impl JudgedRows {
    /// The rows of documents in a view, in the order of their ids.
    ///
    /// # Errors
    /// Failures of reading.
    pub fn find<'a>(&self, view: &View, ids: impl Iterator<Item = &'a Arc<str>>) -> Result<Vec<Option<Row>>> {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if !view.has_mark(&known.mark) {
            *known = Known { mark: view.mark(), rows: HashMap::new() };
        }
        let rows = &mut known.rows;
        let find = |id: &Arc<str>| match rows.get(id) {
            Some(row) => Ok(*row),
            None => {
                let row = view.row_of(id)?;
                rows.insert(Arc::clone(id), row);
                Ok(row)
            }
        };
        ids.map(find).collect()
    }
}
