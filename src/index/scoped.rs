//! Searches, counts and deletes within the documents that pass a filter.

use std::sync::Arc;

use super::Index;
use super::search::{Question, Scope, SearchRequest, SearchResult, SearchStats};
use crate::document::Document;
use crate::error::{InputError, Result};
use crate::filter::{Facet, Filter};

/// An index as if it had only the documents that pass a filter: those of one tenant, or those that a user may
/// read. Made by [`Index::scoped`].
///
/// No call returns, counts or deletes another document, and no note or number tells of one: a search has
/// times and no counts, and hits do not name judgments, which may be those of others, though these count.
/// Scores by words depend on how frequent words are in the whole index. Documents are inserted into the index
/// itself: one with the id of another tenant's document replaces it.
#[derive(Clone, Debug)]
pub struct Scoped<'a> {
    index: &'a Index,
    scope: Filter,
}

/// A result without what tells of other documents, or of questions that others have judged.
fn discreet(mut result: SearchResult, request: &SearchRequest) -> SearchResult {
    result.hits.iter_mut().for_each(|hit| hit.judged = None);
    let SearchStats { reranked, encoder, encode, beam, scan, lexical, fetch, rerank, .. } = result.stats;
    let stats = SearchStats {
        reranked,
        encoder,
        encode,
        beam,
        scan,
        lexical,
        fetch,
        rerank,
        ..SearchStats::default()
    };
    SearchResult { request: request.clone(), stats, ..result }
}

impl Index {
    /// A handle for the documents that pass a filter.
    pub fn scoped(&self, scope: Filter) -> Scoped<'_> {
        Scoped { index: self, scope }
    }
}

impl Scoped<'_> {
    /// As [`Index::search`].
    ///
    /// # Errors
    /// Those of [`Index::search`].
    pub fn search(&self, query: &str, k: usize, beam: usize) -> Result<SearchResult> {
        self.search_with(query, &SearchRequest::dense().k(k).beam(beam))
    }

    /// As [`Index::search_with`]; the filter of the request applies too.
    ///
    /// # Errors
    /// Those of [`Index::search_with`].
    pub fn search_with<'q>(
        &self,
        question: impl Into<Question<'q>>,
        request: &SearchRequest,
    ) -> Result<SearchResult> {
        self.search_many([question], request)?.pop().ok_or_else(|| InputError::EmptyQuery.into())
    }

    /// As [`Index::search_many`]; the filter of the request applies too.
    ///
    /// # Errors
    /// Those of [`Index::search_many`].
    pub fn search_many<'q>(
        &self,
        questions: impl IntoIterator<Item: Into<Question<'q>>>,
        request: &SearchRequest,
    ) -> Result<Vec<SearchResult>> {
        let asked = request.filter.as_deref();
        let within = SearchRequest { filter: Some(Arc::new(self.within(asked))), ..request.clone() };
        let scope = Scope { filter: &self.scope, asked };
        let results = self.index.search_within(Some(scope), questions, &within)?;
        Ok(results.into_iter().map(|result| discreet(result, request)).collect())
    }

    /// As [`Index::get`].
    ///
    /// # Errors
    /// Failures of reading.
    pub fn get(&self, id: &str) -> Result<Option<Document>> {
        let document = self.index.get(id)?;
        Ok(document.filter(|document| self.scope.matches(&document.id, document.metadata.as_ref())))
    }

    /// Number of documents that pass a filter, or of all in the scope.
    ///
    /// # Errors
    /// Failures of reading.
    pub fn count(&self, filter: Option<&Filter>) -> Result<usize> {
        self.index.count_where(&self.within(filter))
    }

    /// Ids of the documents that pass a filter, or of all in the scope, in byte order.
    ///
    /// # Errors
    /// Failures of reading.
    pub fn ids(&self, filter: Option<&Filter>) -> Result<Vec<String>> {
        self.index.ids_where(&self.within(filter))
    }

    /// As [`Index::facets`].
    ///
    /// # Errors
    /// Failures of reading.
    pub fn facets<'f>(
        &self,
        fields: impl IntoIterator<Item = &'f str>,
        filter: Option<&Filter>,
        most: usize,
    ) -> Result<Vec<Facet>> {
        self.index.facets(fields, Some(&self.within(filter)), most)
    }

    /// As [`Index::delete`]; a document outside the scope does not exist.
    ///
    /// # Errors
    /// Failures of reading and of the disk.
    pub fn delete(&self, id: &str) -> Result<bool> {
        Ok(self.delete_where(&Filter::ids([id]))? > 0)
    }

    /// As [`Index::delete_where`].
    ///
    /// # Errors
    /// Failures of reading and of the disk; then nothing is deleted.
    pub fn delete_where(&self, filter: &Filter) -> Result<usize> {
        self.index.delete_where(&self.within(Some(filter)))
    }

    fn within(&self, filter: Option<&Filter>) -> Filter {
        Filter::all([self.scope.clone()].into_iter().chain(filter.cloned()))
    }
}
