//! What the readers of reStructuredText, Org and AsciiDoc share: lines, paragraphs and marks within them.

use std::ops::Range;

use serde_json::{Map, Value};

use super::text::{Break, Page, PageText, one_line};
use crate::outline::lines_in;

/// The lines of a file, one after the other, without white space at their ends.
#[derive(Clone)]
pub(super) struct Source<'a> {
    pub file: &'a str,
    next: usize,
    /// Where the last line begins.
    pub start: usize,
    /// Its number, from 1.
    pub number: u32,
}

impl<'a> Iterator for Source<'a> {
    type Item = &'a str;

    fn next(&mut self) -> Option<&'a str> {
        let rest = self.file.get(self.next..).filter(|rest| !rest.is_empty())?;
        let length = rest.find('\n').map_or(rest.len(), |end| end + 1);
        (self.start, self.next) = (self.next, self.next + length);
        self.number += 1;
        Some(rest[..length].trim_end())
    }
}

impl<'a> Source<'a> {
    pub fn of(file: &'a str) -> Self {
        Self { file, next: 0, start: 0, number: 0 }
    }

    /// The line after the next `skipped` ones, which stay to be read.
    pub fn peek(&self, skipped: usize) -> Option<&'a str> {
        self.clone().nth(skipped)
    }

    /// The same with the last line before them.
    pub fn take_block_with_line(&mut self, is_in: impl FnMut(&str) -> bool) -> (&'a str, u32) {
        let (start, first) = (self.start, self.number);
        self.take_block(is_in);
        (&self.file[start..self.next], first)
    }

    /// Reads on while lines are accepted, and returns their text and the number of the first.
    pub fn take_block(&mut self, mut is_in: impl FnMut(&str) -> bool) -> (&'a str, u32) {
        let (start, first) = (self.next, self.number + 1);
        while self.peek(0).is_some_and(&mut is_in) {
            self.next();
        }
        (&self.file[start..self.next], first)
    }
}

/// The width of the white space before a line.
pub(super) fn indent(line: &str) -> usize {
    line.len() - line.trim_start_matches([' ', '\t']).len()
}

/// The length of the mark of an item and the white space after it, and whether it is a number, which readers
/// see.
pub(super) fn item_mark(text: &str, bullets: &[char]) -> Option<(usize, bool)> {
    let mark = text.split(char::is_whitespace).next().unwrap_or_default();
    let length = text.len() - text[mark.len()..].trim_start().len();
    let inside = mark.strip_suffix(['.', ')']).map(|mark| mark.strip_prefix('(').unwrap_or(mark));
    let is_number = |inside: &str| {
        let is_letter = inside.len() == 1 && inside.chars().all(|c| c.is_ascii_alphabetic());
        (1..=9).contains(&inside.len()) && inside.bytes().all(|byte| byte.is_ascii_digit()) || is_letter
    };
    if mark.chars().count() == 1 && mark.starts_with(bullets) || inside == Some("#") {
        Some((length, false)).filter(|_| length > mark.len())
    } else {
        Some((length, true)).filter(|_| length > mark.len() && inside.is_some_and(is_number))
    }
}

/// An open paragraph: a part of the file, the line on which it begins, and its indentation.
pub(super) struct Paragraph {
    start: usize,
    pub end: usize,
    line: u32,
    pub indent: usize,
    /// Whether it is the item of a list, so that another one may follow it at once.
    pub is_item: bool,
}

/// Adds paragraphs, headings and listings to a page.
pub(super) struct Writer<'a> {
    pub page: PageText,
    file: &'a str,
    rule: Rule,
    pub open: Option<Paragraph>,
    pub fields: Map<String, Value>,
}

impl<'a> Writer<'a> {
    pub fn new(file: &'a str, rule: Rule) -> Self {
        Self { page: PageText::new(), file, rule, open: None, fields: Map::new() }
    }

    /// Adds the last line of the source, from a byte of it, to the paragraph; begins one if none is open.
    pub fn line(&mut self, source: &Source<'_>, line: &str, from: usize) {
        let (start, end) = (source.start + from, source.start + line.len());
        match &mut self.open {
            Some(open) => open.end = end,
            None => {
                let paragraph = Paragraph { start, end, line: source.number, indent: from, is_item: false };
                self.open = Some(paragraph);
            }
        }
    }

