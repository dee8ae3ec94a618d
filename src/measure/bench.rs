//! Queries against documents in memory: results and costs of exact search and of partitions.

use rayon::prelude::*;

use super::partition::{Partition, Retrieved, doubling};
use super::{Judge, Outcome, QueryFigures, Setting, blocks};
use crate::cluster::Panels;
use crate::ids::Row;
use crate::scan::TopK;

/// Judged queries, and the documents to score.
pub(crate) struct Bench<'a> {
    documents: Panels,
    /// `[queries, dim]` unit rows.
    queries: &'a [f32],
    judge: Judge<'a>,
}

impl<'a> Bench<'a> {
    /// Packs the documents: a copy of `documents` (`[n, dim]` unit rows).
    ///
    /// # Shapes
    /// `queries` `[queries, dim]` unit rows; `judge` knows each of them.
    pub(crate) fn new(documents: &[f32], dim: usize, queries: &'a [f32], judge: Judge<'a>) -> Self {
        Self { documents: Panels::pack(documents, dim), queries, judge }
    }

    /// Results of every query in exact search, and in each partition with 1, 2, 4 and so on lists and with
    /// all. Partitions of the same kind with the same number of lists are seeds of one engine, which gets
    /// their means.
    ///
    /// Memory: the scores of a block of queries and all documents. `on_block` is called after each block of
    /// [`blocks`] and may cancel.
    pub(crate) fn measure<E: Send>(
        &self,
        partitions: &[Partition<'_>],
        on_block: &mut dyn FnMut() -> Result<(), E>,
    ) -> Result<Vec<QueryFigures>, E> {
        let (count, dim) = (self.documents.rows, self.documents.dim);
        let numbers: Vec<Vec<usize>> =
            partitions.iter().map(|partition| doubling(partition.sizes().len()).collect()).collect();
        let mut figures = vec![QueryFigures::new(Setting::Exact, count)];
        let mut places = Vec::with_capacity(partitions.len());
        for (partition, numbers) in partitions.iter().zip(&numbers) {
            let settings = || numbers.iter().map(|&number| partition.setting(number));
            let known = figures.iter().position(|figures| settings().next() == Some(figures.setting));
            places.push(known.unwrap_or(figures.len()));
            if known.is_none() {
                figures.extend(settings().map(|setting| QueryFigures::new(setting, count)));
            }
        }
        let seeds = |place: usize| places.iter().filter(|other| **other == place).count();
        let shares: Vec<f64> = places.iter().map(|&place| 1.0 / seeds(place) as f64).collect();
        for block in blocks(self.queries.len() / dim) {
            let mut scores = vec![0f32; block.len() * count];
            self.documents.dot_products(&self.queries[block.start * dim..block.end * dim], &mut scores);
            let search = |query: usize| -> Result<(Outcome, Vec<Vec<Outcome>>), E> {
                let scores = &scores[(query - block.start) * count..][..count];
                let unit = &self.queries[query * dim..][..dim];
                let outcome = |found: Retrieved| self.judge.outcome(query, &found);
                let by_partition = partitions.iter().zip(&numbers).map(|(partition, numbers)| {
                    let found =
                        partition.search(unit, numbers, TopK::new(self.judge.depth()), |rows, top| {
                            rows.iter().for_each(|&row| top.push(scores[row.index()], row));
                            Ok(())
                        })?;
                    Ok(found.into_iter().map(outcome).collect())
                });
                Ok((outcome(self.exact(scores)), by_partition.collect::<Result<_, E>>()?))
            };
            let found = block.clone().into_par_iter().map(search).collect::<Result<Vec<_>, E>>()?;
            for (query, (exact, by_partition)) in block.zip(found) {
                figures[0].add(query, &exact, 1.0);
                for ((outcomes, &place), &share) in by_partition.iter().zip(&places).zip(&shares) {
                    let own = figures[place..].iter_mut().zip(outcomes);
                    own.for_each(|(figures, outcome)| figures.add(query, outcome, share));
                }
            }
            on_block()?;
        }
        Ok(figures)
    }

    fn exact(&self, scores: &[f32]) -> Retrieved {
        let mut top = TopK::new(self.judge.depth());
        (0u32..).zip(scores).for_each(|(document, &score)| top.push(score, Row(document)));
        Retrieved { visited: scores.len(), routing: 0.0, ranking: top.into_sorted() }
    }
}
