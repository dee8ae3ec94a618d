//! The confidence of a tree on a set of embeddings, and the distribution over its leaves.

use std::num::NonZeroUsize;

use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use super::bundle::Bundle;
use super::encoder::Role;
use super::error::ModelError;
use super::files;
use super::files::REPORT_FILE;
use super::indexer::{Indexer, RoutingSample};

/// Nodes kept on each level to find a row's most probable leaf. With one level, any number finds it.
const BEAM: NonZeroUsize = NonZeroUsize::new(8).unwrap();
/// Shares of the rows at which [`RoutingProfile::entropy_quantiles`] are taken.
pub const ENTROPY_QUANTILES: [f64; 5] = [0.1, 0.25, 0.5, 0.75, 0.9];

/// How a tree routes a set of embeddings: the reference that later sets are compared with.
///
/// The entropy of a row is in nats: that of the choice among the children, summed over the nodes
/// on the path to its most probable leaf. With one level that is the entropy of its distribution
/// over the leaves. It lies between 0 and the logarithm of the number of leaves.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct RoutingProfile {
    /// Embeddings measured.
    pub rows: usize,
    /// Mean entropy.
    pub mean_entropy: f64,
    /// Entropies that 10, 25, 50, 75 and 90 % of the rows do not exceed ([`ENTROPY_QUANTILES`]).
    pub entropy_quantiles: [f64; 5],
    /// Mean probability of the most probable leaf.
    pub mean_top_probability: f64,
    /// For each leaf, the share of the rows whose most probable leaf it is; they sum to 1.
    pub leaf_shares: Vec<f64>,
}

/// The profiles of a training run, under the key `routing` of its report.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct RoutingProfiles {
    /// Profile of the corpus.
    pub documents: RoutingProfile,
    /// Profile of the training queries.
    pub queries: RoutingProfile,
    /// Documents of the collection that the corpus is a sample of; `None` if it is the whole collection.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub collection: Option<usize>,
}

impl RoutingProfile {
    /// Routes rows and measures the tree's confidence, in parallel over rows.
    ///
    /// # Shapes
    /// `unit_rows` `[n, dim]` f32, row-major, of unit norm; an incomplete last row is ignored.
    pub fn measure(indexer: &Indexer, unit_rows: &[f32]) -> Self {
        let samples: Vec<RoutingSample> = unit_rows
            .par_chunks_exact(indexer.dim())
            .map(|row| indexer.route(row, BEAM, Role::Document).sample)
            .collect();
        Self::of(&samples, indexer.shape().leaves())
    }

    pub(crate) fn of(samples: &[RoutingSample], leaves: u32) -> Self {
        let mut leaf_shares = vec![0.0; leaves as usize];
        if samples.is_empty() {
            return Self { leaf_shares, ..Self::default() };
        }
        let n = samples.len() as f64;
        let mut entropies: Vec<f64> = samples.iter().map(|s| f64::from(s.entropy)).collect();
        entropies.sort_by(f64::total_cmp);
        for sample in samples {
            leaf_shares[sample.leaf.index()] += 1.0 / n;
        }
        let last = entropies.len() - 1;
        Self {
            rows: samples.len(),
            mean_entropy: entropies.iter().sum::<f64>() / n,
            // The nearest rank.
            entropy_quantiles: ENTROPY_QUANTILES
                .map(|share| entropies[((n * share).ceil() as usize).saturating_sub(1).min(last)]),
            mean_top_probability: samples.iter().map(|s| f64::from(s.top_probability)).sum::<f64>() / n,
            leaf_shares,
        }
    }

    /// Expected load of a leaf relative to an even load, if as many rows as were measured are distributed; 1
    /// is even.
    pub fn skew(&self) -> f64 {
        self.leaf_shares.len() as f64 * self.leaf_shares.iter().map(|share| share * share).sum::<f64>()
    }

    /// The share of one set that would have to move to other leaves to match the other's distribution: half
    /// the sum of the absolute differences of shares, from 0 to 1.
    pub fn shift(&self, other: &Self) -> f64 {
        let pairs = self.leaf_shares.iter().zip(&other.leaf_shares);
        pairs.map(|(a, b)| (a - b).abs()).sum::<f64>() / 2.0
    }
}

impl RoutingProfiles {
    /// Combines both profiles.
    pub fn new(documents: RoutingProfile, queries: RoutingProfile) -> Self {
        Self { documents, queries, collection: None }
    }

    /// Documents that the tree was made for.
    pub fn collection(&self) -> usize {
        self.collection.unwrap_or(self.documents.rows)
    }

    /// The same, for a sample from a collection of this many documents.
    #[cfg(feature = "train")]
    pub(crate) fn of_collection(self, documents: usize) -> Self {
        Self { collection: (documents > self.documents.rows).then_some(documents), ..self }
    }
}

impl Bundle {
    /// How the tree routed its corpus and its training queries when it was trained; `None` for a bundle
    /// without a tree or a report, and for a report without profiles.
    ///
    /// # Errors
    /// [`ModelError::Json`] for a report that is damaged, [`ModelError::BadSetting`] for a
    /// profile of another tree, [`ModelError::Io`].
    pub fn routing_profiles(&self) -> Result<Option<RoutingProfiles>, ModelError> {
        #[derive(Deserialize)]
        struct Report {
            routing: Option<RoutingProfiles>,
        }
        let path = self.path().join(REPORT_FILE);
        // A report next to an encoder belongs to another model.
        if !self.has_tree() || !path.exists() {
            return Ok(None);
        }
        let Report { routing } = files::read_json(&path)?;
        let leaves = self.model().indexer().shape().leaves();
        if let Some(profiles) = &routing {
            for profile in [&profiles.documents, &profiles.queries] {
                if profile.leaf_shares.len() != leaves as usize {
                    return Err(ModelError::bad_config(
                        path,
                        "number of leaf_shares",
                        profile.leaf_shares.len(),
                        format!("one for each of {leaves} leaves"),
                    ));
                }
            }
        }
        Ok(routing)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::LeafId;

    fn sample(entropy: f32, leaf: u32) -> RoutingSample {
        RoutingSample { entropy, top_probability: 0.5, leaf: LeafId(leaf) }
    }

    #[test]
    fn figures_by_hand() {
        let samples: Vec<_> = (0u16..10).map(|n| sample(f32::from(n), u32::from(n % 2))).collect();
        let profile = RoutingProfile::of(&samples, 3);
        assert_eq!((profile.rows, profile.mean_entropy, profile.mean_top_probability), (10, 4.5, 0.5));
        assert_eq!(profile.entropy_quantiles, [0.0, 2.0, 4.0, 7.0, 8.0]);
        let near = |a: f64, b: f64| (a - b).abs() < 1e-12;
        assert!(near(profile.leaf_shares[0], 0.5) && near(profile.leaf_shares[1], 0.5));
        assert_eq!(profile.leaf_shares[2], 0.0);

        let elsewhere = RoutingProfile::of(&[sample(1.0, 2)], 3);
        assert!(near(profile.shift(&elsewhere), 1.0));
        assert!(near(profile.shift(&RoutingProfile::of(&samples[..1], 3)), 0.5));
        assert_eq!(profile.shift(&profile), 0.0);
        let nothing = RoutingProfile::of(&[], 3);
        assert_eq!((nothing.rows, nothing.leaf_shares.len()), (0, 3));
        let json = serde_json::to_string(&profile).unwrap();
        assert_eq!(serde_json::from_str::<RoutingProfile>(&json).unwrap(), profile);
    }
}
