//! Whether the tree still fits the stored documents and the queries: [`Health`], made by [`Index::health`],
//! and the thresholds behind its [`Advice`].

use std::fmt;

use serde::{Serialize, Serializer};

use super::Index;
pub use super::remedy::{Remedy, RemedyCommand};
pub use super::routing_log::RECENT;
use super::search::MOST_EXACT_DOCUMENTS;
use crate::error::Result;
use crate::ids::LeafId;
use crate::model::{RoutingProfile, RoutingProfiles};
use crate::store::LeafSize;
use crate::tree::Load;

/// Below this number of rows, no conclusion is drawn.
pub const FEWEST_RECENT: usize = 50;
/// Ratio of expected to even load from which retraining pays. A beam then costs four times as much as in a
/// balanced tree; the shipped tree has 1.1 on its corpus.
pub const SKEWED: f64 = 4.0;
/// The same ratio relative to that of the training corpus, if known.
pub const SKEW_GROWTH: f64 = 2.0;
/// The same for a collection at least as large as the one its tree was made for, and so large that searches
/// use the tree. In a collection sorted by subject, the load becomes this uneven when it has grown by a
/// third, and a search then visits a third more documents than with a new tree; if subjects are mixed, growth
/// does not change the load (`docs/lab/experiments.md`).
pub const SKEW_GROWTH_OF_MANY: f64 = 1.25;
/// Ratio of live documents to those that the tree was made for, from which a new tree pays: measured in
/// `docs/lab/experiments.md`.
pub const GROWN: usize = 2;
/// Positions of the median and the 75 % quantile in a profile. A recent *median* above the reference's 75 %
/// quantile means that half are as uncertain as a quarter was; with [`FEWEST_RECENT`] rows from one source,
/// chance does this once in thousands of trials.
const MEDIAN: usize = 2;
const UNCERTAIN: usize = 3;
/// Share of rows that go to other leaves than in training, above chance, from which the partition no longer
/// fits.
pub const SHIFTED: f64 = 0.25;

/// Routing of recent rows or queries compared with training.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct RoutingHealth {
    /// The newest ones; `None` without any.
    pub recent: Option<RoutingProfile>,
    /// Those of training; `None` if the model does not record them.
    pub reference: Option<RoutingProfile>,
    /// Share of recent rows that go to other leaves than in training, from 0 to 1; `None` if either is
    /// missing.
    pub shift: Option<f64>,
    /// The shift that as many rows drawn from the training distribution would show by chance.
    pub shift_by_chance: Option<f64>,
}

/// A problem, with its figures.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Advice {
    /// There are many documents, but no tree, so searches score every one.
    NoTree {
        /// Live documents.
        documents: usize,
    },
    /// The collection is [`GROWN`] times as large as when the tree was made.
    Grown {
        /// Live documents.
        documents: usize,
        /// Documents then.
        trained: usize,
    },
    /// Searches score every document, because the number of leaves they need has not been measured.
    NotCalibrated {
        /// Live documents.
        documents: usize,
    },
    /// The load of the leaves is uneven.
    Skewed {
        /// Expected documents per leaf divided by the even load.
        skew: f64,
        /// The same for the training corpus.
        trained: Option<f64>,
    },
    /// The tree is less certain of new documents than of most training documents.
    UncertainDocuments {
        /// Their median entropy, in nats.
        recent: f64,
        /// The median of training.
        trained: f64,
    },
    /// New documents go to other leaves.
    ShiftedDocuments {
        /// The share of them.
        shift: f64,
    },
    /// The tree is less certain of recent queries than of most training queries.
    UncertainQueries {
        /// Their median entropy, in nats.
        recent: f64,
        /// The median of training.
        trained: f64,
    },
    /// Recent queries go to other leaves.
    ShiftedQueries {
        /// The share of them.
        shift: f64,
    },
}

impl fmt::Display for Advice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoTree { documents } => {
                write!(f, "there is no tree, so each search scores all {documents} documents")
            }
            Self::Grown { documents, trained } => {
                write!(f, "the tree was made for {trained} documents, and there are {documents} now")
            }
            Self::NotCalibrated { documents } => write!(
                f,
                "searches without a beam score all {documents} documents, since it was not measured how many \
                 leaves they need, or the collection has doubled or halved since"
            ),
            Self::Skewed { skew, trained } => {
                write!(f, "the load of the leaves is uneven: a visited leaf is {skew:.1} times the average")?;
                if let Some(trained) = trained {
                    write!(f, ", {trained:.1} times in training")?;
                }
                Ok(())
            }
            Self::UncertainDocuments { recent, trained } => write!(
                f,
                "the tree is unsure of new documents (median entropy {recent:.2} nats, {trained:.2} in training); they \
                 are unlike its corpus"
            ),
            Self::ShiftedDocuments { shift } => {
                write!(f, "{:.0}% of the new documents go to other leaves than the corpus did", shift * 100.0)
            }
            Self::UncertainQueries { recent, trained } => write!(
                f,
                "the tree is unsure of recent queries (median entropy {recent:.2} nats, {trained:.2} in training)"
            ),
            Self::ShiftedQueries { shift } => write!(
                f,
                "{:.0}% of the recent queries go to other leaves than those of training",
                shift * 100.0
            ),
        }
    }
}

