//! The headings and blocks of a text, and the lines of the file that it was read from.

use std::fmt;

use serde::de::{self, Deserializer, SeqAccess, Visitor};
use serde::ser::{SerializeSeq, Serializer};
use serde::{Deserialize, Serialize};

use crate::characters::floor;

/// Bytes of a heading that are read with the passages below it.
const LONGEST_HEADING: usize = 200;
/// Between the parts of a path of headings.
pub(crate) const BETWEEN_HEADINGS: &str = " \u{203a} ";

/// The structure of a document's text: where its headings and blocks begin, and on which lines of the file.
///
/// Readers of files make it. Passages begin at its headings, and hits name their heading and line. A text
/// without one is divided at its blank lines.
///
/// # Serialized form
/// A list with an entry for each part, in the order of the text: `[start, line, level]`. A `level` of 0 is
/// left out, and so is a `line` of 0 with it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Outline(Vec<Part>);

/// A part of a text: a heading, a block such as a paragraph, a list, a table or a listing, or a line of one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Part {
    /// Its first byte in the text.
    pub start: u32,
    /// The line of the file on which it begins, from 1; 0 if unknown. Further lines of the text follow on the
    /// next lines of the file, up to the next part.
    pub line: u32,
    /// 1 to 6 for a heading, which ends with its line of text; 0 for a block; [`Part::ABOVE`] for one
    /// that belongs to the heading after it; [`Part::LINE`] for a line within a block.
    pub level: u8,
}

impl Part {
    /// The level of a line that does not begin a block.
    pub const LINE: u8 = 9;
    /// The level of a block that belongs to the heading after it, such as the comment above a function.
    pub const ABOVE: u8 = 8;

    /// Whether it is a heading.
    pub fn is_heading(&self) -> bool {
        (1..=6).contains(&self.level)
    }

    /// Whether it is a heading or begins a block.
    pub(crate) fn begins_block(&self) -> bool {
        self.level != Self::LINE
    }
}

impl Outline {
    /// The outline with these parts.
    ///
    /// # Errors
    /// [`BadOutline`] unless they are in the order of the text, each with a level of 0 to 6,
    /// [`Part::ABOVE`] or [`Part::LINE`].
    pub fn new(parts: Vec<Part>) -> Result<Self, BadOutline> {
        let is_level = |part: &Part| part.level <= 6 || matches!(part.level, Part::ABOVE | Part::LINE);
        match parts.is_sorted_by(|a, b| a.start < b.start) && parts.iter().all(is_level) {
            true => Ok(Self(parts)),
            false => Err(BadOutline(())),
        }
    }

    /// The outline of a text in paragraphs, of which the first begins on a line of the file.
    #[cfg(feature = "folders")]
    pub(crate) fn of_paragraphs(text: &str, line: u32) -> Self {
        let (mut parts, mut start, mut line) = (Vec::new(), 0, line);
        while start < text.len() {
            parts.push(Part { start: start as u32, line, level: 0 });
            let end = paragraph_end(text, start);
            line += lines_in(&text[start..end]);
            start = end;
        }
        Self(parts)
    }

    /// The outline of a text that has no lines in its file.
    #[cfg(feature = "folders")]
    pub(crate) fn without_lines(mut self) -> Self {
        self.0.retain(Part::begins_block);
        self.0.iter_mut().for_each(|part| part.line = 0);
        self
    }

    /// Whether it has no parts.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Its parts, in the order of the text.
    pub fn parts(&self) -> &[Part] {
        &self.0
    }

    /// Whether every part begins at a character of the text.
    pub(crate) fn fits(&self, text: &str) -> bool {
        self.0.iter().all(|part| text.get(part.start as usize..).is_some_and(|rest| !rest.is_empty()))
    }

