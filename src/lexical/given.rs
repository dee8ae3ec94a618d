//! The scores of given rows.

use super::search::{Query, holds_any};
use super::{LexicalStats, Norms, QueryTerm, Role, Undecodable};

/// Appends the score of each of `rows` to `out`, bit for bit as found by [`search`](super::search()).
///
/// `None` if a row lacks a required term, contains an excluded one, or is outside the part; 0 if it contains
/// no term at all and none is required.
///
/// # Shapes
/// `lengths` `[rows of the part]`; `rows` `[n]`, ascending, give n values.
///
/// # Errors
/// [`Undecodable`] as in [`search`](super::search()); `out` then has some of the values.
pub fn score_rows(
    terms: &[QueryTerm],
    lengths: &[u32],
    norms: &Norms,
    rows: &[u32],
    out: &mut Vec<Option<f32>>,
) -> Result<LexicalStats, Undecodable> {
    let mut query = Query::new(terms, lengths, norms)?;
    let mut stats = LexicalStats::default();
    for &row in rows {
        if row >= query.rows || holds_any(&mut query.excluded, row)? {
            out.push(None);
            continue;
        }
        let mut score = Some(0.0);
        for term in &mut query.terms {
            term.cursor.seek(row)?;
            if term.cursor.row() == row {
                let own = term.cursor.score();
                score = score.map(|score| score + own);
                stats.postings += 1;
            } else if term.role == Role::Required {
                score = None;
                break;
            }
        }
        stats.rows_scored += 1;
        out.push(score);
    }
    Ok(stats)
}
