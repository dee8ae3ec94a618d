//! Query encoders: small encoders of questions, trained to reproduce the full encoder. Not in the paper.
//!
//! | File | Contents |
//! |---|---|
//! | `distil.rs` | the training data, and `distil` for a bundle |
//! | `lesson.rs` | the texts and their embeddings by the full encoder |
//! | `start.rs`, `student.rs` | the initial weights, and a step |
//! | `adam.rs`, `product.rs` | the optimiser and the products of a step |
//! | `loss.rs` | the loss |
//! | `check.rs` | the evaluation, and whether the student is the default |

mod adam;
mod check;
mod distil;
mod lesson;
mod loss;
mod product;
mod start;
mod student;

use std::path::Path;
use std::time::Instant;

use rand::seq::SliceRandom;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use sha2::{Digest, Sha256};

use crate::error::{Error, Result};
use crate::model::{
    Bundle, DistilReport, Encoder, LoadedQueryEncoder, ModelError, QueryEncoderEntry, SIGNALS, hex,
};
use crate::progress::{OnProgress, Progress, Stage, no_progress};
use check::{Answers, Collection};
use distil::teacher;
use lesson::Lesson;
use loss::{Batch, Leaves, Targets};
use student::Student;

pub use distil::{DEFAULT_PASSES, DEFAULT_TEXTS, DistilOptions, distil};
pub(crate) use distil::{Known, among, check_encoder, distil_trained, distilled};
pub(crate) use lesson::Question;

/// Number of strange texts, and the most words and letters of one.
const STRANGE: usize = 500;
const STRANGE_WORDS: usize = 6;
const STRANGE_LETTERS: usize = 8;
/// Texts of a step.
const BATCH: usize = 128;
/// Most steps of the learning-rate warm-up.
const WARMUP: usize = 50;
/// Most texts without judgments that are held out, and their share of all.
const HELD_OUT: usize = 1_000;
const HELD_OUT_SHARE: usize = 20;
/// Fewest texts without judgments.
const FEWEST_OTHERS: usize = 50;
/// Fewest texts to learn from.
pub(crate) const FEWEST_TEXTS: usize = 100;

/// Trains and measures a static query encoder: its entry and the content of its file.
///
/// `documents` `[documents, dim]` are unit rows; `texts` are learned from, and `held_out` are judged
/// questions that are set aside.
///
/// # Errors
/// Failures of the encoder and of tensors; [`Error::Cancelled`].
fn make(
    bundle: &Bundle,
    documents: &[f32],
    mut texts: Vec<Question>,
    held_out: Vec<Question>,
    options: &DistilOptions,
    on_progress: &mut OnProgress<'_>,
) -> Result<(QueryEncoderEntry, Vec<u8>)> {
    let started = Instant::now();
    let (encoder, indexer) = (bundle.model().encoder()?, bundle.model().indexer());
    let teacher = &teacher(bundle)?;
    let DistilOptions { passes, seed, .. } = *options;
    let dim = encoder.dim();
    let vocabulary = encoder.config().vocab_size;
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    texts.shuffle(&mut rng);
    // Judged questions are for training; only others are held out here.
    let aside = (texts.len() / HELD_OUT_SHARE).clamp(FEWEST_OTHERS / 2, HELD_OUT);
    let (judged, mut others): (Vec<_>, Vec<_>) = texts.into_iter().partition(|q| !q.positives.is_empty());
    let questions = judged.len();
    let tested = others.split_off(others.len().saturating_sub(aside));
    let timed: Vec<String> = tested.iter().map(|question| question.text.clone()).collect();
    let all = judged.into_iter().chain(others).collect();
    let lesson = Lesson::new(teacher, all, on_progress)?;
    let tested = Lesson::new(teacher, tested, on_progress)?;
    let held_out = Lesson::new(encoder, held_out, on_progress)?;

    let word = encoder.transformer()?.embeddings.words();
    let word: Vec<f32> = word.map_err(ModelError::from)?;
    let word = of_width(word, encoder.config().hidden_size, dim);
    let mut student = Student::new(&lesson, word, dim, seed);
    let leaves = indexer.leaf_rows().filter(|_| indexer.has_tree());
    let leaves = leaves.map(|rows| Leaves { rows, scale: indexer.logit_scale() });
    let targets = Targets { dim, documents, leaves };
    train(&mut student, &lesson, &targets, passes, &mut rng, on_progress)?;

    let read_back = |confidence| -> Result<(Vec<u8>, LoadedQueryEncoder)> {
        let bytes = student.weights(confidence).to_bytes()?;
        let path = Path::new("query.safetensors");
        let student = LoadedQueryEncoder::from_bytes(bytes.clone(), path, vocabulary, dim)?;
        Ok((bytes, student))
    };
    let (_, unsure) = read_back([0.0; SIGNALS])?;
    let strange = Lesson::new(teacher, strange(encoder, vocabulary, &mut rng), &mut no_progress)?;
    let (bytes, student) = read_back(check::confidence(&unsure, [&tested, &strange], dim)?)?;
    let (answers, to_judged) = (Answers::of(&student, &tested)?, Answers::of(&student, &held_out)?);
    let unsure_below = answers.unsure_below();
    let collection = Collection { dim, documents, indexer };
    let [unsure, cosine, overlap_at_10] = collection.agreement(&answers, unsure_below);
    let values = collection.values(&to_judged, unsure_below);
    let difference = values.as_ref().and_then(check::difference);
    let timed: Vec<&str> = timed.iter().map(String::as_str).collect();
    let (is_default, sentence) = check::decide(held_out.len(), difference);
    let report = DistilReport {
        texts: lesson.len(),
        questions,
        passes,
        bytes: bytes.len() as u64,
        documents: documents.len() / dim,
        held_out_texts: tested.len(),
        cosine,
        overlap_at_10,
        unsure,
        held_out_questions: held_out.len(),
        full: values.as_ref().map(|[full, _]| check::quality(full)),
        fast: values.as_ref().map(|[_, fast]| check::quality(fast)),
        difference,
        tree: collection.tree(&answers, unsure_below),
        encode_us: check::encode_us(encoder, &student, &timed)?,
        is_default,
        sentence,
        seconds: started.elapsed().as_secs_f64(),
    };
    let sha256 = hex(&Sha256::digest(&bytes));
    let file = QueryEncoderEntry::file_name(&sha256);
    // The bundle that receives it identifies its encoder.
    let entry =
        QueryEncoderEntry { file, sha256, encoder: String::new(), unsure_below, of_index: false, report };
    Ok((entry, bytes))
}

