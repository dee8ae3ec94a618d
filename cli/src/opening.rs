//! Opening an index in commands.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use ehi::model::{EncoderPrecision, LoadOptions, Reranker};
use ehi::store::StoreError;
use ehi::{EmbeddingCache, Error, Index, IndexBuilder};

use crate::arguments::time;
use crate::failure::Failure;
use crate::models;
use crate::printing;

/// Interval between retries if the library does not wait.
const POLL: Duration = Duration::from_millis(50);

#[derive(clap::Args)]
pub struct WaitArgs {
    /// Wait up to this long if another process has the index open for writing
    #[arg(long, value_name = "SECONDS", value_parser = |text: &str| time(text, "seconds", 1.0), default_value = "0")]
    wait: Duration,
}

impl WaitArgs {
    /// Whether it is to wait at all.
    #[cfg(feature = "mcp")]
    pub fn is_asked(&self) -> bool {
        !self.wait.is_zero()
    }

    pub fn builder(&self) -> IndexBuilder {
        Index::builder().lock_wait(self.wait).lazy_encoder(true)
    }

    pub fn open(&self, path: &Path) -> Result<Index, Error> {
        self.builder().open(path)
    }

    /// Retries a call while the index is in use.
    pub fn retry<T>(&self, mut call: impl FnMut() -> Result<T, Error>) -> Result<T, Error> {
        let started = Instant::now();
        loop {
            match call() {
                Err(Error::Store(StoreError::Locked { .. })) if started.elapsed() < self.wait => {
                    thread::sleep(POLL.min(self.wait));
                }
                called => return called,
            }
        }
    }
}

#[derive(Clone, clap::Args)]
pub struct PrecisionArgs {
    /// How texts are encoded: f32, or int8, which is faster and slightly less exact; by default that of the
    /// index, and f32 for a reranker
    #[arg(long, value_name = "PRECISION")]
    encoder_precision: Option<EncoderPrecision>,
}

impl PrecisionArgs {
    /// The options with this precision.
    pub fn of(&self, builder: IndexBuilder) -> IndexBuilder {
        self.encoder_precision.into_iter().fold(builder, IndexBuilder::encoder_precision)
    }

    /// The cross-encoder of a folder, or of a name.
    pub fn open_reranker(&self, given: &Path) -> Result<Reranker, Failure> {
        let options = LoadOptions::new().encoder_precision(self.encoder_precision.unwrap_or_default());
        Ok(options.reranker(models::directory(given)?)?)
    }

    pub fn open_read_only(&self, path: &Path) -> Result<Index, Error> {
        self.of(Index::builder()).open_read_only(path)
    }
}

/// Where embeddings are kept from one index to the next.
#[derive(clap::Args)]
pub struct CacheArgs {
    /// Folder in which embeddings are kept, so that a text is encoded once, whichever index stores it; an
    /// empty name for none. Among the user's caches by default
    #[arg(long, env = "EHI_CACHE", value_name = "DIR")]
    cache: Option<OsString>,
}

impl CacheArgs {
    /// The cache, if there is to be one.
    pub fn cache(&self) -> Option<EmbeddingCache> {
        match &self.cache {
            Some(dir) if dir.is_empty() => None,
            Some(dir) => Some(EmbeddingCache::new(dir)),
            None => EmbeddingCache::of_user(),
        }
    }

    /// The options with this cache.
    pub fn of(&self, builder: IndexBuilder) -> IndexBuilder {
        self.cache().into_iter().fold(builder, IndexBuilder::embedding_cache)
    }
}

/// Whether an index shares the files of its model.
#[derive(clap::Args)]
pub struct OwnModelArgs {
    /// Copy the model into the index, instead of sharing its large files with other indexes
    #[arg(long)]
    pub own_model: bool,
}

/// The index of a command that encodes documents.
#[derive(clap::Args)]
pub struct FillingArgs {
    /// Directory of the index
    #[arg(long, env = "EHI_INDEX", value_name = "DIR")]
    pub index: PathBuf,
    #[command(flatten)]
    precision: PrecisionArgs,
    #[command(flatten)]
    wait: WaitArgs,
    #[command(flatten)]
    pub cache: CacheArgs,
}

impl FillingArgs {
    pub fn open(&self) -> Result<Index, Error> {
        let builder = self.cache.of(self.precision.of(self.wait.builder()));
        builder.lazy_encoder(false).open(&self.index)
    }
}

/// Opens an index for reading; the encoder is loaded only by commands that need it.
pub fn open_read_only(path: &Path) -> Result<Index, Error> {
    Index::builder().lazy_encoder(true).open_read_only(path)
}

/// Refuses a file in place of a directory.
pub fn refuse_file(path: &Path) -> Result<(), Failure> {
    match path.symlink_metadata() {
        // A link may lead to a directory or to nothing.
        Ok(_) if !path.is_dir() => Err(Failure::Usage(format!(
            "{} exists and is not a directory; choose another place for the index",
            printing::path(path)
        ))),
        _ => Ok(()),
    }
}
