//! Queries with required terms: only rows that contain all of them are examined.

use super::search::{Query, Sink, Slack};
use super::{END, LexicalStats, Undecodable};

/// As [`search`](super::search()); all required terms have postings.
pub(super) fn search<E: From<Undecodable>>(
    query: &mut Query,
    sink: &mut Sink<E>,
    stats: &mut LexicalStats,
) -> Result<(), E> {
    let Query { terms, rows } = query;
    let slack = Slack::new(terms.len());
    // The rarest first: it determines the candidate rows.
    let mut required: Vec<usize> = (0..terms.len()).filter(|&i| terms[i].required).collect();
    required.sort_by_key(|&i| terms[i].cursor.len());
    let Some((&lead, others)) = required.split_first() else { return Ok(()) };
    // The sum of the bounds is valid up to this row, exclusively.
    let (mut bound, mut bounded) = (0.0, 0);
    'rows: loop {
        let row = terms[lead].cursor.row();
        if row >= *rows {
            return Ok(());
        }
        let floor = sink.floor();
        if row >= bounded {
            bound = 0.0;
            bounded = END;
            for term in terms.iter_mut() {
                let last = term.cursor.block_last_row(row);
                bound += f64::from(term.cursor.block_bound());
                bounded = bounded.min(last.saturating_add(1));
            }
        }
        if !slack.reaches(bound, floor) {
            terms[lead].cursor.seek(bounded)?;
            continue;
        }
        for &other in others {
            let cursor = &mut terms[other].cursor;
            cursor.seek(row)?;
            if cursor.row() > row {
                let next = cursor.row();
                terms[lead].cursor.seek(next)?;
                continue 'rows;
            }
        }
        let mut score = 0.0;
        for term in terms.iter_mut() {
            term.cursor.seek(row)?;
            if term.cursor.row() == row {
                score += term.cursor.score();
                stats.postings += 1;
            }
        }
        stats.rows_scored += 1;
        sink.offer(row, score)?;
        terms[lead].cursor.advance()?;
    }
}
