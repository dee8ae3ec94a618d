//! Passages of long documents: their length, and where a text is cut.
//!
//! A passage begins at a heading and never ends with one; whole sections share one as far as they fit. Within
//! a section, a text is cut between blocks if that leaves a passage a quarter full, otherwise between
//! sentences (UAX #29, with a single line end treated as a space). A sentence longer than a passage is cut
//! between lines, then between words, and a word that is still too long between tokens. In a text without an
//! outline, blocks are paragraphs, and a passage must be half full.

use std::fmt;
use std::str::FromStr;

use serde::Serialize;
use unicode_segmentation::UnicodeSegmentation;

use crate::outline::{Outline, Part, paragraph_end};
use crate::progress::{Cancelled, Stop};

/// The length of an index's passages, in tokens of its encoder.
///
/// Written as `200/40` in text; an overlap that is omitted is a fifth.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[non_exhaustive]
pub struct Passages {
    /// Maximum number of tokens of a passage's text.
    pub tokens: u32,
    /// Maximum overlap of a passage with the previous one, in tokens of whole sentences.
    pub overlap: u32,
}

impl Passages {
    /// Minimum number of tokens of a passage.
    pub const FEWEST_TOKENS: u32 = 8;
    /// Maximum number of tokens of a passage; the encoder of an index must also read that many.
    pub const MOST_TOKENS: u32 = 8192;

    /// Passages of at most `tokens` tokens, with at most `overlap` shared by neighbours.
    ///
    /// # Errors
    /// [`BadPassages`] for fewer tokens than [`Self::FEWEST_TOKENS`] or more than [`Self::MOST_TOKENS`], and
    /// for an overlap of more than half of them.
    pub fn new(tokens: u32, overlap: u32) -> Result<Self, BadPassages> {
        let own = Self { tokens, overlap };
        let sound = (Self::FEWEST_TOKENS..=Self::MOST_TOKENS).contains(&tokens) && overlap <= tokens / 2;
        if sound { Ok(own) } else { Err(BadPassages { found: own.to_string(), most: Self::MOST_TOKENS }) }
    }

    /// The passages for an encoder that reads `most` tokens: four fifths of them, which leaves room for a
    /// title, and at most 200, with a fifth shared. `None` if that is fewer than [`Self::FEWEST_TOKENS`].
    pub fn sized_to(most: u32) -> Option<Self> {
        let tokens = (most / 5 * 4).min(200);
        Self::new(tokens, tokens / OVERLAP_SHARE).ok()
    }
}

/// Which share of a passage is in the next one, too, if nothing else is said.
const OVERLAP_SHARE: u32 = 5;

impl fmt::Display for Passages {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.tokens, self.overlap)
    }
}

impl FromStr for Passages {
    type Err = BadPassages;

    fn from_str(text: &str) -> Result<Self, BadPassages> {
        let bad = || BadPassages { found: text.to_owned(), most: Self::MOST_TOKENS };
        let (tokens, overlap) =
            text.split_once('/').map_or((text, None), |(own, shared)| (own, Some(shared)));
        let tokens: u32 = tokens.parse().map_err(|_| bad())?;
        let overlap = overlap.map_or(Ok(tokens / OVERLAP_SHARE), str::parse).map_err(|_| bad())?;
        Self::new(tokens, overlap).map_err(|_| bad())
    }
}

/// Passages that are too short or too long, or overlap too much, or an invalid text form.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "passages of `{found}` are not possible: write TOKENS/OVERLAP, such as 200/40, with 8 to {most} tokens, and at \
     most half of them shared by neighbours"
)]
#[non_exhaustive]
pub struct BadPassages {
    /// The requested passages.
    pub found: String,
    /// The maximum number of tokens.
    pub most: u32,
}

/// A part of a text, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Span {
    pub start: u32,
    pub end: u32,
}

impl Span {
    /// All of a text.
    pub fn of(text: &str) -> Self {
        Self { start: 0, end: text.len() as u32 }
    }

