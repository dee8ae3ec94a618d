//! What a run reads while it trains: settings, texts, their frozen states, and the encoder's layers on top.

use candle_core::Device;

use super::config::TrainConfig;
use super::frozen::FrozenCache;
use super::head::Head;
use super::refresh::Embedded;
use super::texts::Texts;

/// What every refresh and every step reads, whichever tree is trained.
#[derive(Clone, Copy)]
pub(crate) struct Inputs<'a> {
    pub config: &'a TrainConfig,
    pub texts: &'a Texts,
    pub document_cache: &'a FrozenCache<'a>,
    pub query_cache: &'a FrozenCache<'a>,
    pub head: &'a Head<'a>,
    pub device: &'a Device,
    /// Embeddings that are there already, where the encoder stays as it is; then nothing reads the caches.
    pub given: Option<&'a Embedded>,
    /// Centroids that the tree starts from, where somebody has them already.
    pub centroids: Option<&'a [f32]>,
}
