//! Giving a bundle, or the model of an index, a query encoder.

use std::collections::{HashMap, HashSet};
use std::ops::ControlFlow;

use rand::SeedableRng;
use rand::seq::{SliceRandom, index};
use rand_chacha::ChaCha8Rng;
use serde::{Deserialize, Serialize};

use super::lesson::{Question, of_documents};
use super::{Course, FEWEST_OTHERS, FEWEST_TEXTS, make};

use crate::disk::FileSystem;
use crate::document::Document;
use crate::error::{Error, InputError, Result};
use crate::ids::Row;
use crate::index::{ActiveModel, Index, WithProgress, check_judgment};
use crate::judgment::Judgment;
use crate::model::{Bundle, DistilReport, Encoder, EncoderPrecision, LoadOptions, QueryEncoderEntry, Role};
use crate::progress::{OnProgress, Progress, Stage, no_progress};
use crate::store::View;
use crate::train::dataset::{TrainingQuery, TrainingSet};
use crate::train::error::{TrainError, out_of_range};
use crate::train::held_out::{is_held_out, plain};
use crate::train::passages::best_rows;
use crate::train::refresh::make_unit;

/// Texts that a query encoder learns from unless asked otherwise, at most.
pub const DEFAULT_TEXTS: usize = 60_000;
/// Passes over them unless asked otherwise.
pub const DEFAULT_PASSES: usize = 10;

const MOST_PASSES: usize = 1_000;

/// Documents of an index whose stored embeddings take part, at most.
const MOST_DOCUMENTS: usize = 100_000;
/// Documents of a dataset that are encoded, at most, beside those that answer questions set aside.
const MOST_ENCODED: usize = 8_192;
/// One text in so many has no judgment, at least.
const OTHERS_SHARE: usize = 4;
/// Share of judged questions set aside to measure with.
/// Texts encoded between two reports of progress.
const BLOCK: usize = 256;
/// Logged questions that are learned from at most.
const MOST_ASKED: usize = 20_000;

/// Whether a model gets a query encoder, and which.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum QueryEncoderChoice {
    /// None; one that is there is taken away.
    None,
    /// A vector and a weight for each token, and a small head: microseconds a question.
    #[default]
    Static,
}

/// Options of [`Bundle::distil`] and [`Index::distil`].
#[derive(Clone, Debug, PartialEq)]
pub struct DistilOptions {
    /// What is made.
    pub query_encoder: QueryEncoderChoice,
    /// Texts that it learns from at most, [`DEFAULT_TEXTS`] by default: judged questions, then logged ones
    /// and those in `questions`, then titles and sentences of documents.
    pub texts: usize,
    /// Passes over them, [`DEFAULT_PASSES`] by default.
    pub passes: usize,
    /// Questions that are asked, without judgments.
    pub questions: Vec<String>,
    /// Judgments beside those of the dataset or the index; they are not stored.
    pub pairs: Vec<Judgment>,
    /// Seed of everything random.
    pub seed: u64,
}

impl Default for DistilOptions {
    fn default() -> Self {
        Self {
            query_encoder: QueryEncoderChoice::default(),
            texts: DEFAULT_TEXTS,
            passes: DEFAULT_PASSES,
            questions: Vec::new(),
            pairs: Vec::new(),
            seed: 0,
        }
    }
}

impl DistilOptions {
    fn check(&self) -> Result<()> {
        if self.texts < FEWEST_TEXTS {
            return Err(out_of_range("texts", self.texts, format!("{FEWEST_TEXTS} or more")));
        }
        if !(1..=MOST_PASSES).contains(&self.passes) {
            return Err(out_of_range("passes", self.passes, format!("1 to {MOST_PASSES}")));
        }
        if self.questions.iter().any(|question| question.trim().is_empty()) {
            return Err(InputError::EmptyQuery.into());
        }
        self.pairs.iter().try_for_each(check_judgment)
    }

