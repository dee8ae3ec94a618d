//! Text to embedding to leaves: the [`Encoder`], the tree ([`Indexer`]), and the [`Bundle`] that holds both
//! as a directory of files.

#[cfg(feature = "train")]
mod autograd;
mod bundle;
pub(crate) mod config;
mod dense;
mod describe;
#[cfg(feature = "train")]
pub(crate) mod differentiable;
mod encoder;
mod error;
mod files;
mod folder;
#[cfg(feature = "cuda")]
mod gpu;
#[cfg(feature = "hub")]
mod hub;
mod indexer;
mod json;
mod kernels;
mod load;
mod model_store;
mod packed;
mod parts;
mod pooling;
mod profile;
mod query_encoder;
mod reranker;
mod rotation;
mod settings;
mod shared_weights;
mod tokenize;
mod transformer;
mod weights;
mod words;

pub use bundle::{BUNDLE_FORMAT, Bundle, Model};
pub use config::EncoderPrecision;
pub use dense::{DenseActivation, DenseModule};
pub use describe::{EncoderDescription, ReadText};
pub use encoder::{Encoder, Role};
pub use error::ModelError;
pub use files::{ENCODER_FILE, INDEXER_FILE, MANIFEST_FILE, TOKENIZER_FILE};
pub use folder::{Module, Prompt, PromptSource};
#[cfg(feature = "hub")]
pub use hub::{DEFAULT_MODEL, fetch, hub_name};
pub use indexer::Indexer;
pub use load::LoadOptions;
pub use pooling::PoolingMode;
pub use profile::{ENTROPY_QUANTILES, RoutingProfile, RoutingProfiles};
pub use query_encoder::{
    DistilReport, EncodeMicroseconds, EncoderQuality, SignificantDifference, TreeQuality,
};
pub use reranker::Reranker;
pub use settings::EncoderSettings;

pub use crate::ids::ModelHash;
pub use crate::tree::{MAX_HEIGHT, MAX_LEAVES, TreeShape, TreeShapeError};

#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub use {query_encoder::fuzz_query_encoder, tokenize::fuzz_tokenizer};

pub(crate) use bundle::{remove_bundle, unused_files};
pub(crate) use files::{CARD_FILE, REPORT_FILE, has_encoder_files};
#[cfg(feature = "cuda")]
pub(crate) use gpu::AdamWStep;
pub(crate) use indexer::RoutingSample;
pub(crate) use model_store::{ModelStore, Sharing};
pub(crate) use query_encoder::FastEncoder;
pub(crate) use tokenize::Token;
#[cfg(feature = "train")]
pub(crate) use {
    bundle::{BundleParts, check_output, publish},
    differentiable::{AttentionMask, Precision, log_softmax, product_with_columns, rows},
    encoder::micro_batches,
    files::hex,
    indexer::{LevelWeights, TreeWeights},
    kernels::scaled_softmax,
    packed::{PackedHidden, PackedLayers, PackedTransformer, TOKENS_PER_BATCH},
    pooling::{Pooler, unit_rows},
    query_encoder::{HeadWeights, LoadedQueryEncoder, QueryEncoderEntry, SIGNALS, StaticWeights},
    reranker::{PairTokens, RerankerDraft},
    tokenize::Tokens,
    transformer::{Embeddings, Stack, Transformer},
};
#[cfg(all(test, feature = "train"))]
pub(crate) use {differentiable::tests::random as random_transformer, pooling::Step};
