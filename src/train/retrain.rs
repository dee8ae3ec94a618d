//! Training on what an index holds, and the change over to what came of it.

use super::dataset::TrainingSet;
use super::trainer::{Fitted, Trainer};
use crate::disk::names;
use crate::error::Result;
use crate::index::{Index, LearnedFusion, ModelChange, WithoutText};
use crate::model::Bundle;

/// What [`Index::retrain`] did.
#[derive(Debug)]
pub struct Retrained {
    /// The trained model, and the report with its verdict.
    pub fitted: Fitted,
    /// The change over to it.
    pub change: ModelChange,
    /// How words count beside the new model, learned from the questions that training set aside; `None` where
    /// the index has no words, or too few questions were set aside ([`Index::fuse`]).
    pub fusion: Option<LearnedFusion>,
}

impl Index {
    /// Trains encoder and tree on the documents stored here and pairs of a query and the id of a document
    /// that answers it, and changes over to the new model as [`Self::reencode`] does.
    ///
    /// `trainer` has the settings. Its base is the index's own model where it has none, and its output a
    /// folder of the index that is removed in the end. Its progress callback hears of the change of model
    /// too, and may cancel it. Changes over whatever the verdict says: to decide by it, call [`Trainer::fit`]
    /// on [`TrainingSet::from_index`], read the report, and then [`Self::reencode`]; or [`Self::rollback`]
    /// afterwards.
    ///
    /// # Errors
    /// Those of [`TrainingSet::from_index`], [`Trainer::fit`] and [`Self::reencode`]; the index is then as
    /// before.
    pub fn retrain(
        &self,
        pairs: impl IntoIterator<Item = (String, String)>,
        trainer: Trainer<'_>,
    ) -> Result<Retrained> {
        self.check_writable()?;
        // Until the change is done: it is made from what serves now.
        let _only = self.alone()?;
        let trainer = trainer.of_collection()?;
        let set = TrainingSet::from_index(self, pairs)?;
        if trainer.trains_encoder() {
            WithoutText::of(&set.documents).refuse()?;
        }
        let (trainer, mut on_progress) = trainer.take_progress();
        let bundle = self.bundle();
        let given = trainer.has_output();
        let output = self.path().join(names::TRAINED);
        self.clear_begun()?;
        let trainer = if given { trainer } else { trainer.output(&output) };
        let retrained =
            trainer.base_if_none(bundle.path()).on_progress(&mut *on_progress).fit(&set).and_then(|fitted| {
                let change = match given {
                    true => self.change_model_alone(&fitted.bundle, &mut *on_progress)?,
                    false => self.change_to_passing(&fitted.bundle, &mut *on_progress)?,
                };
                let fusion = self.fuse_after(&set, &mut *on_progress);
                Ok(Retrained { fitted, change, fusion })
            });
        if given {
            return retrained;
        }
        // The index has its own copy by now, or is as before.
        self.clear_begun()?;
        let mut retrained = retrained?;
        retrained.fitted.bundle = Bundle::clone(&self.bundle());
        Ok(retrained)
    }
}
