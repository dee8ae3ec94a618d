//! The part of a text to show for a question, with the question's words marked.

use std::collections::HashSet;
use std::ops::Range;

use serde::Serialize;
use unicode_segmentation::UnicodeSegmentation;

use super::result::{Hit, HitPassage};
use crate::characters::{floor, words};
use crate::document::Document;
use crate::lexical::is_unspaced;
use crate::terms::is_stop_word;

/// How many bytes of a text are searched, and for how many words.
const MOST_BYTES: usize = 1 << 20;
const MOST_WORDS: usize = 64;
/// Maximum number of word positions examined in a text.
const MOST_PLACES: usize = 10_000;
/// Minimum length in letters of a word to mark, in scripts with spaces.
const SHORTEST: usize = 3;

/// A part of a text to show for a question. All positions are byte offsets in the text, on character
/// boundaries.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Snippet {
    /// Its first byte.
    pub start: usize,
    /// The end, after its last byte.
    pub end: usize,
    /// The words of the question in it, ascending.
    pub marks: Vec<Range<usize>>,
    /// The headings above its first marked word, or above its start, outermost first; empty if unknown.
    pub headings: Vec<String>,
    /// The line of the file of that word, from 1; `None` if unknown.
    pub line: Option<u32>,
}

/// The words of a question to mark in texts.
#[derive(Clone, Debug, Default)]
pub struct QuestionWords(Vec<String>);

/// The position of a word in a text, and the number of the word.
type WordPlace = (Range<usize>, usize);

impl QuestionWords {
    /// The words of a question without stop words, unless it has no others.
    pub fn of(question: &str) -> Self {
        let long = |word: &str| word.chars().count() >= SHORTEST || word.chars().any(is_unspaced);
        let mut known = HashSet::new();
        let words = words(question).map(|(_, word)| word).filter(|word| long(word)).map(str::to_lowercase);
        let (common, mut telling): (Vec<String>, Vec<String>) =
            words.filter(|word| known.insert(word.clone())).partition(|word| is_stop_word(word));
        if telling.is_empty() {
            telling = common;
        }
        telling.truncate(MOST_WORDS);
        Self(telling)
    }

    /// Where the words occur in a text, ascending; of a long text, the first mebibyte is searched.
    pub fn marks(&self, text: &str) -> Vec<Range<usize>> {
        self.places(text).into_iter().map(|(place, _)| place).collect()
    }

    /// The part of about `most` bytes of a text in which the different words of the question have the most
    /// letters together, as longer words tell more, the first such part; the start of the text if it has none
    /// of them. It begins at a sentence or else a word, if one is near, and ends with its last sentence, for
    /// which it may be a third longer, or else with a word.
    pub fn snippet(&self, text: &str, most: usize) -> Snippet {
        let places = self.places(text);
        let start = start(text, &places, &self.letters(), most);
        let end = end(text, start, most);
        let within = |place: &Range<usize>| place.start >= start && place.end <= end;
        let marks = places.into_iter().map(|(place, _)| place).filter(within).collect();
        Snippet { start, end, marks, ..Snippet::default() }
    }

    /// The letters of each word.
    fn letters(&self) -> Vec<usize> {
        self.0.iter().map(|word| word.chars().count()).collect()
    }

    fn places(&self, text: &str) -> Vec<WordPlace> {
        let mut places = Vec::new();
        if self.0.is_empty() {
            return places;
        }
        for (start, word) in words(&text[..floor(text, MOST_BYTES)]) {
            self.place(word, start, &mut places);
            if places.len() >= MOST_PLACES {
                break;
            }
        }
        places
    }

