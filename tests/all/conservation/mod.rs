//! The law of conservation: every word of a source that a reader sees is in the title, the text or the
//! metadata of some document, or the program reports what it left out and why.
//!
//! Each test composes random sources from real pieces ([`Source`]) whose words are all different, and then
//! looks for each word ([`missing`]). A run tries [`sources`] of them.

#![allow(dead_code, reason = "each kind of source uses a part of it")]

#[cfg(feature = "parquet")]
mod columns;
mod html;
mod markdown;
mod real;
mod records;

use std::collections::BTreeSet;
use std::fs;

use ehi::Document;
use ehi::data::Folder;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde_json::Value;

/// How many sources a test tries: 300, or as many as `EHI_CONSERVATION` says.
pub fn sources() -> u64 {
    match std::env::var("EHI_CONSERVATION") {
        Ok(count) => count.parse().expect("EHI_CONSERVATION is a number of sources"),
        Err(_) => 300,
    }
}

/// A source under construction, and its words that a reader sees.
pub struct Source<R> {
    pub random: R,
    pub text: String,
    pub seen: Vec<String>,
    count: usize,
}

/// Prefixes of words in several scripts; a number makes each word unique.
const STEMS: [&str; 12] =
    ["heron", "Walrus", "PELICAN", "naïve", "straße", "слово", "λέξη", "漢字", "かな", "한글", "שלום", "x"];

impl<R: Rng> Source<R> {
    pub fn new(random: R) -> Self {
        Self { random, text: String::new(), seen: Vec::new(), count: 0 }
    }

    /// A new word, visible to the reader.
    pub fn word(&mut self) -> String {
        let word = self.unseen();
        self.seen.push(word.clone());
        word
    }

    /// A new word in a place that no reader sees, such as a comment.
    pub fn unseen(&mut self) -> String {
        self.count += 1;
        let stem = STEMS.choose(&mut self.random).unwrap();
        format!("{stem}{}", self.count)
    }

    /// One to `most` words separated by spaces.
    pub fn words(&mut self, most: usize) -> String {
        let count = self.random.random_range(1..=most);
        (0..count).map(|_| self.word()).collect::<Vec<_>>().join(" ")
    }

    pub fn add(&mut self, piece: &str) {
        self.text += piece;
    }

    /// One of these values.
    pub fn one_of<T: Copy>(&mut self, values: &[T]) -> T {
        *values.choose(&mut self.random).unwrap()
    }
}

/// Composes sources, reads them as files of a folder, and looks for each of their words.
fn hold_for_files(ending: &str, compose: impl Fn(&mut Source<ChaCha8Rng>)) {
    const AT_ONCE: u64 = 500;
    let all = sources();
    for first in (0..all).step_by(AT_ONCE as usize) {
        let dir = tempfile::tempdir().unwrap();
        let written: Vec<_> = (first..all.min(first + AT_ONCE))
            .map(|seed| {
                let mut source = Source::new(ChaCha8Rng::seed_from_u64(seed));
                compose(&mut source);
                fs::write(dir.path().join(format!("{seed:08}.{ending}")), &source.text).unwrap();
                source
            })
            .collect();
        let documents = Folder::open(dir.path()).unwrap().documents().map(Result::unwrap);
        let documents: Vec<Document> = documents.collect();
        for (seed, source) in (first..).zip(written) {
            let name = format!("{seed:08}.{ending}");
            let own = documents.iter().position(|document| document.id == name);
            let own = own.map_or(&documents[..0], |place| &documents[place..=place]);
            let missing = missing(source.seen.iter().map(String::as_str), own);
            assert!(missing.is_empty(), "seed {seed}: {missing:?} of\n{}\n{own:#?}", source.text);
        }
    }
}

/// The words of a text: runs of letters, marks and digits.
pub fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty())
}

/// The words that are in no document's title, text or metadata.
pub fn missing<'a>(seen: impl IntoIterator<Item = &'a str>, documents: &[Document]) -> Vec<&'a str> {
    let mut kept = BTreeSet::new();
    for document in documents {
        keep(&mut kept, &document.title);
        keep(&mut kept, &document.text);
        document.metadata.iter().for_each(|metadata| keep_value(&mut kept, metadata));
    }
    seen.into_iter().filter(|word| !kept.contains(*word)).collect()
}

fn keep(kept: &mut BTreeSet<String>, text: &str) {
    kept.extend(words(text).map(str::to_owned));
}

fn keep_value(kept: &mut BTreeSet<String>, value: &Value) {
    match value {
        Value::Array(values) => values.iter().for_each(|value| keep_value(kept, value)),
        Value::Object(fields) => fields.iter().for_each(|(name, value)| {
            keep(kept, name);
            keep_value(kept, value);
        }),
        Value::String(text) => keep(kept, text),
        other => keep(kept, &other.to_string()),
    }
}
