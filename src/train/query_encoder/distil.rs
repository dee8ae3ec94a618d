//! Distils a query encoder for a bundle.

use std::collections::{HashMap, HashSet};

use rand::SeedableRng;
use rand::seq::{SliceRandom, index};
use rand_chacha::ChaCha8Rng;

use super::lesson::{Question, of_documents};
use super::{FEWEST_OTHERS, FEWEST_TEXTS, make};
use crate::disk::FileSystem;
use crate::document::Document;
use crate::error::{Error, InputError, Result};
use crate::judgment::Judgment;
use crate::judgment::plain;
use crate::model::{Bundle, DistilReport, Encoder, EncoderPrecision, LoadOptions, QueryEncoderEntry, Role};
use crate::progress::{OnProgress, Progress, Stage};
use crate::train::config::QueryEncoderChoice;
use crate::train::dataset::{TrainingQuery, TrainingSet};
use crate::train::error::{TrainError, check_setting};
use crate::train::refresh::make_unit;

/// Default for the most texts that a query encoder learns from.
pub const DEFAULT_TEXTS: usize = 60_000;
/// Default number of passes over them.
pub const DEFAULT_PASSES: usize = 10;

const MOST_PASSES: usize = 1_000;

/// Most documents of a dataset that are encoded, in addition to those that answer held-out questions.
const MOST_ENCODED: usize = 8_192;
/// At least one text in this many has no judgment.
const OTHERS_SHARE: usize = 4;
/// Texts encoded between two reports of progress.
const BLOCK: usize = 64;

/// Options of [`distil`] and [`Index::distil`](crate::Index::distil).
#[derive(Clone, Debug, PartialEq)]
pub struct DistilOptions {
    /// What to make.
    pub query_encoder: QueryEncoderChoice,
    /// Most texts to learn from, [`DEFAULT_TEXTS`] by default: judged questions, then logged ones and those
    /// in `questions`, then titles and sentences of documents.
    pub texts: usize,
    /// Passes over them, [`DEFAULT_PASSES`] by default.
    pub passes: usize,
    /// Questions without judgments.
    pub questions: Vec<String>,
    /// Judgments in addition to those of the dataset or the index; they are not stored.
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
    pub(crate) fn check(&self) -> Result<()> {
        check_setting("texts", self.texts, FEWEST_TEXTS, None)?;
        check_setting("passes", self.passes, 1, Some(MOST_PASSES))?;
        if self.questions.iter().any(|question| question.trim().is_empty()) {
            return Err(InputError::EmptyQuery.into());
        }
        Ok(self.pairs.iter().try_for_each(Judgment::check)?)
    }

    /// Rejects other options when no query encoder is to be made.
    pub(crate) fn check_none(&self) -> Result<()> {
        let given = Self { query_encoder: QueryEncoderChoice::Static, ..self.clone() };
        match given == Self::default() {
            true => Ok(()),
            false => Err(TrainError::NothingToDistil.into()),
        }
    }
}

/// Adds a query encoder to a bundle just trained on a set, whose documents it embeds as `rows`.
///
/// # Errors
/// Those of [`distil`], and [`Error::Cancelled`].
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

/// The data that a query encoder is distilled from.
pub(crate) struct Known<'a> {
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
pub(crate) fn distilled(
    bundle: &Bundle,
    known: Known<'_>,
    options: &DistilOptions,
    on_progress: &mut OnProgress<'_>,
) -> Result<(QueryEncoderEntry, Vec<u8>)> {
    let mut rng = ChaCha8Rng::seed_from_u64(options.seed);
    let Known { rows, documents, mut train, held_out, asked } = known;
    // Each text once, ignoring case and punctuation, and none that any query encoder is measured on.
    let mut seen: HashSet<String> = held_out.iter().map(|question| plain(&question.text)).collect();
    train.retain(|question| seen.insert(plain(&question.text)));
    train.shuffle(&mut rng);
    let mut asked: Vec<Question> =
        asked.into_iter().map(|text| Question { text, positives: Vec::new() }).collect();
    asked.retain(|question| seen.insert(plain(&question.text)));
    // Texts without judgments calibrate the student's confidence, so some are always included.
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
    make(bundle, rows, texts, held_out, options, on_progress)
}

/// The encoder in eight bits: its error is far below what a student can learn.
pub(super) fn teacher(bundle: &Bundle) -> Result<Encoder> {
    Ok(LoadOptions::new().encoder_precision(EncoderPrecision::Int8).encoder(bundle.path())?)
}