fn in_words<T: Serialize + fmt::Display, S: Serializer>(
    all: &[T],
    serializer: S,
) -> std::result::Result<S::Ok, S::Error> {
    #[derive(Serialize)]
    struct InWords<'a, T> {
        #[serde(flatten)]
        own: &'a T,
        sentence: String,
    }
    serializer.collect_seq(all.iter().map(|own| InWords { own, sentence: own.to_string() }))
}

/// Load of the leaves, and routing of recent rows and queries.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Health {
    /// Live documents.
    pub documents: usize,
    /// Leaves of the tree.
    pub leaves: u32,
    /// Leaves without a document.
    pub empty_leaves: usize,
    /// The leaf with the most documents; `None` without any.
    pub largest_leaf: Option<LeafSize>,
    /// Documents that a visited leaf holds on average, if a leaf is visited in proportion to its documents:
    /// sum of p_i c_i (section 4.6).
    pub expected_documents_per_leaf: f64,
    /// Entries over leaves: its value at a perfectly even load.
    pub ideal_documents_per_leaf: f64,
    /// Ratio of the two; 1 is even.
    pub skew: f64,
    /// The skew of the training corpus, if known.
    pub trained_skew: Option<f64>,
    /// The newest rows, at most [`RECENT`], that are still live.
    pub documents_routing: RoutingHealth,
    /// The newest queries served by this handle, at most [`RECENT`]; exact searches are not routed.
    pub queries_routing: RoutingHealth,
    /// Problems found; empty if there are none, or nothing to compare with. Serialised with a `sentence`, as
    /// the advice is displayed.
    #[serde(serialize_with = "in_words")]
    pub advice: Vec<Advice>,
    /// Remedies, with their cost; also serialised with a `sentence`.
    #[serde(serialize_with = "in_words")]
    pub remedies: Vec<Remedy>,
}

impl Index {
    /// Whether the tree still fits: the load of its leaves, and its certainty about the newest documents and
    /// queries, compared with training.
    ///
    /// Costs routing [`RECENT`] rows. Queries are those that this handle has answered with the tree. For
    /// damage use [`Self::verify`].
    ///
    /// # Errors
    /// Failures of the file system; [`ModelError`](crate::model::ModelError) for a damaged training report.
    pub fn health(&self) -> Result<Health> {
        let serving = self.serving();
        let reference = serving.bundle.routing_profiles()?;
        let indexer = &serving.model().indexer;
        let leaves = indexer.shape().leaves();
        let view = serving.view();
        let mut rows = Vec::new();
        for row in view.newest(RECENT)? {
            rows.extend(serving.unit_row(&view, row)?);
        }
        // Count what the tree routes: rows, of which a document with passages has several.
        let documents = view.live_rows();
        let sizes = serving.leaf_sizes(&view)?;
        let Load { expected, ideal, empty } = Load::of(&sizes);
        let skew = if ideal == 0.0 { 1.0 } else { expected / ideal };
        let allowed = reference.as_ref().map(|reference| allowed_skew(documents, reference));
        let trained_skew = reference.as_ref().map(|reference| reference.documents.skew());
        let growth = reference.as_ref().and_then(|reference| grown(documents, reference));
        let (trained_documents, trained_queries) =
            reference.map(|reference| (reference.documents, reference.queries)).unzip();
        let documents_routing =
            RoutingHealth::new(RoutingProfile::measure(indexer, &rows), trained_documents);
        let queries_routing =
            RoutingHealth::new(RoutingProfile::of(&serving.served.samples(), leaves), trained_queries);

        let mut advice = Vec::new();
        if !serving.bundle.has_tree() && documents > MOST_EXACT_DOCUMENTS {
            advice.push(Advice::NoTree { documents });
        }
        advice.extend(growth);
        if self.needs_calibration() {
            advice.push(Advice::NotCalibrated { documents });
        }
        // A few documents cannot be spread evenly.
        let enough = documents >= FEWEST_RECENT.max(leaves as usize);
        if enough && skew >= allowed.unwrap_or(SKEWED) {
            advice.push(Advice::Skewed { skew, trained: trained_skew });
        }
        if let Some((recent, trained)) = documents_routing.uncertain() {
            advice.push(Advice::UncertainDocuments { recent, trained });
        }
        if let Some(shift) = documents_routing.shifted() {
            advice.push(Advice::ShiftedDocuments { shift });
        }
        if let Some((recent, trained)) = queries_routing.uncertain() {
            advice.push(Advice::UncertainQueries { recent, trained });
        }
        if let Some(shift) = queries_routing.shifted() {
            advice.push(Advice::ShiftedQueries { shift });
        }
        let remedies = self.remedies(&serving, &view, &advice)?;
        Ok(Health {
            documents: view.live(),
            leaves,
            empty_leaves: empty,
            // The first of several largest.
            largest_leaf: (0..leaves)
                .map(LeafId)
                .zip(sizes)
                .rev()
                .max_by_key(|&(_, size)| size)
                .filter(|&(_, size)| size > 0)
                .map(|(leaf, size)| LeafSize { leaf, documents: size }),
            expected_documents_per_leaf: expected,
            ideal_documents_per_leaf: ideal,
            skew,
            trained_skew,
            documents_routing,
            queries_routing,
            advice,
            remedies,
        })
    }

