//! The words of a text: tokens of a model, or stems.

use std::fmt;
use std::str::FromStr;

use frostem::{Algorithm, Stemmer};

use crate::characters::{self, is_mark};

/// The terms of searches by words. Fixed for the lifetime of an index.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Analyzer {
    /// Tokens of the index's own encoder: for any language that it knows. Words match in the form in which
    /// they are written.
    #[default]
    Tokens,
    /// Lower-case words without their endings, by the Snowball stemmer of a language: "leak" finds "leaks"
    /// and "leaking". A word consists of letters, digits and marks, so this does not suit languages without
    /// spaces between words.
    Stems(Language),
}

macro_rules! languages {
    ($($language:ident $name:literal)*) => {
        /// A language for stemming.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        #[allow(missing_docs, reason = "the names say it")]
        pub enum Language {
            $($language,)*
        }

        impl Language {
            /// All languages.
            pub const ALL: &'static [Self] = &[$(Self::$language,)*];

            /// The English name, in lower case.
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$language => $name,)*
                }
            }

            fn algorithm(self) -> Algorithm {
                match self {
                    $(Self::$language => Algorithm::$language,)*
                }
            }
        }
    };
}

// Positions are stored on disk (docs/format.md): append new ones at the end.
languages! {
    Arabic "arabic"
    Danish "danish"
    Dutch "dutch"
    English "english"
    Finnish "finnish"
    French "french"
    German "german"
    Greek "greek"
    Hindi "hindi"
    Hungarian "hungarian"
    Indonesian "indonesian"
    Italian "italian"
    Norwegian "norwegian"
    Polish "polish"
    Portuguese "portuguese"
    Romanian "romanian"
    Russian "russian"
    Spanish "spanish"
    Swedish "swedish"
    Tamil "tamil"
    Turkish "turkish"
}

const TOKENS: u8 = 1;

impl Analyzer {
    /// The code on disk; never 0.
    pub(crate) fn code(self) -> u8 {
        match self {
            Self::Tokens => TOKENS,
            Self::Stems(language) => TOKENS + 1 + language as u8,
        }
    }

    pub(crate) fn from_code(code: u8) -> Option<Self> {
        let all = [Self::Tokens].into_iter().chain(Language::ALL.iter().copied().map(Self::Stems));
        all.into_iter().find(|analyzer| analyzer.code() == code)
    }

    fn name(self) -> &'static str {
        match self {
            Self::Tokens => "tokens",
            Self::Stems(language) => language.name(),
        }
    }
}

/// The name of an unknown analyzer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{found}` is neither `tokens` nor the name of a language whose words can be stemmed, as `english`")]
pub struct UnknownAnalyzer {
    found: String,
}

impl FromStr for Analyzer {
    type Err = UnknownAnalyzer;

    fn from_str(text: &str) -> Result<Self, UnknownAnalyzer> {
        let name = text.trim().to_lowercase();
        let mut all = Language::ALL.iter().map(|&language| Self::Stems(language)).chain([Self::Tokens]);
        all.find(|analyzer| analyzer.name() == name).ok_or(UnknownAnalyzer { found: text.to_owned() })
    }
}

