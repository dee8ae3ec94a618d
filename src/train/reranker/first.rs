//! The first search, whose hits a reranker reads: that of an index, or BM25 over the set's documents.

use std::collections::HashMap;

use rayon::prelude::*;

use crate::error::{Error, Result};
use crate::lexical::{self, Bm25, List, Norms, Posting, QueryTerm, Undecodable};
use crate::model::{ModelError, Reranker};
use crate::progress::{OnProgress, Progress, Stage};
use crate::scan::TopK;
use crate::train::dataset::TrainingSet;

/// Questions between two reports of progress.
const BLOCK: usize = 64;

/// The best documents for each question, best first, as positions in the set.
pub(super) type Hits = Vec<Vec<u32>>;

/// Posting lists of a training set in memory, by the tokens of the reranker.
struct Words {
    lists: HashMap<u32, Vec<Posting>>,
    lengths: Vec<u32>,
    norms: Norms,
}

/// Searches the documents of the set by BM25.
///
/// # Errors
/// Those of the tokenizer, and [`Error::Cancelled`].
pub(super) fn by_words(
    reranker: &Reranker,
    set: &TrainingSet,
    questions: &[&str],
    depth: usize,
    on_progress: &mut OnProgress<'_>,
) -> Result<Hits> {
    let words = Words::of(reranker, set)?;
    let mut hits = Vec::with_capacity(questions.len());
    for block in questions.chunks(BLOCK) {
        let found = block.par_iter().map(|question| words.search(reranker, question, depth));
        hits.extend(found.collect::<std::result::Result<Vec<_>, ModelError>>()?);
        Progress::new(Stage::Questions, hits.len(), questions.len()).tell(on_progress, Error::Cancelled)?;
    }
    Ok(hits)
}

fn counts(reranker: &Reranker, text: &str) -> std::result::Result<(Vec<(u32, u32)>, u32), ModelError> {
    let mut terms = Vec::new();
    reranker.terms(text, &mut terms)?;
    terms.sort_unstable();
    let length = terms.len() as u32;
    let groups = terms.chunk_by(|a, b| a == b).map(|own| (own[0], own.len() as u32));
    Ok((groups.collect(), length))
}

impl Words {
    fn of(reranker: &Reranker, set: &TrainingSet) -> std::result::Result<Self, ModelError> {
        let documents = set.documents.par_iter().map(|d| counts(reranker, &d.embedding_text()));
        let documents = documents.collect::<std::result::Result<Vec<_>, ModelError>>()?;
        let lengths: Vec<u32> = documents.iter().map(|&(_, length)| length).collect();
        let sum: f64 = lengths.iter().map(|&length| f64::from(length)).sum();
        let mut lists: HashMap<u32, Vec<Posting>> = HashMap::new();
        for (row, (terms, _)) in (0u32..).zip(documents) {
            for (term, count) in terms {
                lists.entry(term).or_default().push(Posting { row, count });
            }
        }
        let average = (sum / lengths.len().max(1) as f64) as f32;
        Ok(Self { lists, lengths, norms: Norms::new(Bm25::default(), average) })
    }

    fn search(
        &self,
        reranker: &Reranker,
        question: &str,
        depth: usize,
    ) -> std::result::Result<Vec<u32>, ModelError> {
        let (terms, _) = counts(reranker, question)?;
        let rows = self.lengths.len() as u64;
        let of_term = |&(term, count): &(u32, u32)| {
            let list = self.lists.get(&term)?.as_slice();
            let weight = Bm25::idf(rows, list.len() as u64) * count as f32;
            Some(QueryTerm { list: List::Plain(list), weight, required: false })
        };
        let terms: Vec<QueryTerm<'_>> = terms.iter().filter_map(of_term).collect();
        let mut best = TopK::new(depth);
        let mut accept = |_, _| Ok::<bool, Undecodable>(true);
        // Lists in memory that were just made are sound.
        let searched = lexical::search(&terms, &self.lengths, &self.norms, 0, &mut accept, &mut best);
        debug_assert!(searched.is_ok(), "{searched:?}");
        Ok(best.into_sorted().into_iter().map(|(_, row)| row.0).collect())
    }
}
