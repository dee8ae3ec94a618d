//! Routing distillation: the target leaves of a text, taken from its exact nearest documents.
//!
//! Not in the paper. It needs no labels, so it trains every document and every leaf, not only those in
//! labelled pairs.

use std::ops::Range;

use rand::seq::index;
use rand_chacha::ChaCha8Rng;
use rayon::prelude::*;

use super::config::DistillationSettings;
use super::plan::Taught;
use super::texts::Texts;
use crate::cluster::Panels;
use crate::ids::LeafId;

/// Texts scored against the whole corpus at once.
const TEXTS_PER_BLOCK: usize = 64;

/// The texts of routing distillation and their target leaves.
pub(crate) struct Distilled {
    neighbours: Neighbours,
    targets: Targets,
}

/// The exact nearest documents of the distilled texts, with weights.
///
/// Texts are numbered as the queries in [`Texts`], followed by the documents. The training queries come
/// first, in their order; then a sample of document-made queries and documents.
struct Neighbours {
    texts: Vec<usize>,
    documents: Vec<u32>,
    weights: Vec<f32>,
    /// Start of each text's neighbours, and a final entry for the end.
    starts: Vec<usize>,
}

/// The leaves that each distilled text should reach, with weights that sum to 1.
struct Targets {
    entries: Vec<(LeafId, f32)>,
    starts: Vec<usize>,
}

/// Unit rows of every text of a run.
#[derive(Clone, Copy, PartialEq)]
pub(crate) struct TextRows<'a> {
    pub dim: usize,
    /// `[documents, dim]`
    pub documents: &'a [f32],
    /// `[queries, dim]`
    pub queries: &'a [f32],
}

impl<'a> TextRows<'a> {
    /// The row of a text, numbered as in [`Neighbours`].
    pub(crate) fn text(&self, number: usize) -> &'a [f32] {
        let queries = self.queries.len() / self.dim;
        match number.checked_sub(queries) {
            None => &self.queries[number * self.dim..][..self.dim],
            Some(document) => &self.documents[document * self.dim..][..self.dim],
        }
    }
}

impl Distilled {
    /// Draws the texts and computes their targets; `None` if nothing is taught.
    pub(crate) fn find(
        texts: &Texts,
        settings: &DistillationSettings,
        rows: TextRows<'_>,
        taught: Taught,
        leaves: &[LeafId],
        rng: &mut ChaCha8Rng,
    ) -> Option<Self> {
        let drawn = match taught {
            Taught::Nothing => return None,
            Taught::TrainQueries => Vec::new(),
            Taught::Everything => unlabelled(texts, settings, rng),
        };
        let numbers = (0..texts.train).chain(drawn).collect();
        let neighbours = Neighbours::find(texts, settings, rows, numbers);
        let targets = neighbours.targets(leaves);
        Some(Self { neighbours, targets })
    }

    /// Number of taught texts; the training queries come first, in order.
    pub(crate) fn len(&self) -> usize {
        self.neighbours.texts.len()
    }

    /// Number of the text at a position, as in [`TextRows::text`].
    pub(crate) fn text(&self, place: usize) -> usize {
        self.neighbours.texts[place]
    }

    /// Leaves and weights of the text at a position.
    pub(crate) fn target(&self, place: usize) -> &[(LeafId, f32)] {
        self.targets.of(place)
    }

    /// Recomputes the targets after documents changed leaves.
    pub(crate) fn follow(&mut self, leaves: &[LeafId]) {
        self.targets = self.neighbours.targets(leaves);
    }
}

/// Number of taught texts.
pub(crate) fn taught_texts(texts: &Texts, settings: &DistillationSettings, taught: Taught) -> usize {
    match taught {
        Taught::Nothing => 0,
        Taught::TrainQueries => texts.train,
        Taught::Everything => texts.train + room(texts, settings).min(without_labels(texts).len()),
    }
}

/// Numbers of the document-made queries and the documents.
fn without_labels(texts: &Texts) -> Range<usize> {
    texts.train + texts.dev..texts.queries.len() + texts.documents.len()
}

/// Most texts taught in addition to the training queries.
fn room(texts: &Texts, settings: &DistillationSettings) -> usize {
    settings.texts.saturating_sub(texts.train)
}

/// The texts without labels (document-made queries and documents), or a sample of them.
fn unlabelled(texts: &Texts, settings: &DistillationSettings, rng: &mut ChaCha8Rng) -> Vec<usize> {
    let (others, room) = (without_labels(texts), room(texts, settings));
    if room >= others.len() {
        return others.collect();
    }
    let mut drawn: Vec<usize> = index::sample(rng, others.len(), room).into_vec();
    drawn.sort_unstable();
    drawn.into_iter().map(|i| others.start + i).collect()
}

