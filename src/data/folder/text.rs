//! Assembles text from the pieces of a marked-up page.

use std::ops::Range;

use serde_json::{Map, Value};

use crate::data::error::DataErrorKind;
use crate::outline::{Outline, Part, lines_in, paragraph_end};

/// Most bytes of a file in a folder, the limit of a document.
pub const MAX_FILE_BYTES: u64 = 64 << 20;

/// Why a file is not read, without its name.
#[derive(Debug)]
pub(super) struct Unreadable(pub DataErrorKind, pub String);

/// Whether a list of words, separated by white space, has a word.
pub(super) fn is_in(words: &str, word: &str) -> bool {
    words.split_whitespace().any(|own| own == word)
}

/// The break before the next piece.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Break {
    None,
    Space,
    /// Between the cells of a row.
    Cell,
    Line,
    Paragraph,
}

impl Break {
    fn text(self) -> &'static str {
        match self {
            Self::None => "",
            Self::Space => " ",
            Self::Cell => "\t",
            Self::Line => "\n",
            Self::Paragraph => "\n\n",
        }
    }
}

/// A page without its markup.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Page {
    pub title: String,
    pub text: String,
    pub outline: Outline,
    /// Further metadata of the page.
    pub metadata: Map<String, Value>,
    /// Whether it explicitly has no title.
    pub is_untitled: bool,
    /// A problem in the page, and how it was handled.
    pub note: Option<String>,
}

/// A heading that is in the text.
struct Heading {
    level: u8,
    start: usize,
    end: usize,
}

/// Collects text. Runs of white space become one space, or the break given by the markup.
pub(super) struct PageText {
    text: String,
    before: Break,
    /// Whether the next piece follows a mark.
    is_marked: bool,
    /// An open heading: its level, and the start of its text.
    open: Option<(u8, Option<usize>)>,
    headings: Vec<Heading>,
    /// The line of the file that is read; 0 if unknown.
    line: u32,
    parts: Vec<Part>,
    /// The number of line ends in the text from the last part on.
    lines: u32,
}

impl Default for PageText {
    fn default() -> Self {
        Self::new()
    }
}

impl PageText {
    pub fn new() -> Self {
        let (text, before, headings, parts) = (String::new(), Break::Paragraph, Vec::new(), Vec::new());
        Self { text, before, is_marked: false, open: None, headings, line: 0, parts, lines: 0 }
    }

    /// Says on which line of the file the next pieces are.
    pub fn at_line(&mut self, line: u32) {
        self.line = line;
    }

    /// Separates the next piece from the last one. A heading is one line.
    pub fn stop(&mut self, by: Break) {
        let by = if by == Break::Line && self.open.is_some() { Break::Space } else { by };
        if !self.is_marked {
            self.before = self.before.max(by);
        }
    }

    /// Begins a line with a mark, such as the number of an item; the next piece follows it.
    pub fn mark(&mut self, mark: &str) {
        self.is_marked = false;
        self.stop(Break::Line);
        self.word(mark);
        self.before = Break::Space;
        self.is_marked = true;
    }

    pub fn push(&mut self, piece: &str) {
        if piece.starts_with(char::is_whitespace) {
            self.stop(Break::Space);
        }
        for word in piece.split_whitespace() {
            self.word(word);
            self.before = Break::Space;
        }
        if !piece.ends_with(char::is_whitespace) && !piece.is_empty() {
            self.before = Break::None;
        }
    }

    /// Adds a piece with its white space.
    pub fn push_verbatim(&mut self, piece: &str) {
        if !piece.is_empty() {
            self.word(piece);
        }
    }

    /// Adds text whose blank lines are between its paragraphs.
    pub fn push_paragraphs(&mut self, text: &str) {
        let (text, mut start) = (text.trim(), 0);
        while start < text.len() {
            let end = paragraph_end(text, start);
            self.push_verbatim(text[start..end].trim_end());
            self.stop(Break::Paragraph);
            start = end;
        }
    }

    fn word(&mut self, word: &str) {
        if !self.text.is_empty() {
            self.text.push_str(self.before.text());
            self.lines += u32::from(self.before == Break::Line);
        }
        self.note_part();
        self.before = Break::None;
        self.is_marked = false;
        if let Some((_, start @ None)) = &mut self.open {
            *start = Some(self.text.len());
        }
        self.text.push_str(word);
        self.lines += lines_in(word);
    }

