//! Run and judgment files in the format of `trec_eval`.

use crate::measure::{Metric, RelevanceLevel};
use std::collections::{BTreeMap, HashSet};
use std::io::{self, Read, Write};

use crate::data::{DataError, DataErrorKind, Lines, Qrels, each_row, is_space, split_by_space};

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
    /// A judged query without results counts 0, as with `-c` of `trec_eval`, so that an engine does not gain
    /// by returning nothing. Results of other queries are ignored.
    pub fn mean(self, run: &TrecRun, qrels: &Qrels, level: RelevanceLevel) -> f64 {
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
/// scores by document id, largest first (bytes); a `TrecRun` holds that same order, so figures
/// computed from it agree with `trec_eval` on the file that [`TrecRun::write`] makes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TrecRun {
    by_query: BTreeMap<String, Vec<ScoredId>>,
}

impl TrecRun {
    /// Inserts a result in order among those of the query. A document must be added only once.
    ///
    /// Results given in order cost constant time each, others time linear in the query's results.
    ///
    /// # Errors
    ///
    /// [`DataErrorKind::Field`] when the score is not finite, so that it cannot be ordered.
    pub fn add(
        &mut self,
        query: impl Into<String>,
        document: impl Into<String>,
        score: f32,
    ) -> Result<(), DataError> {
        let (query, id) = (query.into(), document.into());
        if !score.is_finite() {
            let message = format!(
                "query `{query}`: the score of document `{id}` is {score}; it must be a finite number"
            );
            return Err(DataError::new(DataErrorKind::Field, message));
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
    /// [`io::ErrorKind::InvalidInput`] for an id or a tag that cannot be a field of the file, and those of
    /// the writer. The file is then incomplete.
    pub fn write(&self, mut to: impl Write, tag: &str) -> io::Result<()> {
        field(tag)?;
        for (query, results) in self.iter() {
            field(query)?;
            for (position, result) in results.iter().enumerate() {
                let (id, rank, score) = (field(&result.id)?, position + 1, result.score);
                writeln!(to, "{query} Q0 {id} {rank} {score} {tag}")?;
            }
        }
        to.flush()
    }

    /// Reads what [`TrecRun::write`] and other engines write, plain or gzip-compressed.
    ///
    /// Rows may be in any order; their second field, rank and tag are ignored. `name` is what errors call the
    /// stream.
    ///
    /// # Errors
    ///
    /// [`DataErrorKind::Row`], [`DataErrorKind::Field`] or [`DataErrorKind::Conflict`] for a row that cannot
    /// be used, and the errors of reading.
    pub fn read(reader: impl Read + Send + 'static, name: impl Into<String>) -> Result<Self, DataError> {
        let mut by_query: BTreeMap<String, Vec<ScoredId>> = BTreeMap::new();
        // Rows of one query may be apart, so all pairs are kept.
        let mut seen: BTreeMap<String, HashSet<String>> = BTreeMap::new();
        let names = "query, Q0, document, rank, score, tag between white space";
        each_row(Lines::new(reader, name), split_by_space, names, |at, [query, _, id, _, score, _]| {
            let parsed = score.parse().ok().filter(|score: &f32| score.is_finite());
            let wrong =
                || at.error(DataErrorKind::Field, format!("the score `{score}` is not a finite number"));
            let score = parsed.ok_or_else(wrong)?;
            for id in [query, id] {
                field(id).map_err(|error| at.error(DataErrorKind::Field, error.to_string()))?;
            }
            if !seen.entry(query.to_owned()).or_default().insert(id.to_owned()) {
                let message = format!("document `{id}` appears twice for query `{query}`; keep one");
                return Err(at.error(DataErrorKind::Conflict, message));
            }
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

/// Writes judgments as rows `query 0 document grade`, which [`Qrels::read_trec`] reads.
///
/// # Errors
///
/// As [`TrecRun::write`].
pub fn write_qrels(mut to: impl Write, qrels: &Qrels) -> io::Result<()> {
    for (query, judged) in qrels.iter() {
        field(query)?;
        for (id, grade) in judged {
            let id = field(id)?;
            writeln!(to, "{query} 0 {id} {grade}")?;
        }
    }
    to.flush()
}

/// The order of `trec_eval`: by score, then by id, both largest first.
fn trec_order(a: &ScoredId, b: &ScoredId) -> std::cmp::Ordering {
    // Adding zero makes -0.0 and 0.0 the same; scores are finite, so the order is total.
    let by_score = (b.score + 0.0).total_cmp(&(a.score + 0.0));
    by_score.then_with(|| b.id.cmp(&a.id))
}

/// An id or tag that can stand in a file whose fields are separated by white space.
fn field(id: &str) -> io::Result<&str> {
    // C ends a text at a NUL, and readers drop a byte order mark at the start of a file.
    if id.is_empty() || id.contains(is_space) || id.contains('\0') || id.starts_with('\u{feff}') {
        let message = format!(
            "`{}` cannot be a field of a TREC file: it is empty, or has white space, a NUL or a byte order mark",
            id.escape_debug()
        );
        return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
    }
    Ok(id)
}

#[cfg(test)]
mod tests;
