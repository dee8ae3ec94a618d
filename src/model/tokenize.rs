//! Text to token ids, cut at the model's maximum length.

use std::path::{Path, PathBuf};

use tokenizers::{Tokenizer, TruncationParams};

use super::error::ModelError;

/// A tokenizer that truncates and never pads.
pub(crate) struct TextTokenizer {
    tokenizer: Tokenizer,
    path: PathBuf,
    max_tokens: usize,
    vocab_size: usize,
}

/// Characters of text tried per token of the maximum length before the rest of a long
/// text is looked at; far above any real language's mean.
const CHARS_PER_TOKEN: usize = 64;

impl TextTokenizer {
    /// Reads a `tokenizer.json`; texts are cut at `max_tokens`, special tokens included.
    pub(crate) fn from_file(path: &Path, max_tokens: usize, vocab_size: usize) -> Result<Self, ModelError> {
        let bytes = super::bundle::read_file(path)?;
        let error = |message: String| ModelError::Tokenizer { path: path.to_owned(), message };
        let mut tokenizer = Tokenizer::from_bytes(&bytes).map_err(|e| error(e.to_string()))?;
        tokenizer.with_padding(None);
        tokenizer
            .with_truncation(Some(TruncationParams { max_length: max_tokens, ..TruncationParams::default() }))
            .map_err(|e| error(e.to_string()))?;
        Ok(Self { tokenizer, path: path.to_owned(), max_tokens, vocab_size })
    }

    /// The longest sequence that [`Self::encode`] returns.
    pub(crate) fn max_tokens(&self) -> usize {
        self.max_tokens
    }

    /// Token ids of one text, special tokens included; between 1 and the maximum length.
    ///
    /// Of a very long text only a prefix is tokenised, as long as it fills the maximum
    /// length; so a text of many megabytes costs little more than a long page.
    pub(crate) fn encode(&self, text: &str) -> Result<Vec<u32>, ModelError> {
        let mut budget = self.max_tokens * CHARS_PER_TOKEN;
        loop {
            let prefix = prefix_of_whole_words(text, budget);
            let ids = self.encode_whole(prefix)?;
            if ids.len() >= self.max_tokens || prefix.len() == text.len() {
                return Ok(ids);
            }
            budget *= 8;
        }
    }

    fn encode_whole(&self, text: &str) -> Result<Vec<u32>, ModelError> {
        let error = |message: String| ModelError::Tokenizer { path: self.path.clone(), message };
        let encoding = self.tokenizer.encode_fast(text, true).map_err(|e| error(e.to_string()))?;
        let ids = encoding.get_ids();
        if let Some(id) = ids.iter().find(|&&id| id as usize >= self.vocab_size) {
            return Err(error(format!(
                "token id {id} is outside the encoder's vocabulary of {}",
                self.vocab_size
            )));
        }
        if ids.is_empty() {
            return Err(error("the text gives no token, not even a special one".to_owned()));
        }
        Ok(ids.to_vec())
    }
}

/// The text up to the last white space within `budget` bytes, or up to the first one
/// behind it where a single word is longer than that.
fn prefix_of_whole_words(text: &str, budget: usize) -> &str {
    if text.len() <= budget {
        return text;
    }
    let mut cut = budget;
    while !text.is_char_boundary(cut) {
        cut += 1;
    }
    let within = text[..cut].rfind(char::is_whitespace).filter(|&at| at > 0);
    match within.or_else(|| text[cut..].find(char::is_whitespace).map(|at| cut + at)) {
        Some(at) => &text[..at],
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::prefix_of_whole_words;

    #[test]
    fn prefixes_end_at_words() {
        assert_eq!(prefix_of_whole_words("ab cd", 10), "ab cd");
        assert_eq!(prefix_of_whole_words("ab cd ef", 4), "ab");
        assert_eq!(prefix_of_whole_words("abcdefgh ij", 4), "abcdefgh");
        assert_eq!(prefix_of_whole_words("abcdefgh", 4), "abcdefgh");
        // A cut inside a character moves to its end.
        assert_eq!(prefix_of_whole_words("\u{e9}\u{e9} \u{e9}\u{e9}", 6), "\u{e9}\u{e9}");
    }
}
