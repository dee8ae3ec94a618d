//! Runs searches, for one question and for many.

use std::time::Instant;

use rayon::prelude::*;

use super::asked::Asked;
use super::input::Question;
use super::plan::{Plan, Scope};
use super::request::SearchRequest;
use super::result::SearchResult;
use crate::error::{InputError, Result};
use crate::index::Index;

impl Index {
    /// The `k` best documents of the `beam` most probable leaves for a question, by their embeddings.
    ///
    /// Costs one pass of the encoder, a beam search in the tree and a scan of the visited leaves. Runs
    /// concurrently with other searches and with a writer.
    ///
    /// A beam beyond the number of leaves visits all of them; the result is then that of exact search. Fewer
    /// than `k` hits are returned if the visited leaves hold fewer.
    ///
    /// # Paper
    /// Sections 3.4 and 3.6.
    ///
    /// # Errors
    /// [`InputError::EmptyQuery`], [`InputError::OutOfRange`]; failures
    /// of the encoder and of reading.
    pub fn search(&self, query: &str, k: usize, beam: usize) -> Result<SearchResult> {
        self.search_with(query, &SearchRequest::dense().k(k).beam(beam))
    }

    /// The documents that answer a question, as the request says.
    ///
    /// # Errors
    /// Those of the request; [`InputError::EmptyQuery`]; for an embedding [`InputError::Dimension`],
    /// [`InputError::BadVector`], [`InputError::NoWords`]; failures of the encoder and of reading.
    pub fn search_with<'q>(
        &self,
        question: impl Into<Question<'q>>,
        request: &SearchRequest,
    ) -> Result<SearchResult> {
        let mut answers = self.search_many([question], request)?;
        answers.pop().ok_or_else(|| InputError::EmptyQuery.into())
    }

    /// The results in the order of the questions, each as from a separate search.
    ///
    /// The texts are encoded together, and the searches run on the threads of the current rayon pool.
    /// `encode` in [`SearchStats`](crate::SearchStats) is each question's share of the total.
    ///
    /// # Errors
    /// Those of [`Self::search_with`], for the first question that fails.
    pub fn search_many<'q>(
        &self,
        questions: impl IntoIterator<Item: Into<Question<'q>>>,
        request: &SearchRequest,
    ) -> Result<Vec<SearchResult>> {
        self.search_within(None, questions, request)
    }

    /// As [`Self::search_many`], with a scope that is part of the filter: notes are about documents in it.
    pub(in crate::index) fn search_within<'q>(
        &self,
        scope: Option<Scope<'_>>,
        questions: impl IntoIterator<Item: Into<Question<'q>>>,
        request: &SearchRequest,
    ) -> Result<Vec<SearchResult>> {
        self.check_process()?;
        let questions: Vec<Question<'q>> = questions.into_iter().map(Into::into).collect();
        let plan = Plan { scope, ..request.plan(self)? };
        let serving = self.serving();
        // First: when this model is no longer in service, its store may be removed.
        let view = serving.view();
        let _span = plan.span(questions.len(), &view).entered();
        let started = Instant::now();
        let mut asked = serving.read_questions(&questions, &plan, &view)?;
        let encode = started.elapsed() / asked.len().max(1) as u32;
        self.log(request, &asked);
        self.recall(&serving, &view, &plan, &mut asked);
        let once = |asked: &Asked<'_>, plan: &Plan<'_>| {
            let ranked = match &request.group_by {
                Some(group_by) => serving.rank_groups(&view, asked, plan, group_by)?,
                None => serving.rank_asked(&view, asked, plan)?,
            };
            request.reranked(asked, serving.answer(&view, asked, plan, &ranked, encode)?)
        };
        let search = |asked: &Asked<'_>, plan: &Plan<'_>| match once(asked, plan) {
            // Documents that only judgments name may be damaged.
            Err(error) if !asked.recalled.is_empty() => {
                let without = once(&Asked { recalled: Vec::new(), ..asked.clone() }, plan)?;
                self.attempted(Err::<(), _>(error), "judgments do not count in this search");
                Ok(without)
            }
            found => found,
        };
        match &asked[..] {
            // Without using the thread pool.
            [asked] => Ok(vec![search(asked, &plan)?]),
            _ => {
                let plan = Plan { parallel: false, ..plan };
                asked.par_iter().map(|asked| search(asked, &plan)).collect()
            }
        }
    }
}
