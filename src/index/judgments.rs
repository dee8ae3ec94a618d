//! Relevance judgments: which documents answer which questions.
//!
//! Judgments are stored in a separate store, in `judgments` next to the models: they outlive every change of
//! model, and are as durable as documents.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use serde::Serialize;
#[cfg(feature = "train")]
use serde_json::Value;
use serde_json::json;

use super::Index;
use super::active_model::without_manifest;
use super::judgment_store::{HALF_LIFE, all_judgments, half_life_of, judgment_of, key, placed, put, within};
#[cfg(feature = "train")]
use super::judgment_store::{LEARNED, learned_from};
use super::root::kind;
use crate::disk::{Backend, Kind, names};
use crate::document::Document;
use crate::error::{InputError, Result};
use crate::ids::ModelHash;
use crate::judgment::Judgment;
use crate::scan::Similarity;
use crate::store::{Damage, Notice, Store, StoreConfig, StoreError, WriteBatch, check_document};

/// Judgments stored in one commit.
const PER_COMMIT: usize = 4_096;
/// The result of [`Index::record_all`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Recorded {
    /// Judgments that are new.
    pub added: usize,
    /// Judgments that replaced one.
    pub replaced: usize,
    /// Judgments not stored, because a later one of the same call has the same question and document.
    pub repeated: usize,
    /// How many of those stored refer to a document that the index does not hold now.
    pub without_document: usize,
}

impl Index {
    /// Records that a document answers a question (grade 1 or more), or does not (0 or less), for
    /// [`Self::learn`](Self#method.learn); returns whether there was no judgment of the pair before.
    ///
    /// The document need not exist: its judgment is kept, and counts once it does.
    ///
    /// # Durability
    /// As [`Self::insert`].
    ///
    /// # Errors
    /// Those of [`InputError::EmptyQuery`](crate::InputError::EmptyQuery),
    /// [`InputError::InvalidId`](crate::InputError::InvalidId),
    /// [`InputError::OutOfRange`](crate::InputError::OutOfRange), also for a time more than a day ahead,
    /// [`InputError::DocumentTooLarge`](crate::InputError::DocumentTooLarge) for a question longer than any
    /// document; failures of the disk.
    pub fn record(&self, question: &str, id: &str, grade: i32) -> Result<bool> {
        Ok(self.record_all([Judgment::new(question, id, grade)])?.added == 1)
    }

    /// Records judgments: all of them, or none if one cannot be stored. Of several of the same question and
    /// document, the last is stored.
    ///
    /// # Durability
    /// As [`Self::insert`]. Many judgments take several commits, of which a crash may leave only the first
    /// ones.
    ///
    /// # Errors
    /// Those of [`Self::record`].
    pub fn record_all(&self, judgments: impl IntoIterator<Item = Judgment>) -> Result<Recorded> {
        self.check_writable()?;
        let mut judgments: Vec<Judgment> = judgments.into_iter().collect();
        judgments.iter().try_for_each(check_judgment)?;
        let mut recorded = Recorded::default();
        if judgments.is_empty() {
            return Ok(recorded);
        }
        let store = self.judgments_for_writing()?;
        let encoding = self.serving();
        let view = encoding.view();
        let (given, mut later) = (judgments.len(), HashSet::new());
        judgments.reverse();
        judgments.retain(|own| later.insert((own.question.clone(), own.id.clone())));
        judgments.reverse();
        recorded.repeated = given - judgments.len();
        let mut vectors = HashMap::new();
        for group in judgments.chunks_mut(PER_COMMIT) {
            for judgment in &mut *group {
                match view.row_of(&judgment.id)? {
                    None => recorded.without_document += 1,
                    Some(row) if judgment.text.is_none() => judgment.text = Some(view.text_checksum(row)?),
                    Some(_) => {}
                }
            }
            let puts = group.iter().map(put).collect::<Result<_>>()?;
            let commit = || within(store.commit(WriteBatch { puts, deletes: Vec::new() }));
            let questions = group.iter().map(|judgment| &*judgment.question);
            let (committed, made) = encoding.encode_meanwhile(questions, commit);
            let committed = committed?;
            let replaced = committed.replaced.iter().filter(|replaced| **replaced).count();
            recorded.replaced += replaced;
            recorded.added += committed.replaced.len() - replaced;
            self.remember(&store, group.iter().map(|judgment| (&*judgment.question, &*judgment.id)));
            vectors.extend(made);
        }
        // Another model may be in service by now.
        let is_current = Arc::ptr_eq(&encoding, &self.serving());
        self.judgments_changed(&if is_current { vectors } else { HashMap::new() });
        Ok(recorded)
    }

    /// All judgments, ordered by question and id. They are read into memory.
    ///
    /// A read-only handle shows those that were flushed.
    ///
    /// # Errors
    /// Failures of reading.
    pub fn judgments(&self) -> Result<Vec<Judgment>> {
        self.judgments_for_reading()?.map_or(Ok(Vec::new()), |store| all_judgments(&store))
    }

