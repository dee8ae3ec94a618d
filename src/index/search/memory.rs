//! Judged questions near to the one asked: which documents they name, and how they change a ranking.

use std::cmp::Ordering;
use std::num::NonZeroUsize;

use super::asked::{Asked, FEWEST_CANDIDATES};
use super::damage::scan_failed;
use super::filter::RowFilter;
use super::fusion::HitScores;
use super::judged_texts::JudgedText;
use super::plan::Plan;
use super::rank::Ranked;
use super::result::{Hit, MovedDocument, RecalledJudgment};
use super::ties::ById;
use crate::error::{Error, Result};
use crate::ids::Row;
use crate::index::active_model::ActiveModel;
use crate::index::vectors::unit;
use crate::memory::{JudgedDocument, Memory, Vote, by_grade};
use crate::store::View;

/// Of the documents that judgments raise, so many become candidates, or twice `k` if that is more, and all
/// that they raise as much as the last of these.
const FEWEST_RAISED: usize = 100;

/// A document that was judged for questions near to the one asked.
#[derive(Clone, Debug)]
pub(crate) struct RecalledDocument {
    /// Its representative row.
    pub row: Row,
    /// At least one, unless they lie elsewhere.
    pub votes: Vec<Vote>,
    /// What the votes add to its score, in units of the range of candidates' scores.
    pub moved: f64,
    /// The judgment that counts most, and its vote.
    pub strongest: Option<(JudgedDocument, Vote)>,
}

impl ActiveModel {
    /// Finds the documents judged for near questions that may be hits, in row order.
    pub(crate) fn recall(
        &self,
        view: &View,
        asked: &Asked<'_>,
        plan: &Plan<'_>,
        now: u64,
    ) -> Result<Vec<RecalledDocument>> {
        let weights = self.memory_weights(asked.encoder);
        let recalled = self.memory.with(|memory| {
            let mut recalled = self.recall_from(memory, view, asked, weights.weight > 0.0, now, &|_| true)?;
            for document in &mut recalled {
                document.moved = weights.moved(&document.votes);
                let strongest = weights.strongest(&document.votes);
                document.strongest = strongest.map(|vote| (memory.judged(vote).clone(), *vote));
            }
            Ok::<_, Error>(recalled)
        });
        let recalled = recalled.transpose()?.unwrap_or_default();
        self.passing(view, recalled, plan)
    }

    /// The documents of a view that judgments of a set of indexes name and that may be hits, in row order.
    pub(super) fn recall_moved(
        &self,
        view: &View,
        moved: &[MovedDocument],
        plan: &Plan<'_>,
    ) -> Result<Vec<RecalledDocument>> {
        let mut recalled = Vec::new();
        for MovedDocument { id, moved, .. } in moved {
            let moved = *moved;
            let row = view.row_of(id)?;
            recalled.extend(row.map(|row| RecalledDocument {
                row,
                votes: Vec::new(),
                moved,
                strongest: None,
            }));
        }
        recalled.sort_unstable_by_key(|document| document.row);
        self.passing(view, recalled, plan)
    }

    /// Those that pass the filter.
    fn passing(
        &self,
        view: &View,
        mut recalled: Vec<RecalledDocument>,
        plan: &Plan<'_>,
    ) -> Result<Vec<RecalledDocument>> {
        let Some(filter) = plan.filter() else { return Ok(recalled) };
        let mut filter = RowFilter::new(view, filter, &self.filters);
        let mut failed = None;
        recalled.retain(|document| {
            filter.passes(document.row).unwrap_or_else(|error| {
                failed = Some(error);
                false
            })
        });
        failed.map_or(Ok(recalled), Err)
    }

