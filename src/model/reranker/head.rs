//! The head of a reranker, in the form of each family of transformers.

use std::path::Path;

use crate::model::dense::{Dense, DenseActivation, DenseModule};
use crate::model::error::ModelError;
use crate::model::folder;
use crate::model::pooling::{LayerNorm, Pooler, PoolingMode, Step};
use crate::model::weights::Weights;

/// The names of a head's parts in a file of weights.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct HeadNames {
    pub inner: &'static str,
    pub norm: Option<&'static str>,
    pub outer: &'static str,
    activation: DenseActivation,
}

pub(super) const BERT: HeadNames =
    HeadNames { inner: "pooler.dense", norm: None, outer: "classifier", activation: DenseActivation::Tanh };
/// Also MPNet's.
pub(super) const ROBERTA: HeadNames =
    HeadNames { inner: "classifier.dense", outer: "classifier.out_proj", ..BERT };
pub(super) const DISTILBERT: HeadNames =
    HeadNames { inner: "pre_classifier", activation: DenseActivation::Relu, ..BERT };
/// The activation is in its configuration.
pub(super) const MODERNBERT: HeadNames = HeadNames { inner: "head.dense", norm: Some("head.norm"), ..BERT };

impl HeadNames {
    /// The parts in the order of the steps of [`load`].
    pub(super) fn parts(&self) -> Vec<&'static str> {
        [Some(self.inner), self.norm, Some(self.outer)].into_iter().flatten().collect()
    }
}

/// The head of a classifier with one output, and the names of its parts.
pub(super) fn load(dir: &Path, weights: &Weights, m: usize) -> Result<(Pooler, HeadNames), ModelError> {
    let has = |name: &str| weights.shape(&format!("{name}.weight")).is_some();
    // The most specific first: RoBERTa's names begin with the name of another family's part.
    let known = [ROBERTA, DISTILBERT, BERT, MODERNBERT];
    let names = known.into_iter().find(|names| names.parts().into_iter().all(has)).ok_or_else(|| {
        let why = "its weights have no classifier of BERT's, RoBERTa's or ModernBERT's form".to_owned();
        ModelError::OtherPurpose { path: dir.to_owned(), wanted: "reranker", why }
    })?;
    let dense = |name: &str, outputs, activation| {
        let bias = weights.shape(&format!("{name}.bias")).is_some();
        let config = DenseModule { inputs: m, outputs, bias, activation, ..DenseModule::default() };
        Ok::<_, ModelError>(Step::Dense(Dense::of(weights, name, &config)?))
    };
    let (mut pooling, mut activation, mut norm) = (PoolingMode::Cls, names.activation, None);
    if let Some(name) = names.norm {
        let eps;
        (pooling, activation, eps) = folder::modern_head(dir)?;
        let weight = weights.values(&format!("{name}.weight"), &[m])?;
        norm = Some(Step::LayerNorm(LayerNorm::new(weight, eps)?));
    }
    let mut steps = vec![dense(names.inner, m, activation)?];
    steps.extend(norm);
    steps.push(dense(names.outer, 1, DenseActivation::Identity)?);
    Ok((Pooler::new(vec![pooling], steps, m, None), names))
}