    /// Begins an item, whose text begins at a byte of the last line, with its number if it has one.
    pub fn item(&mut self, source: &Source<'_>, line: &str, from: usize, shown: usize) {
        let is_within = self.open.as_ref().is_none_or(|open| open.is_item);
        self.flush(if is_within { Break::Line } else { Break::Paragraph });
        self.line(source, line, shown);
        if let Some(open) = &mut self.open {
            (open.indent, open.is_item) = (from, true);
        }
    }

    /// The text of the open paragraph.
    pub fn paragraph(&self) -> &'a str {
        self.open.as_ref().map_or("", |open| &self.file[open.start..open.end.max(open.start)])
    }

    /// Ends the paragraph.
    pub fn flush(&mut self, by: Break) {
        let text = self.paragraph();
        if let Some(open) = self.open.take() {
            self.inline(text, open.line);
        }
        self.page.stop(by);
    }

    pub fn heading(&mut self, level: usize, text: &str, line: u32) {
        self.flush(Break::Paragraph);
        self.page.begin_heading(level.min(6) as u8);
        self.inline(text, line);
        self.page.end_heading();
    }

    /// Adds a listing without its margin.
    pub fn listing(&mut self, (text, first): (&str, u32)) {
        self.flush(Break::Paragraph);
        let blank = text.lines().take_while(|line| line.trim().is_empty()).count();
        let lines = || text.lines().skip(blank).map(str::trim_end);
        let margin = lines().filter(|line| !line.is_empty()).map(indent).min().unwrap_or_default();
        let mut listing = String::new();
        for line in lines() {
            listing.push_str(line.get(margin..).unwrap_or_default());
            listing.push('\n');
        }
        self.page.at_line(first + blank as u32);
        self.page.push_verbatim(listing.trim_end());
        self.page.stop(Break::Paragraph);
    }

    /// Adds the row of a table.
    pub fn row<'b>(&mut self, cells: impl Iterator<Item = &'b str>, line: u32) {
        self.flush(Break::Line);
        for cell in cells.map(str::trim) {
            self.inline(cell, line);
            self.page.stop(Break::Cell);
        }
        self.page.stop(Break::Line);
    }

    /// Adds words that the markup stands for, as a block of their own.
    pub fn words(&mut self, words: &str, line: u32) {
        self.flush(Break::Paragraph);
        self.page.at_line(line);
        self.page.push(words);
        self.page.stop(Break::Paragraph);
    }

    /// Keeps a field of the file as metadata, the first of a name.
    pub fn field(&mut self, name: &str, value: &str) {
        if !value.is_empty() {
            self.fields.entry(name).or_insert_with(|| one_line(value).into());
        }
    }

    pub fn finish(mut self) -> Page {
        self.flush(Break::Paragraph);
        let mut page = match self.fields.remove("title") {
            Some(Value::String(title)) => self.page.titled(title),
            _ => self.page.finish(None),
        };
        page.metadata.append(&mut self.fields);
        page
    }

    /// Adds text without its marks.
    fn inline(&mut self, text: &str, line: u32) {
        let mut scan = Inline { text, known: Vec::new() };
        // The ends of marks that were found, and of the text that is done.
        let (mut ends, mut at, mut done): (Vec<(usize, usize)>, _, _) = (Vec::new(), 0, 0);
        let mut out = Pieces { page: &mut self.page, line };
        while at < text.len() {
            if let Some(&(_, end)) = ends.iter().find(|(start, _)| *start == at) {
                out.push(&text[done..at]);
                out.skip(&text[at..end]);
                (at, done) = (end, end);
                ends.retain(|(start, _)| *start >= at);
                continue;
            }
            let found = (self.rule)(&mut scan, at);
            let Some(Mark { from, inside, end, is_verbatim }) =
                found.filter(|mark| mark.from >= done && !ends.iter().any(|end| end.0 == mark.inside.end))
            else {
                at += 1;
                continue;
            };
            out.push(&text[done..from]);
            out.skip(&text[from..inside.start]);
            if is_verbatim {
                out.push(&text[inside.clone()]);
                out.skip(&text[inside.end..end]);
                (at, done) = (end, end);
            } else {
                ends.push((inside.end, end));
                (at, done) = (inside.start, inside.start);
            }
            ends.retain(|(start, _)| *start >= at);
        }
        out.push(&text[done..]);
    }
}

