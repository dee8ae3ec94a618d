//! How many leaves a search needs: a [`RecallCurve`], measured by [`Index::calibrate`] on the index's own
//! questions.

use std::collections::HashSet;
use std::num::NonZeroUsize;
use std::ops::ControlFlow;

use rand::seq::SliceRandom;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rayon::prelude::*;

pub use super::recall_curve::{DepthCurve, QuestionSource, RecallCurve, RecallPoint};

use super::Index;
use super::active_model::ActiveModel;
use super::recall_curve::Tally;
use super::search::{MOST_EXACT_DOCUMENTS, Plan, SearchRequest};
use super::vectors::unit;
use super::with_progress::WithProgress;
use crate::document::Document;
use crate::error::{Error, InputError, Result};
use crate::ids::{LeafId, Row};
use crate::model::Role;
use crate::progress::{OnProgress, Progress, Stage, no_progress};
use crate::store::View;
use crate::tree::TreeShape;

/// Number of questions made from documents, unless there are fewer documents.
pub const DEFAULT_QUESTIONS: usize = 256;
/// Depths: how many hits of exact search are looked for, ascending.
const DEPTHS: [usize; 2] = [10, 100];
/// With fewer questions than this, a warning says that they are few.
pub const FEWEST_QUESTIONS: usize = 30;
/// Number of words of an untitled text that make a question.
const QUESTION_WORDS: usize = 12;
/// Questions measured between two progress reports.
const BLOCK: usize = 32;

/// A question as a vector, and the document it was made from.
struct Question {
    vector: Vec<f32>,
    own: Option<Row>,
}

/// What one question found with one beam.
struct BeamRecall {
    /// Share of exact search's hits, one for each of [`DEPTHS`].
    recall: [f64; DEPTHS.len()],
    /// Share of all documents.
    visited: f64,
}

impl Index {
    /// Measures how many leaves a search needs to find a given share of exact search's hits, and stores the
    /// result with the index, for searches by [`Reach::Recall`](crate::Reach::Recall).
    ///
    /// The closer `questions` are to real ones, the better. If empty: the newest [`DEFAULT_QUESTIONS`] logged
    /// or judged questions. If those are fewer than [`FEWEST_QUESTIONS`], questions are made from that many
    /// documents: their titles, or first words, each looking for the other documents.
    ///
    /// Costs an exact search for each question, plus encoding the questions. A change of model does this by
    /// itself if the index is so large that searches do not score every document. Repeat it when the
    /// collection has doubled; until then searches are exact.
    ///
    /// # Durability
    /// The curve is durable once this has returned.
    ///
    /// # Errors
    /// [`InputError::NoTree`]; [`InputError::NothingToCalibrate`] for an empty index;
    /// [`InputError::EmptyQuery`]; [`InputError::ChangeUnderWay`];
    /// [`StoreError::ReadOnly`](crate::store::StoreError::ReadOnly); failures of the encoder and of the disk,
    /// with the former curve in place.
    pub fn calibrate(&self, questions: &[String]) -> Result<RecallCurve> {
        self.with_progress(no_progress).calibrate(questions)
    }

    /// The curve by which this handle's searches choose their leaves; `None` if none was measured, or the
    /// collection has at least doubled or halved since.
    pub fn recall_curve(&self) -> Option<RecallCurve> {
        let serving = self.serving();
        serving.measured().recall.clone().filter(|curve| curve.holds_for(serving.view().live()))
    }

    /// Measures the model in service, which must not change in the meantime.
    fn calibrate_serving(
        &self,
        questions: &[String],
        on_progress: &mut OnProgress<'_>,
    ) -> Result<RecallCurve> {
        let serving = self.serving();
        // First, before the expensive work: whether the result can be stored.
        serving.check_measured(&*self.root.backend())?;
        let asked = match questions {
            [] => self.asked(DEFAULT_QUESTIONS)?,
            _ => Vec::new(),
        };
        let (source, questions) = match questions {
            [] if asked.len() >= FEWEST_QUESTIONS => (QuestionSource::Asked, &*asked),
            [] => (QuestionSource::Documents, &[][..]),
            given => (QuestionSource::Given, given),
        };
        let curve = serving.measure_recall(source, questions, on_progress)?;
        serving.measure(&*self.root.backend(), |measured| measured.recall = Some(curve.clone()))?;
        Ok(curve)
    }

    /// As [`Self::calibrate_serving`], if searches need it. A failure is logged, and searches stay exact.
    pub(super) fn calibrate_if_needed(&self, on_progress: &mut OnProgress<'_>) {
        if self.needs_calibration() {
            let measured = self.calibrate_serving(&[], on_progress);
            self.attempted(measured, "recall was not measured; searches are exact");
        }
    }

