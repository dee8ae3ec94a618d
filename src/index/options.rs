//! Options of an index, with their defaults.

use std::path::Path;
use std::time::Duration;

use super::Index;
use super::active_model::{ActiveModel, HandleOptions, Ranking, check_model, tokens_read};
use crate::codes::FEWEST_DIMENSIONS;
use crate::disk::names;
use crate::embedding_cache::EmbeddingCache;
use crate::error::{Error, InputError, Result};
use crate::ids::ModelHash;
use crate::lexical::{Analyzer, Language};
use crate::model::{Bundle, Encoder, EncoderPrecision, LoadOptions, ModelStore};
use crate::passages::Passages;
use crate::scan::Similarity;
use crate::store::{Durability, StoreError, StoreOptions};

/// Options with which an index is created or opened.
///
/// An option that does not apply to the call, or that contradicts the index, is an error.
#[derive(Clone, Debug, Default)]
#[must_use = "options do nothing until `create` or `open`"]
pub struct IndexBuilder {
    similarity: Option<Similarity>,
    durability: Option<Durability>,
    codes: Option<bool>,
    /// `Some(None)`: without words.
    analyzer: Option<Option<Analyzer>>,
    passages: PassagesOption,
    expires: Option<String>,
    lock_wait: Option<Duration>,
    load: LoadOptions,
    own_model: bool,
    cache: Option<EmbeddingCache>,
    /// In place of the user's.
    #[cfg(test)]
    models: Option<ModelStore>,
    expected: Option<ModelHash>,
}

/// A model without an encoder, in a message about an option.
const WITHOUT_ENCODER: &str = "an index without an encoder";

/// Refuses tokens of an encoder as words where there is none.
pub(super) fn check_tokens(bundle: &Bundle, analyzer: Option<Analyzer>) -> Result<()> {
    match (bundle.model().encoder(), analyzer) {
        (Err(_), Some(Analyzer::Tokens)) => {
            Err(InputError::InapplicableOption { option: "tokens", call: WITHOUT_ENCODER }.into())
        }
        _ => Ok(()),
    }
}

/// How the documents of a new index are divided.
#[derive(Clone, Copy, Debug, Default)]
enum PassagesOption {
    #[default]
    Unset,
    Whole,
    Sized,
    Of(u32, u32),
}

impl IndexBuilder {
    /// How documents are ranked (section 3.6). Defaults to what the encoder's folder says
    /// ([`Encoder::similarity`](crate::model::Encoder::similarity)), or else cosine. Fixed when an index is
    /// created. On opening, [`InputError::SimilarityMismatch`] if the index ranks differently.
    ///
    /// For cosine, documents and queries are stored and compared at unit norm; for the others, as the encoder
    /// gives them. Routing through the tree always uses unit norm.
    pub fn similarity(mut self, similarity: Similarity) -> Self {
        self.similarity = Some(similarity);
        self
    }

    /// Which failures writes survive; [`Durability::OnFlush`] by default. Applies to this handle, not to the
    /// index; [`InputError::InapplicableOption`] for a read-only handle.
    pub fn durability(mut self, durability: Durability) -> Self {
        self.durability = Some(durability);
        self
    }

    /// Whether documents are stored with codes in addition to their embeddings
    /// ([`SearchRequest::codes`](crate::SearchRequest::codes)), which takes at most an eighth more space. Yes
    /// by default, except for Manhattan distance and for embeddings with fewer than 64 dimensions. Applies to
    /// what this handle writes; compaction applies it to all documents.
    ///
    /// With `true`, an index that cannot have codes is an error, [`InputError::NoCodes`] or
    /// [`InputError::TooNarrowForCodes`]; [`InputError::InapplicableOption`] for a read-only handle.
    pub fn codes(mut self, codes: bool) -> Self {
        self.codes = Some(codes);
        self
    }

    /// The terms of searches by words ([`RankBy::Lexical`](crate::RankBy::Lexical),
    /// [`RankBy::Hybrid`](crate::RankBy::Hybrid)), or `None` for an index without them; tokens of the encoder
    /// by default, and English stems in an index without an encoder, which has no tokens. They take about 200
    /// bytes per document. Chosen when an index is created; [`Index::make_lexical`] adds them later. On
    /// opening, [`InputError::AnalyzerMismatch`] if the index has another analyzer, and
    /// [`InputError::InapplicableOption`] if only one of both has words.
    pub fn analyzer(mut self, analyzer: impl Into<Option<Analyzer>>) -> Self {
        self.analyzer = Some(analyzer.into());
        self
    }

