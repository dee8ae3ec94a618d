//! Which documents are committed together.

use std::collections::HashSet;
use std::iter::Peekable;

use super::summary::InsertStatus;
use crate::document::Document;

/// Most documents encoded and committed together.
pub(in crate::index) const DOCUMENTS_PER_COMMIT: usize = 256;

/// Bytes of documents and given embeddings committed together; exceeded only by a single larger document.
pub(in crate::index) const BYTES_PER_COMMIT: usize = 32 << 20;

/// The same for texts to encode in passages: a thousand passages or so, so that a call can be cancelled
/// within seconds.
pub(super) const BYTES_OF_PASSAGES: usize = 1 << 20;

/// Why a document of a batch is not stored; `None` if it is.
pub(super) type Fate = Option<InsertStatus>;

/// The fates of documents, given as ids and whether they can be stored. A refused document replaces nothing.
pub(super) fn fates<'a>(documents: impl DoubleEndedIterator<Item = (&'a str, bool)>) -> Vec<Fate> {
    let mut seen = HashSet::new();
    let fate = |(id, sound)| match sound {
        false => Some(InsertStatus::Refused),
        true if seen.insert(id) => None,
        true => Some(InsertStatus::Superseded),
    };
    let mut fates: Vec<Fate> = documents.rev().map(fate).collect();
    fates.reverse();
    fates
}

/// The documents to commit together, and the fates of all documents up to the last of them.
pub(super) fn next_group(
    rest: &mut Peekable<impl Iterator<Item = (Document, Fate)>>,
    most: usize,
) -> (Vec<Document>, Vec<Fate>) {
    let (mut group, mut fates, mut bytes) = (Vec::new(), Vec::new(), 0usize);
    let fits = |(document, fate): &(Document, Fate), held: usize, bytes: &mut usize| {
        if fate.is_some() {
            return true;
        }
        *bytes += document.heap_bytes();
        held == 0 || (held < DOCUMENTS_PER_COMMIT && *bytes <= most)
    };
    while let Some((document, fate)) = rest.next_if(|next| fits(next, group.len(), &mut bytes)) {
        fates.push(fate);
        if fate.is_none() {
            group.push(document);
        }
    }
    (group, fates)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The sizes of the groups for documents of these sizes in bytes.
    fn groups(sizes: &[usize]) -> Vec<usize> {
        let documents = sizes.iter().map(|&size| (Document::new("i", "", "x".repeat(size - 1)), None));
        let mut rest = documents.peekable();
        std::iter::from_fn(|| rest.peek().is_some().then(|| next_group(&mut rest, BYTES_PER_COMMIT).0.len()))
            .collect()
    }

    #[test]
    fn groups_are_bounded_by_number_and_by_bytes() {
        const HALF: usize = BYTES_PER_COMMIT / 2;
        assert_eq!(groups(&[1; 600]), [256, 256, 88]);
        assert_eq!(groups(&[HALF, HALF, 1]), [2, 1]);
        assert_eq!(groups(&[HALF + 1, HALF, 2 * HALF, 1]), [1, 1, 1, 1]);
        assert_eq!(groups(&[3 * HALF, 3 * HALF]), [1, 1]);
    }

    #[test]
    fn superseded_documents_go_with_a_group_and_do_not_count() {
        let document = |n: usize, fate| (Document::new(n.to_string(), "", "x".repeat(1 << 20)), fate);
        let fate = |n| [Some(InsertStatus::Superseded), None, Some(InsertStatus::Refused), None][n % 4];
        let mut rest = (0..100).map(|n| document(n, fate(n))).peekable();
        let (group, fates) = next_group(&mut rest, BYTES_PER_COMMIT);
        assert_eq!((group.len(), fates.len()), (31, 63));
        assert_eq!(group[30].id, "61");
        assert_eq!(rest.count(), 37);
    }

    #[test]
    fn the_last_sound_document_of_an_id_is_stored() {
        let [refused, superseded] = [InsertStatus::Refused, InsertStatus::Superseded].map(Some);
        let documents = [("a", true), ("b", false), ("a", true), ("a", false), ("c", true)];
        assert_eq!(fates(documents.into_iter()), [superseded, refused, None, refused, None]);
    }
}
