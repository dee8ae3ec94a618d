//! Evaluates the rankings of judged queries.

use super::partition::{Ranking, Retrieved};
use super::{Metric, Outcome, RelevanceLevel};
use crate::ids::Row;

/// Judges rankings of rows.
pub(crate) struct Judge<'a> {
    metrics: &'a [Metric],
    level: RelevanceLevel,
    queries: Vec<Judged>,
}

/// The judgments of one query.
#[derive(Clone, Debug, Default)]
pub(crate) struct Judged {
    /// Grades of the available documents, by row.
    rows: Vec<(Row, i32)>,
    /// Grades of all judged documents.
    grades: Vec<i32>,
}

impl Judged {
    /// Takes grades, with the rows of available documents; each row once.
    pub(crate) fn new(judgments: impl IntoIterator<Item = (Option<Row>, i32)>) -> Self {
        let mut judged = Self::default();
        for (row, grade) in judgments {
            judged.rows.extend(row.map(|row| (row, grade)));
            judged.grades.push(grade);
        }
        judged.rows.sort_unstable();
        judged
    }

    /// Whether none of the documents is available.
    pub(crate) fn has_nothing(&self) -> bool {
        self.rows.is_empty()
    }

    fn grade(&self, row: Row) -> Option<i32> {
        let place = self.rows.binary_search_by_key(&row, |(row, _)| *row).ok()?;
        Some(self.rows[place].1)
    }
}

impl<'a> Judge<'a> {
    /// `queries` in the order in which they will be asked.
    pub(crate) fn new(metrics: &'a [Metric], level: RelevanceLevel, queries: Vec<Judged>) -> Self {
        Self { metrics, level, queries }
    }

    /// With the grade 1 for every relevant document of a query, and none for others.
    pub(crate) fn binary(metrics: &'a [Metric], relevant: &[Vec<u32>]) -> Self {
        let judged = |rows: &Vec<u32>| Judged::new(rows.iter().map(|&row| (Some(Row(row)), 1)));
        Self::new(metrics, RelevanceLevel::default(), relevant.iter().map(judged).collect())
    }

    /// The last rank used by any metric.
    pub(crate) fn depth(&self) -> usize {
        self.metrics.iter().map(|metric| metric.k().get()).max().unwrap_or(0)
    }

    /// The metrics of a query's ranking.
    pub(crate) fn values(&self, query: usize, ranking: &Ranking) -> Vec<f64> {
        let judged = &self.queries[query];
        let grades: Vec<Option<i32>> = ranking.iter().map(|&(_, row)| judged.grade(row)).collect();
        let value = |metric: &Metric| metric.of_grades(&grades, &judged.grades, self.level);
        self.metrics.iter().map(value).collect()
    }

    /// The outcome of a query. Its ranking is truncated at [`Self::depth`] or later.
    pub(crate) fn outcome(&self, query: usize, found: &Retrieved) -> Outcome {
        let values = self.values(query, &found.ranking);
        Outcome { visited: found.visited, routing: found.routing, values }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documents_that_are_not_at_hand_are_missed() {
        let judged = Judged::new([(Some(Row(7)), 2), (None, 1), (Some(Row(3)), 0)]);
        let metrics = [Metric::RECALL_AT_10, Metric::NDCG_AT_10];
        let judge = Judge::new(&metrics, RelevanceLevel(1), vec![judged]);
        let found = Retrieved {
            visited: 3,
            routing: 0.5,
            ranking: vec![(0.9, Row(3)), (0.8, Row(5)), (0.7, Row(7))],
        };
        let outcome = judge.outcome(0, &found);
        assert_eq!((outcome.visited, outcome.routing, outcome.values[0]), (3, 0.5, 0.5));
        let ideal = 2.0 + 1.0 / 3f64.log2();
        assert!((outcome.values[1] - 1.0 / ideal).abs() < 1e-15);
    }
}