    /// Notes a part of the outline that begins with the next word: a heading, a block, or a line whose number
    /// does not follow from the line ends since the last part.
    fn note_part(&mut self) {
        let level = match self.open {
            Some((level, None)) => level,
            _ if self.before == Break::Paragraph => 0,
            _ if self.line == 0 => return,
            _ if self.parts.last().is_some_and(|last| last.line + self.lines == self.line) => return,
            _ => Part::LINE,
        };
        self.parts.push(Part { start: self.text.len() as u32, line: self.line, level });
        self.lines = 0;
    }

    /// Begins a heading, and ends an open one.
    pub fn begin_heading(&mut self, level: u8) {
        self.end_heading();
        self.stop(Break::Paragraph);
        self.open = Some((level, None));
    }

    pub fn end_heading(&mut self) {
        let Some((level, start)) = self.open.take() else { return };
        self.stop(Break::Paragraph);
        let is_needed = self.headings.is_empty() || level == 1 && self.headings.iter().all(|h| h.level > 1);
        if let Some(start) = start.filter(|_| is_needed) {
            self.headings.push(Heading { level, start, end: self.text.len() });
        }
    }

    /// The first heading, on one line.
    pub fn first_heading(&self) -> Option<String> {
        let first = self.headings.iter().find(|heading| heading.level == 1).or(self.headings.first())?;
        Some(one_line(&self.text[first.start..first.end]))
    }

    /// The page. Its title is its first heading of level 1, or `title`, or its first heading; a heading that
    /// is the title is not in the text, and a `title` that is not the title is in the metadata.
    pub fn finish(mut self, title: Option<String>) -> Page {
        self.end_heading();
        let title = title.map(|title| one_line(&title)).filter(|title| !title.is_empty());
        let first = self.headings.iter().find(|heading| heading.level == 1);
        let heading = first.or_else(|| self.headings.first().filter(|_| title.is_none()));
        let Some(Heading { start, end, .. }) = heading else { return self.titled(title.unwrap_or_default()) };
        let found = self.text[*start..*end].trim().to_owned();
        let (before, after) = (self.text[..*start].trim(), self.text[*end..].trim());
        let between = if before.is_empty() || after.is_empty() { "" } else { Break::Paragraph.text() };
        let text = format!("{before}{between}{after}");
        let unused = title.filter(|title| *title != one_line(&found));
        let metadata = unused.map(|title| ("title".to_owned(), Value::String(title))).into_iter().collect();
        let kept = [(0..*start, 0), (*end..self.text.len(), before.len() + between.len())];
        let outline = self.outline_of(kept);
        Page { title: found, text, outline, metadata, ..Page::default() }
    }

    /// The outline of pieces of the text without the white space around them, each with its new start.
    fn outline_of(&self, pieces: impl IntoIterator<Item = (Range<usize>, usize)>) -> Outline {
        let mut parts: Vec<Part> = Vec::new();
        for (piece, new) in pieces {
            let text = &self.text[piece.clone()];
            let first = piece.start + text.len() - text.trim_start().len();
            let own = self.parts.iter().filter(|part| piece.contains(&(part.start as usize)));
            let moved = own
                .map(|part| Part { start: ((part.start as usize).max(first) - first + new) as u32, ..*part });
            // White space is not a part.
            parts.extend(moved.filter(|part| (part.start as usize) < new + text.trim().len()));
        }
        parts.dedup_by_key(|part| part.start);
        Outline::new(parts).unwrap_or_default()
    }

    /// The page with an explicit title; all headings stay in the text.
    pub fn titled(mut self, title: String) -> Page {
        self.end_heading();
        let outline = self.outline_of([(0..self.text.len(), 0)]);
        Page { title, text: self.text.trim().to_owned(), outline, ..Page::default() }
    }
}

/// Where the lines of a file end.
pub(super) struct Lines(Vec<usize>);

impl Lines {
    pub fn of(file: &str) -> Self {
        Self(file.bytes().enumerate().filter(|(_, byte)| *byte == b'\n').map(|(place, _)| place).collect())
    }

    /// The number of the line of a byte, from 1.
    pub fn at(&self, place: usize) -> u32 {
        self.0.partition_point(|end| *end < place) as u32 + 1
    }
}

/// A text with one space for each run of white space.
pub(super) fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
