//! The report of a finished run, with its verdict.

use super::dev;
use super::distil::TextRows;
use super::inputs::Inputs;
use super::report::TrainReport;
use super::run::Outcome;
use super::verdict::{self, HeldOut};
use crate::error::Result;
use crate::model::{RoutingProfile, RoutingProfiles};
use crate::progress::OnProgress;

impl Outcome {
    /// The report of a run on a sample of `collection` documents.
    ///
    /// # Errors
    /// Those of [`verdict::compute`].
    pub(crate) fn report(
        &self,
        Inputs { config, texts, .. }: &Inputs<'_>,
        collection: usize,
        on_progress: &mut OnProgress<'_>,
    ) -> Result<TrainReport> {
        let _span = tracing::info_span!("train_verdict").entered();
        let Self { state, last, .. } = self;
        let indexer = &last.indexer;
        let (dim, dev) = (indexer.dim(), texts.dev_queries());
        let judged = &last.embedded.queries[..dev.end * dim];
        let held_out = HeldOut {
            positives: &texts.positives[dev.clone()],
            base: self.base.rows(),
            trained: TextRows { queries: &judged[dev.start * dim..], ..last.embedded.rows() },
            leaves: &last.leaves,
            indexer,
            seed: config.seed,
        };
        let verdict = verdict::compute(&held_out, on_progress)?;
        let routing = RoutingProfiles::new(
            RoutingProfile::measure(indexer, &last.embedded.documents),
            RoutingProfile::measure(indexer, &judged[..texts.train * dim]),
        );
        let mut config = (*config).clone();
        // The report shows the value chosen by the rule.
        config.tree.branching_factor = Some(indexer.shape().branching_factor());
        let after = dev::figures(last, texts, state.epochs.len() + state.indexer_epochs.len())?;
        let loads = state.loads.iter().copied().chain([after.load]).collect();
        Ok(TrainReport {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            config,
            documents: texts.documents.len(),
            train_queries: texts.train,
            train_pairs: texts.positives[..texts.train].iter().map(Vec::len).sum(),
            dev_queries: texts.dev,
            before: state.before.clone(),
            epochs: state.epochs.clone(),
            indexer_epochs: state.indexer_epochs.clone(),
            after,
            verdict,
            loads,
            routing: routing.of_collection(collection),
            moved: self.moved.clone(),
            seconds: self.seconds,
        })
    }
}
