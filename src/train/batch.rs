//! Batch preparation: the texts, negatives and targets of a step, drawn and read in advance.

use std::collections::HashMap;
use std::sync::mpsc::{Receiver, sync_channel};
use std::thread::Scope;

use rand::Rng;
use rand_chacha::ChaCha8Rng;

use super::config::Negatives;
use super::head::Gathered;
use super::inputs::{EncoderInputs, Inputs};
use super::refresh::Snapshot;
use super::sampler::Batch;
use crate::error::Result;
use crate::ids::LeafId;
use crate::model::ModelError;

/// A batch that is ready for its step.
pub(crate) struct Prepared {
    pub layout: Layout,
    pub queries: Gathered,
    pub documents: Gathered,
    /// The run's random generator after the draws of this batch.
    pub rng: ChaCha8Rng,
}

/// The distinct texts of a batch, and the row of each role.
#[derive(Default)]
pub(crate) struct BatchTexts {
    pub texts: Vec<usize>,
    place: HashMap<usize, u32>,
}

impl BatchTexts {
    pub(crate) fn add(&mut self, text: usize) -> u32 {
        *self.place.entry(text).or_insert_with(|| {
            self.texts.push(text);
            self.texts.len() as u32 - 1
        })
    }
}

/// Row indices into the query and document embeddings, as the loss reads them.
#[derive(Default)]
pub(crate) struct Layout {
    pub queries: BatchTexts,
    pub documents: BatchTexts,
    pub pair_queries: Vec<u32>,
    pub pair_documents: Vec<u32>,
    /// Row of each query's mined negative; row 0 with weight 0 if it has none.
    pub mined: Option<(Vec<u32>, Vec<f32>)>,
    /// Routing distillation of the queries, if any.
    pub distillation: Option<Distillation>,
}

/// Entries of a distillation term.
#[derive(Default)]
pub(crate) struct Distillation {
    /// Row of the text and its target leaf.
    pub entries: Vec<(u32, LeafId)>,
    /// Target mass of each entry.
    pub masses: Vec<f32>,
    pub texts: usize,
}

impl Distillation {
    pub(crate) fn add(&mut self, row: u32, target: &[(LeafId, f32)]) {
        self.texts += 1;
        for &(leaf, mass) in target {
            self.entries.push((row, leaf));
            self.masses.push(mass);
        }
    }
}

impl Inputs<'_> {
    /// Makes the random draws of a batch and reads the states of its texts.
    fn prepare(
        &self,
        encoder: EncoderInputs<'_>,
        batch: &Batch,
        snapshot: &Snapshot,
        rng: &mut ChaCha8Rng,
    ) -> Result<Prepared> {
        let layout = self.lay_out(batch, snapshot, rng);
        // Seeds of a removed dropout, still drawn so that a seed keeps giving the same run.
        let _: [u64; 2] = rng.random();
        let gather = |cache, rows: &BatchTexts| encoder.head.gather(cache, &rows.texts);
        let queries = gather(encoder.query_cache, &layout.queries).map_err(ModelError::from)?;
        let documents = gather(encoder.document_cache, &layout.documents).map_err(ModelError::from)?;
        Ok(Prepared { layout, queries, documents, rng: rng.clone() })
    }

    fn lay_out(&self, batch: &Batch, snapshot: &Snapshot, rng: &mut ChaCha8Rng) -> Layout {
        let mut layout = Layout::default();
        for (&query, &document) in batch.queries.iter().zip(&batch.positives) {
            layout.pair_queries.push(layout.queries.add(query));
            layout.pair_documents.push(layout.documents.add(document));
        }
        if self.config.mining.negatives != Negatives::InBatch {
            let (mut rows, mut weights) = (Vec::new(), Vec::new());
            for &query in &batch.queries {
                let candidates = snapshot.negatives.get(query).filter(|c| !c.is_empty());
                let drawn = candidates.map(|c| c[rng.random_range(0..c.len())] as usize);
                rows.push(drawn.map_or(0, |document| layout.documents.add(document)));
                weights.push(if drawn.is_some() { 1.0 } else { 0.0 });
            }
            layout.mined = Some((rows, weights));
        }
        if let Some(distilled) = &snapshot.distilled {
            let mut term = Distillation::default();
            for &query in &batch.queries {
                term.add(layout.queries.add(query), distilled.target(query));
            }
            layout.distillation = Some(term);
        }
        layout
    }
}

/// Prepares batches on a separate thread while earlier steps run, so that the device does not wait for the
/// disk; drawing from `rng`. The thread ends when the receiver is dropped.
///
/// The draws of a batch do not depend on earlier steps, so the batches equal those prepared one by one.
pub(crate) fn prepare_ahead<'scope>(
    scope: &'scope Scope<'scope, '_>,
    (inputs, encoder): (Inputs<'scope>, EncoderInputs<'scope>),
    snapshot: &'scope Snapshot,
    batches: &'scope [Batch],
    mut rng: ChaCha8Rng,
) -> Receiver<Result<Prepared>> {
    // While a step runs, one batch waits and one is being prepared.
    let (send, prepared) = sync_channel(1);
    scope.spawn(move || {
        for batch in batches {
            let prepared = inputs.prepare(encoder, batch, snapshot, &mut rng);
            if send.send(prepared).is_err() {
                return;
            }
        }
    });
    prepared
}