    /// The judgments of a question for these document ids, one entry per id; nothing else is read.
    ///
    /// A read-only handle shows those that were flushed.
    ///
    /// # Errors
    /// Failures of reading.
    pub fn judgments_of(
        &self,
        question: &str,
        ids: impl IntoIterator<Item: AsRef<str>>,
    ) -> Result<Vec<Option<Judgment>>> {
        let ids = ids.into_iter();
        let Some(store) = self.judgments_for_reading()? else { return Ok(ids.map(|_| None).collect()) };
        let view = store.read();
        ids.map(|id| judgment_of(&view, question, id.as_ref())).collect()
    }

    /// Removes judgments, each named by its question and its document's id; returns how many existed. Their
    /// bytes stay in the files until [`Self::compact`].
    ///
    /// # Durability
    /// As [`Self::delete`].
    ///
    /// # Errors
    /// Failures of the disk.
    pub fn forget<'a>(&self, judgments: impl IntoIterator<Item = (&'a str, &'a str)>) -> Result<usize> {
        self.check_writable()?;
        let judgments: Vec<(&str, &str)> = judgments.into_iter().collect();
        if judgments.is_empty() || !self.has_judgments()? {
            return Ok(0);
        }
        let deletes = judgments.iter().map(|(question, id)| key(question, id)).collect();
        let store = self.judgments_for_writing()?;
        let deleted = within(store.commit(WriteBatch { puts: Vec::new(), deletes }))?.deleted;
        self.remember(&store, judgments.into_iter());
        self.judgments_changed(&HashMap::new());
        Ok(deleted)
    }

    /// Removes the judgments that meet a condition, such as those of a question or those made before some
    /// time; returns their number. It reads all judgments. See [`Self::forget`].
    ///
    /// # Errors
    /// Failures of reading and of the disk.
    pub fn forget_where(&self, mut is_meant: impl FnMut(&Judgment) -> bool) -> Result<usize> {
        self.check_writable()?;
        let meant: Vec<Judgment> = self.judgments()?.into_iter().filter(|own| is_meant(own)).collect();
        self.forget(meant.iter().map(|own| (&*own.question, &*own.id)))
    }

    /// The time after which a judgment counts half; `None` if judgments do not age.
    ///
    /// # Errors
    /// Failures of reading.
    pub fn half_life(&self) -> Result<Option<Duration>> {
        self.judgments_for_reading()?.map_or(Ok(None), |store| half_life_of(&store))
    }

    /// Sets the time after which a judgment counts half, in the next searches and in
    /// [`learn`](Self#method.learn). A judgment that keeps less than a hundredth of its weight does not
    /// count. With `None`, as in a new index, judgments do not age.
    ///
    /// # Durability
    /// As [`Self::insert`].
    ///
    /// # Errors
    /// [`InputError::OutOfRange`] for zero; failures of the disk.
    pub fn set_half_life(&self, half_life: Option<Duration>) -> Result<()> {
        self.check_writable()?;
        let (mut puts, mut deletes) = (Vec::new(), Vec::new());
        match half_life {
            Some(Duration::ZERO) => {
                let (what, expected) = ("the half-life of judgments", "above 0");
                return Err(InputError::OutOfRange { what, found: 0.0, expected }.into());
            }
            Some(time) => {
                let text = json!({ "secs": time.as_secs(), "nanos": time.subsec_nanos() });
                puts.push(placed(Document::new(HALF_LIFE, "", text.to_string())));
            }
            None if !self.has_judgments()? => return Ok(()),
            None => deletes.push(HALF_LIFE.to_owned()),
        }
        within(self.judgments_for_writing()?.commit(WriteBatch { puts, deletes }))?;
        self.serving().memory.clear();
        Ok(())
    }

    /// Fingerprints of the judgments of past learnings, and the learner's own notes.
    #[cfg(feature = "train")]
    pub(crate) fn learned_from(&self) -> Result<Option<(String, Option<Value>)>> {
        self.judgments_for_reading()?.map_or(Ok(None), |store| learned_from(&store))
    }

    /// Stores fingerprints of the judgments of learnings, and the learner's notes.
    #[cfg(feature = "train")]
    pub(crate) fn set_learned_from(&self, print: &str, more: Value) -> Result<()> {
        let puts = vec![placed(Document::new(LEARNED, "", print).with_metadata(more))];
        let batch = WriteBatch { puts, deletes: Vec::new() };
        within(self.judgments_for_writing()?.commit(batch)).map(drop)
    }

    pub(super) fn judgments_dir(&self) -> PathBuf {
        self.path().join(names::JUDGMENTS)
    }

    /// Whether the store of judgments has been created.
    ///
    /// # Errors
    /// Damage: a link, or anything else that is not a directory, in its place.
    fn has_judgments(&self) -> Result<bool> {
        match kind(&*self.root.backend(), &self.judgments_dir())? {
            None => Ok(false),
            Some(Kind::Directory) => Ok(true),
            Some(_) => Err(StoreError::corrupt(names::JUDGMENTS, Damage::NotADirectory).into()),
        }
    }

    /// Recovers what an earlier writer left in the log. Damage is reported when judgments are read.
    pub(super) fn recover_judgments(&self) {
        self.attempted(self.judgments_for_reading(), "the judgments cannot be opened");
    }

    /// Notices from opening the store of judgments.
    pub(super) fn notices_of_judgments(&self) -> Vec<Notice> {
        let held = self.judgments.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let of_judgments =
            |notice: &Notice| notice.clone().of_judgments().below(&format!("{}/", names::JUDGMENTS));
        held.map_or(Vec::new(), |store| store.notices().iter().map(of_judgments).collect())
    }

    /// The store, created if it does not exist.
    fn judgments_for_writing(&self) -> Result<Arc<Store>> {
        self.root.check()?;
        self.has_judgments()?;
        let mut held = self.judgments.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(store) = &*held {
            return Ok(Arc::clone(store));
        }
        let (dir, backend, options) = (self.judgments_dir(), self.root.backend(), self.options.store);
        let opened = Store::open_on(Arc::clone(&backend), &dir, options);
        let store = Arc::new(match unless_begun(&*backend, &dir, opened)? {
            Some(store) => store,
            None => within(Store::create_on(backend, &dir, &config(), options))?,
        });
        *held = Some(Arc::clone(&store));
        Ok(store)
    }

    /// The store as this handle sees it; `None` if nothing was ever recorded.
    pub(super) fn judgments_for_reading(&self) -> Result<Option<Arc<Store>>> {
        if !self.has_judgments()? {
            return Ok(None);
        }
        if !self.is_read_only() {
            return self.judgments_for_writing().map(Some);
        }
        let dir = self.judgments_dir();
        let store = unless_begun(&*self.root.backend(), &dir, Store::open_read_only(&dir))?;
        Ok(store.map(Arc::new))
    }

    /// Makes the judgments of this handle durable.
    pub(super) fn flush_judgments(&self) -> Result<()> {
        let held = self.judgments.lock().unwrap_or_else(PoisonError::into_inner).clone();
        held.map_or(Ok(()), |store| within(store.flush()))
    }
}