    /// The part of a text; `None` if it is out of bounds.
    pub fn part(self, text: &str) -> Option<&str> {
        text.get(self.start as usize..self.end as usize)
    }
}

/// A part of a text that is not cut further.
#[derive(Clone, Copy, Debug)]
struct Unit {
    start: usize,
    /// Includes trailing white space.
    end: usize,
    tokens: usize,
    ends_block: bool,
    is_heading: bool,
}

/// Splits a text.
struct Cutter<'a> {
    text: &'a str,
    /// The start of each token in the text, ascending.
    tokens: &'a [u32],
    most: usize,
    stop: &'a Stop,
    /// Most tokens of a unit: those that the headings before it leave.
    room: usize,
    /// Tokens of the headings that came last.
    headings: usize,
    units: Vec<Unit>,
}

/// The passages of a text, given its outline and the ascending start of each token: at most `most` tokens
/// each, with at most `overlap` shared. At least one; each begins after the previous one, at a character
/// boundary, and together they cover everything except white space.
pub(crate) fn cut(
    text: &str,
    outline: &Outline,
    tokens: &[u32],
    [most, overlap]: [usize; 2],
    stop: &Stop,
) -> Result<Vec<Span>, Cancelled> {
    let is_short = tokens.len() <= most / SHORT;
    if is_short || tokens.len() <= most && !outline.parts().iter().any(Part::is_heading) {
        return Ok(vec![Span::of(text)]);
    }
    let (room, units) = (most.max(1), Vec::new());
    let mut cutter = Cutter { text, tokens, most: room, stop, room, headings: 0, units };
    let mut blocks = outline.parts().iter().filter(|part| part.begins_block()).peekable();
    let mut rest = 0;
    while rest < text.len() {
        let next = blocks.next_if(|part| part.start as usize == rest);
        let end = match (outline.is_empty(), blocks.peek()) {
            (true, _) => paragraph_end(text, rest),
            (false, next) => next.map_or(text.len(), |part| part.start as usize),
        };
        let is_with_heading = |part: &Part| part.is_heading() || part.level == Part::ABOVE;
        cutter.block(rest, end, next.is_some_and(is_with_heading))?;
        rest = end;
    }
    let units = cutter.units;
    // A block that fills more of a passage is its end.
    let least = if outline.is_empty() { most / 2 } else { overlap.max(most / SHORT) };
    let span = |units: &[Unit]| {
        let (first, last) = (units.first()?, units.last()?);
        let end = first.start + text[first.start..last.end].trim_end().len();
        Some(Span { start: first.start as u32, end: end as u32 })
    };
    let sections = section_ends(&units);
    let (mut spans, mut first) = (Vec::new(), 0);
    while first < units.len() {
        let end = passage_end(&units, &sections, first, most, least);
        spans.extend(span(&units[first..end]));
        let Some(following) = units.get(end) else { break };
        // The next one begins with the overlap, as far as new text also fits.
        let (mut next, mut common) = (end, 0);
        while next > first + 1 && !following.is_heading {
            let more = common + units[next - 1].tokens;
            if more > overlap || more + following.tokens > most || units[next - 1].is_heading {
                break;
            }
            (next, common) = (next - 1, more);
        }
        first = next;
    }
    Ok(if spans.is_empty() { vec![Span::of(text)] } else { spans })
}

/// For each unit, the end of its section: the first heading after the section's text.
fn section_ends(units: &[Unit]) -> Vec<usize> {
    let mut ends = vec![units.len(); units.len()];
    for unit in (1..units.len()).rev() {
        let ends_here = units[unit].is_heading && !units[unit - 1].is_heading;
        ends[unit - 1] = if ends_here { unit } else { ends[unit] };
    }
    ends
}

/// A passage whose tokens are at most this part of what fits is short.
const SHORT: usize = 4;

