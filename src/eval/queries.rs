//! The queries of a split with their judgments, as rows.

use std::collections::HashSet;

use crate::data::{Dataset, Qrels};
use crate::error::Result;
use crate::ids::Row;
use crate::index::ActiveModel;
use crate::measure::{Judged, Ranking};
use crate::search::QueryEncoder;
use crate::store::View;

/// Judged queries with their embeddings.
pub(super) struct EvalQueries {
    /// Ids of the asked queries, in the order of the dataset, then of those without a text.
    pub ids: Vec<String>,
    /// Texts of the asked queries.
    pub texts: Vec<String>,
    /// `[asked, dim]` f32; empty without an encoder.
    pub rows: Vec<f32>,
    /// For each asked query, the encoder of its embedding.
    pub encoders: Vec<QueryEncoder>,
    pub asked: usize,
}

impl EvalQueries {
    /// Reads and embeds the queries of a split; the first of several with one id is used.
    pub fn read(
        serving: &ActiveModel,
        dataset: &Dataset,
        qrels: &Qrels,
        encoder: QueryEncoder,
    ) -> Result<Self> {
        let mut seen = HashSet::new();
        let mut ids = Vec::new();
        let mut texts = Vec::new();
        for query in dataset.queries()? {
            let query = query?;
            if qrels.get(&query.id).is_some() && seen.insert(query.id.clone()) {
                ids.push(query.id);
                texts.push(query.text);
            }
        }
        let read: Vec<_> = texts.iter().map(|text| text.as_str().into()).collect();
        // Without an encoder they are asked by their words alone.
        let encoded = match serving.model().has_encoder() {
            true => serving.encode_questions(&read, Some(encoder))?,
            false => Vec::new(),
        };
        let (rows, encoders): (Vec<_>, Vec<_>) = encoded.into_iter().unzip();
        let asked = ids.len();
        ids.extend(qrels.iter().map(|(id, _)| id).filter(|id| !seen.contains(*id)).map(str::to_owned));
        Ok(Self { ids, texts, rows: rows.concat(), encoders, asked })
    }
}

/// The judgments of the asked queries by row, and the number of judged documents missing from a view.
pub(super) fn judged(view: &View, queries: &EvalQueries, qrels: &Qrels) -> Result<(Vec<Judged>, usize)> {
    let mut missing = HashSet::new();
    let mut judged = Vec::with_capacity(queries.asked);
    for query in &queries.ids[..queries.asked] {
        let Some(judgments) = qrels.get(query) else { continue };
        let mut grades = Vec::with_capacity(judgments.len());
        for (id, &grade) in judgments {
            let row = view.row_of(id)?;
            if row.is_none() {
                missing.insert(id.as_str());
            }
            grades.push((row, grade));
        }
        judged.push(Judged::new(grades));
    }
    Ok((judged, missing.len()))
}

/// For each asked query the document with its id, if such documents are left out of the hits.
pub(super) fn identical(view: &View, queries: &EvalQueries, is_ignored: bool) -> Result<Vec<Option<Row>>> {
    let row = |id: &String| Ok(if is_ignored { view.row_of(id)? } else { None });
    queries.ids[..queries.asked].iter().map(row).collect()
}

/// Sorts equal scores like `trec_eval`: by id, largest first.
pub(super) fn order_ties(view: &View, ranking: &mut Ranking) -> Result<()> {
    for tied in ranking.chunk_by_mut(|a, b| a.0 == b.0).filter(|tied| tied.len() > 1) {
        let ids = tied.iter().map(|&(_, row)| Ok((view.id(row)?, row)));
        let mut ids = ids.collect::<Result<Vec<_>>>()?;
        ids.sort_unstable_by(|a, b| b.0.cmp(&a.0));
        tied.iter_mut().zip(ids).for_each(|((_, row), (_, sorted))| *row = sorted);
    }
    Ok(())
}
