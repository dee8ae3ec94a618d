//! Collection statistics of word scores: the number of documents, their length, and how many contain each
//! term.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// The statistics of an index's words, or the sum of those of several; see
/// [`Index::term_statistics`](crate::Index::term_statistics).
///
/// Deleted or replaced documents count until they are merged away, as in a search.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TermStatistics {
    /// What the terms stand for.
    kind: String,
    documents: u64,
    total_length: u64,
    /// Terms with the number of documents that contain each.
    terms: BTreeMap<u32, u64>,
}

/// Bytes that are not valid [`TermStatistics`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("these bytes are no statistics of terms, or damaged")]
pub struct StatisticsError;

/// Statistics of other terms than those of the index.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the statistics are of {given}, the index has {index}")]
#[non_exhaustive]
pub struct OtherTerms {
    /// The kind of terms in the index.
    pub index: String,
    /// The kind of terms in the statistics.
    pub given: String,
}

impl TermStatistics {
    pub(crate) fn new(kind: String, documents: u64, total_length: u64, terms: BTreeMap<u32, u64>) -> Self {
        Self { kind, documents, total_length, terms }
    }

    /// Number of documents.
    pub fn documents(&self) -> u64 {
        self.documents
    }

    /// Occurrences of all terms in all documents.
    pub fn total_length(&self) -> u64 {
        self.total_length
    }

    /// Number of different terms.
    pub fn terms(&self) -> usize {
        self.terms.len()
    }

    /// How many documents contain a term.
    pub fn documents_with(&self, term: u32) -> u64 {
        self.terms.get(&term).copied().unwrap_or(0)
    }

    /// Adds the statistics of other documents.
    ///
    /// # Errors
    /// [`OtherTerms`].
    pub fn add(&mut self, other: &Self) -> Result<(), OtherTerms> {
        other.check_kind(&self.kind)?;
        self.documents += other.documents;
        self.total_length += other.total_length;
        for (&term, documents) in &other.terms {
            *self.terms.entry(term).or_default() += documents;
        }
        Ok(())
    }

    /// # Errors
    /// [`OtherTerms`].
    pub(crate) fn check_kind(&self, index: &str) -> Result<(), OtherTerms> {
        match self.kind == index {
            true => Ok(()),
            false => Err(OtherTerms { index: index.to_owned(), given: self.kind.clone() }),
        }
    }

    /// Encoded as bytes: a CRC-32, little-endian, and JSON.
    pub fn to_bytes(&self) -> Vec<u8> {
        let json = serde_json::to_vec(self).unwrap_or_default();
        [&crc32fast::hash(&json).to_le_bytes()[..], &json].concat()
    }

    /// Decodes the output of [`Self::to_bytes`]; accepts any bytes.
    ///
    /// # Errors
    /// [`StatisticsError`].
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, StatisticsError> {
        let (crc, json) = bytes.split_first_chunk::<4>().ok_or(StatisticsError)?;
        match crc32fast::hash(json) == u32::from_le_bytes(*crc) {
            true => serde_json::from_slice(json).map_err(|_| StatisticsError),
            false => Err(StatisticsError),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn statistics(kind: &str, terms: &[(u32, u64)]) -> TermStatistics {
        TermStatistics::new(kind.to_owned(), 10, 100, terms.iter().copied().collect())
    }

    #[test]
    fn sums_have_the_terms_of_both() {
        let mut sum = statistics("stems", &[(1, 2), (5, 3), (9, 1)]);
        sum.add(&statistics("stems", &[(0, 7), (5, 4), (20, 1)])).unwrap();
        assert_eq!((sum.documents(), sum.total_length(), sum.terms()), (20, 200, 5));
        assert_eq!([0, 1, 2, 5, 9, 20].map(|term| sum.documents_with(term)), [7, 2, 0, 7, 1, 1]);
        let refused = sum.clone().add(&statistics("tokens", &[]));
        assert!(matches!(refused, Err(OtherTerms { .. })), "{refused:?}");
    }

    #[test]
    fn bytes_come_back_and_damage_is_refused() {
        let own = statistics("tokens 12ab", &[(1, 2), (5, 1 << 40)]);
        let bytes = own.to_bytes();
        assert_eq!(TermStatistics::from_bytes(&bytes), Ok(own));
        for place in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[place] ^= 4;
            assert_eq!(TermStatistics::from_bytes(&damaged), Err(StatisticsError), "{place}");
            assert_eq!(TermStatistics::from_bytes(&bytes[..place]), Err(StatisticsError), "{place}");
        }
    }
}
