//! The text pairs and steps of a reranker's training.

use std::collections::{HashMap, HashSet};

use rand::Rng;
use rand::seq::{IndexedRandom, SliceRandom};
use rand_chacha::ChaCha8Rng;

use super::config::RerankerConfig;
use super::first::Hits;
use crate::train::dataset::TrainingSet;

/// Attempts to draw a random negative before a question goes with fewer.
const DRAWS: usize = 64;

/// A question's answer and its negatives, as numbers of pairs; the answer first.
pub(super) type Example = Vec<usize>;

/// Everything that a run will read, drawn in advance so that each pair passes the frozen layers once.
pub(super) struct RerankerPlan {
    /// Questions and documents, as positions in the set's training queries and documents.
    pub pairs: Vec<(usize, u32)>,
    /// By epoch.
    pub epochs: Vec<Vec<Example>>,
}

impl RerankerPlan {
    /// Draws negatives for each pass: some of the first search's best hits that do not answer the question,
    /// and some of all documents. Examples without negatives teach nothing and are left out.
    pub(super) fn draw(
        set: &TrainingSet,
        hits: &Hits,
        config: &RerankerConfig,
        rng: &mut ChaCha8Rng,
    ) -> Self {
        let mut numbers: HashMap<(usize, u32), usize> = HashMap::new();
        let mut pairs = Vec::new();
        let mut number = |pair: (usize, u32)| {
            *numbers.entry(pair).or_insert_with(|| {
                pairs.push(pair);
                pairs.len() - 1
            })
        };
        let mut epochs = Vec::with_capacity(config.epochs);
        for _ in 0..config.epochs {
            let mut examples: Vec<Example> = Vec::new();
            for (question, (query, hits)) in set.train.iter().zip(hits).enumerate() {
                let wrong = |document: &u32| query.positives.binary_search(document).is_err();
                let hard: Vec<u32> = hits.iter().copied().filter(wrong).collect();
                for (place, &positive) in query.positives.iter().enumerate() {
                    let share = query.weights.get(place).copied().unwrap_or(1.0);
                    if share < 1.0 && rng.random::<f32>() >= share {
                        continue;
                    }
                    let mut drawn: Vec<u32> = hard.choose_multiple(rng, config.negatives).copied().collect();
                    let mut known: HashSet<u32> = drawn.iter().copied().collect();
                    // If the first search found too few, random documents fill up.
                    let wanted = config.negatives + config.random_negatives;
                    for _ in 0..DRAWS * wanted {
                        if drawn.len() == wanted {
                            break;
                        }
                        let document = rng.random_range(0..set.documents.len() as u32);
                        if wrong(&document) && known.insert(document) {
                            drawn.push(document);
                        }
                    }
                    if !drawn.is_empty() {
                        let all = std::iter::once(positive).chain(drawn);
                        examples.push(all.map(|document| number((question, document))).collect());
                    }
                }
            }
            examples.shuffle(rng);
            epochs.push(examples);
        }
        Self { pairs, epochs }
    }

    /// Optimiser steps of the run.
    pub(super) fn steps(&self, batch_size: usize) -> usize {
        self.epochs.iter().map(|examples| examples.len().div_ceil(batch_size)).sum()
    }
}
