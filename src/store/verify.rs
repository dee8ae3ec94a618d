//! The full check: every byte, every checksum, every invariant.

use std::{borrow::Cow, collections::HashSet, ops::Range};

use serde::{Serialize, Serializer};

use super::{
    Notice, Result, Store, StoreError,
    error::Damage,
    layout::names,
    manifest::Manifest,
    part::VersionPart,
    rows::{Passage, RowSource, Rows},
    segment::Segment,
    terms::Terms,
    verify_codes as codes,
};
use crate::ids::LeafId;
use crate::lexical::List;

/// Maximum number of problems in a report; a damaged file can have one for every row.
const MOST_PROBLEMS: usize = 100;

/// Rows of a segment whose texts are split into terms for the check.
const ROWS_WITH_TERMS: u32 = 64;

/// Called with the finished and the total number of units; its error ends the call.
type Tell<'a> = &'a mut dyn FnMut(u64, u64) -> Result<()>;

/// Called with the number of further finished units; its error ends the call.
pub(super) type Done<'a> = &'a mut dyn FnMut(u64) -> Result<()>;

/// Pages, rows whose codes are checked, and live documents.
fn units(part: &VersionPart) -> u64 {
    let sealed = part.segment().map_or(0, |segment| segment.checks() + u64::from(segment.rows()));
    sealed + u64::from(part.live())
}

/// A problem found.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Problem {
    /// The file, relative to the directory of the index.
    pub file: Cow<'static, str>,
    /// The damage.
    pub damage: Damage,
}

/// The result of a full check. Serialised with `sound`, as [`Self::is_sound`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(remote = "Self")]
#[non_exhaustive]
pub struct VerifyReport {
    /// Live documents, each read in full.
    pub documents: u64,
    /// Bytes of their titles, texts and metadata as stored.
    pub payload_bytes: u64,
    /// Entries of all posting lists, including those of dead rows.
    pub postings: u64,
    /// Entries of the posting lists of terms in segments, including those of dead rows.
    pub term_postings: u64,
    /// Size of the segment files, every one of them read; dead rows are in memory since they were opened.
    pub file_bytes: u64,
    /// Number of all problems found; each damaged page is counted once while it is among [`Self::problems`].
    pub problem_count: u64,
    /// The first problems found, at most 100.
    pub problems: Vec<Problem>,
    /// Notices for the owner although the stored data is sound: commits waiting in the log, unused files,
    /// files that a repair set aside.
    pub warnings: Vec<Notice>,
}

impl Serialize for VerifyReport {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        /// The derived fields.
        fn fields<S: Serializer>(report: &&VerifyReport, serializer: S) -> Result<S::Ok, S::Error> {
            VerifyReport::serialize(report, serializer)
        }
        #[derive(Serialize)]
        struct Shown<'a> {
            sound: bool,
            #[serde(flatten, serialize_with = "fields")]
            report: &'a VerifyReport,
        }
        Shown { sound: self.is_sound(), report: self }.serialize(serializer)
    }
}

impl VerifyReport {
    /// Whether no problem was found.
    pub fn is_sound(&self) -> bool {
        self.problem_count == 0
    }

    pub(crate) fn problem(&mut self, file: impl Into<Cow<'static, str>>, damage: Damage) {
        let problem = Problem { file: file.into(), damage };
        // A damaged page affects every document on it.
        if self.problems.contains(&problem) {
            return;
        }
        self.problem_count += 1;
        if self.problems.len() < MOST_PROBLEMS {
            self.problems.push(problem);
        }
    }

    /// Adds the report on a part of the index, whose names begin with `prefix`.
    pub(crate) fn absorb(&mut self, prefix: &str, part: Self) {
        self.documents += part.documents;
        self.payload_bytes += part.payload_bytes;
        self.postings += part.postings;
        self.term_postings += part.term_postings;
        self.file_bytes += part.file_bytes;
        self.problem_count += part.problem_count;
        let room = MOST_PROBLEMS.saturating_sub(self.problems.len());
        let named = |Problem { file, damage }| Problem { file: format!("{prefix}{file}").into(), damage };
        self.problems.extend(part.problems.into_iter().map(named).take(room));
        self.warnings.extend(part.warnings.into_iter().map(|warning| warning.below(prefix)));
    }