    /// Stores a row for each passage of a document, so that all of a long text is searched. Passages have at
    /// most `tokens` of the encoder's tokens, are cut between paragraphs and sentences, and overlap by at
    /// most `overlap` tokens ([`Passages`]; 200 and 40, for example). Each is encoded with the title before
    /// it and has its own leaf; a hit is a document, with its best passages
    /// ([`Hit::passages`](crate::Hit::passages)). Without this, a document is one row, encoded from as much
    /// of its text as the encoder reads.
    ///
    /// Fixed when an index is created. [`InputError::InapplicableOption`] for a model without an encoder,
    /// [`InputError::BadPassages`] as for [`Passages::new`] and for more
    /// tokens than the encoder reads; on opening, [`InputError::PassagesMismatch`] if the index has other
    /// passages or none.
    pub fn passages(mut self, tokens: u32, overlap: u32) -> Self {
        self.passages = PassagesOption::Of(tokens, overlap);
        self
    }

    /// Like [`Self::passages`], with passages sized to the encoder of a new index
    /// ([`Passages::sized_to`]): 200 tokens with 40 shared, or less if the encoder reads less. The program
    /// and the Python package create indexes so. Does not apply to an index that exists.
    pub fn sized_passages(mut self) -> Self {
        self.passages = PassagesOption::Sized;
        self
    }

    /// Stores one row for each document. The default of a new index; on opening,
    /// [`InputError::InapplicableOption`] if the index has passages.
    pub fn whole_documents(mut self) -> Self {
        self.passages = PassagesOption::Whole;
        self
    }

    /// Documents expire by this field of their metadata, a path as in a [`Filter`](crate::Filter): at a time
    /// with its zone, such as `"2027-01-31T18:00:00Z"` (RFC 3339), or a number of seconds since 1970. A
    /// document without the field, or with null, never expires; one with another value is refused,
    /// [`InputError::BadExpiry`].
    ///
    /// From that moment on, no call that begins finds the document: it is as if deleted, for every handle and
    /// every kind of search, by the clock of the machine that reads. Its bytes are freed by the next
    /// compaction; if the clock is set back before that, the document may be found again by handles that open
    /// then. [`StoreStats::expired`](crate::store::StoreStats::expired) counts such documents. Opening an
    /// index reads 12 bytes for each document that expires.
    ///
    /// Fixed when an index is created; of up to 512 bytes. On opening, [`InputError::ExpiresMismatch`] if the
    /// index has another field or none.
    pub fn expires(mut self, field: impl Into<String>) -> Self {
        self.expires = Some(field.into());
        self
    }

    /// How long to wait if another handle or process has the index open for writing; not at all by default.
    /// [`InputError::InapplicableOption`] for a read-only handle, which never waits.
    pub fn lock_wait(mut self, most: Duration) -> Self {
        self.lock_wait = Some(most);
        self
    }

    /// How texts are encoded. For a new index, the precision of the index, by default
    /// [`EncoderPrecision::Int8`] if the processor has instructions for it (AVX-512 VNNI or AVX-VNNI) and the
    /// encoder has matrix products, otherwise [`EncoderPrecision::F32`]. On opening, the precision of this
    /// handle, by default that of the index; documents and queries need not be encoded in the same way. A
    /// model that comes into service later has the precision of the handle.
    pub fn encoder_precision(mut self, precision: EncoderPrecision) -> Self {
        self.load = self.load.encoder_precision(precision);
        self
    }

    /// Whether to load the encoder, and check its files, when a text is first encoded instead of when the
    /// index is opened; no by default. For handles that neither store nor search texts: listing, reading and
    /// deleting documents need no encoder.
    pub fn lazy_encoder(mut self, lazy: bool) -> Self {
        self.load = self.load.lazy_encoder(lazy);
        self
    }

