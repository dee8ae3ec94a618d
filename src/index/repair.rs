//! Repair of an index that does not open, or that is damaged inside.

use std::path::Path;

use super::Index;
use super::placing::Placer;
use super::serving::{check_model, copy_model_into, model_dir, store_dir};
use crate::error::{Error, Result};
use crate::model::{Bundle, ModelHash};
use crate::progress::{OnProgress, Progress, Stage, no_progress};
use crate::scan::Similarity;
use crate::store::{Repair, RepairReport, StoreError, StoreOptions, Undecided};

/// Options of [`Index::repair`].
#[derive(Clone, Default)]
pub struct RepairOptions {
    /// The bundle that the index was made with, for the case that its own copy is damaged.
    pub bundle: Option<Bundle>,
    /// What to do with documents that may have been deleted.
    pub undecided: Undecided,
}

impl Index {
    /// Brings a damaged index back to what can be read of it, also where it does not open; says what is lost.
    ///
    /// A damaged manifest is replaced by its copy; a damaged model by the bundle in the options, which must be the very
    /// one. Of damaged segments every document is kept whose text matches its checksum; its embedding and leaves
    /// are computed anew where they do not, from the text, also those that were given. Damaged files are never removed: they go to the folder `damaged` of the
    /// index. A sound index is left as it is, except that what is not sealed stays in the journal.
    ///
    /// No handle may have the index open for writing.
    ///
    /// # Errors
    /// [`StoreError::Locked`]; [`StoreError::Undecided`] where the options have to decide; [`StoreError::Corrupt`] where
    /// the manifest and its copy are damaged; [`ModelError`](crate::ModelError) for a damaged model and no bundle;
    /// [`InputError::ModelMismatch`](crate::InputError::ModelMismatch) for another bundle. The documents are then
    /// as they were.
    pub fn repair(path: impl AsRef<Path>, options: &RepairOptions) -> Result<RepairReport> {
        Self::repair_with(path, options, &mut no_progress)
    }

    /// As [`Self::repair`], with progress in documents written and cancellation between them.
    ///
    /// # Errors
    /// Those of [`Self::repair`], and [`Error::Cancelled`] with the documents as they were.
    pub fn repair_with(
        path: impl AsRef<Path>,
        options: &RepairOptions,
        on_progress: &mut OnProgress<'_>,
    ) -> Result<RepairReport> {
        let path = path.as_ref();
        let root = Repair::begin(path, StoreOptions::default())?;
        let number = root.models().current;
        let dir = store_dir(path, number);
        if number == 0 {
            return finish(root, &dir, options, on_progress);
        }
        // Says where the documents are; those beside it are an earlier model's, or none.
        let mut root = root;
        root.forsake_if_damaged()?;
        let mut report = finish(Repair::begin(&dir, StoreOptions::default())?, &dir, options, on_progress)?;
        report.manifest_restored |= root.report.manifest_restored;
        report.damaged_segments += root.report.damaged_segments;
        report.set_aside.extend(root.report.set_aside);
        Ok(report)
    }
}

fn finish(
    mut repair: Repair,
    dir: &Path,
    options: &RepairOptions,
    on_progress: &mut OnProgress<'_>,
) -> Result<RepairReport> {
    let bundle = restore_model(&mut repair, dir, options)?;
    let similarity = Similarity::from_code(repair.config().similarity).unwrap_or(Similarity::Cosine);
    let placer = Placer { bundle: &bundle, similarity };
    let mut done = 0;
    let mut tick = || {
        done += 1;
        Progress { stage: Stage::Repair, done, total: None }.tell(on_progress, StoreError::Cancelled)
    };
    let repaired = repair.run(options.undecided, &mut |documents| placer.prepare(documents), &mut tick);
    match repaired {
        Err(Error::Store(StoreError::Cancelled)) => Err(Error::Cancelled),
        other => other,
    }
}

/// The index's own model, or the one given where that is damaged.
fn restore_model(repair: &mut Repair, dir: &Path, options: &RepairOptions) -> Result<Bundle> {
    let expected = ModelHash(repair.config().model_hash);
    let own = Bundle::open(model_dir(dir)).map_err(Error::from);
    let own = own.and_then(|own| check_model(expected, own.hash()).map(|()| own));
    let (error, given) = match (own, &options.bundle) {
        (Ok(own), _) => return Ok(own),
        (Err(error), None) => return Err(error),
        (Err(error), Some(given)) => (error, given),
    };
    check_model(expected, given.hash())?;
    tracing::warn!(index = %dir.display(), %error, "the model is damaged and is replaced by the one given");
    if model_dir(dir).exists() {
        repair.set_directory_aside(&model_dir(dir))?;
    }
    copy_model_into(given, dir)?;
    repair.sync()?;
    repair.report.model_restored = true;
    Ok(Bundle::open(model_dir(dir))?)
}
