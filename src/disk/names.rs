//! Names of every file and directory in an index. `docs/format.md` says what each of them holds.

/// In the directory of an index: which model serves.
pub(crate) const CURRENT: &str = "CURRENT";
/// [`CURRENT`] before it is published; without a [`CURRENT`] its presence marks a create under way.
pub(crate) const CURRENT_NEW: &str = "CURRENT.new";
/// What repair falls back on where [`CURRENT`] is damaged.
pub(crate) const CURRENT_COPY: &str = "CURRENT.copy";
/// In the directory of an index: one directory for each model, named by its number.
pub(crate) const MODELS: &str = "models";
/// In the directory of a model: the bundle.
pub(crate) const BUNDLE: &str = "model";
/// [`BUNDLE`] while it is copied.
pub(crate) const BUNDLE_NEW: &str = "model.new";
/// In the directory of an index: a bundle that is being trained on what the index holds.
pub(crate) const TRAINED: &str = "model.trained";
/// Behind the name of a bundle while it is written; another one has `-` and a number behind it.
pub(crate) const PARTIAL: &str = ".partial";

/// In the directory of an index: the store of what it was told.
pub(crate) const JUDGMENTS: &str = "judgments";

/// In the directory of an index: the questions that it was asked, where that is wanted.
pub(crate) const QUESTIONS: &str = "QUESTIONS";
/// The questions before those in [`QUESTIONS`].
pub(crate) const QUESTIONS_OLD: &str = "QUESTIONS.old";
/// [`QUESTIONS`] before it is put into its place.
pub(crate) const QUESTIONS_NEW: &str = "QUESTIONS.new";

/// In the directory of an index and in that of a store: held locked by the handle that writes.
pub(crate) const LOCK: &str = "LOCK";
/// In both: damaged files that a repair set aside.
pub(crate) const DAMAGED: &str = "damaged";

/// In the directory of a store: the newest durable generation.
pub(crate) const MANIFEST: &str = "MANIFEST";
/// [`MANIFEST`] before it is published; without a [`MANIFEST`] its presence marks a create under way.
pub(crate) const MANIFEST_NEW: &str = "MANIFEST.new";
/// What repair falls back on where the manifest is damaged.
pub(crate) const MANIFEST_COPY: &str = "MANIFEST.copy";
/// Directory of the sealed files.
pub(crate) const SEGMENTS: &str = "segments";
/// Directory of the logs.
pub(crate) const LOG: &str = "log";
/// In the directory of a model: how many leaves its searches need.
pub(crate) const RECALL: &str = "RECALL";
/// [`RECALL`] before it is put into its place.
pub(crate) const RECALL_NEW: &str = "RECALL.new";
/// In the directory of a model: how scores by embeddings and by words are joined.
pub(crate) const FUSION: &str = "FUSION";
/// [`FUSION`] before it is put into its place.
pub(crate) const FUSION_NEW: &str = "FUSION.new";
/// In the directory of a model: what made the embeddings.
pub(crate) const ENCODED: &str = "ENCODED";
/// [`ENCODED`] before it is put into its place.
pub(crate) const ENCODED_NEW: &str = "ENCODED.new";
/// Space kept for a flush on a full disk.
pub(crate) const RESERVE: &str = "RESERVE";