    /// Options for no query encoder, with anything that would say how one is made.
    fn check_none(&self) -> Result<()> {
        let given = Self { query_encoder: QueryEncoderChoice::Static, ..self.clone() };
        match given == Self::default() {
            true => Ok(()),
            false => Err(TrainError::NothingToDistil.into()),
        }
    }
}

/// Gives a bundle that was just trained on a set, and embeds its documents as `rows`, a query encoder.
///
/// # Errors
/// Those of [`Bundle::distil`], and [`Error::Cancelled`].
pub(crate) fn distil_trained(
    bundle: &Bundle,
    set: &TrainingSet,
    rows: &[f32],
    options: &DistilOptions,
    on_progress: &mut OnProgress<'_>,
) -> Result<()> {
    check_encoder(bundle)?;
    let known = Known {
        rows,
        documents: set.documents.iter().collect(),
        train: set.train.iter().map(question).collect(),
        held_out: set.dev.iter().map(question).collect(),
        asked: Vec::new(),
    };
    let (entry, bytes) = distilled(bundle, known, options, on_progress)?;
    Ok(bundle.set_query_encoder(&FileSystem, Some((entry, &bytes)))?)
}

fn question(query: &TrainingQuery) -> Question {
    Question { text: query.text.clone(), positives: query.positives.clone() }
}

/// What a query encoder can be distilled from.
struct Known<'a> {
    /// `[documents, dim]` unit rows.
    pub rows: &'a [f32],
    /// Documents that texts are taken from.
    pub documents: Vec<&'a Document>,
    /// Judged questions to learn from, and those set aside.
    pub train: Vec<Question>,
    pub held_out: Vec<Question>,
    /// Questions without judgments.
    pub asked: Vec<String>,
}

/// Makes a query encoder for a bundle: its entry and the content of its file.
fn distilled(
    bundle: &Bundle,
    known: Known<'_>,
    options: &DistilOptions,
    on_progress: &mut OnProgress<'_>,
) -> Result<(QueryEncoderEntry, Vec<u8>)> {
    let encoder = bundle.model().encoder();
    let mut rng = ChaCha8Rng::seed_from_u64(options.seed);
    let Known { rows, documents, mut train, held_out, asked } = known;
    // Each text once, in whatever spelling, and none on which this or another query encoder is measured.
    let mut seen: HashSet<String> = held_out.iter().map(|question| plain(&question.text)).collect();
    train.retain(|question| seen.insert(plain(&question.text)));
    train.shuffle(&mut rng);
    let mut asked: Vec<Question> =
        asked.into_iter().map(|text| Question { text, positives: Vec::new() }).collect();
    asked.retain(|question| seen.insert(plain(&question.text)));
    // Texts without judgments say when the student is unsure, so they have room in any case.
    let questions = options.texts - options.texts / OTHERS_SHARE;
    train.truncate(questions);
    asked.truncate(questions - train.len());
    let room = options.texts - train.len() - asked.len();
    let mut others = of_documents(documents.into_iter(), options.texts, &mut rng);
    others.retain(|question| seen.insert(plain(&question.text)));
    others.truncate(room);
    others.extend(asked);
    let (found, least) = (train.len() + others.len(), FEWEST_TEXTS);
    if found < least || others.len() < FEWEST_OTHERS {
        return Err(TrainError::TooFewTexts { found, least }.into());
    }
    let texts = train.into_iter().chain(others).collect();
    let teacher = teacher(bundle)?;
    let course = Course {
        encoder,
        teacher: &teacher,
        indexer: bundle.model().indexer(),
        documents: rows,
        texts,
        held_out,
        passes: options.passes,
        seed: options.seed,
    };
    make(course, on_progress)
}

/// The encoder in eight bits: what a text loses by that is far below what a student can learn.
fn teacher(bundle: &Bundle) -> Result<Encoder> {
    Ok(LoadOptions::new().encoder_precision(EncoderPrecision::Int8).encoder(bundle.path())?)
}

