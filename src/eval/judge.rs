//! Judged queries, and what their rankings are worth.

use std::collections::{HashMap, HashSet};

use super::{Metric, RelevanceLevel};
use crate::data::{Dataset, Judgments, Qrels};
use crate::error::Result;
use crate::ids::Row;
use crate::index::ActiveModel;
use crate::model::Role;
use crate::store::View;

/// Judged queries with their embeddings.
pub(super) struct EvalQueries {
    /// Those asked, in the order of the dataset, then those without a text.
    pub ids: Vec<String>,
    /// `[asked, dim]` f32
    pub rows: Vec<f32>,
    pub asked: usize,
}

impl EvalQueries {
    /// Reads and embeds the queries of a split; of several with one id the first one.
    pub fn read(serving: &ActiveModel, dataset: &Dataset, qrels: &Qrels) -> Result<Self> {
        let mut seen = HashSet::new();
        let mut ids = Vec::new();
        let mut texts = Vec::new();
        for query in dataset.queries()? {
            let query = query?;
            if qrels.contains(&query.id) && seen.insert(query.id.clone()) {
                ids.push(query.id);
                texts.push(query.text);
            }
        }
        let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
        let rows = serving.model().encoder().embed(&texts, Role::Query)?;
        let asked = ids.len();
        ids.extend(qrels.iter().map(|(id, _)| id).filter(|id| !seen.contains(*id)).map(str::to_owned));
        Ok(Self { ids, rows, asked })
    }
}

/// Rows of a view, best first.
pub(super) type Ranking = Vec<(f32, Row)>;

/// Judges rankings of rows. Of all the ids, only those of judged documents are in memory.
pub(super) struct Judge<'a> {
    view: &'a View,
    metrics: &'a [Metric],
    level: RelevanceLevel,
    /// Of each asked query.
    judged: Vec<Judged<'a>>,
    /// Judged documents that the view does not have.
    pub missing_documents: usize,
}

struct Judged<'a> {
    judgments: &'a Judgments,
    ids: HashMap<Row, &'a str>,
}

impl<'a> Judge<'a> {
    pub fn new(
        view: &'a View,
        questions: &EvalQueries,
        qrels: &'a Qrels,
        metrics: &'a [Metric],
        level: RelevanceLevel,
    ) -> Result<Self> {
        let mut missing = HashSet::new();
        let mut judged = Vec::with_capacity(questions.asked);
        for query in &questions.ids[..questions.asked] {
            let Some(judgments) = qrels.get(query) else { continue };
            let mut ids = HashMap::with_capacity(judgments.len());
            for id in judgments.keys() {
                match view.row_of(id)? {
                    Some(row) => drop(ids.insert(row, id.as_str())),
                    None => drop(missing.insert(id.as_str())),
                }
            }
            judged.push(Judged { judgments, ids });
        }
        Ok(Self { view, metrics, level, judged, missing_documents: missing.len() })
    }

    /// Whether documents were judged, but none of the view.
    pub fn has_nothing(&self) -> bool {
        self.missing_documents > 0 && self.judged.iter().all(|judged| judged.ids.is_empty())
    }

    /// Puts equal scores in the order of `trec_eval`: by id, largest first.
    pub fn order(&self, ranking: &mut Ranking) -> Result<()> {
        for tied in ranking.chunk_by_mut(|a, b| a.0 == b.0).filter(|tied| tied.len() > 1) {
            let ids = tied.iter().map(|&(_, row)| Ok((self.view.id(row)?, row)));
            let mut ids = ids.collect::<Result<Vec<_>>>()?;
            ids.sort_unstable_by(|a, b| b.0.cmp(&a.0));
            tied.iter_mut().zip(ids).for_each(|((_, row), (_, sorted))| *row = sorted);
        }
        Ok(())
    }

    /// Each metric of an asked query's ranking, which is in the order of [`Self::order`].
    pub fn values(&self, query: usize, ranking: &Ranking) -> impl Iterator<Item = f64> {
        let Judged { judgments, ids } = &self.judged[query];
        // No document has the empty id, so it stands for any that was not judged.
        let ranked: Vec<&str> =
            ranking.iter().map(|(_, row)| ids.get(row).copied().unwrap_or_default()).collect();
        self.metrics.iter().map(move |metric| metric.of_query(&ranked, judgments, self.level))
    }
}
