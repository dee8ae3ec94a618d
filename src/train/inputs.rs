//! The inputs of a run: settings, texts, and what embeds them.

use candle_core::Device;

use super::config::TrainConfig;
use super::frozen::FrozenCache;
use super::head::Head;
use super::optimizer::Parameter;
use super::refresh::Embedded;
use super::texts::Texts;

/// The inputs of every refresh and step, for either tree.
#[derive(Clone, Copy)]
pub(crate) struct Inputs<'a> {
    pub config: &'a TrainConfig,
    pub texts: &'a Texts,
    pub device: &'a Device,
    pub by: EmbeddedBy<'a>,
}

/// What embeds the texts of a run.
#[derive(Clone, Copy)]
pub(crate) enum EmbeddedBy<'a> {
    Encoder(EncoderInputs<'a>),
    /// The embeddings are known, and only the tree is trained.
    Given(&'a GivenEmbeddings),
}

/// The encoder's trainable layers, and the states that they read.
#[derive(Clone, Copy)]
pub(crate) struct EncoderInputs<'a> {
    pub head: &'a Head<'a>,
    pub document_cache: &'a FrozenCache<'a>,
    pub query_cache: &'a FrozenCache<'a>,
}

/// Precomputed embeddings that a run reads instead of texts.
pub(crate) struct GivenEmbeddings {
    pub texts: Texts,
    pub embedded: Embedded,
    /// Documents in the collection that these are a sample of.
    pub collection: usize,
    /// Centroids that the tree starts from, `[leaves, dim]` of unit norm: k-means of the documents.
    pub centroids: Vec<f32>,
}

impl<'a> Inputs<'a> {
    /// The encoder's trainable tensors.
    pub(crate) fn encoder_parameters(&self) -> &'a [Parameter] {
        match self.by {
            EmbeddedBy::Encoder(encoder) => encoder.head.parameters(),
            EmbeddedBy::Given(_) => &[],
        }
    }
}
