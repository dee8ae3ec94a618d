//! A tree for what an index holds, without labels: the encoder stays as it is, and nothing is encoded again.

use std::collections::HashSet;
use std::num::NonZeroUsize;
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
use crate::store::View;
use crate::train::dataset::sentences;
use crate::train::distil::nearest_documents;
use crate::train::error::out_of_range;
use crate::train::refresh::{Embedded, make_unit};
use crate::train::run::INDEXER_BATCH;
use crate::train::texts::Texts;
use crate::train::trainer::Given;
use crate::train::{TrainConfig, TrainError, Trainer, TrainingSet, init, is_held_out};

/// Passes over the texts unless asked otherwise: so many steps of so many texts each, between these numbers.
/// A large collection shows each leaf its documents as often in few passes (`docs/lab/experiments.md`).
const STEPS: usize = 1_000;
const FEWEST_PASSES: usize = 4;
const MOST_PASSES: usize = 30;
/// Bytes of embeddings that tuning holds unless asked otherwise.
pub const DEFAULT_MEMORY_BYTES: u64 = 1 << 30;
/// Share of exact search's ten best documents at which trees are compared.
pub const COMPARED_RECALL: f64 = 0.95;
/// A tree takes another one's place if it costs this share of its work at most.
pub const NEEDED_SAVING: f64 = 0.9;
/// The same where there was none: scoring all documents in their order is as cheap as visiting half of them.
pub const NEEDED_SAVING_OF_NONE: f64 = 0.5;

/// Questions that are made from documents at most.
const MOST_QUESTIONS: usize = 4_000;
/// Questions set aside to compare with, at most.
const HELD_OUT: usize = 300;
/// Copies of a document's embedding that are held at the same time.
const COPIES: u64 = 4;
/// Questions encoded between two reports of progress.
const BLOCK: usize = 256;
/// Fewer documents than this need no tree and make none.
const FEWEST_DOCUMENTS: usize = 20;
/// Documents that a tree is made from at least, whatever the memory, unless there are fewer.
const SMALLEST_SAMPLE: usize = 1_000;
/// Documents of a leaf on average, at least: routing takes as long as scoring one document for each leaf.
const FEWEST_PER_LEAF: usize = 2;
/// How much the size of a list counts against it where the tree starts (`docs/lab/experiments.md`).
const SIZE_PENALTY: f32 = 0.1;
/// Questions set aside without which a tree is not replaced.
const FEWEST_QUESTIONS: usize = 50;

/// Options of [`Index::tune`].
#[derive(Clone, Debug)]
pub struct TuneOptions {
    /// Leaves of the tree, in one level, from 2 to half of the documents that it is made from; one for ten of
    /// them by default.
    pub leaves: Option<u32>,
    /// Passes over the texts; by default 30 of up to some 17,000 texts, fewer of more, 4 at least.
    pub passes: Option<usize>,
    /// Questions that are asked of the index, beside those that were logged or judged and those that are made
    /// from its documents.
    pub questions: Vec<String>,
    /// Bytes of embeddings held at a time, [`DEFAULT_MEMORY_BYTES`] by default: of a larger collection the
    /// tree is made from a sample, of 1,000 documents at least.
    pub memory_bytes: u64,
    /// A directory for a checkpoint after each pass; none by default.
    pub checkpoints: Option<PathBuf>,
    /// Goes on from the checkpoint there, if there is one. It must be of the same options over the same
    /// documents and questions.
    pub resume: bool,
    /// Takes the new tree even where it brings nothing.
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

/// What it takes to find [`COMPARED_RECALL`] of exact search's ten best, as a share of all documents: a mean
/// over questions that were set aside, on the line between two numbers of leaves.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Needed {
    /// Documents visited.
    pub visited: f64,
    /// The same and routing, in document dot products; may be above 1.
    pub work: f64,
}

/// What [`Index::tune`] did.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Tuned {
    /// Documents that the tree was made from.
    pub documents: usize,
    /// Leaves of the new tree.
    pub leaves: u32,
    /// Questions that were set aside and compared with.
    pub questions: usize,
    /// By the tree that there was; every document without one.
    pub before: Needed,
    /// By the new tree.
    pub after: Needed,
    /// By as many lists of k-means.
    pub lists: Needed,
    /// The change over to the new tree; `None` where it brings nothing, and the index is as before, and of
    /// [`Index::make_tree`].
    pub change: Option<ModelChange>,
}