    /// Whether an index gets its own copy of each model that this handle puts into it; no by default.
    ///
    /// By default, files of a model of 1 MiB or more are kept once for all indexes of a user, in the folder
    /// `ehi/models` among the user's data (`~/.local/share/ehi/models` on Linux) or that of the variable
    /// `EHI_MODELS`; an empty `EHI_MODELS` means none. The index gets hard links to them, or copies if it is
    /// on another file system. The folder can be removed at any time; it drops files that no index has used
    /// for a day. If the medium damages such a file, all these indexes are damaged; [`Index::repair`] with
    /// the model restores each. [`InputError::InapplicableOption`] for a read-only handle.
    pub fn own_model(mut self, own: bool) -> Self {
        self.own_model = own;
        self
    }

    /// Takes embeddings of documents from a cache, and adds those that are not there; by default there is
    /// none. It also serves the models that a later [`Index::reencode`] brings.
    /// [`InputError::InapplicableOption`] for a read-only handle.
    pub fn embedding_cache(mut self, cache: EmbeddingCache) -> Self {
        self.cache = Some(cache);
        self
    }

    #[cfg(test)]
    pub(super) fn models(self, models: ModelStore) -> Self {
        Self { models: Some(models), ..self }
    }

    /// Makes it an error, [`InputError::ModelMismatch`], if the index has another model in service than this
    /// one.
    pub fn expect_model(mut self, bundle: &Bundle) -> Self {
        self.expected = Some(bundle.hash());
        self
    }

    /// The options that apply to the handle.
    pub(super) fn handle(&self) -> HandleOptions {
        let store = StoreOptions {
            durability: self.durability.unwrap_or_default(),
            lock_wait: self.lock_wait.unwrap_or_default(),
            without_codes: self.codes == Some(false),
        };
        let models = || {
            #[cfg(test)]
            if self.models.is_some() {
                return self.models.clone();
            }
            ModelStore::of_user()
        };
        let models = if self.own_model { None } else { models() };
        let load = self.load.shared(true).usual_precision(EncoderPrecision::fastest());
        HandleOptions { store, load, models, cache: self.cache.clone() }
    }

    /// How a new index with this model ranks.
    ///
    /// # Errors
    /// Options that contradict the model.
    pub(super) fn ranking_of_new(&self, bundle: &Bundle) -> Result<Ranking> {
        let encoder = bundle.model().encoder().ok();
        let similarity = self.similarity.or(encoder.map(Encoder::similarity)).unwrap_or(Similarity::Cosine);
        self.check_against(bundle, similarity)?;
        let usual = encoder.map_or(Analyzer::Stems(Language::English), |_| Analyzer::default());
        let analyzer = self.analyzer.unwrap_or(Some(usual));
        check_tokens(bundle, analyzer)?;
        if encoder.is_none() && matches!(self.passages, PassagesOption::Sized | PassagesOption::Of(..)) {
            return Err(InputError::InapplicableOption { option: "passages", call: WITHOUT_ENCODER }.into());
        }
        let passages = match self.passages {
            PassagesOption::Sized => Passages::sized_to(tokens_read(bundle)?),
            _ => self.given_passages()?,
        };
        Ok(Ranking { similarity, analyzer, passages, expires: self.expires.clone() })
    }

    /// # Errors
    /// Options that contradict the index.
    pub(super) fn check(&self, serving: &ActiveModel) -> Result<()> {
        let index = serving.similarity;
        match (self.analyzer, serving.analyzer()) {
            (Some(Some(given)), Some(index)) if given != index => {
                return Err(InputError::AnalyzerMismatch { index, given }.into());
            }
            (Some(Some(_)), None) | (Some(None), Some(_)) => {
                return Err(InputError::InapplicableOption { option: "analyzer", call: "open" }.into());
            }
            _ => {}
        }
        if let Some(given) = self.given_passages()?.filter(|given| serving.passages() != Some(*given)) {
            return Err(InputError::PassagesMismatch { index: serving.passages(), given }.into());
        }
        if matches!(self.passages, PassagesOption::Whole) && serving.passages().is_some() {
            let call = "an index that has passages";
            return Err(InputError::InapplicableOption { option: "whole_documents", call }.into());
        }
        let index_expires = &serving.store.config().expires;
        if let Some(given) = self.expires.clone().filter(|given| index_expires.as_ref() != Some(given)) {
            return Err(InputError::ExpiresMismatch { index: index_expires.clone(), given }.into());
        }
        match self.similarity.filter(|given| *given != index) {
            Some(given) => Err(InputError::SimilarityMismatch { index, given }.into()),
            None => self.check_against(&serving.bundle, index),
        }
    }

