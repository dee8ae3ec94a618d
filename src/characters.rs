//! Kinds of characters, and lower case.

use std::borrow::Cow;

use unicode_general_category::{GeneralCategory, get_general_category};

/// Whether a character is a mark of the one before it: an accent, or a vowel of many scripts.
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

/// A text without the form that sigma has at the end of a word.
pub(crate) fn one_sigma(text: Cow<'_, str>) -> Cow<'_, str> {
    match text.contains('ς') {
        true => text.replace('ς', "σ").into(),
        false => text,
    }
}
