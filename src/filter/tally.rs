//! The values of a field among some documents, with the number of documents that have each.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde_json::Value;

use super::key::key;
use super::matches::each_at;

/// The key of a value, and the number of documents that have it.
pub(crate) type Counted<'a> = (Cow<'a, [u8]>, usize);

/// The scalars at a field among some documents.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Tally<'a> {
    /// Number of documents in which the field is present.
    pub present: usize,
    /// By ascending key, each with at least one document. A document with an array has each of its scalars.
    pub values: Vec<Counted<'a>>,
}

impl<'a> Tally<'a> {
    /// Counts the field on the metadata of documents.
    pub(crate) fn of<E>(
        field: &str,
        documents: impl Iterator<Item = Result<Option<Value>, E>>,
    ) -> Result<Self, E> {
        let (mut present, mut values) = (0, BTreeMap::<Vec<u8>, usize>::new());
        for metadata in documents {
            let metadata = metadata?;
            let (mut is_present, mut own) = (false, Vec::new());
            each_at(metadata.as_ref(), field, |found| {
                is_present |= found.is_some();
                own.extend(found.and_then(key));
                false
            });
            present += usize::from(is_present);
            own.sort_unstable();
            own.dedup();
            own.into_iter().for_each(|key| *values.entry(key).or_default() += 1);
        }
        Ok(Self { present, values: values.into_iter().map(|(key, count)| (key.into(), count)).collect() })
    }

    /// Adds the counts of other documents.
    pub(crate) fn add(&mut self, other: Self) {
        self.present += other.present;
        if self.values.is_empty() {
            self.values = other.values;
            return;
        }
        // Stable sorts merge ascending runs in linear time.
        self.values.extend(other.values);
        self.values.sort_by(|(a, _), (b, _)| a.cmp(b));
        self.values.dedup_by(|next, kept| {
            let is_same = next.0 == kept.0;
            kept.1 += if is_same { next.1 } else { 0 };
            is_same
        });
    }
}