    /// The documents of a view that were judged for near questions of a memory, in row order; without the
    /// filter, and `moved` not computed. `near`: whether other questions than the very one asked count.
    pub(crate) fn recall_from(
        &self,
        memory: &Memory,
        view: &View,
        asked: &Asked<'_>,
        near: bool,
        now: u64,
        may_recall: &dyn Fn(u32) -> bool,
    ) -> Result<Vec<RecalledDocument>> {
        if memory.is_empty() {
            return Ok(Vec::new());
        }
        let unit = (near && !asked.vector.is_empty()).then(|| unit(&asked.vector));
        let found = memory.nearest(asked.text, unit.as_deref(), now, may_recall).map_err(scan_failed)?;
        let mut votes: Vec<(&JudgedDocument, Vote)> =
            found.into_iter().flat_map(|near| memory.votes(near, now)).collect();
        let texts = self.judged_texts.find(view, votes.iter().map(|(judged, _)| &judged.id))?;
        let mut are_there = texts.iter().map(Option::is_some);
        votes.retain(|_| are_there.next() == Some(true));
        by_grade(&mut votes);
        let texts = texts.into_iter().flatten();
        let of_row = texts.zip(votes).map(|(JudgedText { row, checksum }, (judged, vote))| {
            let is_stale = judged.text.is_some_and(|judged| judged != checksum);
            (row, Vote { is_stale, ..vote })
        });
        let mut votes: Vec<(Row, Vote)> = of_row.collect();
        // Stable: the nearest question first.
        votes.sort_by_key(|&(row, _)| row);
        let recalled = |own: &[(Row, Vote)]| RecalledDocument {
            row: own[0].0,
            votes: own.iter().map(|&(_, vote)| vote).collect(),
            moved: 0.0,
            strongest: None,
        };
        Ok(votes.chunk_by(|a, b| a.0 == b.0).map(recalled).collect())
    }

    /// How many rows to find before judgments change their order.
    pub(super) fn depth(asked: &Asked<'_>, plan: &Plan<'_>) -> NonZeroUsize {
        match NonZeroUsize::new(FEWEST_CANDIDATES) {
            Some(fewest) if !asked.recalled.is_empty() => plan.k.max(fewest),
            _ => plan.k,
        }
    }

    /// The documents that judgments name and that are not among these rows.
    pub(super) fn recalled_beyond(
        &self,
        view: &View,
        asked: &Asked<'_>,
        rows: &[(f32, Row)],
        k: NonZeroUsize,
    ) -> Result<Vec<Row>> {
        let mut missing = asked.raised(k);
        if !missing.is_empty() {
            let found = view.heads(rows.iter().map(|&(_, row)| row))?;
            missing.retain(|row| found.binary_search(row).is_err());
        }
        Ok(missing)
    }

    /// Adds what judgments say to a ranking by one score.
    pub(super) fn with_recalled(
        &self,
        view: &View,
        asked: &Asked<'_>,
        ranked: Ranked,
        further: Vec<Further>,
        k: NonZeroUsize,
    ) -> Result<Ranked> {
        let with_move = |((score, row), scores)| {
            Ok(Scored { score, of: row, scores, moved: asked.moved(view.head(row)?) })
        };
        let found = ranked.rows.into_iter().zip(ranked.scores).map(with_move).collect::<Result<_>>()?;
        let further = further.into_iter().map(with_move).collect::<Result<_>>()?;
        let order = ById::new(view);
        let all = moved_by_range(found, further, k, &|a, b| order.compare(*a, *b));
        order.finish()?;
        let (rows, scores) = all.into_iter().map(|own| ((own.score, own.of), own.scores)).unzip();
        Ok(Ranked { rows, scores, ..ranked })
    }
}

/// A row that only judgments name, with its score and its scores.
pub(super) type Further = ((f32, Row), HitScores);

/// A candidate with a score by embeddings or words alone, and how far judgments move it, in units of the
/// range of scores.
pub(super) struct Scored<T> {
    pub score: f32,
    pub of: T,
    pub scores: HitScores,
    pub moved: f64,
}

/// The `k` best by one score after what judgments add to it: the candidates that only they name, `further`,
/// count as the last one found at least, and scores change by a share of the range of the scores found.
pub(super) fn moved_by_range<T>(
    found: Vec<Scored<T>>,
    further: Vec<Scored<T>>,
    k: NonZeroUsize,
    ties: &dyn Fn(&T, &T) -> Ordering,
) -> Vec<Scored<T>> {
    let scores = found.iter().map(|own| own.score);
    let (low, high) =
        scores.fold((f32::INFINITY, f32::NEG_INFINITY), |(low, high), x| (low.min(x), high.max(x)));
    let range = if high > low { f64::from(high - low) } else { 1.0 };
    let at_least = |own: Scored<T>| match low.is_finite() {
        true => Scored { score: own.score.max(low), ..own },
        false => own,
    };
    let with_move = |own: Scored<T>| {
        let moved = own.moved * range;
        let scores = HitScores { memory: (moved != 0.0).then_some(moved as f32), ..own.scores };
        Scored { score: (f64::from(own.score) + moved) as f32, scores, ..own }
    };
    let mut all: Vec<Scored<T>> =
        found.into_iter().chain(further.into_iter().map(at_least)).map(with_move).collect();
    all.sort_unstable_by(|a, b| b.score.total_cmp(&a.score).then_with(|| ties(&a.of, &b.of)));
    all.truncate(k.get());
    all
}