/// Documents with their embeddings, and questions for them.
struct Sample {
    documents: Vec<Document>,
    embedded: Embedded,
    held_out: HeldOut,
}

/// Questions that are set aside.
struct HeldOut {
    /// `[questions, dim]` unit rows.
    rows: Vec<f32>,
    /// The place of the document that each was made from; it looks for the other ones.
    own: Vec<Option<usize>>,
}

impl Index {
    /// Makes a tree for what is stored, without labels and with the encoder as it is, and changes over to it
    /// if it is better.
    ///
    /// The tree starts from k-means of the stored embeddings and learns to route documents, questions made
    /// from them, and questions given, to the leaves of their exact nearest documents. No document is encoded
    /// again. On questions that were set aside it is compared with the tree that there was, and takes its
    /// place where it finds [`COMPARED_RECALL`] of exact search's hits with less work ([`NEEDED_SAVING`],
    /// [`NEEDED_SAVING_OF_NONE`]); the rest is as [`Self::reencode`] does it, and [`Self::rollback`] returns.
    /// Searches and writes go on meanwhile. The disk needs room for two more copies of the encoder beside
    /// what [`Self::reencode`] needs.
    ///
    /// # Errors
    /// [`InputError::TooFewToTune`]; [`InputError::EmptyQuery`]; [`InputError::ChangeUnderWay`];
    /// [`TrainError`] for settings out of range; those of [`Self::reencode`]. The index is
    /// then as before.
    pub fn tune(&self, options: &TuneOptions) -> Result<Tuned> {
        self.with_progress(no_progress).tune(options)
    }

    /// As [`Self::tune`], with the new tree in a bundle of its own at `output`, which must not exist or be
    /// empty; the index stays as it is. For indexes yet to be made: of a sample of what they will hold,
    /// [`TuneOptions::leaves`] says how many leaves all of it needs.
    ///
    /// # Errors
    /// Those of [`Self::tune`]; [`InputError::InapplicableOption`] for [`TuneOptions::always`].
    pub fn make_tree(&self, output: impl AsRef<Path>, options: &TuneOptions) -> Result<Tuned> {
        self.with_progress(no_progress).make_tree(output, options)
    }

    /// `changes`: whether the index is to change over.
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
        // Of documents with passages each is a document here.
        if view.live_rows() < FEWEST_DOCUMENTS {
            let (documents, least) = (view.live_rows(), FEWEST_DOCUMENTS);
            return Err(InputError::TooFewToTune { documents, least }.into());
        }
        let mut config = TrainConfig { seed: options.seed, ..TrainConfig::default() };
        config.encoder.trainable_layers = 0;
        config.schedule.epochs = 0;
        config.tree.coarse_leaves = None;
        // Embeddings that were not trained for a tree lose by a projection, and by a load that is forced to
        // be even (`docs/lab/experiments.md`).
        config.tree.routing_dim = Some(0);
        config.losses.weights.balance = 0.02;
        let dim = serving.model().encoder().dim();
        let documents = options.documents(dim).min(view.live_rows());
        let by_rule = config.shape(documents)?.leaves();
        config.tree.branching_factor = Some(options.checked_leaves(by_rule, documents)?);

        let asked = self.asked(MOST_QUESTIONS)?;
        let sample = Sample::draw(&serving, &view, documents, options, &asked, on_progress)?;
        let collection = view.live_rows();
        drop(view);
        let Sample { documents, embedded, held_out } = sample;
        config.schedule.indexer_epochs = options.passes(documents.len() + embedded.queries.len() / dim);
        let rows = embedded.documents.clone();
        let set = TrainingSet { documents, ..TrainingSet::default() };
        let texts = Texts::without_tokens(set.documents.len(), embedded.queries.len() / dim);
        let leaves = config.shape(set.documents.len())?.leaves() as usize;
        let start = init::k_means(&rows, dim, leaves, options.seed, on_progress)?;
        // The tree starts from lists that are more even, and is compared with k-means itself.
        let even = start.clone().balanced(&rows, dim, SIZE_PENALTY, options.seed);
        let given = Given { texts, embedded, collection, centroids: even.centroids };
        let mut trainer = Trainer::builder().base(serving.bundle().path()).output(output).config(config);
        if let Some(dir) = &options.checkpoints {
            // No step of the first phase is taken, so the interval is of no account.
            trainer = trainer.checkpoints(dir, usize::MAX).resume(options.resume);
        }
        let fitted = trainer.on_progress(&mut *on_progress).fit_tree(&set, given)?;

