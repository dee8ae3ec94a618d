//! Changes of a stored document's fields.

use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::sync::Arc;

use serde_json::{Map, Value};

use super::{Fate, InsertStatus, InsertSummary, check, stored_rows};
use crate::document::Document;
use crate::error::{InputError, Result};
use crate::index::Index;
use crate::index::ingest::Prepared;
use crate::index::with_progress::WithProgress;
use crate::outline::Outline;
use crate::progress::{Progress, Stage, Tick};
use crate::store::{PutRow, View, WriteBatch, check_document, has_expired};

/// The fields of a document that [`Index::update`] changes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DocumentUpdate {
    /// The new title; `None` keeps the stored one.
    pub title: Option<String>,
    /// The new text, stored without an outline; `None` keeps the stored text.
    pub text: Option<String>,
    /// Fields that are set in the metadata, or removed where the value is null. Other fields stay.
    pub metadata: Map<String, Value>,
}

impl DocumentUpdate {
    fn apply(&self, document: &Document) -> Result<Document> {
        let mut document = document.clone();
        if let Some(title) = &self.title {
            document.title.clone_from(title);
        }
        if let Some(text) = self.text.as_ref().filter(|text| **text != document.text) {
            document.text.clone_from(text);
            document.outline = Outline::default();
        }
        if self.metadata.is_empty() {
            return Ok(document);
        }
        let mut fields = match document.metadata.take() {
            None => Map::new(),
            Some(Value::Object(fields)) => fields,
            Some(_) => return Err(InputError::MetadataWithoutFields { id: document.id }.into()),
        };
        for (name, value) in &self.metadata {
            match value {
                Value::Null => drop(fields.remove(name)),
                value => drop(fields.insert(name.clone(), value.clone())),
            }
        }
        document.metadata = Some(Value::Object(fields));
        Ok(document)
    }
}

impl Index {
    /// Changes fields of a stored document: its title, its text, and fields of its metadata. If neither title
    /// nor text becomes another, the document keeps its embeddings, and nothing is encoded; otherwise it is
    /// encoded as by [`Self::insert`], even if its embedding was given.
    ///
    /// A change of the document by another call in the meantime is not lost: both apply, in one order or the
    /// other. [`InsertSummary::replaced`] is 1, or [`InsertSummary::expired`] if the document is past its
    /// time now and is gone. If nothing changes, nothing is committed, and neither is 1.
    ///
    /// # Durability
    /// As [`Self::insert`].
    ///
    /// # Errors
    /// With nothing changed: [`InputError::NoDocument`], [`InputError::MetadataWithoutFields`], those of
    /// [`Self::insert`], and [`StoreError::ReadOnly`](crate::store::StoreError::ReadOnly).
    ///
    /// # Examples
    /// ```no_run
    /// # let index = ehi::Index::open("./my-index")?;
    /// use ehi::DocumentUpdate;
    /// use serde_json::{Map, json};
    ///
    /// let metadata = Map::from_iter([("seen".to_owned(), json!(true))]);
    /// index.update("tea", &DocumentUpdate { metadata, ..DocumentUpdate::default() })?;
    /// # Ok::<(), ehi::Error>(())
    /// ```
    pub fn update(&self, id: &str, update: &DocumentUpdate) -> Result<InsertSummary> {
        self.update_with(id, update, &mut || ControlFlow::Continue(()))
    }

    fn update_with(&self, id: &str, update: &DocumentUpdate, tick: &mut Tick<'_>) -> Result<InsertSummary> {
        self.check_writable()?;
        loop {
            let serving = self.serving();
            let config = serving.store.config();
            let Some((stored, rows)) = read(&serving.view(), id)? else {
                return Err(InputError::NoDocument { ids: vec![id.to_owned()] }.into());
            };
            let document = update.apply(&stored)?;
            let keeps_texts = (&document.title, &document.text) == (&stored.title, &stored.text);
            match keeps_texts {
                true => check_document(&document, config)?,
                false => {
                    check(&document, serving.model().encoder()?, config)?.map_or(Ok(()), Err)?;
                }
            }
            let fate: Fate = has_expired(&document, config).then_some(InsertStatus::Expired);
            if fate.is_none() && document == stored {
                return Ok(InsertSummary::new(serving.view().generation()));
            }
            // Without a lock, as for an insert.
            let (prepared, encoded_by) = if fate.is_some() {
                (Prepared::default(), BTreeSet::new())
            } else if keeps_texts {
                let puts = serving.ingest().keep_stored(vec![document], vec![rows.clone()], true)?;
                (Prepared { puts, ..Prepared::default() }, BTreeSet::new())
            } else {
                (serving.ingest().prepare(vec![document], tick)?, serving.encodes())
            };
            let Prepared { puts, cut, cached } = prepared;
            let mut summary = InsertSummary::new(serving.view().generation());
            (summary.cut, summary.cached) = (cut, cached);
            summary.passages = serving.passages().map_or(0, |_| puts.iter().map(|put| put.rows.len()).sum());
            let deletes = fate.iter().map(|_| id.to_owned()).collect();
            let batch = WriteBatch { puts, deletes };
            let committed = self.write(|_| {
                if !Arc::ptr_eq(&serving, &self.serving()) {
                    return Ok(None);
                }
                serving.note_encoded(&*self.root.backend(), &encoded_by)?;
                serving
                    .store
                    .commit_if(batch, |view| Ok(read(view, id)?.is_some_and(|now| now == (stored, rows))))
            })?;
            if let Some(committed) = committed {
                summary.add(&[fate], &committed);
                return Ok(summary);
            }
            // The document, or the model, is another by now.
        }
    }
}

/// A document and its rows.
fn read(view: &View, id: &str) -> Result<Option<(Document, Vec<PutRow>)>> {
    let Some(row) = view.row_of(id)? else { return Ok(None) };
    Ok(Some((view.document(row)?, stored_rows(view, row)?)))
}

impl<F: FnMut(Progress) -> ControlFlow<()>> WithProgress<'_, F> {
    /// As [`Index::update`], with cancellation while a text is encoded.
    ///
    /// # Errors
    /// Those of [`Index::update`], and [`Error::Cancelled`](crate::Error::Cancelled) with
    /// nothing changed.
    pub fn update(mut self, id: &str, update: &DocumentUpdate) -> Result<InsertSummary> {
        let tick = &mut || (self.on_progress)(Progress::new(Stage::Insert, 0, 1));
        self.index.update_with(id, update, tick)
    }
}
