//! Texts for display: shortened, on one line, with characters escaped that a terminal interprets.

use std::fmt::Display;
use std::ops::{Range, RangeInclusive};

/// Bytes of a title that a terminal shows.
const LINE: usize = 160;

/// A text on one line, with runs of white space replaced by one space.
pub fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The letters of a line that may be wrapped prose, which goes on with the next line.
const WRAPPED: RangeInclusive<usize> = 40..=100;

/// A part of a text on one line: ` · ` stands for the end of a paragraph, an item, a row or a cell, and a
/// space for other white space.
pub fn flowing(text: &str, part: Range<usize>) -> String {
    let (mut line, mut rest) = (String::new(), &text[part.clone()]);
    while let Some((word, behind)) = rest.find(char::is_whitespace).map(|end| rest.split_at(end)) {
        rest = behind.trim_start();
        let space = &behind[..behind.len() - rest.len()];
        let own = text[..part.end - behind.len()].rsplit('\n').next().unwrap_or_default();
        let is_end = match space.matches('\n').count() {
            0 => space.contains('\t'),
            1 => own.contains('\t') || !WRAPPED.contains(&own.chars().count()),
            _ => true,
        };
        line += word;
        line += if is_end && !own.is_empty() { " · " } else { " " };
    }
    line + rest
}

/// The beginning of a text for a terminal: one line, with control characters escaped.
pub fn line_of(text: &str) -> String {
    escaped(&beginning(text, LINE))
}

/// The beginning of a text on one line, cut at a word boundary, with an ellipsis if it was cut.
pub fn beginning(text: &str, most: usize) -> String {
    let cut = &text[..floor(text, most)];
    let is_cut = cut.len() < text.len();
    let inside = is_cut && !text[cut.len()..].starts_with(char::is_whitespace);
    // Scripts without spaces have no such boundary.
    let end = cut.rfind(char::is_whitespace).filter(|&end| inside && end > most / 2).unwrap_or(cut.len());
    let mut line = one_line(&cut[..end]);
    if is_cut {
        line.truncate(line.trim_end_matches([',', ';', ':', '.']).len());
        line.push('…');
    }
    line
}

/// A number with its noun: `1 document`, `2 documents`, `2 queries`, `2 leaves`.
pub fn counted(count: impl TryInto<u64> + Display + Copy, noun: &str) -> String {
    let several = match (noun.strip_suffix('y'), noun.strip_suffix('f')) {
        _ if matches!(count.try_into(), Ok(1)) => noun.to_owned(),
        (Some(stem), _) => format!("{stem}ies"),
        (_, Some(stem)) => format!("{stem}ves"),
        _ => format!("{noun}s"),
    };
    format!("{count} {several}")
}

/// The last character boundary at or before a byte of a text.
pub fn floor(text: &str, at: usize) -> usize {
    let mut at = at.min(text.len());
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    at
}

/// Begins and ends a bold word in the program's output: characters that Unicode keeps for a program's own
/// use.
pub const MARK: char = '\u{fdd0}';
/// See [`MARK`].
pub const UNMARK: char = '\u{fdd1}';

/// Whether the character could steer a terminal, end a line, or change the order in which a line is shown.
pub fn acts(character: char) -> bool {
    // Controls are C0, DEL and C1; the others make words bold, separate lines, or override and isolate
    // directions.
    character.is_control()
        || matches!(character, MARK | UNMARK | '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{2029}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Text from data on one line, with such characters escaped, as in `\u{1b}`.
pub fn escaped(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for character in text.chars() {
        if acts(character) {
            shown.extend(character.escape_unicode());
        } else {
            shown.push(character);
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_beginning_ends_with_a_word_and_says_that_it_was_cut() {
        assert_eq!(beginning("A whole  text.\n", 300), "A whole text.");
        assert_eq!(beginning("one two three", 11), "one two…");
        assert_eq!(beginning("one two, three", 8), "one two…");
        assert_eq!(beginning(&"é".repeat(20), 11), format!("{}…", "é".repeat(5)));
        assert_eq!(beginning("", 11), "");
    }

    #[test]
    fn paragraphs_items_and_rows_are_apart_on_one_line() {
        let all = |text: &str| flowing(text, 0..text.len());
        let table = all("Options\n\nName\tDoes\n--judge opens\n");
        assert_eq!(table, "Options · Name · Does · --judge opens · ");
        let wrapped = format!("{}\nand \r\n\r\nnext", "word ".repeat(10));
        assert_eq!(all(&wrapped), format!("{} and · next", "word ".repeat(10).trim_end()));
        let long = format!("{}\nnext", "word ".repeat(30));
        assert_eq!(flowing(&long, 145..long.len()), "word · next");
        assert_eq!((all(""), all("\n\né\u{3000}é")), (String::new(), " é é".to_owned()));
    }

    #[test]
    fn a_count_agrees_with_its_noun() {
        for (noun, several) in [("dead row", "dead rows"), ("dev query", "dev queries"), ("leaf", "leaves")] {
            assert_eq!(counted(1_u64, noun), format!("1 {noun}"));
            assert_eq!(
                [0, 2].map(|count| counted(count, noun)),
                [format!("0 {several}"), format!("2 {several}")]
            );
        }
    }

    #[test]
    fn no_character_is_cut() {
        assert_eq!([0, 1, 2, 3, 9].map(|at| floor("aé", at)), [0, 1, 1, 3, 3]);
        assert_eq!(floor("é", 9), 2);
        assert_eq!(floor("", 1), 0);
    }
}