impl fmt::Display for Analyzer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl serde::Serialize for Analyzer {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

/// Calls `tell` with each word of a [normalised](super::normalised) text and its term: the CRC-32 of its
/// stem, so that no dictionary is needed. Among a hundred thousand words, one pair on average shares a
/// number. An error of `tell` ends the call.
pub(crate) fn stems<E>(
    language: Language,
    text: &str,
    mut tell: impl FnMut(&str, u32) -> Result<(), E>,
) -> Result<(), E> {
    let stemmer = Stemmer::new(language.algorithm());
    let words = text.split(|c: char| !c.is_alphanumeric() && !is_mark(c));
    for word in words.filter(|word| word.contains(char::is_alphanumeric)) {
        // The stemmer takes time and memory for every letter.
        let short = word.len() <= LONGEST_WORD;
        let lower = lower_case(language, word);
        let stem = if short { stemmer.stem(&lower) } else { lower.as_str().into() };
        // The last number means "no term".
        tell(word, crc32fast::hash(stem.as_bytes()).min(u32::MAX - 1))?;
    }
    Ok(())
}

/// Words longer than this, in bytes, are not stemmed.
const LONGEST_WORD: usize = 256;

/// In Turkish, dotless I is a different letter from i.
fn lower_case(language: Language, word: &str) -> String {
    match language {
        Language::Turkish => characters::lower_case(&word.replace('\u{130}', "i").replace('I', "\u{131}")),
        _ => characters::lower_case(word),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_and_names_are_read_back() {
        let mut seen = vec![0];
        for analyzer in
            Language::ALL.iter().map(|&language| Analyzer::Stems(language)).chain([Analyzer::Tokens])
        {
            assert_eq!(Analyzer::from_code(analyzer.code()), Some(analyzer));
            assert_eq!(analyzer.to_string().parse(), Ok(analyzer));
            assert!(!seen.contains(&analyzer.code()));
            seen.push(analyzer.code());
        }
        assert_eq!((Analyzer::from_code(0), Analyzer::from_code(200)), (None, None));
        assert!("klingon".parse::<Analyzer>().is_err());
    }

    fn of(language: Language, text: &str) -> Vec<u32> {
        let mut found = Vec::new();
        let done: Result<(), ()> = stems(language, &super::super::normalised(text), |_, term| {
            found.push(term);
            Ok(())
        });
        assert_eq!(done, Ok(()));
        found
    }

    /// Stored data depends on these numbers: another version of the stemmer must give the same ones.
    #[test]
    fn stems_are_what_they_were() {
        let english = of(Language::English, "The Leaking leaks, generously LEAKED (5) alzheimer's");
        let stem = |stem: &str| crc32fast::hash(stem.as_bytes());
        let expected = ["the", "leak", "leak", "generous", "leak", "5", "alzheim", "s"].map(stem);
        assert_eq!(english, expected);
        assert_eq!(of(Language::German, "H\u{e4}user Haus"), ["haus", "haus"].map(stem));
        assert_eq!(
            of(Language::Russian, "\u{43a}\u{43d}\u{438}\u{433}\u{438}"),
            [stem("\u{43a}\u{43d}\u{438}\u{433}")]
        );
        // All languages, on a text that contains something of each script.
        let text = "Running \u{43a}\u{43d}\u{438}\u{433}\u{438} \u{3b2}\u{3b9}\u{3b2}\u{3bb}\u{3af}\u{3b1} \u{915}\u{93f}\u{924}\u{93e}\u{92c}\u{947}\u{902} \u{627}\u{644}\u{643}\u{62a}\u{628} maisons";
        let all: Vec<u32> = Language::ALL.iter().flat_map(|&language| of(language, text)).collect();
        assert_eq!(crc32fast::hash(bytemuck::cast_slice(&all)), 1_356_173_658);
        // Composed or not, with marks between letters, and in Turkish.
        assert_eq!(of(Language::German, "Ha\u{308}user"), of(Language::German, "H\u{e4}user"));
        assert_eq!(of(Language::German, "Donau\u{ad}dampf"), of(Language::German, "Donaudampf"));
        assert_eq!(of(Language::Hindi, "\u{935}\u{93f}\u{926}\u{94d}\u{92f}\u{93e}\u{932}\u{92f}").len(), 1);
        assert_eq!(of(Language::Tamil, "\u{ba4}\u{bae}\u{bbf}\u{bb4}\u{bcd} \u{bae}").len(), 2);
        let turkish = |text| of(Language::Turkish, text);
        assert_eq!(turkish("\u{130}STANBUL"), turkish("istanbul"));
        assert_eq!(turkish("IRMAK"), turkish("\u{131}rmak"));
        assert_ne!(turkish("IRMAK"), turkish("irmak"));
        // Texts of any length work.
        assert_eq!(of(Language::English, &"s".repeat(1_000_000)).len(), 1);
        assert!(of(Language::English, " ?! ").is_empty());
    }
}