/// Nonsense texts of random tokens and random letters, which show a student's signals on unfamiliar input.
fn strange(encoder: &Encoder, vocabulary: usize, rng: &mut ChaCha8Rng) -> Vec<Question> {
    let mut text = |number: usize| -> String {
        let words = rng.random_range(1..=STRANGE_WORDS);
        let mut word = || match number % 2 {
            0 => encoder.token(rng.random_range(0..vocabulary as u32)).trim_start_matches("##").to_owned(),
            _ => (0..rng.random_range(2..=STRANGE_LETTERS)).map(|_| rng.random_range('a'..='z')).collect(),
        };
        (0..words).map(|_| word()).collect::<Vec<_>>().join(" ")
    };
    let texts = (0..STRANGE).map(&mut text).filter(|text| !text.trim().is_empty());
    texts.map(|text| Question { text, positives: Vec::new() }).collect()
}

fn train(
    student: &mut Student,
    lesson: &Lesson,
    targets: &Targets<'_>,
    passes: usize,
    rng: &mut ChaCha8Rng,
    on_progress: &mut OnProgress<'_>,
) -> Result<()> {
    let per_pass = lesson.len().div_ceil(BATCH);
    let steps = passes * per_pass;
    let mut order: Vec<usize> = (0..lesson.len()).collect();
    for pass in 0..passes {
        order.shuffle(rng);
        for (number, texts) in order.chunks(BATCH).enumerate() {
            let step = pass * per_pass + number;
            descend(student, lesson, targets, texts, factor(step, steps), rng).map_err(ModelError::from)?;
            Progress::new(Stage::Distil, step + 1, steps).tell(on_progress, Error::Cancelled)?;
        }
    }
    Ok(())
}

/// A linear warm-up, then a straight line to zero.
fn factor(step: usize, steps: usize) -> f64 {
    let at = step as f64 + 1.0;
    let warmup = WARMUP.min(steps / 10 + 1) as f64;
    (at / warmup).min(1.0) * (1.0 - at / (steps as f64 + 1.0))
}

/// One step on some texts.
fn descend(
    student: &mut Student,
    lesson: &Lesson,
    targets: &Targets<'_>,
    texts: &[usize],
    factor: f64,
    rng: &mut ChaCha8Rng,
) -> candle_core::Result<()> {
    let row = |text: usize| &lesson.targets[text * targets.dim..][..targets.dim];
    let batch = Batch {
        targets: texts.iter().flat_map(|&text| row(text)).copied().collect(),
        positives: texts.iter().map(|&text| lesson.positives[text].as_slice()).collect(),
    };
    let forward = student.forward(texts.iter().map(|&text| lesson.tokens[text].as_slice()).collect())?;
    let gradient = targets.gradient(&forward.rows, &batch, rng)?;
    student.descend(&forward, &gradient, factor)
}

/// Changes the width of a table's rows, because word vectors and embeddings may differ in width. The rows are
/// only a starting point, so they are truncated or padded with zeros.
fn of_width(table: Vec<f32>, from: usize, to: usize) -> Vec<f32> {
    if from == to {
        return table;
    }
    let resized = |row: &[f32]| (0..to).map(|at| row.get(at).copied().unwrap_or(0.0)).collect::<Vec<_>>();
    table.chunks_exact(from).flat_map(resized).collect()
}
