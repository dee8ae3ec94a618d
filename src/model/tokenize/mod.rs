//! Text to token ids, truncated to the model's maximum length.
//!
//! # What of a text is read
//! A tokenizer processes its whole input, with a few hundred bytes of memory per word, and then drops
//! everything beyond the maximum length. Only the start of a long text is therefore passed to it:
//! [`BYTES_PER_TOKEN`] for each token of the maximum length or, if these give fewer tokens,
//! [`MOST_BYTES_PER_TOKEN`]. The cut is at the last white space in the second half of that start or, without
//! any, at the last whole character.
//!
//! The ids are those of the whole text as long as they depend only on the text up to the end of a word:
//!
//! - A cut at white space is between words.
//! - A cut elsewhere changes at most the word it falls in, so the ids are accepted only if the last of them
//!   is [`CLEARANCE`] before the cut; otherwise more is read. BERT's words end at white space, punctuation
//!   and Chinese characters, so a word that spans this distance has more characters than WordPiece splits
//!   (`max_input_chars_per_word`, 100, here at most 1,000): it is one unknown token, cut or not.
//! - A text of at most [`MOST_BYTES_PER_TOKEN`] for each token is read in full.
//!
//! Beyond that the rest of a text is lost: a word of that many bytes, or as much white space or control
//! characters, hides the text after it. A BPE or Unigram model without pre-tokenizer has no words; there, ids
//! near a cut without white space may differ, as they may near any cut.
//!
//! A normalizer that can make a text longer lowers both figures to [`NORMALISED_BYTES_PER_TOKEN`].

mod charsmap;
mod file;
mod pipeline;
mod punctuation;
mod spaced;
#[cfg(test)]
mod tests;
mod vocabulary;

use std::collections::HashSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, OnceLock, PoisonError};

use tokenizers::{Encoding, Model, ModelWrapper, OffsetType, PreTokenizer, Tokenizer};

use super::error::ModelError;
use super::files;
use crate::progress::Stop;

/// Which of a text's tokens an encoder reads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Tokens {
    /// All tokens, with the special ones added by the tokenizer.
    #[default]
    Marked,
    /// All tokens, without special ones.
    Bare,
    /// Known tokens at the start of a text, which is first truncated to the characters of `length` tokens of
    /// median length.
    Known { length: Option<usize> },
}

/// Rules for tokenising texts that are not in the tokenizer's file.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct TextRules {
    /// Most tokens of a text, including special ones.
    pub max_tokens: usize,
    /// Which tokens are read.
    pub tokens: Tokens,
    /// Whether texts are first lowercased.
    pub lowercase: bool,
}

/// Two texts read together.
pub(crate) struct Pair {
    pub ids: Vec<u32>,
    /// For each token 0, or 1 if it belongs to the second text.
    pub types: Vec<u32>,
}

/// A token of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Token<'a> {
    /// With its id.
    Known(u32),
    /// A part that is not in the vocabulary, or that is spelled like a special token.
    Unknown(&'a str),
}

/// A tokenizer that truncates and never pads.
pub(crate) struct TextTokenizer {
    tokenizer: Tokenizer,
    path: PathBuf,
    max_tokens: usize,
    tokens: Tokens,
    /// Most characters read of a text.
    most_chars: Option<usize>,
    /// The token for unknown parts.
    unknown: Option<u32>,
    vocab_size: usize,
    /// Bytes of a text tokenised at first, and at most.
    first: usize,
    most: usize,
    /// Ids that do not represent a part of a text, or represent an unknown one.
    special: HashSet<u32>,
    /// Those of unknown parts.
    unknowns: HashSet<u32>,
    /// Whether each token is only punctuation; computed on first use.
    punctuation: OnceLock<Vec<bool>>,
    /// Whether words are found in [spaced] texts; computed on first use.
    spaces: OnceLock<bool>,
    /// Held while tokenising more than `first` bytes, so that only one text at a time uses that much memory.
    long: Mutex<()>,
}