/// The configuration of the store of judgments: it is never searched, so its tree has one leaf and
/// embeddings have one dimension.
fn config() -> StoreConfig {
    StoreConfig {
        dim: 1,
        branching_factor: 1,
        height: 1,
        similarity: Similarity::Cosine.code(),
        model_hash: ModelHash([0; 32]),
        terms: 0,
        passages: None,
        expires: None,
    }
}

/// Whether a directory without a manifest is one in which nothing was stored yet.
pub(super) fn is_begun(backend: &dyn Backend, dir: &Path) -> Result<bool> {
    Ok(kind(backend, dir)? == Some(Kind::Directory) && kind(backend, &dir.join(names::SEGMENTS))?.is_none())
}

/// The opened store; `None` if nothing was stored in it yet: after a crash, or while a writer is creating it.
fn unless_begun(
    backend: &dyn Backend,
    dir: &Path,
    opened: std::result::Result<Store, StoreError>,
) -> Result<Option<Store>> {
    match opened {
        Err(StoreError::InterruptedCreate { .. } | StoreError::NotFound { .. }) => Ok(None),
        Err(StoreError::NotAnIndex { .. }) => match is_begun(backend, dir)? {
            true => Ok(None),
            false => within(Err(without_manifest(StoreError::NotAnIndex { path: dir.to_owned() }))),
        },
        opened => within(opened).map(Some),
    }
}

/// Whether a judgment can be stored.
///
/// # Errors
/// Those of [`Index::record`] except failures of the disk.
pub(crate) fn check_judgment(judgment: &Judgment) -> Result<()> {
    judgment.check_time()?;
    check_stored_judgment(judgment)
}

/// Whether a judgment could be stored when it was made: the clock of a reader may be behind.
pub(crate) fn check_stored_judgment(judgment: &Judgment) -> Result<()> {
    judgment.check()?;
    Ok(check_document(&Document::new(&judgment.id, &judgment.question, ""), &config())?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::judgment::now;

    #[test]
    fn weights_are_shares_above_0_and_times_not_of_the_future() {
        let judged = |weight| check_judgment(&Judgment::new("q", "d", 1).with_weight(weight)).is_ok();
        assert!(judged(1.0) && judged(1e-9));
        for weight in [0.0, -1.0, 1.000_1, f64::NAN, f64::INFINITY] {
            assert!(!judged(weight), "{weight}");
        }
        assert!(check_judgment(&Judgment::new(" \n", "d", 1)).is_err());
        assert!(check_judgment(&Judgment::new("q", "", 1)).is_err());
        let at = |seconds| check_judgment(&Judgment::new("q", "d", 1).at(now() + seconds));
        assert!(at(86_000).is_ok());
        let message = at(87_000).unwrap_err().to_string();
        assert!(
            message.starts_with("the time of a judgment is ") && message.ends_with("at most a day ahead")
        );
    }
}
