//! What default searches with a model give for judged questions.

use std::collections::HashMap;
use std::num::NonZeroUsize;

use super::nearness::{Recallable, nearest};
use super::questions::{BLOCK, Questions, asked};
use crate::error::{Error, Result};
use crate::index::ActiveModel;
use crate::index::search::{Asked, Fusion, Plan, RankBy, SearchRequest};
use crate::measure::{Judge, Metric, RelevanceLevel};
use crate::progress::{OnProgress, Progress, Stage};
use crate::store::View;

/// Metrics of a default search.
const METRICS: [Metric; 2] = [Metric::NDCG_AT_10, Metric::RECALL_AT_10];

/// Default searches by their questions.
pub(crate) type Served = HashMap<String, ServedQuestion>;

/// How good a default search for a question is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ServedQuestion {
    /// nDCG@10 and recall@10 without judgments, and nDCG@10 with those of other questions.
    pub values: [f64; 3],
    /// Cosine of the nearest judged question; 0 without one.
    pub nearest: f32,
}

impl Questions {
    /// Asks each question like a default search: with the model's default encoder, and with words if they
    /// help. Judgments of other questions count as the model has learned.
    ///
    /// # Errors
    /// Failures of the encoder and of reading, and [`Error::Cancelled`].
    pub fn served(
        &self,
        model: &ActiveModel,
        view: &View,
        recallable: &Recallable,
        on_progress: &mut OnProgress<'_>,
    ) -> Result<Served> {
        let judge = Judge::new(&METRICS, RelevanceLevel::default(), self.judged.clone());
        let depth = NonZeroUsize::new(judge.depth()).unwrap_or(NonZeroUsize::MIN);
        let request = SearchRequest::default();
        let plan = Plan::new(depth, &request);
        let mut served = Served::with_capacity(self.texts.len());
        for block in self.texts.chunks(BLOCK) {
            for (mut asked, text) in asked(model, block, RankBy::Dense, None)?.into_iter().zip(block) {
                asked.by = match view.is_lexical() && model.words_help(asked.encoder) {
                    true => RankBy::Hybrid(Fusion::Learned),
                    false => RankBy::Dense,
                };
                let values = |asked: &Asked<'_>| {
                    let mut ranking = model.rank_asked(view, asked, &plan)?.rows;
                    // Judgments are for documents, but hits may be passages.
                    for (_, row) in &mut ranking {
                        *row = view.head(*row)?;
                    }
                    Ok::<_, Error>(judge.values(served.len(), &ranking))
                };
                let without = values(&asked)?;
                asked.recalled = recallable.recall(model, view, text, &asked)?;
                let (nearest, weights) = (nearest(&asked.recalled), model.memory_weights(asked.encoder));
                let mut with = without[0];
                if weights.weight > 0.0 {
                    asked.recalled.iter_mut().for_each(|own| own.moved = weights.moved(&own.votes));
                    with = values(&asked)?[0];
                }
                let values = [without[0], without[1], with];
                served.insert(text.clone(), ServedQuestion { values, nearest });
            }
            let done = served.len();
            Progress::new(Stage::Evaluate, done, self.texts.len()).tell(on_progress, Error::Cancelled)?;
        }
        Ok(served)
    }
}
