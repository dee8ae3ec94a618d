//! Where judged documents are, and what their texts are, looked up once in each state of the store.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use crate::error::Result;
use crate::ids::Row;
use crate::store::{View, ViewMark};

/// Judged documents by their ids, as searches with judgments found them in a view; `None` for those that are
/// not in it.
#[derive(Default)]
pub(crate) struct JudgedTexts(Mutex<Known>);

#[derive(Default)]
struct Known {
    /// Of the view.
    mark: ViewMark,
    texts: HashMap<Arc<str>, Option<JudgedText>>,
}

/// A judged document in a view.
#[derive(Clone, Copy)]
pub(super) struct JudgedText {
    /// Its representative row.
    pub row: Row,
    /// Of its stored title and text.
    pub checksum: u32,
}

impl JudgedTexts {
    /// The documents in a view, in the order of their ids.
    ///
    /// # Errors
    /// Failures of reading.
    pub(super) fn find<'a>(
        &self,
        view: &View,
        ids: impl Iterator<Item = &'a Arc<str>>,
    ) -> Result<Vec<Option<JudgedText>>> {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if !view.has_mark(&known.mark) {
            *known = Known { mark: view.mark(), texts: HashMap::new() };
        }
        let texts = &mut known.texts;
        let find = |id: &Arc<str>| match texts.get(id) {
            Some(text) => Ok(*text),
            None => {
                let row = view.row_of(id)?;
                let text =
                    |row| Ok::<_, crate::Error>(JudgedText { row, checksum: view.text_checksum(row)? });
                let text = row.map(text).transpose()?;
                texts.insert(Arc::clone(id), text);
                Ok(text)
            }
        };
        ids.map(find).collect()
    }
}
