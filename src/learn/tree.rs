//! A tree for the documents of an index, made without labels: the encoder is unchanged, and nothing is
//! encoded again.

use std::collections::HashSet;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use rand::SeedableRng;
use rand::seq::{SliceRandom, index};
use rand_chacha::ChaCha8Rng;
use serde::Serialize;

use crate::cluster::{KMeans, Panels};
use crate::disk::names;
use crate::document::Document;
use crate::error::{Error, InputError, Result};
use crate::ids::Row;
use crate::index::{ActiveModel, Index, ModelChange, WithProgress};
use crate::measure::{Bench, Cost, Engine, Judge, Metric, Outcomes, Partition};
use crate::model::{Indexer, Role};
use crate::progress::{OnProgress, Progress, Stage, no_progress};
use crate::scan::has_direction;
use crate::store::View;
use crate::train::dataset::sentences;
use crate::train::distil::nearest_documents;
use crate::train::error::out_of_range;
use crate::train::inputs::GivenEmbeddings;
use crate::train::refresh::{Embedded, make_unit};
use crate::train::run::INDEXER_BATCH;
use crate::train::texts::Texts;
use crate::train::{TrainConfig, TrainError, Trainer, TrainingSet, default_leaves, init, is_held_out};

/// Default number of passes: enough for this many steps of this many texts each, within these limits. A large
/// collection shows each leaf its documents as often in few passes (`docs/lab/experiments.md`).
const STEPS: usize = 1_000;
const FEWEST_PASSES: usize = 4;
const MOST_PASSES: usize = 30;
/// Default for the bytes of embeddings held by tuning.
pub const DEFAULT_MEMORY_BYTES: u64 = 1 << 30;
/// Share of exact search's ten best documents at which trees are compared.
pub const COMPARED_RECALL: f64 = 0.95;
/// A tree replaces another one if it costs at most this share of its work.
pub const NEEDED_SAVING: f64 = 0.9;
/// The same for an index without a tree: scoring all documents in order is as cheap as visiting half of them.
pub const NEEDED_SAVING_OF_NONE: f64 = 0.5;

/// Most questions made from documents.
const MOST_QUESTIONS: usize = 4_000;
/// Most held-out questions for the comparison.
const HELD_OUT: usize = 300;
/// Copies of a document's embedding held at the same time.
const COPIES: u64 = 4;
/// Questions encoded between two reports of progress.
const BLOCK: usize = 256;
/// Fewest documents for a tree.
const FEWEST_DOCUMENTS: usize = 20;
/// Smallest sample for a tree, whatever the memory, unless there are fewer documents.
const SMALLEST_SAMPLE: usize = 1_000;
/// Fewest documents per leaf on average: routing takes as long as scoring one document for each leaf.
const FEWEST_PER_LEAF: usize = 2;
/// Penalty on the size of a list in the tree's initial lists (`docs/lab/experiments.md`).
const SIZE_PENALTY: f32 = 0.1;
/// Fewest held-out questions for replacing a tree.
pub const FEWEST_TUNING_QUESTIONS: usize = 50;

/// Options of [`Index::tune`].
#[derive(Clone, Debug)]
pub struct TuneOptions {
    /// Leaves of the tree, in one level, from 2 to half of the documents that it is made from; by default a
    /// tenth of their number, and at most 13 times the square root of the number of all documents.
    pub leaves: Option<u32>,
    /// Passes over the texts; by default 30 for up to about 17,000 texts, fewer for more, but at least 4.
    pub passes: Option<usize>,
    /// Typical questions, in addition to logged and judged ones and those made from documents.
    pub questions: Vec<String>,
    /// Bytes of embeddings held at a time, [`DEFAULT_MEMORY_BYTES`] by default; the tree of a larger
    /// collection is made from a sample of at least 1,000 documents.
    pub memory_bytes: u64,
    /// A directory for a checkpoint after each pass; none by default.
    pub checkpoints: Option<PathBuf>,
    /// Resumes from the checkpoint there, if there is one. It must have the same options, documents and
    /// questions.
    pub resume: bool,
    /// Adopts the new tree even without a gain.
    pub always: bool,
    /// Seed of everything random.
    pub seed: u64,
}

impl Default for TuneOptions {
    fn default() -> Self {
        Self {
            leaves: None,
            passes: None,
            questions: Vec::new(),
            memory_bytes: DEFAULT_MEMORY_BYTES,
            checkpoints: None,
            resume: false,
            always: false,
            seed: 0,
        }
    }
}

