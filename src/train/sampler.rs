//! Batches of shuffled pairs.

use std::collections::HashMap;

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
    batch_size: usize,
    pairs_per_epoch: usize,
}

impl Sampler {
    pub(crate) fn new(texts: &Texts, settings: &ScheduleSettings) -> Self {
        let pairs: Vec<(usize, usize)> = (0..texts.train)
            .flat_map(|query| texts.positives[query].iter().map(move |&d| (query, d as usize)))
            .collect();
        let pairs_per_epoch = match settings.pairs_per_epoch {
            0 => pairs.len(),
            most => pairs.len().min(most),
        };
        Self { batch_size: settings.batch_size, pairs_per_epoch, pairs }
    }

    /// Optimiser steps in an epoch.
    pub(crate) fn steps(&self) -> usize {
        self.pairs_per_epoch.div_ceil(self.batch_size)
    }

    /// An epoch's batches: every pair once or a fresh sample of them, shuffled and dealt out so that
    /// batch sizes differ by one at most.
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

    /// The pairs of an epoch. A sample takes one pair of each query before a second of any, so
    /// that a query with a thousand relevant documents does not drown the others.
    fn sample(&self, rng: &mut ChaCha8Rng) -> Vec<(usize, usize)> {
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
        Sampler { pairs, batch_size: 4, pairs_per_epoch }
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
        // Afresh each time: all of query 0's documents come up.
        assert_eq!(documents.len(), 8);
    }

    #[test]
    fn without_a_limit_every_pair_is_taken_once() {
        let mut rng = ChaCha8Rng::seed_from_u64(0);
        assert_eq!(sampler(8).sample(&mut rng), sampler(8).pairs);
        assert_eq!((sampler(8).steps(), sampler(4).steps()), (2, 1));
    }
}
