//! The documents that pass a filter: how many they are, their ids, their values, and deleting them.

use super::Index;
use super::active_model::ActiveModel;
use super::search::Passing;
use crate::error::Result;
use crate::filter::{Facet, Filter};
use crate::store::View;

impl Index {
    /// Number of documents that pass a filter.
    ///
    /// Like a search with a filter, it uses lists of the values of metadata, and reads the metadata of
    /// documents only where there are none: of documents that are not flushed, and of fields that
    /// [`StoreStats::unlisted_fields`](crate::store::StoreStats::unlisted_fields) names.
    ///
    /// # Errors
    /// Failures of reading.
    pub fn count_where(&self, filter: &Filter) -> Result<usize> {
        let serving = self.serving();
        Ok(serving.matching(&serving.view(), Some(filter))?.len())
    }

    /// The ids of the documents that pass a filter, in byte order, all of one generation. Costs what
    /// [`Self::count_where`] does, plus reading the ids.
    ///
    /// # Errors
    /// Failures of reading.
    pub fn ids_where(&self, filter: &Filter) -> Result<Vec<String>> {
        let serving = self.serving();
        serving.ids_where(&serving.view(), filter)
    }

    /// Deletes the documents that pass a filter in one commit, and returns how many. No other write comes
    /// between finding and deleting them.
    ///
    /// # Durability
    /// As [`Self::delete`].
    ///
    /// # Errors
    /// Failures of reading and of the disk; then nothing is deleted.
    pub fn delete_where(&self, filter: &Filter) -> Result<usize> {
        let committed = self.write(|on| on.store.delete_found(|view| on.ids_where(view, filter)))?;
        Ok(committed.deleted)
    }

    /// The values of some fields among the documents that pass a filter, or among all, with the number of
    /// documents that have each: in the order of `fields`, each with its `most` most frequent values.
    ///
    /// Costs what [`Self::count_where`] does, plus a pass over the lists of the fields' values.
    ///
    /// # Errors
    /// Failures of reading.
    pub fn facets<'a>(
        &self,
        fields: impl IntoIterator<Item = &'a str>,
        filter: Option<&Filter>,
        most: usize,
    ) -> Result<Vec<Facet>> {
        let serving = self.serving();
        let view = serving.view();
        let passing = serving.matching(&view, filter)?;
        let facet = |field| Ok(Facet::new(field, passing.len(), passing.tally(field)?, most));
        fields.into_iter().map(facet).collect()
    }
}

impl ActiveModel {
    fn matching<'a>(&'a self, view: &'a View, filter: Option<&'a Filter>) -> Result<Passing<'a>> {
        match filter {
            Some(filter) => Passing::of(view, filter, &self.filters),
            None => Passing::all(view),
        }
    }

    fn ids_where(&self, view: &View, filter: &Filter) -> Result<Vec<String>> {
        self.matching(view, Some(filter))?.ids()
    }
}
