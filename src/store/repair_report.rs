//! The result of a repair.

use std::path::PathBuf;

use serde::{Serialize, Serializer};

use crate::serialize::lossy_paths;

/// The result of a repair. Serialised with `was_sound`, as [`Self::was_sound`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(remote = "Self")]
#[non_exhaustive]
pub struct RepairReport {
    /// Whether `CURRENT` was damaged or missing, and was recreated.
    pub current_restored: bool,
    /// Whether the previous model was damaged, and what could be read of it is kept.
    pub previous_model_repaired: bool,
    /// Whether the previous model was damaged beyond repair, and was set aside: there is no rollback to it.
    pub previous_model_set_aside: bool,
    /// Whether the tree of the previous model is lost.
    pub previous_tree_lost: bool,
    /// Documents whose embedding in the previous model is lost for good: it has no encoder, and the present
    /// model other embeddings.
    pub lost_previous_embeddings: u64,
    /// Whether the manifest was damaged, and was restored from its copy.
    pub manifest_restored: bool,
    /// Whether the model was damaged, and was replaced by the given bundle.
    pub model_restored: bool,
    /// Whether the model's tree is lost, and the index now has another one or none.
    pub tree_lost: bool,
    /// Whether the query encoder was damaged, and was removed.
    pub query_encoder_removed: bool,
    /// Whether the log was damaged, and now has only the whole commits.
    pub log_damaged: bool,
    /// Commits of a damaged log that were kept; the next handle that opens the index for writing brings them
    /// back.
    pub kept_commits: u64,
    /// Commits of a damaged log that could not be read.
    pub lost_commits: u64,
    /// Documents that commits in the log now store; the next handle that opens the index for writing brings
    /// them back.
    pub waiting_documents: u64,
    /// Number of damaged segments.
    pub damaged_segments: u64,
    /// Bytes of these segments that were flipped, and were put right by the checksums of their pages.
    pub mended_bytes: u64,
    /// Live documents now, without those that are only in the log.
    pub documents: u64,
    /// Documents of damaged segments that could be read.
    pub recovered: u64,
    /// How many of them had their embedding or leaves recomputed, apart from the next.
    pub recomputed: u64,
    /// How many of them have their embedding from the previous model.
    pub embeddings_of_previous: u64,
    /// Documents that could not be read.
    pub lost: u64,
    /// The ids of those documents, if readable; at most the first 100.
    pub lost_ids: Vec<String>,
    /// Documents that were kept without their embedding, which could not be made again: they have no text, or
    /// the index no encoder. Words and filters find them, and a search by embeddings ranks them as similar
    /// to nothing, until they are stored again with their embeddings.
    pub lost_embeddings: u64,
    /// The ids of those documents; at most the first 100.
    pub lost_embedding_ids: Vec<String>,
    /// Documents kept or left out although it is unknown whether they had been deleted.
    pub undecided: u64,
    /// Whether any of the judgments' files were damaged; readable judgments are kept.
    pub judgments_damaged: bool,
    /// Whether no judgments could be read, and all are set aside.
    pub judgments_set_aside: bool,
    /// Judgments that could not be read.
    pub lost_judgments: u64,
    /// Commits of judgments in a damaged log that could not be read, of up to 4,096 each.
    pub lost_judgment_commits: u64,
    /// Judgments that commits in the log now store.
    pub waiting_judgments: u64,
    /// Judgments kept or left out although it is unknown whether they had been forgotten.
    pub undecided_judgments: u64,
    /// Unusable measurements of the model, in words: missing, or set aside.
    pub unmeasured: Vec<String>,
    /// The new paths of the damaged files.
    #[serde(serialize_with = "lossy_paths")]
    pub set_aside: Vec<PathBuf>,
    /// What earlier repairs had set aside, and this one removed.
    #[serde(serialize_with = "lossy_paths")]
    pub forgotten: Vec<PathBuf>,
}

impl Serialize for RepairReport {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        /// The derived fields.
        fn fields<S: Serializer>(report: &&RepairReport, serializer: S) -> Result<S::Ok, S::Error> {
            RepairReport::serialize(report, serializer)
        }
        #[derive(Serialize)]
        struct Shown<'a> {
            was_sound: bool,
            #[serde(flatten, serialize_with = "fields")]
            report: &'a RepairReport,
        }
        Shown { was_sound: self.was_sound(), report: self }.serialize(serializer)
    }
}

impl RepairReport {
    /// Whether there was nothing to do.
    pub fn was_sound(&self) -> bool {
        !self.current_restored
            && !self.previous_model_repaired
            && !self.previous_model_set_aside
            && !self.manifest_restored
            && !self.model_restored
            && !self.query_encoder_removed
            && !self.log_damaged
            && !self.judgments_damaged
            && !self.judgments_set_aside
            && self.damaged_segments == 0
            && self.unmeasured.is_empty()
    }
}
