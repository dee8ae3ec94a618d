//! The model of a tokenizer: its vocabulary, read with limits.

use std::fmt;

use serde::de::{Error, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use tokenizers::ModelWrapper;
use tokenizers::models::bpe::{BPE, Merges, Vocab};
use tokenizers::models::unigram::Unigram;
use tokenizers::models::wordlevel::WordLevel;
use tokenizers::models::wordpiece::WordPiece;

/// Entries of a vocabulary, and merges.
const MOST_ENTRIES: usize = 1 << 20;
/// Bytes of one entry. A token is copied for each place where it is found.
const LONGEST_ENTRY: usize = 512;
/// Bytes of all entries of a Unigram vocabulary, which is held as a tree with some 350 bytes for each.
const MOST_UNIGRAM_BYTES: usize = 4 << 20;
/// Bytes of what marks the inner or last part of a word; it is joined to each part that is looked up.
const LONGEST_AFFIX: usize = 16;
/// Characters of a word that WordPiece takes apart, at a cost that is the cube of them.
const MOST_WORD_CHARS: usize = 1000;

/// The model as the file has it.
#[derive(Deserialize)]
pub(super) struct Model {
    #[serde(rename = "type")]
    kind: Option<String>,
    vocab: Entries,
    merges: Option<MergeList>,
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
    Scored(Vec<(String, f64)>),
}

struct MergeList(Merges);

/// What stands for what the vocabulary does not have.
pub(super) enum Unknown {
    None,
    Id(u32),
    Token(String),
}

impl Model {
    /// What stands for what the vocabulary does not have.
    pub fn unknown(&self) -> Unknown {
        match (&self.vocab, &self.unk_token, self.unk_id) {
            (Entries::Scored(_), _, Some(id)) => u32::try_from(id).map_or(Unknown::None, Unknown::Id),
            (Entries::Table(_), Some(token), _) => Unknown::Token(token.clone()),
            _ => Unknown::None,
        }
    }

    /// The model that the file describes, in every particular that bears on ids.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn build(self) -> Result<ModelWrapper, String> {
        for affix in [&self.continuing_subword_prefix, &self.end_of_word_suffix].into_iter().flatten() {
            if affix.len() > LONGEST_AFFIX {
                return Err(format!("a prefix or suffix of {} bytes, at most {LONGEST_AFFIX}", affix.len()));
            }
        }
        if self.unk_token.as_ref().is_some_and(|token| token.len() > LONGEST_ENTRY) {
            return Err(format!("the unknown token is longer than {LONGEST_ENTRY} bytes"));
        }
        match (self.kind()?, self) {
            (
                "WordPiece",
                Self {
                    vocab: Entries::Table(vocab),
                    unk_token,
                    continuing_subword_prefix,
                    max_input_chars_per_word,
                    ..
                },
            ) => {
                let most = max_input_chars_per_word.ok_or("max_input_chars_per_word is missing")?;
                if most > MOST_WORD_CHARS {
                    return Err(format!("max_input_chars_per_word is {most}, at most {MOST_WORD_CHARS}"));
                }
                let builder = WordPiece::builder()
                    .vocab(vocab)
                    .unk_token(unk_token.ok_or("unk_token is missing")?)
                    .continuing_subword_prefix(
                        continuing_subword_prefix.ok_or("continuing_subword_prefix is missing")?,
                    )
                    .max_input_chars_per_word(most);
                Ok(builder.build().map_err(|e| e.to_string())?.into())
            }
            ("WordLevel", Self { vocab: Entries::Table(vocab), unk_token, .. }) => {
                let unk_token = unk_token.ok_or("unk_token is missing")?;
                let model = WordLevel::builder().vocab(vocab).unk_token(unk_token).build();
                Ok(model.map_err(|e| e.to_string())?.into())
            }
            ("Unigram", Self { vocab: Entries::Scored(vocab), unk_id, byte_fallback, .. }) => {
                let bytes: usize = vocab.iter().map(|(piece, _)| piece.len()).sum();
                if bytes > MOST_UNIGRAM_BYTES {
                    return Err(format!("the pieces have {bytes} bytes, at most {MOST_UNIGRAM_BYTES}"));
                }
                let model = Unigram::from(vocab, unk_id, byte_fallback.unwrap_or(false));
                Ok(model.map_err(|e| e.to_string())?.into())
            }
            ("BPE", model) => model.build_bpe(),
            (kind, _) => Err(format!("the vocabulary is not one of a {kind} model")),
        }
    }

    /// The type; old files do not say it.
    fn kind(&self) -> Result<&'static str, String> {
        const KNOWN: [&str; 4] = ["WordPiece", "WordLevel", "Unigram", "BPE"];
        match (&self.kind, &self.vocab) {
            (Some(kind), _) => {
                let known = KNOWN.into_iter().find(|known| known == kind);
                known.ok_or_else(|| format!("model `{}` is not known", super::pipeline::shortened(kind)))
            }
            (None, Entries::Scored(_)) => Ok("Unigram"),
            (None, Entries::Table(_)) if self.merges.is_some() => Ok("BPE"),
            (None, Entries::Table(_)) if self.max_input_chars_per_word.is_some() => Ok("WordPiece"),
            (None, Entries::Table(_)) => Ok("WordLevel"),
        }
    }

    fn build_bpe(self) -> Result<ModelWrapper, String> {
        let (Entries::Table(vocab), Some(MergeList(merges))) = (self.vocab, self.merges) else {
            return Err("a BPE model without vocabulary and merges".to_owned());
        };
        if self.dropout.is_some_and(|dropout| dropout != 0.0) {
            return Err("dropout gives a text different ids each time; set it to null".to_owned());
        }
        let prefix = self.continuing_subword_prefix.as_deref().unwrap_or_default();
        let longest = vocab.keys().map(String::len).max().unwrap_or(0);
        for (left, right) in &merges {
            // The library takes the prefix off the right part by its length alone, into a buffer as long
            // as the longest entry.
            let inner = right.get(prefix.len()..);
            if inner.is_none_or(|inner| left.len() + inner.len() > longest) {
                return Err(format!("merge `{} {}` makes no entry", short(left), short(right)));
            }
        }
        let mut builder = BPE::builder()
            .vocab_and_merges(vocab, merges)
            .fuse_unk(self.fuse_unk.unwrap_or(false))
            .byte_fallback(self.byte_fallback.unwrap_or(false))
            .ignore_merges(self.ignore_merges.unwrap_or(false));
        if let Some(token) = self.unk_token {
            builder = builder.unk_token(token);
        }
        if let Some(prefix) = self.continuing_subword_prefix {
            builder = builder.continuing_subword_prefix(prefix);
        }
        if let Some(suffix) = self.end_of_word_suffix {
            builder = builder.end_of_word_suffix(suffix);
        }
        Ok(builder.build().map_err(|e| e.to_string())?.into())
    }
}

