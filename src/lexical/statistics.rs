//! Collection statistics of word scores: the number of documents, their length, and how many contain each
//! term.

/// Identifies the bytes of statistics, with their version.
const MAGIC: [u8; 8] = *b"ehiterm1";

/// The statistics of an index's words, or the sum of those of several; see
/// [`Index::term_statistics`](crate::Index::term_statistics).
///
/// Deleted or replaced documents count until they are merged away, as in a search.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TermStatistics {
    /// What the terms stand for.
    kind: String,
    documents: u64,
    total_length: u64,
    /// Terms with the number of documents that contain each, ascending by term.
    terms: Vec<(u32, u64)>,
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
    /// `terms` ascend.
    pub(crate) fn new(
        kind: String,
        documents: u64,
        total_length: u64,
        terms: impl IntoIterator<Item = (u32, u64)>,
    ) -> Self {
        Self { kind, documents, total_length, terms: terms.into_iter().collect() }
    }

    /// The kind of terms: stems of a language, or tokens of a tokenizer, identified by its checksum.
    pub fn kind(&self) -> &str {
        &self.kind
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
        self.terms.binary_search_by_key(&term, |&(term, _)| term).map_or(0, |place| self.terms[place].1)
    }

    /// Adds the statistics of other documents.
    ///
    /// # Errors
    /// [`OtherTerms`].
    pub fn add(&mut self, other: &Self) -> Result<(), OtherTerms> {
        other.check_kind(&self.kind)?;
        self.documents += other.documents;
        self.total_length += other.total_length;
        let mut joined = Vec::with_capacity(self.terms.len().max(other.terms.len()));
        let (mut own, mut others) = (self.terms.iter().peekable(), other.terms.iter().peekable());
        loop {
            let least =
                own.peek().map(|pair| pair.0).into_iter().chain(others.peek().map(|pair| pair.0)).min();
            let Some(term) = least else { break };
            let counts = [own.next_if(|pair| pair.0 == term), others.next_if(|pair| pair.0 == term)];
            joined.push((term, counts.into_iter().flatten().map(|pair| pair.1).sum()));
        }
        self.terms = joined;
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

    /// Encoded as bytes: the magic, the kind with its length, counts and terms, little-endian, and a CRC-32
    /// of them.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = MAGIC.to_vec();
        bytes.extend((self.kind.len() as u32).to_le_bytes());
        bytes.extend(self.kind.as_bytes());
        for number in [self.documents, self.total_length, self.terms.len() as u64] {
            bytes.extend(number.to_le_bytes());
        }
        for (term, documents) in &self.terms {
            bytes.extend(term.to_le_bytes());
            bytes.extend(documents.to_le_bytes());
        }
        bytes.extend(crc32fast::hash(&bytes).to_le_bytes());
        bytes
    }

    /// Decodes the output of [`Self::to_bytes`]; accepts any bytes.
    ///
    /// # Errors
    /// [`StatisticsError`].
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, StatisticsError> {
        let (checked, crc) = bytes.split_last_chunk::<4>().ok_or(StatisticsError)?;
        if crc32fast::hash(checked) != u32::from_le_bytes(*crc) {
            return Err(StatisticsError);
        }
        let mut rest = checked.strip_prefix(&MAGIC).ok_or(StatisticsError)?;
        let length = u32::from_le_bytes(take(&mut rest)?) as usize;
        let (kind, after) = rest.split_at_checked(length).ok_or(StatisticsError)?;
        let kind = std::str::from_utf8(kind).map_err(|_| StatisticsError)?.to_owned();
        rest = after;
        let mut number = || Ok(u64::from_le_bytes(take(&mut rest)?));
        let (documents, total_length, count) = (number()?, number()?, number()?);
        let (pairs, left) = rest.as_chunks::<12>();
        if !left.is_empty() || pairs.len() as u64 != count {
            return Err(StatisticsError);
        }
        let mut terms = Vec::with_capacity(pairs.len());
        for mut pair in pairs.iter().map(<[u8; 12]>::as_slice) {
            terms.push((u32::from_le_bytes(take(&mut pair)?), u64::from_le_bytes(take(&mut pair)?)));
        }
        match terms.is_sorted_by(|a, b| a.0 < b.0) {
            true => Ok(Self { kind, documents, total_length, terms }),
            false => Err(StatisticsError),
        }
    }
}

fn take<const N: usize>(bytes: &mut &[u8]) -> Result<[u8; N], StatisticsError> {
    let (first, rest) = bytes.split_first_chunk::<N>().ok_or(StatisticsError)?;
    *bytes = rest;
    Ok(*first)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn statistics(kind: &str, terms: &[(u32, u64)]) -> TermStatistics {
        TermStatistics::new(kind.to_owned(), 10, 100, terms.iter().copied())
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