    /// Whether the index is due for a first or a new tree, because the collection has grown or the leaves
    /// have become unevenly loaded. The cheap part of [`Self::health`].
    ///
    /// Only for collections so large that searches use the tree.
    ///
    /// # Errors
    /// [`ModelError`](crate::model::ModelError) for a damaged training report; damaged posting lists.
    pub fn tuning_due(&self) -> Result<Option<Advice>> {
        let serving = self.serving();
        let view = serving.view();
        // Count what the tree routes: rows, of which a document with passages has several.
        let documents = view.live_rows();
        if documents <= MOST_EXACT_DOCUMENTS {
            return Ok(None);
        }
        if !serving.bundle.has_tree() {
            return Ok(Some(Advice::NoTree { documents }));
        }
        let Some(reference) = serving.bundle.routing_profiles()? else { return Ok(None) };
        if let Some(grown) = grown(documents, &reference) {
            return Ok(Some(grown));
        }
        let Load { expected, ideal, .. } = Load::of(&serving.leaf_sizes(&view)?);
        let (skew, trained) = (expected / ideal, reference.documents.skew());
        let is_skewed = documents >= reference.collection() && skew >= allowed_skew(documents, &reference);
        Ok(is_skewed.then_some(Advice::Skewed { skew, trained: Some(trained) }))
    }
}

fn grown(documents: usize, reference: &RoutingProfiles) -> Option<Advice> {
    let trained = reference.collection();
    // If searches do not use the tree, nobody would notice.
    (documents > MOST_EXACT_DOCUMENTS && documents >= GROWN * trained)
        .then_some(Advice::Grown { documents, trained })
}

/// Ratio of expected to even load from which a tree is outgrown.
fn allowed_skew(documents: usize, reference: &RoutingProfiles) -> f64 {
    let many = documents > MOST_EXACT_DOCUMENTS && documents >= reference.collection();
    reference.documents.skew() * if many { SKEW_GROWTH_OF_MANY } else { SKEW_GROWTH }
}

impl RoutingHealth {
    fn new(recent: RoutingProfile, reference: Option<RoutingProfile>) -> Self {
        let known = |profile: &RoutingProfile| profile.rows > 0;
        let (recent, reference) = (Some(recent).filter(known), reference.filter(known));
        let both = recent.as_ref().zip(reference.as_ref());
        let shift = both.map(|(recent, reference)| recent.shift(reference));
        // The share p of n rows deviates by sqrt(2 p (1 - p) / (pi n)) on average, on either side.
        let shift_by_chance = both.map(|(recent, reference)| {
            let spread = |n: usize| 2.0 / (std::f64::consts::PI * n as f64);
            let n = spread(recent.rows) + spread(reference.rows);
            let shares = reference.leaf_shares.iter();
            shares.map(|p| (p * (1.0 - p) * n).max(0.0).sqrt()).sum::<f64>() / 2.0
        });
        Self { recent, reference, shift, shift_by_chance }
    }

    fn enough(&self) -> Option<(&RoutingProfile, &RoutingProfile)> {
        let both = self.recent.as_ref().zip(self.reference.as_ref());
        both.filter(|(recent, _)| recent.rows >= FEWEST_RECENT)
    }

    /// Median entropies, if the recent one is too high.
    fn uncertain(&self) -> Option<(f64, f64)> {
        let (recent, reference) = self.enough()?;
        let (recent, reference) = (recent.entropy_quantiles, reference.entropy_quantiles);
        (recent[MEDIAN] > reference[UNCERTAIN]).then_some((recent[MEDIAN], reference[MEDIAN]))
    }

    fn shifted(&self) -> Option<f64> {
        self.enough()?;
        self.shift.filter(|shift| *shift >= self.shift_by_chance.unwrap_or(0.0) + SHIFTED)
    }
}
