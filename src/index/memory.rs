//! The memory of a model in service: its judged questions with their vectors.

use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::sync::PoisonError;
use std::time::Duration;

use half::f16;
use sha2::{Digest, Sha256};

use super::active_model::ActiveModel;
use super::begun::remove_if_file;
use super::question_vectors::{QuestionKey, QuestionVectors};
use super::search::{Asked, Plan, QueryEncoder};
use super::shared_memory::Loaded;
use super::{Index, unit};
use crate::disk::{Backend, FileSystem, names};
use crate::error::Result;
use crate::judgment::{Judgment, now, plain};
use crate::memory::Memory;
use crate::scan::unit_to_store;
use crate::store::{Operation, StoreError, View};

/// Questions encoded together.
const PER_BLOCK: usize = 64;

/// How often judgments are read again if others are recorded in the meantime.
const LOAD_ATTEMPTS: usize = 8;

impl Index {
    /// Reads the judged questions into the memory of a model, unless it has them.
    ///
    /// # Errors
    /// Failures of reading judgments and of the encoder.
    pub(crate) fn load_memory(&self, serving: &ActiveModel) -> Result<()> {
        let backend = self.root.backend();
        let keep = (!self.is_read_only()).then_some(&*backend);
        for attempt in 0..LOAD_ATTEMPTS {
            let changes = match &*serving.memory.read() {
                Loaded { memory: Some(_), .. } => return Ok(()),
                Loaded { changes, .. } => *changes,
            };
            let memory = serving.memory_of(&self.judgments()?, self.half_life()?, keep)?;
            let mut loaded = serving.memory.write();
            // At last even if others are being recorded: those count after the next load.
            if loaded.memory.is_none() && (loaded.changes == changes || attempt + 1 == LOAD_ATTEMPTS) {
                loaded.memory = Some(memory);
            }
        }
        Ok(())
    }

    /// Drops the questions of which nothing is judged any more, and their vectors.
    pub(super) fn compact_memory(&self) -> Result<()> {
        let serving = self.serving();
        serving.memory.clear();
        self.load_memory(&serving)?;
        serving.write_memory(&*self.root.backend(), serving.store.path())
    }

    /// Adds to each question the documents that judgments of near questions name. If the judgments cannot be
    /// read, the search goes on without them.
    pub(super) fn recall(
        &self,
        serving: &ActiveModel,
        view: &View,
        plan: &Plan<'_>,
        asked: &mut [Asked<'_>],
    ) -> Result<()> {
        if plan.request.no_memory {
            return Ok(());
        }
        if self.attempted(self.load_memory(serving), "judgments do not count in this search").is_none() {
            return Ok(());
        }
        let now = now();
        for asked in asked {
            asked.recalled = serving.recall(view, asked, plan, now)?;
        }
        Ok(())
    }

    /// Adds recorded judgments to the memory of the model in service.
    pub(super) fn remember(&self, judgments: &[Judgment]) {
        let serving = self.serving();
        let remembered = self.try_to_remember(&serving, judgments);
        if self.attempted(remembered, "the judged questions will be read again").is_none() {
            serving.memory.clear();
        }
    }

    fn try_to_remember(&self, serving: &ActiveModel, judgments: &[Judgment]) -> Result<()> {
        let new = match &serving.memory.read().memory {
            Some(memory) => new_questions(memory, judgments),
            None => Vec::new(),
        };
        let vectors = serving.vectors_of(&new, HashMap::new(), Some(&*self.root.backend()))?;
        let mut loaded = serving.memory.write();
        if let Some(memory) = &mut loaded.memory {
            memory.add_questions(&new, &vectors);
        }
        match &mut loaded.memory {
            // It was loaded before these were recorded, but after the new ones were looked for.
            Some(memory) if !new_questions(memory, judgments).is_empty() => loaded.clear(),
            Some(memory) => judgments.iter().for_each(|judgment| memory.judge(judgment)),
            None => loaded.changes += 1,
        }
        drop(loaded);
        // So that the vectors are stored.
        self.load_memory(serving)
    }
}

/// The judged questions that a memory lacks, each once.
fn new_questions<'a>(memory: &Memory, judgments: &'a [Judgment]) -> Vec<&'a str> {
    let mut seen = HashSet::new();
    let is_new = |question: &&str| !memory.contains(question) && seen.insert(plain(question));
    judgments.iter().map(|own| own.question.as_str()).filter(is_new).collect()
}