    /// The headings above a byte of the text, outermost first, with one that begins there.
    pub fn headings<'a>(&self, text: &'a str, at: usize) -> Vec<&'a str> {
        self.headings_of(text, self.0.partition_point(|part| part.start as usize <= at))
    }

    /// The headings that are open after the first `end` parts.
    fn headings_of<'a>(&self, text: &'a str, end: usize) -> Vec<&'a str> {
        let (mut path, mut level) = (Vec::new(), 7);
        for place in (0..end).rev().filter(|&place| self.0[place].is_heading()) {
            if self.0[place].level < level {
                level = self.0[place].level;
                path.push(self.heading(text, place));
            }
            if level == 1 {
                break;
            }
        }
        path.reverse();
        path
    }

    /// A title with the headings above a place in the text, as it is read with the text from there.
    pub(crate) fn title(&self, title: &str, text: &str, at: u32) -> String {
        let own = Some(title).filter(|title| !title.is_empty());
        let above = self.headings_of(text, self.0.partition_point(|part| part.start < at));
        own.into_iter().chain(above).collect::<Vec<_>>().join(BETWEEN_HEADINGS)
    }

    /// Where the part behind a heading begins, if the heading begins at a byte of the text.
    pub(crate) fn below_heading(&self, at: usize) -> Option<usize> {
        let place = self.0.binary_search_by_key(&at, |part| part.start as usize).ok()?;
        let next = self.0.get(place + 1).filter(|_| self.0[place].is_heading())?;
        Some(next.start as usize)
    }

    /// The line of the file, from 1, that a byte of the text comes from; `None` if it is unknown.
    pub fn line(&self, text: &str, at: usize) -> Option<u32> {
        let before = self.0.partition_point(|part| part.start as usize <= at);
        let part = self.0[..before].last().filter(|part| part.line > 0)?;
        part.line.checked_add(lines_in(text.get(part.start as usize..at)?))
    }

    /// The heading that is a part: its line up to the next part, and not more than a title's length of it.
    fn heading<'a>(&self, text: &'a str, place: usize) -> &'a str {
        let start = self.0[place].start as usize;
        let end = self.0.get(place + 1).map_or(text.len(), |next| next.start as usize);
        let line = text.get(start..end).unwrap_or_default().lines().next().unwrap_or_default();
        line[..floor(line, line.len().min(LONGEST_HEADING))].trim_end()
    }

    /// The most tokens of the headings above a place, given the start of each token of the text, and the
    /// number of those between two headings.
    pub(crate) fn longest_path(&self, text: &str, tokens: &[u32], between: usize) -> usize {
        let (mut open, mut longest): (Vec<(u8, usize)>, _) = (Vec::new(), 0);
        for (place, part) in self.0.iter().enumerate().filter(|(_, part)| part.is_heading()) {
            let before = |at: u32| tokens.partition_point(|&token| token < at);
            let end = part.start + self.heading(text, place).len() as u32;
            open.retain(|(level, _)| *level < part.level);
            open.push((part.level, before(end) - before(part.start) + between));
            longest = longest.max(open.iter().map(|(_, own)| own).sum());
        }
        longest
    }

    /// The bytes that it takes in memory.
    pub(crate) fn heap_bytes(&self) -> usize {
        self.0.len() * size_of::<Part>()
    }
}

/// The number of line ends in a text.
pub(crate) fn lines_in(text: &str) -> u32 {
    text.bytes().filter(|byte| *byte == b'\n').count() as u32
}

/// The end of the paragraph that begins at a byte: after the next blank lines.
pub(crate) fn paragraph_end(text: &str, start: usize) -> usize {
    let (mut at, mut blank) = (start, false);
    for line in text[start..].split_inclusive('\n') {
        let is_blank = line.trim().is_empty();
        if blank && !is_blank {
            return at;
        }
        at += line.len();
        blank = is_blank && at > start;
    }
    text.len()
}

/// Parts out of order, or of an unknown level.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "an outline is a list of [start, line, level], ordered by start; a level is 0 for a block, 1 to 6 for a heading, \
     {} for a block above its heading, {} for a line",
    Part::ABOVE,
    Part::LINE
)]
pub struct BadOutline(());