        let new = fitted.bundle.model().indexer();
        let compared = Compared::new(&rows, dim, &held_out);
        let had_tree = serving.bundle().has_tree();
        let before = match had_tree {
            true => compared.tree(serving.model().indexer(), serving.leaves_per_document())?,
            false => Needed { visited: 1.0, work: 1.0 },
        };
        let after = compared.tree(new, 1)?;
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
            true => tuned.questions >= FEWEST_QUESTIONS && after.work <= NEEDED_SAVING * before.work,
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

    /// Passes over so many texts.
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
        // Until the change is done: it is made from what serves now.
        let _only = index.alone()?;
        let output = index.path().join(names::TRAINED);
        index.clear_begun()?;
        let tuned = index.tune_into(&output, true, options, on_progress);
        // The tree serves, or the index is as before: both are true without the bundle.
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
        let dim = serving.model().encoder().dim();
        let live: Vec<Row> = (0..view.rows() as u32).map(Row).filter(|&row| view.is_live(row)).collect();
        let mut drawn = Vec::with_capacity(most);
        for place in index::sample(&mut rng, live.len(), most) {
            drawn.push((Document { metadata: None, ..view.passage(live[place])? }, live[place]));
        }
        // Whatever the order of the rows, which is another one after each change of model.
        drawn.sort_by_cached_key(|(document, row)| {
            (document.id.clone(), view.span(*row).ok().flatten().unwrap_or_default())
        });
        let mut rows = Vec::with_capacity(most * dim);
        for (_, row) in &drawn {
            rows.extend(serving.unit_row(view, *row)?);
        }
        let documents: Vec<Document> = drawn.into_iter().map(|(document, _)| document).collect();
        let mut order: Vec<usize> = (0..documents.len()).collect();
        order.shuffle(&mut rng);
        let made = order.iter().filter_map(|&own| Some((question_of(&documents[own])?, Some(own))));
        let made: Vec<(&str, Option<usize>)> = made.take(MOST_QUESTIONS).collect();
        let mut once = HashSet::new();
        let given = options.questions.iter().chain(asked).filter(|question| once.insert(*question));
        let given = given.map(|question| (question.as_str(), None));
        let (held_out, learned): (Vec<_>, Vec<_>) =
            given.chain(made).partition(|(text, _)| is_held_out(text));
        let held_out = &held_out[..held_out.len().min(HELD_OUT)];
        let all: Vec<&str> = held_out.iter().chain(&learned).map(|(text, _)| *text).collect();
        let mut embedded = Vec::with_capacity(all.len() * dim);
        for block in all.chunks(BLOCK) {
            embedded.extend(serving.model().encoder().embed(block, Role::Query)?);
            Progress::new(Stage::Questions, embedded.len() / dim, all.len())
                .tell(on_progress, Error::Cancelled)?;
        }
        make_unit(&mut embedded, dim);
        let queries = embedded.split_off(held_out.len() * dim);
        let mut held_out = HeldOut { rows: embedded, own: held_out.iter().map(|(_, own)| *own).collect() };
        if held_out.own.is_empty() {
            // Documents without texts make no questions: they look for each other.
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

/// Its title, or one of its sentences, as somebody might ask who looks for documents like it.
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

/// Exact search's hits that are looked for, for each question.
const DEPTH: usize = 10;

/// One rank more than those that are looked for, and some to spare.
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

    fn tree(&self, indexer: &Indexer, leaves_per_document: u32) -> Result<Needed> {
        let count = NonZeroUsize::new(leaves_per_document as usize).unwrap_or(NonZeroUsize::MIN);
        let leaves = indexer.route_rows(self.rows, count);
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
                // A document that a question was made from is found before those that it looks for.
                Some((figures.fraction(cost), outcomes.mean(figures, Metric::RECALL_AT_20)?))
            });
            cost_at(points, COMPARED_RECALL)
        };
        Ok(Needed { visited: at(Cost::Visited).min(1.0), work: at(Cost::Work) })
    }
}

/// The cost at which a recall is reached, on the line between two points; `points` by rising cost. Nothing is
/// cheaper than the first one.
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
