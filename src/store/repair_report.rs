//! What a repair found and did.

use std::path::PathBuf;

use serde::ser::{Serialize, SerializeStruct, Serializer};

use crate::serialize::LossyPaths;

/// What a repair found and did. Serialised with `was_sound`, as [`Self::was_sound`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RepairReport {
    /// Whether `CURRENT` was damaged or missing, and was made again.
    pub current_restored: bool,
    /// Whether the model before the last change was damaged, and was set aside.
    pub previous_model_set_aside: bool,
    /// Whether the manifest was damaged, and is now that of its copy.
    pub manifest_restored: bool,
    /// Whether the model was damaged, and is now that of the bundle given.
    pub model_restored: bool,
    /// Whether the query encoder was damaged, and was taken away.
    pub query_encoder_removed: bool,
    /// Whether the log was damaged, and now has the whole commits alone.
    pub log_damaged: bool,
    /// Commits of a damaged log that were kept; the next handle that opens the index for writing brings them
    /// back.
    pub kept_commits: u64,
    /// Commits of a damaged log that could not be read.
    pub lost_commits: u64,
    /// Documents that commits in the log store now; the next handle that opens the index for writing brings
    /// them back.
    pub waiting_documents: u64,
    /// Segments that were damaged.
    pub damaged_segments: u64,
    /// Live documents now, without those that are in the log only.
    pub documents: u64,
    /// Documents of damaged segments that could be read.
    pub recovered: u64,
    /// Those among them whose embedding or leaves were computed anew.
    pub recomputed: u64,
    /// Documents that could not be read.
    pub lost: u64,
    /// The ids of those, as far as they could be read; the first 100.
    pub lost_ids: Vec<String>,
    /// Documents that were kept or left out without knowing whether they had been deleted.
    pub undecided: u64,
    /// Whether anything of the judgments was damaged; what could be read of them is kept.
    pub judgments_damaged: bool,
    /// Whether nothing of the judgments could be read, and all are set aside.
    pub judgments_set_aside: bool,
    /// Judgments that could not be read.
    pub lost_judgments: u64,
    /// Commits of judgments in a damaged log that could not be read, of up to 4,096 each.
    pub lost_judgment_commits: u64,
    /// Judgments that commits in the log store now.
    pub waiting_judgments: u64,
    /// Judgments that were kept or left out without knowing whether they had been forgotten.
    pub undecided_judgments: u64,
    /// What was measured of the model and cannot be used, in words: it is missing, or is set aside.
    pub unmeasured: Vec<String>,
    /// Where the damaged files are now.
    pub set_aside: Vec<PathBuf>,
    /// What earlier repairs had set aside and is removed now.
    pub forgotten: Vec<PathBuf>,
}

impl Serialize for RepairReport {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self {
            current_restored,
            previous_model_set_aside,
            manifest_restored,
            model_restored,
            query_encoder_removed,
            log_damaged,
            kept_commits,
            lost_commits,
            waiting_documents,
            damaged_segments,
            documents,
            recovered,
            recomputed,
            lost,
            lost_ids,
            undecided,
            judgments_damaged,
            judgments_set_aside,
            lost_judgments,
            lost_judgment_commits,
            waiting_judgments,
            undecided_judgments,
            unmeasured,
            set_aside,
            forgotten,
        } = self;
        let mut fields = serializer.serialize_struct("RepairReport", 26)?;
        fields.serialize_field("was_sound", &self.was_sound())?;
        fields.serialize_field("current_restored", current_restored)?;
        fields.serialize_field("previous_model_set_aside", previous_model_set_aside)?;
        fields.serialize_field("manifest_restored", manifest_restored)?;
        fields.serialize_field("model_restored", model_restored)?;
        fields.serialize_field("query_encoder_removed", query_encoder_removed)?;
        fields.serialize_field("log_damaged", log_damaged)?;
        fields.serialize_field("kept_commits", kept_commits)?;
        fields.serialize_field("lost_commits", lost_commits)?;
        fields.serialize_field("waiting_documents", waiting_documents)?;
        fields.serialize_field("damaged_segments", damaged_segments)?;
        fields.serialize_field("documents", documents)?;
        fields.serialize_field("recovered", recovered)?;
        fields.serialize_field("recomputed", recomputed)?;
        fields.serialize_field("lost", lost)?;
        fields.serialize_field("lost_ids", lost_ids)?;
        fields.serialize_field("undecided", undecided)?;
        fields.serialize_field("judgments_damaged", judgments_damaged)?;
        fields.serialize_field("judgments_set_aside", judgments_set_aside)?;
        fields.serialize_field("lost_judgments", lost_judgments)?;
        fields.serialize_field("lost_judgment_commits", lost_judgment_commits)?;
        fields.serialize_field("waiting_judgments", waiting_judgments)?;
        fields.serialize_field("undecided_judgments", undecided_judgments)?;
        fields.serialize_field("unmeasured", unmeasured)?;
        fields.serialize_field("set_aside", &LossyPaths(set_aside))?;
        fields.serialize_field("forgotten", &LossyPaths(forgotten))?;
        fields.end()
    }
}

impl RepairReport {
    /// Whether there was nothing to do.
    pub fn was_sound(&self) -> bool {
        !self.current_restored
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

    /// Takes over what another report says of judgments.
    pub(crate) fn with_judgments(&mut self, of: Self) {
        self.judgments_damaged = of.judgments_damaged;
        self.judgments_set_aside = of.judgments_set_aside;
        self.lost_judgments = of.lost_judgments;
        self.lost_judgment_commits = of.lost_judgment_commits;
        self.waiting_judgments = of.waiting_judgments;
        self.undecided_judgments = of.undecided_judgments;
        self.set_aside.extend(of.set_aside);
    }
}
