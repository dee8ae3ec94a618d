//! Run and judgment files in the format of `trec_eval`.

use std::collections::{BTreeMap, HashSet};
use std::io::{self, Read, Write};

use thiserror::Error;

use super::{Metric, RelevanceLevel};
use crate::data::{DataError, Line, Lines, Qrels};

/// A run or judgments that cannot be read, added to or written.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum TrecError {
    /// The file could not be read as text.
    #[error("the file is not readable text")]
    Lines {
        /// What is wrong, with file and line.
        #[from]
        source: DataError,
    },
    /// A row has the wrong number of fields.
    #[error("{name}:{line}: {got} fields separated by white space instead of {expected}")]
    Fields {
        /// The file.
        name: String,
        /// The line, from 1.
        line: u64,
        /// The number of fields found.
        got: usize,
        /// The number of fields of the format.
        expected: usize,
    },
    /// A field that must be a number is not, or is not finite.
    #[error("{name}:{line}: the {field} `{got}` is not a finite number of its type")]
    Number {
        /// The file.
        name: String,
        /// The line, from 1.
        line: u64,
        /// The field.
        field: &'static str,
        /// The field's text.
        got: String,
    },
    /// A document stands twice among one query's results or judgments.
    #[error("{name}:{line}: document `{document}` stands twice for query `{query}`; keep one")]
    RepeatedDocument {
        /// The file.
        name: String,
        /// The line of the second, from 1.
        line: u64,
        /// The query.
        query: String,
        /// The document.
        document: String,
    },
    /// The score of a result is infinite or not a number, so it has no place in an order.
    #[error("query `{query}`: document `{document}` has the score {score}, which is not finite")]
    Score {
        /// The query.
        query: String,
        /// The document.
        document: String,
        /// The score.
        score: f32,
    },
    /// An id in a file has a NUL, or begins with a byte order mark.
    #[error("{name}:{line}: the id `{}` has a NUL or a byte order mark, which no TREC file can hold", id.escape_debug())]
    Unreadable {
        /// The file.
        name: String,
        /// The line, from 1.
        line: u64,
        /// The id.
        id: String,
    },
    /// An id or the tag is empty, has white space, which separates the fields of the file, or
    /// a NUL, or begins with a byte order mark.
    #[error(
        "`{}` cannot be a field of a TREC file: it is empty, or has white space, a NUL or a byte order mark",
        id.escape_debug()
    )]
    Unwritable {
        /// The id or tag.
        id: String,
    },
    /// The file could not be written.
    #[error("the TREC file could not be written")]
    Write {
        /// The system's error.
        #[from]
        source: io::Error,
    },
}

/// One result of one query.
#[derive(Clone, Debug, PartialEq)]
pub struct ScoredId {
    /// The document.
    pub id: String,
    /// Larger is better; finite.
    pub score: f32,
}

impl AsRef<str> for ScoredId {
    fn as_ref(&self) -> &str {
        &self.id
    }
}

impl Metric {
    /// The mean over all queries that have judgments; 0 if there are none.
    ///
    /// A judged query without results counts 0, as with `-c` of `trec_eval`, so that an
    /// engine gains nothing from returning nothing. Results of other queries are ignored.
    pub fn mean(self, run: &Run, qrels: &Qrels, level: RelevanceLevel) -> f64 {
        if qrels.is_empty() {
            return 0.0;
        }
        let values = qrels.iter().map(|(query, judged)| match run.get(query) {
            Some(ranked) => self.of_query(ranked, judged, level),
            None => 0.0,
        });
        values.sum::<f64>() / qrels.len() as f64
    }
}

/// The results of an engine by query, in the order in which `trec_eval` ranks them.
///
/// `trec_eval` ignores the ranks of a file. It sorts by score, largest first, and equal
/// scores by document id, largest first (bytes); a `Run` holds that same order, so figures
/// computed from it agree with `trec_eval` on the file that [`Run::write`] makes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Run {
    by_query: BTreeMap<String, Vec<ScoredId>>,
}

