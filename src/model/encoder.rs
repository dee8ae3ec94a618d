//! The text encoder E_theta: tokenise, transform, pool, normalise.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

#[cfg(feature = "train")]
use candle_core::Tensor;
use rayon::prelude::*;

use super::config::{EncoderPrecision, TransformerConfig};
use super::describe::ReadText;
use super::error::ModelError;
use super::files::{self, CONFIG_FILE, TOKENIZER_FILE};
use super::folder::{self, Folder, Prompt};
use super::load::LoadOptions;
use super::packed::TOKENS_PER_BATCH;
use super::parts::{EncoderFiles, LazyParts};
use super::pooling::Pooler;
use super::settings::EncoderSettings;
use super::tokenize::{TextTokenizer, Tokens};
#[cfg(feature = "train")]
use super::transformer::Transformer;
use crate::progress::Tick;
use crate::scan::{Similarity, has_direction};

/// The role of a text; some models have a different prompt for each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Role {
    /// A search query.
    Query,
    /// A stored document.
    Document,
}

/// A text encoder with its tokenizer.
///
/// Embeddings are f32 rows of width [`Encoder::dim`]; whether they have unit norm depends on the model's
/// settings (`modules.json`).
pub struct Encoder {
    parts: LazyParts,
    pub(crate) pooler: Arc<Pooler>,
    folder: Folder,
    settings: EncoderSettings,
    /// Tokens of each role's prompt, computed on first use.
    prompt_tokens: [OnceLock<usize>; 2],
}

impl std::fmt::Debug for Encoder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Encoder")
            .field("dim", &self.dim())
            .field("folder", &self.folder)
            .finish_non_exhaustive()
    }
}

/// Texts tokenised at a time, to bound memory.
const TEXTS_PER_ROUND: usize = 256;
/// How long a round should take after which the caller is asked whether to continue. At its end some threads
/// wait for the others.
const ROUND: Duration = Duration::from_millis(200);
/// Of the first such round.
const BATCHES_PER_THREAD: usize = 4;

/// Bytes of a text that are searched first for a known token.
const FIRST_BYTES: usize = 64;

/// The tokens of a question.
pub(crate) struct QuestionTokens {
    /// The tokens that the encoder reads, including special ones.
    pub all: Vec<u32>,
    /// The tokens that are not punctuation.
    pub words: Vec<u32>,
}

impl Encoder {
    /// Loads an encoder in the sentence-transformers layout; [`LoadOptions`] offers other precisions than
    /// f32.
    ///
    /// Required: `config.json`, `tokenizer.json` and the weights, `model.safetensors`, as f32, f16 or bf16.
    /// Optional, with the defaults in brackets: `modules.json` and the folders of its modules (mean pooling,
    /// unit norm); `sentence_bert_config.json` (the maximum length of `tokenizer_config.json`, at most that
    /// of the positions); `config_sentence_transformers.json` (no prompts, or those of the model's card if
    /// this crate knows the model by name; `docs/models.md` has the list).
    ///
    /// # Errors
    /// [`ModelError`] names the file and the problem. An unimplemented setting is
    /// [`ModelError::BadSetting`], a model for another purpose [`ModelError::OtherPurpose`], weights in
    /// another format [`ModelError::BadFile`].
    pub fn load(dir: &Path) -> Result<Self, ModelError> {
        LoadOptions::new().encoder(dir)
    }

    /// Whether it has a table of token vectors and no layers, and so no precision but f32.
    pub(crate) fn is_static(&self) -> bool {
        self.parts.source.config.layers == 0
    }

    /// How texts are encoded.
    pub fn precision(&self) -> EncoderPrecision {
        self.parts.source.precision
    }

    /// Width m of the embeddings.
    pub fn dim(&self) -> usize {
        self.pooler.dim
    }

    /// How embeddings are compared, from the model's folder; cosine by default.
    pub fn similarity(&self) -> Similarity {
        self.folder.similarity
    }

    /// The prompt of a role.
    pub fn prompt(&self, role: Role) -> &Prompt {
        match role {
            Role::Query => &self.folder.query_prompt,
            Role::Document => &self.folder.document_prompt,
        }
    }

    /// Settings that are not in the folder's files: given ones, or those known by the model's name.
    pub fn settings(&self) -> &EncoderSettings {
        &self.settings
    }

    /// Its directory.
    pub(super) fn dir(&self) -> &Path {
        &self.parts.source.dir
    }

    /// The settings of the folder.
    pub(crate) fn folder(&self) -> &Folder {
        &self.folder
    }

