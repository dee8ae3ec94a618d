//! The part of a text that a hit shows, with the words of the question in it marked.

use std::collections::HashSet;
use std::ops::Range;

use serde::Serialize;

use crate::cut::floor;

/// Bytes of a text in which the best part is looked for: more would be felt while typing.
const LOOKED_AT: usize = 64 << 10;
/// Bytes of the part, about.
const SHOWN: usize = 480;
/// Bytes in front of its first marked word, about.
const LEAD: usize = 80;
/// Letters of a word that is looked for, at least, in scripts that have spaces.
const SHORTEST: usize = 3;
/// Letters by which a word and that of the question may differ at their ends.
const ENDING: usize = 3;

/// Words of a question.
pub struct Words(Vec<String>);

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

impl Words {
    pub fn of(question: &str) -> Self {
        let words = question.split(|c: char| !c.is_alphanumeric());
        let words = words.filter(|word| word.chars().count() >= SHORTEST || is_unspaced(word));
        Self(words.map(str::to_lowercase).collect())
    }

    /// The places of the words in a text, each with the number of its word.
    fn places(&self, text: &str) -> Vec<(Range<usize>, usize)> {
        let mut places = Vec::new();
        let mut before = 0;
        for piece in text.split_inclusive(|c: char| !c.is_alphanumeric()) {
            let word = piece.trim_end_matches(|c: char| !c.is_alphanumeric());
            if !word.is_empty() {
                self.place(word, before, &mut places);
            }
            before += piece.len();
        }
        places
    }

    fn place(&self, word: &str, start: usize, places: &mut Vec<(Range<usize>, usize)>) {
        if is_unspaced(word) {
            // Words are not told apart by spaces, so they are looked for within.
            for (number, asked) in self.0.iter().enumerate() {
                let found = word.match_indices(asked.as_str());
                places.extend(found.map(|(at, asked)| (start + at..start + at + asked.len(), number)));
            }
            places.sort_by_key(|(place, _)| place.start);
            places.dedup_by(|next, one| next.0.start < one.0.end);
            return;
        }
        let lower = word.to_lowercase();
        if let Some(number) = self.0.iter().position(|asked| is_same(asked, &lower)) {
            places.push((start..start + word.len(), number));
        }
    }
}

/// Whether a script that has no spaces between words is used, by one of its letters.
fn is_unspaced(word: &str) -> bool {
    word.chars().any(|c| matches!(u32::from(c), 0x0e00..=0x0eff | 0x1780..=0x17ff | 0x3040..=0x30ff | 0x3400..=0x9fff | 0x2_0000..=0x3_ffff))
}

/// Whether two words in lower case are the same but for their endings; of short ones, but for an s.
fn is_same(asked: &str, word: &str) -> bool {
    let common = asked.chars().zip(word.chars()).take_while(|(a, b)| a == b).count();
    let rest = |text: &str| text.chars().count() - common;
    let (of_asked, of_word) = (rest(asked), rest(word));
    let is_plural = |one: &str, more: &str| more.strip_suffix('s') == Some(one);
    of_asked == 0 && of_word == 0
        || common > ENDING && of_asked.max(of_word) <= ENDING
        || common == ENDING && (is_plural(asked, word) || is_plural(word, asked))
}

/// The part of a text with the most words of the question.
pub fn excerpt<'a>(text: &'a str, words: &Words) -> Excerpt<'a> {
    let looked_at = &text[..floor(text, LOOKED_AT)];
    let places = words.places(looked_at);
    let start = match best(&places) {
        Some(first) if places[first].0.start > LEAD => {
            let lead = floor(text, places[first].0.start - LEAD);
            // At a word, where there is one.
            let space = text[lead..places[first].0.start].find(char::is_whitespace);
            space.map_or(lead, |space| lead + space)
        }
        _ => 0,
    };
    let end = floor(text, start + SHOWN);
    // Behind a word, where one ends there about.
    let space = text[start..end].rfind(char::is_whitespace).filter(|space| end - start - space < LEAD);
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

/// The place from which on most words of the question are within reach; the first of such.
fn best(places: &[(Range<usize>, usize)]) -> Option<usize> {
    let mut best = None;
    for (number, (first, _)) in places.iter().enumerate() {
        let within = places[number..].iter().take_while(|(place, _)| place.end <= first.start + SHOWN - LEAD);
        let different: HashSet<usize> = within.map(|(_, word)| *word).collect();
        if best.is_none_or(|(most, _)| different.len() > most) {
            best = Some((different.len(), number));
        }
    }
    best.map(|(_, number)| number)
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