/// The unit after which a passage ends that begins with the unit `first`: one with more than `least` tokens
/// ends where a block does.
fn passage_end(units: &[Unit], sections: &[usize], first: usize, most: usize, least: usize) -> usize {
    let (mut end, mut tokens) = (first, 0);
    let mut section = sections[first];
    while end < units.len() && (end == first || tokens + units[end].tokens <= most) {
        if end == section {
            section = sections[end];
            let fits = |sum: usize, unit: &Unit| Some(sum + unit.tokens).filter(|sum| *sum <= most);
            if units[end..section].iter().try_fold(tokens, fits).is_none() {
                return end;
            }
        }
        tokens += units[end].tokens;
        end += 1;
    }
    if end == units.len() {
        return end;
    }
    let (mut at, mut left) = (end, tokens);
    while at > first && left > least {
        if units[at - 1].ends_block && !units[at - 1].is_heading {
            return at;
        }
        at -= 1;
        left -= units[at].tokens;
    }
    // The headings stay with what follows them.
    let body = units[first..end].iter().rposition(|unit| !unit.is_heading);
    body.map_or(end, |last| first + last + 1)
}

impl Cutter<'_> {
    /// Number of tokens that begin in a part of the text.
    fn count(&self, start: usize, end: usize) -> usize {
        let before = |at: usize| self.tokens.partition_point(|&token| (token as usize) < at);
        before(end) - before(start)
    }

    fn push(&mut self, start: usize, end: usize) {
        if self.text[start..end].trim().is_empty() {
            // White space belongs to what precedes it.
            match self.units.last_mut() {
                Some(last) => last.end = end,
                None => return,
            }
            return;
        }
        let tokens = self.count(start, end);
        self.units.push(Unit { start, end, tokens, ends_block: false, is_heading: false });
    }

    fn block(&mut self, start: usize, end: usize, is_heading: bool) -> Result<(), Cancelled> {
        let (text, before) = (self.text, self.units.len());
        self.room = self.most - if is_heading { 0 } else { self.headings.min(self.most / 2) };
        self.headings = if is_heading { self.headings + self.count(start, end) } else { 0 };
        // Lines may be wrapped anywhere.
        let joined = text[start..end].replace(['\n', '\r'], " ");
        for (at, sentence) in joined.split_sentence_bound_indices() {
            self.stop.check()?;
            let sentence = start + at..start + at + sentence.len();
            if self.count(sentence.start, sentence.end) <= self.room {
                self.push(sentence.start, sentence.end);
                continue;
            }
            let mut line_start = sentence.start;
            for line in text[sentence].split_inclusive('\n') {
                self.line(line_start, line_start + line.len())?;
                line_start += line.len();
            }
        }
        if let Some(last) = self.units.last_mut().filter(|last| last.end == end) {
            last.ends_block = true;
        }
        self.units[before..].iter_mut().for_each(|unit| unit.is_heading = is_heading);
        Ok(())
    }

    /// Cuts a line between words if it is too long.
    fn line(&mut self, start: usize, end: usize) -> Result<(), Cancelled> {
        if self.count(start, end) <= self.room {
            self.push(start, end);
            return Ok(());
        }
        let text = self.text;
        let (mut first, mut tokens) = (start, 0);
        for (at, word) in text[start..end].split_word_bound_indices() {
            self.stop.check()?;
            let word = start + at..start + at + word.len();
            let more = self.count(word.start, word.end);
            if tokens + more > self.room && first < word.start {
                self.push(first, word.start);
                (first, tokens) = (word.start, 0);
            }
            tokens += more;
            if tokens > self.room {
                self.word(word.start, word.end);
                (first, tokens) = (word.end, 0);
            }
        }
        if first < end {
            self.push(first, end);
        }
        Ok(())
    }

    /// Cuts a word between tokens.
    fn word(&mut self, start: usize, end: usize) {
        let first = self.tokens.partition_point(|&token| (token as usize) < start);
        let own = &self.tokens[first..first + self.count(start, end)];
        let mut at = start;
        for &token in own.iter().step_by(self.room).skip(1) {
            // Byte tokens may begin inside a character.
            let next = (at + 1..=token as usize).rev().find(|&byte| self.text.is_char_boundary(byte));
            if let Some(next) = next {
                self.push(at, next);
                at = next;
            }
        }
        if at < end {
            self.push(at, end);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Each letter of a word of up to four is a token; in longer words, each fourth letter.
    fn tokens(text: &str) -> Vec<u32> {
        let mut starts = Vec::new();
        for (at, word) in text.split_word_bound_indices().filter(|(_, word)| !word.trim().is_empty()) {
            starts.extend(word.char_indices().step_by(4).map(|(offset, _)| (at + offset) as u32));
        }
        starts
    }

    fn passages(text: &str, most: usize, overlap: usize) -> Vec<&str> {
        let spans = cut(text, &Outline::default(), &tokens(text), [most, overlap], &Stop::default()).unwrap();
        spans.into_iter().map(|span| span.part(text).unwrap()).collect()
    }

    #[test]
    fn a_short_text_is_one_passage() {
        for text in ["", " \n ", "One.", "One. Two.\n\nThree."] {
            assert_eq!(passages(text, 10, 2), [text]);
        }
    }

    #[test]
    fn texts_are_cut_between_sentences_and_paragraphs() {
        // Five tokens each.
        let text = "An ox was here. An elk saw me. A cat is big. A dog ran off.";
        let halves = ["An ox was here. An elk saw me.", "A cat is big. A dog ran off."];
        assert_eq!(passages(text, 12, 0), halves);
        let overlapping = [
            "An ox was here. An elk saw me.",
            "An elk saw me. A cat is big.",
            "A cat is big. A dog ran off.",
        ];
        assert_eq!(passages(text, 12, 5), overlapping);
        // An overlap of less than a sentence is omitted.
        assert_eq!(passages(text, 12, 4), halves);
        // A paragraph that fills more than half of a passage is a passage of its own.
        let text = "An ox was here.\nAn elk\nsaw me.\n\n \nA cat is big. A dog ran off.";
        assert_eq!(
            passages(text, 16, 0),
            ["An ox was here.\nAn elk\nsaw me.", "A cat is big. A dog ran off."]
        );
        // One that would not is not.
        let text = "An ox.\n\nAn elk saw me. A cat is big. A dog ran off.";
        assert_eq!(passages(text, 14, 0), ["An ox.\n\nAn elk saw me. A cat is big.", "A dog ran off."]);
    }

    #[test]
    fn passages_begin_at_headings_and_blocks_stay_whole() {
        // Headings of one token, paragraphs of four.
        let text = "Top\n\nAn ox was here\n\nSub\n\nAn elk saw me\n\nA cat is big\n\nOdd\n\nlet a be so\n\nlet b be so";
        let at = |part: &str| text.find(part).unwrap() as u32;
        let parts =
            [("Top", 1), ("An ox", 0), ("Sub", 2), ("An elk", 0), ("A cat", 0), ("Odd", 1), ("let a", 0)];
        let part = |(name, level)| Part { start: at(name), line: 0, level };
        let outline = Outline::new(parts.map(part).to_vec()).unwrap();
        let passages = |most| {
            let spans = cut(text, &outline, &tokens(text), [most, 2], &Stop::default()).unwrap();
            spans.into_iter().map(|span| span.part(text).unwrap()).collect::<Vec<_>>()
        };
        // The last block has a blank line, and fits.
        let sections = [
            "Top\n\nAn ox was here",
            "Sub\n\nAn elk saw me\n\nA cat is big",
            "Odd\n\nlet a be so\n\nlet b be so",
        ];
        assert_eq!(passages(12), sections);
        assert_eq!(passages(100), [text], "a short text");
        let short = passages(7);
        assert_eq!(short[..3], [sections[0], "Sub\n\nAn elk saw me", "A cat is big"], "{short:?}");
        assert_eq!(short[3..], ["Odd\n\nlet a be so", "let b be so"], "a block that does not fit");
        // Whole sections share a passage.
        let text = "A\n\nB\n\nox\n\nC\n\nan elk is here now\n\nD\n\nno ox";
        let part =
            |(name, level): (&str, u8)| Part { start: text.find(name).unwrap() as u32, line: 0, level };
        let parts = [("A", 1), ("B", 1), ("ox", 0), ("C", 1), ("an elk", 0), ("D", 1), ("no ox", 0)];
        let outline = Outline::new(parts.map(part).to_vec()).unwrap();
        let spans = cut(text, &outline, &tokens(text), [11, 0], &Stop::default()).unwrap();
        let found: Vec<_> = spans.iter().map(|span| span.part(text).unwrap()).collect();
        assert_eq!(found, ["A\n\nB\n\nox\n\nC\n\nan elk is here now", "D\n\nno ox"]);
    }

    #[test]
    fn long_sentences_are_cut_at_lines_then_words_then_tokens() {
        let lines = "one two six\nten out big\nred old new";
        assert_eq!(passages(lines, 4, 0), ["one two six", "ten out big", "red old new"]);
        assert_eq!(passages("one two six ten out", 2, 0), ["one two", "six ten", "out"]);
        assert_eq!(passages(&"x".repeat(20), 2, 0), ["xxxxxxxx", "xxxxxxxx", "xxxx"]);
        assert_eq!(passages("\u{597d}\u{597d}\u{597d}", 1, 0), ["\u{597d}"; 3]);
        // A token that begins inside a character.
        let text = "\u{1f600}\u{1f600}";
        assert_eq!(cut(text, &Outline::default(), &[0, 1, 4, 5], [1, 0], &Stop::default()).unwrap().len(), 2);
    }

    #[test]
    fn passages_are_written_as_they_are_read() {
        assert_eq!("200/40".parse(), Passages::new(200, 40));
        assert_eq!("64".parse::<Passages>().unwrap().to_string(), "64/12");
        assert_eq!("64/0".parse(), Passages::new(64, 0));
        for (most, sized) in [(8190, "200/40"), (254, "200/40"), (126, "100/20"), (10, "8/1")] {
            assert_eq!(Passages::sized_to(most).unwrap().to_string(), sized);
        }
        assert_eq!(Passages::sized_to(9), None);
        for bad in ["", "x", "200/", "7/0", "200/101", "9000/0", "200/40/1", "-1/0"] {
            assert!(bad.parse::<Passages>().is_err(), "{bad}");
        }
    }

    proptest! {
        #[test]
        fn no_character_is_lost_and_no_passage_is_too_long(
            text in "([a-z\u{e9}\u{597d}]{1,9}|[.?!] |\n|\n\n| |\t){0,120}",
            most in 1usize..20,
            overlap in 0usize..10,
            levels in prop::collection::vec(0u8..4, 0..40),
        ) {
            let starts = tokens(&text);
            // Every third word begins a part.
            let words = text.unicode_word_indices().step_by(3);
            let parts = words.zip(levels).map(|((at, _), level)| Part { start: at as u32, line: 0, level });
            let outline = Outline::new(parts.collect()).unwrap();
            let spans = cut(&text, &outline, &starts, [most, overlap.min(most / 2)], &Stop::default()).unwrap();
            let mut end = 0;
            for (number, span) in spans.iter().enumerate() {
                prop_assert!(span.part(&text).is_some());
                prop_assert!(number == 0 || spans[number - 1].start < span.start);
                prop_assert!(number == 0 || spans[number - 1].end < span.end);
                let between = text.get(end.min(span.start as usize)..span.start as usize);
                prop_assert_eq!(between.unwrap().trim(), "");
                let own = starts.iter().filter(|&&at| span.start <= at && at < span.end).count();
                prop_assert!(own <= most, "{} of {}", own, most);
                end = span.end as usize;
            }
            prop_assert_eq!(text[end..].trim(), "");
        }
    }
}
