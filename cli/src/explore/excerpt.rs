//! The part of a text that a hit shows, with the words of the question in it marked.

use serde::Serialize;

use crate::cut::floor;
use crate::passage::{Words, start};

/// Bytes of a text in which the best part is looked for: more would be felt while typing.
const LOOKED_AT: usize = 64 << 10;
/// Bytes of the part, about.
const SHOWN: usize = 480;
/// Bytes at its end in which a word may be left out that would be cut.
const TAIL: usize = 80;

/// A stretch of text, and whether it is a word of the question.
#[derive(Debug, PartialEq, Serialize)]
pub struct Stretch<'a> {
    text: &'a str,
    marked: bool,
}

#[derive(Debug, Serialize)]
pub struct Excerpt<'a> {
    stretches: Vec<Stretch<'a>>,
    /// Whether there is more of the text before it, and behind it.
    before: bool,
    behind: bool,
}

/// The part of a text with the most words of the question.
pub fn excerpt<'a>(text: &'a str, words: &Words) -> Excerpt<'a> {
    let looked_at = &text[..floor(text, LOOKED_AT)];
    let places = words.places(looked_at);
    let start = start(text, &places, SHOWN);
    let end = floor(text, start + SHOWN);
    // Behind a word, where one ends there about.
    let space = text[start..end].rfind(char::is_whitespace).filter(|space| end - start - space < TAIL);
    let end = if end < text.len() { space.map_or(end, |space| start + space) } else { end };
    let mut stretches = Vec::new();
    let mut at = start;
    for (place, _) in places.iter().filter(|(place, _)| place.start >= start && place.end <= end) {
        push(&mut stretches, &text[at..place.start], false);
        push(&mut stretches, &text[place.clone()], true);
        at = place.end;
    }
    push(&mut stretches, &text[at..end], false);
    Excerpt { stretches, before: start > 0, behind: end < text.len() }
}

/// All of a text, marked as far as it is looked at.
pub fn marked<'a>(text: &'a str, words: &Words) -> Vec<Stretch<'a>> {
    let mut stretches = Vec::new();
    let mut at = 0;
    for (place, _) in words.places(&text[..floor(text, LOOKED_AT)]) {
        push(&mut stretches, &text[at..place.start], false);
        push(&mut stretches, &text[place.clone()], true);
        at = place.end;
    }
    push(&mut stretches, &text[at..], false);
    stretches
}

fn push<'a>(stretches: &mut Vec<Stretch<'a>>, text: &'a str, marked: bool) {
    if !text.is_empty() {
        stretches.push(Stretch { text, marked });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str, question: &str) -> String {
        let excerpt = excerpt(text, &Words::of(question));
        let whole = excerpt
            .stretches
            .iter()
            .map(|s| if s.marked { format!("[{}]", s.text) } else { s.text.to_owned() });
        let whole: String = whole.collect();
        format!("{}{whole}{}", if excerpt.before { "…" } else { "" }, if excerpt.behind { "…" } else { "" })
    }

    #[test]
    fn words_are_marked_whatever_their_case_and_ending() {
        assert_eq!(
            shown("The ZEBRA eats; zebras eat.", "what do zebras eat?"),
            "The [ZEBRA] [eats]; [zebras] [eat]."
        );
        assert_eq!(shown("Überall Straßen.", "straße überall"), "[Überall] [Straßen].");
        assert_eq!(shown("An ox is in it", "is it an ox"), "An ox is in it");
        assert_eq!(shown("", "zebra"), "");
        assert_eq!(shown("<b>zebra</b>", "zebra"), "<b>[zebra]</b>");
    }

    #[test]
    fn the_part_with_most_words_is_shown() {
        let text = format!(
            "One zebra. {}And here zebras eat grass. {}",
            "nothing ".repeat(200),
            "more ".repeat(200)
        );
        let found = shown(&text, "zebra eats grass");
        assert!(
            found.starts_with('…') && found.contains("here [zebras] [eat] [grass].") && found.ends_with('…'),
            "{found}"
        );
        assert!(found.len() < 2 * SHOWN);
        assert!(shown(&text, "").starts_with("One zebra."));
    }

    #[test]
    fn scripts_without_spaces_and_text_without_an_end_have_parts_too() {
        assert_eq!(shown("東京都の天気", "東京"), "[東京]都の天気");
        assert_eq!(shown("สวัสดีชาวโลก", "ชาว"), "สวัสดี[ชาว]โลก");
        let long = "é".repeat(1 << 20);
        let found = shown(&long, "é");
        assert!(found.ends_with('…') && found.chars().all(|c| matches!(c, 'é' | '…')));
        assert_eq!(marked(&long, &Words::of("zebra")).len(), 1);
    }
}
