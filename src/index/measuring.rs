//! What was measured of the model in service: how it is read, changed and used.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::{Arc, PoisonError};

use super::Index;
use super::active_model::ActiveModel;
use super::fusion::{KeptFusion, LearnedFusion, LearnedMemory};
use super::measured::{self, Content, Measurements, Unusable, WITHOUT};
use super::root::model_prefix;
use super::search::{DEFAULT_ALPHA, QueryEncoder};
use crate::disk::{Backend, Kind, names};
use crate::error::Error;
use crate::memory::MemoryWeights;
use crate::model::EncoderPrecision;
use crate::store::{EncodedBy, Notice, Operation, StoreError};

impl ActiveModel {
    /// What was measured.
    pub(super) fn measured(&self) -> Arc<Measurements> {
        Arc::clone(&self.measured.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Replaces what was measured, in memory only.
    pub(super) fn set_measured(&self, measured: Measurements) {
        *self.measured.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(measured);
    }

    /// Changes what was measured; durable once this has returned.
    pub(super) fn measure(
        &self,
        backend: &dyn Backend,
        change: impl FnOnce(&mut Measurements),
    ) -> Result<(), StoreError> {
        let _only = self.measuring.lock().unwrap_or_else(PoisonError::into_inner);
        let mut measured = Measurements::clone(&self.measured());
        change(&mut measured);
        self.write_measured(backend, self.store.path(), &measured)?;
        self.set_measured(measured);
        Ok(())
    }

    /// Writes a file for the model in `dir`: this one, or a copy of it.
    pub(super) fn write_measured(
        &self,
        backend: &dyn Backend,
        dir: &Path,
        measured: &Measurements,
    ) -> Result<(), StoreError> {
        let content = Content { of: self.origin(), measured: measured.clone() };
        let written = measured::replace(backend, dir, &content);
        if written.is_err() {
            // The temporary file; if it cannot be removed, the next writer removes it.
            let _ = backend.remove(&dir.join(names::MEASURED_NEW));
        }
        written
    }

    /// Reads the file; one that cannot be used is treated as missing. Returns the finding about it.
    pub(super) fn read_measured(&self, backend: &dyn Backend) -> Option<Notice> {
        self.take_measured(measured::read(backend, self.store.path()))
    }

    /// The same with the file's content.
    pub(super) fn take_measured(&self, read: Result<Option<Content>, Unusable>) -> Option<Notice> {
        let read = self.own_measurements(read);
        let notice = self.notice_of(&read);
        self.set_measured(read.ok().flatten().unwrap_or_default());
        notice
    }

    /// Refuses anything but a file in its place, before the work of measuring.
    pub(super) fn check_measured(&self, backend: &dyn Backend) -> Result<(), StoreError> {
        let path = self.store.path().join(names::MEASURED);
        match backend.kind(&path).map_err(StoreError::io(&path, Operation::Read))? {
            None | Some(Kind::File) => Ok(()),
            Some(_) => Err(StoreError::InTheWay { path }),
        }
    }

    /// The finding about the file: that it is missing or cannot be used.
    pub(super) fn unmeasured(&self, backend: &dyn Backend) -> Option<Notice> {
        self.notice_of(&self.own_measurements(measured::read(backend, self.store.path())))
    }

    fn notice_of(&self, read: &Result<Option<Measurements>, Unusable>) -> Option<Notice> {
        let why = match read {
            Ok(None) if self.view().rows() > 0 => "is missing".to_owned(),
            Ok(_) => return None,
            Err(why) => why.to_string(),
        };
        let file = format!("{}{}", model_prefix(self.number), names::MEASURED);
        Some(Notice::Unmeasured { file, why, without: WITHOUT })
    }

    /// `None` if the file is missing.
    fn own_measurements(
        &self,
        read: Result<Option<Content>, Unusable>,
    ) -> Result<Option<Measurements>, Unusable> {
        let Some(Content { of, measured }) = read? else { return Ok(None) };
        if of != self.origin() {
            return Err(Unusable::Foreign);
        }
        let leaves = self.model().indexer.shape().leaves() as usize;
        if measured.is_sane(leaves) { Ok(Some(measured)) } else { Err(Unusable::Damaged) }
    }

    /// The model and the store that measurements refer to.
    fn origin(&self) -> (String, String) {
        (self.bundle.hash().to_string(), self.store.id())
    }

    /// What made the embeddings of the store.
    pub(super) fn encoded_by(&self) -> BTreeSet<EncodedBy> {
        match self.measured().encoded_by.clone() {
            // The file is missing or cannot be used.
            none if none.is_empty() && self.view().rows() > 0 => BTreeSet::from([EncodedBy::Unknown]),
            by => by,
        }
    }

    /// The kinds of embeddings that its encoder makes.
    pub(super) fn encodes(&self) -> BTreeSet<EncodedBy> {
        BTreeSet::from([match self.precision() {
            Some(EncoderPrecision::F32) => EncodedBy::F32,
            Some(EncoderPrecision::Int8) => EncodedBy::Int8,
            None => EncodedBy::Given,
        }])
    }

    /// Records what is about to make embeddings of the store.
    pub(super) fn note_encoded(
        &self,
        backend: &dyn Backend,
        more: &BTreeSet<EncodedBy>,
    ) -> Result<(), Error> {
        if self.measured().encoded_by.is_superset(more) {
            return Ok(());
        }
        let (mut before, mut all) = (BTreeSet::new(), BTreeSet::new());
        self.measure(backend, |measured| {
            before = self.encoded_by();
            all = before.union(more).copied().collect();
            measured.encoded_by.clone_from(&all);
        })?;
        let (own, other) = match self.measured().precision {
            Some(EncoderPrecision::Int8) => (EncodedBy::Int8, EncodedBy::F32),
            _ => (EncodedBy::F32, EncodedBy::Int8),
        };
        if all.contains(&other) && !before.contains(&other) {
            tracing::warn!(
                path = %self.store.path().display(),
                "its texts are encoded in {own} and some in {other} now: scores of the same text in two precisions \
                 differ by up to about 0.01; export the documents and insert them into a new index to have one"
            );
        }
        Ok(())
    }

    /// What was learned, with the fast encoder's weights if they belong to the current one.
    pub(super) fn fusion(&self) -> Option<LearnedFusion> {
        let mut kept = self.measured().fusion.clone()?;
        if !self.has_query_encoder(kept.query_encoder.as_deref()) {
            kept.fusion.fast = None;
        }
        Some(kept.fusion)
    }

    #[cfg(feature = "eval")]
    fn to_keep(&self, fusion: LearnedFusion) -> KeptFusion {
        KeptFusion { fusion, query_encoder: self.query_encoder_sum() }
    }

    /// The checksum of the query encoder.
    #[cfg(feature = "eval")]
    pub(super) fn query_encoder_sum(&self) -> Option<String> {
        self.bundle().fast().map(|fast| fast.entry().sha256.clone())
    }

    /// What was learned for a model that is not yet in service; it is kept with the model.
    #[cfg(feature = "train")]
    pub(crate) fn put_learned_fusion(&self, fusion: LearnedFusion) {
        let fusion = Some(self.to_keep(fusion));
        self.set_measured(Measurements { fusion, ..Measurements::clone(&self.measured()) });
    }

    /// Whether the query encoder is the one with this checksum.
    fn has_query_encoder(&self, sum: Option<&str>) -> bool {
        self.bundle.fast().is_some_and(|fast| sum == Some(&fast.entry().sha256))
    }

    /// Weight of the dense score in a hybrid search, by the encoder that gave the embedding; `None`: the
    /// default encoder.
    pub(crate) fn alpha(&self, encoder: Option<QueryEncoder>) -> f64 {
        self.learned(encoder, |fusion| fusion.alpha).unwrap_or(DEFAULT_ALPHA)
    }

    /// Whether searches should use words: until it is learned that they do not help.
    pub(crate) fn words_help(&self, encoder: Option<QueryEncoder>) -> bool {
        self.learned(encoder, |fusion| fusion.words_help).unwrap_or(true)
    }

    /// How much judgments of near questions count.
    pub(crate) fn memory_weights(&self, encoder: Option<QueryEncoder>) -> MemoryWeights {
        let weights = |own: &LearnedMemory| MemoryWeights { weight: own.weight, power: own.power };
        self.learned(encoder, |fusion| fusion.memory.as_ref().map(weights)).flatten().unwrap_or_default()
    }

    /// A value learned for an encoder; for the fast one, falls back to the full one's.
    fn learned<T>(&self, encoder: Option<QueryEncoder>, of: impl Fn(&LearnedFusion) -> T) -> Option<T> {
        let measured = self.measured();
        let KeptFusion { fusion: full, query_encoder } = measured.fusion.as_ref()?;
        let for_fast = || full.fast.as_deref().filter(|_| self.has_query_encoder(query_encoder.as_deref()));
        Some(match encoder.unwrap_or_else(|| self.default_encoder()) {
            QueryEncoder::Fast => of(for_fast().unwrap_or(full)),
            QueryEncoder::Full => of(full),
        })
    }
}

impl ActiveModel {
    /// Stores what was learned; durable once this has returned.
    #[cfg(feature = "eval")]
    pub(super) fn set_fusion(&self, backend: &dyn Backend, fusion: LearnedFusion) -> Result<(), Error> {
        let kept = self.to_keep(fusion);
        Ok(self.measure(backend, |measured| measured.fusion = Some(kept))?)
    }
}

impl Index {
    /// How this index combines scores by embeddings and by words; `None` before [`Index::fuse`].
    pub fn fusion(&self) -> Option<LearnedFusion> {
        self.serving().fusion()
    }

    /// Refuses a file that the result could not replace.
    #[cfg(feature = "eval")]
    pub(crate) fn check_fusion(&self, serving: &ActiveModel) -> Result<(), Error> {
        Ok(serving.check_measured(&*self.root.backend())?)
    }
}
