//! Documents divided into lists, and who chooses the lists that a query visits.

use std::num::NonZeroUsize;

use crate::cluster::{IVF_ITERATIONS, KMeansOptions, Panels, spherical_kmeans};
use crate::error::Result;
use crate::ids::LeafId;
use crate::model::Indexer;
use crate::tree::leaf_table;

/// Documents per list that k-means learns from; more do not move the centroids.
const SAMPLE_PER_LIST: usize = 256;

/// Lists of documents with the means to rank them for a query.
pub(crate) struct Partition<'a> {
    router: Router<'a>,
    /// Documents of each list, ascending.
    table: Vec<Vec<u32>>,
    /// Whether a document may be in several lists.
    overlapping: bool,
}

enum Router<'a> {
    Tree(&'a Indexer),
    Centroids(Panels),
}

/// The lists that a query visits at one setting.
pub(crate) struct Route {
    pub lists: Vec<usize>,
    /// Cost of choosing them.
    pub multiply_adds: u64,
}

impl<'a> Partition<'a> {
    /// The leaves of a tree.
    pub(crate) fn tree(indexer: &'a Indexer, leaves: &[Vec<LeafId>]) -> Self {
        Self {
            router: Router::Tree(indexer),
            table: leaf_table(leaves, indexer.shape().leaves() as usize),
            overlapping: leaves.iter().any(|own| own.len() > 1),
        }
    }

    /// The lists of spherical k-means.
    ///
    /// # Shapes
    /// `documents` `[n, dim]` unit rows; `lists` from 1 to n.
    pub(crate) fn k_means(documents: &[f32], dim: usize, lists: usize, seed: u64) -> Result<Self> {
        let options = KMeansOptions { clusters: lists, iterations: IVF_ITERATIONS, seed };
        let count = documents.len() / dim;
        let (centroids, assignments) = if count > lists * SAMPLE_PER_LIST {
            let sample = evenly(documents, dim, lists * SAMPLE_PER_LIST);
            let centroids = Panels::pack(&spherical_kmeans(&sample, dim, &options)?.centroids, dim);
            let assignments = centroids.nearest(documents).assignments;
            (centroids, assignments)
        } else {
            let found = spherical_kmeans(documents, dim, &options)?;
            (Panels::pack(&found.centroids, dim), found.assignments)
        };
        let mut table = vec![Vec::new(); lists];
        for (document, list) in (0u32..).zip(assignments) {
            table[list as usize].push(document);
        }
        Ok(Self { router: Router::Centroids(centroids), table, overlapping: false })
    }

    /// Numbers of lists to measure at: 1, 2, 4 and so on, and all.
    pub(crate) fn settings(&self) -> Vec<usize> {
        crate::eval::doubling(self.table.len()).collect()
    }

    pub(crate) fn table(&self) -> &[Vec<u32>] {
        &self.table
    }

    /// Number of documents in each list.
    pub(crate) fn sizes(&self) -> Vec<usize> {
        self.table.iter().map(Vec::len).collect()
    }

    pub(crate) fn overlapping(&self) -> bool {
        self.overlapping
    }

    /// The lists that a unit query visits, for each of the settings.
    pub(crate) fn routes(&self, unit: &[f32], settings: &[usize]) -> Vec<Route> {
        match &self.router {
            Router::Tree(indexer) => settings
                .iter()
                .map(|&beam| {
                    let routing = indexer.route(unit, NonZeroUsize::new(beam).unwrap_or(NonZeroUsize::MIN));
                    let lists = routing.search.leaves.iter().map(|scored| scored.leaf.index()).collect();
                    Route { lists, multiply_adds: routing.multiply_adds }
                })
                .collect(),
            Router::Centroids(centroids) => {
                let mut scores = vec![0f32; centroids.rows()];
                centroids.dot_products(unit, &mut scores);
                let mut order: Vec<usize> = (0..scores.len()).collect();
                order.sort_by(|&a, &b| scores[b].total_cmp(&scores[a]).then(a.cmp(&b)));
                let multiply_adds = (scores.len() * unit.len()) as u64;
                let route = |&probed: &usize| {
                    let lists = order.iter().take(probed).copied().collect();
                    Route { lists, multiply_adds }
                };
                settings.iter().map(route).collect()
            }
        }
    }
}

/// `most` rows at even distances.
fn evenly(rows: &[f32], dim: usize, most: usize) -> Vec<f32> {
    let count = rows.len() / dim;
    (0..most).flat_map(|place| rows[place * count / most * dim..][..dim].iter().copied()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rows of two directions, one after the other.
    fn rows(count: usize) -> Vec<f32> {
        (0..count).flat_map(|place| if place % 2 == 0 { [1.0, 0.0] } else { [0.0, 1.0] }).collect()
    }

    /// Both ways of learning the centroids, from all rows and from a sample.
    #[test]
    fn every_document_is_in_one_list_and_the_nearest_list_comes_first() {
        for count in [20, 5 * SAMPLE_PER_LIST] {
            let partition = Partition::k_means(&rows(count), 2, 2, 0).unwrap();
            let mut sizes: Vec<usize> = partition.table().iter().map(Vec::len).collect();
            sizes.sort_unstable();
            assert_eq!(sizes, [count / 2, count - count / 2]);
            let routes = partition.routes(&[1.0, 0.0], &[1, 2]);
            assert!(partition.table()[routes[0].lists[0]].contains(&0));
            assert_eq!(routes[1].lists.len(), 2);
            assert_eq!(routes[0].multiply_adds, 4);
        }
    }
}