fn short(entry: &str) -> String {
    super::pipeline::shortened(entry)
}

fn check_entry<E: Error>(entry: &str, before: usize) -> Result<(), E> {
    if entry.len() > LONGEST_ENTRY {
        return Err(E::custom(format!("an entry of {} bytes, at most {LONGEST_ENTRY}", entry.len())));
    }
    if before >= MOST_ENTRIES {
        return Err(E::custom(format!("more than {MOST_ENTRIES} entries")));
    }
    Ok(())
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
                    check_entry(&token, table.len())?;
                    table.insert(token, id);
                }
                Ok(Entries::Table(table))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut access: A) -> Result<Entries, A::Error> {
                let mut scored = Vec::new();
                while let Some((piece, score)) = access.next_element::<(String, f64)>()? {
                    check_entry(&piece, scored.len())?;
                    scored.push((piece, score));
                }
                Ok(Entries::Scored(scored))
            }
        }
        deserializer.deserialize_any(EntriesVisitor)
    }
}

impl<'de> Deserialize<'de> for MergeList {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct ListVisitor;

        impl<'de> Visitor<'de> for ListVisitor {
            type Value = MergeList;

            fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
                f.write_str("a list of merges")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut access: A) -> Result<MergeList, A::Error> {
                let mut merges = Merges::new();
                while let Some(merge) = access.next_element::<Merge>()? {
                    if let Some((left, right)) = merge.0 {
                        check_entry(&left, merges.len())?;
                        check_entry(&right, merges.len())?;
                        merges.push((left, right));
                    }
                }
                Ok(MergeList(merges))
            }
        }
        deserializer.deserialize_seq(ListVisitor)
    }
}

/// `["a", "b"]`, or `"a b"` in older files, where a line with their version may come first.
struct Merge(Option<(String, String)>);

impl<'de> Deserialize<'de> for Merge {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct MergeVisitor;

        impl<'de> Visitor<'de> for MergeVisitor {
            type Value = Merge;

            fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
                f.write_str("two tokens, in a list or with a space between")
            }

            fn visit_str<E: Error>(self, line: &str) -> Result<Merge, E> {
                if line.starts_with("#version") {
                    return Ok(Merge(None));
                }
                match line.split_once(' ') {
                    Some((left, right)) if !right.contains(' ') => {
                        Ok(Merge(Some((left.to_owned(), right.to_owned()))))
                    }
                    _ => Err(E::custom("a merge is not two tokens with a space between")),
                }
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut access: A) -> Result<Merge, A::Error> {
                let both = (access.next_element()?, access.next_element()?);
                match (both, access.next_element::<String>()?) {
                    ((Some(left), Some(right)), None) => Ok(Merge(Some((left, right)))),
                    _ => Err(A::Error::custom("a merge is not a list of two tokens")),
                }
            }
        }
        deserializer.deserialize_any(MergeVisitor)
    }
}
