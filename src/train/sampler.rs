//! Batches of shuffled pairs.

use std::collections::HashMap;

use rand::Rng;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;

use super::config::ScheduleSettings;
use super::texts::Texts;

/// One optimiser step's texts, by their numbers in [`Texts`].
pub(crate) struct Batch {
    /// Query of each pair.
    pub queries: Vec<usize>,
    /// Relevant document of each pair.
    pub positives: Vec<usize>,
}

/// Draws an epoch's batches.
pub(crate) struct Sampler {
    pairs: Vec<(usize, usize)>,
    /// Share of the epochs that each pair takes part in; empty if all take part in every epoch.
    weights: Vec<f32>,
    batch_size: usize,
    pairs_per_epoch: usize,
}

impl Sampler {
    pub(crate) fn new(texts: &Texts, settings: &ScheduleSettings) -> Self {
        let pairs: Vec<(usize, usize)> = (0..texts.train)
            .flat_map(|query| texts.positives[query].iter().map(move |&d| (query, d as usize)))
            .collect();
        let weights = match texts.weights.iter().all(Vec::is_empty) {
            true => Vec::new(),
            false => (0..texts.train)
                .flat_map(|query| {
                    let own = &texts.weights[query];
                    (0..texts.positives[query].len()).map(|at| own.get(at).copied().unwrap_or(1.0))
                })
                .collect(),
        };
        // As many as take part on average.
        let taking_part = match &*weights {
            [] => pairs.len(),
            weights => weights.iter().map(|weight| f64::from(*weight)).sum::<f64>().ceil() as usize,
        };
        let pairs_per_epoch = match settings.pairs_per_epoch {
            0 => taking_part,
            most => taking_part.min(most),
        };
        Self { batch_size: settings.batch_size, pairs_per_epoch, pairs, weights }
    }

    /// Optimiser steps in an epoch.
    pub(crate) fn steps(&self) -> usize {
        self.pairs_per_epoch.div_ceil(self.batch_size)
    }

    /// An epoch's batches: every pair once or a fresh sample of them, shuffled and split so that batch sizes
    /// differ by at most one.
    pub(crate) fn epoch(&self, rng: &mut ChaCha8Rng) -> Vec<Batch> {
        let mut pairs = self.sample(rng);
        pairs.shuffle(rng);
        let steps = self.steps();
        (0..steps)
            .map(|step| {
                let own = &pairs[step * pairs.len() / steps..(step + 1) * pairs.len() / steps];
                Batch {
                    queries: own.iter().map(|pair| pair.0).collect(),
                    positives: own.iter().map(|pair| pair.1).collect(),
                }
            })
            .collect()
    }

    /// Pairs drawn by their weights, without replacement: those with the smallest of exponential variables
    /// whose rates are the weights (Efraimidis and Spirakis 2006).
    fn weighted(&self, rng: &mut ChaCha8Rng) -> Vec<(usize, usize)> {
        let mut drawn: Vec<(f64, (usize, usize))> = self
            .pairs
            .iter()
            .zip(&self.weights)
            .map(|(pair, weight)| (-(1.0 - rng.random::<f64>()).ln() / f64::from(*weight), *pair))
            .collect();
        drawn.sort_by(|a, b| a.0.total_cmp(&b.0));
        drawn.truncate(self.pairs_per_epoch);
        drawn.into_iter().map(|(_, pair)| pair).collect()
    }

    /// The pairs of an epoch. A sample takes one pair of each query before a second of any, so
    /// that a query with a thousand relevant documents does not drown the others.
    fn sample(&self, rng: &mut ChaCha8Rng) -> Vec<(usize, usize)> {
        if !self.weights.is_empty() {
            return self.weighted(rng);
        }
        let mut pairs = self.pairs.clone();
        if self.pairs_per_epoch < pairs.len() {
            pairs.shuffle(rng);
            let mut taken: HashMap<usize, usize> = HashMap::new();
            pairs.sort_by_cached_key(|&(query, _)| {
                let turn = taken.entry(query).or_default();
                *turn += 1;
                *turn
            });
            pairs.truncate(self.pairs_per_epoch);
        }
        pairs
    }
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;

    use super::*;

    fn sampler(pairs_per_epoch: usize) -> Sampler {
        // Query 0 has six documents, queries 1 and 2 one each.
        let mut pairs: Vec<(usize, usize)> = (0..6).map(|document| (0, document)).collect();
        pairs.extend([(1, 6), (2, 7)]);
        Sampler { pairs, weights: Vec::new(), batch_size: 4, pairs_per_epoch }
    }

    #[test]
    fn a_sample_takes_every_query_before_any_twice() {
        let sampler = sampler(4);
        let mut rng = ChaCha8Rng::seed_from_u64(0);
        let mut documents = std::collections::HashSet::new();
        for _ in 0..50 {
            let pairs = sampler.sample(&mut rng);
            let count = |query| pairs.iter().filter(|pair| pair.0 == query).count();
            assert_eq!([0, 1, 2].map(count), [2, 1, 1]);
            documents.extend(pairs.iter().map(|pair| pair.1));
        }
        // Sampled afresh each time: all of query 0's documents appear.
        assert_eq!(documents.len(), 8);
    }

    #[test]
    fn without_a_limit_every_pair_is_taken_once() {
        let mut rng = ChaCha8Rng::seed_from_u64(0);
        assert_eq!(sampler(8).sample(&mut rng), sampler(8).pairs);
        assert_eq!((sampler(8).steps(), sampler(4).steps()), (2, 1));
    }

    #[test]
    fn a_pair_takes_part_as_often_as_its_weight_says() {
        let mut weighted = sampler(0);
        weighted.weights = vec![0.1; 8];
        weighted.weights[0] = 1.0;
        weighted.pairs_per_epoch = 2;
        let mut rng = ChaCha8Rng::seed_from_u64(0);
        let mut times = [0; 8];
        for _ in 0..500 {
            for (_, document) in weighted.sample(&mut rng) {
                times[document] += 1;
            }
        }
        assert_eq!(times.iter().sum::<i32>(), 1_000);
        assert!(times[0] > 400 && times[1..].iter().all(|&times| (40..140).contains(&times)), "{times:?}");
    }
}
