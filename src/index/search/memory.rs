//! Judged questions near to the one asked: which documents they name, and how they change a ranking.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::num::NonZeroUsize;

use super::asked::{Asked, FEWEST_CANDIDATES};
use super::damage::scan_failed;
use super::filter::RowFilter;
use super::fusion::HitScores;
use super::plan::Plan;
use super::rank::Ranked;
use super::result::{Hit, MovedDocument, RecalledJudgment};
use super::ties::ById;
use crate::error::{Error, Result};
use crate::ids::Row;
use crate::index::active_model::ActiveModel;
use crate::index::vectors::unit;
use crate::memory::{JudgedDocument, Memory, Vote};
use crate::store::View;

/// A document that was judged for questions near to the one asked.
#[derive(Clone, Debug)]
pub(crate) struct RecalledDocument {
    /// Its representative row.
    pub row: Row,
    /// At least one, unless they lie elsewhere.
    pub votes: Vec<Vote>,
    /// What the votes add to its score, in units of the range of candidates' scores.
    pub moved: f64,
    /// The judgment whose vote counts most, and the cosine of its question.
    pub strongest: Option<(JudgedDocument, f32)>,
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
                document.strongest = strongest.map(|vote| (memory.judged(vote).clone(), vote.cosine));
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
        let mut documents: BTreeMap<Row, Vec<Vote>> = BTreeMap::new();
        for near in found {
            for (number, judged) in memory.documents(near.place).iter().enumerate() {
                let Some(vote) = memory.vote(near, number, now) else { continue };
                if let Some(row) = view.row_of(&judged.id)? {
                    documents.entry(row).or_default().push(vote);
                }
            }
        }
        let recalled = |(row, votes)| RecalledDocument { row, votes, moved: 0.0, strongest: None };
        Ok(documents.into_iter().map(recalled).collect())
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
    ) -> Result<Vec<Row>> {
        let named = asked.recalled.iter().filter(|own| own.moved > 0.0);
        let mut missing: Vec<Row> = named.map(|own| own.row).collect();
        for &(_, row) in rows.iter().filter(|_| !asked.recalled.is_empty()) {
            let head = view.head(row)?;
            missing.retain(|&row| row != head);
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
pub(super) fn recalled_judgment(judged: &JudgedDocument, similarity: f32, moved: f64) -> RecalledJudgment {
    RecalledJudgment { question: judged.spelling.to_string(), similarity, grade: judged.grade, moved }
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
        let (judged, similarity) = self.strongest.as_ref()?;
        Some(recalled_judgment(judged, *similarity, self.moved))
    }
}

impl Asked<'_> {
    pub(crate) fn recalled_for(&self, row: Row) -> Option<&RecalledDocument> {
        let place = self.recalled.binary_search_by_key(&row, |document| document.row).ok()?;
        Some(&self.recalled[place])
    }

    /// The documents that judgments moved and that are not among these, given by their representative rows;
    /// those that were moved furthest first.
    pub(crate) fn moved_beyond(&self, view: &View, hits: &[Row]) -> Result<Vec<MovedDocument>> {
        let moved = |own: &&RecalledDocument| own.moved != 0.0 && !hits.contains(&own.row);
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