impl Run {
    /// Adds a result at its place among those of the query. The caller adds a document once.
    ///
    /// Results given in order cost constant time each, others time linear in the query's results.
    ///
    /// # Errors
    ///
    /// [`TrecError::Score`] when the score is not finite.
    pub fn add(
        &mut self,
        query: impl Into<String>,
        document: impl Into<String>,
        score: f32,
    ) -> Result<(), TrecError> {
        let (query, id) = (query.into(), document.into());
        if !score.is_finite() {
            return Err(TrecError::Score { query, document: id, score });
        }
        let results = self.by_query.entry(query).or_default();
        let result = ScoredId { id, score };
        let at = match results.last() {
            Some(last) if trec_order(last, &result).is_gt() => {
                results.partition_point(|other| trec_order(other, &result).is_le())
            }
            _ => results.len(),
        };
        results.insert(at, result);
        Ok(())
    }

    /// The results of a query, best first; `None` when the query has none.
    pub fn get(&self, query: &str) -> Option<&[ScoredId]> {
        self.by_query.get(query).map(Vec::as_slice)
    }

    /// Queries with their results, in the order of the ids' bytes.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&str, &[ScoredId])> {
        let queries = self.by_query.iter();
        queries.map(|(query, results)| (query.as_str(), results.as_slice()))
    }

    /// The number of queries with results.
    pub fn len(&self) -> usize {
        self.by_query.len()
    }

    /// Whether no query has results.
    pub fn is_empty(&self) -> bool {
        self.by_query.is_empty()
    }

    /// Writes rows `query Q0 document rank score tag`, ranks from 1.
    ///
    /// Scores have the digits that read back as the same f32. `tag` names the engine.
    ///
    /// # Errors
    ///
    /// [`TrecError::Unwritable`] for an id or a tag that cannot be a field of the file, and
    /// [`TrecError::Write`]. The file is then incomplete.
    pub fn write(&self, mut to: impl Write, tag: &str) -> Result<(), TrecError> {
        field(tag)?;
        for (query, results) in self.iter() {
            field(query)?;
            for (position, result) in results.iter().enumerate() {
                let (id, rank, score) = (field(&result.id)?, position + 1, result.score);
                writeln!(to, "{query} Q0 {id} {rank} {score} {tag}")?;
            }
        }
        Ok(to.flush()?)
    }

    /// Reads what [`Run::write`] and other engines write, plain or gzip-compressed.
    ///
    /// Rows may be in any order; their second field, rank and tag are not looked at. `name`
    /// is what errors call the stream.
    ///
    /// # Errors
    ///
    /// [`TrecError::Fields`], [`TrecError::Number`], [`TrecError::Unreadable`] or
    /// [`TrecError::RepeatedDocument`] for a row that cannot be used, [`TrecError::Lines`] when reading
    /// fails.
    pub fn read(reader: impl Read + Send + 'static, name: impl Into<String>) -> Result<Self, TrecError> {
        let mut by_query: BTreeMap<String, Vec<ScoredId>> = BTreeMap::new();
        let mut seen = Seen::default();
        rows(reader, name, |name, line, [query, _, id, _, score, _]| {
            let parsed = score.parse().ok().filter(|score: &f32| score.is_finite());
            let score = parsed.ok_or_else(|| bad_number(name, line, "score", score))?;
            seen.check(name, line, query, id)?;
            let results = by_query.entry(query.to_owned()).or_default();
            results.push(ScoredId { id: id.to_owned(), score });
            Ok(())
        })?;
        for results in by_query.values_mut() {
            results.sort_by(trec_order);
        }
        Ok(Self { by_query })
    }
}