struct Pieces<'a> {
    page: &'a mut PageText,
    line: u32,
}

impl Pieces<'_> {
    fn push(&mut self, text: &str) {
        for (number, piece) in text.split('\n').enumerate() {
            if number > 0 {
                self.line += 1;
                self.page.stop(Break::Space);
            }
            self.page.at_line(self.line);
            self.page.push(piece);
        }
    }

    fn skip(&mut self, text: &str) {
        self.line += lines_in(text);
    }
}

/// A piece of markup, of which only the text inside is shown.
pub(super) struct Mark {
    pub from: usize,
    pub inside: Range<usize>,
    pub end: usize,
    /// Whether the text inside has no marks of its own.
    pub is_verbatim: bool,
}

impl Mark {
    /// Nothing is shown of a part.
    pub fn nothing(part: Range<usize>) -> Self {
        Self::verbatim(part.clone(), part.end..part.end)
    }

    pub fn verbatim(part: Range<usize>, inside: Range<usize>) -> Self {
        Self { from: part.start, inside, end: part.end, is_verbatim: true }
    }
}

/// Finds the mark at a byte, which may be within a character.
pub(super) type Rule = fn(&mut Inline<'_>, usize) -> Option<Mark>;

/// The text of a paragraph, with the places of marks that were looked for, so that no text is searched twice.
pub(super) struct Inline<'a> {
    pub text: &'a str,
    known: Vec<(&'static str, bool, usize, usize)>,
}

impl Inline<'_> {
    pub fn before(&self, at: usize) -> Option<char> {
        self.text[..at].chars().next_back()
    }

    pub fn after(&self, at: usize) -> Option<char> {
        self.text[at..].chars().next()
    }

    /// The next place of a mark.
    pub fn find(&mut self, mark: &'static str, from: usize) -> Option<usize> {
        self.search(mark, false, from)
    }

    /// The text between a mark at a place, before a word, and the same one after a word.
    pub fn span(&mut self, mark: &'static str, at: usize) -> Option<Range<usize>> {
        let start = at + mark.len();
        if self.before(at).is_some_and(char::is_alphanumeric)
            || self.after(start).is_none_or(char::is_whitespace)
        {
            return None;
        }
        self.search(mark, true, start + 1).map(|end| start..end)
    }

    fn search(&mut self, mark: &'static str, ends_word: bool, from: usize) -> Option<usize> {
        const NOWHERE: usize = usize::MAX;
        let place = self.known.iter().position(|known| (known.0, known.1) == (mark, ends_word));
        if let Some((.., start, end)) = place.map(|place| self.known[place])
            && (start..=end).contains(&from)
        {
            return Some(end).filter(|end| *end != NOWHERE);
        }
        let ends = |at: usize| {
            !ends_word
                || !self.before(at).is_none_or(char::is_whitespace)
                    && !self.after(at + mark.len()).is_some_and(char::is_alphanumeric)
        };
        let mut at = from;
        let found = loop {
            // Bytes of a mark are not within a character.
            let bytes = self.text.as_bytes().get(at..).unwrap_or_default();
            let Some(next) = find(bytes, mark.as_bytes()).map(|next| at + next) else { break NOWHERE };
            if ends(next) {
                break next;
            }
            at = next + 1;
        };
        let known = (mark, ends_word, from, found);
        match place {
            Some(place) => self.known[place] = known,
            None => self.known.push(known),
        }
        Some(found).filter(|found| *found != NOWHERE)
    }
}

fn find(text: &[u8], mark: &[u8]) -> Option<usize> {
    text.windows(mark.len()).position(|part| part == mark)
}
