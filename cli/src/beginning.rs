//! Shortens long texts for display.

use crate::cut::floor;
use crate::escape::escaped;

/// Bytes of a title that a terminal shows.
const LINE: usize = 160;

/// A text on one line, with runs of white space replaced by one space.
pub fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
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
}