/// What is said of the judgment that moved a document most; `moved` is what all of them add to its score.
pub(super) fn recalled_judgment(judged: &JudgedDocument, vote: &Vote, moved: f64) -> RecalledJudgment {
    let (question, similarity) = (judged.spelling.to_string(), vote.cosine);
    RecalledJudgment { question, similarity, grade: judged.grade, stale: vote.is_stale, moved }
}

/// Names the judgment that moved each hit most.
pub(super) fn note_judgments(
    view: &View,
    asked: &Asked<'_>,
    ranked: &Ranked,
    hits: &mut [Hit],
) -> Result<()> {
    if asked.recalled.is_empty() {
        return Ok(());
    }
    for (hit, &(_, row)) in hits.iter_mut().zip(&ranked.rows) {
        let judgment = asked.recalled_for(view.head(row)?).and_then(RecalledDocument::judgment);
        hit.judged = judgment.filter(|_| hit.scores.memory.is_some());
    }
    Ok(())
}

impl RecalledDocument {
    /// The judgment that moved it most.
    fn judgment(&self) -> Option<RecalledJudgment> {
        let (judged, vote) = self.strongest.as_ref()?;
        Some(recalled_judgment(judged, vote, self.moved))
    }
}

impl Asked<'_> {
    pub(crate) fn recalled_for(&self, row: Row) -> Option<&RecalledDocument> {
        let place = self.recalled.binary_search_by_key(&row, |document| document.row).ok()?;
        Some(&self.recalled[place])
    }

    /// The documents that judgments raise, in row order: they become candidates, however they rank otherwise.
    /// Of many, only those that they raise most.
    pub(super) fn raised(&self, k: NonZeroUsize) -> Vec<Row> {
        let raised = || self.recalled.iter().filter(|document| document.moved > 0.0);
        let mut moves: Vec<f64> = raised().map(|document| document.moved).collect();
        let most = k.get().saturating_mul(2).max(FEWEST_RAISED);
        let least = match moves.len() > most {
            true => *moves.select_nth_unstable_by(most - 1, |a, b| b.total_cmp(a)).1,
            false => 0.0,
        };
        raised().filter(|document| document.moved >= least).map(|document| document.row).collect()
    }

    /// The documents that judgments moved and that none of these rows belongs to; those that were moved
    /// furthest first.
    pub(crate) fn moved_beyond(&self, view: &View, rows: &[(f32, Row)]) -> Result<Vec<MovedDocument>> {
        if self.recalled.is_empty() {
            return Ok(Vec::new());
        }
        let hits = view.heads(rows.iter().map(|&(_, row)| row))?;
        let moved = |own: &&RecalledDocument| own.moved != 0.0 && hits.binary_search(&own.row).is_err();
        let named = |own: &RecalledDocument| {
            Ok(MovedDocument { id: view.id(own.row)?, moved: own.moved, judged: own.judgment() })
        };
        let mut all = self.recalled.iter().filter(moved).map(named).collect::<Result<Vec<_>>>()?;
        all.sort_by(|a, b| b.moved.abs().total_cmp(&a.moved.abs()).then_with(|| a.id.cmp(&b.id)));
        Ok(all)
    }

    /// What judgments add to the score of a document, given by its representative row.
    pub(super) fn moved(&self, row: Row) -> f64 {
        self.recalled_for(row).map_or(0.0, |document| document.moved)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_many_documents_those_raised_most_become_candidates() {
        let asked = |moved: fn(u32) -> f64| {
            let recalled = (0..300).map(Row).map(|row| RecalledDocument {
                row,
                votes: Vec::new(),
                moved: moved(row.0),
                strongest: None,
            });
            Asked { recalled: recalled.collect(), ..Asked::default() }
        };
        let raised = |asked: &Asked<'_>, k| asked.raised(NonZeroUsize::new(k).unwrap());
        let apart = asked(|row| f64::from(row) - 99.5);
        assert_eq!(raised(&apart, 10), (200..300).map(Row).collect::<Vec<_>>());
        assert_eq!(raised(&apart, 90), (120..300).map(Row).collect::<Vec<_>>());
        assert_eq!(raised(&apart, 200), (100..300).map(Row).collect::<Vec<_>>());
        // All that are raised alike.
        assert_eq!(raised(&asked(|row| if row < 50 { 2.0 } else { 1.0 }), 10).len(), 300);
        assert_eq!(raised(&asked(|_| -1.0), 10), []);
    }
}