    /// Tokens at the start of each text in a role that are not pooled: those of the prompt, if the folder
    /// excludes it.
    ///
    /// # Errors
    /// [`ModelError::BadSetting`] for a prompt that leaves no room for a text, [`ModelError::Tokenizer`].
    pub(crate) fn skipped(&self, role: Role) -> Result<usize, ModelError> {
        let prompt = &self.prompt(role).text;
        if prompt.is_empty() {
            return Ok(0);
        }
        let known = &self.prompt_tokens[role as usize];
        let tokens = match known.get() {
            Some(&tokens) => tokens,
            None => {
                let tokens = self.tokenizer()?.prompt_tokens(prompt)?;
                *known.get_or_init(|| tokens)
            }
        };
        if tokens + 1 >= self.max_tokens() {
            return Err(ModelError::bad_config(
                &self.parts.source.dir,
                "number of tokens of a prompt",
                tokens,
                format!("less than the {} that a text may have, by 2", self.max_tokens()),
            ));
        }
        Ok(if self.folder.include_prompt { 0 } else { tokens })
    }

    pub(crate) fn config(&self) -> &TransformerConfig {
        &self.parts.source.config
    }

    /// The layers with their weights.
    ///
    /// # Errors
    /// Those of [`Self::load`], if this call loads the weights.
    #[cfg(feature = "train")]
    pub(crate) fn transformer(&self) -> Result<&Transformer<Tensor>, ModelError> {
        self.parts.transformer()
    }

    /// The longest text read in full, in tokens; a longer one is truncated.
    pub fn max_tokens(&self) -> usize {
        self.parts.source.text.max_tokens
    }

    /// The tokenizer.
    ///
    /// # Errors
    /// Those of [`Self::load`], if this call loads it.
    pub(crate) fn tokenizer(&self) -> Result<&TextTokenizer, ModelError> {
        self.parts.tokenizer()
    }

    /// Token ids of a text in its role, including prompt and special tokens.
    ///
    /// Only the start of a text that is long compared to [`Self::max_tokens`] is read: 64 bytes per token, or
    /// up to 512 if those give fewer tokens, cut at white space if possible.
    ///
    /// # Errors
    /// [`ModelError::Tokenizer`] if the tokenizer refuses the text.
    pub fn tokenize(&self, text: &str, role: Role) -> Result<Vec<u32>, ModelError> {
        let prompt = &self.prompt(role).text;
        let tokenizer = self.tokenizer()?;
        if prompt.is_empty() {
            tokenizer.encode(text)
        } else {
            tokenizer.encode(&format!("{prompt}{}", tokenizer.head(text)))
        }
    }

    /// Whether the encoder reads any token of a text. Only an encoder without special tokens may read none.
    ///
    /// # Errors
    /// [`ModelError::Tokenizer`] if the tokenizer refuses the text.
    pub(crate) fn knows(&self, text: &str) -> Result<bool, ModelError> {
        if self.folder.text.tokens == Tokens::Marked {
            return Ok(true);
        }
        let tokenizer = self.tokenizer()?;
        // The first words are nearly always enough.
        let start = text.get(..FIRST_BYTES).and_then(|start| start.rsplit_once(char::is_whitespace));
        match start {
            Some((start, _)) if !tokenizer.encode(start)?.is_empty() => Ok(true),
            _ => Ok(!tokenizer.encode(text)?.is_empty()),
        }
    }

    /// The tokens that the encoder reads from a text in its role.
    ///
    /// # Errors
    /// [`ModelError::Tokenizer`] if the tokenizer refuses the text.
    pub fn read_text(&self, text: &str, role: Role) -> Result<ReadText, ModelError> {
        let ids = self.tokenize(text, role)?;
        let tokens = ids.iter().map(|&id| self.token(id)).collect();
        Ok(ReadText { ids, tokens, pooled_from: self.skipped(role)? })
    }

    /// The tokens of a question; `None` if they do not cover its text exactly, or some are unknown.
    pub(crate) fn question(&self, text: &str) -> Result<Option<QuestionTokens>, ModelError> {
        if !self.folder.query_prompt.text.is_empty() {
            return Ok(None);
        }
        let tokenizer = self.tokenizer()?;
        let all = tokenizer.encode(text)?;
        let words = tokenizer.known_words(&all).filter(|_| all.len() < self.max_tokens());
        Ok(words.map(|words| QuestionTokens { words, all }))
    }

    /// Number of prompt and special tokens of a document, which count towards [`Self::max_tokens`].
    ///
    /// # Errors
    /// [`ModelError::Tokenizer`] if the tokenizer refuses the prompt.
    pub(crate) fn tokens_around(&self) -> Result<usize, ModelError> {
        // A letter is one token.
        Ok(self.tokenize("a", Role::Document)?.len().saturating_sub(1))
    }

