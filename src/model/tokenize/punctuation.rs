//! Tokens that are punctuation alone.

use unicode_general_category::{GeneralCategory, get_general_category};

/// How tokenizers mark a token that goes on with a word, or one that begins one.
const MARKS: [&str; 3] = ["##", "\u{2581}", "\u{120}"];
/// How they write a space that belongs to no word.
const SPACES: [&str; 2] = ["\u{2581}", "\u{120}"];
/// Punctuation by Unicode that stands for words.
const SIGNS: &str = "#%&@*\u{a7}\u{2030}";

/// Whether a token of a vocabulary has punctuation and nothing else, or is a space. Symbols (`+`, `$`, `=`)
/// are none.
pub(super) fn is_all(token: &str) -> bool {
    if SPACES.contains(&token) {
        return true;
    }
    let own = MARKS.iter().find_map(|mark| token.strip_prefix(mark)).unwrap_or(token);
    let own = if own.is_empty() { token } else { own };
    !own.is_empty() && own.chars().all(is)
}

fn is(c: char) -> bool {
    use GeneralCategory as Category;
    let is_punctuation = matches!(
        get_general_category(c),
        Category::ConnectorPunctuation
            | Category::DashPunctuation
            | Category::OpenPunctuation
            | Category::ClosePunctuation
            | Category::InitialPunctuation
            | Category::FinalPunctuation
            | Category::OtherPunctuation
    );
    is_punctuation && !SIGNS.contains(c)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn punctuation_is_told_from_signs_that_mean_something() {
        for token in [
            ".",
            ",",
            "?",
            "!",
            "...",
            "##.",
            "\u{2581}?",
            "\u{120}(",
            "\u{2019}",
            "\u{3002}",
            "\u{ff1f}",
            "-",
            "\u{2581}",
            "\u{120}",
        ] {
            assert!(is_all(token), "{token}");
        }
        for token in ["a", "##s", "5", "+", "$", "%", "#", "&", "@", "\u{732b}", "\u{1f600}", "a.", ""] {
            assert!(!is_all(token), "{token}");
        }
    }
}
