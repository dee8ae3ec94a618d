//! All documents of an index, a page at a time.

use super::Index;
use crate::document::Document;
use crate::error::Result;

impl Index {
    /// All documents in the byte order of their ids.
    ///
    /// Reads a page at a time; documents inserted or deleted in the meantime may or may not be seen.
    pub fn iter(&self) -> StoredDocuments<'_> {
        StoredDocuments { index: self, page: Vec::new().into_iter(), last: None, done: false }
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

/// Iterator over all documents; made by [`Index::iter`].
pub struct StoredDocuments<'a> {
    index: &'a Index,
    page: std::vec::IntoIter<Document>,
    last: Option<String>,
    done: bool,
}

impl std::fmt::Debug for StoredDocuments<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StoredDocuments")
            .field("last", &self.last)
            .field("done", &self.done)
            .finish_non_exhaustive()
    }
}

/// Documents read per page.
const DOCUMENTS_PER_PAGE: usize = 256;

impl Iterator for StoredDocuments<'_> {
    type Item = Result<Document>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(document) = self.page.next() {
                return Some(Ok(document));
            }
            if self.done {
                return None;
            }
            let page = self.index.page(self.last.as_deref(), DOCUMENTS_PER_PAGE);
            match page {
                Ok(page) => {
                    self.done = page.len() < DOCUMENTS_PER_PAGE;
                    self.last = page.last().map(|document| document.id.clone());
                    self.page = page.into_iter();
                }
                Err(error) => {
                    self.done = true;
                    return Some(Err(error));
                }
            }
        }
    }
}

impl<'a> IntoIterator for &'a Index {
    type Item = Result<Document>;
    type IntoIter = StoredDocuments<'a>;

    fn into_iter(self) -> StoredDocuments<'a> {
        self.iter()
    }
}
