//! Documents divided into lists, by a tree or by k-means, and searches in the first of them.

use std::borrow::Cow;
use std::num::NonZeroUsize;
use std::ops::Range;

use super::Setting;
use crate::cluster::{ClusterError, KMeans, KMeansOptions, Panels, spherical_kmeans};
use crate::ids::{LeafId, Row};
use crate::model::{Indexer, Role};
use crate::scan::TopK;
use crate::tree::leaf_table;

/// Seeds of k-means to average over; a single seed has noise of a point or two.
pub(crate) const IVF_SEEDS: u64 = 4;
/// Most Lloyd iterations.
const IVF_ITERATIONS: usize = 50;
/// Rows assigned to centroids at once, to bound the memory of f32 rows.
const ROWS_PER_BLOCK: usize = 16_384;

/// Rows, best first.
pub(crate) type Ranking = Vec<(f32, Row)>;

/// Results and cost of a query.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Retrieved {
    /// Documents scored.
    pub visited: usize,
    /// Cost of routing, in dot products of a document.
    pub routing: f64,
    pub ranking: Ranking,
}

/// Lists of documents, and their order for a query.
pub(crate) struct Partition<'a> {
    router: Router<'a>,
    lists: Vec<Vec<Row>>,
}

enum Router<'a> {
    Tree(&'a Indexer),
    Centroids(Panels),
}

/// The lists that a query visits at one setting, in this order.
struct Route {
    lists: Vec<usize>,
    /// Cost of choosing them, in dot products of a document.
    cost: f64,
}

impl<'a> Partition<'a> {
    /// The leaves of a tree, from the leaf of each document.
    pub(crate) fn tree(indexer: &'a Indexer, leaves: &[LeafId]) -> Self {
        let table = leaf_table(leaves, indexer.shape().leaves() as usize);
        Self {
            router: Router::Tree(indexer),
            lists: table.into_iter().map(|list| list.into_iter().map(Row).collect()).collect(),
        }
    }

    /// The lists of a k-means over all documents.
    pub(crate) fn of_k_means(found: &KMeans, dim: usize) -> Self {
        let mut lists = vec![Vec::new(); found.sizes.len()];
        for (place, &list) in found.assignments.iter().enumerate() {
            lists[list as usize].push(Row(place as u32));
        }
        Self { router: Router::Centroids(Panels::pack(&found.centroids, dim)), lists }
    }

    /// The lists of spherical k-means, from all of `count` documents or from a sample of their places. In the
    /// lists, the row of a document is its position.
    ///
    /// # Shapes
    /// `rows` reads the documents at some places: `[n, dim]` of unit norm; `lists` from 1 to the documents of
    /// the sample.
    ///
    /// # Errors
    /// [`ClusterError`] for rows that are not of unit norm, and those of `rows`.
    pub(crate) fn k_means<'r, E: From<ClusterError>>(
        (count, dim): (usize, usize),
        rows: impl Fn(Range<usize>) -> Result<Cow<'r, [f32]>, E>,
        lists: usize,
        seed: u64,
        sample: Option<&[usize]>,
    ) -> Result<Self, E> {
        let options = KMeansOptions { clusters: lists, iterations: IVF_ITERATIONS, seed };
        let Some(sample) = sample else {
            return Ok(Self::of_k_means(&spherical_kmeans(&rows(0..count)?, dim, &options)?, dim));
        };
        let mut table = vec![Vec::new(); lists];
        let mut sampled = Vec::with_capacity(sample.len() * dim);
        for &place in sample {
            sampled.extend_from_slice(&rows(place..place + 1)?);
        }
        let centroids = Panels::pack(&spherical_kmeans(&sampled, dim, &options)?.centroids, dim);
        drop(sampled);
        for first in (0..count).step_by(ROWS_PER_BLOCK) {
            let block = first..(first + ROWS_PER_BLOCK).min(count);
            let assignments = centroids.nearest(&rows(block.clone())?).assignments;
            block.zip(assignments).for_each(|(place, list)| table[list as usize].push(Row(place as u32)));
        }
        Ok(Self { router: Router::Centroids(centroids), lists: table })
    }

    /// Number of documents in each list.
    pub(crate) fn sizes(&self) -> Vec<usize> {
        self.lists.iter().map(Vec::len).collect()
    }

    /// The setting that visits `visited` lists.
    pub(super) fn setting(&self, visited: usize) -> Setting {
        match self.router {
            Router::Tree(_) => Setting::Tree { beam: visited },
            Router::Centroids(_) => Setting::Ivf { lists: self.lists.len(), nprobe: visited },
        }
    }

    /// Results of a query for each of these numbers of visited lists, ascending.
    ///
    /// `score` offers the scores of documents to the best so far. Each document is scored once for all
    /// numbers, unless the lists of a number are not the first ones of the next.
    ///
    /// # Shapes
    /// `unit` `[dim]` of unit norm; rankings of as many documents as `none` keeps, an empty selection.
    ///
    /// # Errors
    /// Those of `score`.
    pub(crate) fn search<E>(
        &self,
        unit: &[f32],
        numbers: &[usize],
        none: TopK,
        mut score: impl FnMut(&[Row], &mut TopK) -> Result<(), E>,
    ) -> Result<Vec<Retrieved>, E> {
        let (mut top, mut visited, mut before) = (none.fork(), 0, Vec::new());
        let mut found = Vec::with_capacity(numbers.len());
        for route in self.routes(unit, numbers) {
            if !route.lists.starts_with(&before) {
                (top, visited) = (none.fork(), 0);
                before.clear();
            }
            for &list in &route.lists[before.len()..] {
                visited += self.lists[list].len();
                score(&self.lists[list], &mut top)?;
            }
            found.push(Retrieved { visited, routing: route.cost, ranking: top.clone().into_sorted() });
            before = route.lists;
        }
        Ok(found)
    }

    fn routes(&self, unit: &[f32], numbers: &[usize]) -> Vec<Route> {
        match &self.router {
            Router::Tree(indexer) => {
                let route = |&beam: &usize| {
                    let beam = NonZeroUsize::new(beam).unwrap_or(NonZeroUsize::MIN);
                    let routing = indexer.route(unit, beam, Role::Query);
                    let lists = routing.search.leaves.iter().map(|scored| scored.leaf.index()).collect();
                    Route { lists, cost: routing.multiply_adds as f64 / unit.len() as f64 }
                };
                numbers.iter().map(route).collect()
            }
            Router::Centroids(centroids) => {
                let mut scores = vec![0f32; centroids.rows];
                centroids.dot_products(unit, &mut scores);
                let mut order: Vec<usize> = (0..scores.len()).collect();
                order.sort_by(|&a, &b| scores[b].total_cmp(&scores[a]).then(a.cmp(&b)));
                let cost = scores.len() as f64;
                let route =
                    |&probed: &usize| Route { lists: order[..probed.min(order.len())].to_vec(), cost };
                numbers.iter().map(route).collect()
            }
        }
    }
}