/// Refuses encoders without unit norm, and those that are tables of token vectors.
pub(crate) fn check_encoder(bundle: &Bundle) -> Result<()> {
    bundle.check_own()?;
    if bundle.model().encoder()?.config().layers == 0 {
        return Err(TrainError::StaticEncoder.into());
    }
    match bundle.model().encoder()?.pooler.is_unit() {
        true => Ok(()),
        false => Err(TrainError::NoUnitNorm.into()),
    }
}

/// Makes a query encoder from a dataset and writes it into the bundle's folder, replacing an existing one.
/// With [`QueryEncoderChoice::None`] an existing one is removed and `None` is returned.
///
/// The student learns from the dataset's questions and from titles and sentences of its documents to
/// reproduce the embeddings of the bundle's encoder, their document rankings and their leaves, and to find
/// the documents that answer judged questions. It is measured on the dataset's `dev` judgments
/// ([`TrainingSet::read`]). For this, up to 8,192 documents and those that answer held-out questions are
/// encoded. The model's identity is unchanged, so existing indexes of the bundle are unaffected; each has its
/// own copy, see [`Index::distil`](crate::Index::distil).
///
/// # Errors
/// [`ModelError::NotABundle`](crate::model::ModelError::NotABundle); [`TrainError::TooFewTexts`];
/// [`TrainError::NoUnitNorm`]; [`TrainError::NothingToDistil`]; [`TrainError::Config`] for options out of
/// range; [`Error::Cancelled`]; failures of the encoder and of the disk. On error the bundle is unchanged.
pub fn distil(
    bundle: &Bundle,
    set: &TrainingSet,
    options: &DistilOptions,
    on_progress: &mut OnProgress<'_>,
) -> Result<Option<DistilReport>> {
    if options.query_encoder == QueryEncoderChoice::None {
        options.check_none()?;
        bundle.set_query_encoder(&FileSystem, None)?;
        return Ok(None);
    }
    options.check()?;
    check_encoder(bundle)?;
    let places: HashMap<&str, u32> =
        (0..).zip(&set.documents).map(|(place, document)| (document.id.as_str(), place)).collect();
    let mut train: Vec<Question> = set.train.iter().map(question).collect();
    for pair in options.pairs.iter().filter(|pair| pair.grade > 0) {
        let Some(place) = places.get(pair.id.as_str()) else {
            return Err(TrainError::Unknown { kind: "document", id: pair.id.clone() }.into());
        };
        train.push(Question { text: pair.question.clone(), positives: vec![*place] });
    }
    let all = set.documents.len();
    let mut rng = ChaCha8Rng::seed_from_u64(options.seed);
    let drawn = index::sample(&mut rng, all, MOST_ENCODED.min(all)).into_iter().map(|d| d as u32);
    let (chosen, [train, held_out]) = among(drawn.collect(), train, set.dev.iter().map(question).collect());
    let texts = chosen.iter().map(|document| set.documents[*document as usize].embedding_text());
    let texts: Vec<_> = texts.collect();
    let teacher = teacher(bundle)?;
    let mut rows = Vec::with_capacity(texts.len() * teacher.dim());
    for block in texts.chunks(BLOCK) {
        let block: Vec<&str> = block.iter().map(AsRef::as_ref).collect();
        let before = Progress::new(Stage::Insert, rows.len() / teacher.dim(), texts.len());
        rows.extend(teacher.embed_with(&block, Role::Document, &mut || on_progress(before))?);
        Progress::new(Stage::Insert, rows.len() / teacher.dim(), texts.len())
            .tell(on_progress, Error::Cancelled)?;
    }
    make_unit(&mut rows, teacher.dim());
    let known = Known {
        rows: &rows,
        // All documents provide texts, encoded or not.
        documents: set.documents.iter().collect(),
        train,
        held_out,
        asked: options.questions.clone(),
    };
    let (entry, bytes) = distilled(bundle, known, options, on_progress)?;
    let report = entry.report.clone();
    bundle.set_query_encoder(&FileSystem, Some((entry, &bytes)))?;
    Ok(Some(report))
}

/// The drawn documents and those that answer held-out questions, ascending; and the questions to learn from
/// and the held-out ones, by positions among these documents.
pub(crate) fn among<D: Copy + Ord>(
    mut chosen: Vec<D>,
    train: Vec<Question<D>>,
    held_out: Vec<Question<D>>,
) -> (Vec<D>, [Vec<Question>; 2]) {
    chosen.extend(held_out.iter().flat_map(|question| &question.positives));
    chosen.sort_unstable();
    chosen.dedup();
    let question = |Question { text, positives }: Question<D>| {
        let places = positives.iter().filter_map(|document| chosen.binary_search(document).ok());
        let mut positives: Vec<u32> = places.map(|place| place as u32).collect();
        positives.sort_unstable();
        Question { text, positives }
    };
    let questions = [train, held_out].map(|own| own.into_iter().map(question).collect());
    (chosen, questions)
}
