//! The index calls behind the operations.

use std::ops::ControlFlow;

use ehi::calibrate::RecallCurve;
use ehi::learn::{Decision, LearnOptions, TuneOptions};
use ehi::model::DistilReport;
use ehi::train::{DistilOptions, QueryEncoderChoice, TrainConfig};
use ehi::{Analyzer, Error, Index, InputError, LearnedFusion, ModelChange, Progress};

use super::operations::{Op, QUESTIONS, Told};
use super::world::{World, distil, document, half_life, id, judgments, silent, time, update, vector};

/// The result of a call.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    pub change: Option<ModelChange>,
    /// Whether another model is in service.
    pub changed: bool,
    pub fusion: Option<LearnedFusion>,
    pub fast: Option<DistilReport>,
    pub curve: Option<RecallCurve>,
}

impl Outcome {
    /// The result of a killed process's last call, as far as the index shows it.
    pub fn found(index: &Index) -> Self {
        let (fusion, fast, curve) = (index.fusion(), index.query_encoder(), index.recall_curve());
        Self { change: None, changed: false, fusion, fast, curve }
    }
}

/// Executes an operation.
pub fn act(
    index: &Index,
    op: &Op,
    world: &World,
    on_progress: &mut dyn FnMut(Progress) -> ControlFlow<()>,
) -> ehi::Result<Outcome> {
    let mut outcome = Outcome::default();
    let told = index.with_progress(on_progress);
    match *op {
        Op::Insert { ref places, version } => {
            told.insert_batch(places.iter().map(|&place| document(place, version)))?;
        }
        Op::Vectors { ref places, seed, text } => {
            let dim = index.bundle().model().dim();
            let document = |place| if text { document(place, seed % 3) } else { silent(place) };
            told.insert_vectors(places.iter().map(|&place| (document(place), vector(place, seed, dim))))?;
        }
        Op::Update { place, version, text } => {
            match index.update(&id(place), &update(place, version, text)) {
                Err(Error::Input(InputError::NoDocument { .. })) if !index.contains(&id(place))? => {}
                updated => drop(updated?),
            }
        }
        Op::Delete(ref places) => drop(index.delete_batch(places.iter().map(|&place| id(place)))?),
        Op::Judge(told) => drop(index.record_all(judgments(told))?),
        Op::Forget(told) => {
            let known = judgments(told);
            index.forget(known.iter().map(|judgment| (judgment.question.as_str(), judgment.id.as_str())))?;
        }
        Op::ForgetBefore(month) => drop(index.forget_where(|judgment| judgment.time < time(month))?),
        Op::HalfLife(months) => index.set_half_life(half_life(months))?,
        Op::Distil(0) => {
            let none = DistilOptions { query_encoder: QueryEncoderChoice::None, ..DistilOptions::default() };
            told.distil(&none)?;
        }
        Op::Distil(seed) => outcome.fast = told.distil(&distil(seed))?,
        Op::Fuse { from, count } => {
            outcome.fusion = told.fuse(&judgments(Told::answers(from, count)))?.fusion
        }
        Op::Tune { seed, always } => {
            let options =
                TuneOptions { leaves: Some(4), passes: Some(1), always, seed, ..TuneOptions::default() };
            outcome.change = told.tune(&options)?.change;
        }
        Op::Learn { seed, taken, query_encoder } => {
            let learned = told.learn_if(&learn(seed, query_encoder), |_| taken)?;
            outcome.change = learned.change;
            // Measurements of a model that does not go into service are not kept.
            let is_kept = learned.change.is_some() || learned.decision == Decision::TooFew;
            outcome.fusion = learned.fusion.filter(|_| is_kept);
        }
        Op::Reencode(which) => outcome.change = Some(told.reencode(&world.bundle(which))?),
        Op::Rollback => outcome.change = Some(told.rollback()?),
        Op::DropPrevious => drop(index.drop_previous_model()?),
        Op::Calibrate => outcome.curve = Some(told.calibrate(&[])?),
        Op::Compact => told.compact()?,
        Op::Lexical => told.make_lexical(Analyzer::Tokens)?,
        Op::Rebuild => told.rebuild_postings()?,
        Op::Flush => index.flush()?,
    }
    outcome.changed = outcome.change.is_some();
    Ok(outcome)
}

/// A learning with few steps.
fn learn(seed: u64, query_encoder: bool) -> LearnOptions {
    let mut config = TrainConfig::default();
    config.seed = seed;
    if !query_encoder {
        config.query_encoder = QueryEncoderChoice::None;
    }
    config.tree.branching_factor = Some(4);
    config.encoder.learning_rate = 1e-3;
    config.encoder.max_document_tokens = 24;
    config.encoder.max_query_tokens = 12;
    config.schedule.epochs = 1;
    config.schedule.pairs_per_epoch = 32;
    config.schedule.batch_size = 32;
    config.schedule.indexer_epochs = 1;
    config.distillation.sentences = 0;
    LearnOptions { pairs: judgments(Told::answers(0, QUESTIONS)), config, ..LearnOptions::default() }
}
