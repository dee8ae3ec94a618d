//! The model of a tokenizer: its vocabulary, read with limits.

use std::fmt;
use std::marker::PhantomData;

use serde::de::{Error, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use tokenizers::ModelWrapper;
use tokenizers::models::bpe::{BPE, Merges, Vocab};
use tokenizers::models::unigram::Unigram;
use tokenizers::models::wordlevel::WordLevel;
use tokenizers::models::wordpiece::WordPiece;

use super::pipeline::shortened;

/// Entries of a vocabulary, and merges.
const MOST_ENTRIES: usize = 1 << 20;
/// Bytes of one entry. A token is copied for each occurrence.
const LONGEST_ENTRY: usize = 512;
/// Bytes of all entries of a Unigram vocabulary, which is held as a tree with about 350 bytes for each.
const MOST_UNIGRAM_BYTES: usize = 4 << 20;
/// Bytes of the mark of the inner or last part of a word; it is joined to each part that is looked up.
const LONGEST_AFFIX: usize = 16;
/// Most characters of a word that WordPiece splits, at cubic cost.
const MOST_WORD_CHARS: usize = 1000;

/// The model as stored in the file.
#[derive(Deserialize)]
pub(super) struct Model {
    #[serde(rename = "type")]
    kind: Option<String>,
    vocab: Entries,
    merges: Option<List<Merge, MOST_ENTRIES>>,
    unk_token: Option<String>,
    unk_id: Option<usize>,
    continuing_subword_prefix: Option<String>,
    end_of_word_suffix: Option<String>,
    max_input_chars_per_word: Option<usize>,
    dropout: Option<f32>,
    fuse_unk: Option<bool>,
    byte_fallback: Option<bool>,
    ignore_merges: Option<bool>,
}

enum Entries {
    Table(Vocab),
    Scored(List<(String, f64), MOST_ENTRIES>),
}

/// A list of at most `MOST` elements.
struct List<T, const MOST: usize>(Vec<T>);

/// `["a", "b"]`, or `"a b"` in older files, where the first line may be their version.
#[derive(Deserialize)]
#[serde(untagged)]
enum Merge {
    Pair(String, String),
    Line(String),
}

impl Model {
    /// The id or the token for unknown parts.
    pub fn unknown(&self) -> (Option<u32>, Option<String>) {
        match &self.vocab {
            Entries::Scored(_) => (self.unk_id.and_then(|id| id.try_into().ok()), None),
            Entries::Table(_) => (None, self.unk_token.clone()),
        }
    }

    /// Builds the model, with every setting that affects ids.
    ///
    /// # Errors
    /// The problem with it.
    pub fn build(self) -> Result<ModelWrapper, String> {
        for (name, text, most) in [
            ("continuing_subword_prefix", &self.continuing_subword_prefix, LONGEST_AFFIX),
            ("end_of_word_suffix", &self.end_of_word_suffix, LONGEST_AFFIX),
            ("unk_token", &self.unk_token, LONGEST_ENTRY),
        ] {
            if let Some(text) = text.as_ref().filter(|text| text.len() > most) {
                return Err(format!("{name} has {} bytes, at most {most} are allowed", text.len()));
            }
        }
        let longest = match &self.vocab {
            Entries::Table(table) => table.keys().map(String::len).max().unwrap_or(0),
            Entries::Scored(pieces) => pieces.0.iter().map(|(piece, _)| piece.len()).max().unwrap_or(0),
        };
        if longest > LONGEST_ENTRY {
            return Err(format!("an entry of {longest} bytes, at most {LONGEST_ENTRY}"));
        }
        let kind = self.kind();
        let prefix = self.continuing_subword_prefix.ok_or("continuing_subword_prefix is missing");
        let unknown = self.unk_token.ok_or("unk_token is missing");
        let model = match (kind.as_str(), self.vocab) {
            ("WordPiece", Entries::Table(vocab)) => {
                let most = self.max_input_chars_per_word.ok_or("max_input_chars_per_word is missing")?;
                if most > MOST_WORD_CHARS {
                    return Err(format!("max_input_chars_per_word is {most}, at most {MOST_WORD_CHARS}"));
                }
                let builder = WordPiece::builder().vocab(vocab).unk_token(unknown?);
                let builder = builder.continuing_subword_prefix(prefix?).max_input_chars_per_word(most);
                builder.build().map(ModelWrapper::from)
            }
            ("WordLevel", Entries::Table(vocab)) => {
                WordLevel::builder().vocab(vocab).unk_token(unknown?).build().map(ModelWrapper::from)
            }
            ("Unigram", Entries::Scored(List(vocab))) => {
                let bytes: usize = vocab.iter().map(|(piece, _)| piece.len()).sum();
                if bytes > MOST_UNIGRAM_BYTES {
                    return Err(format!("the pieces have {bytes} bytes, at most {MOST_UNIGRAM_BYTES}"));
                }
                Unigram::from(vocab, self.unk_id, self.byte_fallback.unwrap_or(false)).map(ModelWrapper::from)
            }
            ("BPE", Entries::Table(vocab)) => {
                if self.dropout.is_some_and(|dropout| dropout != 0.0) {
                    return Err("dropout gives a text different ids each time; set it to null".to_owned());
                }
                let prefix = prefix.unwrap_or_default();
                let merges = merges(self.merges.ok_or("merges are missing")?.0, longest, prefix.len())?;
                let mut builder = BPE::builder()
                    .vocab_and_merges(vocab, merges)
                    .continuing_subword_prefix(prefix)
                    .fuse_unk(self.fuse_unk.unwrap_or(false))
                    .byte_fallback(self.byte_fallback.unwrap_or(false))
                    .ignore_merges(self.ignore_merges.unwrap_or(false));
                if let Ok(token) = unknown {
                    builder = builder.unk_token(token);
                }
                if let Some(suffix) = self.end_of_word_suffix {
                    builder = builder.end_of_word_suffix(suffix);
                }
                builder.build().map(ModelWrapper::from)
            }
            (kind, _) => {
                return Err(format!("the vocabulary is not one of a model `{}`", shortened(kind)));
            }
        };
        model.map_err(|e| e.to_string())
    }

    /// The type, which old files do not state.
    fn kind(&self) -> String {
        let guessed = match (&self.vocab, &self.merges, self.max_input_chars_per_word) {
            (Entries::Scored(_), ..) => "Unigram",
            (Entries::Table(_), Some(_), _) => "BPE",
            (Entries::Table(_), None, Some(_)) => "WordPiece",
            (Entries::Table(_), None, None) => "WordLevel",
        };
        self.kind.clone().unwrap_or_else(|| guessed.to_owned())
    }
}

/// The merges of a BPE model whose longest entry has `longest` bytes.
fn merges(list: Vec<Merge>, longest: usize, prefix: usize) -> Result<Merges, String> {
    let mut merges = Merges::new();
    for merge in list {
        let (left, right) = match merge {
            Merge::Pair(left, right) => (left, right),
            Merge::Line(line) if line.starts_with("#version") => continue,
            Merge::Line(line) => match line.split_once(' ') {
                Some((left, right)) if !right.contains(' ') => (left.to_owned(), right.to_owned()),
                _ => return Err("a merge is not two tokens with a space between".to_owned()),
            },
        };
        // The library strips the prefix from the right part by length only, into a buffer as long as the
        // longest entry.
        if right.get(prefix..).is_none_or(|inner| left.len() + inner.len() > longest) {
            return Err(format!("merge `{} {}` makes no entry", shortened(&left), shortened(&right)));
        }
        merges.push((left, right));
    }
    Ok(merges)
}

impl<'de> Deserialize<'de> for Entries {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct EntriesVisitor;

        impl<'de> Visitor<'de> for EntriesVisitor {
            type Value = Entries;

            fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
                f.write_str("a table of tokens and ids, or a list of pieces and scores")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Entries, A::Error> {
                let mut table = Vocab::new();
                while let Some((token, id)) = access.next_entry::<String, u32>()? {
                    if table.len() >= MOST_ENTRIES {
                        return Err(A::Error::custom(format!("more than {MOST_ENTRIES} entries")));
                    }
                    table.insert(token, id);
                }
                Ok(Entries::Table(table))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, access: A) -> Result<Entries, A::Error> {
                ListVisitor(PhantomData).visit_seq(access).map(Entries::Scored)
            }
        }
        deserializer.deserialize_any(EntriesVisitor)
    }
}

impl<'de, T: Deserialize<'de>, const MOST: usize> Deserialize<'de> for List<T, MOST> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_seq(ListVisitor(PhantomData))
    }
}

struct ListVisitor<T, const MOST: usize>(PhantomData<T>);

impl<'de, T: Deserialize<'de>, const MOST: usize> Visitor<'de> for ListVisitor<T, MOST> {
    type Value = List<T, MOST>;

    fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "a list of at most {MOST} elements")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut access: A) -> Result<List<T, MOST>, A::Error> {
        let mut list = Vec::new();
        while let Some(element) = access.next_element()? {
            if list.len() >= MOST {
                return Err(A::Error::invalid_length(MOST + 1, &self));
            }
            list.push(element);
        }
        Ok(List(list))
    }
}
