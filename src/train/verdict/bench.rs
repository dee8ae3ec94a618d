//! Queries against documents: what exact search and partitions find, and at what cost.

use rayon::prelude::*;

use super::partition::Partition;
use crate::cluster::Panels;
use crate::error::Result;
use crate::eval::{Bracket, binary_ndcg_at_k};
use crate::ids::Row;
use crate::scan::TopK;

/// Depth to which rankings are read.
const DEPTH: usize = 100;
/// Queries scored against the whole corpus at once.
pub(crate) const QUERIES_PER_BLOCK: usize = 64;

/// Queries with their answers, and the documents they are scored against.
pub(crate) struct Bench<'a> {
    documents: Panels,
    /// `[queries, dim]` unit rows.
    queries: &'a [f32],
    /// Relevant documents of each query, ascending.
    positives: &'a [Vec<u32>],
}

/// What one query found at one setting, and what it cost.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Outcome {
    /// Documents scored; a fraction of one where seeds are averaged.
    pub visited: f64,
    /// Multiply-adds spent on choosing lists.
    pub multiply_adds: f64,
    pub recall_at_10: f64,
    pub recall_at_100: f64,
    pub ndcg_at_10: f64,
}

/// A way of searching, at growing cost.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Measured {
    /// In ascending order of the visited fraction.
    pub points: Vec<Point>,
}

/// A way of searching at one setting.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Point {
    /// Lists visited; for exact search 1.
    pub setting: usize,
    /// Documents scored over documents, mean over queries.
    pub visited_fraction: f64,
    /// One for each query.
    pub outcomes: Vec<Outcome>,
}

impl<'a> Bench<'a> {
    /// Packs the documents: a copy of `documents` (`[n, dim]` unit rows).
    pub(crate) fn new(documents: &[f32], dim: usize, queries: &'a [f32], positives: &'a [Vec<u32>]) -> Self {
        Self { documents: Panels::pack(documents, dim), queries, positives }
    }

    /// What every query finds in exact search, and by each partition at each of its settings.
    ///
    /// Memory: the scores of [`QUERIES_PER_BLOCK`] queries and all documents. `on_block` is called
    /// after each block and may cancel.
    pub(crate) fn measure(
        &self,
        partitions: &[Partition<'_>],
        on_block: &mut dyn FnMut() -> Result<()>,
    ) -> Result<(Measured, Vec<Measured>)> {
        let (count, dim) = (self.documents.rows(), self.documents.dim());
        let settings: Vec<Vec<usize>> = partitions.iter().map(Partition::settings).collect();
        let mut exact = Vec::with_capacity(self.positives.len());
        let mut found: Vec<Vec<Vec<Outcome>>> = settings.iter().map(|s| vec![Vec::new(); s.len()]).collect();
        let blocks = self.queries.chunks(QUERIES_PER_BLOCK * dim);
        for (queries, positives) in blocks.zip(self.positives.chunks(QUERIES_PER_BLOCK)) {
            let mut scores = vec![0f32; positives.len() * count];
            self.documents.dot_products(queries, &mut scores);
            let answers: Vec<_> = (queries.par_chunks(dim), scores.par_chunks(count), positives)
                .into_par_iter()
                .map(|(unit, scores, positives)| {
                    let answer = Answer { scores, positives };
                    let all = answer.exact();
                    let by_partition: Vec<Vec<Outcome>> = partitions
                        .iter()
                        .zip(&settings)
                        .map(|(partition, settings)| answer.visit(partition, unit, settings))
                        .collect();
                    (all, by_partition)
                })
                .collect();
            for (all, by_partition) in answers {
                exact.push(all);
                for (found, outcomes) in found.iter_mut().zip(by_partition) {
                    found.iter_mut().zip(outcomes).for_each(|(found, outcome)| found.push(outcome));
                }
            }
            on_block()?;
        }
        let partitions = found
            .into_iter()
            .zip(settings)
            .map(|(outcomes, settings)| Measured::new(settings.into_iter().zip(outcomes), count));
        Ok((Measured::new([(1, exact)], count), partitions.collect()))
    }
}

/// One query with the score of every document.
struct Answer<'a> {
    scores: &'a [f32],
    positives: &'a [u32],
}

