//! Which parts of a text an analyzer reads, and which are indexed character by character.
//!
//! Chinese, Japanese, Korean, Thai and some other languages put no spaces between words, or none between a
//! word and its endings. The end of a word cannot be found without a dictionary, and tokenizers split the
//! same word differently depending on its neighbours. So every character of these scripts is a term, and so
//! is every pair of neighbours; a word is found inside a longer run, whatever the analyzer. Symbols, such as
//! emoji, are treated the same way: few tokenizers know them.

use std::borrow::Cow;

use unicode_general_category::{GeneralCategory, get_general_category};
use unicode_normalization::{IsNormalized, UnicodeNormalization, is_nfkc_quick};

use crate::characters::{is_mark, is_symbol, lower_case, one_sigma};

/// A part of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Piece<'a> {
    /// For the analyzer.
    Text(&'a str),
    /// Consecutive characters of scripts without spaces and symbols.
    Characters(&'a str),
}

/// Normalises a text for search: to normal form KC, so that `ﬁ` is `fi` and `Ａ` is `A`, with one form of
/// sigma, and without invisible characters such as a soft hyphen.
pub(crate) fn normalised(text: &str) -> Cow<'_, str> {
    if text.is_ascii() {
        return Cow::Borrowed(text);
    }
    let seen: Cow<'_, str> = match text.contains(is_unseen) {
        true => text.replace(is_unseen, "").into(),
        false => text.into(),
    };
    one_sigma(match is_nfkc_quick(seen.chars()) {
        IsNormalized::Yes => seen,
        _ => seen.nfkc().collect::<String>().into(),
    })
}

/// The parts of a [normalised] text in order; nothing is left out. With `symbols`, all symbols beyond ASCII
/// are characters of their own, for an analyzer that only knows letters and digits.
pub(crate) fn pieces(text: &str, symbols: bool) -> impl Iterator<Item = Piece<'_>> {
    let is_own = move |c: char| is_own(c) || symbols && !c.is_ascii() && is_symbol(c);
    let mut rest = text;
    std::iter::from_fn(move || {
        let own = is_own(rest.chars().next()?);
        let end = if rest.is_ascii() { None } else { rest.find(|c| is_own(c) != own) };
        let (piece, after) = rest.split_at(end.unwrap_or(rest.len()));
        rest = after;
        Some(if own { Piece::Characters(piece) } else { Piece::Text(piece) })
    })
}

/// Terms from this number on are those of [`own_term`]; token ids are below.
pub(crate) const FIRST_OWN_TERM: u32 = 1 << 31;

/// The term of one or two characters, or of a word that the analyzer does not know. Among thirty thousand
/// terms, about one pair shares a number.
pub(crate) fn own_term(text: &str) -> u32 {
    // The last number means "no term".
    (FIRST_OWN_TERM | crc32fast::hash(text.as_bytes()) >> 1).min(u32::MAX - 1)
}

/// Each character of a run.
pub(crate) fn singles(run: &str) -> impl Iterator<Item = &str> {
    run.char_indices().map(|(at, c)| &run[at..at + c.len_utf8()])
}

/// Each pair of neighbours of a run.
pub(crate) fn pairs(run: &str) -> impl Iterator<Item = &str> {
    let ends = run.char_indices().map(|(at, c)| at + c.len_utf8()).skip(1);
    run.char_indices().zip(ends).map(|((at, _), end)| &run[at..end])
}

/// The searchable parts of a text unknown to the analyzer: its words, in lower case, and each symbol.
pub(crate) fn unknown(text: &str, mut tell: impl FnMut(Piece<'_>)) {
    let is_of_word = |c: char| c.is_alphanumeric() || is_mark(c);
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let end = match is_of_word(first) {
            true => rest.find(|c| !is_of_word(c)).unwrap_or(rest.len()),
            false => first.len_utf8(),
        };
        let (piece, after) = rest.split_at(end);
        rest = after;
        if is_of_word(first) {
            tell(Piece::Text(&lower_case(piece)));
        } else if is_symbol(first) {
            tell(Piece::Characters(piece));
        }
    }
}

/// Whether a character is a term by itself.
fn is_own(c: char) -> bool {
    // Most characters are below this limit.
    c >= '\u{a6}' && (is_unspaced(c) && (c.is_alphanumeric() || is_mark(c)) || is_picture(c))
}

/// Whether a character is a symbol that is not a mathematical sign or a currency, such as an emoji.
fn is_picture(c: char) -> bool {
    get_general_category(c) == GeneralCategory::OtherSymbol
        // Skin tones.
        || matches!(c, '\u{1f3fb}'..='\u{1f3ff}')
}