    /// Whether searches score every document only because [`Self::calibrate`] has not measured how many
    /// leaves they need.
    pub fn needs_calibration(&self) -> bool {
        self.bundle().has_tree() && self.embeddings() > MOST_EXACT_DOCUMENTS && self.recall_curve().is_none()
    }
}

impl<F: FnMut(Progress) -> ControlFlow<()>> WithProgress<'_, F> {
    /// As [`Index::calibrate`], with progress in questions and cancellation between them.
    ///
    /// # Errors
    /// Those of [`Index::calibrate`], and [`Error::Cancelled`].
    pub fn calibrate(mut self, questions: &[String]) -> Result<RecallCurve> {
        self.index.check_writable()?;
        let _only = self.index.alone()?;
        self.index.calibrate_serving(questions, &mut self.on_progress)
    }
}

impl ActiveModel {
    fn measure_recall(
        &self,
        source: QuestionSource,
        questions: &[String],
        on_progress: &mut OnProgress<'_>,
    ) -> Result<RecallCurve> {
        let view = self.view();
        let _span = tracing::debug_span!("calibrate", documents = view.live()).entered();
        if !self.bundle.has_tree() {
            return Err(InputError::NoTree.into());
        }
        let questions = match source {
            QuestionSource::Documents => self.questions_of_documents(&view)?,
            QuestionSource::Given | QuestionSource::Asked => self.embed_questions(questions, None)?,
        };
        // A single document has no other to look for.
        if questions.is_empty() || view.live() < 2 {
            return Err(InputError::NothingToCalibrate.into());
        }
        if questions.len() < FEWEST_QUESTIONS.min(view.live()) {
            tracing::warn!(questions = questions.len(), "so few questions say little about others");
        }
        let beams: Vec<NonZeroUsize> = beams(self.model().indexer.shape()).collect();
        let sizes = self.leaf_sizes(&view)?;
        let mut tallies = vec![<[Tally; DEPTHS.len()]>::default(); beams.len()];
        for (block, of_block) in questions.chunks(BLOCK).enumerate() {
            let found: Vec<Vec<BeamRecall>> = of_block
                .par_iter()
                .map(|question| self.recall_of(&view, question, &beams, &sizes))
                .collect::<Result<_>>()?;
            for of_question in found {
                for (tallies, BeamRecall { recall, visited }) in tallies.iter_mut().zip(of_question) {
                    tallies.iter_mut().zip(recall).for_each(|(tally, recall)| tally.add(recall, visited));
                }
            }
            let done = (block + 1) * BLOCK;
            Progress::new(Stage::Calibrate, done.min(questions.len()), questions.len())
                .tell(on_progress, Error::Cancelled)?;
        }
        let depths = DEPTHS.iter().enumerate().map(|(place, &depth)| {
            let points = tallies.iter().zip(&beams).map(|(tallies, beam)| tallies[place].point(beam.get()));
            DepthCurve { depth, points: points.collect() }
        });
        Ok(RecallCurve {
            generation: view.generation(),
            documents: view.live(),
            questions: questions.len(),
            source,
            depths: depths.collect(),
        })
    }

    /// Which of exact search's hits each beam finds for one question.
    fn recall_of(
        &self,
        view: &View,
        question: &Question,
        beams: &[NonZeroUsize],
        sizes: &[usize],
    ) -> Result<Vec<BeamRecall>> {
        let most = DEPTHS[DEPTHS.len() - 1];
        let depth = most + usize::from(question.own.is_some());
        let request = SearchRequest::dense().exact();
        let plan = Plan::new(NonZeroUsize::new(depth).unwrap_or(NonZeroUsize::MIN), &request);
        let ranked = self.rank(view, &question.vector, &plan)?;
        let mut hits = Vec::with_capacity(most);
        for &(_, row) in &ranked.rows {
            if hits.len() < most && question.own.is_none_or(|own| view.head(row).ok() != Some(own)) {
                hits.push(view.leaf_of(row)?);
            }
        }
        let unit = unit(&question.vector);
        let of_beam = |&beam: &NonZeroUsize| {
            let routing = self.model().indexer.route(&unit, beam, Role::Query);
            let reached: HashSet<LeafId> = routing.search.leaves.iter().map(|scored| scored.leaf).collect();
            let recall = DEPTHS.map(|depth| {
                let hits = &hits[..depth.min(hits.len())];
                let found = hits.iter().filter(|leaf| reached.contains(leaf));
                found.count() as f64 / hits.len().max(1) as f64
            });
            let visited: usize = reached.iter().filter_map(|leaf| sizes.get(leaf.index())).sum();
            BeamRecall { recall, visited: visited as f64 / view.live_rows() as f64 }
        };
        Ok(beams.iter().map(of_beam).collect())
    }

