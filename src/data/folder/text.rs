//! Assembles text from the pieces of a marked-up page.

use serde_json::{Map, Value};

/// The break before the next piece.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Break {
    None,
    Space,
    Line,
    Paragraph,
}

impl Break {
    fn text(self) -> &'static str {
        match self {
            Self::None => "",
            Self::Space => " ",
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
}

impl PageText {
    pub fn new() -> Self {
        Self { text: String::new(), before: Break::None, is_marked: false, open: None, headings: Vec::new() }
    }

    /// Separates the next piece from the last one.
    pub fn stop(&mut self, by: Break) {
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

    fn word(&mut self, word: &str) {
        if !self.text.is_empty() {
            self.text.push_str(self.before.text());
        }
        self.before = Break::None;
        self.is_marked = false;
        if let Some((_, start @ None)) = &mut self.open {
            *start = Some(self.text.len());
        }
        self.text.push_str(word);
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
        Page { title: found, text, metadata, ..Page::default() }
    }

    /// The page with an explicit title; all headings stay in the text.
    pub fn titled(mut self, title: String) -> Page {
        self.end_heading();
        Page { title, text: self.text.trim().to_owned(), ..Page::default() }
    }
}

/// A text with one space for each run of white space.
pub(super) fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
