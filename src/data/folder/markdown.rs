//! The text of a Markdown file.

use std::mem;
use std::ops::Range;

use pulldown_cmark::{CowStr, Event, LinkType, Options, Parser, Tag, TagEnd};
use serde_json::{Map, Value};

use super::front::{self, Front};
use super::html;
use super::text::{Break, Lines, Page, PageText, one_line};
use crate::outline::lines_in;

/// The title, text and front matter of a file.
pub(super) fn page(file: &str) -> Page {
    match Front::of(file) {
        Front::Absent => {
            let note = front::is_late(file).then(|| {
                "a block like front matter is read as text, because it does not begin on the first line"
                    .to_owned()
            });
            Page { note, ..body(file, Some(1), PageText::new()).finish(None) }
        }
        Front::Read { mut fields, is_untitled, rest } => {
            let title = title(&mut fields);
            tags(&mut fields);
            let body = body(rest, Some(line_of(file, rest)), PageText::new());
            let page = match title {
                Some(title) => body.titled(title),
                None => body.finish(None),
            };
            Page { metadata: fields, is_untitled, ..page }
        }
        Front::Malformed { block, rest, why } => {
            let mut start = PageText::new();
            start.at_line(1);
            start.push_verbatim(block.trim_end());
            start.stop(Break::Paragraph);
            let note = format!("the front matter is read as text, because it cannot be parsed: {why}");
            Page { note: Some(note), ..body(rest, Some(line_of(file, rest)), start).finish(None) }
        }
    }
}

/// Takes the title out of front matter, on one line.
fn title(fields: &mut Map<String, Value>) -> Option<String> {
    let title = match fields.get("title")? {
        Value::String(text) => one_line(text),
        number @ Value::Number(_) => number.to_string(),
        _ => return None,
    };
    fields.remove("title");
    Some(title).filter(|title| !title.is_empty())
}

/// Splits tags in a comma-separated text, as in older notes, and strips their `#`.
fn tags(fields: &mut Map<String, Value>) {
    let Some(tags) = fields.get_mut("tags") else { return };
    if let Value::String(text) = tags
        && text.contains(',')
    {
        *tags = text.split(',').map(str::trim).filter(|tag| !tag.is_empty()).collect();
    }
    let bare = |tag: &mut Value| {
        if let Some(text) = tag.as_str().and_then(|text| text.strip_prefix('#')) {
            *tag = Value::String(text.to_owned())
        }
    };
    match tags {
        Value::Array(tags) => tags.iter_mut().for_each(bare),
        tag => bare(tag),
    }
}

/// The line on which the rest of a file begins.
fn line_of(file: &str, rest: &str) -> u32 {
    1 + lines_in(&file[..file.len() - rest.len()])
}

/// Adds Markdown without front matter, which begins on a line of its file if it is known, to a page.
pub(super) fn body(markdown: &str, first: Option<u32>, page: PageText) -> PageText {
    let options = Options::ENABLE_TABLES
        | Options::ENABLE_FOOTNOTES
        | Options::ENABLE_STRIKETHROUGH
        | Options::ENABLE_TASKLISTS
        | Options::ENABLE_WIKILINKS;
    let mut reader = Reader {
        markdown,
        page,
        html: String::new(),
        in_code: false,
        numbers: Vec::new(),
        cell_end: 0,
        taken: 0,
        callout_end: 0,
    };
    let lines = Lines::of(markdown);
    for (event, place) in Parser::new_ext(markdown, options).into_offset_iter() {
        reader.page.at_line(first.map_or(0, |first| first - 1 + lines.at(place.start)));
        reader.event(event, place);
    }
    reader.page
}

struct Reader<'a> {
    markdown: &'a str,
    page: PageText,
    /// An incomplete block of HTML.
    html: String,
    in_code: bool,
    /// The number of the next item of each open list, if numbered.
    numbers: Vec<Option<u64>>,
    /// End of the last cell of a table.
    cell_end: usize,
    /// The end of the source that is already in the page.
    taken: usize,
    /// End of the first line of a callout.
    callout_end: usize,
}

