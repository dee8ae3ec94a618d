//! The fast encoder's answer first, then the same with the best documents scored by the full encoder.

use std::num::NonZeroUsize;
use std::time::Instant;

use super::asked::Asked;
use super::encode::{Encoding, QueryEncoder};
use super::fusion::Fusion;
use super::input::Input;
use super::plan::{Plan, RankBy};
use super::query::Query;
use super::rank::Ranked;
use super::result::SearchResult;
use super::ties;
use crate::error::{InputError, Result};
use crate::ids::Row;
use crate::index::active_model::ActiveModel;
use crate::store::View;

/// Best documents by the fast encoder that [`Query::refine`] scores by the full one, or `k` where that is
/// more.
pub const REFINED: usize = 100;

impl Query<'_> {
    /// Runs the search with the fast encoder, gives the answer to `on_first` at once, and returns it with the
    /// [`REFINED`] best documents scored anew by the full encoder's embedding. For searching as one types.
    ///
    /// Documents beyond those that the fast encoder finds are not looked for. Where it is unsure, the first
    /// answer is the full encoder's and is returned as it is. In the [`SearchStats`](crate::SearchStats) of
    /// the second answer `encode` is the time of both encoders.
    ///
    /// # Errors
    /// Those of [`Self::run`]; [`InputError::NoQueryEncoder`]; [`InputError::Conflict`] with the full encoder
    /// and with [`Self::lexical`]; [`InputError::InapplicableOption`] for a query that is an embedding.
    pub fn refine(self, on_first: impl FnOnce(&SearchResult)) -> Result<SearchResult> {
        self.index.check_process()?;
        self.check_no_rerank("refine")?;
        if self.encoder == Some(QueryEncoder::Full) {
            return Err(InputError::Conflict { options: ["refine", "encoder"] }.into());
        }
        let plan = Plan { encoder: Some(QueryEncoder::Fast), ..self.plan()? };
        if plan.by == RankBy::Lexical {
            return Err(InputError::Conflict { options: ["refine", "lexical"] }.into());
        }
        if let Input::Vector(_) | Input::Encoded(..) = self.input.0 {
            let call = "a query that is an embedding";
            return Err(InputError::InapplicableOption { option: "refine", call }.into());
        }
        let serving = self.index.serving();
        let view = serving.view();
        let _span = plan.span(1, &view).entered();
        let (asked, encoding) = serving.read_input(&self.input.0, &plan, &view)?;
        self.log(std::slice::from_ref(&self.input.0), std::slice::from_ref(&asked));
        let (first, wide) = serving.rank_widely(&view, &asked, &plan)?;
        let first = serving.answer(&view, &asked, &plan, &first, encoding)?;
        on_first(&first);
        if encoding.by != Some(QueryEncoder::Fast) {
            return Ok(first);
        }
        let started = Instant::now();
        let full = Plan { encoder: Some(QueryEncoder::Full), ..plan };
        let (full, own) = serving.read_input(&self.input.0, &full, &view)?;
        let encoding = Encoding { time: encoding.time + own.time, by: own.by };
        let mut ranked = serving.rescore(&view, &full, wide, &plan)?;
        ranked.stats.scan += started.elapsed().saturating_sub(own.time);
        // The tree was asked once.
        ranked.sample = None;
        serving.answer(&view, &full, &plan, &ranked, encoding)
    }
}

/// What of a first answer a second one is made from.
enum Wide {
    Dense(Ranked),
    Hybrid(super::asked::Candidates, Fusion),
}

impl ActiveModel {
    /// The best `k` rows, and those that are scored anew.
    fn rank_widely(&self, view: &View, asked: &Asked<'_>, plan: &Plan<'_>) -> Result<(Ranked, Wide)> {
        let fusion = match plan.by {
            RankBy::Best if asked.words.is_some() => Some(Fusion::Learned),
            RankBy::Hybrid(fusion) => Some(fusion),
            RankBy::Best | RankBy::Dense | RankBy::Lexical => None,
        };
        if let Some(fusion) = fusion {
            let candidates = self.candidates(view, asked, plan)?;
            let first = candidates.clone().fused(view, fusion, self.alpha(asked.encoder), plan.k)?;
            return Ok((first, Wide::Hybrid(candidates, fusion)));
        }
        let k = NonZeroUsize::new(REFINED).map_or(plan.k, |refined| refined.max(plan.k));
        let wide = self.rank(view, &asked.vector, &Plan { k, by: RankBy::Dense, ..*plan })?;
        let mut first = wide.clone();
        first.rows.truncate(plan.k.get());
        Ok((first, Wide::Dense(wide)))
    }

    /// The best `k` rows of those by the full encoder's embedding.
    fn rescore(&self, view: &View, full: &Asked<'_>, wide: Wide, plan: &Plan<'_>) -> Result<Ranked> {
        match wide {
            Wide::Dense(mut ranked) => {
                let rows: Vec<Row> = ranked.rows.iter().map(|&(_, row)| row).collect();
                let (best, read) = self.best_passages(view, &full.vector, &rows)?;
                ranked.rows = best.into_iter().map(|best| (best.score, best.row)).collect();
                ties::sort(view, &mut ranked.rows)?;
                ranked.rows.truncate(plan.k.get());
                ranked.stats.embeddings_read =
                    (ranked.stats.embeddings_read + read).min(ranked.stats.documents_visited);
                Ok(ranked)
            }
            Wide::Hybrid(candidates, fusion) => {
                let rows: Vec<Row> = candidates.all.iter().map(|candidate| candidate.row).collect();
                let (best, _) = self.best_passages(view, &full.vector, &rows)?;
                let candidates = candidates.rescored(best.into_iter().map(|best| (best.score, best.row)));
                candidates.fused(view, fusion, self.alpha(full.encoder), plan.k)
            }
        }
    }
}
