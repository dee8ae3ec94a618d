//! A tree for what an index holds, without labels: the encoder stays as it is, and nothing is encoded again.

use std::num::NonZeroUsize;
use std::ops::ControlFlow;

use rand::SeedableRng;
use rand::seq::{IndexedRandom, SliceRandom, index};
use rand_chacha::ChaCha8Rng;
use serde::Serialize;

use super::config::TrainConfig;
use super::dataset::{TrainingSet, sentences};
use super::distil::nearest_documents;
use super::refresh::{Embedded, make_unit};
use super::retrain::remove_trained;
use super::texts::Texts;
use super::trainer::{Given, Trainer};
use super::verdict::ivf;
use crate::cluster::Panels;
use crate::disk::names;
use crate::document::Document;
use crate::error::{Error, InputError, Result};
use crate::ids::Row;
use crate::index::{ActiveModel, Index, ModelChange, WithProgress};
use crate::measure::{Bench, Cost, Engine, Judge, Metric, Outcomes, Partition};
use crate::model::{Indexer, Role};
use crate::progress::{OnProgress, Progress, Stage, no_progress};
use crate::store::View;

/// Passes over the texts unless asked otherwise.
pub const DEFAULT_PASSES: usize = 30;
/// Bytes of embeddings that tuning holds unless asked otherwise.
pub const DEFAULT_MEMORY_BYTES: u64 = 1 << 30;
/// Share of exact search's ten best documents at which trees are compared.
pub const COMPARED_RECALL: f64 = 0.95;
/// A tree takes another one's place if it visits this share of its documents at most.
pub const NEEDED_SAVING: f64 = 0.95;
/// The same where there was none: scoring all documents in their order is as cheap as visiting half of them.
pub const NEEDED_SAVING_OF_NONE: f64 = 0.5;

/// Questions that are made from documents at most.
const MOST_QUESTIONS: usize = 4_000;
/// Questions set aside to compare with, at most, and their share of all.
const HELD_OUT: usize = 300;
const HELD_OUT_SHARE: usize = 5;
/// Copies of a document's embedding that are held at the same time.
const COPIES: u64 = 4;
/// Questions encoded between two reports of progress.
const BLOCK: usize = 256;
/// Fewer documents than this need no tree and make none.
const FEWEST_DOCUMENTS: usize = 20;

/// Options of [`Index::tune`].
#[derive(Clone, Debug)]
pub struct TuneOptions {
    /// Leaves of the tree, in one level; one for ten documents by default.
    pub leaves: Option<u32>,
    /// Passes over the texts; [`DEFAULT_PASSES`] by default.
    pub passes: usize,
    /// Questions that are asked of the index, beside those that are made from its documents.
    pub questions: Vec<String>,
    /// Bytes of embeddings held at a time, [`DEFAULT_MEMORY_BYTES`] by default: of a larger collection the
    /// tree is made from a sample.
    pub memory_bytes: u64,
    /// Takes the new tree even where it brings nothing.
    pub always: bool,
    /// Seed of everything random.
    pub seed: u64,
}

impl Default for TuneOptions {
    fn default() -> Self {
        Self {
            leaves: None,
            passes: DEFAULT_PASSES,
            questions: Vec::new(),
            memory_bytes: DEFAULT_MEMORY_BYTES,
            always: false,
            seed: 0,
        }
    }
}

/// What [`Index::tune`] did.
///
/// The shares are of the documents that hold [`COMPARED_RECALL`] of exact search's ten best, a mean over
/// questions that were set aside; 1 where nothing less does.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Tuned {
    /// Documents that the tree was made from.
    pub documents: usize,
    /// Leaves of the new tree.
    pub leaves: u32,
    /// Questions that were set aside and compared with.
    pub questions: usize,
    /// Visited with the tree that there was; 1 without one.
    pub visited_before: f64,
    /// Visited with the new tree.
    pub visited_after: f64,
    /// Visited with as many lists of k-means.
    pub visited_lists: f64,
    /// The change over to the new tree; `None` where it brings nothing, and the index is as before.
    pub change: Option<ModelChange>,
}

/// Documents with their embeddings, and questions for them.
struct Sample {
    documents: Vec<Document>,
    embedded: Embedded,
    /// `[questions, dim]` unit rows, set aside.
    held_out: Vec<f32>,
}

impl Index {
    /// Makes a tree for what is stored, without labels and with the encoder as it is, and changes over to it
    /// if it is better.
    ///
    /// The tree starts from k-means of the stored embeddings and learns to route documents, questions made
    /// from them, and questions given, to the leaves of their exact nearest documents. No document is encoded
    /// again. On questions that were set aside it is compared with the tree that there was, and takes its
    /// place where it finds [`COMPARED_RECALL`] of exact search's hits in fewer documents
    /// ([`NEEDED_SAVING`], [`NEEDED_SAVING_OF_NONE`]); the rest is as [`Self::reencode`] does it, and
    /// [`Self::rollback`] returns. Searches and writes go on meanwhile.
    ///
    /// # Errors
    /// [`InputError::TooFewToTune`]; [`InputError::EmptyQuery`]; [`InputError::ChangeUnderWay`];
    /// [`TrainError`](super::TrainError) for settings out of range; those of [`Self::reencode`]. The index is
    /// then as before.
    pub fn tune(&self, options: &TuneOptions) -> Result<Tuned> {
        self.tune_alone(options, &mut no_progress)
    }