/// 1, 2, 4 and so on, and `most` itself.
pub(crate) fn doubling(most: usize) -> impl Iterator<Item = usize> {
    let powers = std::iter::successors(Some(1usize), |number| number.checked_mul(2));
    powers.take_while(move |&number| number < most).chain([most])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{LevelWeights, TreeWeights};
    use crate::tree::TreeShape;

    /// Searches by documents' numbers, and records which are scored.
    fn search(partition: &Partition<'_>, unit: &[f32], numbers: &[usize]) -> (Vec<Retrieved>, Vec<u32>) {
        let mut scored = Vec::new();
        let score = |rows: &[Row], top: &mut TopK| {
            rows.iter().for_each(|&row| top.push(-(row.0 as f32), row));
            scored.extend(rows.iter().map(|row| row.0));
            Ok::<(), ClusterError>(())
        };
        (partition.search(unit, numbers, TopK::new(2), score).unwrap(), scored)
    }

    /// A tree over two dimensions, without transforms.
    fn tree(shape: TreeShape, levels: Vec<Vec<f32>>) -> Indexer {
        let level = |classifier| LevelWeights { transform: None, classifier };
        let levels = levels.into_iter().map(level).collect();
        Indexer::new(shape, 2, 1.0, TreeWeights { projection: None, levels }).unwrap()
    }

    #[test]
    fn lists_that_go_on_are_not_scored_again() {
        let shape = TreeShape::new(2, 1).unwrap();
        let indexer = tree(shape, vec![vec![1.0, 0.0, 0.0, 1.0]]);
        let partition = Partition::tree(&indexer, &[1, 0, 0, 1].map(LeafId));
        assert_eq!(partition.sizes(), [2, 2]);
        let (found, scored) = search(&partition, &[1.0, 0.0], &[1, 2]);
        assert_eq!(scored, [1, 2, 0, 3]);
        assert_eq!((found[0].visited, found[1].visited), (2, 4));
        let rows = |found: &Retrieved| found.ranking.iter().map(|(_, row)| row.0).collect::<Vec<_>>();
        assert_eq!((rows(&found[0]), rows(&found[1])), (vec![1, 2], vec![0, 1]));
        // 2 * 2 multiply-adds are two dot products.
        assert_eq!((found[0].routing, found[1].routing), (2.0, 2.0));
        assert_eq!(partition.setting(2), Setting::Tree { beam: 2 });
    }

    /// The best first level need not lead to the best leaf.
    #[test]
    fn lists_that_do_not_go_on_are_begun_anew() {
        let shape = TreeShape::new(2, 2).unwrap();
        // Child 0 is a little more probable, but below it both are alike; below child 1 one is certain.
        let second = vec![0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 9.0, 0.0];
        let indexer = tree(shape, vec![vec![0.1, 0.0, 0.0, 0.0], second]);
        let partition = Partition::tree(&indexer, &[0, 1, 2, 3].map(LeafId));
        let (found, scored) = search(&partition, &[1.0, 0.0], &[1, 2]);
        assert_eq!(scored[0], 0, "a beam of 1 goes below child 0");
        assert_eq!(scored[1..], [2, 0], "a beam of 2 finds leaf 2 first");
        assert_eq!((found[0].visited, found[1].visited), (1, 2));
    }

    #[test]
    fn numbers_double() {
        assert_eq!(doubling(10).collect::<Vec<_>>(), [1, 2, 4, 8, 10]);
        assert_eq!(doubling(8).collect::<Vec<_>>(), [1, 2, 4, 8]);
        assert_eq!(doubling(1).collect::<Vec<_>>(), [1]);
    }
}