/// Cost of finding [`COMPARED_RECALL`] of exact search's best ten, as a share of all documents: a mean over
/// held-out questions, interpolated between two numbers of leaves.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Needed {
    /// Documents visited.
    pub visited: f64,
    /// The same plus routing, in document dot products; may exceed 1.
    pub work: f64,
}

/// The outcome of [`Index::tune`].
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Tuned {
    /// Documents that the tree was made from.
    pub documents: usize,
    /// Leaves of the new tree.
    pub leaves: u32,
    /// Held-out questions of the comparison.
    pub questions: usize,
    /// With the previous tree; every document without one.
    pub before: Needed,
    /// With the new tree.
    pub after: Needed,
    /// With the same number of k-means lists.
    pub lists: Needed,
    /// The switch to the new tree; `None` if it gains nothing and the index is unchanged, and for
    /// [`Index::make_tree`].
    pub change: Option<ModelChange>,
}

/// Documents with their embeddings, and questions for them.
struct Sample {
    documents: Vec<Document>,
    embedded: Embedded,
    held_out: HeldOut,
}

/// Held-out questions.
struct HeldOut {
    /// `[questions, dim]` unit rows.
    rows: Vec<f32>,
    /// Position of the document that each question was made from, which is excluded from its targets.
    own: Vec<Option<usize>>,
}

impl Index {
    /// Makes a tree for the stored documents, without labels and with the same encoder, and switches to it if
    /// it is better.
    ///
    /// The tree starts from k-means of the stored embeddings and learns to route documents, questions made
    /// from them, and questions given, to the leaves of their exact nearest documents. No document is encoded
    /// again. It is compared with the previous tree on held-out questions, and replaces it if it finds
    /// [`COMPARED_RECALL`] of exact search's hits with less work ([`NEEDED_SAVING`],
    /// [`NEEDED_SAVING_OF_NONE`]). The switch works as in [`Self::reencode`], and [`Self::rollback`] undoes
    /// it. Searches and writes continue meanwhile. The disk needs room for two more copies of the encoder
    /// than [`Self::reencode`] needs.
    ///
    /// # Errors
    /// [`InputError::TooFewToTune`]; [`InputError::EmptyQuery`]; [`InputError::ChangeUnderWay`];
    /// [`TrainError`] for settings out of range; those of [`Self::reencode`]. On error the index is
    /// unchanged.
    pub fn tune(&self, options: &TuneOptions) -> Result<Tuned> {
        self.with_progress(no_progress).tune(options)
    }

    /// As [`Self::tune`], but writes the new tree to a new bundle at `output`, which must not exist or be
    /// empty; the index is unchanged. For an index to be built later, from a sample of its documents: set
    /// [`TuneOptions::leaves`] to the number of leaves for the whole collection.
    ///
    /// # Errors
    /// Those of [`Self::tune`]; [`InputError::InapplicableOption`] for [`TuneOptions::always`].
    pub fn make_tree(&self, output: impl AsRef<Path>, options: &TuneOptions) -> Result<Tuned> {
        self.with_progress(no_progress).make_tree(output, options)
    }