    fn tune_alone(&self, options: &TuneOptions, on_progress: &mut OnProgress<'_>) -> Result<Tuned> {
        self.check_writable()?;
        let _only = self.alone(&self.training)?;
        let serving = self.serving();
        let view = serving.view();
        if view.live() < FEWEST_DOCUMENTS {
            let (documents, least) = (view.live(), FEWEST_DOCUMENTS);
            return Err(InputError::TooFewToTune { documents, least }.into());
        }
        let mut config = TrainConfig { seed: options.seed, ..TrainConfig::default() };
        config.encoder.trainable_layers = 0;
        (config.schedule.epochs, config.schedule.indexer_epochs) = (0, options.passes);
        config.tree.coarse_leaves = None;
        // Embeddings that were not trained for a tree lose by a projection, and by a load that is forced to
        // be even (`docs/experiments.md`).
        config.tree.routing_dim = Some(0);
        config.losses.weights.balance = 0.02;
        // By all documents, also where the tree is made from a sample.
        let by_rule = || config.shape(view.live()).map(|shape| shape.leaves());
        config.tree.branching_factor = Some(options.leaves.map_or_else(by_rule, Ok)?);

        let sample = Sample::draw(&serving, &view, options, on_progress)?;
        let live = view.live();
        drop(view);
        let Sample { documents, embedded, held_out } = sample;
        let (dim, rows) = (embedded.dim, embedded.documents.clone());
        let set = TrainingSet { documents, train: Vec::new(), dev: Vec::new() };
        let texts = Texts::without_tokens(set.documents.len(), embedded.queries.len() / dim);
        let given = Given { texts, embedded };
        let output = self.path().join(names::TRAINED);
        remove_trained(&output)?;
        let trainer = Trainer::builder().base(serving.bundle().path()).output(&output).config(config);
        let fitted = trainer.on_progress(&mut *on_progress).fit_tree(&set, given)?;

        let new = fitted.bundle.model().indexer();
        let compared = Compared::new(&rows, dim, &held_out);
        let lists = (new.shape().leaves() as usize).min(rows.len() / dim);
        let mut tuned = Tuned {
            documents: set.documents.len(),
            leaves: new.shape().leaves(),
            questions: held_out.len() / dim,
            visited_before: match serving.bundle().has_tree() {
                true => compared.tree(serving.model().indexer(), serving.leaves_per_document())?,
                false => 1.0,
            },
            visited_after: compared.tree(new, 1)?,
            visited_lists: compared.lists(lists, options.seed)?,
            change: None,
        };
        let needed = match serving.bundle().has_tree() {
            true => NEEDED_SAVING,
            false => NEEDED_SAVING_OF_NONE,
        };
        tracing::debug!(live, ?tuned, "tuned");
        if options.always || tuned.visited_after <= needed * tuned.visited_before {
            tuned.change = Some(self.with_progress(&mut *on_progress).reencode(&fitted.bundle)?);
        }
        remove_trained(&output)?;
        Ok(tuned)
    }
}

impl<F: FnMut(Progress) -> ControlFlow<()>> WithProgress<'_, F> {
    /// As [`Index::tune`], with progress and cancellation.
    ///
    /// # Errors
    /// Those of [`Index::tune`], and [`Error::Cancelled`].
    pub fn tune(mut self, options: &TuneOptions) -> Result<Tuned> {
        let (index, on_progress) = self.parts();
        index.tune_alone(options, on_progress)
    }
}