impl Answer<'_> {
    fn exact(&self) -> Outcome {
        let mut top = TopK::new(DEPTH);
        (0u32..).zip(self.scores).for_each(|(document, &score)| top.push(score, Row(document)));
        Outcome { visited: self.scores.len() as f64, ..self.judge(top) }
    }

    fn visit(&self, partition: &Partition<'_>, unit: &[f32], settings: &[usize]) -> Vec<Outcome> {
        let mut seen = vec![false; if partition.overlapping() { self.scores.len() } else { 0 }];
        let routes = partition.routes(unit, settings);
        let outcomes = routes.into_iter().map(|route| {
            seen.fill(false);
            let mut top = TopK::new(DEPTH);
            let mut visited = 0usize;
            for &document in route.lists.iter().flat_map(|&list| &partition.table()[list]) {
                if let Some(seen) = seen.get_mut(document as usize)
                    && std::mem::replace(seen, true)
                {
                    continue;
                }
                visited += 1;
                top.push(self.scores[document as usize], Row(document));
            }
            let multiply_adds = route.multiply_adds as f64;
            Outcome { visited: visited as f64, multiply_adds, ..self.judge(top) }
        });
        outcomes.collect()
    }

    fn judge(&self, top: TopK) -> Outcome {
        let hits: Vec<bool> = top
            .into_sorted()
            .into_iter()
            .map(|(_, row)| self.positives.binary_search(&row.0).is_ok())
            .collect();
        let relevant = self.positives.len();
        let recall =
            |k: usize| hits.iter().take(k).filter(|&&hit| hit).count() as f64 / relevant.max(1) as f64;
        Outcome {
            recall_at_10: recall(10),
            recall_at_100: recall(DEPTH),
            ndcg_at_10: binary_ndcg_at_k(&hits, relevant, 10),
            ..Outcome::default()
        }
    }
}

impl Measured {
    fn new(points: impl IntoIterator<Item = (usize, Vec<Outcome>)>, documents: usize) -> Self {
        let point = |(setting, outcomes): (usize, Vec<Outcome>)| {
            // Divided once: a sum of fractions can round to more than 1.
            let visited: f64 = outcomes.iter().map(|outcome| outcome.visited).sum();
            let of_all = (documents * outcomes.len()).max(1) as f64;
            Point { setting, visited_fraction: visited / of_all, outcomes }
        };
        let mut points: Vec<Point> = points.into_iter().map(point).collect();
        // Beams of a tree with several levels need not be nested.
        points.sort_by(|a, b| a.visited_fraction.total_cmp(&b.visited_fraction));
        Self { points }
    }

    /// The mean of each query's outcomes over runs with the same settings.
    pub(crate) fn mean(runs: &[Self], documents: usize) -> Self {
        let Some(first) = runs.first() else {
            return Self::default();
        };
        let share = 1.0 / runs.len() as f64;
        let of_setting = |setting: usize| {
            let mut sums = vec![Outcome::default(); first.points.first().map_or(0, |p| p.outcomes.len())];
            for point in runs.iter().flat_map(|run| &run.points).filter(|point| point.setting == setting) {
                for (sum, outcome) in sums.iter_mut().zip(&point.outcomes) {
                    sum.add(outcome, share);
                }
            }
            (setting, sums)
        };
        Self::new(first.points.iter().map(|point| of_setting(point.setting)), documents)
    }

    /// The two settings around a visited fraction; `None` where it was not measured.
    pub(crate) fn around(&self, visited_fraction: f64) -> Option<Bracket> {
        Bracket::around(&self.points, |point| point.visited_fraction, visited_fraction)
    }

    /// A value of each query at a visited fraction, on the line between the two settings that
    /// bracket it on average.
    pub(crate) fn of_queries(&self, visited_fraction: f64, of: impl Fn(&Outcome) -> f64) -> Option<Vec<f64>> {
        let bracket = self.around(visited_fraction)?;
        let queries = self.points.first()?.outcomes.len();
        let value = |query: usize| bracket.value(|place| of(&self.points[place].outcomes[query]));
        Some((0..queries).map(value).collect())
    }
}

impl Point {
    /// The mean of a value over queries; 0 without queries.
    pub(crate) fn mean(&self, of: impl Fn(&Outcome) -> f64) -> f64 {
        self.outcomes.iter().map(of).sum::<f64>() / self.outcomes.len().max(1) as f64
    }
}

impl Outcome {
    fn add(&mut self, other: &Self, weight: f64) {
        for (sum, value) in [
            (&mut self.visited, other.visited),
            (&mut self.multiply_adds, other.multiply_adds),
            (&mut self.recall_at_10, other.recall_at_10),
            (&mut self.recall_at_100, other.recall_at_100),
            (&mut self.ndcg_at_10, other.ndcg_at_10),
        ] {
            *sum += value * weight;
        }
    }
}