    /// `changes`: whether the index should switch.
    pub(super) fn tune_into(
        &self,
        output: &Path,
        changes: bool,
        options: &TuneOptions,
        on_progress: &mut OnProgress<'_>,
    ) -> Result<Tuned> {
        if options.resume && options.checkpoints.is_none() {
            return Err(TrainError::Missing { what: "checkpoints" }.into());
        }
        let serving = self.serving();
        let view = serving.view();
        let mut config = TrainConfig { seed: options.seed, ..TrainConfig::default() };
        config.encoder.trainable_layers = 0;
        config.schedule.epochs = 0;
        config.tree.coarse_leaves = None;
        // Embeddings that were not trained for a tree lose quality with a projection or a forced even load
        // (`docs/lab/experiments.md`).
        config.tree.routing_dim = Some(0);
        config.losses.weights.balance = 0.02;
        let dim = serving.model().dim();
        let collection = view.live_rows();
        let documents = options.documents(dim).min(collection);
        // Each passage counts as a document here.
        let leaves = |documents| -> Result<u32> {
            if documents < FEWEST_DOCUMENTS {
                return Err(InputError::TooFewToTune { documents, least: FEWEST_DOCUMENTS }.into());
            }
            options.checked_leaves(default_leaves(documents, collection), documents)
        };
        leaves(documents)?;

        let asked = self.asked(MOST_QUESTIONS)?;
        let sample = Sample::draw(&serving, &view, documents, options, &asked, on_progress)?;
        drop(view);
        let Sample { documents, embedded, held_out } = sample;
        // Those with a direction, which may be few.
        let leaves = leaves(documents.len())?;
        config.tree.branching_factor = Some(leaves);
        config.schedule.indexer_epochs = options.passes(documents.len() + embedded.queries.len() / dim);
        let rows = embedded.documents.clone();
        let set = TrainingSet { documents, ..TrainingSet::default() };
        let texts = Texts::without_tokens(set.documents.len(), embedded.queries.len() / dim);
        let start = init::k_means(&rows, dim, leaves as usize, options.seed, on_progress)?;
        // The tree starts from more even lists and is compared with plain k-means.
        let even = start.clone().balanced(&rows, dim, SIZE_PENALTY, options.seed);
        let given = GivenEmbeddings { texts, embedded, collection, centroids: even.centroids };
        let mut trainer = Trainer::builder().base(serving.bundle().path()).output(output).config(config);
        if let Some(dir) = &options.checkpoints {
            // No step of the first phase is taken, so the interval does not matter.
            trainer = trainer.checkpoints(dir, usize::MAX).resume(options.resume);
        }
        let fitted = trainer.on_progress(&mut *on_progress).fit_tree(&set, &given)?;

        let new = fitted.bundle.model().indexer();
        let compared = Compared::new(&rows, dim, &held_out);
        let had_tree = serving.bundle().has_tree();
        let before = match had_tree {
            true => compared.tree(serving.model().indexer())?,
            false => Needed { visited: 1.0, work: 1.0 },
        };
        let after = compared.tree(new)?;
        let mut tuned = Tuned {
            documents: set.documents.len(),
            leaves: new.shape().leaves(),
            questions: held_out.count(dim),
            before,
            after,
            lists: compared.lists(&start)?,
            change: None,
        };
        let is_better = match had_tree {
            true => tuned.questions >= FEWEST_TUNING_QUESTIONS && after.work <= NEEDED_SAVING * before.work,
            false => after.work <= NEEDED_SAVING_OF_NONE,
        };
        let is_new = fitted.bundle.hash() != serving.bundle().hash();
        if changes && is_new && (options.always || is_better) {
            tuned.change = self.change_if(&fitted.bundle, &mut |_, _| Ok(true), on_progress)?;
        }
        Ok(tuned)
    }
}

impl TuneOptions {
    /// Documents whose embeddings fit the memory.
    fn documents(&self, dim: usize) -> usize {
        let most = self.memory_bytes / (COPIES * (dim * size_of::<f32>()) as u64);
        usize::try_from(most).unwrap_or(usize::MAX).max(SMALLEST_SAMPLE)
    }

    /// Default passes over this many texts.
    fn passes(&self, texts: usize) -> usize {
        let by_rule = STEPS.div_ceil(texts.div_ceil(INDEXER_BATCH).max(1));
        self.passes.unwrap_or(by_rule.clamp(FEWEST_PASSES, MOST_PASSES))
    }

    fn checked_leaves(&self, by_rule: u32, documents: usize) -> Result<u32> {
        let most = (documents / FEWEST_PER_LEAF).max(2) as u32;
        if self.passes == Some(0) {
            return Err(out_of_range("passes", 0, "1 or more".to_owned()));
        }
        match self.leaves {
            None => Ok(by_rule),
            Some(leaves) if (2..=most).contains(&leaves) => Ok(leaves),
            Some(leaves) => {
                let expected = format!("2 to {most} for a tree of {documents} documents");
                Err(out_of_range("leaves", leaves, expected))
            }
        }
    }
}

impl<F: FnMut(Progress) -> ControlFlow<()>> WithProgress<'_, F> {
    /// As [`Index::tune`], with progress and cancellation.
    ///
    /// # Errors
    /// Those of [`Index::tune`], and [`Error::Cancelled`].
    pub fn tune(mut self, options: &TuneOptions) -> Result<Tuned> {
        let (index, on_progress) = self.parts();
        index.check_writable()?;
        // Held until the change is done, because it starts from the model in service.
        let _only = index.alone()?;
        let output = index.path().join(names::TRAINED);
        index.clear_begun()?;
        let tuned = index.tune_into(&output, true, options, on_progress);
        // The tree is in service or the index is unchanged; either way the bundle is not needed.
        index.discard_begun();
        tuned
    }

    /// As [`Index::make_tree`], with progress and cancellation.
    ///
    /// # Errors
    /// Those of [`Index::make_tree`], and [`Error::Cancelled`].
    pub fn make_tree(mut self, output: impl AsRef<Path>, options: &TuneOptions) -> Result<Tuned> {
        let (index, on_progress) = self.parts();
        index.check_process()?;
        if options.always {
            return Err(InputError::InapplicableOption { option: "always", call: "make_tree" }.into());
        }
        index.tune_into(output.as_ref(), false, options, on_progress)
    }
}

