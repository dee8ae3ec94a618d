//! Tokens that are only punctuation.

use unicode_general_category::{GeneralCategory, get_general_category};

/// Marks of a token that continues or begins a word.
const MARKS: [&str; 3] = ["##", "\u{2581}", "\u{120}"];
/// A space that does not belong to a word.
const SPACES: [&str; 2] = ["\u{2581}", "\u{120}"];
/// Unicode punctuation that stands for words.
const SIGNS: &str = "#%&@*\u{a7}\u{2030}";

/// Whether a token of a vocabulary is only punctuation, or a space. Symbols (`+`, `$`, `=`) do not count.
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
