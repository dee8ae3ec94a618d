//! The memory of a model in service: its judged questions with their vectors.

use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::sync::PoisonError;

use half::f16;
use sha2::{Digest, Sha256};

use super::active_model::ActiveModel;
use super::begun::remove_if_file;
use super::question_vectors::{QuestionKey, QuestionVectors};
use super::search::{Asked, Plan, QueryEncoder};
use super::{Index, unit};
use crate::disk::{Backend, FileSystem, names};
use crate::error::Result;
use crate::judgment::{Judgment, plain};
use crate::memory::Memory;
use crate::scan::unit_to_store;
use crate::store::{Operation, StoreError, View};

/// Questions encoded together.
const PER_BLOCK: usize = 64;

impl Index {
    /// Reads the judged questions into the memory of a model, unless it has them.
    ///
    /// # Errors
    /// Failures of reading judgments and of the encoder.
    pub(crate) fn load_memory(&self, serving: &ActiveModel) -> Result<()> {
        if serving.memory.read().unwrap_or_else(PoisonError::into_inner).is_some() {
            return Ok(());
        }
        // Held while judgments are read: one that is recorded in the meantime is added afterwards.
        let mut memory = serving.memory.write().unwrap_or_else(PoisonError::into_inner);
        if memory.is_none() {
            let backend = self.root.backend();
            let keep = (!self.is_read_only()).then_some(&*backend);
            *memory = Some(serving.memory_of(&self.judgments()?, keep)?);
        }
        Ok(())
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
        if let Err(error) = self.load_memory(serving) {
            tracing::warn!(index = %self.path().display(), %error, "judgments do not count in this search");
            return Ok(());
        }
        for asked in asked {
            asked.recalled = serving.recall(view, asked, plan)?;
        }
        Ok(())
    }

    /// Adds recorded judgments to the memory of the model in service.
    pub(super) fn remember(&self, judgments: &[Judgment]) {
        let serving = self.serving();
        let add = |memory: &mut Memory| serving.add_to(memory, judgments, Some(&*self.root.backend()));
        // Released before the judgments are read.
        let added = serving.memory.write().unwrap_or_else(PoisonError::into_inner).as_mut().map(add);
        if let Err(error) = added.unwrap_or_else(|| self.load_memory(&serving)) {
            tracing::warn!(index = %self.path().display(), %error, "the judged questions will be read again");
            serving.forget_memory();
        }
    }
}

impl ActiveModel {
    /// Has the judgments read again by the next search.
    pub(super) fn forget_memory(&self) {
        *self.memory.write().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// Writes the vectors of the judged questions, and no others, to a model's directory: this one's or that
    /// of a copy. Without them, they are made again.
    pub(super) fn write_memory(&self, backend: &dyn Backend, dir: &Path) -> Result<()> {
        let memory = self.memory.read().unwrap_or_else(PoisonError::into_inner);
        let vectors = memory.iter().flat_map(Memory::vectors);
        let vectors: Vec<_> = vectors.map(|(question, vector)| (key(question), vector.to_vec())).collect();
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
    pub(crate) fn memory_of(&self, judgments: &[Judgment], keep: Option<&dyn Backend>) -> Result<Memory> {
        let mut memory = Memory::new(self.model().indexer.dim());
        self.add_to(&mut memory, judgments, keep)?;
        Ok(memory)
    }

    fn add_to(&self, memory: &mut Memory, judgments: &[Judgment], keep: Option<&dyn Backend>) -> Result<()> {
        let mut seen = HashSet::new();
        let is_new = |question: &&str| !memory.contains(question) && seen.insert(plain(question));
        let new: Vec<&str> = judgments.iter().map(|own| own.question.as_str()).filter(is_new).collect();
        let file = self.question_vectors();
        let backend = keep.unwrap_or(&FileSystem);
        // A single new question is not in the file.
        let stored = if new.len() > 1 { file.read(backend, self.store.path()) } else { HashMap::new() };
        for block in new.chunks(PER_BLOCK) {
            let missing: Vec<&str> =
                block.iter().filter(|question| !stored.contains_key(&key(question))).copied().collect();
            let texts: Vec<_> = missing.iter().map(|&text| text.into()).collect();
            let encoded = self.encode_questions(&texts, Some(QueryEncoder::Full))?;
            let encoded = missing
                .iter()
                .zip(encoded)
                .map(|(question, (row, _))| (key(question), unit_to_store(&unit(&row))));
            let encoded: Vec<_> = encoded.collect();
            if keep.is_some()
                && let Err(error) = file.append(backend, self.store.path(), &encoded)
            {
                tracing::warn!(path = %self.store.path().display(), %error, "vectors of judged questions are not kept; they are made again when the index is opened");
            }
            let made: HashMap<_, _> = encoded.into_iter().collect();
            let vectors =
                block.iter().filter_map(|question| stored.get(&key(question)).or(made.get(&key(question))));
            memory.add_questions(block, &vectors.flatten().copied().collect::<Vec<f16>>());
        }
        judgments.iter().for_each(|judgment| memory.judge(judgment));
        Ok(())
    }
}

fn key(question: &str) -> QuestionKey {
    let digest: [u8; 32] = Sha256::digest(question).into();
    let mut key = QuestionKey::default();
    let bytes = key.len();
    key.copy_from_slice(&digest[..bytes]);
    key
}