impl Sample {
    fn draw(
        serving: &ActiveModel,
        view: &View,
        most: usize,
        options: &TuneOptions,
        asked: &[String],
        on_progress: &mut OnProgress<'_>,
    ) -> Result<Self> {
        if options.questions.iter().any(|question| question.trim().is_empty()) {
            return Err(InputError::EmptyQuery.into());
        }
        let mut rng = ChaCha8Rng::seed_from_u64(options.seed);
        let dim = serving.model().dim();
        let live: Vec<Row> = (0..view.rows() as u32).map(Row).filter(|&row| view.is_live(row)).collect();
        let mut drawn = Vec::with_capacity(most);
        for place in index::sample(&mut rng, live.len(), most) {
            drawn.push((Document { metadata: None, ..view.passage(live[place])? }, live[place]));
        }
        // Independent of the order of the rows, which differs after each change of model.
        drawn.sort_by_cached_key(|(document, row)| {
            (document.id.clone(), view.span(*row).ok().flatten().unwrap_or_default())
        });
        let (mut documents, mut rows) = (Vec::with_capacity(most), Vec::with_capacity(most * dim));
        for (document, row) in drawn {
            let unit = serving.unit_row(view, row)?;
            // A vector of zeros has no place in a tree, which goes by directions.
            if has_direction(&unit) {
                rows.extend(unit);
                documents.push(document);
            }
        }
        let mut order: Vec<usize> = (0..documents.len()).collect();
        order.shuffle(&mut rng);
        let encoder = serving.model().encoder();
        if !options.questions.is_empty() {
            encoder.as_ref().map_err(|_| InputError::NoEncoder)?;
        }
        // Without an encoder, embeddings alone serve as questions.
        let (asked, most) = if encoder.is_ok() { (asked, MOST_QUESTIONS) } else { (&[][..], 0) };
        let made = order.iter().filter_map(|&own| Some((question_of(&documents[own])?, Some(own))));
        let made: Vec<(&str, Option<usize>)> = made.take(most).collect();
        let mut once = HashSet::new();
        let given = options.questions.iter().chain(asked).filter(|question| once.insert(*question));
        let given = given.map(|question| (question.as_str(), None));
        let (held_out, learned): (Vec<_>, Vec<_>) =
            given.chain(made).partition(|(text, _)| is_held_out(text));
        let held_out = &held_out[..held_out.len().min(HELD_OUT)];
        let all: Vec<&str> = held_out.iter().chain(&learned).map(|(text, _)| *text).collect();
        let mut embedded = Vec::with_capacity(all.len() * dim);
        for block in all.chunks(BLOCK) {
            let done = |rows: &[f32]| Progress::new(Stage::Questions, rows.len() / dim, all.len());
            let tick = &mut || on_progress(done(&embedded));
            let rows = serving.model().encoder()?.embed_with(block, Role::Query, tick)?;
            embedded.extend(rows);
            done(&embedded).tell(on_progress, Error::Cancelled)?;
        }
        make_unit(&mut embedded, dim);
        let queries = embedded.split_off(held_out.len() * dim);
        let mut held_out = HeldOut { rows: embedded, own: held_out.iter().map(|(_, own)| *own).collect() };
        if held_out.own.is_empty() {
            // Documents without texts give no questions either: their embeddings serve as questions.
            for &own in order.iter().take(HELD_OUT) {
                held_out.rows.extend_from_slice(&rows[own * dim..][..dim]);
                held_out.own.push(Some(own));
            }
        }
        Ok(Self { documents, embedded: Embedded { dim, documents: rows, queries }, held_out })
    }
}

impl HeldOut {
    fn count(&self, dim: usize) -> usize {
        self.rows.len() / dim
    }
}

