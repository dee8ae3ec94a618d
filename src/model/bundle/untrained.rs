//! Bundles without a tree: of an untrained encoder, or of none.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::{
    Bundle, BundleManifest, ENCODER_FILE, INDEXER_FILE, MANIFEST_FILE, ModelError, carried_files, files,
    is_width,
};
use crate::input::InputError;
use crate::model::{EncoderSettings, Indexer, LoadOptions, Model};

impl Bundle {
    /// A model without a tree from an encoder in the sentence-transformers layout
    /// ([`Encoder::load`](crate::model::Encoder::load) lists the files). An index with it needs no training:
    /// it searches every document.
    ///
    /// From a bundle's folder, only the encoder is taken. Nothing is written there; an index copies the
    /// weights unchanged. [`Index::reencode`](crate::Index::reencode) describes the later change to a trained
    /// bundle.
    ///
    /// # Examples
    /// ```no_run
    /// use ehi::{Bundle, Document, Index};
    ///
    /// let model = Bundle::from_encoder("all-MiniLM-L6-v2")?;
    /// let index = Index::open_or_create("./my-index", &model)?;
    /// index.insert(Document::new("id-1", "title", "text"))?;
    /// # Ok::<(), ehi::Error>(())
    /// ```
    ///
    /// # Errors
    /// Those of [`Encoder::load`](crate::model::Encoder::load). [`ModelError::NotAModel`] also for a
    /// bundle without its `ehi.json`.
    pub fn from_encoder(dir: impl AsRef<Path>) -> Result<Self, ModelError> {
        Self::from_encoder_with(dir, &EncoderSettings::default())
    }

    /// As [`Self::from_encoder`], with settings that override those of the folder. They are part of the model
    /// and change its hash and its embeddings.
    ///
    /// # Errors
    /// Those of [`Self::from_encoder`], and [`ModelError::BadSetting`] for more dimensions than the encoder
    /// has.
    pub fn from_encoder_with(dir: impl AsRef<Path>, settings: &EncoderSettings) -> Result<Self, ModelError> {
        let dir = dir.as_ref().to_owned();
        // A bundle that has lost its list of checksums.
        if dir.join(INDEXER_FILE).exists() && !dir.join(MANIFEST_FILE).exists() {
            return Err(ModelError::not_a_model(dir, MANIFEST_FILE));
        }
        let encoder = LoadOptions::new().encoder_with(&dir, settings)?;
        let weights = files::encoder_file(&dir);
        if !dir.join(weights).exists() {
            return Err(ModelError::not_a_model(dir, ENCODER_FILE));
        }
        let names = carried_files(&dir)?.into_iter().chain([weights.to_owned()]);
        let digest = |name: String| Ok((files::digest(&dir.join(&name))?, name));
        let digests = names.map(digest).collect::<Result<Vec<_>, ModelError>>()?;
        let files = digests.into_iter().map(|(digest, name)| (name, digest)).collect();
        let indexer = Indexer::single_leaf(encoder.dim())?;
        let manifest = BundleManifest::new(Some(&encoder), &indexer, files);
        Ok(Self::of(dir, manifest, Model { encoder: Some(encoder), indexer }, None))
    }

    /// A model without an encoder and without a tree, for embeddings of any model, `[dim]` f32.
    ///
    /// An index with it takes documents with their embeddings ([`Index::insert_vectors`]), and questions as
    /// embeddings, as texts, which it searches by words alone, or as both together
    /// ([`Question::Encoded`](crate::search::Question::Encoded)). [`Index::tune`] gives it a tree, and
    /// [`Index::reencode`] an encoder. Whatever else needs an encoder is [`InputError::NoEncoder`]. It is
    /// made in memory: [`Self::path`] is empty.
    ///
    /// [`Index::insert_vectors`]: crate::Index::insert_vectors
    /// [`Index::tune`]: crate::Index::tune
    /// [`Index::reencode`]: crate::Index::reencode
    ///
    /// # Examples
    /// ```no_run
    /// use ehi::{Bundle, Document, Index, SearchRequest};
    ///
    /// let index = Index::create("./vectors", &Bundle::for_vectors(3)?)?;
    /// index.insert_vectors([(Document::new("id-1", "title", "text"), vec![0.1, 0.2, 0.3])])?;
    /// let nearest = index.search_with(&[0.1, 0.2, 0.2], &SearchRequest::default())?;
    /// let by_words = index.search_with("text", &SearchRequest::default())?;
    /// # Ok::<(), ehi::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`InputError::OutOfRange`] for a width of 0 or above 65,536.
    pub fn for_vectors(dim: usize) -> Result<Self, InputError> {
        let indexer = if is_width(dim) { Indexer::single_leaf(dim).ok() } else { None };
        let (what, expected) = ("the number of dimensions", "from 1 to 65536");
        let indexer = indexer.ok_or(InputError::OutOfRange { what, found: dim as f64, expected })?;
        let manifest = BundleManifest::new(None, &indexer, BTreeMap::new());
        Ok(Self::of(PathBuf::new(), manifest, Model { encoder: None, indexer }, None))
    }
}
