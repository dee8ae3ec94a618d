//! A query encoder for the model of an index, made from the data in the index.

use std::ops::ControlFlow;

use rand::SeedableRng;
use rand::seq::index;
use rand_chacha::ChaCha8Rng;

use super::passages::best_rows;
use crate::document::Document;
use crate::error::Result;
use crate::ids::Row;
use crate::index::{ActiveModel, Index, WithProgress, by_question};
use crate::judgment::Judgment;
use crate::model::DistilReport;
use crate::progress::{OnProgress, Progress, no_progress};
use crate::store::View;
use crate::train::query_encoder::{Known, Question, among, check_encoder, distilled};
use crate::train::{DistilOptions, QueryEncoderChoice, TrainError, is_held_out};

/// Most documents of an index whose stored embeddings are used.
const MOST_DOCUMENTS: usize = 100_000;
/// Most logged questions to learn from.
const MOST_ASKED: usize = 20_000;

impl Index {
    /// Makes a query encoder for the model in service from the stored data and puts it into service,
    /// replacing an existing one. With [`QueryEncoderChoice::None`] an existing one is removed and `None` is
    /// returned.
    ///
    /// As [`distil`](crate::train::distil), from the stored embeddings, so that no document is encoded again:
    /// up to 100,000 documents, including those that answer held-out questions. It learns from judged
    /// questions ([`Self::record`]) and logged ones ([`Self::log_questions`]), of which a fifth is held out
    /// by a hash of their words to measure with, and from titles and sentences of the documents. Searches and
    /// writes continue meanwhile. The change is durable once this returns. A change to a model with another
    /// encoder replaces it with that model's query encoder, if any.
    ///
    /// # Errors
    /// Those of [`distil`](crate::train::distil);
    /// [`InputError::ChangeUnderWay`](crate::InputError::ChangeUnderWay).
    pub fn distil(&self, options: &DistilOptions) -> Result<Option<DistilReport>> {
        self.with_progress(no_progress).distil(options)
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
        // They may be judged later, and then measure this query encoder.
        asked.retain(|question| !is_held_out(question));
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
    /// Those of [`Index::distil`], and [`Error::Cancelled`](crate::Error::Cancelled).
    pub fn distil(mut self, options: &DistilOptions) -> Result<Option<DistilReport>> {
        let (index, on_progress) = self.parts();
        index.distil_alone(options, on_progress)
    }
}

/// Replaces the document of each answer with its best passage.
fn answered_by_passages(serving: &ActiveModel, view: &View, questions: &mut [Question<Row>]) -> Result<()> {
    let asked = questions.iter().flat_map(|own| own.positives.iter().map(|&row| (own.text.as_str(), row)));
    let mut best = best_rows(serving, view, &asked.collect::<Vec<_>>())?.into_iter();
    let rows = questions.iter_mut().flat_map(|own| &mut own.positives);
    rows.zip(best.by_ref()).for_each(|(row, best)| *row = best);
    Ok(())
}

/// Documents of an index with their embeddings, and questions by positions among them.
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
        let mut graded = Vec::new();
        for Judgment { question, id, grade, .. } in judgments {
            graded.extend(view.row_of(id)?.map(|row| (question.as_str(), row, *grade)));
        }
        let (mut train, mut held_out) = (Vec::new(), Vec::new());
        for (text, grades) in by_question(graded.into_iter()) {
            let positives: Vec<Row> =
                grades.into_iter().filter(|(_, grade)| *grade > 0).map(|own| own.0).collect();
            if positives.is_empty() {
                continue;
            }
            let into = if is_held_out(text) { &mut held_out } else { &mut train };
            into.push(Question { text: text.to_owned(), positives });
        }
        answered_by_passages(serving, view, &mut train)?;
        answered_by_passages(serving, view, &mut held_out)?;
        let live: Vec<Row> = (0..view.rows() as u32).map(Row).filter(|&row| view.is_live(row)).collect();
        let mut rng = ChaCha8Rng::seed_from_u64(options.seed);
        let drawn = index::sample(&mut rng, live.len(), MOST_DOCUMENTS.min(live.len()));
        let drawn = drawn.into_iter().map(|place| live[place]).collect();
        let (chosen, [train, held_out]) = among(drawn, train, held_out);
        let mut rows = Vec::with_capacity(chosen.len() * serving.model().dim());
        let mut documents = Vec::with_capacity(chosen.len());
        for &row in &chosen {
            rows.extend(serving.unit_row(view, row)?);
            documents.push(Document { metadata: None, ..view.passage(row)? });
        }
        Ok(Self { documents, rows, train, held_out })
    }
}
