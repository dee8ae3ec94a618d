//! The memory of a model in service: its judged questions with their vectors.

use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::sync::Arc;

use half::f16;
use rayon::prelude::*;
use sha2::{Digest, Sha256};

use super::active_model::ActiveModel;
use super::question_vectors::{QuestionKey, QuestionVectors};
use super::search::{Asked, Plan, QueryEncoder};
use super::{Index, unit};
use crate::disk::{Backend, FileSystem, names};
use crate::error::{Error, Result};
use crate::ids::ModelHash;
use crate::judgment::now;
use crate::memory::Memory;
use crate::progress::{OnProgress, Progress, Stage, no_progress};
use crate::scan::unit_to_store;
use crate::store::{Operation, Store, StoreError, View};

/// Questions encoded together.
const PER_BLOCK: usize = 64;

/// Vectors of questions, `[dim]` f16 of unit norm.
type Made<'q> = HashMap<&'q str, Vec<f16>>;

impl Index {
    /// Reads the judged questions into the memory of a model, unless that was done; with their vectors if
    /// near questions count.
    ///
    /// # Errors
    /// Failures of reading judgments.
    pub(crate) fn load_memory(&self, serving: &ActiveModel) -> Result<()> {
        self.load_memory_with(serving, &HashMap::new())
    }

    fn load_memory_with(&self, serving: &ActiveModel, made: &Made) -> Result<()> {
        serving.load_memory(|| self.judgments_for_reading())?;
        if !serving.near_questions_count() {
            return Ok(());
        }
        let backend = self.root.backend();
        let keep = (!self.is_read_only()).then_some(&*backend);
        serving.make_vectors(keep, made, &mut no_progress)
    }

    /// Drops the vectors of questions of which nothing is judged any more.
    pub(super) fn compact_memory(&self) -> Result<()> {
        let serving = self.serving();
        serving.memory.clear();
        self.load_memory(&serving)?;
        serving.compact_vectors(&*self.root.backend())
    }

    /// Adds to each question the documents that judgments of near questions name. If judgments or these
    /// documents cannot be read, the search goes on without them.
    pub(super) fn recall(
        &self,
        serving: &ActiveModel,
        view: &View,
        plan: &Plan<'_>,
        asked: &mut [Asked<'_>],
    ) {
        const WITHOUT: &str = "judgments do not count in this search";
        if plan.request.no_memory || serving.memory.with(Memory::is_empty) == Some(true) {
            return;
        }
        // Near questions are found by vectors.
        let loaded = match asked.iter().any(|asked| !asked.vector.is_empty()) {
            true => self.load_memory(serving),
            false => serving.load_memory(|| self.judgments_for_reading()),
        };
        if self.attempted(loaded, WITHOUT).is_none() {
            return;
        }
        let now = now();
        let recall = |asked: &mut Asked<'_>| {
            let recalled = serving.recall(view, asked, plan, now);
            asked.recalled = self.attempted(recalled, WITHOUT).unwrap_or_default();
        };
        match asked {
            // Without using the thread pool.
            [asked] => recall(asked),
            _ => asked.par_iter_mut().for_each(recall),
        }
    }

    /// Takes over judgments that were committed, or taken back, into the memory of the model in service.
    pub(super) fn remember<'a>(&self, store: &Store, changed: impl Iterator<Item = (&'a str, &'a str)>) {
        let followed = self.serving().memory.follow(store, changed);
        self.attempted(followed, "the judged questions will be read again");
    }

    /// Makes the vectors of new questions that are not `made` if near questions count, and learns the weights
    /// again if that is due.
    pub(super) fn judgments_changed(&self, made: &Made) {
        #[cfg(feature = "eval")]
        self.fit_if_due();
        let serving = self.serving();
        if serving.near_questions_count() {
            let loaded = self.load_memory_with(&serving, made);
            self.attempted(loaded, "some judged questions count only when asked again");
        }
    }
}

impl ActiveModel {
    /// Reads the judged questions, without their vectors, unless that was done.
    pub(super) fn load_memory(&self, open: impl FnOnce() -> Result<Option<Arc<Store>>>) -> Result<()> {
        if self.memory.is_loaded() { Ok(()) } else { self.memory.load(self.model().indexer.dim(), open) }
    }

    /// Whether judgments of near questions count, and not only those of the same question.
    fn near_questions_count(&self) -> bool {
        let encoders = [QueryEncoder::Full, QueryEncoder::Fast];
        encoders.into_iter().any(|encoder| self.memory_weights(Some(encoder)).weight > 0.0)
    }

    fn question_vectors(&self) -> QuestionVectors {
        QuestionVectors::new(self.bundle.hash(), self.model().indexer.dim())
    }

