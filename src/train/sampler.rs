//! Batches: shuffled real pairs and pairs made from documents.

use rand::Rng;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;

use super::config::TrainConfig;
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
    pseudo: Vec<usize>,
    batch_size: usize,
    pseudo_pairs: usize,
}

impl Sampler {
    pub(crate) fn new(texts: &Texts, config: &TrainConfig) -> Self {
        let pairs: Vec<(usize, usize)> = (0..texts.train)
            .flat_map(|query| texts.positives[query].iter().map(move |&d| (query, d as usize)))
            .collect();
        let pseudo_pairs = (pairs.len() as f64 * config.pseudo_pairs_per_pair).round() as usize;
        Self {
            pseudo: (texts.train + texts.dev..texts.queries.len()).collect(),
            batch_size: config.batch_size,
            pseudo_pairs,
            pairs,
        }
    }

    /// Optimiser steps in an epoch.
    pub(crate) fn steps(&self) -> usize {
        let pseudo = if self.pseudo.is_empty() { 0 } else { self.pseudo_pairs };
        (self.pairs.len() + pseudo).div_ceil(self.batch_size)
    }

    /// An epoch's batches: every real pair once, a fresh sample of document-made ones, shuffled
    /// and dealt out so that batch sizes differ by one at most.
    pub(crate) fn epoch(&self, texts: &Texts, rng: &mut ChaCha8Rng) -> Vec<Batch> {
        let mut pairs = self.pairs.clone();
        if !self.pseudo.is_empty() {
            for _ in 0..self.pseudo_pairs {
                let query = self.pseudo[rng.random_range(0..self.pseudo.len())];
                pairs.push((query, texts.positives[query][0] as usize));
            }
        }
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
}
