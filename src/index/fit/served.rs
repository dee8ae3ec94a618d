//! What default searches with a model give for judged questions.

use std::collections::HashMap;
use std::num::NonZeroUsize;

use super::questions::{BLOCK, Questions, asked};
use crate::error::{Error, Result};
use crate::index::ActiveModel;
use crate::index::search::{Fusion, Plan, RankBy, SearchRequest};
use crate::measure::{Judge, Metric, RelevanceLevel};
use crate::progress::{OnProgress, Progress, Stage};
use crate::store::View;

/// Metrics of a default search.
const METRICS: [Metric; 2] = [Metric::NDCG_AT_10, Metric::RECALL_AT_10];

/// nDCG@10 and recall@10 of each question by a default search.
pub(crate) type Served = HashMap<String, [f64; 2]>;

impl Questions {
    /// Asks each question like a default search: with the model's default encoder, and with words if they
    /// help.
    ///
    /// # Errors
    /// Failures of the encoder and of reading, and [`Error::Cancelled`].
    pub fn served(
        &self,
        model: &ActiveModel,
        view: &View,
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
                let mut ranking = model.rank_asked(view, &asked, &plan)?.rows;
                // Judgments are for documents, but hits may be passages.
                for (_, row) in &mut ranking {
                    *row = view.head(*row)?;
                }
                let values = judge.values(served.len(), &ranking);
                served.insert(text.clone(), [values[0], values[1]]);
            }
            let done = served.len();
            Progress::new(Stage::Evaluate, done, self.texts.len()).tell(on_progress, Error::Cancelled)?;
        }
        Ok(served)
    }
}
