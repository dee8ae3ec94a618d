//! The form of judgments in their store.
//!
//! A judgment is a document of that store: its id is derived from the question and the document, its title is
//! the question, its text the id of the judged document, its metadata the rest.

use std::time::Duration;

use half::f16;
use serde::{Deserialize, Serialize};
#[cfg(feature = "eval")]
use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::disk::names;
use crate::document::Document;
use crate::error::Result;
use crate::ids::{LeafId, Row};
use crate::judgment::Judgment;
use crate::store::{Damage, Put, Store, StoreError, View};

/// Ids of the documents that are no judgments: the state of learning, and the half-life. Those of judgments
/// are hexadecimal, so none collides.
pub(super) const LEARNED: &str = "learned";
pub(super) const HALF_LIFE: &str = "half-life";
/// Bytes of SHA-256 that identify a question and document.
const KEY_BYTES: usize = 16;

/// What is stored of a judgment in addition to question and id.
#[derive(Serialize, Deserialize)]
struct Rest {
    grade: i32,
    weight: f64,
    time: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    text: Option<u32>,
}

/// All judgments of a store, ordered by question and id.
pub(super) fn all_judgments(store: &Store) -> Result<Vec<Judgment>> {
    let mut documents = within(store.read().documents_from(None, usize::MAX))?;
    documents.retain(|document| ![LEARNED, HALF_LIFE].contains(&&*document.id));
    let mut judgments = documents.into_iter().map(judgment).collect::<Result<Vec<_>>>()?;
    judgments.sort_by(|a, b| (&a.question, &a.id).cmp(&(&b.question, &b.id)));
    Ok(judgments)
}

/// The number of judgments that were forgotten or replaced and are still in the files.
pub(super) fn dead_judgments(view: &View) -> Result<u64> {
    if view.rows() == view.live_rows() {
        return Ok(0);
    }
    let mut dead = 0;
    for row in (0..view.rows() as u32).map(Row).filter(|&row| !view.is_live(row)) {
        let (id, _) = within(view.tags(row))?;
        dead += u64::from(![LEARNED, HALF_LIFE].contains(&id));
    }
    Ok(dead)
}

/// The number of judgments of a store.
#[cfg(feature = "eval")]
pub(super) fn count_judgments(store: &Store) -> Result<usize> {
    let view = store.read();
    let notes = [LEARNED, HALF_LIFE].map(|id| within(view.contains(id)).map(usize::from));
    notes.into_iter().try_fold(view.live(), |count, note| Ok(count - note?))
}

/// The judgment of a question and a document.
pub(super) fn judgment_of(view: &View, question: &str, id: &str) -> Result<Option<Judgment>> {
    match within(view.row_of(&key(question, id)))? {
        Some(row) => judgment(within(view.document(row))?).map(Some),
        None => Ok(None),
    }
}

/// The key of a question and a document.
pub(super) fn key(question: &str, id: &str) -> String {
    let mut digest = Sha256::new();
    digest.update((question.len() as u64).to_le_bytes());
    digest.update(question);
    digest.update(id);
    digest.finalize()[..KEY_BYTES].iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A document of a store that holds something else than a judgment.
fn note(store: &Store, id: &str) -> Result<Option<Document>> {
    let view = store.read();
    let row = within(view.row_of(id))?;
    row.map(|row| within(view.document(row))).transpose()
}

/// The time after which the judgments of a store count half.
pub(super) fn half_life_of(store: &Store) -> Result<Option<Duration>> {
    let undecodable = |_| Damage::Undecodable { what: "half-life", number: 0 };
    let read = |document: Document| serde_json::from_str(&document.text).map_err(undecodable);
    let half_life = note(store, HALF_LIFE)?.map(read).transpose();
    Ok(half_life.map_err(|damage| StoreError::corrupt(names::JUDGMENTS, damage))?)
}

/// Fingerprints of the judgments of past learnings, and the learner's own notes.
#[cfg(feature = "eval")]
pub(super) fn learned_from(store: &Store) -> Result<Option<(String, Option<Value>)>> {
    Ok(note(store, LEARNED)?.map(|document| (document.text, document.metadata)))
}

/// Whether the encoder of an index may have learned from its judgments, as far as the record of learnings
/// goes: each has a `decision`, and these are those that leave the index as it was.
#[cfg(feature = "eval")]
pub(super) fn encoder_has_learned(store: &Store) -> Result<bool> {
    const UNCHANGED: [&str; 4] = ["no_gain", "worse", "left", "too_few"];
    let Some((_, notes)) = learned_from(store)? else { return Ok(false) };
    let learnings = notes.as_ref().and_then(|notes| notes["learnings"].as_array());
    let is_unchanged =
        |own: &Value| own["decision"].as_str().is_some_and(|decision| UNCHANGED.contains(&decision));
    Ok(learnings.is_none_or(|all| !all.iter().all(is_unchanged)))
}

pub(super) fn put(judgment: &Judgment) -> Result<Put> {
    let Judgment { question, id, grade, weight, time, text } = judgment;
    let rest = Rest { grade: *grade, weight: *weight, time: *time, text: *text };
    let rest = serde_json::to_value(rest);
    let rest = rest.map_err(|source| StoreError::BadRows { id: id.clone(), what: source.to_string() })?;
    Ok(placed(Document::new(key(question, id), question, id).with_metadata(rest)))
}

/// A document of the store of judgments, assigned to its only leaf.
pub(super) fn placed(document: Document) -> Put {
    Put::whole(document, vec![f16::ONE], LeafId(0))
}

fn judgment(document: Document) -> Result<Judgment> {
    let rest = document.metadata.and_then(|rest| serde_json::from_value(rest).ok());
    // Its checksums match, so another version wrote it.
    let undecodable = || Damage::Undecodable { what: "judgment", number: 0 };
    let Rest { grade, weight, time, text } =
        rest.ok_or_else(|| StoreError::corrupt(names::JUDGMENTS, undecodable()))?;
    Ok(Judgment { question: document.title, id: document.text, grade, weight, time, text })
}

/// Adds to a damage error where the file is, and leaves out numbers of documents, which would be numbers of
/// one commit's judgments.
pub(super) fn within<T>(of_store: std::result::Result<T, StoreError>) -> Result<T> {
    Ok(of_store.map_err(|error| match error {
        StoreError::Corrupt { file, detail } => {
            StoreError::Corrupt { file: format!("{}/{file}", names::JUDGMENTS).into(), detail }
        }
        other => other.without_counts(),
    })?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_tells_question_and_document_apart() {
        let keys = [key("ab", "c"), key("a", "bc"), key("c", "ab"), key("ab", "d")];
        for (place, one) in keys.iter().enumerate() {
            assert_eq!(one.len(), 2 * KEY_BYTES);
            assert!(!keys[place + 1..].contains(one));
        }
        assert_eq!(key("ab", "c"), keys[0]);
    }

    #[test]
    fn a_judgment_is_read_back_as_it_was_stored() {
        let one = Judgment::new("what is\ttea?", "d-1", -2).with_weight(0.1).at(1_700_000_000);
        assert_eq!(judgment(put(&one).unwrap().document).unwrap(), one);
    }
}