    /// As [`Self::absorb`], without the counts, which only cover the serving model.
    pub(crate) fn absorb_findings(&mut self, prefix: &str, part: Self) {
        let Self { problems, problem_count, warnings, .. } = part;
        self.absorb(prefix, Self { problems, problem_count, warnings, ..Self::default() });
    }

    /// Records damage as a problem; returns any other failure.
    pub(crate) fn note<T>(&mut self, result: Result<T>) -> Result<Option<T>> {
        match result {
            Ok(value) => Ok(Some(value)),
            Err(StoreError::Corrupt { file, detail }) => {
                self.problem(file, detail);
                Ok(None)
            }
            Err(other) => Err(other),
        }
    }
}

impl Store {
    /// Reads the whole store and checks everything that can be checked: segments, manifest and its copy, log,
    /// and files that nothing names.
    ///
    /// Costs a read of every byte and the memory of all ids. Checks one generation, while writers continue.
    ///
    /// # Errors
    ///
    /// Damage is in the report; errors are failures of reading.
    #[cfg(any(test, feature = "fuzzing"))]
    pub fn verify(&self) -> Result<VerifyReport> {
        self.verify_with(&mut |_, _| Ok(()))
    }

    /// As [`Store::verify`]; `tell` is called with the finished and the total number of pages, codes and
    /// documents, and its error ends the call.
    pub fn verify_with(&self, tell: Tell<'_>) -> Result<VerifyReport> {
        let state = self.state();
        let mut report = VerifyReport::default();
        let (mut units_done, total) = (0, state.parts.iter().map(units).sum());
        let done: Done<'_> = &mut |more| {
            units_done += more;
            tell(units_done, total)
        };
        let on_disk = report.note(Manifest::read(&*self.backend, &self.dir))?;
        if on_disk.as_ref().is_some_and(|manifest| manifest.store_id != self.store_id) {
            report.problem(names::MANIFEST, Damage::Foreign);
        }
        let mut ids = HashSet::new();
        for part in &state.parts {
            if let Some(segment) = part.segment() {
                report.file_bytes += segment.bytes().iter().sum::<u64>();
                for page in segment.check_bytes() {
                    report.note(page)?;
                    done(1)?;
                }
                codes::check(segment, self.config.dim as usize, &mut report, done)?;
                report.term_postings += report.note(segment.check_terms(true))?.unwrap_or_default();
                self.check_texts(segment, &mut report)?;
                report.note(segment.check_lists())?;
                report.note(segment.check_expiries(self.config.expires.as_deref()))?;
                let lexical = self.is_lexical();
                if lexical && !segment.is_lexical() {
                    let what = "the posting lists of terms";
                    report.problem(segment.name().to_owned(), Damage::Missing { what });
                }
            }
            self.check_documents(part, &mut ids, &mut report, done)?;
            self.check_lists(part, &mut report)?;
        }
        self.check_files(&mut report)?;
        Ok(report)
    }

    /// Checks that each live document can be read, has a unique id, and is found by it.
    fn check_documents(
        &self,
        part: &VersionPart,
        ids: &mut HashSet<String>,
        report: &mut VerifyReport,
        done: Done<'_>,
    ) -> Result<()> {
        let (file, mut passages) = (part.name().to_owned(), 0);
        for row in part.live_rows() {
            done(1)?;
            let number = u64::from(row);
            let finite = report.note(part.matrix(row..row + 1))?.map(|row| row.iter().all(|x| x.is_finite()));
            if finite == Some(false) {
                report.problem(file.clone(), Damage::Undecodable { what: "the embedding of row", number });
            }
            let Some(head) = report.note(part.head(row))? else { continue };
            if head != row {
                if !part.is_live(head) {
                    report.problem(file.clone(), Damage::Undecodable { what: "the document of row", number });
                }
                continue;
            }
            let Some(document) = report.note(part.document(row))? else { continue };
            report.documents += 1;
            let sizes = part.payload(row).and_then(|p| Ok(p.len() + part.metadata(row)?.len()));
            report.payload_bytes += report.note(sizes)?.unwrap_or_default() as u64;
            if report.note(part.find(&document.id))?.is_some_and(|found| found != Some(row)) {
                report.problem(file.clone(), Damage::Undecodable { what: "the place of id of row", number });
            }
            if report.note(part.rows_of(row))?.is_some_and(|rows| {
                passages += rows.len();
                !self.are_passages(part, &document.text, &rows)
            }) {
                report.problem(file.clone(), Damage::Undecodable { what: "the passages of row", number });
            }
            if !ids.insert(document.id) {
                report.problem(file.clone(), Damage::Stray { what: "a second document of an id", number });
            }
        }
        // Counts sound documents only: the others were already reported.
        let (found, expected) = (passages as u64, part.live().into());
        if report.is_sound() && found != expected {
            let what = "the number of rows of documents";
            report.problem(file, Damage::Disagreement { what, expected, found });
        }
        Ok(())
    }

    /// Whether rows are the passages of a text in order, all of them live; in an index without passages,
    /// whether there is one row.
    fn are_passages(&self, part: &VersionPart, text: &str, rows: &[u32]) -> bool {
        let mut last = None;
        rows.iter().all(|&row| match part.passage(row) {
            Ok(Some(Passage { span, .. })) => {
                let follows = last.replace(span.start).is_none_or(|last| last < span.start);
                self.config.passages.is_some() && part.is_live(row) && follows && span.part(text).is_some()
            }
            Ok(None) => self.config.passages.is_none(),
            // Reported elsewhere.
            Err(_) => true,
        })
    }

    /// Checks for some rows that they are in the lists of their texts' terms, with the right counts.
    fn check_texts(&self, segment: &Segment, report: &mut VerifyReport) -> Result<()> {
        let Some(lexer) = self.lexer().filter(|_| segment.is_lexical()) else { return Ok(()) };
        let step = segment.rows().div_ceil(ROWS_WITH_TERMS).max(1);
        let mut postings = Vec::new();
        for row in (0..segment.rows()).step_by(step as usize) {
            // The terms of a document are stored with its representative row.
            let Some(row) = report.note(segment.head(row))? else { continue };
            let Some(payload) = report.note(segment.payload(row))? else { continue };
            let terms = match Terms::of_stored(payload, &*lexer) {
                Ok(terms) => terms.unwrap_or_default(),
                // A damaged model is reported separately.
                Err(StoreError::Terms { .. }) => return Ok(()),
                Err(error) => return Err(error),
            };
            for &(term, count) in terms.counts() {
                postings.clear();
                let decoded = match report.note(segment.term_list(term, &*lexer))? {
                    Some(List::Encoded(list)) => list.decode_all(&mut postings).is_ok(),
                    Some(List::Plain(_)) => true,
                    // Reported above.
                    None => continue,
                };
                let found = postings.binary_search_by_key(&row, |posting| posting.row);
                if decoded && !found.is_ok_and(|place| postings[place].count == count) {
                    let damage = Damage::Undecodable { what: "the terms of row", number: row.into() };
                    report.problem(segment.name().to_owned(), damage);
                    break;
                }
            }
        }
        Ok(())
    }

    /// Checks that each row is in the list of its leaf, and in no other.
    fn check_lists(&self, part: &VersionPart, report: &mut VerifyReport) -> Result<()> {
        let (file, leaves) = (part.name().to_owned(), self.config.leaves());
        let (mut expected, mut found) = (0, 0);
        // Rows are in the order of their leaves, so each list is looked up once.
        let mut last: Option<(LeafId, Option<Range<u32>>)> = None;
        for row in 0..part.rows() {
            let Some(leaf) = report.note(part.leaf_of(row))? else { continue };
            if u64::from(leaf.0) >= leaves {
                let number = u64::from(row);
                report.problem(file.clone(), Damage::Undecodable { what: "the leaf of row", number });
            }
            expected += 1;
            let list = match last.take().filter(|(own, _)| *own == leaf) {
                Some((_, list)) => list,
                None => {
                    let list = report.note(part.leaf(leaf))?;
                    found += list.as_ref().map_or(0, |rows| rows.len() as u64);
                    list
                }
            };
            if list.as_ref().is_some_and(|rows| !rows.contains(&row)) {
                report.problem(file.clone(), Damage::Missing { what: "the posting of a row" });
            }
            last = Some((leaf, list));
        }
        report.postings += found;
        if found != expected {
            report.problem(file, Damage::Disagreement { what: "the number of postings", expected, found });
        }
        Ok(())
    }
}
