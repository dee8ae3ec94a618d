//! The text of OpenDocument texts (ODT).

use std::mem;

use super::archive::{self, Archive, Node, Tag, read};
use super::text::{Break, Page, PageText, Unreadable};

/// The text with its headings, tables, lists and notes; without headers, footers, comments and text that was
/// deleted.
pub(super) fn page(file: &[u8]) -> Result<Page, Unreadable> {
    let mut archive = Archive::open(file, "ODT")?;
    let mut body = Body::default();
    let content = archive.part("content.xml")?;
    read(&content, |node| match node {
        Node::Start(tag) if is_unread(tag.name()) => body.unread += 1,
        Node::End(name) if is_unread(name) => body.unread -= 1,
        _ if body.unread > 0 => {}
        Node::Start(tag) => body.start(&tag),
        Node::End(name) => body.end(name),
        Node::Text(text) if body.is_heading && body.notes > 0 => body.aside.push_str(text),
        Node::Text(text) if body.paragraphs + body.pictures > 0 => body.page.push(text),
        Node::Text(_) => {}
    })?;
    let title = archive.title("meta.xml")?;
    Ok(archive::page(body.page, title))
}

/// Whether the content of an element is not part of the text: deletions, comments, and the mark of a note.
fn is_unread(name: &str) -> bool {
    matches!(name, "tracked-changes" | "annotation" | "note-citation")
}

#[derive(Default)]
struct Body {
    page: PageText,
    /// Whether a heading is open, and its notes, which are read after it.
    is_heading: bool,
    aside: String,
    /// Numbers of open notes, and of open frames of pictures, whose titles and descriptions are read.
    notes: usize,
    pictures: usize,
    /// Numbers of open paragraphs, items of lists, and cells of tables.
    paragraphs: usize,
    items: usize,
    cells: usize,
    unread: usize,
}

impl Body {
    fn start(&mut self, tag: &Tag<'_>) {
        match tag.name() {
            "h" | "p" if self.is_heading && self.notes > 0 => {
                self.paragraphs += 1;
                self.aside.push(' ');
            }
            "h" => {
                self.paragraphs += 1;
                self.is_heading = true;
                let level = tag.value("outline-level").and_then(|level| level.parse().ok());
                self.page.begin_heading(level.unwrap_or(1).clamp(1, 6));
            }
            "p" => {
                self.paragraphs += 1;
                let is_title = tag.value("style-name").is_some_and(|style| style == "Title");
                match is_title && self.cells == 0 {
                    true => {
                        self.is_heading = true;
                        self.page.begin_heading(1);
                    }
                    false => self.page.stop(self.around(self.paragraphs > 1)),
                }
            }
            "frame" => self.pictures += 1,
            "title" | "desc" if self.pictures > 0 => self.page.stop(self.around(self.paragraphs > 0)),
            "list" if self.cells == 0 && self.items == 0 => self.page.stop(Break::Paragraph),
            "list-item" => self.items += 1,
            "s" | "tab" => self.page.stop(Break::Space),
            "line-break" => self.page.stop(Break::Line),
            "note" => {
                self.notes += 1;
                self.page.stop(Break::Space);
            }
            "table" => self.page.stop(Break::Paragraph),
            "table-row" => self.page.stop(Break::Line),
            "table-cell" => {
                self.page.stop(Break::Cell);
                self.cells += 1;
            }
            _ => {}
        }
    }

    fn end(&mut self, name: &str) {
        match name {
            "h" | "p" => {
                self.paragraphs = self.paragraphs.saturating_sub(1);
                if self.paragraphs == 0 {
                    self.page.end_heading();
                    self.is_heading = false;
                    self.page.stop(self.around(false));
                    self.page.push(&mem::take(&mut self.aside));
                }
                self.page.stop(self.around(self.paragraphs > 0));
            }
            "list-item" => {
                self.items = self.items.saturating_sub(1);
                self.page.stop(Break::Line);
            }
            "list" if self.cells == 0 && self.items == 0 => self.page.stop(Break::Paragraph),
            "frame" => self.pictures = self.pictures.saturating_sub(1),
            "title" | "desc" if self.pictures > 0 => self.page.stop(self.around(self.paragraphs > 0)),
            "note" => {
                self.notes = self.notes.saturating_sub(1);
                self.page.stop(Break::Space);
            }
            "table" => self.page.stop(Break::Paragraph),
            "table-row" => self.page.stop(Break::Line),
            "table-cell" => self.cells = self.cells.saturating_sub(1),
            _ => {}
        }
    }

    /// The break around a paragraph. The cells of a row are on one line, and a note is in the line of its
    /// paragraph.
    fn around(&self, is_within: bool) -> Break {
        match (self.cells > 0 || is_within, self.items) {
            (true, _) => Break::Space,
            (false, 0) => Break::Paragraph,
            (false, _) => Break::Line,
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::data::folder::archive::tests::zipped;

    use super::*;

    #[test]
    fn a_document_is_its_headings_lists_tables_and_notes() {
        let content = "<office:text><text:tracked-changes><text:p>no</text:p></text:tracked-changes>\
            <text:h text:outline-level=\"1\">Tea</text:h><text:p>Steep<text:s/>it<text:note><text:note-citation>1\
            </text:note-citation><text:note-body><text:p>A note.</text:p></text:note-body></text:note>well.</text:p>\
            <text:h text:outline-level=\"9\">Tools</text:h><text:list><text:list-item><text:p>a pot</text:p><text:list>\
            <text:list-item><text:p>its lid</text:p></text:list-item></text:list></text:list-item><text:list-item>\
            <text:p>a cup</text:p></text:list-item></text:list><text:p>One<text:line-break/>two<office:annotation>\
            <text:p>no</text:p></office:annotation></text:p><table:table><table:table-row><table:table-cell><text:p>1\
            </text:p></table:table-cell><table:table-cell><text:p>2</text:p></table:table-cell></table:table-row>\
            <table:table-row><table:table-cell><text:p>3</text:p></table:table-cell></table:table-row></table:table>\
            <draw:frame><svg:title>A pot</svg:title></draw:frame><text:h>Cups<text:note><text:note-citation>2\
            </text:note-citation><text:note-body><text:p>Not</text:p><text:p>mugs.</text:p></text:note-body>\
            </text:note></text:h><text:p>See<draw:frame><svg:title>a cup</svg:title><svg:desc>with tea</svg:desc>\
            </draw:frame>and <text:title>x</text:title>.</text:p></office:text>";
        let meta = "<office:meta><dc:title>Drinks</dc:title></office:meta>";
        let read = page(&zipped([("content.xml", content), ("meta.xml", meta)])).unwrap();
        let text = "Tea\n\nSteep it A note. well.\n\nTools\n\na pot\nits lid\na cup\n\nOne\ntwo\n\n1\t2\n3\n\n\
            A pot\n\nCups\n\nNot mugs.\n\nSee a cup with tea and x.";
        assert_eq!((&*read.title, &*read.text), ("Drinks", text));
        assert_eq!(read.outline.headings(text, text.find("lid").unwrap()), ["Tea", "Tools"]);
        assert_eq!(page(&zipped([("content.xml", content)])).unwrap().title, "Tea");
    }
}