/// Its title or one of its sentences, as a query for similar documents.
fn question_of(document: &Document) -> Option<&str> {
    let title = document.title.trim();
    let sentences = sentences(&document.text);
    let found = match sentences.get(sentences.len() / 2) {
        _ if !title.is_empty() => title,
        Some(sentence) => sentence,
        None => document.text.trim(),
    };
    (!found.is_empty()).then_some(found)
}

/// Questions with the documents that exact search finds for them.
struct Compared<'a> {
    rows: &'a [f32],
    dim: usize,
    questions: &'a [f32],
    positives: Vec<Vec<u32>>,
}

/// Hits of exact search to be found for each question.
const DEPTH: usize = 10;

/// One rank more than needed, with some spare.
const METRICS: [Metric; 1] = [Metric::RECALL_AT_20];

impl<'a> Compared<'a> {
    fn new(rows: &'a [f32], dim: usize, held_out: &'a HeldOut) -> Self {
        let nearest = nearest_documents(&Panels::pack(rows, dim), &held_out.rows, DEPTH + 1);
        let sorted = |(nearest, own): (Vec<(u32, f32)>, &Option<usize>)| {
            let documents = nearest.into_iter().map(|(document, _)| document);
            let others = documents.filter(|&document| Some(document as usize) != *own);
            let mut documents: Vec<u32> = others.take(DEPTH).collect();
            documents.sort_unstable();
            documents
        };
        let positives = nearest.into_iter().zip(&held_out.own).map(sorted).collect();
        Self { rows, dim, questions: &held_out.rows, positives }
    }

    fn tree(&self, indexer: &Indexer) -> Result<Needed> {
        let leaves = indexer.route_rows(self.rows);
        self.needed(Partition::tree(indexer, &leaves), Engine::Tree)
    }

    fn lists(&self, found: &KMeans) -> Result<Needed> {
        let lists = found.sizes.len();
        self.needed(Partition::of_k_means(found, self.dim), Engine::Ivf { lists })
    }

    fn needed(&self, partition: Partition<'_>, engine: Engine) -> Result<Needed> {
        let judge = Judge::binary(&METRICS, &self.positives);
        let bench = Bench::new(self.rows, self.dim, self.questions, judge);
        let settings = bench.measure(&[partition], &mut || Ok::<(), crate::Error>(()))?;
        let outcomes = Outcomes { queries: self.positives.len(), metrics: &METRICS, settings: &settings };
        let at = |cost| {
            let points = outcomes.by_visited(engine).into_iter().filter_map(|figures| {
                // The document that a question was made from ranks before its targets.
                Some((figures.fraction(cost), outcomes.mean(figures, Metric::RECALL_AT_20)?))
            });
            cost_at(points, COMPARED_RECALL)
        };
        Ok(Needed { visited: at(Cost::Visited).min(1.0), work: at(Cost::Work) })
    }
}

/// The cost at which a recall is reached, interpolated between two points; `points` by rising cost. The
/// result is at least the first point's cost.
fn cost_at(points: impl Iterator<Item = (f64, f64)>, recall: f64) -> f64 {
    let mut before: Option<(f64, f64)> = None;
    for (cost, found) in points {
        if found >= recall {
            return before
                .map_or(cost, |(less, lower)| less + (recall - lower) / (found - lower) * (cost - less));
        }
        before = Some((cost, found));
    }
    before.map_or(1.0, |(cost, _)| cost.max(1.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_large_collection_is_passed_over_fewer_times() {
        let passes = |texts| TuneOptions::default().passes(texts);
        assert_eq!([0, 7_633, 19_809, 64_000, 1_000_000].map(passes), [30, 30, 26, 8, 4]);
        assert_eq!(TuneOptions { passes: Some(2), ..TuneOptions::default() }.passes(64_000), 2);
    }

    #[test]
    fn the_share_is_interpolated() {
        let points = [(0.1, 0.5), (0.2, 0.9), (0.4, 1.0)];
        let at = |recall| cost_at(points.into_iter(), recall);
        assert!((at(0.5) - 0.1).abs() < 1e-12 && (at(0.7) - 0.15).abs() < 1e-12);
        assert!((at(0.95) - 0.3).abs() < 1e-12);
        // No search visits less than one leaf.
        assert_eq!(at(0.25), 0.1);
        assert_eq!(cost_at([(0.5, 0.6)].into_iter(), 0.95), 1.0);
        assert_eq!(cost_at([(0.5, 0.6), (1.1, 0.9)].into_iter(), 0.95), 1.1);
        assert_eq!(cost_at(std::iter::empty(), 0.95), 1.0);
    }
}