    fn place(&self, word: &str, start: usize, places: &mut Vec<WordPlace>) {
        if word.chars().any(is_unspaced) {
            // Spaces do not separate words in this script, so words are searched within the text.
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

impl Hit {
    /// The part of the hit to show for a question, about `most` bytes: of its best passage, or of the text in
    /// an index without passages. Its positions refer to the whole text; it is empty with
    /// [`SearchRequest::ids_only`](crate::SearchRequest::ids_only).
    pub fn snippet(&self, words: &QuestionWords, most: usize) -> Snippet {
        let best = self.passages.first().map_or(0..self.document.text.len(), HitPassage::range);
        self.document.snippet(best, words, most)
    }
}

impl Document {
    /// As [`Hit::snippet`], of a part of the text. A heading at its beginning is left out: it is among the
    /// headings of the snippet.
    pub fn snippet(&self, part: Range<usize>, words: &QuestionWords, most: usize) -> Snippet {
        let Self { text, outline, .. } = self;
        let from = part.start;
        let Some(part) = text.get(part).filter(|part| !part.is_empty()) else { return Snippet::default() };
        let Snippet { mut start, mut end, mut marks, .. } = words.snippet(part, most);
        marks.iter_mut().for_each(|mark| *mark = from + mark.start..from + mark.end);
        (start, end) = (from + start, from + end);
        while let Some(below) = outline.below_heading(start).filter(|below| *below < end) {
            start = below;
        }
        marks.retain(|mark| mark.start >= start);
        let at = marks.first().map_or(start, |mark| mark.start);
        let headings = outline.headings(text, at).into_iter().map(str::to_owned).collect();
        Snippet { start, end, marks, headings, line: outline.line(text, at) }
    }
}

/// Whether two words in lower case differ only in their endings: at least seven in ten letters of the longer
/// one match.
fn is_same(asked: &str, word: &str) -> bool {
    if asked.chars().next() != word.chars().next() {
        return false;
    }
    let common = asked.chars().zip(word.chars()).take_while(|(a, b)| a == b).count();
    let longer = asked.chars().count().max(word.chars().count());
    common == longer || common >= SHORTEST && 10 * common >= 7 * longer
}

/// Where the part of `shown` bytes that tells most of the question begins: at the sentence of its first
/// word of the question, if at most a third of the part precedes that, or else at a word so near.
fn start(text: &str, places: &[WordPlace], letters: &[usize], shown: usize) -> usize {
    if text.len() <= shown {
        return 0;
    }
    let lead = shown / 3;
    let Some(first) = best(places, letters, shown - lead).filter(|first| *first > lead) else { return 0 };
    let from = floor(text, first - lead);
    let before = &text[from..first];
    let block = before.rfind("\n\n").map_or(0, |end| end + 2);
    let joined = joined(&before[block..]);
    let sentence = match joined.split_sentence_bound_indices().last() {
        Some((at, _)) if at > 0 => Some(block + at),
        _ => Some(block).filter(|block| *block > 0),
    };
    let from = sentence.or_else(|| before.find(char::is_whitespace)).map_or(from, |at| from + at);
    text.len() - text[from..].trim_start().len()
}

/// Where the part of `shown` bytes from `start` ends.
fn end(text: &str, start: usize, shown: usize) -> usize {
    let end = floor(text, start.saturating_add(shown));
    let trimmed = |end: usize| start + text[start..end].trim_end().len();
    let limit = floor(text, end.saturating_add(shown / 3));
    let limit = text[end..limit].find("\n\n").map_or(limit, |block| end + block);
    let joined = joined(&text[start..limit]);
    let is_whole = |at: usize| at < limit || limit == text.len() || text[limit..].starts_with("\n\n");
    let mut ends = joined.split_sentence_bound_indices().map(|(at, sentence)| start + at + sentence.len());
    if let Some(sentence) = ends.find(|at| trimmed(*at) >= trimmed(end)).filter(|at| is_whole(*at)) {
        return trimmed(sentence);
    }
    // A word that would be cut is left out.
    let near = |space: &usize| end - start - space < shown / 6;
    let space = text[start..end].rfind(char::is_whitespace).filter(near);
    let is_cut = end < text.len() && !text[end..].starts_with(char::is_whitespace);
    trimmed(space.filter(|_| is_cut).map_or(end, |space| start + space))
}

/// A text without ends of lines, because lines may be wrapped anywhere.
fn joined(text: &str) -> String {
    text.replace(['\n', '\r'], " ")
}

/// The word of the question from which different words with the most letters are within reach.
fn best(places: &[WordPlace], letters: &[usize], reach: usize) -> Option<usize> {
    let (mut counts, mut different, mut end) = (vec![0_usize; letters.len()], 0, 0);
    let mut best: Option<(usize, usize)> = None;
    for (first, own) in places {
        while let Some((_, word)) = places.get(end).filter(|(place, _)| place.end <= first.start + reach) {
            different += if counts[*word] == 0 { letters[*word] } else { 0 };
            counts[*word] += 1;
            end += 1;
        }
        if best.is_none_or(|(most, _)| different > most) {
            best = Some((different, first.start));
        }
        // A word longer than the reach was not counted.
        if let Some(left) = counts[*own].checked_sub(1) {
            counts[*own] = left;
            different -= if left == 0 { letters[*own] } else { 0 };
        } else {
            end += 1;
        }
    }
    best.map(|(_, start)| start)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHOWN: usize = 160;

    fn begin<'a>(text: &'a str, question: &str, shown: usize) -> &'a str {
        &text[QuestionWords::of(question).snippet(text, shown).start..]
    }

    /// With marks in brackets.
    fn shown(text: &str, question: &str) -> String {
        let Snippet { start, end, marks, .. } = QuestionWords::of(question).snippet(text, SHOWN);
        let (mut written, mut at) = (if start > 0 { "…" } else { "" }.to_owned(), start);
        for mark in marks {
            written += &format!("{}[{}]", &text[at..mark.start], &text[mark.clone()]);
            at = mark.end;
        }
        written + &text[at..end] + if end < text.len() { "…" } else { "" }
    }

    #[test]
    fn it_begins_in_front_of_the_most_words() {
        let long = format!("One zebra. {}The ZEBRA eats. {}", "nothing of it. ".repeat(20), "é ".repeat(200));
        assert!(begin(&long, "zebra eat", SHOWN).starts_with("The ZEBRA eats"));
        assert!(begin(&long, "zebra", SHOWN).starts_with("One zebra."));
        assert!(begin(&long, "", SHOWN).starts_with("One zebra."));
        assert_eq!(begin("", "zebra", SHOWN), "");
        assert_eq!(begin("A zebra.", "zebra", 0), "zebra.");
        let unbroken = format!("{}zebra", "é".repeat(100));
        assert_eq!(begin(&unbroken, "zebra", SHOWN), unbroken);
        let endings = format!("{}한국어 검색이 됩니다", "nothing of it. ".repeat(20));
        assert!(begin(&endings, "검색", SHOWN).starts_with("한국어 검색이"));
    }

    #[test]
    fn it_ends_with_a_sentence_if_that_is_near() {
        let end = |text: &str| {
            let Snippet { start, end, .. } = QuestionWords::of("zebra").snippet(text, 60);
            text[start..end].to_owned()
        };
        let long = "Nothing of it here. ".repeat(9);
        let text = format!("A zebra eats much grass. It\nsleeps in the shade of a large tree. {long}");
        assert_eq!(end(&text), "A zebra eats much grass. It\nsleeps in the shade of a large tree.");
        let text = format!("A zebra eats much grass. It sleeps {}. {long}", "on and on ".repeat(9));
        assert_eq!(end(&text), "A zebra eats much grass. It sleeps on and on on and on on");
        // A block ends a sentence.
        let text = format!("A zebra eats much grass\n\nand sleeps in the shade of a large tree\n\n{long}");
        assert_eq!(end(&text), "A zebra eats much grass\n\nand sleeps in the shade of a large tree");
        assert_eq!(
            end("A zebra eats much grass. It sleeps in the shade of a large tree"),
            "A zebra eats much grass. It sleeps in the shade of a large tree"
        );
    }

    #[test]
    fn words_are_marked_whatever_their_case_and_ending() {
        for (text, question, expected) in [
            ("The ZEBRA eats; zebras eat.", "what do zebras eat?", "The [ZEBRA] [eats]; [zebras] [eat]."),
            ("Überall Straßen.", "straße überall", "[Überall] [Straßen]."),
            ("An ox is in it", "is it an ox", "An ox is in it"),
            ("", "zebra", ""),
            ("東京都の天気", "東京", "[東京]都の天気"),
            ("สวัสดีชาวโลก", "ชาว", "สวัสดี[ชาว]โลก"),
        ] {
            assert_eq!(shown(text, question), expected);
        }
        let text =
            format!("One zebra. {}And here zebras eat grass. {}", "nothing ".repeat(90), "more ".repeat(90));
        let found = shown(&text, "zebra eats grass");
        assert!(found.starts_with('…') && found.contains("here [zebras] [eat] [grass]."), "{found}");
        assert!(found.ends_with("more…") && found.len() < 2 * SHOWN, "{found}");
        assert!(shown(&text, "").starts_with("One zebra."));
        let long = "é".repeat(1 << 20);
        let found = shown(&long, "é");
        assert!(found.ends_with('…') && found.chars().all(|c| matches!(c, 'é' | '…')));
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
        assert_eq!(QuestionWords::of("What does a Zebra eat, the zebra?").0, ["zebra", "eat"]);
        assert_eq!(QuestionWords::of("What does the?").0, ["what", "does", "the"]);
    }

    #[test]
    fn many_words_and_many_places_take_no_longer_than_a_person_waits() {
        let words: Vec<String> = (0..3_000).map(|n| format!("word{n}")).collect();
        assert_eq!(QuestionWords::of(&words.join(" ")).0.len(), MOST_WORDS);
        assert_eq!(QuestionWords::of(&"の ".repeat(1_000)).0.len(), 1);
        let places = QuestionWords::of("の").marks(&"の".repeat(100_000));
        assert_eq!(places.len(), MOST_PLACES);
        let runs = QuestionWords::of("の").marks(&"の、".repeat(20_000));
        assert!(runs.len() == MOST_PLACES && runs.is_sorted_by_key(|place| place.start));
    }

    #[test]
    fn a_heading_at_the_beginning_is_left_out_as_it_is_among_the_headings() {
        use crate::outline::{Outline, Part};
        let text = "Operate\n\nChange the model\n\nIt returns.\n\nEnds\n\nThe end.\n\nLast";
        let at = |part: &str, level, line| Part { start: text.find(part).unwrap() as u32, line, level };
        let parts = [("Operate", 2, 1), ("Change", 3, 3), ("It", 0, 5), ("Ends", 3, 7), ("The end", 0, 9)];
        let parts = parts.map(|(part, level, line)| at(part, level, line));
        let outline = Outline::new([&parts[..], &[at("Last", 2, 11)]].concat()).unwrap();
        let document = Document::new("id", "", text).with_outline(outline);
        let of = |part: &str, question: &str| {
            let start = text.find(part).unwrap();
            let found = document.snippet(start..text.len(), &QuestionWords::of(question), 40);
            (&text[found.start..found.end], found.headings.join(" > "), found.line.unwrap())
        };
        let under = "Operate > Change the model".to_owned();
        assert_eq!(of("Operate", "operate"), ("It returns.", under.clone(), 5));
        assert_eq!(of("Change", "returns"), ("It returns.\n\nEnds\n\nThe end.\n\nLast", under, 5));
        assert_eq!(of("Ends", "end"), ("The end.\n\nLast", "Operate > Ends".to_owned(), 9));
        assert_eq!(of("Last", "end"), ("Last", "Last".to_owned(), 11));
    }

    #[test]
    fn words_longer_than_the_part_are_found_where_they_are() {
        let (one, other) = ("a".repeat(50), "b".repeat(50));
        let text = format!("{one} {other} {one} c ccc ddd");
        assert!(begin(&text, &format!("{one} {other} ccc ddd"), 24).starts_with("c ccc ddd"));
        assert!(begin(&text, &format!("{one} {other}"), 24).starts_with(&one));
    }
}