    fn given_passages(&self) -> Result<Option<Passages>> {
        let PassagesOption::Of(tokens, overlap) = self.passages else { return Ok(None) };
        Ok(Some(Passages::new(tokens, overlap).map_err(InputError::from)?))
    }

    fn check_against(&self, bundle: &Bundle, similarity: Similarity) -> Result<()> {
        self.expected.map_or(Ok(()), |expected| check_model(bundle.hash(), expected))?;
        let (dim, least) = (bundle.model().dim(), FEWEST_DIMENSIONS);
        match self.codes {
            Some(true) if !similarity.is_product() => Err(InputError::NoCodes { similarity }.into()),
            Some(true) if dim < least => Err(InputError::TooNarrowForCodes { dim, least }.into()),
            _ => Ok(()),
        }
    }

    /// # Errors
    /// Refuses options of writing for a read-only handle.
    fn check_reading(&self) -> Result<()> {
        let of_writing = [
            ("durability", self.durability.is_some()),
            ("codes", self.codes.is_some()),
            ("lock_wait", self.lock_wait.is_some()),
            ("own_model", self.own_model),
            ("embedding_cache", self.cache.is_some()),
        ];
        match of_writing.into_iter().find(|(_, given)| *given) {
            Some((option, _)) => {
                Err(InputError::InapplicableOption { option, call: "open_read_only" }.into())
            }
            None => Ok(()),
        }
    }

    /// As [`Index::create`], with these options.
    ///
    /// # Errors
    /// Those of [`Index::create`], and those of each option.
    pub fn create(self, path: impl AsRef<Path>, bundle: &Bundle) -> Result<Index> {
        Index::create_on(self.handle().store.backend(), path.as_ref(), bundle, &self)
    }

    /// As [`Index::open`], with these options.
    ///
    /// # Errors
    /// Those of [`Index::open`], and those of each option.
    pub fn open(self, path: impl AsRef<Path>) -> Result<Index> {
        Index::open_on(self.handle().store.backend(), path.as_ref(), &self)
    }

    /// As [`Index::open_or_create`], with these options.
    ///
    /// # Errors
    /// Those of [`Index::open_or_create`], and those of each option.
    pub fn open_or_create(self, path: impl AsRef<Path>, bundle: &Bundle) -> Result<Index> {
        let expected = self.expected.unwrap_or(bundle.hash());
        check_model(bundle.hash(), expected)?;
        let is_there = || path.as_ref().join(names::CURRENT).exists();
        let again = self.clone();
        let open = || match bundle.model().has_encoder() {
            true => again.expect_model(bundle).open(&path),
            false => again.open_for_vectors(path.as_ref(), bundle.model().dim()),
        };
        if is_there() {
            return open();
        }
        match self.create(&path, bundle) {
            // Another process was faster.
            Err(Error::Store(StoreError::AlreadyExists { .. })) if is_there() => open(),
            created => created,
        }
    }

    /// Opens an index without an encoder. It may have a tree by now, so that its model is another.
    fn open_for_vectors(self, path: &Path, given: usize) -> Result<Index> {
        let opened = self.open(path)?;
        let bundle = opened.bundle();
        let index = bundle.model().dim();
        if bundle.model().has_encoder() {
            let call = "an index that has an encoder";
            return Err(InputError::InapplicableOption { option: "dim", call }.into());
        }
        if index != given {
            return Err(InputError::WidthMismatch { index, given }.into());
        }
        Ok(opened)
    }

    /// As [`Index::open_read_only`], with these options.
    ///
    /// # Errors
    /// Those of [`Index::open_read_only`], and those of each option.
    pub fn open_read_only(self, path: impl AsRef<Path>) -> Result<Index> {
        self.check_reading()?;
        Index::open_for_reading(path.as_ref(), &self)
    }
}
