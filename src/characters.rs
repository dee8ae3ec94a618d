//! Kinds of characters.

use unicode_general_category::{GeneralCategory, get_general_category};

/// Whether a character is a mark of the one before it: an accent, or a vowel of many scripts.
pub(crate) fn is_mark(c: char) -> bool {
    use GeneralCategory::{EnclosingMark, NonspacingMark, SpacingMark};
    // Most characters are ASCII.
    !c.is_ascii() && matches!(get_general_category(c), EnclosingMark | NonspacingMark | SpacingMark)
}
