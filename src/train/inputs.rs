//! The inputs of a run: settings, texts, their frozen states and the encoder's trainable layers.

use candle_core::Device;

use super::config::TrainConfig;
use super::frozen::FrozenCache;
use super::head::Head;
use super::refresh::Embedded;
use super::texts::Texts;

/// The inputs of every refresh and step, for either tree.
#[derive(Clone, Copy)]
pub(crate) struct Inputs<'a> {
    pub config: &'a TrainConfig,
    pub texts: &'a Texts,
    pub document_cache: &'a FrozenCache<'a>,
    pub query_cache: &'a FrozenCache<'a>,
    pub head: &'a Head<'a>,
    pub device: &'a Device,
    /// Precomputed embeddings, if the encoder is not trained; the caches are then unused.
    pub given: Option<&'a Embedded>,
    /// Precomputed centroids that the tree starts from.
    pub centroids: Option<&'a [f32]>,
}