    /// Questions made from randomly drawn documents, the same ones for the same generation.
    fn questions_of_documents(&self, view: &View) -> Result<Vec<Question>> {
        let mut rng = ChaCha8Rng::seed_from_u64(view.generation().0);
        let mut rows: Vec<Row> = match view.rows() {
            // Most rows are live.
            rows if rows > 8 * DEFAULT_QUESTIONS => {
                let drawn = (0..8 * DEFAULT_QUESTIONS).map(|_| rng.random_range(0..rows));
                let drawn: HashSet<usize> = drawn.collect();
                drawn.into_iter().map(|row| Row(row as u32)).collect()
            }
            rows => (0..rows).map(|row| Row(row as u32)).collect(),
        };
        rows.retain(|&row| view.is_live(row));
        if rows.len() < DEFAULT_QUESTIONS.min(view.live()) {
            // Most rows are dead.
            rows = (0..view.rows()).map(|row| Row(row as u32)).filter(|&row| view.is_live(row)).collect();
        }
        rows.sort_unstable();
        rows.shuffle(&mut rng);
        rows.truncate(DEFAULT_QUESTIONS);
        let has_encoder = self.model().has_encoder();
        let (mut texts, mut own, mut questions) = (Vec::new(), Vec::new(), Vec::new());
        for row in rows {
            let text = if has_encoder { question_of(&view.passage(row)?) } else { None };
            match text {
                Some(text) => {
                    texts.push(text);
                    own.push(view.head(row)?);
                }
                // Without text, or without an encoder for it.
                None => {
                    questions.push(Question { vector: self.unit_row(view, row)?, own: Some(view.head(row)?) })
                }
            }
        }
        questions.extend(self.embed_questions(&texts, Some(&own))?);
        Ok(questions)
    }

    fn embed_questions(&self, texts: &[String], own: Option<&[Row]>) -> Result<Vec<Question>> {
        if texts.iter().any(|text| text.trim().is_empty()) {
            return Err(InputError::EmptyQuery.into());
        }
        if texts.is_empty() {
            return Ok(Vec::new());
        }
        let encoder = self.model().encoder()?;
        let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
        let rows = encoder.embed(&texts, Role::Query)?;
        let question =
            |(place, row): (usize, &[f32])| Question { vector: row.to_vec(), own: own.map(|own| own[place]) };
        Ok(rows.chunks_exact(encoder.dim()).enumerate().map(question).collect())
    }
}

/// A question that somebody looking for documents like this one might ask.
fn question_of(document: &Document) -> Option<String> {
    let title = document.title.trim();
    if !title.is_empty() {
        return Some(title.to_owned());
    }
    let words: Vec<&str> = document.text.split_whitespace().take(QUESTION_WORDS).collect();
    (!words.is_empty()).then(|| words.join(" "))
}

/// Beams to measure: two for each doubling, and all leaves.
fn beams(shape: TreeShape) -> impl Iterator<Item = NonZeroUsize> {
    let leaves = shape.leaves() as usize;
    let steps = (0..usize::BITS).flat_map(|power| [1usize << power, (1usize << power) + (1 << power) / 2]);
    let mut below: Vec<usize> = steps.take_while(|&beam| beam < leaves).collect();
    below.push(leaves);
    below.dedup();
    below.into_iter().filter_map(NonZeroUsize::new)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn questions_are_titles_or_first_words() {
        let question = |title: &str, text: &str| question_of(&Document::new("i", title, text));
        assert_eq!(question(" A title ", "text"), Some("A title".to_owned()));
        assert_eq!(question(" ", "a  b\nc"), Some("a b c".to_owned()));
        let long = (0..100).map(|n| n.to_string()).collect::<Vec<_>>().join(" ");
        assert_eq!(question("", &long).unwrap().split(' ').count(), QUESTION_WORDS);
        assert_eq!(question("", " "), None);
    }

    #[test]
    fn beams_rise_to_all_leaves() {
        let of = |branching, height| -> Vec<usize> {
            beams(TreeShape::new(branching, height).unwrap()).map(NonZeroUsize::get).collect()
        };
        assert_eq!(of(2, 1), [1, 2]);
        assert_eq!(of(4, 1), [1, 2, 3, 4]);
        assert_eq!(of(10, 2), [1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 100]);
    }
}