    /// Whether a token is only punctuation. Few texts contain a question mark, so it would have a high but
    /// meaningless weight in a question.
    pub(crate) fn is_punctuation(&self, token: u32) -> bool {
        self.tokenizer().is_ok_and(|tokenizer| tokenizer.is_punctuation(token))
    }

    /// Whether a token continues the word of the token before it.
    pub(crate) fn continues(&self, token: u32) -> bool {
        self.tokenizer().is_ok_and(|tokenizer| tokenizer.continues(token))
    }

    /// A token as written in the vocabulary; empty for an unknown one.
    pub(crate) fn token(&self, token: u32) -> String {
        self.tokenizer().map(|tokenizer| tokenizer.token(token)).unwrap_or_default()
    }

    /// Embeddings of `texts`, row by row, in order.
    ///
    /// Runs on the calling thread's rayon pool, in micro-batches of similar length without
    /// padding: a text's embedding does not depend on the others in the batch beyond the
    /// last bits of rounding.
    ///
    /// # Shapes
    /// Output `[texts, dim]` f32.
    ///
    /// # Errors
    /// [`ModelError::BadEmbedding`] names the first text whose embedding is not finite or zero, and
    /// [`ModelError::NoTokens`] the first without any token known to a static encoder, such as an empty text.
    pub fn embed(&self, texts: &[&str], role: Role) -> Result<Vec<f32>, ModelError> {
        self.embed_in_rounds(texts, role, None)
    }

    /// As [`Self::embed`], and calls `tick` on the calling thread several times a second, which returns
    /// whether to continue.
    ///
    /// # Errors
    /// Those of [`Self::embed`], and [`ModelError::Cancelled`].
    pub fn embed_with(
        &self,
        texts: &[&str],
        role: Role,
        tick: &mut Tick<'_>,
    ) -> Result<Vec<f32>, ModelError> {
        self.embed_in_rounds(texts, role, Some(tick))
    }

    fn embed_in_rounds(
        &self,
        texts: &[&str],
        role: Role,
        mut tick: Option<&mut Tick<'_>>,
    ) -> Result<Vec<f32>, ModelError> {
        // Loaded before starting threads, each of which would load it.
        let packed = self.parts.packed()?;
        self.tokenizer()?;
        let skip = self.skipped(role)?;
        let mut rows = Vec::with_capacity(texts.len() * self.dim());
        for (round, chunk) in texts.chunks(TEXTS_PER_ROUND).enumerate() {
            let tokens =
                chunk.par_iter().map(|text| self.tokenize(text, role)).collect::<Result<Vec<_>, _>>()?;
            if let Some(index) = tokens.iter().position(Vec::is_empty) {
                return Err(ModelError::NoTokens { index: round * TEXTS_PER_ROUND + index });
            }
            let embedded = in_micro_batches(&tokens, self.dim(), tick.as_deref_mut(), |_, batch| {
                Ok(self.pooler.packed(&packed.forward(batch)?, skip))
            })?;
            if let Some(index) = embedded.chunks(self.dim()).position(|row| !has_direction(row)) {
                return Err(ModelError::BadEmbedding { index: round * TEXTS_PER_ROUND + index });
            }
            rows.extend_from_slice(&embedded);
        }
        Ok(rows)
    }
}

/// Runs texts through a model on the current rayon pool, in micro-batches. `run` takes the numbers of some
/// texts and their tokens and returns `[texts, width]`; the rows are arranged in the order of `texts`. `tick`
/// is called several times a second, between rounds, and returns whether to continue.
pub(super) fn in_micro_batches(
    texts: &[Vec<u32>],
    width: usize,
    tick: Option<&mut Tick<'_>>,
    run: impl Fn(&[usize], &[&[u32]]) -> Result<Vec<f32>, ModelError> + Sync,
) -> Result<Vec<f32>, ModelError> {
    let out = Mutex::new(vec![0f32; texts.len() * width]);
    let run_one = |batch: Vec<usize>| -> Result<(), ModelError> {
        let tokens: Vec<&[u32]> = batch.iter().map(|&i| texts[i].as_slice()).collect();
        let rows = run(&batch, &tokens)?;
        let mut out = out.lock().unwrap_or_else(PoisonError::into_inner);
        for (&index, row) in batch.iter().zip(rows.chunks_exact(width)) {
            out[index * width..][..width].copy_from_slice(row);
        }
        Ok(())
    };
    let mut batches = micro_batches(texts, TOKENS_PER_BATCH);
    match tick {
        None => batches.into_par_iter().try_for_each(run_one)?,
        Some(tick) => {
            let mut size = BATCHES_PER_THREAD * rayon::current_num_threads();
            while !batches.is_empty() {
                let begun = Instant::now();
                let rest = batches.split_off(size.min(batches.len()));
                std::mem::replace(&mut batches, rest).into_par_iter().try_for_each(run_one)?;
                if tick().is_break() {
                    return Err(ModelError::Cancelled);
                }
                let change = ROUND.div_duration_f64(begun.elapsed().max(Duration::from_micros(1)));
                size = (size as f64 * change.min(8.0)).ceil() as usize;
            }
        }
    }
    Ok(out.into_inner().unwrap_or_else(PoisonError::into_inner))
}