impl Reader<'_> {
    fn event(&mut self, event: Event<'_>, place: Range<usize>) {
        match event {
            Event::Start(tag) => self.start(&tag, place),
            Event::End(tag) => self.end(tag, place),
            Event::Text(_) | Event::Code(_) if place.end <= self.taken => {}
            Event::Text(_) if place.start < self.taken => {
                self.page.push(&self.markdown[self.taken..place.end])
            }
            Event::Text(text) if self.in_code => self.page.push_verbatim(&text),
            Event::Text(text) | Event::Code(text) => self.page.push(&text),
            Event::Html(text) => self.html.push_str(&text),
            Event::InlineHtml(tag) => html::read(&tag, &mut self.page),
            Event::SoftBreak if place.start == self.callout_end => self.page.stop(Break::Paragraph),
            Event::SoftBreak => self.page.stop(Break::Space),
            Event::HardBreak => self.page.stop(Break::Line),
            Event::Rule => self.page.stop(Break::Paragraph),
            _ => {}
        }
    }

    fn start(&mut self, tag: &Tag<'_>, place: Range<usize>) {
        match tag {
            Tag::Heading { level, .. } => self.page.begin_heading(*level as u8),
            Tag::CodeBlock(_) => {
                self.page.stop(Break::Paragraph);
                self.in_code = true;
            }
            Tag::Item => match self.numbers.last_mut() {
                Some(Some(number)) => {
                    self.page.mark(&format!("{number}."));
                    *number = number.saturating_add(1);
                }
                _ => self.page.stop(Break::Line),
            },
            Tag::List(number) => {
                self.page.stop(Break::Paragraph);
                self.numbers.push(*number);
            }
            Tag::TableRow | Tag::TableHead => self.page.stop(Break::Line),
            Tag::TableCell => self.page.stop(Break::Cell),
            Tag::BlockQuote(_) => {
                self.page.stop(Break::Paragraph);
                self.callout(place);
            }
            Tag::Paragraph | Tag::Table(_) | Tag::FootnoteDefinition(_) => self.page.stop(Break::Paragraph),
            Tag::Link { link_type: LinkType::WikiLink { has_pothole: true }, dest_url, .. }
                // Brackets of a shell or a program, kept in full.
                if dest_url.trim() != &**dest_url => {
                    self.take(place);
                }
            Tag::Image { link_type, dest_url, .. } => {
                self.page.stop(Break::Space);
                if let LinkType::WikiLink { has_pothole: true } = link_type {
                    self.embed(dest_url, place);
                }
            }
            _ => {}
        }
    }

    fn end(&mut self, tag: TagEnd, place: Range<usize>) {
        match tag {
            TagEnd::Heading(_) => self.page.end_heading(),
            TagEnd::CodeBlock => {
                self.page.stop(Break::Paragraph);
                self.in_code = false;
            }
            TagEnd::HtmlBlock => {
                self.page.stop(Break::Paragraph);
                html::read(&mem::take(&mut self.html), &mut self.page);
                self.page.stop(Break::Paragraph);
            }
            TagEnd::TableCell => self.cell_end = place.end,
            TagEnd::Item | TagEnd::TableRow | TagEnd::TableHead => {
                if !matches!(tag, TagEnd::Item) {
                    self.further_cells(place);
                }
                self.page.stop(Break::Line);
            }
            TagEnd::List(_) => {
                self.numbers.pop();
                self.page.stop(Break::Paragraph);
            }
            TagEnd::Paragraph | TagEnd::BlockQuote(_) | TagEnd::Table => self.page.stop(Break::Paragraph),
            TagEnd::Image => self.page.stop(Break::Space),
            _ => {}
        }
    }

    /// Adds a piece of Markdown unchanged.
    fn take(&mut self, place: Range<usize>) {
        self.taken = place.end;
        self.page.push(&self.markdown[place]);
    }

    /// Adds the name of an embedded file; the words after the `|` are its size, or a text shown instead.
    fn embed(&mut self, name: &CowStr<'_>, place: Range<usize>) {
        let label = self.markdown[place.clone()].rsplit_once('|').map_or("", |(_, label)| label);
        let label = label.trim_end_matches(']');
        self.page.push(name);
        self.page.stop(Break::Space);
        if label.chars().all(|c| c.is_ascii_digit() || c == 'x') {
            self.taken = place.end;
        }
    }

    /// Adds the cells of a row beyond the table's head, which have no events.
    fn further_cells(&mut self, row: Range<usize>) {
        let rest = self.markdown.get(self.cell_end..row.end).unwrap_or_default();
        for cell in rest.split('|').map(str::trim).filter(|cell| !cell.is_empty()) {
            self.page.stop(Break::Cell);
            self.page.push(cell);
        }
    }

    /// The first line of a callout (`> [!tip]- Words`): its words, or the name of its kind.
    fn callout(&mut self, quote: Range<usize>) {
        let text = &self.markdown[quote.clone()];
        // Looked for first, as a line may have many quotes within one another.
        if !text.trim_start().strip_prefix('>').is_some_and(|text| text.trim_start().starts_with("[!")) {
            return;
        }
        let line = text.lines().next().unwrap_or_default();
        let Some((kind, rest)) = line.split_once("[!").and_then(|(_, rest)| rest.split_once(']')) else {
            return;
        };
        let rest = rest.strip_prefix(['+', '-']).unwrap_or(rest);
        let kind = kind.split('|').next().unwrap_or_default().trim();
        if kind.is_empty() || !kind.chars().all(|c| c.is_alphanumeric() || matches!(c, '-' | '_' | ' ')) {
            return;
        }
        self.callout_end = quote.start + line.len();
        self.taken = self.callout_end - rest.len();
        if rest.trim().is_empty() {
            let mut letters = kind.chars();
            let first = letters.next().into_iter().flat_map(char::to_uppercase);
            self.page.push(&first.chain(letters.flat_map(char::to_lowercase)).collect::<String>());
            self.page.stop(Break::Paragraph);
        }
    }
}

#[cfg(test)]
mod tests;