/// Bytes of text tried for each token of the maximum length; far above any real language's mean.
const BYTES_PER_TOKEN: usize = 64;
/// Most bytes of text tried for each token.
const MOST_BYTES_PER_TOKEN: usize = 512;
/// Most bytes per token after normalisation.
const NORMALISED_BYTES_PER_TOKEN: usize = 4096;
/// Bytes of a text processed at a time to find its terms.
const BYTES_OF_TERMS: usize = 16 << 10;
/// Tokens for unknown parts.
const UNKNOWN: [&str; 2] = ["[UNK]", "<unk>"];
/// More than the bytes of the longest word that WordPiece splits.
const CLEARANCE: usize = 4096;

/// The start of a text, and the kind of cut.
#[derive(Debug, PartialEq)]
enum Start<'a> {
    /// Not cut.
    Whole(&'a str),
    /// Cut between words.
    Words(&'a str),
    /// Cut anywhere.
    Chars(&'a str),
}

impl TextTokenizer {
    /// Reads a `tokenizer.json` for texts read by these rules; ids are below `vocab_size`.
    ///
    /// # Errors
    /// [`ModelError::Tokenizer`] for a file that is damaged, or whose parts could take memory or time
    /// without bound.
    pub(crate) fn from_file(path: &Path, rules: TextRules, vocab_size: usize) -> Result<Self, ModelError> {
        Self::from_bytes(&files::read(path, files::TOKENIZER_BYTES)?, path, rules, vocab_size)
    }

    pub(crate) fn from_bytes(
        bytes: &[u8],
        path: &Path,
        rules: TextRules,
        vocab_size: usize,
    ) -> Result<Self, ModelError> {
        let TextRules { max_tokens, tokens, lowercase } = rules;
        let file::Checked { tokenizer, growth, unknown } =
            guard(path, || file::read(bytes, max_tokens, lowercase))?;
        let count = tokenizer.get_vocab_size(true);
        if matches!(tokens, Tokens::Known { .. }) && count != vocab_size {
            let message = format!("it has {count} tokens, and the encoder's table {vocab_size}");
            return Err(ModelError::Tokenizer { path: path.to_owned(), message });
        }
        let most_chars = match tokens {
            Tokens::Known { length: Some(length) } => Some(length.saturating_mul(median_chars(&tokenizer))),
            _ => None,
        };
        let within =
            |bytes: usize| max_tokens * bytes.min((NORMALISED_BYTES_PER_TOKEN as f64 / growth) as usize);
        let marked = tokenizer.get_added_tokens_decoder().into_iter().filter(|(_, token)| token.special);
        let unknowns = UNKNOWN.iter().filter_map(|token| tokenizer.token_to_id(token)).chain(unknown);
        let unknowns: HashSet<u32> = unknowns.collect();
        let special = marked.map(|(id, _)| id).chain(unknowns.iter().copied()).collect();
        Ok(Self {
            special,
            unknowns,
            punctuation: OnceLock::new(),
            spaces: OnceLock::new(),
            tokenizer,
            path: path.to_owned(),
            max_tokens,
            tokens,
            most_chars,
            unknown: unknown.filter(|_| matches!(tokens, Tokens::Known { .. })),
            vocab_size,
            first: within(BYTES_PER_TOKEN),
            most: within(MOST_BYTES_PER_TOKEN),
            long: Mutex::new(()),
        })
    }

    /// The start of a text that [`Self::encode`] maps to the same ids as the whole text.
    pub(crate) fn head<'a>(&self, text: &'a str) -> &'a str {
        &text[..whole_chars(text, self.most + 1)]
    }

    /// Tokens of two texts read together. If they exceed the maximum length, the longer text is truncated
    /// first.
    ///
    /// Only the start of a long text is read, as in [`Self::encode`].
    pub(crate) fn encode_pair(&self, first: &str, second: &str) -> Result<Pair, ModelError> {
        let read = |text: &str, type_id: u32| {
            // The tokenizer's own call stops at the maximum length, and would not tell which text is longer.
            let whole = |text: &str| self.piece(text, type_id, OffsetType::None);
            match start(text, self.first) {
                Start::Whole(text) => return whole(text),
                Start::Words(text) => {
                    let encoding = whole(text)?;
                    // A truncated text must have more tokens than are kept.
                    if encoding.len() >= self.max_tokens {
                        return Ok(encoding);
                    }
                }
                Start::Chars(_) => {}
            }
            let _one = self.long.lock().unwrap_or_else(PoisonError::into_inner);
            whole(self.head(text))
        };
        let (first, second) = (read(first, 0)?, read(second, 1)?);
        let encoding = guard(&self.path, || self.tokenizer.post_process(first, Some(second), true))?;
        let types = encoding.get_type_ids().to_vec();
        Ok(Pair { ids: self.ids(encoding)?, types })
    }

    /// Number of tokens of a prompt before a text: those of the prompt alone, without a special one at its
    /// end.
    pub(crate) fn prompt_tokens(&self, prompt: &str) -> Result<usize, ModelError> {
        let ids = self.encode(prompt)?;
        Ok(ids.len() - usize::from(ids.last().is_some_and(|id| self.special.contains(id))))
    }

    /// Token ids of one text, including special tokens; between 1 and the maximum length, or none if there
    /// are no special tokens.
    ///
    /// The [module](self) documents how much of a long text is read.
    pub(crate) fn encode(&self, text: &str) -> Result<Vec<u32>, ModelError> {
        let cut = self.most_chars.and_then(|most| text.char_indices().nth(most));
        let text = cut.map_or(text, |(end, _)| &text[..end]);
        match start(text, self.first) {
            Start::Whole(text) => return self.ids(self.encoding(text, false)?),
            Start::Words(text) => {
                let encoding = self.encoding(text, false)?;
                if encoding.len() >= self.max_tokens {
                    return self.ids(encoding);
                }
            }
            Start::Chars(text) => {
                let encoding = self.encoding(text, true)?;
                let end = encoding.get_offsets().iter().map(|&(_, end)| end).max();
                if encoding.len() >= self.max_tokens && end.is_some_and(|end| end + CLEARANCE <= text.len()) {
                    return self.ids(encoding);
                }
            }
        }
        let (Start::Whole(text) | Start::Words(text) | Start::Chars(text)) = start(text, self.most);
        let _one = self.long.lock().unwrap_or_else(PoisonError::into_inner);
        self.ids(self.encoding(text, false)?)
    }

    /// Passes all tokens of a text of any length to `tell`, in order. Returns their number.
    ///
    /// A long text is tokenised in pieces, which end at white space if possible.
    pub(crate) fn tokens(
        &self,
        text: &str,
        stop: &Stop,
        tell: &mut dyn FnMut(Token<'_>),
    ) -> Result<usize, ModelError> {
        let mut all = 0;
        for (_, piece) in pieces(text) {
            stop.check()?;
            let encoding = self.piece(piece, 0, OffsetType::None)?;
            all += encoding.len();
            if !encoding.get_ids().iter().any(|id| self.special.contains(id)) {
                encoding.get_ids().iter().for_each(|&id| tell(Token::Known(id)));
                continue;
            }
            // Finding the offsets of tokens takes time.
            let encoding = self.piece(piece, 0, OffsetType::Byte)?;
            for (&id, &(start, end)) in encoding.get_ids().iter().zip(encoding.get_offsets()) {
                tell(match self.special.contains(&id) {
                    true => Token::Unknown(piece.get(start..end).unwrap_or_default()),
                    false => Token::Known(id),
                });
            }
        }
        Ok(all)
    }

    /// Like [`Self::tokens`], but a word has the same tokens at any position. Returns their number if they
    /// are the tokens of the text itself.
    pub(crate) fn words(
        &self,
        text: &str,
        stop: &Stop,
        tell: &mut dyn FnMut(Token<'_>),
    ) -> Result<Option<usize>, ModelError> {
        match self.needs_spaces() {
            true => self.tokens(&spaced::spaced(text), stop, tell).map(|_| None),
            false => self.tokens(text, stop, tell).map(Some),
        }
    }

    fn needs_spaces(&self) -> bool {
        let words = |text: &str| {
            let piece = self.piece(text, 0, OffsetType::None).ok()?;
            Some(self.words_among(piece.get_ids()))
        };
        *self.spaces.get_or_init(|| spaced::is_needed(words))
    }

    /// The ids of a text that belong to its [words](Self::words); `None` if words have other ids, or a part
    /// of the text is unknown.
    pub(crate) fn known_words(&self, ids: &[u32]) -> Option<Vec<u32>> {
        // A static encoder leaves out unknown parts.
        if self.needs_spaces() || self.unknown.is_some() || ids.iter().any(|id| self.unknowns.contains(id)) {
            return None;
        }
        Some(self.words_among(ids))
    }

    fn words_among(&self, ids: &[u32]) -> Vec<u32> {
        let is_word = |id: &u32| !self.special.contains(id) && !self.is_punctuation(*id);
        ids.iter().copied().filter(is_word).collect()
    }

    /// Appends the byte offsets of all tokens of a text, ascending.
    pub(crate) fn starts(&self, text: &str, stop: &Stop, out: &mut Vec<u32>) -> Result<(), ModelError> {
        for (at, piece) in pieces(text) {
            stop.check()?;
            let encoding = self.piece(piece, 0, OffsetType::Byte)?;
            out.extend(encoding.get_offsets().iter().map(|&(start, _)| (at + start) as u32));
        }
        out.sort_unstable();
        Ok(())
    }

    /// All tokens of a text. The tokenizer's own calls stop at its maximum length.
    fn piece(&self, text: &str, type_id: u32, offsets: OffsetType) -> Result<Encoding, ModelError> {
        let tokenizer = &self.tokenizer;
        guard(&self.path, || -> tokenizers::Result<Encoding> {
            let added = tokenizer.get_added_vocabulary();
            let mut text = added.extract_and_normalize(tokenizer.get_normalizer(), text);
            if let Some(pre_tokenizer) = tokenizer.get_pre_tokenizer() {
                pre_tokenizer.pre_tokenize(&mut text)?;
            }
            tokenizer.get_model().tokenize_in_pretokenized(&mut text, None)?;
            text.into_encoding(None, type_id, offsets)
        })
    }

    /// Whether a token continues the word of the token before it; always `false` for models other than
    /// WordPiece.
    pub(crate) fn continues(&self, token: u32) -> bool {
        let ModelWrapper::WordPiece(model) = self.tokenizer.get_model() else { return false };
        let prefix = &model.continuing_subword_prefix;
        !prefix.is_empty() && self.tokenizer.id_to_token(token).is_some_and(|token| token.starts_with(prefix))
    }

    /// Whether a token is only punctuation, which says nothing about the subject of a text.
    pub(crate) fn is_punctuation(&self, token: u32) -> bool {
        let of = |id: u32| self.tokenizer.id_to_token(id).is_some_and(|token| punctuation::is_all(&token));
        let known = self.punctuation.get_or_init(|| (0..self.vocab_size as u32).map(of).collect());
        known.get(token as usize).copied().unwrap_or_else(|| of(token))
    }

    /// A token as written in the vocabulary; empty for an unknown one.
    pub(crate) fn token(&self, token: u32) -> String {
        self.tokenizer.id_to_token(token).unwrap_or_default()
    }

    fn encoding(&self, text: &str, offsets: bool) -> Result<Encoding, ModelError> {
        let marked = self.tokens == Tokens::Marked;
        guard(&self.path, || match offsets {
            true => self.tokenizer.encode(text, marked),
            false => self.tokenizer.encode_fast(text, marked),
        })
    }

    /// The ids, checked against the vocabulary and the maximum length.
    fn ids(&self, encoding: Encoding) -> Result<Vec<u32>, ModelError> {
        let error = |message: String| ModelError::Tokenizer { path: self.path.clone(), message };
        let ids = encoding.get_ids();
        if let Some(id) = ids.iter().find(|&&id| id as usize >= self.vocab_size) {
            return Err(error(format!(
                "token id {id} is outside the encoder's vocabulary of {}",
                self.vocab_size
            )));
        }
        if ids.is_empty() && self.tokens == Tokens::Marked {
            return Err(error("the text gives no token, not even a special one".to_owned()));
        }
        if ids.len() > self.max_tokens {
            return Err(error(format!("a text gives {} tokens, at most {} fit", ids.len(), self.max_tokens)));
        }
        Ok(ids.iter().copied().filter(|&id| Some(id) != self.unknown).collect())
    }
}

/// Characters of a token of median length, as in model2vec: the mean of the two middle ones is rounded down.
fn median_chars(tokenizer: &Tokenizer) -> usize {
    let mut lengths: Vec<usize> =
        tokenizer.get_vocab(true).keys().map(|token| token.chars().count()).collect();
    lengths.sort_unstable();
    let middle = lengths.len() / 2;
    match lengths.len() {
        0 => 0,
        count if count.is_multiple_of(2) => (lengths[middle - 1] + lengths[middle]) / 2,
        _ => lengths[middle],
    }
}

/// Runs the tokenizers library. A panic in it becomes an error of the file.
fn guard<T, E: ToString>(path: &Path, run: impl FnOnce() -> Result<T, E>) -> Result<T, ModelError> {
    let error = |message: String| ModelError::Tokenizer { path: path.to_owned(), message };
    match catch_unwind(AssertUnwindSafe(run)) {
        Ok(result) => result.map_err(|e| error(e.to_string())),
        Err(_) => Err(error("the tokenizers library panicked over this file".to_owned())),
    }
}

/// The start of a text, about `limit` bytes if the text is longer.
fn start(text: &str, limit: usize) -> Start<'_> {
    if text.len() <= limit {
        return Start::Whole(text);
    }
    let end = whole_chars(text, limit);
    match text[..end].rfind(char::is_whitespace) {
        Some(at) if at > limit / 2 => Start::Words(&text[..at]),
        _ => Start::Chars(&text[..end]),
    }
}

/// The pieces of a text that are tokenised one after another, with their offsets.
fn pieces(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut at = 0;
    std::iter::from_fn(move || {
        let (Start::Whole(piece) | Start::Words(piece) | Start::Chars(piece)) =
            start(&text[at..], BYTES_OF_TERMS);
        at += piece.len();
        (!piece.is_empty()).then_some((at - piece.len(), piece))
    })
}

/// The first character boundary at or after a byte.
fn whole_chars(text: &str, mut at: usize) -> usize {
    while !text.is_char_boundary(at.min(text.len())) {
        at += 1;
    }
    at.min(text.len())
}

/// Tokenises texts with arbitrary bytes as the file, for the fuzz target; not part of the interface.
#[cfg(any(test, feature = "fuzzing"))]
pub fn fuzz_tokenizer(
    bytes: &[u8],
    max_tokens: usize,
) -> Option<impl Fn(&str) -> Option<[Vec<u32>; 2]> + use<>> {
    let rules = TextRules { max_tokens, ..TextRules::default() };
    let tokenizer = TextTokenizer::from_bytes(bytes, Path::new("tokenizer.json"), rules, 1 << 20).ok()?;
    // The ids of the whole text, and those of the part that is read.
    Some(move |text: &str| Some([tokenizer.encode(text).ok()?, tokenizer.encode(tokenizer.head(text)).ok()?]))
}