/// A student gives unit rows, and is a table itself.
fn check_encoder(bundle: &Bundle) -> Result<()> {
    bundle.check_own()?;
    if bundle.model().encoder().config().layers == 0 {
        return Err(TrainError::StaticEncoder.into());
    }
    match bundle.model().encoder().pooler.is_unit() {
        true => Ok(()),
        false => Err(TrainError::NoUnitNorm.into()),
    }
}

impl Bundle {
    /// Makes a query encoder for this bundle from a dataset and writes it into the bundle's folder, in place
    /// of one that is there; with [`QueryEncoderChoice::None`] that one is removed, and `None` returned.
    ///
    /// The student learns from the dataset's questions, and from titles and sentences of its documents, to
    /// give the embeddings that the bundle's encoder gives, to rank documents and reach leaves as those do,
    /// and to find the documents that answer judged questions. It is measured on the dataset's `dev`
    /// judgments ([`TrainingSet::read`]). Up to 8,192 documents, and those that answer questions set aside,
    /// are encoded for that. The model's identity stays as it is, so indexes of the bundle stay as they are;
    /// each has its own copy, for which see [`Index::distil`].
    ///
    /// # Errors [`ModelError::NotABundle`](crate::model::ModelError::NotABundle);
    /// [`TrainError::TooFewTexts`]; [`TrainError::NoUnitNorm`]; [`TrainError::NothingToDistil`];
    /// [`TrainError::Config`] for options out of range; failures of the encoder and of the disk. The bundle
    /// is then as before.
    pub fn distil(&self, set: &TrainingSet, options: &DistilOptions) -> Result<Option<DistilReport>> {
        self.distil_with(set, options, &mut no_progress)
    }

    /// As [`Self::distil`], with progress and cancellation.
    ///
    /// # Errors
    /// Those of [`Self::distil`], and [`Error::Cancelled`].
    pub fn distil_with(
        &self,
        set: &TrainingSet,
        options: &DistilOptions,
        on_progress: &mut OnProgress<'_>,
    ) -> Result<Option<DistilReport>> {
        if options.query_encoder == QueryEncoderChoice::None {
            options.check_none()?;
            self.set_query_encoder(&FileSystem, None)?;
            return Ok(None);
        }
        options.check()?;
        check_encoder(self)?;
        let sample = Sample::of_set(set, options)?;
        let texts: Vec<_> = sample.documents.iter().map(|document| document.embedding_text()).collect();
        let teacher = teacher(self)?;
        let mut rows = Vec::with_capacity(texts.len() * teacher.dim());
        for block in texts.chunks(BLOCK) {
            let block: Vec<&str> = block.iter().map(AsRef::as_ref).collect();
            rows.extend(teacher.embed(&block, Role::Document)?);
            Progress::new(Stage::Insert, rows.len() / teacher.dim(), texts.len())
                .tell(on_progress, Error::Cancelled)?;
        }
        make_unit(&mut rows, teacher.dim());
        let known = Known {
            rows: &rows,
            // All give texts, whether they were encoded or not.
            documents: set.documents.iter().collect(),
            train: sample.train,
            held_out: sample.held_out,
            asked: options.questions.clone(),
        };
        let (entry, bytes) = distilled(self, known, options, on_progress)?;
        let report = entry.report.clone();
        self.set_query_encoder(&FileSystem, Some((entry, &bytes)))?;
        Ok(Some(report))
    }
}

/// Documents of a dataset that are encoded, and its questions by their places among those.
struct Sample<'a> {
    documents: Vec<&'a Document>,
    train: Vec<Question>,
    held_out: Vec<Question>,
}

