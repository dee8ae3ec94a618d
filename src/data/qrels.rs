//! Relevance judgments.

use std::collections::BTreeMap;
use std::io::Read;

use super::error::{DataError, DataErrorKind, Place};
use super::lines::{Lines, each_row, split_by_space};

/// The judged documents of one query with their grades, by document id.
///
/// A document that is not in the map was not judged. By convention, grades of 1 or more mean relevant, grades
/// of 0 or less not relevant.
pub type Judgments = BTreeMap<String, i32>;

/// The judgments of a split, by query id; iteration is in the order of the ids' bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Qrels {
    by_query: BTreeMap<String, Judgments>,
}

impl Qrels {
    /// Reads tab-separated rows `query-id, corpus-id, score`, plain or compressed with gzip or zstd.
    ///
    /// The first line is a header if its last column is the word `score`, otherwise a row. A row repeated
    /// with the same score counts once. `name` is the name of the stream in errors.
    ///
    /// # Errors
    /// [`DataErrorKind::Row`], [`DataErrorKind::Field`] or [`DataErrorKind::Conflict`] for a row that cannot
    /// be used, and the errors of reading. The first error ends the reading: incomplete judgments would give
    /// wrong figures.
    pub fn read(reader: impl Read + Send + 'static, name: impl Into<String>) -> Result<Self, DataError> {
        let mut qrels = Self::default();
        let mut is_first = true;
        each_row(
            Lines::new(reader, name),
            split_by_tab,
            "query-id, corpus-id, score",
            |at, columns: [&str; 3]| {
                let may_be_header = std::mem::take(&mut is_first);
                if may_be_header && columns[2].eq_ignore_ascii_case("score") {
                    Ok(())
                } else {
                    qrels.add(at, columns)
                }
            },
        )?;
        Ok(qrels)
    }

    /// Reads rows `query-id 0 corpus-id score` without a header, plain or compressed with gzip or zstd: the
    /// form of MS MARCO, TREC and `trec_eval`.
    ///
    /// Columns are separated by tabs or spaces; the second one is ignored.
    ///
    /// # Errors
    /// As [`Self::read`].
    pub fn read_trec(reader: impl Read + Send + 'static, name: impl Into<String>) -> Result<Self, DataError> {
        let mut qrels = Self::default();
        let names = "query-id, 0, corpus-id, score";
        each_row(Lines::new(reader, name), split_by_space, names, |at, [query, _, document, score]| {
            qrels.add(at, [query, document, score])
        })?;
        Ok(qrels)
    }

    fn add(&mut self, at: Place<'_>, [query, document, score]: [&str; 3]) -> Result<(), DataError> {
        for (id, field) in [(query, "query-id"), (document, "corpus-id")] {
            if id.is_empty() {
                return Err(at.empty_id(field));
            }
        }
        let wrong =
            |_| at.error(DataErrorKind::Field, format!("the score `{score}` is not a 32-bit integer"));
        let grade = score.parse().map_err(wrong)?;
        match self.insert(query, document, grade) {
            Some(first) if first != grade => {
                let message = format!(
                    "query `{query}` and document `{document}` have score {first} above and {grade} here; keep one"
                );
                Err(at.error(DataErrorKind::Conflict, message))
            }
            _ => Ok(()),
        }
    }

    /// Sets the grade of a document for a query and returns the grade it had before.
    pub fn insert(
        &mut self,
        query: impl Into<String>,
        document: impl Into<String>,
        grade: i32,
    ) -> Option<i32> {
        let judgments = self.by_query.entry(query.into()).or_default();
        judgments.insert(document.into(), grade)
    }

    /// The judgments of a query, or `None` when it does not belong to the split.
    pub fn get(&self, query: &str) -> Option<&Judgments> {
        self.by_query.get(query)
    }

    /// Queries with their judgments, in the order of the ids' bytes.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&str, &Judgments)> {
        self.by_query.iter().map(|(query, judgments)| (query.as_str(), judgments))
    }

    /// The number of queries.
    pub fn len(&self) -> usize {
        self.by_query.len()
    }

    /// Whether there are no queries.
    pub fn is_empty(&self) -> bool {
        self.by_query.is_empty()
    }

    /// Splits by query: those for which `condition` holds first, the rest second.
    pub(crate) fn partition(self, mut condition: impl FnMut(&str) -> bool) -> (Self, Self) {
        let (yes, no) = self.by_query.into_iter().partition(|(query, _)| condition(query));
        (Self { by_query: yes }, Self { by_query: no })
    }
}

fn split_by_tab(row: &str) -> Vec<&str> {
    row.split('\t').map(str::trim_ascii).collect()
}