/// Groups texts, longest first, so that no group holds more than `budget` tokens (or one text).
pub(crate) fn micro_batches(texts: &[Vec<u32>], budget: usize) -> Vec<Vec<usize>> {
    let mut order: Vec<usize> = (0..texts.len()).collect();
    order.sort_by_key(|&i| std::cmp::Reverse(texts[i].len()));
    let mut batches: Vec<Vec<usize>> = Vec::new();
    let mut room = 0;
    for index in order {
        let length = texts[index].len();
        match batches.last_mut() {
            Some(batch) if length <= room => {
                batch.push(index);
                room -= length;
            }
            _ => {
                batches.push(vec![index]);
                room = budget.saturating_sub(length);
            }
        }
    }
    batches
}

impl LoadOptions {
    /// As [`Encoder::load`], with these options.
    ///
    /// # Errors
    /// Those of [`Encoder::load`].
    pub fn encoder(self, dir: impl AsRef<Path>) -> Result<Encoder, ModelError> {
        self.encoder_with(dir, &EncoderSettings::default())
    }

    /// As [`Self::encoder`], with settings that override those of the folder.
    ///
    /// # Errors
    /// Those of [`Encoder::load`], and [`ModelError::BadSetting`] for more dimensions than the encoder has.
    pub fn encoder_with(
        self,
        dir: impl AsRef<Path>,
        settings: &EncoderSettings,
    ) -> Result<Encoder, ModelError> {
        self.encoder_of(dir.as_ref(), settings, BTreeMap::new())
    }

    /// The encoder in `dir`, whose `unchecked` files are checked before use: for a lazy encoder, weights and
    /// tokenizer when a text is first encoded.
    pub(super) fn encoder_of(
        self,
        dir: &Path,
        settings: &EncoderSettings,
        unchecked: BTreeMap<PathBuf, String>,
    ) -> Result<Encoder, ModelError> {
        let family = folder::static_family(dir)?;
        let config_path = dir.join(CONFIG_FILE);
        let tokenizer = dir.join(files::tokenizer_file(dir));
        for (is_there, missing) in
            [(family.is_some() || config_path.exists(), CONFIG_FILE), (tokenizer.exists(), TOKENIZER_FILE)]
        {
            if !is_there {
                return Err(ModelError::not_a_model(dir, missing));
            }
        }
        let precision = match family {
            Some(_) => self.only_f32(dir, "a table of token vectors has no matrix products")?,
            None => self.precision(),
        };
        let config = match family {
            Some(family) => folder::static_config(dir, family)?,
            None => TransformerConfig::from_file(&config_path)?,
        };
        let (folder, settings) = Folder::read(dir, &config, settings)?;
        folder::check_weights(dir, dir, "SentenceTransformer")?;
        let weights = dir.join(files::encoder_file(dir));
        let pooler = Arc::new(folder.pooler(dir, config.hidden_size)?);
        let source = EncoderFiles {
            dir: dir.to_owned(),
            weights,
            tokenizer,
            config,
            text: folder.text,
            precision,
            shared: self.shared,
            unchecked,
        };
        let (parts, prompt_tokens) = (LazyParts::new(source), Default::default());
        if !self.lazy {
            parts.packed()?;
            parts.tokenizer()?;
        }
        Ok(Encoder { parts, pooler, folder, settings, prompt_tokens })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Encoder {
        pub(crate) fn has_weights_of(&self, other: &Self) -> bool {
            let [own, others] = [self, other].map(|encoder| encoder.parts.packed().unwrap());
            std::sync::Arc::ptr_eq(own, others)
        }
    }

    #[test]
    fn micro_batches_hold_every_text_once_within_budget() {
        let texts: Vec<Vec<u32>> = (0..100).map(|i| vec![0; 1 + (i * 37) % 90]).collect();
        let batches = micro_batches(&texts, 128);
        let mut seen: Vec<usize> = batches.iter().flatten().copied().collect();
        seen.sort_unstable();
        assert_eq!(seen, (0..100).collect::<Vec<_>>());
        for batch in &batches {
            let tokens: usize = batch.iter().map(|&i| texts[i].len()).sum();
            assert!(tokens <= 128 || batch.len() == 1);
        }
        assert!(micro_batches(&[], 128).is_empty());
    }
}
