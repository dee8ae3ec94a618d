//! All documents of an index, a page at a time.

use half::slice::HalfFloatSliceExt;

use super::Index;
use crate::document::Document;
use crate::error::{InputError, Result};

/// Documents read per page.
const DOCUMENTS_PER_PAGE: usize = 256;

impl Index {
    /// All documents in the byte order of their ids. Ends after an error.
    ///
    /// Reads a page at a time; documents inserted or deleted in the meantime may or may not be seen.
    pub fn iter(&self) -> impl Iterator<Item = Result<Document>> + use<'_> {
        let (mut last, mut done): (Option<String>, bool) = (None, false);
        let mut page = Vec::new().into_iter();
        std::iter::from_fn(move || {
            if page.as_slice().is_empty() && !done {
                let next = self.page(last.as_deref(), DOCUMENTS_PER_PAGE);
                done = next.as_ref().map_or(0, Vec::len) < DOCUMENTS_PER_PAGE;
                match next {
                    Ok(next) => page = next.into_iter(),
                    Err(error) => return Some(Err(error)),
                }
                last = page.as_slice().last().map(|document: &Document| document.id.clone());
            }
            page.next().map(Ok)
        })
    }

    /// The embeddings of the documents with these ids, as stored, in their order, all of one generation: for
    /// each document one of `[dim]` f32, or one for each passage in the order of its text.
    ///
    /// # Errors
    /// [`InputError::NoDocument`] with every id that has none, and failures of reading.
    pub fn vectors(&self, ids: impl IntoIterator<Item: AsRef<str>>) -> Result<Vec<Vec<Vec<f32>>>> {
        let view = self.serving().view();
        let (mut vectors, mut missing) = (Vec::new(), Vec::new());
        for id in ids {
            let Some(row) = view.row_of(id.as_ref())? else {
                missing.push(id.as_ref().to_owned());
                continue;
            };
            if missing.is_empty() {
                let rows = view.rows_of(row)?.into_iter().map(|row| Ok(view.embedding(row)?.to_f32_vec()));
                vectors.push(rows.collect::<Result<Vec<_>>>()?);
            }
        }
        match missing.is_empty() {
            true => Ok(vectors),
            false => Err(InputError::NoDocument { ids: missing }.into()),
        }
    }

    /// The ids of all documents in byte order, all of one generation; nothing else is read.
    ///
    /// # Errors
    /// Failures of reading.
    pub fn ids(&self) -> Result<Vec<String>> {
        let view = self.serving().view();
        let mut walk = view.walk(None)?;
        let mut ids = Vec::with_capacity(view.live());
        while let Some((id, _)) = walk.next()? {
            ids.push(id);
        }
        Ok(ids)
    }
}
