//! Character classes, lower case, and positions where texts may be cut.

use std::borrow::Cow;

use unicode_general_category::{GeneralCategory, get_general_category};

/// Whether a character is a combining mark: an accent, or a vowel in many scripts.
pub(crate) fn is_mark(c: char) -> bool {
    use GeneralCategory::{EnclosingMark, NonspacingMark, SpacingMark};
    // Most characters are ASCII.
    !c.is_ascii() && matches!(get_general_category(c), EnclosingMark | NonspacingMark | SpacingMark)
}

/// Whether a character is a symbol: an emoji, a currency, a mathematical sign.
pub(crate) fn is_symbol(c: char) -> bool {
    use GeneralCategory::{CurrencySymbol, MathSymbol, ModifierSymbol, OtherSymbol};
    matches!(get_general_category(c), CurrencySymbol | MathSymbol | ModifierSymbol | OtherSymbol)
}

/// A word in lower case, with one form of sigma: `ΛΌΓΟΣ`, `λόγος` and `λόγοσ` are the same word.
pub(crate) fn lower_case(word: &str) -> String {
    one_sigma(word.to_lowercase().into()).into_owned()
}

/// A text without the final form of sigma.
pub(crate) fn one_sigma(text: Cow<'_, str>) -> Cow<'_, str> {
    match text.contains('ς') {
        true => text.replace('ς', "σ").into(),
        false => text,
    }
}

/// The last character boundary at or before a byte of a text.
pub(crate) fn floor(text: &str, at: usize) -> usize {
    let mut at = at.min(text.len());
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    at
}

/// The runs of letters and digits of a text, each with the position of its first byte.
pub(crate) fn words(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut at = 0;
    text.split_inclusive(|c: char| !c.is_alphanumeric()).filter_map(move |piece| {
        let start = at;
        at += piece.len();
        let word = piece.trim_end_matches(|c: char| !c.is_alphanumeric());
        (!word.is_empty()).then_some((start, word))
    })
}
