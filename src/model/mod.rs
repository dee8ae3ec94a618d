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
mod packed;
mod parts;
mod pooling;
mod profile;
mod query_encoder;
mod reranker;
mod rotation;
mod settings;
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
pub use hub::{DEFAULT_MODEL, fetch};
pub use indexer::Indexer;
pub use load::LoadOptions;
pub use pooling::PoolingMode;
pub use profile::{ENTROPY_QUANTILES, RoutingProfile, RoutingProfiles};
pub use query_encoder::{
    DistilReport, EncodeMicroseconds, EncoderQuality, SignificantDifference, TreeQuality,
};
pub use reranker::Reranker;
#[cfg(feature = "train")]
pub(crate) use reranker::{PairTokens, RerankerDraft};
pub use settings::EncoderSettings;

pub use crate::ids::ModelHash;
pub use crate::tree::{MAX_HEIGHT, MAX_LEAVES, TreeShape, TreeShapeError};

pub(crate) use bundle::{remove_bundle, unused_files};
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub use query_encoder::fuzz_query_encoder;
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub use tokenize::fuzz_tokenizer;

pub(crate) use indexer::RoutingSample;

pub(crate) use query_encoder::FastEncoder;
#[cfg(feature = "train")]
pub(crate) use query_encoder::{HeadWeights, LoadedQueryEncoder, QueryEncoderEntry, SIGNALS, StaticWeights};

#[cfg(feature = "train")]
pub(crate) use bundle::{BundleParts, check_output, publish};
#[cfg(feature = "train")]
pub(crate) use differentiable::Precision;
#[cfg(all(test, feature = "train"))]
pub(crate) use differentiable::tests::random as random_transformer;
#[cfg(feature = "train")]
pub(crate) use differentiable::{AttentionMask, log_softmax, product_with_columns};
#[cfg(feature = "train")]
pub(crate) use encoder::micro_batches;
pub(crate) use files::CARD_FILE;
pub(crate) use files::REPORT_FILE;
#[cfg(feature = "train")]
pub(crate) use files::hex;
#[cfg(feature = "train")]
pub(crate) use indexer::{LevelWeights, TreeWeights};
#[cfg(feature = "train")]
pub(crate) use kernels::scaled_softmax;
#[cfg(feature = "train")]
pub(crate) use packed::{PackedHidden, PackedLayers, PackedTransformer, TOKENS_PER_BATCH};
#[cfg(all(test, feature = "train"))]
pub(crate) use pooling::Step;
#[cfg(feature = "train")]
pub(crate) use pooling::{Pooler, unit_rows};
pub(crate) use tokenize::Token;
#[cfg(feature = "train")]
pub(crate) use tokenize::Tokens;
#[cfg(feature = "train")]
pub(crate) use transformer::{Embeddings, Stack, Transformer};
