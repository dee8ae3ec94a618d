//! The part of a text in which the words of a question are.

use std::ops::Range;

use crate::cut::floor;

/// Letters of a word that is looked for, at least, in scripts that have spaces.
const SHORTEST: usize = 3;
/// Letters by which a word and that of the question may differ at their ends.
const ENDING: usize = 3;

/// Words of a question.
#[derive(Default)]
pub struct Words(Vec<String>);

impl Words {
    pub fn of(question: &str) -> Self {
        let words = question.split(|c: char| !c.is_alphanumeric());
        let words = words.filter(|word| word.chars().count() >= SHORTEST || is_unspaced(word));
        Self(words.map(str::to_lowercase).collect())
    }

    /// The places of the words in a text, in order, each with the number of its word.
    pub fn places(&self, text: &str) -> Vec<(Range<usize>, usize)> {
        let mut places = Vec::new();
        if self.0.is_empty() {
            return places;
        }
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

/// Where the part of `shown` bytes begins that has the most words of the question, the first of such: at a
/// word, a sixth of the part in front of its first word of the question.
pub fn start(text: &str, places: &[(Range<usize>, usize)], shown: usize) -> usize {
    let lead = shown / 6;
    let Some(first) = best(places, shown - lead).filter(|first| *first > lead) else { return 0 };
    let from = floor(text, first - lead);
    // At a word, where there is one.
    let from = text[from..first].find(char::is_whitespace).map_or(from, |space| from + space);
    text.len() - text[from..].trim_start().len()
}

/// The word of the question from which on the most different ones are within reach.
fn best(places: &[(Range<usize>, usize)], reach: usize) -> Option<usize> {
    let words = places.iter().map(|(_, word)| word + 1).max()?;
    let (mut counts, mut different, mut end) = (vec![0_usize; words], 0, 0);
    let mut best: Option<(usize, usize)> = None;
    for (first, own) in places {
        while let Some((_, word)) = places.get(end).filter(|(place, _)| place.end <= first.start + reach) {
            different += usize::from(counts[*word] == 0);
            counts[*word] += 1;
            end += 1;
        }
        if best.is_none_or(|(most, _)| different > most) {
            best = Some((different, first.start));
        }
        // A word that is longer than the reach was not counted.
        if let Some(left) = counts[*own].checked_sub(1) {
            counts[*own] = left;
            different -= usize::from(left == 0);
        } else {
            end += 1;
        }
    }
    best.map(|(_, start)| start)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn begin<'a>(text: &'a str, question: &str, shown: usize) -> &'a str {
        &text[start(text, &Words::of(question).places(text), shown)..]
    }

    #[test]
    fn it_begins_in_front_of_the_most_words() {
        let long = format!("One zebra. {}The ZEBRA eats. {}", "nothing of it. ".repeat(20), "é ".repeat(200));
        assert!(begin(&long, "zebra eat", 160).starts_with("it. nothing of it. The ZEBRA eats"));
        assert!(begin(&long, "zebra", 160).starts_with("One zebra."));
        assert!(begin(&long, "", 160).starts_with("One zebra."));
        assert_eq!(begin("", "zebra", 160), "");
        assert_eq!(begin("A zebra.", "zebra", 0), "zebra.");
        let unbroken = format!("{}zebra", "é".repeat(100));
        assert_eq!(begin(&unbroken, "zebra", 160), unbroken);
    }

    #[test]
    fn words_longer_than_the_part_are_found_where_they_are() {
        let (one, other) = ("a".repeat(50), "b".repeat(50));
        let text = format!("{one} {other} {one} c ccc ddd");
        assert!(begin(&text, &format!("{one} {other} ccc ddd"), 24).starts_with("c ccc ddd"));
        assert!(begin(&text, &format!("{one} {other}"), 24).starts_with(&one));
    }
}
