//! The scores of given rows.

use super::search::{Query, holds_any};
use super::{LexicalStats, Norms, QueryTerm, Role, Undecodable};

/// Appends the score of each of `rows` to `out`, with the bits that [`search`](super::search()) finds.
///
/// `None` where a row lacks a required term or holds an excluded one, or the part does not have it; 0 where
/// it holds no term at all and none is required.
///
/// # Shapes
/// `lengths` `[rows of the part]`; `rows` `[n]`, ascending, to n values.
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