/// Writes judgments as rows `query 0 document grade`.
///
/// # Errors
///
/// As [`Run::write`].
pub fn write_qrels(mut to: impl Write, qrels: &Qrels) -> Result<(), TrecError> {
    for (query, judged) in qrels.iter() {
        field(query)?;
        for (id, grade) in judged {
            let id = field(id)?;
            writeln!(to, "{query} 0 {id} {grade}")?;
        }
    }
    Ok(to.flush()?)
}

/// Reads judgments in the form that [`write_qrels`] writes, plain or gzip-compressed.
///
/// # Errors
///
/// As [`Run::read`].
pub fn read_qrels(reader: impl Read + Send + 'static, name: impl Into<String>) -> Result<Qrels, TrecError> {
    let mut qrels = Qrels::default();
    let mut seen = Seen::default();
    rows(reader, name, |name, line, [query, _, id, grade]| {
        let parsed = grade.parse();
        let grade = parsed.map_err(|_| bad_number(name, line, "grade", grade))?;
        seen.check(name, line, query, id)?;
        qrels.insert(query, id, grade);
        Ok(())
    })?;
    Ok(qrels)
}

/// The order of `trec_eval`: by score, then by id, both largest first.
fn trec_order(a: &ScoredId, b: &ScoredId) -> std::cmp::Ordering {
    // Adding zero makes -0.0 and 0.0 the same; scores are finite, so the order is total.
    let by_score = (b.score + 0.0).total_cmp(&(a.score + 0.0));
    by_score.then_with(|| b.id.cmp(&a.id))
}

/// Gives each row's `N` fields to `use_row`, with the name and line for errors.
fn rows<const N: usize>(
    reader: impl Read + Send + 'static,
    name: impl Into<String>,
    mut use_row: impl FnMut(&str, u64, [&str; N]) -> Result<(), TrecError>,
) -> Result<(), TrecError> {
    let mut lines = Lines::new(reader, name);
    let name = lines.name().to_owned();
    while let Some(line) = lines.next_line() {
        let Line { number, text } = line?;
        let fields: Vec<&str> = text.split(is_space).filter(|field| !field.is_empty()).collect();
        let got = fields.len();
        let fields = <[&str; N]>::try_from(fields).map_err(|_| TrecError::Fields {
            name: name.clone(),
            line: number,
            got,
            expected: N,
        })?;
        use_row(&name, number, fields)?;
    }
    Ok(())
}

/// The pairs read so far. Rows of one query may be apart, so all are kept.
#[derive(Default)]
struct Seen(BTreeMap<String, HashSet<String>>);

impl Seen {
    fn check(&mut self, name: &str, line: u64, query: &str, id: &str) -> Result<(), TrecError> {
        for id in [query, id] {
            if field(id).is_err() {
                return Err(TrecError::Unreadable { name: name.to_owned(), line, id: id.to_owned() });
            }
        }
        let documents = self.0.entry(query.to_owned()).or_default();
        if documents.insert(id.to_owned()) {
            return Ok(());
        }
        Err(TrecError::RepeatedDocument {
            name: name.to_owned(),
            line,
            query: query.to_owned(),
            document: id.to_owned(),
        })
    }
}

fn bad_number(name: &str, line: u64, field: &'static str, got: &str) -> TrecError {
    TrecError::Number { name: name.to_owned(), line, field, got: got.to_owned() }
}

/// White space as `trec_eval` has it: that of C, which includes the vertical tab.
fn is_space(c: char) -> bool {
    c.is_ascii_whitespace() || c == '\x0b'
}

/// An id or tag that can stand in a file whose fields are separated by white space.
fn field(id: &str) -> Result<&str, TrecError> {
    // C ends a text at a NUL, and a byte order mark at the start of a file is no part of its first
    // field when it is read.
    if id.is_empty() || id.contains(is_space) || id.contains('\0') || id.starts_with('\u{feff}') {
        return Err(TrecError::Unwritable { id: id.to_owned() });
    }
    Ok(id)
}

#[cfg(test)]
mod tests;