/// Whether a character belongs to a script without spaces between words, or without spaces around them; with
/// punctuation and symbols of its blocks.
pub(crate) fn is_unspaced(c: char) -> bool {
    matches!(u32::from(c),
        0x0e00..=0x0fff // Thai, Lao, Tibetan
        | 0x1000..=0x109f | 0xa9e0..=0xa9ff | 0xaa60..=0xaa7f // Myanmar
        | 0x1100..=0x11ff | 0x3130..=0x318f | 0xa960..=0xa97f | 0xac00..=0xd7ff // Hangul
        | 0x1780..=0x17ff | 0x1950..=0x1aaf | 0xaa80..=0xaadf // Khmer, Tai
        | 0x2e80..=0x2fdf | 0x3005..=0x3007 | 0x3021..=0x312f | 0x3190..=0x31ff // Kana, Bopomofo, strokes
        | 0x3400..=0x4dbf | 0x4e00..=0x9fff | 0xf900..=0xfaff | 0x2_0000..=0x3_ffff // Han
        | 0xa000..=0xa4cf // Yi
        | 0x1_aff0..=0x1_b2ff // Kana, Nushu
    )
}

/// Whether a character is invisible: one that forbids or allows a break, joins others or selects between
/// their forms.
fn is_unseen(c: char) -> bool {
    !c.is_ascii()
        && (get_general_category(c) == GeneralCategory::Format
            || matches!(c, '\u{180b}'..='\u{180f}' | '\u{fe00}'..='\u{fe0f}' | '\u{e0100}'..='\u{e01ef}'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Marks characters of scripts without spaces with brackets.
    fn written(text: &str) -> String {
        let text = normalised(text);
        let written = pieces(&text, false).map(|piece| match piece {
            Piece::Text(text) => text.to_owned(),
            Piece::Characters(run) => format!("[{run}]"),
        });
        written.collect()
    }

    #[test]
    fn scripts_without_spaces_are_told_from_others() {
        for (text, expected) in [
            ("plain words, 10-20", "plain words, 10-20"),
            ("把機器，推論。", "[把機器],[推論]。"),
            ("iPhone手机 16", "iPhone[手机] 16"),
            ("東京タワー々", "[東京タワー々]"),
            ("한국어 검색", "[한국어] [검색]"),
            ("ค้นหา ๒", "[ค้นหา] [๒]"),
            ("café Ελλάδα слово עברית हिन्दी", "café Ελλάδα слово עברית हिन्दी"),
            ("noon 🎉🎉!", "noon [🎉🎉]!"),
            ("👩🏽\u{200d}💻 ❤\u{fe0f}", "[👩🏽💻] [❤]"),
            ("25°C a ≥ b $5 €5", "25[°]C a ≥ b $5 €5"),
            // Compatibility forms and invisible characters.
            ("ﬁbrils eﬃcient Ｆｕｌｌ", "fibrils efficient Full"),
            ("photo\u{ad}synthesis zero\u{200b}width", "photosynthesis zerowidth"),
            ("cafe\u{301}", "café"),
            ("ｶﾞｽ ㍿", "[ガス] [株式会社]"),
            ("", ""),
        ] {
            assert_eq!(written(text), expected, "{text}");
        }
    }

    #[test]
    fn neighbours_are_pairs() {
        assert_eq!(singles("機器a").collect::<Vec<_>>(), ["機", "器", "a"]);
        assert_eq!(pairs("機器推").collect::<Vec<_>>(), ["機器", "器推"]);
        assert_eq!((pairs("機").count(), pairs("").count()), (0, 0));
    }

    #[test]
    fn unknown_words_are_words_all_the_same() {
        let mut found = Vec::new();
        unknown("ሰላም፡Ꭰbc-∞☃ ", |piece| match piece {
            Piece::Text(word) => found.push(word.to_owned()),
            Piece::Characters(run) => found.push(format!("[{run}]")),
        });
        assert_eq!(found, ["ሰላም", "ꭰbc", "[∞]", "[☃]"]);
    }

    proptest! {
        #[test]
        fn nothing_is_left_out_or_joined(text in "(\\PC|[a機ー🎉 ]|\\s){0,40}") {
            let normal = normalised(&text);
            prop_assert_eq!(normalised(&normal), normal.as_ref());
            let parts: Vec<Piece<'_>> = pieces(&normal, false).collect();
            let joined: String = parts.iter().map(|piece| match piece {
                Piece::Text(text) | Piece::Characters(text) => *text,
            }).collect();
            prop_assert_eq!(joined, normal.as_ref());
            for both in parts.windows(2) {
                let is_run = |piece: &Piece<'_>| matches!(piece, Piece::Characters(_));
                prop_assert!(is_run(&both[0]) != is_run(&both[1]));
            }
            for term in parts.iter().map(|piece| match piece {
                Piece::Text(text) | Piece::Characters(text) => own_term(text),
            }) {
                prop_assert!((FIRST_OWN_TERM..u32::MAX).contains(&term));
            }
        }
    }
}
