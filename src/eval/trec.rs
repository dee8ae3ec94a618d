//! Run files in the format of `trec_eval`.

use std::collections::BTreeMap;
use std::io::{self, Write};

use crate::data::is_space;

/// One result of one query.
#[derive(Clone, Debug, PartialEq)]
pub struct ScoredId {
    /// The document.
    pub id: String,
    /// Larger is better; finite.
    pub score: f32,
}

/// The results of an evaluation by query, in the order in which `trec_eval` ranks them.
///
/// `trec_eval` ignores the ranks of a file. It sorts by score, largest first, and equal scores by document
/// id, largest first (bytes); a `TrecRun` has that same order, so figures computed from it agree with
/// `trec_eval` on the file that [`TrecRun::write`] makes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TrecRun {
    pub(super) by_query: BTreeMap<String, Vec<ScoredId>>,
}

impl TrecRun {
    /// Queries with their results, best first, in the order of the ids' bytes.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&str, &[ScoredId])> {
        let queries = self.by_query.iter();
        queries.map(|(query, results)| (query.as_str(), results.as_slice()))
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
mod tests {
    use super::*;

    fn run(query: &str, results: &[(&str, f32)]) -> TrecRun {
        let results = results.iter().map(|&(id, score)| ScoredId { id: id.to_owned(), score });
        TrecRun { by_query: [(query.to_owned(), results.collect())].into() }
    }

    #[test]
    fn rows_have_six_fields() {
        let mut both = run("q2", &[("b", 0.5), ("a", 0.5), ("é", 0.1), ("z", -0.0)]);
        both.by_query.extend(run("q10", &[("a", 1e-30)]).by_query);
        let mut bytes = Vec::new();
        both.write(&mut bytes, "ehi").unwrap();
        let expected = "q10 Q0 a 1 0.000000000000000000000000000001 ehi\n\
                        q2 Q0 b 1 0.5 ehi\nq2 Q0 a 2 0.5 ehi\nq2 Q0 é 3 0.1 ehi\nq2 Q0 z 4 -0 ehi\n";
        assert_eq!(String::from_utf8(bytes).unwrap(), expected);
        let mut full: &mut [u8] = &mut [0; 4];
        assert!(both.write(&mut full, "tag").is_err());
    }

    #[test]
    fn what_a_file_cannot_hold_is_refused() {
        for bad in ["", "two words", "tab\there", "line\nfeed", "vertical\u{0b}tab", "nul\0", "\u{feff}mark"]
        {
            let results = [
                run("q", &[(bad, 1.0)]).write(io::sink(), "tag"),
                run(bad, &[("d", 1.0)]).write(io::sink(), "tag"),
                TrecRun::default().write(io::sink(), bad),
            ];
            for result in results {
                assert!(result.is_err_and(|error| error.kind() == io::ErrorKind::InvalidInput), "{bad:?}");
            }
        }
    }
}