impl<'a> Sample<'a> {
    fn of_set(set: &'a TrainingSet, options: &DistilOptions) -> Result<Self> {
        let places: HashMap<&str, u32> =
            (0..).zip(&set.documents).map(|(place, document)| (document.id.as_str(), place)).collect();
        let mut train: Vec<Question> = set.train.iter().map(question).collect();
        let held_out: Vec<Question> = set.dev.iter().map(question).collect();
        for pair in options.pairs.iter().filter(|pair| pair.grade > 0) {
            let Some(place) = places.get(pair.id.as_str()) else {
                return Err(TrainError::Unknown { kind: "document", id: pair.id.clone() }.into());
            };
            train.push(Question { text: pair.question.clone(), positives: vec![*place] });
        }
        let mut rng = ChaCha8Rng::seed_from_u64(options.seed);
        let all = set.documents.len();
        let drawn = index::sample(&mut rng, all, MOST_ENCODED.min(all)).into_iter().map(|d| d as u32);
        let mut chosen: Vec<u32> = drawn.collect();
        chosen.extend(held_out.iter().flat_map(|question| &question.positives));
        chosen.sort_unstable();
        chosen.dedup();
        let among = |questions: Vec<Question>| -> Vec<Question> {
            let among = |question: Question| Question {
                positives: question
                    .positives
                    .iter()
                    .filter_map(|document| chosen.binary_search(document).ok())
                    .map(|place| place as u32)
                    .collect(),
                ..question
            };
            questions.into_iter().map(among).collect()
        };
        let documents = chosen.iter().map(|document| &set.documents[*document as usize]).collect();
        Ok(Self { documents, train: among(train), held_out: among(held_out) })
    }
}

impl Index {
    /// Makes a query encoder for the model in service from what is stored and puts it into service, in place
    /// of one that is there; with [`QueryEncoderChoice::None`] that one is removed, and `None` returned.
    ///
    /// As [`Bundle::distil`], from the stored embeddings, so that no document is encoded again: up to 100,000
    /// documents, those that answer questions set aside among them. It learns from judged questions
    /// ([`Self::record`]), of which a fifth is set aside to measure with, by a hash of their words, from
    /// logged ones ([`Self::log_questions`]), and from titles and sentences of the documents. Searches and
    /// writes go on meanwhile. It lasts once this has returned; a change to a model with another encoder
    /// brings that model's query encoder, or none.
    ///
    /// # Errors
    /// Those of [`Bundle::distil`]; [`InputError::ChangeUnderWay`].
    pub fn distil(&self, options: &DistilOptions) -> Result<Option<DistilReport>> {
        self.distil_alone(options, &mut no_progress)
    }

    fn distil_alone(
        &self,
        options: &DistilOptions,
        on_progress: &mut OnProgress<'_>,
    ) -> Result<Option<DistilReport>> {
        self.check_writable()?;
        let _only = self.alone()?;
        let serving = &*self.serving();
        if options.query_encoder == QueryEncoderChoice::None {
            options.check_none()?;
            self.set_query_encoder(serving, None)?;
            return Ok(None);
        }
        options.check()?;
        check_encoder(serving.bundle())?;
        let view = serving.view();
        for pair in &options.pairs {
            if view.row_of(&pair.id)?.is_none() {
                return Err(TrainError::Unknown { kind: "document", id: pair.id.clone() }.into());
            }
        }
        let judgments = self.judgments()?;
        let stored = Stored::of(serving, &view, judgments.iter().chain(&options.pairs), options)?;
        let mut asked = options.questions.clone();
        asked.extend(self.asked(MOST_ASKED)?);
        let known = Known {
            rows: &stored.rows,
            documents: stored.documents.iter().collect(),
            train: stored.train,
            held_out: stored.held_out,
            asked,
        };
        let (mut entry, bytes) = distilled(serving.bundle(), known, options, on_progress)?;
        entry.of_index = true;
        let report = entry.report.clone();
        self.set_query_encoder(serving, Some((entry, &bytes)))?;
        Ok(Some(report))
    }
}