    /// Does `work` on another thread while this one encodes those questions that are not judged yet. Does
    /// only `work` if near questions do not count, or the questions are many.
    pub(super) fn encode_meanwhile<'q, T: Send>(
        &self,
        questions: impl Iterator<Item = &'q str>,
        work: impl FnOnce() -> T + Send,
    ) -> (T, Vec<(&'q str, Vec<f16>)>) {
        let new = |memory: &Memory| {
            let new = questions.filter(|question| !memory.is_judged(question));
            new.take(PER_BLOCK + 1).collect::<Vec<_>>()
        };
        let new = self.memory.with(new).unwrap_or_default();
        if new.is_empty() || new.len() > PER_BLOCK || !self.near_questions_count() {
            return (work(), Vec::new());
        }
        std::thread::scope(|scope| {
            let working = scope.spawn(work);
            let made = self.encode_judged(&new);
            (working.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)), made)
        })
    }

    /// Makes the vectors that the memory lacks: stored ones are read, others that are not `made` encoded, and
    /// stored for the next time if `keep` is given. A question that cannot be encoded is left without.
    ///
    /// # Errors
    /// [`Error::Cancelled`].
    pub(super) fn make_vectors(
        &self,
        keep: Option<&dyn Backend>,
        made: &Made,
        on_progress: &mut OnProgress<'_>,
    ) -> Result<()> {
        let needs = |memory: &Memory| {
            memory.needs_vectors().then(|| (memory.without_vectors(), memory.has_vectors()))
        };
        let Some(((missing, changes), has_vectors)) = self.memory.with(needs).flatten() else {
            return Ok(());
        };
        let (file, dir) = (self.question_vectors(), self.store.path());
        let mut stored = HashMap::new();
        if !has_vectors {
            stored = file.read(keep.unwrap_or(&FileSystem), dir);
        }
        let known: Vec<(&str, &Vec<f16>)> =
            missing.iter().filter_map(|text| Some((&**text, stored.get(&key(text))?))).collect();
        self.memory.change(|memory| memory.set_vectors(known.iter().map(|(text, own)| (*text, &own[..]))));
        let missing: Vec<&str> =
            missing.iter().map(|text| &**text).filter(|text| !stored.contains_key(&key(text))).collect();
        let mut done = 0;
        for block in missing.chunks(PER_BLOCK) {
            let (known, new): (Vec<_>, Vec<_>) = block.iter().partition(|&text| made.contains_key(text));
            let known = known.into_iter().map(|text| (text, made[text].clone()));
            let made: Vec<_> = known.chain(self.encode_judged(&new)).collect();
            if let Some(backend) = keep
                && let Some(_file) = self.memory.file()
            {
                // Some may have been forgotten meanwhile.
                let is_judged = |text: &str| self.memory.with(|memory| memory.is_judged(text)) == Some(true);
                let made = made.iter().filter(|(text, _)| is_judged(text));
                let made: Vec<_> = made.map(|(text, vector)| (key(text), &vector[..])).collect();
                if let Err(error) = file.append(backend, dir, &made) {
                    let path = dir.display();
                    tracing::warn!(%path, %error, "vectors of judged questions are not stored");
                }
            }
            self.memory.change(|memory| memory.set_vectors(made.iter().map(|(text, own)| (*text, &own[..]))));
            done += block.len();
            Progress::new(Stage::Questions, done, missing.len()).tell(on_progress, Error::Cancelled)?;
        }
        self.memory.change(|memory| memory.note_made(changes));
        Ok(())
    }

    /// Judged questions with their vectors, `[dim]` f16 of unit norm; without those that cannot be encoded.
    fn encode_judged<'q>(&self, questions: &[&'q str]) -> Vec<(&'q str, Vec<f16>)> {
        // Without an encoder, each counts only when it is asked again.
        if questions.is_empty() || !self.model().has_encoder() {
            return Vec::new();
        }
        let encode = |questions: &[&'q str]| -> Result<Vec<(&'q str, Vec<f16>)>> {
            let texts: Vec<_> = questions.iter().map(|&text| text.into()).collect();
            let rows = self.encode_questions(&texts, Some(QueryEncoder::Full))?.into_iter();
            let rows = rows.map(|(row, _)| unit_to_store(&unit(&row)));
            Ok(questions.iter().copied().zip(rows).collect())
        };
        let one = |question: &&'q str| {
            let path = self.store.path().display();
            encode(&[question])
                .inspect_err(|error| {
                    tracing::warn!(%path, %error, "a judged question cannot be encoded; it counts only when it is asked again");
                })
                .unwrap_or_default()
        };
        encode(questions).unwrap_or_else(|_| questions.iter().flat_map(one).collect())
    }

    /// Rewrites the file of vectors with those of judged questions only.
    fn compact_vectors(&self, backend: &dyn Backend) -> Result<()> {
        let keys = |memory: &Memory| memory.texts().map(key).collect::<HashSet<_>>();
        let Some(judged) = self.memory.with(keys) else { return Ok(()) };
        let Some(_file) = self.memory.file() else { return Ok(()) };
        let (file, dir) = (self.question_vectors(), self.store.path());
        let mut stored = file.read(backend, dir);
        stored.retain(|key, _| judged.contains(key));
        let path = dir.join(names::MEMORY);
        Ok(file.replace(backend, dir, &stored).map_err(StoreError::io(&path, Operation::Write))?)
    }

    /// Copies the vectors to the directory of a model with the same encoder.
    pub(super) fn copy_vectors(&self, backend: &dyn Backend, target: &Path, to: ModelHash) -> Result<()> {
        let stored = self.question_vectors().read(backend, self.store.path());
        let (file, path) = (QuestionVectors::new(to, self.model().indexer.dim()), target.join(names::MEMORY));
        Ok(file.replace(backend, target, &stored).map_err(StoreError::io(&path, Operation::Write))?)
    }
}

fn key(question: &str) -> QuestionKey {
    let digest: [u8; 32] = Sha256::digest(question).into();
    let mut key = QuestionKey::default();
    let bytes = key.len();
    key.copy_from_slice(&digest[..bytes]);
    key
}
