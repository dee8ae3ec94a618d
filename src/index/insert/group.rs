//! Which documents are committed together.

use std::collections::HashSet;
use std::iter::Peekable;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use super::summary::InsertStatus;
use crate::document::Document;

/// Most documents encoded and committed together.
pub(in crate::index) const DOCUMENTS_PER_COMMIT: usize = 256;

/// Bytes of documents and given embeddings committed together; exceeded only by a single larger document.
pub(in crate::index) const BYTES_PER_COMMIT: usize = 32 << 20;

/// The same for texts to encode in passages: a thousand passages or so.
pub(super) const BYTES_OF_PASSAGES: usize = 1 << 20;

/// A group that takes longer is followed by smaller ones, so that progress is told, and a call can be
/// cancelled, at least once a second.
const SLOW: Duration = Duration::from_secs(1);
/// How long each of the smaller groups should take. At the end of a group some threads wait for the others,
/// which costs a few percent in shorter ones.
const STEP: Duration = Duration::from_millis(800);
/// The most parts of a full group.
const MOST_PARTS: usize = 64;
/// The parts of a full group before anything was timed.
const FIRST_PARTS: usize = 8;

/// How many parts of a full group are committed one by one, by the time that the last group took.
pub(in crate::index) struct Pace(AtomicUsize);

impl Default for Pace {
    /// The first group is smaller: until it ends, nothing is known of the encoder's speed.
    fn default() -> Self {
        Self(AtomicUsize::new(FIRST_PARTS))
    }
}

impl Pace {
    fn parts(&self) -> usize {
        self.0.load(Ordering::Relaxed).max(1)
    }

    /// The share of a full group's documents or bytes.
    pub fn share(&self, full: usize) -> usize {
        full / self.parts()
    }

    /// Notes the time of a group, but not of the last one of a call, which may be smaller.
    pub fn took(&self, time: Duration) {
        let parts = self.parts();
        if time > SLOW || parts > 1 {
            let parts = time.div_duration_f64(STEP) * parts as f64;
            self.0.store((parts.ceil() as usize).clamp(1, MOST_PARTS), Ordering::Relaxed);
        }
    }
}

/// Why a document of a batch is not stored; `None` if it is.
pub(super) type Fate = Option<InsertStatus>;

/// The fates of documents, given as ids and why they are not stored by themselves. A refused document
/// replaces nothing.
pub(super) fn fates<'a>(documents: impl DoubleEndedIterator<Item = (&'a str, Fate)>) -> Vec<Fate> {
    let mut seen = HashSet::new();
    let fate = |(id, own)| match own {
        Some(InsertStatus::Refused) => own,
        _ if seen.insert(id) => own,
        _ => Some(InsertStatus::Superseded),
    };
    let mut fates: Vec<Fate> = documents.rev().map(fate).collect();
    fates.reverse();
    fates
}

/// The documents to commit together, the ids of those that are past their time, and the fates of all
/// documents up to the last of them.
pub(super) fn next_group(
    rest: &mut Peekable<impl Iterator<Item = (Document, Fate)>>,
    most_documents: usize,
    most: usize,
) -> (Vec<Document>, Vec<String>, Vec<Fate>) {
    let (mut group, mut expired, mut fates, mut bytes) = (Vec::new(), Vec::new(), Vec::new(), 0usize);
    let fits = |(document, fate): &(Document, Fate), held: usize, bytes: &mut usize| {
        if fate.is_some() {
            return true;
        }
        *bytes += document.heap_bytes();
        held == 0 || (held < most_documents && *bytes <= most)
    };
    while let Some((document, fate)) = rest.next_if(|next| fits(next, group.len(), &mut bytes)) {
        fates.push(fate);
        match fate {
            None => group.push(document),
            Some(InsertStatus::Expired) => expired.push(document.id),
            Some(_) => {}
        }
    }
    (group, expired, fates)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The sizes of the groups for documents of these sizes in bytes.
    fn groups(sizes: &[usize]) -> Vec<usize> {
        let documents = sizes.iter().map(|&size| (Document::new("i", "", "x".repeat(size - 1)), None));
        let mut rest = documents.peekable();
        let mut next = || next_group(&mut rest, DOCUMENTS_PER_COMMIT, BYTES_PER_COMMIT).0.len();
        std::iter::from_fn(|| Some(next()).filter(|length| *length > 0)).collect()
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
        let (group, _, fates) = next_group(&mut rest, DOCUMENTS_PER_COMMIT, BYTES_PER_COMMIT);
        assert_eq!((group.len(), fates.len()), (31, 63));
        assert_eq!(group[30].id, "61");
        assert_eq!(rest.count(), 37);
    }

    #[test]
    fn groups_take_less_than_a_second_where_encoding_is_slow() {
        let pace = Pace::default();
        assert_eq!(pace.share(256), 32);
        let share = |milliseconds| {
            pace.took(Duration::from_millis(milliseconds));
            pace.share(256)
        };
        assert_eq!([20, 1_000].map(share), [256, 256]);
        assert_eq!([5_000, 800, 400, 100].map(share), [36, 36, 64, 256]);
        assert_eq!([3_600_000, 1].map(share), [4, 256]);
    }

    #[test]
    fn the_last_sound_document_of_an_id_is_stored() {
        let [refused, superseded, expired] =
            [InsertStatus::Refused, InsertStatus::Superseded, InsertStatus::Expired].map(Some);
        let documents = [("a", None), ("b", refused), ("a", None), ("a", refused), ("c", None)];
        assert_eq!(fates(documents.into_iter()), [superseded, refused, None, refused, None]);
        let documents = [("a", None), ("a", expired), ("b", expired), ("b", None)];
        assert_eq!(fates(documents.into_iter()), [superseded, expired, superseded, None]);
    }
}