impl ActiveModel {
    /// Writes the vectors of the judged questions, and no others, to a model's directory: this one's or that
    /// of a copy. Without them, they are made again.
    pub(super) fn write_memory(&self, backend: &dyn Backend, dir: &Path) -> Result<()> {
        let _file = self.memory.file.lock().unwrap_or_else(PoisonError::into_inner);
        let vectors: Vec<_> = match &self.memory.read().memory {
            Some(memory) => memory.vectors().map(|(text, vector)| (key(text), vector.to_vec())).collect(),
            None => return Ok(()),
        };
        let path = dir.join(names::MEMORY);
        remove_if_file(backend, &path)?;
        let written = self.question_vectors().append(backend, dir, &vectors);
        Ok(written.map_err(StoreError::io(&path, Operation::Write))?)
    }

    fn question_vectors(&self) -> QuestionVectors {
        QuestionVectors::new(self.bundle.hash(), self.model().indexer.dim())
    }

    /// A memory of judgments. Vectors that are not stored yet are stored for the next time if `keep` is
    /// given.
    ///
    /// # Errors
    /// Those of the encoder.
    pub(crate) fn memory_of(
        &self,
        judgments: &[Judgment],
        half_life: Option<Duration>,
        keep: Option<&dyn Backend>,
    ) -> Result<Memory> {
        let mut memory = Memory::new(self.model().indexer.dim(), half_life);
        let questions = new_questions(&memory, judgments);
        let stored = match questions[..] {
            [] => HashMap::new(),
            _ => self.question_vectors().read(keep.unwrap_or(&FileSystem), self.store.path()),
        };
        memory.add_questions(&questions, &self.vectors_of(&questions, stored, keep)?);
        judgments.iter().for_each(|judgment| memory.judge(judgment));
        Ok(memory)
    }

    /// The vectors of questions, `[n, dim]` f16 of unit norm: those in `known`, or new ones, which are then
    /// stored if `keep` is given.
    fn vectors_of(
        &self,
        questions: &[&str],
        mut known: HashMap<QuestionKey, Vec<f16>>,
        keep: Option<&dyn Backend>,
    ) -> Result<Vec<f16>> {
        let (file, dir) = (self.question_vectors(), self.store.path());
        let missing: Vec<&str> =
            questions.iter().filter(|question| !known.contains_key(&key(question))).copied().collect();
        for block in missing.chunks(PER_BLOCK) {
            let texts: Vec<_> = block.iter().map(|&text| text.into()).collect();
            let rows = self.encode_questions(&texts, Some(QueryEncoder::Full))?.into_iter();
            let rows = rows.map(|(row, _)| unit_to_store(&unit(&row)));
            let made: Vec<_> = block.iter().map(|question| key(question)).zip(rows).collect();
            if let Some(backend) = keep {
                let _file = self.memory.file.lock().unwrap_or_else(PoisonError::into_inner);
                if let Err(error) = file.append(backend, dir, &made) {
                    let path = dir.display();
                    tracing::warn!(%path, %error, "vectors of judged questions are not stored");
                }
            }
            known.extend(made);
        }
        Ok(questions.iter().filter_map(|question| known.get(&key(question))).flatten().copied().collect())
    }
}

fn key(question: &str) -> QuestionKey {
    let digest: [u8; 32] = Sha256::digest(question).into();
    let mut key = QuestionKey::default();
    let bytes = key.len();
    key.copy_from_slice(&digest[..bytes]);
    key
}
