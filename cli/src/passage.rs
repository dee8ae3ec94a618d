//! The part of a text in which the words of a question are.

use std::collections::HashSet;
use std::ops::Range;

use crate::cut::floor;

/// Bytes of a text in which words are looked for, and words that are looked for.
const MOST_BYTES: usize = 1 << 20;
const MOST_WORDS: usize = 64;
/// Places of words in a text that are looked at.
const MOST_PLACES: usize = 10_000;
/// Letters of a word that is looked for, at least, in scripts that have spaces.
const SHORTEST: usize = 3;
/// Words of questions that say nothing of what is asked.
const COMMON: [&str; 34] = [
    "about", "and", "are", "been", "can", "did", "does", "for", "from", "had", "has", "have", "how", "into",
    "its", "not", "that", "the", "their", "there", "they", "this", "was", "were", "what", "when", "where",
    "which", "who", "why", "will", "with", "you", "your",
];

/// Words of a question.
#[derive(Default)]
pub struct Words(Vec<String>);

impl Words {
    /// Its words without those that every question has, unless it has no others.
    pub fn of(question: &str) -> Self {
        let words = question.split(|c: char| !c.is_alphanumeric());
        let words = words.filter(|word| word.chars().count() >= SHORTEST || is_unspaced(word));
        let mut known = HashSet::new();
        let words = words.map(str::to_lowercase).filter(|word| known.insert(word.clone()));
        let (common, mut telling): (Vec<String>, Vec<String>) =
            words.partition(|word| COMMON.contains(&word.as_str()));
        if telling.is_empty() {
            telling = common;
        }
        telling.truncate(MOST_WORDS);
        Self(telling)
    }

    /// The places of the words in a text, in order, each with the number of its word.
    pub fn places(&self, text: &str) -> Vec<(Range<usize>, usize)> {
        let mut places = Vec::new();
        if self.0.is_empty() {
            return places;
        }
        let mut before = 0;
        for piece in text[..floor(text, MOST_BYTES)].split_inclusive(|c: char| !c.is_alphanumeric()) {
            let word = piece.trim_end_matches(|c: char| !c.is_alphanumeric());
            if !word.is_empty() {
                self.place(word, before, &mut places);
            }
            if places.len() >= MOST_PLACES {
                break;
            }
            before += piece.len();
        }
        places
    }

    fn place(&self, word: &str, start: usize, places: &mut Vec<(Range<usize>, usize)>) {
        if is_unspaced(word) {
            // Words are not told apart by spaces, so they are looked for within.
            let mut found = Vec::new();
            for (number, asked) in self.0.iter().enumerate() {
                let own = word.match_indices(asked.as_str()).take(MOST_PLACES);
                found.extend(own.map(|(at, asked)| (start + at..start + at + asked.len(), number)));
            }
            found.sort_by_key(|(place, _)| place.start);
            found.dedup_by(|next, one| next.0.start < one.0.end);
            places.append(&mut found);
            return;
        }
        let lower = word.to_lowercase();
        if let Some(number) = self.0.iter().position(|asked| is_same(asked, &lower)) {
            places.push((start..start + word.len(), number));
        }
    }
}

/// Whether any letter belongs to a script without spaces between words, or between words and endings.
fn is_unspaced(word: &str) -> bool {
    word.chars().any(|c| {
        matches!(
            u32::from(c),
            0x0e00..=0x0fff
                | 0x1000..=0x109f
                | 0x1780..=0x17ff
                | 0x3040..=0x31ff
                | 0x3400..=0x9fff
                | 0xac00..=0xd7af
                | 0x2_0000..=0x3_ffff
        )
    })
}

/// Whether two words in lower case are the same but for their endings: by seven letters in ten of the longer.
fn is_same(asked: &str, word: &str) -> bool {
    if asked.chars().next() != word.chars().next() {
        return false;
    }
    let common = asked.chars().zip(word.chars()).take_while(|(a, b)| a == b).count();
    let longer = asked.chars().count().max(word.chars().count());
    common == longer || common >= SHORTEST && 10 * common >= 7 * longer
}

/// Where the part of `shown` bytes begins that has the most words of the question, the first of such: at a
/// word, a sixth of the part in front of its first word of the question. A text that fits begins at its
/// start.
pub fn start(text: &str, places: &[(Range<usize>, usize)], shown: usize) -> usize {
    if text.len() <= shown {
        return 0;
    }
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
        let endings = format!("{}한국어 검색이 됩니다", "nothing of it. ".repeat(20));
        assert!(begin(&endings, "검색", 160).starts_with("nothing of it. 한국어 검색이"));
    }

    #[test]
    fn words_that_are_alike_are_told_apart_and_endings_are_not() {
        for (asked, word) in
            [("zebra", "zebras"), ("eat", "eats"), ("cell", "cells"), ("infected", "infects")]
        {
            assert!(is_same(asked, word) && is_same(word, asked), "{asked} {word}");
        }
        for (asked, word) in
            [("heart", "hearing"), ("sickle", "sick"), ("general", "genetic"), ("eat", "ear"), ("cat", "dog")]
        {
            assert!(!is_same(asked, word) && !is_same(word, asked), "{asked} {word}");
        }
        assert_eq!(Words::of("What does a Zebra eat, the zebra?").0, ["zebra", "eat"]);
        assert_eq!(Words::of("What does the?").0, ["what", "does", "the"]);
    }

    #[test]
    fn many_words_and_many_places_take_no_longer_than_a_person_waits() {
        let words: Vec<String> = (0..3_000).map(|n| format!("word{n}")).collect();
        assert_eq!(Words::of(&words.join(" ")).0.len(), MOST_WORDS);
        assert_eq!(Words::of(&"の ".repeat(1_000)).0.len(), 1);
        let places = Words::of("の").places(&"の".repeat(100_000));
        assert_eq!(places.len(), MOST_PLACES);
        let runs = Words::of("の").places(&"の、".repeat(20_000));
        assert!(runs.len() == MOST_PLACES && runs.is_sorted_by_key(|(place, _)| place.start));
    }

    #[test]
    fn words_longer_than_the_part_are_found_where_they_are() {
        let (one, other) = ("a".repeat(50), "b".repeat(50));
        let text = format!("{one} {other} {one} c ccc ddd");
        assert!(begin(&text, &format!("{one} {other} ccc ddd"), 24).starts_with("c ccc ddd"));
        assert!(begin(&text, &format!("{one} {other}"), 24).starts_with(&one));
    }
}
