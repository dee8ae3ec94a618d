//! Words whose tokens do not depend on the preceding text.
//!
//! Byte-level and SentencePiece tokenizers give a word after a space other tokens than the same word at the
//! start of a text or a line, or after a bracket. To find words, each is read after a space.

use crate::characters::is_mark;

/// A word after a space, a bracket and a line end, and at the start.
const PROBE: &str = "test test (test\ntest";
const WORD: &str = "test";

/// Whether texts are to be [spaced], so that a word has the same tokens everywhere. `words`: the tokens of a
/// text without punctuation.
pub(super) fn is_needed(words: impl Fn(&str) -> Option<Vec<u32>>) -> bool {
    let same = |text: &str, word: &str| {
        words(text).zip(words(word)).is_some_and(|(all, own)| !own.is_empty() && all == own.repeat(4))
    };
    !same(PROBE, WORD) && same(&spaced(PROBE), &spaced(WORD))
}

/// A text with one space in front of each word, and no other white space.
pub(super) fn spaced(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + text.len() / 8 + 1);
    let mut in_word = false;
    for c in text.chars() {
        let is_of_word = c.is_alphanumeric() || in_word && is_mark(c);
        let wants_space = c.is_whitespace() || is_of_word && !in_word;
        if wants_space && !out.ends_with(' ') {
            out.push(' ');
        }
        if !c.is_whitespace() {
            out.push(c);
        }
        in_word = is_of_word;
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_word_is_behind_a_space() {
        for (text, expected) in [
            ("a (b)\n\tc", " a ( b) c"),
            ("3.14 don't", " 3. 14 don' t"),
            ("C++ x", " C++ x"),
            ("हिन्दी", " हिन्दी"),
            ("", ""),
            ("  ", " "),
            ("- -", "- -"),
        ] {
            assert_eq!(spaced(text), expected, "{text}");
        }
    }

    #[test]
    fn texts_are_spaced_where_that_helps() {
        // Characters; the one before it shows whether a character begins a word.
        let by_space = |text: &str| {
            let mut before = '^';
            let ids = text.chars().map(|c| u32::from(std::mem::replace(&mut before, c)) << 8 | u32::from(c));
            Some(ids.filter(|id| char::from(*id as u8).is_alphanumeric()).collect())
        };
        assert!(is_needed(by_space));
        let alike =
            |text: &str| Some(text.bytes().filter(u8::is_ascii_alphanumeric).map(u32::from).collect());
        assert!(!is_needed(alike));
        assert!(!is_needed(|_| None));
    }
}
