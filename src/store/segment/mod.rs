//! Segments: documents that no longer change, in the order in which searches read them.
//!
//! A segment is two sealed files. `N.vectors` holds one row of embedding for each document, those of one
//! leaf side by side, so that a probe of a leaf is one sequential read, and codes of the rows. `N.documents`
//! holds for the same rows their ids, payloads and metadata, the rows in order of their ids, and the posting
//! lists. A document that is in several leaves has its row with the first of them; the lists of the others
//! name it. Where documents have passages, each of these has a row, and that of the first one, the head,
//! stands for the document: it has id, payload and metadata, and the others name it.
//!
//! Which rows of a segment are still alive is not its own affair: see the manifest.

mod build;
mod codes;
mod read;
mod terms;

pub(super) use build::{LeafLists, Member, NewSegment, Passage, RowSource, Rows, arrange, build};
pub(super) use codes::{Codes, SegmentMeans};
pub(super) use read::{Segment, SegmentFiles};

#[cfg(test)]
mod tests;