impl Sample {
    fn draw(
        serving: &ActiveModel,
        view: &View,
        options: &TuneOptions,
        on_progress: &mut OnProgress<'_>,
    ) -> Result<Self> {
        let mut rng = ChaCha8Rng::seed_from_u64(options.seed);
        let dim = serving.model().encoder().dim();
        let live: Vec<Row> = (0..view.rows() as u32).map(Row).filter(|&row| view.is_live(row)).collect();
        let most = options.memory_bytes / (COPIES * (dim * size_of::<f32>()) as u64);
        let most = usize::try_from(most).unwrap_or(usize::MAX).max(FEWEST_DOCUMENTS).min(live.len());
        let mut places = index::sample(&mut rng, live.len(), most).into_vec();
        places.sort_unstable();
        let (mut documents, mut rows) = (Vec::with_capacity(most), Vec::with_capacity(most * dim));
        for place in places {
            documents.push(Document { metadata: None, ..view.document(live[place])? });
            rows.extend(serving.unit_row(view, live[place])?);
        }
        let mut order: Vec<usize> = (0..documents.len()).collect();
        order.shuffle(&mut rng);
        let made = order.iter().filter_map(|&place| question_of(&documents[place], &mut rng));
        let made: Vec<String> = made.take(MOST_QUESTIONS).collect();
        let mut questions: Vec<&str> = options.questions.iter().chain(&made).map(String::as_str).collect();
        if questions.iter().any(|question| question.trim().is_empty()) {
            return Err(InputError::EmptyQuery.into());
        }
        questions.shuffle(&mut rng);
        let mut embedded = Vec::with_capacity(questions.len() * dim);
        for block in questions.chunks(BLOCK) {
            embedded.extend(serving.model().encoder().embed(block, Role::Query)?);
            Progress::new(Stage::FrozenLayers, embedded.len() / dim, questions.len())
                .tell(on_progress, Error::Cancelled)?;
        }
        make_unit(&mut embedded, dim);
        // Documents without texts make no questions, and are compared with themselves.
        let held_out = match questions.len() / HELD_OUT_SHARE {
            0 => order.iter().take(HELD_OUT).flat_map(|&place| rows[place * dim..][..dim].to_vec()).collect(),
            share => embedded.split_off(embedded.len() - share.min(HELD_OUT) * dim),
        };
        Ok(Self { documents, embedded: Embedded { dim, documents: rows, queries: embedded }, held_out })
    }
}

/// Its title, or one of its sentences, as somebody might ask who looks for documents like it.
fn question_of(document: &Document, rng: &mut ChaCha8Rng) -> Option<String> {
    let title = document.title.trim();
    let sentences = sentences(&document.text);
    let found = match sentences.choose(rng) {
        _ if !title.is_empty() => title,
        Some(sentence) => sentence,
        None => document.text.trim(),
    };
    (!found.is_empty()).then(|| found.to_owned())
}

/// Questions with the documents that exact search finds for them.
struct Compared<'a> {
    rows: &'a [f32],
    dim: usize,
    questions: &'a [f32],
    positives: Vec<Vec<u32>>,
}

const METRICS: [Metric; 1] = [Metric::RECALL_AT_10];

impl<'a> Compared<'a> {
    fn new(rows: &'a [f32], dim: usize, questions: &'a [f32]) -> Self {
        let nearest = nearest_documents(&Panels::pack(rows, dim), questions, 10);
        let sorted = |nearest: Vec<(u32, f32)>| {
            let mut documents: Vec<u32> = nearest.into_iter().map(|(document, _)| document).collect();
            documents.sort_unstable();
            documents
        };
        Self { rows, dim, questions, positives: nearest.into_iter().map(sorted).collect() }
    }

    fn tree(&self, indexer: &Indexer, leaves_per_document: u32) -> Result<f64> {
        let count = NonZeroUsize::new(leaves_per_document as usize).unwrap_or(NonZeroUsize::MIN);
        let leaves = indexer.route_rows(self.rows, count);
        self.visited(Partition::tree(indexer, &leaves), Engine::Tree)
    }

    fn lists(&self, lists: usize, seed: u64) -> Result<f64> {
        self.visited(ivf::partition(self.rows, self.dim, lists, seed)?, Engine::Ivf { lists })
    }

    /// The share of documents visited at [`COMPARED_RECALL`].
    fn visited(&self, partition: Partition<'_>, engine: Engine) -> Result<f64> {
        let judge = Judge::binary(&METRICS, &self.positives);
        let bench = Bench::new(self.rows, self.dim, self.questions, judge);
        let settings = bench.measure(&[partition], &mut || Ok(()))?;
        let outcomes = Outcomes { queries: self.positives.len(), metrics: &METRICS, settings: &settings };
        let points = outcomes.by_visited(engine).into_iter().filter_map(|figures| {
            Some((figures.fraction(Cost::Visited), outcomes.mean(figures, Metric::RECALL_AT_10)?))
        });
        Ok(visited_at(points, COMPARED_RECALL))
    }
}

/// The share visited at which a recall is reached, on the line between two points; `points` by rising share.
fn visited_at(points: impl Iterator<Item = (f64, f64)>, recall: f64) -> f64 {
    let mut before = (0.0, 0.0);
    for (visited, found) in points {
        if found >= recall {
            let step = (recall - before.1) / (found - before.1).max(f64::MIN_POSITIVE);
            return before.0 + step * (visited - before.0);
        }
        before = (visited, found);
    }
    1.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_share_is_interpolated() {
        let points = [(0.1, 0.5), (0.2, 0.9), (0.4, 1.0)];
        let at = |recall| visited_at(points.into_iter(), recall);
        assert!((at(0.5) - 0.1).abs() < 1e-12 && (at(0.7) - 0.15).abs() < 1e-12);
        assert!((at(0.95) - 0.3).abs() < 1e-12 && (at(0.25) - 0.05).abs() < 1e-12);
        assert_eq!(visited_at([(0.5, 0.6)].into_iter(), 0.95), 1.0);
        assert_eq!(visited_at(std::iter::empty(), 0.95), 1.0);
    }
}