impl Serialize for Outline {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut parts = serializer.serialize_seq(Some(self.0.len()))?;
        for Part { start, line, level } in self.0.iter().copied() {
            match (line, level) {
                (0, 0) => parts.serialize_element(&[start])?,
                (_, 0) => parts.serialize_element(&[start, line])?,
                _ => parts.serialize_element(&[start, line, u32::from(level)])?,
            }
        }
        parts.end()
    }
}

impl<'de> Deserialize<'de> for Outline {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let parts: Vec<ReadPart> = Vec::deserialize(deserializer)?;
        Self::new(parts.into_iter().map(|ReadPart(part)| part).collect()).map_err(de::Error::custom)
    }
}

struct ReadPart(Part);

impl<'de> Deserialize<'de> for ReadPart {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Numbers;

        impl<'de> Visitor<'de> for Numbers {
            type Value = Part;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("[start, line, level]")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Part, A::Error> {
                let start = seq.next_element()?.ok_or_else(|| de::Error::invalid_length(0, &self))?;
                let line = seq.next_element()?.unwrap_or_default();
                let level = seq.next_element()?.unwrap_or_default();
                match seq.next_element::<de::IgnoredAny>()? {
                    None => Ok(Part { start, line, level }),
                    Some(_) => Err(de::Error::invalid_length(4, &self)),
                }
            }
        }

        deserializer.deserialize_seq(Numbers).map(Self)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{from_str, to_string};

    use super::*;

    const TEXT: &str = "Before.\n\nOperate\n\nRun it.\n\nChange\n\n1. stop\n2. start\n\nEnd";

    fn outline() -> Outline {
        from_str("[[0,3],[9,5,1],[18,7],[27,9,2],[35,11],[53,20,1]]").unwrap()
    }

    #[test]
    fn a_place_has_its_headings_and_its_line() {
        let outline = outline();
        let at = |part: &str| TEXT.find(part).unwrap();
        let headings = |part| outline.headings(TEXT, at(part));
        assert!(headings("Before").is_empty());
        assert_eq!(headings("Run"), ["Operate"]);
        assert_eq!(headings("Change"), ["Operate", "Change"]);
        assert_eq!(headings("start"), ["Operate", "Change"]);
        assert_eq!(headings("End"), ["End"]);
        assert_eq!(outline.title("", TEXT, at("Change") as u32), "Operate");
        assert_eq!(
            outline.title("Guide", TEXT, at("start") as u32),
            "Guide \u{203a} Operate \u{203a} Change"
        );
        assert_eq!(outline.title("", TEXT, 0), "");
        assert_eq!(outline.line(TEXT, at("2. start")), Some(12));
        assert_eq!(outline.line(TEXT, 0), Some(3));
        assert_eq!(Outline::default().line(TEXT, 0), None);
        assert_eq!(Outline::new(vec![Part::default()]).unwrap().line(TEXT, 0), None);
    }

    #[test]
    fn outlines_are_written_as_they_are_read_and_bad_ones_refused() {
        for json in ["[]", "[[0]]", "[[0,3],[9,5,1],[18,0,9]]"] {
            assert_eq!(to_string(&from_str::<Outline>(json).unwrap()).unwrap(), json);
        }
        for json in ["{}", "[1]", "[[]]", "[[0,1,7]]", "[[0,1,2,3]]", "[[5],[5]]", "[[-1]]", "[[1,2,\"3\"]]"]
        {
            assert!(from_str::<Outline>(json).is_err(), "{json}");
        }
        let outline = outline();
        assert!(outline.fits(TEXT) && !outline.fits("Before.") && !outline.fits(""));
    }

    #[test]
    #[cfg(feature = "folders")]
    fn plain_text_has_paragraphs() {
        let text = "one\ntwo\n\n \nthree\n";
        let outline = Outline::of_paragraphs(text, 2);
        assert_eq!(to_string(&outline).unwrap(), "[[0,2],[11,6]]");
        assert_eq!(outline.line(text, 4), Some(3));
    }
}
