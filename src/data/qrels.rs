//! Relevance judgments.

use std::collections::BTreeMap;
use std::io::Read;

use super::{DataError, Line, Lines};

const COLUMNS: [&str; 3] = ["query-id", "corpus-id", "score"];

/// The judged documents of one query with their grades, by document id.
///
/// A document that is not in the map was not judged. By convention grades of 1 and more
/// mean relevant, 0 and less not relevant.
pub type Judgments = BTreeMap<String, i32>;

/// The judgments of a split, by query id; iteration is in the order of the ids' bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Qrels {
    by_query: BTreeMap<String, Judgments>,
}

impl Qrels {
    /// Reads tab-separated rows `query-id, corpus-id, score`, plain or gzip-compressed.
    ///
    /// The first line is taken for a header when its last column is the word `score`, and
    /// for a row otherwise. A row repeated with the same score counts once. `name` is what
    /// errors call the stream.
    ///
    /// # Errors
    ///
    /// [`DataError::Columns`], [`DataError::QrelsScore`], [`DataError::EmptyId`] or
    /// [`DataError::ConflictingJudgment`] for a row that cannot be used, and the errors of
    /// reading. The first error ends the reading: judgments that are only half there would
    /// give wrong figures.
    pub fn read(reader: impl Read + Send + 'static, name: impl Into<String>) -> Result<Self, DataError> {
        let mut lines = Lines::new(reader, name);
        let name = lines.name().to_owned();
        let mut qrels = Self::default();
        let mut is_first = true;
        while let Some(line) = lines.next_line() {
            let line = line?;
            let may_be_header = std::mem::take(&mut is_first);
            if !(may_be_header && is_header(line.text)) {
                qrels.add_row(line, &name)?;
            }
        }
        Ok(qrels)
    }

    /// Reads rows `query-id 0 corpus-id score` without a header, plain or gzip-compressed: the
    /// form of MS MARCO and TREC.
    ///
    /// Columns are separated by tabs or spaces; the second one is not looked at.
    ///
    /// # Errors
    ///
    /// As [`Self::read`].
    pub fn read_four_columns(
        reader: impl Read + Send + 'static,
        name: impl Into<String>,
    ) -> Result<Self, DataError> {
        let mut lines = Lines::new(reader, name);
        let name = lines.name().to_owned();
        let mut qrels = Self::default();
        while let Some(line) = lines.next_line() {
            let line = line?;
            let columns: Vec<&str> = line.text.split_ascii_whitespace().collect();
            let [query, _, document, score] = columns[..] else {
                let expected = "query-id, 0, corpus-id, score";
                return Err(DataError::Columns { name, line: line.number, got: columns.len(), expected });
            };
            qrels.add([query, document, score], line.number, &name)?;
        }
        Ok(qrels)
    }

    fn add_row(&mut self, line: Line<'_>, name: &str) -> Result<(), DataError> {
        let columns: Vec<&str> = line.text.split('\t').map(str::trim_ascii).collect();
        let [query, document, score] = columns[..] else {
            return Err(DataError::Columns {
                name: name.to_owned(),
                line: line.number,
                got: columns.len(),
                expected: "query-id, corpus-id, score",
            });
        };
        self.add([query, document, score], line.number, name)
    }

    fn add(&mut self, columns: [&str; 3], line: u64, name: &str) -> Result<(), DataError> {
        let [query, document, score] = columns;
        for (id, field) in [(query, COLUMNS[0]), (document, COLUMNS[1])] {
            if id.is_empty() {
                return Err(DataError::EmptyId { name: name.to_owned(), line, field });
            }
        }
        let grade = score.parse().map_err(|_| DataError::QrelsScore {
            name: name.to_owned(),
            line,
            got: score.to_owned(),
        })?;
        match self.insert(query, document, grade) {
            Some(first) if first != grade => Err(DataError::ConflictingJudgment {
                name: name.to_owned(),
                line,
                query: query.to_owned(),
                document: document.to_owned(),
                first,
                second: grade,
            }),
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

    /// The judgments of a query, or `None` when it has none.
    pub fn get(&self, query: &str) -> Option<&Judgments> {
        self.by_query.get(query)
    }

    /// Whether the query has judgments, that is, belongs to the split.
    pub fn contains(&self, query: &str) -> bool {
        self.by_query.contains_key(query)
    }

    /// Queries with their judgments, in the order of the ids' bytes.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&str, &Judgments)> {
        self.by_query.iter().map(|(query, judgments)| (query.as_str(), judgments))
    }

    /// The number of queries.
    pub fn len(&self) -> usize {
        self.by_query.len()
    }

    /// Whether there is no query.
    pub fn is_empty(&self) -> bool {
        self.by_query.is_empty()
    }

    /// The number of judged pairs of a query and a document.
    pub fn judgments(&self) -> usize {
        self.by_query.values().map(BTreeMap::len).sum()
    }

    /// Splits by query: those for which `condition` holds first, the rest second.
    pub(crate) fn partition(self, mut condition: impl FnMut(&str) -> bool) -> (Self, Self) {
        let (yes, no) = self.by_query.into_iter().partition(|(query, _)| condition(query));
        (Self { by_query: yes }, Self { by_query: no })
    }
}

fn is_header(line: &str) -> bool {
    let last = line.rsplit('\t').next().unwrap_or(line);
    last.trim_ascii().eq_ignore_ascii_case(COLUMNS[2])
}