impl Neighbours {
    /// Finds the neighbours of some texts.
    fn find(texts: &Texts, settings: &DistillationSettings, rows: TextRows<'_>, numbers: Vec<usize>) -> Self {
        let depth = settings.depth.min(texts.documents.len());
        let panels = Panels::pack(rows.documents, rows.dim);
        let found: Vec<Vec<(u32, f32)>> = numbers
            .par_chunks(TEXTS_PER_BLOCK)
            .flat_map_iter(|block| {
                let rows: Vec<f32> = block.iter().flat_map(|&t| rows.text(t).iter().copied()).collect();
                nearest_documents(&panels, &rows, depth)
            })
            .collect();
        let mut all = Self { texts: numbers, documents: Vec::new(), weights: Vec::new(), starts: vec![0] };
        for (&text, nearest) in all.texts.iter().zip(&found) {
            let of_pairs = if text < texts.train { settings.positive_share as f32 } else { 0.0 };
            let masses = masses(nearest, settings.temperature as f32);
            for (&(document, _), mass) in nearest.iter().zip(masses) {
                all.documents.push(document);
                all.weights.push(mass * (1.0 - of_pairs));
            }
            if of_pairs > 0.0 {
                let positives = &texts.positives[text];
                all.documents.extend(positives);
                all.weights.extend(positives.iter().map(|_| of_pairs / positives.len() as f32));
            }
            all.starts.push(all.documents.len());
        }
        all
    }

    /// The leaves that hold those documents.
    fn targets(&self, leaves: &[LeafId]) -> Targets {
        let mut targets = Targets { entries: Vec::new(), starts: vec![0] };
        let mut own: Vec<(LeafId, f32)> = Vec::new();
        for bounds in self.starts.windows(2) {
            own.clear();
            for place in bounds[0]..bounds[1] {
                let (leaf, weight) = (leaves[self.documents[place] as usize], self.weights[place]);
                match own.iter_mut().find(|entry| entry.0 == leaf) {
                    Some(entry) => entry.1 += weight,
                    None => own.push((leaf, weight)),
                }
            }
            targets.entries.extend(&own);
            targets.starts.push(targets.entries.len());
        }
        targets
    }
}

impl Targets {
    /// Leaves and weights of the text at a place in [`Neighbours::texts`].
    fn of(&self, place: usize) -> &[(LeafId, f32)] {
        &self.entries[self.starts[place]..self.starts[place + 1]]
    }
}

/// Weights of neighbours, which sum to 1: equal at temperature 0.
fn masses(nearest: &[(u32, f32)], temperature: f32) -> Vec<f32> {
    let best = nearest.first().map_or(0.0, |entry| entry.1);
    let raw: Vec<f32> = nearest
        .iter()
        .map(|&(_, score)| if temperature > 0.0 { ((score - best) / temperature).exp() } else { 1.0 })
        .collect();
    let sum: f32 = raw.iter().sum();
    raw.into_iter().map(|mass| mass / sum).collect()
}

/// The `depth` nearest documents of some rows by exact search, best first, with the similarity.
///
/// # Shapes
/// `packed` are the document rows, `rows` `[n, dim]`; n lists of `depth`.
pub(crate) fn nearest_documents(packed: &Panels, rows: &[f32], depth: usize) -> Vec<Vec<(u32, f32)>> {
    let documents = packed.rows;
    let mut scores = vec![0f32; rows.len() / packed.dim * documents];
    packed.dot_products(rows, &mut scores);
    // As large as the corpus, so the result is copied out.
    let mut order: Vec<(u32, f32)> = Vec::with_capacity(documents);
    let nearest = |row: &[f32]| {
        order.clear();
        order.extend((0..).zip(row.iter().copied()));
        let best_first = |a: &(u32, f32), b: &(u32, f32)| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0));
        if depth < documents {
            order.select_nth_unstable_by(depth, best_first);
        }
        let mut nearest = order[..depth.min(documents)].to_vec();
        nearest.sort_unstable_by(best_first);
        nearest
    };
    scores.chunks_exact(documents).map(nearest).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_follow_the_documents_leaves() {
        let neighbours = Neighbours {
            texts: vec![0, 1],
            documents: vec![0, 1, 2, 2],
            weights: vec![0.25, 0.25, 0.5, 1.0],
            starts: vec![0, 3, 4],
        };
        let targets = neighbours.targets(&[4, 4, 7].map(LeafId));
        assert_eq!(targets.of(0), [(LeafId(4), 0.5), (LeafId(7), 0.5)]);
        assert_eq!(targets.of(1), [(LeafId(7), 1.0)]);
    }

    #[test]
    fn masses_sum_to_one_and_sharpen() {
        let nearest = [(0, 0.9), (1, 0.8), (2, 0.1)];
        assert_eq!(masses(&nearest, 0.0), [1.0 / 3.0; 3]);
        let sharp = masses(&nearest, 0.1);
        assert!((sharp.iter().sum::<f32>() - 1.0).abs() < 1e-6);
        assert!((sharp[0] / sharp[1] - 1f32.exp()).abs() < 1e-3);
    }
}
