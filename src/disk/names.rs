//! Names of every file and directory in an index. `docs/format.md` describes their contents.

/// In the directory of an index: which model is in service.
pub(crate) const CURRENT: &str = "CURRENT";
/// [`CURRENT`] before it is published; without a [`CURRENT`] it marks an unfinished create.
pub(crate) const CURRENT_NEW: &str = "CURRENT.new";
/// Used by repair if [`CURRENT`] is damaged.
pub(crate) const CURRENT_COPY: &str = "CURRENT.copy";
/// In the directory of an index: one directory for each model, named by its number.
pub(crate) const MODELS: &str = "models";
/// In the directory of a model: the bundle.
pub(crate) const BUNDLE: &str = "model";
/// [`BUNDLE`] while it is being copied.
pub(crate) const BUNDLE_NEW: &str = "model.new";
/// In the directory of an index: a bundle being trained on the index's contents.
pub(crate) const TRAINED: &str = "model.trained";
/// Suffix of a bundle's name while it is being written; further ones have `-` and a number after it.
pub(crate) const PARTIAL: &str = ".partial";

/// In the directory of an index: the store of judgments.
pub(crate) const JUDGMENTS: &str = "judgments";

/// In the directory of an index: the log of questions, if enabled.
pub(crate) const QUESTIONS: &str = "QUESTIONS";
/// The questions before those in [`QUESTIONS`].
pub(crate) const QUESTIONS_OLD: &str = "QUESTIONS.old";

/// In the directory of an index and in that of a store: locked by the handle that writes.
pub(crate) const LOCK: &str = "LOCK";
/// In both: damaged files that a repair set aside.
pub(crate) const DAMAGED: &str = "damaged";

/// In the directory of a store: the newest durable generation.
pub(crate) const MANIFEST: &str = "MANIFEST";
/// [`MANIFEST`] before it is published; without a [`MANIFEST`] it marks an unfinished create.
pub(crate) const MANIFEST_NEW: &str = "MANIFEST.new";
/// Used by repair if the manifest is damaged.
pub(crate) const MANIFEST_COPY: &str = "MANIFEST.copy";
/// Directory of the sealed files.
pub(crate) const SEGMENTS: &str = "segments";
/// Directory of the logs.
pub(crate) const LOG: &str = "log";
/// In the directory of a model: what was measured of it and of its store.
pub(crate) const MEASURED: &str = "MEASURED";
/// [`MEASURED`] before the rename.
pub(crate) const MEASURED_NEW: &str = "MEASURED.new";
/// In the directory of a model: vectors of judged questions.
pub(crate) const MEMORY: &str = "MEMORY";
/// Space reserved for a flush on a full disk.
pub(crate) const RESERVE: &str = "RESERVE";