impl<F: FnMut(Progress) -> ControlFlow<()>> WithProgress<'_, F> {
    /// As [`Index::distil`], with progress and cancellation.
    ///
    /// # Errors
    /// Those of [`Index::distil`], and [`Error::Cancelled`].
    pub fn distil(mut self, options: &DistilOptions) -> Result<Option<DistilReport>> {
        let (index, on_progress) = self.parts();
        index.distil_alone(options, on_progress)
    }
}

/// Puts the best passage of each answer in the place of the document.
fn answered_by_passages(
    serving: &ActiveModel,
    view: &View,
    questions: &mut [(String, Vec<Row>)],
) -> Result<()> {
    let asked = questions.iter().flat_map(|(text, rows)| rows.iter().map(|&row| (text.as_str(), row)));
    let mut best = best_rows(serving, view, &asked.collect::<Vec<_>>())?.into_iter();
    let rows = questions.iter_mut().flat_map(|(_, rows)| rows);
    rows.zip(best.by_ref()).for_each(|(row, best)| *row = best);
    Ok(())
}

/// Documents of an index with their embeddings, and questions by their places among those.
struct Stored {
    documents: Vec<Document>,
    rows: Vec<f32>,
    train: Vec<Question>,
    held_out: Vec<Question>,
}

impl Stored {
    fn of<'a>(
        serving: &ActiveModel,
        view: &View,
        judgments: impl Iterator<Item = &'a Judgment>,
        options: &DistilOptions,
    ) -> Result<Self> {
        // Of several judgments of a question and a document the last one counts.
        let mut places: HashMap<String, usize> = HashMap::new();
        let mut judged: Vec<(String, HashMap<Row, i32>)> = Vec::new();
        for judgment in judgments {
            let Some(row) = view.row_of(&judgment.id)? else { continue };
            let key = plain(&judgment.question);
            let place = *places.entry(key).or_insert_with(|| {
                judged.push((judgment.question.clone(), HashMap::new()));
                judged.len() - 1
            });
            judged[place].1.insert(row, judgment.grade);
        }
        let (mut train, mut held_out) = (Vec::new(), Vec::new());
        for (text, grades) in judged {
            let rows: Vec<Row> =
                grades.into_iter().filter(|(_, grade)| *grade > 0).map(|own| own.0).collect();
            if rows.is_empty() {
                continue;
            }
            let into = if is_held_out(&text) { &mut held_out } else { &mut train };
            into.push((text, rows));
        }
        answered_by_passages(serving, view, &mut train)?;
        answered_by_passages(serving, view, &mut held_out)?;
        let live: Vec<Row> = (0..view.rows() as u32).map(Row).filter(|&row| view.is_live(row)).collect();
        let mut rng = ChaCha8Rng::seed_from_u64(options.seed);
        let drawn = index::sample(&mut rng, live.len(), MOST_DOCUMENTS.min(live.len()));
        let mut chosen: Vec<Row> = drawn.into_iter().map(|place| live[place]).collect();
        chosen.extend(held_out.iter().flat_map(|(_, rows)| rows));
        chosen.sort_unstable();
        chosen.dedup();
        let mut rows = Vec::with_capacity(chosen.len() * serving.model().encoder().dim());
        let mut documents = Vec::with_capacity(chosen.len());
        for &row in &chosen {
            rows.extend(serving.unit_row(view, row)?);
            documents.push(Document { metadata: None, ..view.passage(row)? });
        }
        let among = |questions: Vec<(String, Vec<Row>)>| -> Vec<Question> {
            let place = |row: &Row| chosen.binary_search(row).ok().map(|place| place as u32);
            let among = |(text, rows): (String, Vec<Row>)| {
                let mut positives: Vec<u32> = rows.iter().filter_map(place).collect();
                positives.sort_unstable();
                Question { text, positives }
            };
            questions.into_iter().map(among).collect()
        };
        Ok(Self { documents, rows, train: among(train), held_out: among(held_out) })
    }
}
