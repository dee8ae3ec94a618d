//! Segments: immutable documents, in the order in which searches read them.
//!
//! A segment is two sealed files. `N.vectors` holds one row of embedding for each document, with those of one
//! leaf adjacent, so that a probe of a leaf is one sequential read, and codes of the rows. `N.documents`
//! holds for the same rows their ids, payloads and metadata, the rows in order of their ids, and the posting
//! lists. If documents have passages, each passage has a row. The row of the first passage, the head,
//! represents the document: it has id, payload and metadata, and the others refer to it.
//!
//! The segment does not record which of its rows are alive: the manifest does.

mod build;
mod codes;
mod expiries;
mod joined;
mod lists;
mod read;
mod terms;

pub(super) use build::{NewSegment, build};
pub(super) use codes::{CodedLeaves, Codes, RowCoder, code_means, code_places, coded_rows};
pub(super) use read::{Segment, SegmentFiles};

#[cfg(test)]
mod tests;
